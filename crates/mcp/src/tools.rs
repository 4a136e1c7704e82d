//! The list of tools as one key sees it, and the search in a large one.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use ringfence_engine::data::{Catalogue, ToolEntry, ranked};
use ringfence_types::{Digest, Json, KeyId, Origin, STRUCTURED_CONTENT, ToolName, move_references};
use rmcp::{
    ErrorData,
    model::{
        CacheScope, CallToolResult, ContentBlock, JsonObject, ListToolsResult, MetaObject,
        PaginatedRequestParams, ServerNotification, Tool, ToolAnnotations,
    },
    service::{SubscriptionContext, SubscriptionSendError},
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    handler::{Client, Shared},
    metadata,
};

/// Tool of the door: the result of a call that was made earlier.
pub(crate) const RESULT_TOOL: &str = "call_result";
/// Tool of the door: searches a large catalogue.
pub(crate) const SEARCH_TOOL: &str = "tools_search";

/// Time for which a client may keep a list. Changes are told to clients that listen.
const LIST_LIFETIME: Duration = Duration::from_secs(30);
/// Keys whose lists are remembered.
const MAX_REMEMBERED: usize = 256;
/// Tools in one answer of the search.
const MAX_FOUND: usize = 20;

/// Lists by key, each as long as tools and rules stay the same: asking policy about a whole catalogue is
/// a hundred questions.
#[derive(Debug, Default)]
pub(crate) struct Visible(Mutex<HashMap<KeyId, Remembered>>);

#[derive(Debug)]
struct Remembered {
    catalogue: Arc<Catalogue>,
    policy: Digest,
    at: Instant,
    tools: Arc<[Arc<ToolEntry>]>,
}

impl Shared {
    /// Tools that policy may let the client call, sorted by name.
    pub(crate) async fn visible_tools(&self, client: &Client) -> Arc<[Arc<ToolEntry>]> {
        let who = client.principal();
        let (catalogue, policy) = (self.engine.tools(), self.engine.policy_revision());
        if let Some(tools) = self.visible.get(who.key, &catalogue, policy) {
            return tools;
        }
        let tools: Arc<[_]> = self.engine.callable_tools(who, &catalogue).await.into();
        let at = Instant::now();
        self.visible.put(who.key, Remembered { catalogue, policy, at, tools: tools.clone() });
        tools
    }

    pub(crate) async fn list_tools(
        &self,
        client: &Client,
        request: Option<PaginatedRequestParams>,
    ) -> Result<ListToolsResult, ErrorData> {
        let after = cursor(request)?;
        let visible = self.visible_tools(client).await;
        let is_large = visible.len() > self.config.page;
        let mut page = page(&visible, after.as_ref(), self.config.page);
        let mut tools = match after {
            None => own_tools(is_large),
            Some(_) => Vec::new(),
        };
        tools.extend(page.entries.drain(..).map(|entry| tool(entry)));
        let lifetime = u64::try_from(LIST_LIFETIME.as_millis()).unwrap_or(u64::MAX);
        let mut result = ListToolsResult::with_all_items(tools)
            .with_ttl_ms(lifetime)
            .with_cache_scope(CacheScope::Private);
        result.next_cursor = page.next;
        Ok(result)
    }

    /// Answers `tools_search`.
    pub(crate) async fn search(
        &self,
        client: &Client,
        args: &Json,
    ) -> Result<CallToolResult, ErrorData> {
        let SearchArguments { query, limit } = match args.read() {
            Ok(read) => read,
            Err(error) => {
                let text = ContentBlock::text(format!("Invalid arguments: {error}"));
                let mut result = CallToolResult::error(vec![text]);
                result.meta = Some(metadata::of_refusal("args_invalid"));
                return Ok(result);
            }
        };
        let visible = self.visible_tools(client).await;
        let found = ranked(visible.iter(), &query);
        let limit = limit.unwrap_or(10).clamp(1, MAX_FOUND);
        let tools: Vec<Value> = found
            .iter()
            .take(limit)
            .map(|entry| {
                let tool = &entry.tool;
                json!({
                    "name": tool.name.as_str(),
                    "description": tool.description,
                    "input_schema": tool.input_schema,
                })
            })
            .collect();
        let answer = json!({"matches": found.len(), "tools": tools});
        let mut result = CallToolResult::success(vec![ContentBlock::text(answer.to_string())]);
        result.structured_content = Some(answer);
        Ok(result)
    }

    /// Tells a subscriber of every change to the tools, until it goes away or the server stops.
    pub(crate) async fn follow_tools(&self, subscription: &SubscriptionContext) {
        let mut changes = self.engine.tool_changes();
        loop {
            tokio::select! {
                () = subscription.cancelled() => return,
                () = self.edge.stopping().cancelled() => return,
                () = changes.next() => {}
            }
            let changed = ServerNotification::ToolListChangedNotification(Default::default());
            let sent = subscription.sink().send(changed).await;
            if matches!(sent, Err(SubscriptionSendError::SubscriptionClosed)) {
                return;
            }
        }
    }
}

