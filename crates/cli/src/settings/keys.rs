//! Every setting there is: name, meaning, default, and older names of its variable.

/// One setting.
#[derive(Debug, Clone)]
pub(super) struct Key {
    /// In the file; a dot is a table.
    pub(super) name: &'static str,
    /// For people.
    pub(super) about: &'static str,
    /// When nobody says otherwise.
    pub(super) default: Vec<String>,
    /// Takes several values.
    pub(super) is_list: bool,
    /// Never shown.
    pub(super) is_secret: bool,
}

impl Key {
    /// Its variable.
    pub(super) fn variable(&self) -> String {
        variable(self.name)
    }
}

/// The variable of a setting.
pub(super) fn variable(name: &str) -> String {
    format!("RINGFENCE_{}", name.replace('.', "_").to_ascii_uppercase())
}

/// What defaults depend on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Host {
    pub(super) processors: usize,
}

impl Host {
    pub(super) fn this() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { processors }
    }
}

/// Variables of the services that Ringfence replaces, as far as they mean something here, and of
/// OpenTelemetry. The
/// host and port of [`HOST`] and [`PORT`] are one setting and handled apart.
pub(super) const OLDER: &[(&str, &str)] = &[
    ("CODE_EXEC_SKILLS_DIRECTORY", "skills"),
    ("CODE_EXEC_LOG_LEVEL", "log.level"),
    ("CODE_EXEC_MAX_EXECUTION_TIME", "calls.longest"),
    ("TOOL_EXECUTOR_TIMEOUT", "calls.longest"),
    ("TOOL_EXECUTOR_MAX_CONCURRENT", "calls.running"),
    // Those of OpenTelemetry; the ones for traces alone cover the ones for everything.
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "otlp.endpoint"),
    ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "otlp.traces_endpoint"),
    ("OTEL_EXPORTER_OTLP_PROTOCOL", "otlp.protocol"),
    ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "otlp.protocol"),
    ("OTEL_EXPORTER_OTLP_HEADERS", "otlp.headers"),
    ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "otlp.headers"),
    ("OTEL_EXPORTER_OTLP_TIMEOUT", "otlp.timeout"),
    ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "otlp.timeout"),
    ("OTEL_SERVICE_NAME", "otlp.service"),
    ("OTEL_RESOURCE_ATTRIBUTES", "otlp.resource"),
];

/// Half of `listen`.
pub(super) const HOST: &str = "CODE_EXEC_HOST";
/// The other half.
pub(super) const PORT: &str = "CODE_EXEC_PORT";

/// Variables of ours that are not settings of the server.
pub(super) const OTHERS: &[&str] = &["RINGFENCE_CONFIG", "RINGFENCE_KEY", "RINGFENCE_URL"];

