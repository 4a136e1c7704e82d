//! Resources: descriptions of skills, receipts of calls, and what their programs wrote.

use ringfence_engine::{OutputStream, data::ToolEntry};
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
    ListResourceTemplatesResult::with_all_items(vec![receipt, output])
        .with_ttl_ms(READ_LIFETIME_MS)
        .with_cache_scope(CacheScope::Public)
}

impl Shared {
    /// Skills that the client may call.
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
        let mut listed = ListResourcesResult::with_all_items(resources.collect())
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
        let found = if let Some(name) = uri.strip_prefix(SKILLS) {
            let visible = self.visible_tools(client).await;
            let named = |entry: &&std::sync::Arc<ToolEntry>| {
                is_skill(entry) && entry.tool.name.as_str() == name
            };
            visible.iter().find(named).map(|entry| (description(entry), "text/markdown"))
        } else if let Some(id) = uri.strip_prefix(RECEIPTS) {
            self.receipt(client, id).await?.map(|text| (text, "application/json"))
        } else if let Some((id, stream)) =
            uri.strip_prefix(CALLS).and_then(|rest| rest.split_once('/'))
        {
            self.output(client, id, stream).await?.map(|text| (text, "text/plain"))
        } else {
            None
        };
        let (text, media_type) = found.ok_or_else(|| {
            let shown: String = uri.chars().take(256).collect();
            ErrorData::resource_not_found(format!("Resource not found: {shown}"), None)
        })?;
        let contents = ResourceContents::text(text, uri).with_mime_type(media_type);
        let mut read = ReadResourceResult::new(vec![contents]);
        (read.ttl_ms, read.cache_scope) = (Some(READ_LIFETIME_MS), Some(CacheScope::Private));
        Ok(read)
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
