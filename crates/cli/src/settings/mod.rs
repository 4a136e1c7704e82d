//! What the operator decides: flags over environment over file over defaults.
//!
//! Every setting is declared once, in [`keys`], with its meaning and its default. The layers are
//! merged as text, then read into types in one go, so that all problems are told at once, each with
//! the place it came from.

mod environment;
mod file;
mod keys;
mod layers;
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
use ringfence_sandbox::{Language, PoolConfig, WatchdogRules};
use ringfence_types::Layer;

pub(crate) use self::show::config;
use self::{keys::Host, layers::Layers};
use crate::{
    cli::SettingsArgs, config as places, failure::Failure, ledger::Heads, problems::Problems,
};

/// Everything a server is made of, complete and checked.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Where everything that lasts is.
    pub(crate) data: PathBuf,
    /// Where to listen.
    pub(crate) listen: SocketAddr,
    /// Whether others than this machine may reach a door without encryption.
    pub(crate) insecure_allow_remote: bool,
    /// Certificate and key, if the listener has TLS.
    pub(crate) tls: Option<TlsFiles>,
    /// Folders of skill folders.
    pub(crate) skills: Vec<PathBuf>,
    /// Who decides.
    pub(crate) policy: policy::Policy,
    /// What is logged, and how.
    pub(crate) log: Log,
    /// Where traces go, if anywhere.
    pub(crate) otlp: Option<ringfence_otlp::Config>,
    /// Threads that serve.
    pub(crate) threads: usize,
    /// How long calls may go on after the server was told to stop.
    pub(crate) stop_grace: Duration,
    /// Bounds of the engine.
    pub(crate) calls: engine::Settings,
    /// Sandboxes.
    pub(crate) sandbox: Sandbox,
    /// Limits of all HTTP doors.
    pub(crate) edge: EdgeConfig,
    /// Limits of the REST door.
    pub(crate) api: ApiConfig,
    /// What tools may fetch.
    pub(crate) egress: egress::Options,
    /// Where the newest checkpoint of the ledger is kept, beside the data directory.
    pub(crate) heads: Heads,
    /// Who is told of events, if anybody.
    pub(crate) webhooks: Option<ringfence_webhook::Config>,
}

/// Files of a certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// Certificate chain.
    pub(crate) certificate: PathBuf,
    /// Private key.
    pub(crate) key: PathBuf,
}

/// What is logged, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Log {
    /// A level, or directives such as `info,ringfence_engine=debug`.
    pub(crate) level: String,
    /// One object per line instead of text.
    pub(crate) is_json: bool,
}

/// Sandboxes of a server.
#[derive(Debug, Clone)]
pub(crate) struct Sandbox {
    /// At one time.
    pub(crate) most: usize,
    /// Interpreters prepared ahead.
    pub(crate) pools: PoolConfig,
    /// Those prepared before anybody asks.
    pub(crate) prepare: Vec<Language>,
    /// When a program is ended for the sake of the host.
    pub(crate) watchdog: Option<WatchdogRules>,
    /// Layers that they may lack.
    pub(crate) may_miss: Vec<Layer>,
}

impl Settings {
    /// Reads all layers, or says everything that is wrong with them.
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

    /// The flags over the defaults, for a command that must not depend on how servers are set up here.
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

/// The flags over the defaults; neither file nor environment.
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
    // The data directory may be named by flag or variable only: the file is found through it.
    let data = from_environment.iter().find(|(name, _)| *name == "data");
    layers.lay(data.cloned());
    layers.flags(args);
    let file = file::find(file, &layers.path("data"));
    layers.file(file::read(file.as_ref(), problems));
    layers.lay(from_environment);
    layers.flags(args);
    layers
}
