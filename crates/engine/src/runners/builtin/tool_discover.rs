//! `tool_discover`: looks for a capability that is missing, in the catalogue and in directories of tools.
//!
//! What it finds is proposed, and runs only after a person approved it. The search is deterministic: by words.

use ringfence_policy::{Action, Permit};
use ringfence_types::ReceiptDetails;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    Builtin, Job, Starting, UsedSandbox, http_fetch::flows, object, produced, text,
    tool_search::caller,
};
use crate::{
    obligations,
    record::Ended,
    runners::work::{Started, Work, without_program},
    use_cases::{DISCOVERY_TOOL, DirectoryReader, Wanted, discover},
};

/// Documents that are proposed, if the caller names no number.
const DEFAULT_PROPOSED: u64 = 3;

pub(super) const TOOL: Builtin = Builtin {
    name: DISCOVERY_TOOL,
    description: "Looks for tools with a capability that is missing, here and in the configured \
                  directories, and proposes the best ones. A proposed tool can be called after a person \
                  approved it.",
    flags: &["none"],
    input: || {
        object(
            &["capability"],
            json!({
                "capability": {
                    "type": "string", "minLength": 1, "maxLength": 1000,
                    "description": "What the tool is to do, in words",
                },
                "propose": {
                    "type": "integer", "minimum": 0, "maximum": 10, "default": DEFAULT_PROPOSED,
                    "description": "Number of documents that are proposed, best first",
                },
                "name": {
                    "type": "string", "minLength": 1, "maxLength": 300,
                    "description": "Propose this document of the directories and no other",
                },
            }),
        )
    },
    output: || {
        let tool = object(
            &["name", "version", "description"],
            json!({
                "name": {"type": "string"}, "version": {"type": "string"},
                "description": {"type": "string"},
            }),
        );
        let candidate = json!({
            "type": "object",
            "required": ["directory", "name", "kind", "digest", "proposed"],
            "properties": {
                "directory": {"type": "string"}, "name": {"type": "string"},
                "kind": {"enum": ["manifest", "openapi"]}, "description": {"type": "string"},
                "digest": {"type": "string"}, "score": {"type": "integer"},
                "proposed": {"type": "array", "items": {"type": "object"}},
                "skipped": {"type": "integer"}, "problem": {"type": "string"},
            },
        });
        object(
            &["capability", "tools", "candidates", "problems"],
            json!({
                "capability": {"type": "string"},
                "tools": {"type": "array", "items": tool},
                "candidates": {"type": "array", "items": candidate},
                "problems": {"type": "array", "items": {"type": "object"}},
            }),
        )
    },
    argument_errors: &[],
    sandbox: UsedSandbox::None,
    queued: true,
    // It also depends on the tools and directories of the moment.
    repeatable: false,
    action: || Action::ToolExecute,
    start,
};

fn start(permit: Permit, job: Job<'_>) -> Starting<'_> {
    Box::pin(async move { searching(&job, &permit) })
}

/// A search in progress. Its end lists the hosts that it contacted.
fn searching(job: &Job<'_>, permit: &Permit) -> Started {
    let hosts = match obligations::hosts(permit.obligations()) {
        Ok(hosts) => hosts,
        Err(error) => return job.inline(Err(error)),
    };
    let args = job.args().to_value();
    let only = args.get("name").and_then(Value::as_str).map(str::to_owned);
    let propose = args.get("propose").and_then(Value::as_u64).unwrap_or(DEFAULT_PROPOSED);
    let wanted = Wanted {
        capability: text(&args, "capability").to_owned(),
        only,
        propose: usize::try_from(propose).unwrap_or(0),
    };
    let who = caller(job.asked());
    let (inner, entry, started_at) = (job.inner().clone(), job.entry.clone(), job.started_at);
    let (stop, tenant) = (CancellationToken::new(), job.asked().tenant.clone());
    let asked = stop.clone();
    let search = async move {
        let mut reader = DirectoryReader { hosts, tenant, hops: Vec::new() };
        let given = tokio::select! {
            biased;
            () = asked.cancelled() => None,
            given = discover(&inner, &who, &wanted, &mut reader) => Some(given),
        };
        let went =
            ReceiptDetails { egress: flows(&reader.hops, None), ..ReceiptDetails::default() };
        let Some(given) = given else { return Ended::Stopped { details: went } };
        let took = inner.parts.clock.now().since(started_at);
        let mut end = without_program(produced(&entry, Ok(given)), started_at, took);
        if let Ended::Finished { details, .. } = &mut end {
            *details = went;
        }
        end
    };
    Started::Running(Work::ours(search, stop))
}
