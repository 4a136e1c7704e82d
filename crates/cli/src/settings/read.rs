//! Parsing of settings, with every problem and its source.

use std::{
    error::Error as _,
    fmt::Display,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ringfence_access::Rate;
use ringfence_api::ApiConfig;
use ringfence_edge::EdgeConfig;
use ringfence_egress as egress;
use ringfence_engine::{self as engine, SecretKey};
use ringfence_sandbox::{Language, PoolConfig, WatchdogRules};
use ringfence_store::{BudgetBounds, InvalidPostgresUrl, PostgresUrl, ProcessRole, RoomLimits};
use ringfence_types::{Bytes, SecretText, parse_duration};

use super::{Blobs, Log, Sandbox, Settings, TlsFiles, layers::Layers, policy};
use crate::{cli::Wall, ledger::Heads, problems::Problems};

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Whether a text is a level, or a level for a part of the server.
fn is_directive(text: &str) -> bool {
    let level = text.rsplit_once('=').map_or(text, |(_, level)| level).trim();
    LEVELS.iter().any(|known| known.eq_ignore_ascii_case(level))
}

/// Whether a text is a URL of HTTP with a host and without a path.
pub(super) fn is_base_url(text: &str) -> bool {
    text.parse::<http::Uri>().is_ok_and(|url| {
        matches!(url.scheme_str(), Some("http" | "https"))
            && url.host().is_some_and(|host| !host.is_empty())
            && url.path() == "/"
            && url.query().is_none()
    })
}

/// All settings; `None` only if a problem was added.
pub(super) fn settings(layers: &Layers, problems: &mut Problems) -> Option<Settings> {
    let mut read = Reader { layers, problems };
    let data = std::path::absolute(layers.path("data")).unwrap_or_else(|_| layers.path("data"));
    let (store, blobs) = read.store(&data).unzip();
    let (listen, insecure) = (read.listen(), read.truth("insecure_allow_remote"));
    let advertise = read.advertise();
    let tls = read.tls();
    let (log, threads) = (read.log(), read.count("threads", 1, 256));
    let (otlp, stop_grace) = (read.otlp(), read.time("stop_grace"));
    let calls = read.calls(data.join("work"));
    let (sandbox, egress) = (read.sandbox(), read.egress());
    let (edge, api) = (read.edge(), read.api());
    let (webhooks, heads) = (read.webhooks(), read.heads());
    let secret_keys = read.secret_keys();
    let (kafka, intake, redis) = (read.kafka(), read.intake(), read.redis());
    let models = read.models(&data);
    let docker = read.docker(&data);
    let folder = layers.get("policy").values.first().map(PathBuf::from);
    let policy = policy::read(folder, layers.policy(), problems);
    let skills = layers.get("skills").values.iter().map(PathBuf::from).collect();
    Some(Settings {
        data,
        store: store?,
        blobs: blobs?,
        listen: listen?,
        advertise: advertise?,
        insecure_allow_remote: insecure?,
        tls: tls?,
        skills,
        policy,
        log: log?,
        otlp: otlp?,
        threads: threads?,
        stop_grace: stop_grace?,
        calls: calls?,
        sandbox: sandbox?,
        docker: docker?,
        edge: EdgeConfig { grace: stop_grace?, ..edge? },
        api: api?,
        egress: egress?,
        kafka: kafka?,
        intake: intake?,
        redis: redis?,
        webhooks: webhooks?,
        heads: heads?,
        models: models?,
        secret_keys: secret_keys?,
    })
}

/// Files of TLS alone.
pub(super) fn tls_files(layers: &Layers, problems: &mut Problems) -> Option<TlsFiles> {
    Reader { layers, problems }.tls().flatten()
}

/// Database of the store and directory of its blobs; `None` only if a problem was added.
pub(super) fn store(
    layers: &Layers,
    problems: &mut Problems,
) -> Option<(Option<PostgresUrl>, Blobs)> {
    Reader { layers, problems }.store(&layers.path("data"))
}

pub(super) struct Reader<'a> {
    pub(super) layers: &'a Layers,
    problems: &'a mut Problems,
}