impl Visible {
    fn get(
        &self,
        key: KeyId,
        catalogue: &Arc<Catalogue>,
        policy: Digest,
    ) -> Option<Arc<[Arc<ToolEntry>]>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = kept.get(&key)?;
        let is_current = Arc::ptr_eq(&kept.catalogue, catalogue)
            && kept.policy == policy
            // Rules may read the clock.
            && kept.at.elapsed() < LIST_LIFETIME;
        is_current.then(|| kept.tools.clone())
    }

    fn put(&self, key: KeyId, list: Remembered) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MAX_REMEMBERED {
            kept.retain(|_, list| list.at.elapsed() < LIST_LIFETIME);
        }
        if kept.len() >= MAX_REMEMBERED {
            kept.clear();
        }
        kept.insert(key, list);
    }
}

/// A page of a list that is sorted by name.
pub(crate) struct Page<'a> {
    pub(crate) entries: Vec<&'a Arc<ToolEntry>>,
    /// Cursor of the next page: the last name of this one.
    pub(crate) next: Option<String>,
}

pub(crate) fn page<'a>(
    all: &'a [Arc<ToolEntry>],
    after: Option<&ToolName>,
    size: usize,
) -> Page<'a> {
    let from = after.map_or(0, |after| all.partition_point(|entry| entry.tool.name <= *after));
    let entries: Vec<_> = all[from..].iter().take(size).collect();
    let has_more = from + entries.len() < all.len();
    let last = entries.last().map(|entry| entry.tool.name.to_string());
    Page { entries, next: last.filter(|_| has_more) }
}

/// The name after which a page begins.
pub(crate) fn cursor(
    request: Option<PaginatedRequestParams>,
) -> Result<Option<ToolName>, ErrorData> {
    let Some(cursor) = request.and_then(|request| request.cursor) else { return Ok(None) };
    let name = cursor.parse();
    name.map(Some).map_err(|_| ErrorData::invalid_params("not a cursor of this list", None))
}

/// A tool as clients see it.
pub(crate) fn tool(entry: &ToolEntry) -> Tool {
    let tool = &entry.tool;
    let name = tool.name.to_string();
    let schema = input_schema(&tool.input_schema);
    let mut shown = Tool::new(name, tool.description.clone(), schema);
    shown.output_schema = match tool.origin {
        Origin::Mcp => structured_schema(&tool.output_schema),
        _ => output_schema(&tool.output_schema),
    };
    let is_open = |flag: &String| matches!(flag.as_str(), "external_call" | "network_access");
    shown.annotations = Some(
        ToolAnnotations::new()
            .destructive(!tool.is_pure())
            .open_world(tool.safety_flags.iter().any(is_open)),
    );
    let mut meta = MetaObject::new();
    meta.0.insert("dev.ringfence/version".to_owned(), json!(tool.version));
    meta.0.insert("dev.ringfence/digest".to_owned(), json!(tool.digest));
    meta.0.insert("dev.ringfence/safety_flags".to_owned(), json!(tool.safety_flags));
    shown.meta = Some(meta);
    shown
}

fn object(schema: &Json) -> JsonObject {
    match schema.to_value() {
        Value::Object(fields) => fields,
        _ => JsonObject::new(),
    }
}

/// The schema as it is; the protocol wants it to say that arguments are an object.
fn input_schema(schema: &Json) -> Arc<JsonObject> {
    let mut fields = object(schema);
    fields.entry("type").or_insert_with(|| json!("object"));
    Arc::new(fields)
}

/// The schema of the structured part of a result of another MCP server, as that server wrote it.
fn structured_schema(schema: &Json) -> Option<Arc<JsonObject>> {
    let mut fields = object(schema);
    let mut schema = fields.get_mut("properties")?.get_mut("structuredContent")?.take();
    move_references(&mut schema, STRUCTURED_CONTENT, "#");
    match schema {
        Value::Object(fields) => Some(Arc::new(fields)),
        _ => None,
    }
}

/// The schema of results that are objects; revisions before 2026-07-28 know no others.
fn output_schema(schema: &Json) -> Option<Arc<JsonObject>> {
    let fields = object(schema);
    (fields.get("type") == Some(&json!("object"))).then(|| Arc::new(fields))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchArguments {
    query: String,
    limit: Option<usize>,
}

/// Tools of the door itself. They make no call, so policy is not asked about them.
fn own_tools(has_search: bool) -> Vec<Tool> {
    let result = Tool::new(
        RESULT_TOOL,
        "Returns the result of a call that was held or still running, by its call id.",
        schema(json!({
            "type": "object",
            "properties": {
                "call_id": {"type": "string", "description": "Id of the call"},
                "wait_secs": {
                    "type": "integer", "minimum": 0, "maximum": 300,
                    "description": "Seconds to wait for the end of the call; default 0",
                },
            },
            "required": ["call_id"],
            "additionalProperties": false,
        })),
    );
    let search = Tool::new(
        SEARCH_TOOL,
        "Searches all tools of this server by words of their names, tags and descriptions.",
        schema(json!({
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "Words to look for"},
                "limit": {"type": "integer", "minimum": 1, "maximum": MAX_FOUND, "default": 10},
            },
            "required": ["query"],
            "additionalProperties": false,
        })),
    );
    let mut tools = vec![result];
    tools.extend(has_search.then_some(search));
    for tool in &mut tools {
        tool.annotations = Some(ToolAnnotations::new().read_only(true).open_world(false));
    }
    tools
}

fn schema(value: Value) -> JsonObject {
    match value {
        Value::Object(fields) => fields,
        _ => JsonObject::new(),
    }
}
