//! Limit of connections by the number of descriptors.

use rustix::process::{Resource, getrlimit};

use crate::settings::Settings;

/// Descriptors for files, the database, the log and the like.
const BASE_DESCRIPTORS: u64 = 256;

/// Descriptors of one running call: its control socket, pipes, process and workspace.
const DESCRIPTORS_PER_CALL: u64 = 12;

/// The limit of connections, lowered to what the limit of descriptors allows. Beyond it `accept`
/// and every other open would fail.
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

/// Connections within a limit of descriptors; at least a quarter of it.
fn room(limit: Option<u64>, running: u64) -> usize {
    let Some(limit) = limit else { return usize::MAX };
    let needed = BASE_DESCRIPTORS.saturating_add(DESCRIPTORS_PER_CALL.saturating_mul(running));
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
