//! Settings of the server: flags over environment over file over defaults.
//!
//! Every setting is declared once, in [`keys`], with its description and its default. The layers
//! are merged as text, then parsed into types together, so that all problems are reported at once,
//! each with its source.

mod blobs;
mod bus;
mod docker;
mod environment;
mod file;
mod keys;
mod layers;
mod models;
mod otlp;
pub(crate) mod policy;
mod read;
mod show;
mod webhooks;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use ringfence_api::ApiConfig;
use ringfence_edge::EdgeConfig;
use ringfence_egress as egress;
use ringfence_engine as engine;
use ringfence_sandbox::{DockerConfig, Language, PoolConfig, WatchdogRules};
use ringfence_store::PostgresUrl;
use ringfence_types::{Layer, SecretText};

pub(crate) use self::{blobs::Blobs, bus::Kafka, show::config};
use self::{keys::Host, layers::Layers};
use crate::{
    cli::SettingsArgs, config as places, failure::Failure, ledger::Heads, problems::Problems,
};

/// All settings of a server, complete and checked.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Data directory.
    pub(crate) data: PathBuf,
    /// Database of the store; without it, SQLite in the data directory.
    pub(crate) store: Option<PostgresUrl>,
    /// Place of large blobs.
    pub(crate) blobs: Blobs,
    /// Address to listen on.
    pub(crate) listen: SocketAddr,
    /// URL at which other servers on the same database reach this one, if it is not that of `listen`.
    pub(crate) advertise: Option<String>,
    /// Whether other machines may connect without encryption.
    pub(crate) insecure_allow_remote: bool,
    /// Certificate and key, if the listener has TLS.
    pub(crate) tls: Option<TlsFiles>,
    /// Folders of skill folders.
    pub(crate) skills: Vec<PathBuf>,
    /// Policy.
    pub(crate) policy: policy::Policy,
    /// Log level and format.
    pub(crate) log: Log,
    /// Receiver of traces, if configured.
    pub(crate) otlp: Option<ringfence_otlp::Config>,
    /// Threads that serve requests.
    pub(crate) threads: usize,
    /// Time that running calls get to finish at shutdown.
    pub(crate) stop_grace: Duration,
    /// Bounds of the engine.
    pub(crate) calls: engine::Settings,
    /// Sandboxes.
    pub(crate) sandbox: Sandbox,
    /// Container engine, if there is one.
    pub(crate) docker: Option<DockerConfig>,
    /// Limits of all HTTP doors.
    pub(crate) edge: EdgeConfig,
    /// Limits of the REST door.
    pub(crate) api: ApiConfig,
    /// Egress of tools.
    pub(crate) egress: egress::Options,
    /// Places of the newest ledger checkpoint besides the data directory.
    pub(crate) heads: Heads,
    /// Kafka as the bus of events; the embedded queue without it.
    pub(crate) kafka: Option<bus::Kafka>,
    /// Redis, if configured.
    pub(crate) redis: Option<ringfence_redis::Config>,
    /// The door for requests on the bus, if it is open.
    pub(crate) intake: Option<ringfence_intake::Config>,
    /// Models that run in the server.
    pub(crate) models: models::Models,
    /// Webhooks, if configured.
    pub(crate) webhooks: Option<ringfence_webhook::Config>,
    /// Keys that encrypt secrets, if they are not in a file.
    pub(crate) secret_keys: Option<SecretText>,
}

/// Files of a certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// Certificate chain.
    pub(crate) certificate: PathBuf,
    /// Private key.
    pub(crate) key: PathBuf,
}

/// Log level and format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Log {
    /// A level, or directives such as `info,ringfence_engine=debug`.
    pub(crate) level: String,
    /// Whether lines are JSON objects.
    pub(crate) is_json: bool,
}

