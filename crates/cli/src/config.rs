//! Environment variables. They are read here, and nowhere else.

use std::{
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    path::PathBuf,
};

/// Data directory, from flag, environment or the user's default.
pub(crate) fn data_dir(flag: Option<PathBuf>) -> PathBuf {
    flag.or_else(|| variable("RINGFENCE_DATA").map(PathBuf::from)).unwrap_or_else(usual_data_dir)
}

/// Default data directory.
pub(crate) fn usual_data_dir() -> PathBuf {
    let is_root = rustix::process::geteuid().is_root();
    let path = |name| variable(name).map(PathBuf::from);
    // Relative paths are ignored by the specification.
    let shared = path("XDG_DATA_HOME").filter(|path| path.is_absolute());
    let shared = shared.or_else(|| path("HOME").map(|home| home.join(".local/share")));
    usual_place(is_root, shared)
}

fn usual_place(is_root: bool, shared: Option<PathBuf>) -> PathBuf {
    match shared {
        Some(shared) if !is_root => shared.join("ringfence"),
        _ => PathBuf::from("/var/lib/ringfence"),
    }
}

/// Home directory of the user.
pub(crate) fn home() -> Option<PathBuf> {
    variable("HOME").map(PathBuf::from)
}

/// Directory of the user's configuration files.
pub(crate) fn config_home() -> Option<PathBuf> {
    let named = variable("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    named.or_else(|| home().map(|home| home.join(".config")))
}

/// Settings file of pip that the environment names.
pub(crate) fn pip_config_file() -> Option<PathBuf> {
    variable("PIP_CONFIG_FILE").map(PathBuf::from)
}

/// Variables of pip and uv that name package indexes.
pub(crate) fn index_variables() -> BTreeMap<String, String> {
    ["PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), variable(name)?.into_string().ok()?)))
        .collect()
}

/// URL of the server for clients.
pub(crate) fn server_url() -> Option<OsString> {
    variable("RINGFENCE_URL")
}

/// API key of clients.
pub(crate) fn server_key() -> Option<OsString> {
    variable("RINGFENCE_KEY")
}

/// The file of authorities that clients are to believe.
pub(crate) fn server_ca() -> Option<OsString> {
    variable("RINGFENCE_CA")
}

/// Socket of a service manager that waits for readiness.
pub(crate) fn notify_socket() -> Option<OsString> {
    variable("NOTIFY_SOCKET")
}

/// Whether colours are wanted on a terminal: see <https://no-color.org>.
pub(crate) fn wants_colour() -> bool {
    variable("NO_COLOR").is_none() && variable("TERM").is_none_or(|name| name != "dumb")
}

/// Variables that are set and may be settings of the server.
pub(crate) fn variables() -> Vec<(OsString, OsString)> {
    const PREFIXES: [&str; 13] = [
        "AWS_",
        "RINGFENCE_",
        "CODE_EXEC_",
        "TOOL_EXECUTOR_",
        "TOOL_REQUESTS_",
        "TOOL_RESULTS_",
        "KAFKA_",
        "OTEL_",
        "CONVERSATION_OUTBOUND",
        "POLICY_REQUEUE_PREFIX",
        "POSTGRES_DSN",
        "REDIS_URL",
        "SESSION_CACHE_TTL_SECONDS",
    ];
    let is_ours = |name: &OsStr| {
        let name = name.to_string_lossy();
        PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    env::vars_os().filter(|(name, value)| is_ours(name) && !value.is_empty()).collect()
}

/// Value of a variable; an empty one counts as unset.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_s_data_is_the_system_s() {
        let shared = Some(PathBuf::from("/users/x/.local/share"));
        assert_eq!(usual_place(true, shared.clone()), PathBuf::from("/var/lib/ringfence"));
        assert_eq!(usual_place(false, shared), PathBuf::from("/users/x/.local/share/ringfence"));
        assert_eq!(usual_place(false, None), PathBuf::from("/var/lib/ringfence"));
    }
}