impl Reader<'_> {
    fn listen(&mut self) -> Option<std::net::SocketAddr> {
        self.one("listen", |text| {
            // `localhost` is accepted; any other name would need a lookup.
            let text = text
                .strip_prefix("localhost")
                .map(|port| format!("127.0.0.1{port}"))
                .unwrap_or_else(|| text.to_owned());
            text.parse().map_err(|_| {
                format!("`{text}` is not an address and port such as 127.0.0.1:7420 or [::1]:7420")
            })
        })
    }

    fn advertise(&mut self) -> Option<Option<String>> {
        if self.layers.get("advertise").values.is_empty() {
            return Some(None);
        }
        self.one("advertise", |text| match is_base_url(text) {
            true => Ok(Some(text.trim_end_matches('/').to_owned())),
            false => Err(format!("`{text}` is not a URL such as http://10.0.0.7:7420")),
        })
    }

    fn tls(&mut self) -> Option<Option<TlsFiles>> {
        let file = |name: &str| self.layers.get(name).values.first().map(PathBuf::from);
        match (file("tls.cert"), file("tls.key")) {
            (Some(certificate), Some(key)) => Some(Some(TlsFiles { certificate, key })),
            (None, None) => Some(None),
            _ => self.problems.keep(Err("tls.cert and tls.key go together: set both".to_owned())),
        }
    }

    fn store(&mut self, data: &Path) -> Option<(Option<PostgresUrl>, Blobs)> {
        let has_store = !self.layers.get("store").values.is_empty();
        let store = match has_store {
            true => Some(self.one("store", |text| {
                text.parse().map_err(|error: InvalidPostgresUrl| match error.source() {
                    Some(cause) => format!("{error}: {cause}"),
                    None => error.to_string(),
                })
            })?),
            false => None,
        };
        let blobs = self.blobs(data, store.is_some())?;
        Some((store, blobs))
    }

    fn heads(&mut self) -> Option<Heads> {
        let is_given = |name: &str| !self.layers.get(name).values.is_empty();
        let (has_path, has_url) = (is_given("ledger.head_path"), is_given("ledger.head_url"));
        let path = match has_path {
            true => {
                Some(self.one("ledger.head_path", |text| match Path::new(text).is_absolute() {
                    true => Ok(PathBuf::from(text)),
                    false => Err(format!("`{text}` is not an absolute path")),
                })?)
            }
            false => None,
        };
        let url = match has_url {
            true => Some(self.one("ledger.head_url", super::webhooks::address)?),
            false => None,
        };
        Some(Heads { path, url })
    }

    fn log(&mut self) -> Option<Log> {
        let level = self.one("log.level", |text| {
            let parsed = tracing_subscriber::EnvFilter::try_new(text);
            // A bare word would be taken for the name of a part, and silence all others.
            match parsed.is_ok() && text.split(',').all(is_directive) {
                true => Ok(text.to_owned()),
                false => Err(format!("`{text}` is not a level: one of {}", LEVELS.join(", "))),
            }
        });
        let is_json = self.one("log.format", |text| match text {
            "text" => Ok(false),
            "json" => Ok(true),
            other => Err(format!("`{other}` is neither text nor json")),
        });
        Some(Log { level: level?, is_json: is_json? })
    }

    fn calls(&mut self, work: PathBuf) -> Option<engine::Settings> {
        let running = self.count("calls.running", 1, 100_000);
        let per_tenant = match self.layers.get("calls.running_per_tenant").values.is_empty() {
            true => running.map(|running| (running * 3 / 4).max(1)),
            false => self.count("calls.running_per_tenant", 1, 100_000),
        };
        let waiting = self.count("calls.waiting", 0, 1_000_000);
        let waiting_per_tenant = self.count("calls.waiting_per_tenant", 0, 1_000_000);
        let longest = self.time("calls.longest");
        let hold_for = self.time("calls.hold_for");
        let (memo, room) = (self.memo(), self.room());
        let daily_budget = self.daily_budget();
        let retention = self.time("retention.keep_for");
        let retries = self.count("calls.retries", 0, 10);
        let failures = self.count("circuit.failures", 0, 1_000_000);
        let reset_after = self.time("circuit.reset_after");
        let held_denials = self.held_denials();
        let proxy = self.proxy();
        let (sandboxes, artifacts) = (self.kept_sandboxes(), self.artifacts());
        let (roots, role) = (self.roots(&work), self.role());
        let discovery = self.discovery();
        Some(engine::Settings {
            role: role?,
            running: running?,
            running_per_tenant: per_tenant?,
            waiting: waiting?,
            waiting_per_tenant: waiting_per_tenant?,
            max_wall_time: longest?,
            hold_for: hold_for?,
            held_denials: held_denials?,
            mcp_packages: work.with_file_name("mcp-packages"),
            work,
            memo: memo?,
            room: room?,
            daily_budget: daily_budget?,
            retention: Some(retention?).filter(|keep_for| !keep_for.is_zero()),
            retries: retries? as u32,
            circuit: engine::CircuitSettings {
                failures: failures? as u32,
                reset_after: reset_after?,
            },
            sandboxes: sandboxes?,
            artifacts: artifacts?,
            proxy: proxy?,
            roots: roots?,
            discovery: discovery?,
        })
    }

    fn role(&mut self) -> Option<ProcessRole> {
        let is_shared = !self.layers.get("store").values.is_empty();
        self.one("role", |text| match text.parse() {
            Ok(ProcessRole::All) => Ok(ProcessRole::All),
            Ok(role) if is_shared => Ok(role),
            Ok(role) => Err(format!("`{role}` needs servers that share a database: set store")),
            Err(error) => Err(format!("`{text}` is {error}")),
        })
    }

    fn kept_sandboxes(&mut self) -> Option<engine::SandboxLimits> {
        let max = self.count("sandbox.kept", 0, 100_000);
        let max_per_tenant = self.count("sandbox.kept_per_tenant", 0, 100_000);
        Some(engine::SandboxLimits { max: max?, max_per_tenant: max_per_tenant? })
    }

    fn artifacts(&mut self) -> Option<engine::ArtifactLimits> {
        let files_per_call = self.count("artifacts.files_per_call", 0, 1_000);
        let bytes_per_call = self.size("artifacts.bytes_per_call");
        let bytes_per_tenant = self.size("artifacts.tenant_bytes");
        let grace = self.time("artifacts.grace");
        Some(engine::ArtifactLimits {
            files_per_call: files_per_call?,
            bytes_per_call: bytes_per_call?.0,
            bytes_per_tenant: bytes_per_tenant?.0,
            grace: grace?,
        })
    }

    fn held_denials(&mut self) -> Option<engine::HeldDenials> {
        let is_held = self.one("calls.denies", |text| match text {
            "final" => Ok(false),
            "hold" => Ok(true),
            other => Err(format!("`{other}` is neither final nor hold")),
        });
        let tenants = self.many("calls.denies_held_for", parsed);
        let (is_held, tenants) = (is_held?, tenants?);
        Some(match (is_held, tenants.is_empty()) {
            (true, _) => engine::HeldDenials::All,
            (false, true) => engine::HeldDenials::None,
            (false, false) => engine::HeldDenials::Of(tenants.into_iter().collect()),
        })
    }

    fn daily_budget(&mut self) -> Option<BudgetBounds> {
        let calls = self.count("budget.calls_per_day", 0, usize::MAX);
        let (cpu, output) = (self.time("budget.cpu_per_day"), self.size("budget.output_per_day"));
        let tokens = self.count("budget.tokens_per_day", 0, usize::MAX);
        Some(BudgetBounds {
            calls: Some(calls? as u64).filter(|calls| *calls > 0),
            cpu: Some(cpu?).filter(|cpu| !cpu.is_zero()),
            output_bytes: Some(output?.0).filter(|bytes| *bytes > 0),
            tokens: Some(tokens? as u64).filter(|tokens| *tokens > 0),
        })
    }

    fn room(&mut self) -> Option<RoomLimits> {
        let tenant_bytes_per_hour = self.size("limits.tenant_bytes_per_hour");
        let disk_reserve = match self.layers.get("limits.disk_reserve").values.is_empty() {
            true => Some(None),
            false => self.size("limits.disk_reserve").map(|bytes| Some(bytes.0)),
        };
        Some(RoomLimits {
            tenant_bytes_per_hour: tenant_bytes_per_hour?.0,
            disk_reserve: disk_reserve?,
        })
    }

    fn memo(&mut self) -> Option<engine::Memo> {
        let tools = self.many("memo.tools", parsed);
        let keep_for = self.time("memo.keep_for");
        let most = self.one("memo.most_per_tenant", |text| {
            let most = text.parse().ok().filter(|most| (1..=10_000_000).contains(most));
            most.ok_or_else(|| format!("`{text}` is not a number from 1 to 10000000"))
        });
        let tools = tools?.into_iter().collect();
        Some(engine::Memo { tools, keep_for: keep_for?, max_per_tenant: most? })
    }

    fn sandbox(&mut self) -> Option<Sandbox> {
        let most = self.count("sandbox.most", 1, 100_000);
        let least = self.count("sandbox.pool_least", 0, 1_000);
        let memory = self.size("sandbox.pool_memory");
        let codes = self.count("sandbox.pool_skills", 0, 1_000);
        let allow_missing = self.many("sandbox.allow_missing", |text| {
            let problem = |_| format!("`{text}` is none of cgroup, landlock and userns");
            <Wall as clap::ValueEnum>::from_str(text, false).map_err(problem)
        });
        let prepare = self.many("sandbox.prepare", |text| match text {
            "python" => Ok(Language::Python),
            "javascript" => Ok(Language::Javascript),
            other => Err(format!("`{other}` is neither python nor javascript")),
        });
        let (is_watched, taken) =
            (self.truth("sandbox.watchdog"), self.size("sandbox.watchdog_memory"));
        let (memory, least, codes) = (memory?, least?, codes?);
        let pools = PoolConfig { memory, min_ready: least, codes, ..PoolConfig::default() };
        let rules = WatchdogRules { memory: taken?, ..WatchdogRules::default() };
        let watchdog = is_watched?.then_some(rules);
        let walls = allow_missing?;
        let may_miss = walls.iter().flat_map(|wall| wall.layers()).copied().collect();
        Some(Sandbox { most: most?, pools, prepare: prepare?, watchdog, may_miss })
    }

    fn api(&mut self) -> Option<ApiConfig> {
        let open_metrics = self.truth("api.open_metrics")?;
        Some(ApiConfig { open_metrics, ..ApiConfig::default() })
    }

    fn edge(&mut self) -> Option<EdgeConfig> {
        let largest = u32::MAX as usize;
        let max_body = self.size("api.max_body").map(as_usize);
        let max_upload = self.size("api.max_upload").map(as_usize);
        let (request, wait) = (self.time("api.request_timeout"), self.time("api.default_wait"));
        let max_wait = self.time("api.max_wait");
        let first_header = self.time("api.first_header_timeout");
        let connections = self.count("api.max_connections", 1, largest);
        let streams = self.count("api.max_streams", 1, largest);
        let rate = self.rate();
        let allowed_hosts = self.layers.get("api.allowed_hosts").values.clone();
        Some(EdgeConfig {
            max_body: max_body?,
            max_upload: max_upload?,
            request_timeout: request?,
            default_wait: wait?,
            max_wait: max_wait?,
            first_header_timeout: first_header?,
            max_connections: connections?,
            max_streams: streams?,
            rate: rate?,
            allowed_hosts,
            ..EdgeConfig::default()
        })
    }

    fn rate(&mut self) -> Option<Option<Rate>> {
        let per_second = self.count("api.rate_per_second", 0, 10_000_000);
        let burst = self.count("api.rate_burst", 1, 10_000_000);
        let (per_second, burst) = (per_second? as u32, burst? as u32);
        Some((per_second > 0).then_some(Rate { per_second, burst }))
    }

    fn proxy(&mut self) -> Option<egress::ProxyLimits> {
        // Both ends of a connection are sockets of the sandbox, which may have 128 of them.
        let connections = self.count("egress.connections", 1, 64);
        let (bytes, bytes_per_sec) = (self.size("egress.total"), self.size("egress.rate"));
        let header_timeout = self.time("egress.connect_timeout");
        let idle = self.time("egress.idle_timeout");
        Some(egress::ProxyLimits {
            connections: connections?,
            bytes: bytes?,
            bytes_per_sec: bytes_per_sec?,
            header_timeout: header_timeout?,
            idle: idle?,
        })
    }

    fn roots(&mut self, work: &Path) -> Option<engine::RootSettings> {
        let python_index = match self.layers.get("packages.python_index").values.is_empty() {
            true => Some(None),
            false => self.one("packages.python_index", |text| {
                super::webhooks::address(text).map(|url| Some(url.to_string()))
            }),
        };
        let package_hosts = self.many("packages.hosts", |text| {
            let rule: Result<egress::HostRule, _> = text.parse();
            rule.map(|_| text.to_owned()).map_err(|invalid| invalid.to_string())
        });
        let usual = work.parent().map(engine::RootSettings::below).unwrap_or_default();
        Some(engine::RootSettings {
            python_index: python_index?,
            package_hosts: package_hosts?,
            ..usual
        })
    }

    fn discovery(&mut self) -> Option<engine::DiscoverySettings> {
        let directories = self.many("discovery.directories", parsed);
        let public_key = match self.layers.get("discovery.public_key").values.is_empty() {
            true => Some(None),
            false => self.one("discovery.public_key", |text| {
                let bytes = STANDARD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
                bytes.map(Some).ok_or_else(|| "is not base64 of 32 bytes".to_owned())
            }),
        };
        Some(engine::DiscoverySettings { directories: directories?, public_key: public_key? })
    }

    fn secret_keys(&mut self) -> Option<Option<SecretText>> {
        if self.layers.get("secrets.key").values.is_empty() {
            return Some(None);
        }
        self.one("secrets.key", |text| match SecretKey::parse_all(text) {
            Ok(keys) if keys.is_empty() => Ok(None),
            Ok(_) => Ok(Some(SecretText::new(text.to_owned()))),
            Err(invalid) => Err(invalid.to_string()),
        })
    }

    fn egress(&mut self) -> Option<egress::Options> {
        let allow_private = self.many("egress.allow_private", parsed);
        let longest_timeout = self.time("egress.longest_timeout");
        let largest_body = self.size("egress.largest_body");
        let pass_trace = self.truth("egress.pass_trace");
        Some(egress::Options {
            allow_private: allow_private?,
            longest_timeout: longest_timeout?,
            largest_body: largest_body?,
            pass_trace: pass_trace?,
            ..egress::Options::default()
        })
    }
}

