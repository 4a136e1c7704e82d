//! All settings: name, description, default, and variables of other services.

/// Setting of the server.
#[derive(Debug, Clone)]
pub(super) struct Key {
    /// Name in the file; a dot is a table.
    pub(super) name: &'static str,
    /// Description.
    pub(super) about: &'static str,
    /// Default values.
    pub(super) default: Vec<String>,
    /// Whether it takes several values.
    pub(super) is_list: bool,
    /// Whether its value is hidden.
    pub(super) is_secret: bool,
}

impl Key {
    /// Environment variable of the setting.
    pub(super) fn variable(&self) -> String {
        variable(self.name)
    }
}

/// Environment variable of a setting.
pub(super) fn variable(name: &str) -> String {
    format!("RINGFENCE_{}", name.replace('.', "_").to_ascii_uppercase())
}

/// Facts about the host that defaults depend on.
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

/// Variables of SomaAgent 01, the Code Executor Service, OpenTelemetry and S3, with their settings.
/// [`HOST`] and [`PORT`] are one setting and handled separately.
pub(super) const OLDER: &[(&str, &str)] = &[
    ("CODE_EXEC_SKILLS_DIRECTORY", "skills"),
    ("CODE_EXEC_LOG_LEVEL", "log.level"),
    ("CODE_EXEC_EMBEDDING_MODEL", "models.embedding"),
    ("CODE_EXEC_MAX_EXECUTION_TIME", "calls.longest"),
    ("TOOL_EXECUTOR_TIMEOUT", "calls.longest"),
    ("TOOL_EXECUTOR_MAX_CONCURRENT", "calls.running"),
    ("TOOL_EXECUTOR_CIRCUIT_FAILURE_THRESHOLD", "circuit.failures"),
    ("TOOL_EXECUTOR_CIRCUIT_RESET_TIMEOUT_SECONDS", "circuit.reset_after"),
    ("KAFKA_BOOTSTRAP_SERVERS", "bus"),
    ("KAFKA_SECURITY_PROTOCOL", "kafka.security_protocol"),
    ("KAFKA_SASL_MECHANISM", "kafka.sasl_mechanism"),
    ("KAFKA_SASL_USERNAME", "kafka.sasl_username"),
    ("KAFKA_SASL_PASSWORD", "kafka.sasl_password"),
    ("TOOL_REQUESTS_TOPIC", "kafka.requests_topic"),
    ("TOOL_RESULTS_TOPIC", "kafka.results_topic"),
    ("CONVERSATION_OUTBOUND", "kafka.conversation_topic"),
    ("TOOL_EXECUTOR_GROUP", "intake.group"),
    ("POSTGRES_DSN", "store"),
    ("AWS_ENDPOINT_URL", "s3.endpoint"),
    ("AWS_REGION", "s3.region"),
    ("AWS_ACCESS_KEY_ID", "s3.access_key_id"),
    ("AWS_SECRET_ACCESS_KEY", "s3.secret_access_key"),
    ("CODE_EXEC_REDIS_URL", "redis"),
    ("REDIS_URL", "redis"),
    ("POLICY_REQUEUE_PREFIX", "redis_mirror.requeue_prefix"),
    ("SESSION_CACHE_TTL_SECONDS", "redis_mirror.session_lifetime"),
    // OpenTelemetry; variables for traces override the general ones.
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

/// Address part of `listen`.
pub(super) const HOST: &str = "CODE_EXEC_HOST";
/// Port part of `listen`.
pub(super) const PORT: &str = "CODE_EXEC_PORT";

/// Variables of Ringfence that are not settings of the server.
pub(super) const OTHERS: &[&str] =
    &["RINGFENCE_CA", "RINGFENCE_CONFIG", "RINGFENCE_KEY", "RINGFENCE_URL"];

/// All settings in the order of the reference.
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
        one("data", "Directory for all persistent data", String::new()),
        Key {
            is_secret: true,
            ..one(
                "store",
                "PostgreSQL database: postgres://USER@HOST/NAME (default: SQLite in `data`)",
                String::new(),
            )
        },
        one(
            "blobs",
            "Directory of large outputs that all servers on one database see, or s3://BUCKET/PREFIX (default: in `data`)",
            String::new(),
        ),
        one(
            "s3.endpoint",
            "URL of the S3-compatible store of `blobs` (default: Amazon's)",
            String::new(),
        ),
        one("s3.region", "Region of that store", "us-east-1".into()),
        one(
            "s3.access_key_id",
            "Id of the key for that store (default: the identity of the machine)",
            String::new(),
        ),
        Key { is_secret: true, ..one("s3.secret_access_key", "Secret of that key", String::new()) },
        one("listen", "Address and port to listen on", "127.0.0.1:7420".into()),
        one(
            "advertise",
            "URL at which other servers on the same database reach this one (default: from `listen`)",
            String::new(),
        ),
        one(
            "role",
            "Part of the work of this server on a shared database: all, api, worker",
            "all".into(),
        ),
        one(
            "insecure_allow_remote",
            "Listen on non-loopback addresses without encryption",
            "false".into(),
        ),
        one("tls.cert", "Certificate chain of the server (PEM); turns TLS on", String::new()),
        one("tls.key", "Private key of the certificate (PEM)", String::new()),
        one(
            "bus",
            "Bus of events: kafka://HOST:PORT,… (default: a queue in the data directory)",
            String::new(),
        ),
        Key {
            is_secret: true,
            ..one(
                "redis",
                "Redis for rate limits that servers share: redis://HOST:PORT (default: none)",
                String::new(),
            )
        },
        one(
            "redis_mirror.requeue_prefix",
            "Prefix of the keys of held calls in Redis",
            "policy:requeue".into(),
        ),
        one(
            "redis_mirror.session_lifetime",
            "Lifetime of the entry of a session in Redis",
            "15m".into(),
        ),
        many("skills", "Folders of skill folders", &[]),
        one("policy", "Folder of Rego rules instead of the built-in ones", String::new()),
        one(
            "log.level",
            "Log level, or directives such as info,ringfence_engine=debug",
            "info".into(),
        ),
        one("log.format", "Log format: text or json", "text".into()),
        one("otlp.endpoint", "Receiver of traces, such as http://localhost:4318", String::new()),
        one("otlp.traces_endpoint", "Receiver of traces, as a full URL with path", String::new()),
        one(
            "otlp.protocol",
            "Protocol of the receiver: only http/protobuf",
            "http/protobuf".into(),
        ),
        Key {
            is_secret: true,
            ..many("otlp.headers", "Headers sent to the receiver: name=value", &[])
        },
        one("otlp.headers_file", "File with further headers: name: value", String::new()),
        one("otlp.timeout", "Timeout of a request to the receiver", "10s".into()),
        one("otlp.queue", "Spans waiting to be sent; more are dropped", "8192".into()),
        one("otlp.sample", "Sampled share of traces that begin here, from 0 to 1", "1".into()),
        one("otlp.service", "Service name in traces", "ringfence".into()),
        many("otlp.resource", "Resource attributes in traces: name=value", &[]),
        one("threads", "Threads that serve requests", host.processors.clamp(2, 4).to_string()),
        one("stop_grace", "Time that running calls get to finish at shutdown", "10s".into()),
        one(
            "ledger.head_path",
            "Second file for the newest ledger checkpoint, on another disk",
            String::new(),
        ),
        Key {
            is_secret: true,
            ..one(
                "ledger.head_url",
                "URL that stores the newest ledger checkpoint: PUT writes it, GET reads it",
                String::new(),
            )
        },
        one("calls.running", "Running calls", calls.running.to_string()),
        one(
            "calls.running_per_tenant",
            "Running calls per tenant (default: 75 % of `calls.running`)",
            String::new(),
        ),
        one("calls.waiting", "Calls in the queue", calls.waiting.to_string()),
        one(
            "calls.waiting_per_tenant",
            "Calls in the queue per tenant",
            calls.waiting_per_tenant.to_string(),
        ),
        one("calls.longest", "Maximum wall time of a call, whatever its tool allows", "1h".into()),
        one("calls.hold_for", "Time after which an undecided held call expires", "24h".into()),
        one(
            "calls.denies",
            "Denied calls: final, or hold until policy allows them",
            "final".into(),
        ),
        many("calls.denies_held_for", "Tenants whose denied calls are held", &[]),
        one(
            "calls.retries",
            "Further tries of a pure call whose sandbox failed",
            calls.retries.to_string(),
        ),
        one(
            "circuit.failures",
            "Failures in a row after which a tool is refused to a tenant; 0 switches it off",
            calls.circuit.failures.to_string(),
        ),
        one("circuit.reset_after", "Time until a refused tool is tried again", "30s".into()),
        one(
            "budget.calls_per_day",
            "Calls per day of a tenant without a budget of its own; 0 is unlimited",
            "0".into(),
        ),
        one(
            "budget.cpu_per_day",
            "CPU time per day of a tenant without a budget of its own; 0 is unlimited",
            "0".into(),
        ),
        one(
            "budget.output_per_day",
            "Output per day of a tenant without a budget of its own; 0 is unlimited",
            "0".into(),
        ),
        one(
            "budget.tokens_per_day",
            "Tokens of models per day of a tenant without a budget of its own; 0 is unlimited",
            "0".into(),
        ),
        one(
            "retention.keep_for",
            "Time for which records of ended calls and session events are kept; 0 is for ever",
            "0".into(),
        ),
        one(
            "limits.tenant_bytes_per_hour",
            "Bytes written per tenant and hour; 0 is unlimited",
            "8G".into(),
        ),
        one(
            "limits.disk_reserve",
            "Free disk space below which new calls are refused (default: 512M or 5 % of the disk)",
            String::new(),
        ),
        one(
            "artifacts.files_per_call",
            "Files of one call that are stored as artifacts",
            "64".into(),
        ),
        one(
            "artifacts.bytes_per_call",
            "Bytes of all files of one call that are stored, and of one version that is sent",
            "32M".into(),
        ),
        one(
            "artifacts.tenant_bytes",
            "Bytes of all versions of all artifacts of a tenant",
            "10G".into(),
        ),
        one(
            "artifacts.grace",
            "Time for which bytes stay after nothing refers to them any more",
            "1h".into(),
        ),
        many("memo.tools", "Pure tools whose results are reused for equal calls", &[]),
        one("memo.keep_for", "Lifetime of a remembered result", "24h".into()),
        one("memo.most_per_tenant", "Remembered results per tenant", "10000".into()),
        Key { is_secret: true, ..many("webhook.urls", "URLs that receive events", &[]) },
        Key {
            is_secret: true,
            ..one(
                "webhook.secret",
                "Secret for webhook signatures: 16 bytes or more",
                String::new(),
            )
        },
        many("webhook.topics", "Topics of the events", &["policy.blocked"]),
        one("webhook.timeout", "Timeout of one delivery attempt", "10s".into()),
        one(
            "webhook.pause",
            "Pause after the first failed attempt; doubles each time",
            "5s".into(),
        ),
        one(
            "intake.key",
            "Id of the key that makes the calls of `tool.requests`; without one and without \
             `intake.tenants` the topic is not read",
            String::new(),
        ),
        many("intake.tenants", "Keys of tenants on `tool.requests`: tenant=key id", &[]),
        one("intake.group", "Consumer group that reads `tool.requests`", "tool-executor".into()),
        one("intake.accepting", "Messages accepted at the same time", "32".into()),
        one(
            "kafka.security_protocol",
            "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
            "PLAINTEXT".into(),
        ),
        one("kafka.sasl_mechanism", "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", String::new()),
        one("kafka.sasl_username", "User name for SASL", String::new()),
        Key { is_secret: true, ..one("kafka.sasl_password", "Password for SASL", String::new()) },
        Key {
            is_secret: true,
            ..many("kafka.properties", "Further properties of librdkafka: name=value", &[])
        },
        one("kafka.requests_topic", "Topic of requests", "tool.requests".into()),
        one("kafka.results_topic", "Topic of results", "tool.results".into()),
        one("kafka.blocked_topic", "Topic of held and denied calls", "policy.blocked".into()),
        one(
            "kafka.conversation_topic",
            "Topic of starts and results of calls that have a session",
            "conversation.outbound".into(),
        ),
        one("kafka.create_topics", "Create topics that do not exist", "true".into()),
        one("kafka.partitions", "Partitions of a created topic", "16".into()),
        one("kafka.replicas", "Replicas of a created topic (default: the broker's)", String::new()),
        one("sandbox.most", "Sandboxes, including idle ones", "1024".into()),
        one("sandbox.kept", "Session sandboxes of all tenants", calls.sandboxes.max.to_string()),
        one(
            "sandbox.kept_per_tenant",
            "Session sandboxes per tenant",
            calls.sandboxes.max_per_tenant.to_string(),
        ),
        many(
            "sandbox.allow_missing",
            "Layers that sandboxes may lack on this host: cgroup, landlock, userns",
            &[],
        ),
        many("sandbox.prepare", "Languages whose interpreters are started ahead", &["python"]),
        one("sandbox.pool_least", "Minimum of idle interpreters per language", "2".into()),
        one("sandbox.pool_memory", "Memory of the idle interpreters per language", "256M".into()),
        one("sandbox.pool_skills", "Skill folders kept loaded in interpreters", "16".into()),
        one(
            "sandbox.watchdog",
            "End programs that exhaust host resources no limit counts",
            "true".into(),
        ),
        one(
            "sandbox.watchdog_memory",
            "Growth of uncharged kernel memory per minute that triggers the watchdog",
            "512M".into(),
        ),
        one(
            "docker.host",
            "Socket of a container engine for tools with an image: unix:///PATH (default: none)",
            String::new(),
        ),
        one(
            "docker.runtime",
            "Runtime of containers, such as runsc (default: the engine's)",
            String::new(),
        ),
        one("docker.prepared", "Containers that are started ahead", "2".into()),
        one("models.folder", "Folder of weights (default: `models` in `data`)", String::new()),
        one(
            "models.embedding",
            "Model of `embed_text` where a call names none",
            ringfence_models::DEFAULT_MODEL.into(),
        ),
        one(
            "models.profiles",
            "YAML file of model profiles, by deployment mode; turns conversations on",
            String::new(),
        ),
        one("models.mode", "Deployment mode whose profiles are used", "LOCAL".into()),
        one("models.threads", "Threads that run models", "1".into()),
        one("models.queue", "Texts that wait for a model; more are refused", "1024".into()),
        one("api.max_body", "Maximum size of a request body", "4M".into()),
        one("api.max_upload", "Maximum size of an uploaded skill or file", "32M".into()),
        one("api.request_timeout", "Time that a client may take to send a request", "30s".into()),
        one("api.default_wait", "Default wait for the result of a call", "30s".into()),
        one("api.max_wait", "Maximum wait for the result of a call", "5m".into()),
        one(
            "api.first_header_timeout",
            "Time that a new connection may take to send its first header",
            "5s".into(),
        ),
        one("api.max_connections", "Open connections", "2048".into()),
        one("api.max_streams", "Open event streams", "512".into()),
        one("api.rate_per_second", "Requests per second and key; 0 is unlimited", "20000".into()),
        one("api.rate_burst", "Burst of requests per key", "20000".into()),
        one("api.open_metrics", "Serve /metrics without a key", "false".into()),
        many("api.allowed_hosts", "Allowed `Host` names besides loopback names", &[]),
        many("egress.allow_private", "Internal services that tools may fetch from", &[]),
        one("egress.longest_timeout", "Maximum duration of a fetch", "60s".into()),
        one("egress.largest_body", "Maximum size of a fetched body", "16M".into()),
        one("egress.pass_trace", "Send the trace context with fetches", "true".into()),
        one("egress.connections", "Connections of one sandbox at one time", "64".into()),
        one("egress.total", "Bytes of one sandbox, in both directions together", "1G".into()),
        one(
            "egress.rate",
            "Bytes per second of one sandbox, in both directions together",
            "64M".into(),
        ),
        one(
            "egress.connect_timeout",
            "Time for the header of a request of a sandbox, and for connecting to a server",
            "15s".into(),
        ),
        one(
            "egress.idle_timeout",
            "Time without progress of a connection of a sandbox",
            "2m".into(),
        ),
        one(
            "packages.python_index",
            "Index that packages of skills are installed from (default: that of pip)",
            String::new(),
        ),
        many("packages.hosts", "Hosts that the installer of packages asks for", &[]),
        many(
            "discovery.directories",
            "Folders and URLs with an index.json of manifests and OpenAPI documents",
            &[],
        ),
        one(
            "discovery.public_key",
            "Ed25519 key in base64 that must have signed every index (default: none is asked for)",
            String::new(),
        ),
        Key {
            is_secret: true,
            ..one(
                "secrets.key",
                "Keys that encrypt secrets, in base64, the one in force first (default: secrets.key in \
                 the data directory)",
                String::new(),
            )
        },
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
