//! Errors of a server, or of the connection to it, with hints.

use reqwest::Response;
use serde::Deserialize;

use super::Client;
use crate::{failure::Failure, table::plain};

/// The shown part of an RFC 9457 problem.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Problem {
    title: String,
    detail: String,
    code: String,
    trace_id: String,
    /// Field of `scope_missing`.
    scope: String,
    /// Field of `args_invalid`.
    tool: String,
    errors: Vec<Fault>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Fault {
    pointer: String,
    detail: String,
}

impl Client {
    /// The failure of a connection that was not made.
    pub(super) fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let failure = Failure::because(format!("no server answers at {}", self.base), error);
        match error.is_connect() || error.is_timeout() {
            true => {
                failure.hint(format!("start one: ringfence serve --data {}", self.data.display()))
            }
            false => failure,
        }
    }

    /// The failure of a connection that broke.
    pub(crate) fn broken(&self, error: &reqwest::Error) -> Failure {
        Failure::because(format!("the connection to {} broke", self.base), error)
    }

    /// The failure of a refused request.
    pub(super) async fn refused(&self, response: Response) -> Failure {
        let status = response.status();
        let text = response.text().await.unwrap_or_default();
        let problem: Problem = serde_json::from_str(&text).unwrap_or_default();
        let words = [&problem.detail, &problem.title];
        let message = words.into_iter().find(|text| !text.is_empty());
        let message = message.map_or_else(|| format!("the server answered {status}"), |m| plain(m));
        let mut lines = vec![message];
        // A single fault often repeats the message.
        let is_told = |fault: &Fault| lines[0].ends_with(&*plain(&fault.detail));
        if !matches!(problem.errors.as_slice(), [one] if is_told(one)) {
            lines.extend(problem.errors.iter().map(fault));
        }
        let failure = match lines.len() {
            1 => Failure::misuse(lines),
            _ => Failure::listing(lines.remove(0), lines),
        };
        match self.hint(status.as_u16(), &problem) {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }

    fn hint(&self, status: u16, problem: &Problem) -> Option<String> {
        let admin = self.data.join("admin.key");
        Some(match problem.code.as_str() {
            "key_missing" | "key_invalid" | "key_revoked" | "key_expired" => format!(
                "the first key of a server is in {} on its own machine; pass one on with \
                 RINGFENCE_KEY=$(cat {})",
                admin.display(),
                admin.display()
            ),
            "scope_missing" if !problem.scope.is_empty() => {
                let scope = plain(&problem.scope);
                format!("make a key that may: ringfence key create my-{scope}-key --scope {scope}")
            }
            "operator_required" => {
                "use an admin key of the operator, whose tenant is `default`".to_owned()
            }
            "tool_not_found" | "tool_version_not_found" | "tool_broken" => {
                "list the tools: ringfence tools".to_owned()
            }
            "args_invalid" if !problem.tool.is_empty() => {
                format!("see what it takes: ringfence tools {}", plain(&problem.tool))
            }
            "rate_limited" | "busy" | "stopping" | "store_unavailable" => {
                "try again in a moment".to_owned()
            }
            "storage_budget" => {
                "try again later, or raise limits.tenant_bytes_per_hour of the server".to_owned()
            }
            "storage_low" => {
                "free space on the disk of the server's data directory; it goes on by itself"
                    .to_owned()
            }
            "internal" => format!("see the server's log for trace {}", problem.trace_id),
            _ if problem.code.is_empty() && status >= 400 => {
                format!("is {} a Ringfence server?", self.base)
            }
            _ => return None,
        })
    }
}

fn fault(fault: &Fault) -> String {
    plain(&format!("{}: {}", fault.pointer, fault.detail))
}
