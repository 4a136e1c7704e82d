//! Resources: skills with their guides and files, receipts of calls, and what their programs wrote.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use ringfence_engine::{
    OutputStream,
    data::{Guide, ToolEntry},
};
use ringfence_types::{CallId, Origin};
use rmcp::{
    ErrorData,
    model::{
        CacheScope, ListResourceTemplatesResult, ListResourcesResult, PaginatedRequestParams,
        ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
    },
};

use crate::{
    call::unavailable,
    handler::{Client, Shared},
    tools,
};

/// Characters that are escaped in the path of a file.
const PATH: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_').remove(b'~');

const SKILLS: &str = "ringfence://skills/";
const RECEIPTS: &str = "ringfence://receipts/";
const CALLS: &str = "ringfence://calls/";

/// Bytes of one output that a resource shows; of more, the beginning.
const MAX_OUTPUT: usize = 1 << 20;

/// Time for which a client may keep what it read: receipts and outputs of ended calls never change, but
/// access to them may.
const READ_LIFETIME_MS: u64 = 60_000;

/// Templates of resources that are found by the id of a call.
pub(crate) fn templates() -> ListResourceTemplatesResult {
    let receipt = ResourceTemplate::new(format!("{RECEIPTS}{{call_id}}"), "receipt")
        .with_description("Signed receipt of a call that has ended, as a DSSE envelope")
        .with_mime_type("application/json");
    let output = ResourceTemplate::new(format!("{CALLS}{{call_id}}/{{stream}}"), "output")
        .with_description("Output of a call's program; the stream is `stdout` or `stderr`")
        .with_mime_type("text/plain");
    let file = ResourceTemplate::new(format!("{SKILLS}{{name}}/{{+path}}"), "skill file")
        .with_description("A file that the guide of a skill refers to");
    ListResourceTemplatesResult::with_all_items(vec![receipt, output, file])
        .with_ttl_ms(READ_LIFETIME_MS)
        .with_cache_scope(CacheScope::Public)
}

impl Shared {
    /// Skills that the client may call, then guides without a tool, which every client may read.
    pub(crate) async fn list_resources(
        &self,
        client: &Client,
        request: Option<PaginatedRequestParams>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let after = tools::cursor(request)?;
        let visible = self.visible_tools(client).await;
        let skills: Vec<_> = visible.iter().filter(|entry| is_skill(entry)).cloned().collect();
        let page = tools::page(&skills, after.as_ref(), self.config.page);
        let resources = page.entries.iter().map(|entry| {
            let tool = &entry.tool;
            Resource::new(format!("{SKILLS}{}", tool.name), tool.name.as_str())
                .with_description(tool.description.clone())
                .with_mime_type("text/markdown")
        });
        let mut resources: Vec<_> = resources.collect();
        if page.next.is_none() {
            let catalogue = self.engine.tools();
            let guides = catalogue.guides().iter().filter(|guide| guide.tool.is_none());
            resources.extend(guides.map(|guide| {
                Resource::new(format!("{SKILLS}{}", guide.name), guide.name.as_str())
                    .with_description(guide.description.clone())
                    .with_mime_type("text/markdown")
            }));
        }
        let mut listed = ListResourcesResult::with_all_items(resources)
            .with_ttl_ms(READ_LIFETIME_MS)
            .with_cache_scope(CacheScope::Private);
        listed.next_cursor = page.next;
        Ok(listed)
    }

    pub(crate) async fn read_resource(
        &self,
        client: &Client,
        uri: &str,
    ) -> Result<ReadResourceResult, ErrorData> {
        let found = if let Some(path) = uri.strip_prefix(SKILLS) {
            match path.split_once('/') {
                Some((name, path)) => {
                    let Some(contents) = self.skill_file(client, name, path, uri).await else {
                        return Err(not_found(uri));
                    };
                    return Ok(read_result(contents));
                }
                None => self.skill_text(client, path).await.map(|text| (text, "text/markdown")),
            }
        } else if let Some(id) = uri.strip_prefix(RECEIPTS) {
            self.receipt(client, id).await?.map(|text| (text, "application/json"))
        } else if let Some((id, stream)) =
            uri.strip_prefix(CALLS).and_then(|rest| rest.split_once('/'))
        {
            self.output(client, id, stream).await?.map(|text| (text, "text/plain"))
        } else {
            None
        };
        let (text, media_type) = found.ok_or_else(|| not_found(uri))?;
        Ok(read_result(ResourceContents::text(text, uri).with_mime_type(media_type)))
    }

    /// Description of a skill that the client may call, with its guide; or a guide without a tool.
    async fn skill_text(&self, client: &Client, name: &str) -> Option<String> {
        let (tool, catalogue) = (self.visible_skill(client, name).await, self.engine.tools());
        let guide = guide_of(catalogue.guides(), name, tool.as_deref());
        match (tool, guide) {
            (None, None) => None,
            (None, Some(guide)) => Some(with_files(guide)),
            (Some(tool), None) => Some(description(&tool)),
            (Some(tool), Some(guide)) => {
                Some(format!("{}\n{}", description(&tool), with_files(guide)))
            }
        }
    }