/// All settings, in the order in which people read them.
pub(super) fn all(host: Host) -> Vec<Key> {
    let calls = ringfence_engine::Settings::for_processors(host.processors, "work".into());
    let one = |name, about, default: String| {
        let default = if default.is_empty() { Vec::new() } else { vec![default] };
        Key { name, about, default, is_list: false, is_secret: false }
    };
    let many = |name, about, default: &[&str]| Key {
        name,
        about,
        default: default.iter().map(|&text| text.to_owned()).collect(),
        is_list: true,
        is_secret: false,
    };
    vec![
        one("data", "Where everything that lasts is kept", String::new()),
        one("listen", "Address and port to listen on", "127.0.0.1:7420".into()),
        one(
            "insecure_allow_remote",
            "Listen beyond loopback although nothing is encrypted",
            "false".into(),
        ),
        many("skills", "Folders of skill folders", &[]),
        one("policy", "Folder of Rego rules instead of the built-in ones", String::new()),
        one(
            "log.level",
            "A level, or directives such as info,ringfence_engine=debug",
            "info".into(),
        ),
        one("log.format", "text or json", "text".into()),
        one("otlp.endpoint", "Receiver of traces, such as http://localhost:4318", String::new()),
        one("otlp.traces_endpoint", "The same with its whole path", String::new()),
        one("otlp.protocol", "How it is spoken to: only http/protobuf", "http/protobuf".into()),
        Key { is_secret: true, ..many("otlp.headers", "Headers for it: name=value", &[]) },
        one("otlp.headers_file", "File with more of them: name: value", String::new()),
        one("otlp.timeout", "How long it may take to receive", "10s".into()),
        one("otlp.queue", "Spans that wait to be sent; more are dropped", "8192".into()),
        one("otlp.sample", "Share of the traces that begin here, from 0 to 1", "1".into()),
        one("otlp.service", "What this server is called in traces", "ringfence".into()),
        many("otlp.resource", "What else is said of it: name=value", &[]),
        one("threads", "Threads that serve", host.processors.clamp(2, 4).to_string()),
        one("stop_grace", "How long calls may go on after a request to stop", "10s".into()),
        one(
            "ledger.head_path",
            "Another file for the newest checkpoint of the ledger, on another disk",
            String::new(),
        ),
        Key {
            is_secret: true,
            ..one(
                "ledger.head_url",
                "Address that keeps the newest checkpoint: PUT writes it, GET reads it",
                String::new(),
            )
        },
        one("calls.running", "Calls in sandboxes at one time", calls.running.to_string()),
        one(
            "calls.running_per_tenant",
            "Of these, of one tenant; at most three quarters without it",
            String::new(),
        ),
        one("calls.waiting", "Calls waiting for a sandbox", calls.waiting.to_string()),
        one(
            "calls.waiting_per_tenant",
            "Of these, of one tenant",
            calls.waiting_per_tenant.to_string(),
        ),
        one("calls.longest", "No call runs longer, whatever its tool says", "1h".into()),
        one(
            "calls.hold_for",
            "A held call that nobody decides about ends after this",
            "24h".into(),
        ),
        one(
            "limits.tenant_bytes_per_hour",
            "Bytes that one tenant may have stored per hour; 0 is any number",
            "8G".into(),
        ),
        one(
            "limits.disk_reserve",
            "Free space below which nothing new is taken in; 512M or 5 % of the disk without it",
            String::new(),
        ),
        many("memo.tools", "Pure tools whose results are given again for equal calls", &[]),
        one("memo.keep_for", "For how long a result is given again", "24h".into()),
        one("memo.most_per_tenant", "Results remembered of one tenant", "10000".into()),
        Key { is_secret: true, ..many("webhook.urls", "Who is told of events", &[]) },
        Key {
            is_secret: true,
            ..one("webhook.secret", "What they are signed with: 16 bytes or more", String::new())
        },
        many("webhook.topics", "Of which events", &["policy.blocked"]),
        one("webhook.timeout", "How long one attempt may take", "10s".into()),
        one("webhook.pause", "After a first failure; then twice as long each time", "5s".into()),
        one("sandbox.most", "Sandboxes at one time, idle ones included", "1024".into()),
        many("sandbox.prepare", "Languages prepared before anybody asks", &["python"]),
        one("sandbox.pool_least", "Idle interpreters kept per language", "2".into()),
        one("sandbox.pool_memory", "Memory of all idle ones of a language", "256M".into()),
        one("sandbox.pool_skills", "Skill folders kept loaded in interpreters", "16".into()),
        one(
            "sandbox.watchdog",
            "Whether a program is ended that uses up the host in ways no limit counts",
            "true".into(),
        ),
        one(
            "sandbox.watchdog_memory",
            "Kernel memory charged to no sandbox that may be taken in a minute",
            "512M".into(),
        ),
        one("api.max_body", "Largest body of a request", "4M".into()),
        one("api.max_upload", "Largest skill or file that is sent", "32M".into()),
        one("api.request_timeout", "How long a client may take to send", "30s".into()),
        one("api.default_wait", "How long a request waits for its call", "30s".into()),
        one("api.max_wait", "How long it may wait if it asks to", "5m".into()),
        one(
            "api.first_header_timeout",
            "How long a new connection may take for its first header",
            "5s".into(),
        ),
        one("api.max_connections", "Connections at one time", "2048".into()),
        one("api.max_streams", "Event streams at one time", "512".into()),
        one(
            "api.rate_per_second",
            "Requests of one key per second; 0 is any number",
            "20000".into(),
        ),
        one("api.rate_burst", "Requests of one key at once", "20000".into()),
        one("api.open_metrics", "Whether /metrics needs no key", "false".into()),
        many("api.allowed_hosts", "Names beside loopback ones by which it may be called", &[]),
        many("egress.allow_private", "Internal services that tools may fetch from", &[]),
        one("egress.longest_timeout", "No fetch takes longer", "60s".into()),
        one("egress.largest_body", "No fetched body is larger", "16M".into()),
        one("egress.pass_trace", "Whether servers are told the trace of a fetch", "true".into()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_settings_share_a_name_or_a_variable() {
        let keys = all(Host { processors: 2 });
        let mut variables: Vec<_> = keys.iter().map(Key::variable).collect();
        variables.extend(OTHERS.iter().map(|&name| name.to_owned()));
        let count = variables.len();
        variables.sort();
        variables.dedup();
        assert_eq!(variables.len(), count);
    }

    #[test]
    fn older_names_mean_settings_that_exist() {
        let keys = all(Host { processors: 2 });
        for (variable, name) in OLDER {
            assert!(keys.iter().any(|key| key.name == *name), "{variable}");
        }
    }
}