/// Bytes as `usize`: bodies are held in memory.
fn as_usize(bytes: Bytes) -> usize {
    usize::try_from(bytes.0).unwrap_or(usize::MAX)
}

fn parsed<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

impl Reader<'_> {
    pub(super) fn one<T>(
        &mut self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let given = self.layers.get(name);
        let value = match given.values.as_slice() {
            [value] => parse(value),
            _ => Err("one value is wanted".to_owned()),
        };
        let source = given.source.words();
        self.problems.keep(value.map_err(|error| format!("{name} (from {source}): {error}")))
    }

    pub(super) fn many<T>(
        &mut self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let given = self.layers.get(name);
        let source = given.source.words();
        let values = given.values.iter().map(|text| {
            let value = parse(text).map_err(|error| format!("{name} (from {source}): {error}"));
            self.problems.keep(value)
        });
        // Collected first, so that every problem is reported.
        values.collect::<Vec<_>>().into_iter().collect()
    }

    pub(super) fn truth(&mut self, name: &str) -> Option<bool> {
        self.one(name, |text| match text {
            "true" | "1" | "yes" => Ok(true),
            "false" | "0" | "no" => Ok(false),
            other => Err(format!("`{other}` is neither true nor false")),
        })
    }

    pub(super) fn count(&mut self, name: &str, least: usize, most: usize) -> Option<usize> {
        self.one(name, |text| {
            let count = text.parse().ok().filter(|count| (least..=most).contains(count));
            count.ok_or_else(|| format!("`{text}` is not a number from {least} to {most}"))
        })
    }

    pub(super) fn time(&mut self, name: &str) -> Option<Duration> {
        self.one(name, |text| parse_duration(text).map_err(|error| error.to_string()))
    }

    fn size(&mut self, name: &str) -> Option<Bytes> {
        self.one(name, parsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{
        keys::Host,
        layers::{Given, Source},
    };

    fn with(values: &[(&'static str, &str)]) -> (Option<Settings>, Option<String>) {
        let mut layers = Layers::of_defaults(&Host { processors: 2 });
        layers.data(None, "/data".into());
        for (name, value) in values {
            let source = Source::Variable("X".to_owned());
            layers.lay([(*name, Given { values: vec![(*value).to_owned()], source })]);
        }
        let mut problems = Problems::default();
        let settings = settings(&layers, &mut problems);
        (settings, problems.none().err().map(|failure| failure.text()))
    }

    #[test]
    fn the_defaults_are_those_of_the_parts() {
        let (settings, problems) = with(&[]);
        assert_eq!(problems, None);
        let settings = settings.unwrap();
        assert_eq!(format!("{:?}", settings.edge), format!("{:?}", EdgeConfig::default()));
        assert_eq!(format!("{:?}", settings.api), format!("{:?}", ApiConfig::default()));
        let usual = engine::Settings::for_processors(2, "/data/work".into());
        assert_eq!(format!("{:?}", settings.calls), format!("{usual:?}"));
        let (given, usual) = (settings.egress, egress::Options::default());
        assert_eq!(format!("{given:?}"), format!("{usual:?}"));
        assert_eq!(format!("{:?}", settings.sandbox.pools), format!("{:?}", PoolConfig::default()));
        assert_eq!(settings.sandbox.watchdog, Some(WatchdogRules::default()));
    }

    #[test]
    fn all_wrong_values_are_named_at_once_with_their_place() {
        let (settings, problems) = with(&[
            ("listen", "everywhere"),
            ("threads", "0"),
            ("log.format", "xml"),
            ("calls.longest", "5 parsecs"),
            ("sandbox.prepare", "cobol"),
        ]);
        assert!(settings.is_none());
        let told = "error: 5 problems with the request\n  \
            listen (from X): `everywhere` is not an address and port such as 127.0.0.1:7420 or [::1]:7420\n  \
            log.format (from X): `xml` is neither text nor json\n  \
            threads (from X): `0` is not a number from 1 to 256\n  \
            calls.longest (from X): `5 parsecs` is not a duration such as 500ms or 5s\n  \
            sandbox.prepare (from X): `cobol` is neither python nor javascript\n";
        assert_eq!(problems.as_deref(), Some(told));
    }
}
