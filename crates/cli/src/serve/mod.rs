//! `ringfence serve`: wires all parts, opens and closes them in order.
//!
//! Order of opening: settings, data directory, log, parts, listener, key, address. The address is
//! published once calls can be accepted. Order of closing: the engine, the listener, the sandboxes,
//! the database; the record is never behind an answer, and results of calls that end during the
//! grace period can be read.

mod address;
mod admin;
mod banner;
mod bus;
mod clock;
mod data;
mod descriptors;
mod embedded;
mod log;
mod login;
mod migrate;
mod notify;
mod parts;
mod policy;
mod secret_keys;
mod stop;
mod telemetry;
pub(crate) mod tls;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use ringfence_api::Api;
use ringfence_console::{Console, ConsoleConfig};
use ringfence_edge::{Edge, EdgeConfig, Server};
use ringfence_mcp::{Mcp, McpConfig};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{net::TcpListener, runtime::Runtime};

use self::{address::Address, banner::Banner, stop::Stop};
pub(crate) use self::{
    clock::SystemClock,
    data::write as write_file,
    migrate::migrate,
    parts::{Opened, database, open, open_database},
};
use crate::{
    cli::ServeArgs, exit, failure::Failure, run::prepare_process, settings::Settings,
    signals::Signals,
};

pub(crate) fn serve(args: &ServeArgs) -> Result<ExitCode, Failure> {
    let forever = async || std::future::pending().await;
    let code = start(args, forever).map_err(|failure| failure.in_json(args.json))?;
    Ok(ExitCode::from(code))
}

/// Serves for as long as some work does that needs the server. Nothing is printed to standard output.
pub(crate) fn beside(
    args: &ServeArgs,
    work: impl AsyncFnOnce() -> Result<(), Failure>,
) -> Result<u8, Failure> {
    start(args, work)
}

fn start(args: &ServeArgs, work: impl AsyncFnOnce() -> Result<(), Failure>) -> Result<u8, Failure> {
    ringfence_jail::heap::return_large_blocks();
    prevent_core_dumps();
    let settings = Settings::load(&args.settings)?;
    check_reach(&settings)?;
    // While there is one thread, and after the settings, which depend on the user.
    prepare_process();
    data::prepare(&settings.data)?;
    log::start(&settings.log)?;
    let runtime = runtime(settings.threads)?;
    let ended = runtime.block_on(run(&settings, args.json, work));
    // After a second signal, unfinished work is not waited for.
    runtime.shutdown_background();
    ended
}

/// Keeps keys and secrets in memory out of core dumps of this process.
fn prevent_core_dumps() {
    let found = getrlimit(Resource::Core);
    // Lowering a limit is always allowed.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), ..found });
}

/// Refuses remote access without encryption: keys would be readable on the network.
fn check_reach(settings: &Settings) -> Result<(), Failure> {
    let is_safe = settings.listen.ip().is_loopback() || settings.tls.is_some();
    if is_safe || settings.insecure_allow_remote {
        return Ok(());
    }
    let message = format!("`{}` can be reached from other machines", settings.listen);
    let cause = "without TLS, keys and data would travel in the clear".to_owned();
    Err(Failure::listing(message, vec![cause]).hint(
        "give the server a certificate with --tls-cert and --tls-key, listen on 127.0.0.1, or accept \
         it with --insecure-allow-remote",
    ))
}

/// A runtime with few threads: each costs memory, and long work runs in sandboxes.
pub(crate) fn runtime(threads: usize) -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .max_blocking_threads(16)
        .thread_stack_size(1 << 20)
        .enable_all()
        .build()
        .map_err(|error| Failure::because("cannot start the runtime", &error))
}

async fn run(
    settings: &Settings,
    is_json: bool,
    work: impl AsyncFnOnce() -> Result<(), Failure>,
) -> Result<u8, Failure> {
    let watched = |error| Failure::because("cannot watch for signals", &error);
    let mut signals = Signals::watch().map_err(watched)?;
    let tls = tls::open(settings.tls.as_ref())?;
    let listener = listen(settings).await?;
    let opened = parts::open(settings).await?;
    let key = match &settings.store {
        // `ringfence migrate` makes the first key: of two servers that start at once, both would.
        Some(_) => None,
        None => admin::ensure(opened.engine.access(), &settings.data).await?,
    };
    let url = address::url(&listener, tls.is_some())?;
    advertise(settings, &opened, &listener, tls.is_some()).await?;
    tls::tell_certificate(tls.as_ref(), &settings.data)?;
    let address = Address::tell(&settings.data, &url)?;
    let login = login::link(&opened, &settings.data, &url).await;
    let (key, login) = (key.as_ref(), login.as_deref());
    Banner { settings, opened: &opened, url: &url, key, login }.show(is_json);
    notify::ready();
    let max_connections = descriptors::max_connections(settings);
    let config = EdgeConfig { max_connections, ..settings.edge.clone() };
    let edge = Edge::new(opened.engine.clone(), config);
    let talk = opened.conversations.clone();
    let plans = Some(opened.plans.clone());
    let api = Api::with_workers(edge.clone(), settings.api.clone(), talk, plans);
    let console = Console::new(edge.clone(), console(settings, tls.is_some()));
    let mcp = Mcp::new(edge.clone(), McpConfig { has_tls: tls.is_some(), ..McpConfig::default() });
    let server = Server::new(edge, &[&api, &console, &mcp]).with_tls(tls.clone());
    let ended = tokio::select! {
        ended = until_stopped(server, listener, opened, settings, &mut signals, work()) => ended,
        never = tls::watch(tls.as_ref(), &settings.data) => match never {},
    };
    address.forget();
    ended
}