    /// File of a skill's folder.
    async fn skill_file(
        &self,
        client: &Client,
        name: &str,
        path: &str,
        uri: &str,
    ) -> Option<ResourceContents> {
        let (tool, catalogue) = (self.visible_skill(client, name).await, self.engine.tools());
        let guide = guide_of(catalogue.guides(), name, tool.as_deref())?;
        let path = percent_decode_str(path).decode_utf8().ok()?;
        let content = guide.file(&path)?;
        Some(match std::str::from_utf8(content) {
            Ok(text) => ResourceContents::text(text, uri).with_mime_type("text/plain"),
            Err(_) => ResourceContents::blob(STANDARD.encode(content), uri)
                .with_mime_type("application/octet-stream"),
        })
    }

    async fn visible_skill(&self, client: &Client, name: &str) -> Option<Arc<ToolEntry>> {
        let visible = self.visible_tools(client).await;
        let is_it = |entry: &&Arc<ToolEntry>| is_skill(entry) && entry.tool.name.as_str() == name;
        visible.iter().find(is_it).cloned()
    }

    async fn receipt(&self, client: &Client, id: &str) -> Result<Option<String>, ErrorData> {
        let Some(call) = self.visible_call(client, id).await? else { return Ok(None) };
        let receipt = self.engine.receipt_envelope(client.principal(), call.asked.id).await;
        receipt.map_err(unavailable)
    }

    /// Output of an ended program, from the beginning.
    async fn output(
        &self,
        client: &Client,
        id: &str,
        stream: &str,
    ) -> Result<Option<String>, ErrorData> {
        let stream = match stream {
            "stdout" => OutputStream::Stdout,
            "stderr" => OutputStream::Stderr,
            _ => return Ok(None),
        };
        let Some(call) = self.visible_call(client, id).await? else { return Ok(None) };
        if !call.state.is_final() {
            let text = "the call has not ended; its output is a resource afterwards";
            return Err(ErrorData::invalid_params(text, None));
        }
        self.kept_output(client, call.asked.id, stream).await.map(Some)
    }

    async fn kept_output(
        &self,
        client: &Client,
        id: CallId,
        stream: OutputStream,
    ) -> Result<String, ErrorData> {
        let (mut bytes, mut offset) = (Vec::new(), 0);
        while bytes.len() < MAX_OUTPUT {
            let chunk = self.engine.output(client.principal(), id, stream, offset).await;
            let Some(chunk) = chunk.map_err(unavailable)? else { break };
            bytes.extend_from_slice(&chunk.bytes);
            offset = chunk.next;
            if chunk.is_end {
                break;
            }
        }
        bytes.truncate(MAX_OUTPUT);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn not_found(uri: &str) -> ErrorData {
    let shown: String = uri.chars().take(256).collect();
    ErrorData::resource_not_found(format!("Resource not found: {shown}"), None)
}

fn read_result(contents: ResourceContents) -> ReadResourceResult {
    let mut read = ReadResourceResult::new(vec![contents]);
    (read.ttl_ms, read.cache_scope) = (Some(READ_LIFETIME_MS), Some(CacheScope::Private));
    read
}

/// Guide of exactly this tool, or without a tool the one of this name that has none.
fn guide_of<'a>(guides: &'a [Guide], name: &str, tool: Option<&ToolEntry>) -> Option<&'a Guide> {
    let tool = tool.map(|entry| entry.tool.digest);
    guides.iter().find(|guide| guide.name.as_str() == name && guide.tool == tool)
}

/// Text of a guide and where its files are read.
fn with_files(guide: &Guide) -> String {
    let mut text = guide.text().to_owned();
    let paths: Vec<_> = guide.paths().filter(|path| *path != "SKILL.md").collect();
    if !paths.is_empty() {
        text.push_str("\n\n## Files of this skill\n\n");
        for path in paths {
            let in_uri = utf8_percent_encode(path, PATH);
            text.push_str(&format!("- {path}: `{SKILLS}{}/{in_uri}`\n", guide.name));
        }
    }
    text
}

fn is_skill(entry: &ToolEntry) -> bool {
    matches!(entry.tool.origin, Origin::Folder | Origin::Upload)
}

/// A skill for people and models.
fn description(entry: &ToolEntry) -> String {
    let tool = &entry.tool;
    let flags = tool.safety_flags.join(", ");
    let approval = match tool.requires_approval {
        true => "\n- Every call needs an approval",
        false => "",
    };
    format!(
        "# {}\n\n{}\n\n- Version: {}\n- Digest: {}\n- Safety flags: {flags}{approval}\n\n\
         ## Arguments\n\n```json\n{}\n```\n\n## Result\n\n```json\n{}\n```\n",
        tool.name,
        tool.description,
        tool.version,
        tool.digest,
        tool.input_schema.as_str(),
        tool.output_schema.as_str(),
    )
}