/// Sandboxes of a server.
#[derive(Debug, Clone)]
pub(crate) struct Sandbox {
    /// Maximum number of sandboxes.
    pub(crate) most: usize,
    /// Interpreters prepared ahead.
    pub(crate) pools: PoolConfig,
    /// Languages whose interpreters are started ahead.
    pub(crate) prepare: Vec<Language>,
    /// Rules of the watchdog.
    pub(crate) watchdog: Option<WatchdogRules>,
    /// Layers that sandboxes may lack.
    pub(crate) may_miss: Vec<Layer>,
}

impl Settings {
    /// Reads all layers; fails with all problems.
    pub(crate) fn load(args: &SettingsArgs) -> Result<Self, Failure> {
        let mut problems = Problems::default();
        let layers = layers(args, &mut problems);
        let settings = read::settings(&layers, &mut problems).map(|mut settings| {
            settings.api.settings = show::settings_of(&layers);
            settings
        });
        problems.hint("all settings and where each value comes from: ringfence config show");
        problems.none()?;
        settings.ok_or_else(|| Failure::new("settings could not be read"))
    }

    /// Settings from flags and defaults alone, for a command that must not depend on the server
    /// settings of this host.
    pub(crate) fn of_flags(args: &SettingsArgs) -> Result<Self, Failure> {
        let mut problems = Problems::default();
        let settings = read::settings(&layers_of_flags(args), &mut problems);
        problems.none()?;
        settings.ok_or_else(|| Failure::new("settings could not be read"))
    }
}

/// Files of TLS as the environment and the settings file name them, for a command that only looks.
pub(crate) fn tls_files() -> Option<TlsFiles> {
    let mut problems = Problems::default();
    let layers = layers(&SettingsArgs::default(), &mut problems);
    read::tls_files(&layers, &mut problems)
}

/// Database of the store and place of its blobs, for a command that needs no other setting.
pub(crate) fn store(data: &crate::cli::DataArgs) -> Result<(Option<PostgresUrl>, Blobs), Failure> {
    let args = SettingsArgs {
        data: crate::cli::DataArgs { data: data.data.clone() },
        ..SettingsArgs::default()
    };
    let mut problems = Problems::default();
    // Problems of other settings are not this command's.
    let layers = layers(&args, &mut Problems::default());
    let found = read::store(&layers, &mut problems);
    problems.none()?;
    let usual = || (None, Blobs::Directory(layers.path("data").join("blobs")));
    Ok(found.unwrap_or_else(usual))
}

/// Folder of the weights of models, for a command that needs no other setting.
pub(crate) fn models_folder(data: &crate::cli::DataArgs) -> Result<PathBuf, Failure> {
    let args = SettingsArgs {
        data: crate::cli::DataArgs { data: data.data.clone() },
        ..SettingsArgs::default()
    };
    // Problems of other settings are not this command's.
    let layers = layers(&args, &mut Problems::default());
    let data = layers.path("data");
    Ok(models::folder(&layers, &std::path::absolute(&data).unwrap_or(data)))
}

/// Layers of flags and defaults, without file and environment.
fn layers_of_flags(args: &SettingsArgs) -> Layers {
    let mut layers = Layers::of_defaults(&Host::this());
    layers.flags(args);
    layers
}

/// All layers, merged.
fn layers(args: &SettingsArgs, problems: &mut Problems) -> Layers {
    let host = Host::this();
    let mut layers = Layers::of_defaults(&host);
    layers.data(args.data.data.as_ref(), places::usual_data_dir());
    let variables = places::variables();
    let from_environment = environment::read(&variables, problems);
    let file = environment::config_file(args.config.as_ref(), &variables, problems);
    // The data directory comes from flag or variable only: the file is found through it.
    let data = from_environment.iter().find(|(name, _)| *name == "data");
    layers.lay(data.cloned());
    layers.flags(args);
    let file = file::find(file, &layers.path("data"));
    layers.file(file::read(file.as_ref(), problems));
    layers.lay(from_environment);
    layers.flags(args);
    layers
}