/// Tells other servers on the same database where they reach this one, before it takes requests.
async fn advertise(
    settings: &Settings,
    opened: &Opened,
    listener: &TcpListener,
    has_tls: bool,
) -> Result<(), Failure> {
    let url = match &settings.advertise {
        Some(url) => url.clone(),
        None => address::advertised(listener, has_tls)?,
    };
    let told = opened.engine.advertise(url).await;
    told.map_err(|error| Failure::because("cannot register this server", &error))
}

/// Settings of the console: those of the server, as they are shown to operators.
fn console(settings: &Settings, has_tls: bool) -> ConsoleConfig {
    let shown = settings.api.settings.iter().map(|setting| ringfence_console::Setting {
        name: setting.name.clone(),
        value: match &setting.value {
            serde_json::Value::Null => String::new(),
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        },
        source: setting.source.clone(),
        about: setting.about.clone().unwrap_or_default(),
    });
    ConsoleConfig { settings: shown.collect(), has_tls }
}

async fn listen(settings: &Settings) -> Result<TcpListener, Failure> {
    TcpListener::bind(settings.listen).await.map_err(|error| {
        let is_taken = error.kind() == std::io::ErrorKind::AddrInUse;
        let failure = Failure::because(format!("cannot listen on {}", settings.listen), &error);
        match is_taken {
            true => failure.hint("choose another port: ringfence serve --listen 127.0.0.1:0"),
            false => failure,
        }
    })
}

/// Serves until a signal comes, then shuts down in order, or at once after a second one.
async fn until_stopped(
    server: Server,
    listener: TcpListener,
    opened: Opened,
    settings: &Settings,
    signals: &mut Signals,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<u8, Failure> {
    let stop = Stop::default();
    let serving = server.serve(listener, stop.asked());
    tokio::pin!(serving);
    let mut worked = Ok(());
    tokio::select! {
        ended = &mut serving => {
            ended.map_err(|error| Failure::because("the server cannot go on", &error))?;
        }
        signal = signals.first() => tracing::info!(signal, "stopping"),
        done = work => worked = done,
    }
    let asked_at = Instant::now();
    let ending = async {
        // The listener stays while calls end: clients read their results, and new calls get 503.
        let served = tokio::select! {
            served = &mut serving => served,
            () = drain(&opened, settings.stop_grace) => {
                stop.ask();
                serving.await
            }
        };
        opened.close().await;
        served
    };
    tokio::select! {
        served = ending => {
            served.map_err(|error| Failure::because("the server did not end well", &error))?;
            worked.map(|()| exit::DONE)
        }
        signal = second_signal(signals, asked_at) => {
            tracing::warn!("stopped at once by a second signal");
            Ok(exit::of_signal(signal))
        }
    }
}

/// Time for clients to read the results of drained calls: a client that followed a call asks for
/// its result after its last event.
const RESULT_READ_TIME: Duration = Duration::from_secs(1);

/// Lets running calls end, for `grace` at most.
async fn drain(opened: &Opened, grace: Duration) {
    let engine = &opened.engine;
    // Before the engine refuses: what is on the topic stays there.
    opened.close_intake().await;
    let has_calls = engine.load() != (0, 0);
    engine.stop(grace).await;
    if has_calls {
        tokio::time::sleep(RESULT_READ_TIME).await;
    }
}

/// A signal this soon after the first is the same request: a service manager may signal a whole group,
/// and a terminal together with its shell sends two.
const REPEATED_SIGNAL: Duration = Duration::from_secs(1);

/// Waits for a signal that is not a repetition of the one at `first_at`.
async fn second_signal(signals: &mut Signals, first_at: Instant) -> i32 {
    loop {
        let signal = signals.first().await;
        if first_at.elapsed() > REPEATED_SIGNAL {
            return signal;
        }
    }
}
