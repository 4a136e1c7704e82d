//! `cargo xtask services`: real servers for manual use.
//!
//! `up` starts OPA with the built-in rules, OpenFGA with an empty store in memory, Kafka without topics,
//! an empty Redis and an S3 server with an empty bucket `blobs`, on free ports, and prints the variables to export. Process ids are recorded, and `down` ends exactly those.

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use ringfence_testkit::{Server, kafka, redis, s3, server, server::Source};
use rustix::process::{Pid, Signal, kill_process};

use crate::{servers, settings, shell};

/// Runs `build`, `up`, `down` or `status`.
pub fn run(action: Option<&str>) -> Result<()> {
    match action {
        Some("build") => build(),
        Some("up") => daemons().try_for_each(up),
        Some("down") => daemons().try_for_each(down),
        Some("status") => daemons().try_for_each(status),
        Some(other) => bail!("unknown action `{other}`; use build, up, down or status"),
        None => bail!("name an action: build, up, down or status"),
    }
}

/// Servers for manual use; tests start a model server of their own.
fn daemons() -> impl Iterator<Item = &'static Server> {
    server::ALL.iter().filter(|server| !matches!(server.source, Source::Python(_)))
}

fn build() -> Result<()> {
    for server in &server::ALL {
        let provided = servers::provide(server);
        println!("{} {} {}", server.name, server.version, provided.program?.display());
    }
    Ok(())
}

/// Recorded running server.
#[derive(Debug)]
struct Running {
    pid: Pid,
    url: String,
}

fn up(server: &Server) -> Result<()> {
    let program = servers::provide(server).program?;
    let running = match running(server)? {
        Some(running) => running,
        None => start(server, &program)?,
    };
    let Running { pid, url } = running;
    println!("# {} {}, pid {}", server.name, server.version, pid.as_raw_nonzero());
    println!("export {}_URL={url}", server.name.to_ascii_uppercase());
    Ok(())
}

fn start(server: &Server, program: &Path) -> Result<Running> {
    let folder = folder(server)?;
    fs::create_dir_all(&folder).with_context(|| format!("create `{}`", folder.display()))?;
    let log = fs::File::create(folder.join("log")).context("create its log")?;
    let (http, grpc) = (free_address()?, free_address()?);
    let is_kafka = *server == server::KAFKA;
    let mut command = shell::command(if is_kafka { Path::new("java") } else { program });
    if is_kafka {
        // A new address is a new broker.
        let _ = fs::remove_dir_all(folder.join("logs"));
        kafka::format(program, &folder, http.parse().context("an address")?)?;
        command.args(kafka::arguments(program, &folder));
    } else if *server == server::REDIS {
        command.args(redis::arguments(&folder, http.parse().context("an address")?));
    } else if *server == server::VERSITYGW {
        s3::prepare(&folder)?;
        command.args(s3::arguments(&folder, http.parse().context("an address")?));
    } else {
        command.args(arguments(server, &http, &grpc));
    }
    command.stdin(Stdio::null());
    // A separate process group, so that ending this command does not end the server.
    command.stdout(log.try_clone()?).stderr(log).process_group(0);
    let child = command.spawn().with_context(|| format!("start {}", server.name))?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("a pid")?;
    let scheme = match server.name {
        name @ ("kafka" | "redis") => name,
        _ => "http",
    };
    let url = format!("{scheme}://{http}");
    fs::write(folder.join("running"), format!("{}\n{url}\n", child.id())).context("note it")?;
    Ok(Running { pid, url })
}

fn arguments(server: &Server, http: &str, grpc: &str) -> Vec<String> {
    let rules = settings::workspace_root().join("policy/ringfence.rego").display().to_string();
    let words: &[&str] = match server.name {
        "opa" => &["run", "--server", "--disable-telemetry", "--addr", http, &rules],
        _ => &[
            "run",
            "--playground-enabled=false",
            "--metrics-enabled=false",
            "--http-addr",
            http,
            "--grpc-addr",
            grpc,
        ],
    };
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn down(server: &Server) -> Result<()> {
    let Some(Running { pid, .. }) = running(server)? else {
        println!("{} does not run", server.name);
        return Ok(());
    };
    kill_process(pid, Signal::TERM).with_context(|| format!("end {}", server.name))?;
    fs::remove_file(folder(server)?.join("running")).context("forget it")?;
    println!("ended {}, pid {}", server.name, pid.as_raw_nonzero());
    Ok(())
}

fn status(server: &Server) -> Result<()> {
    match running(server)? {
        Some(Running { pid, url }) => {
            println!("{} runs at {url}, pid {}", server.name, pid.as_raw_nonzero());
        }
        None => println!("{} does not run", server.name),
    }
    Ok(())
}

/// Recorded process, if it is still the server and not a later process with the same id.
fn running(server: &Server) -> Result<Option<Running>> {
    let Ok(text) = fs::read_to_string(folder(server)?.join("running")) else { return Ok(None) };
    let (pid, url) = text.trim().split_once('\n').context("a note without an address")?;
    let pid = pid.parse().ok().and_then(Pid::from_raw).context("a note without a pid")?;
    let program = fs::read_link(format!("/proc/{}/exe", pid.as_raw_nonzero()));
    // Debian's `redis-server` is a link to another program of the package.
    let names: &[&str] = match server.name {
        "kafka" => &["java"],
        "redis" => &["redis-server", "redis-check-rdb"],
        name => &[name],
    };
    let is_it = program.is_ok_and(|path| {
        names.iter().any(|name| path.file_name() == Some(std::ffi::OsStr::new(name)))
    });
    Ok(is_it.then(|| Running { pid, url: url.to_owned() }))
}

fn folder(server: &Server) -> Result<PathBuf> {
    Ok(settings::cache_directory()?.join("services").join(server.name))
}

fn free_address() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").context("find a free port")?;
    Ok(listener.local_addr().context("read the port")?.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_actions_are_refused_by_name() {
        let error = run(Some("restart")).expect_err("unknown").to_string();
        assert_eq!(error, "unknown action `restart`; use build, up, down or status");
        assert!(run(None).is_err());
    }
}
