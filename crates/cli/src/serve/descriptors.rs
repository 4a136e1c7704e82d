//! As many connections as there are descriptors for.

use rustix::process::{Resource, getrlimit};

use crate::settings::Settings;

/// Descriptors for files, the database, the log and whatever else there is one of.
const BASE: u64 = 256;

/// Descriptors of one call that runs: its control socket, pipes, process and workspace.
const PER_CALL: u64 = 12;

/// The limit of connections, lowered to what the limit of descriptors leaves. Beyond it `accept` would
/// fail, and so would everything else that opens something.
pub(super) fn max_connections(settings: &Settings) -> usize {
    let wanted = settings.edge.max_connections;
    let limit = getrlimit(Resource::Nofile).current;
    let room = room(limit, settings.calls.running as u64);
    if room < wanted {
        let hint = "raise it: LimitNOFILE= of the service, or ulimit -n";
        let limit = limit.unwrap_or(u64::MAX);
        tracing::warn!(
            limit,
            hint,
            "api.max_connections is {wanted}, but descriptors suffice for {room}"
        );
    }
    wanted.min(room)
}

/// Connections that a limit of descriptors leaves room for; at least a quarter of it.
fn room(limit: Option<u64>, running: u64) -> usize {
    let Some(limit) = limit else { return usize::MAX };
    let needed = BASE.saturating_add(PER_CALL.saturating_mul(running));
    let room = limit.saturating_sub(needed).max(limit / 4).max(1);
    usize::try_from(room).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_everything_else() {
        assert_eq!(room(None, 16), usize::MAX);
        assert_eq!(room(Some(1_024), 16), 1_024 - 256 - 16 * 12);
        assert_eq!(room(Some(400), 512), 100, "a quarter, however little that is");
        assert_eq!(room(Some(0), 1), 1);
    }
}
