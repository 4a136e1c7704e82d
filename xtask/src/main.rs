//! Entry point of `cargo xtask`: picks the chore.
#![expect(clippy::print_stdout, reason = "telling the developer is what the chores are for")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use xtask::{bench, dist, resources, services, settings, suite, tidy, vm};

const HELP: &str = "\
usage: cargo xtask <command>

  test [FILTER]               set up what tests need, run everything, print what ran against what;
                              FILTER is a test name, or one of: tidy, kafka, mcp, browser, rootless, vm
  screenshots [FOLDER]        pictures of every page of the console, in light and dark
                              (default: target/screenshots)
  tidy                        check what the compiler cannot
  bench sandbox [--quick] [--runs N] [--json FILE]
                              every tier beside bare interpreters and peers, with ratios
  bench load [--quick] [--json FILE]
                              the running server under load, beside services that do less
  bench policy [--quick] [--json FILE]
                              what a decision costs, beside a real OPA server
  bench ledger [--quick]      what a receipt costs, and how fast the past is judged again
  bench console [--quick | --long]
                              first pages of the console over a large history, and memory of live
                              updates
  bench cluster [--quick]     several servers on one database, under load and with faults
  bench kafka [--quick] [--soak]
                              calls from tool.requests to tool.results, beside a raw loop, one in
                              flight and HTTP; --soak: ten minutes, and memory of the server
  bench mcp [--quick]         a call over MCP beside the same call over REST
  bench fuzz [--minutes N]    everything that reads hostile bytes, for minutes
  dist                        a tarball, a Debian package and checksums in target/dist
  services build|up|down|status
                              real policy servers of others, for use by hand
  resources [--binary PATH] [NAME…]
                              in the emulated machine: kernel memory that a sandbox takes, beside
                              what it is charged for
  vm [--binary PATH] [-- COMMAND…]
                              boot Debian's packaged kernel in qemu and run COMMAND there
                              (default: say which kernel and controllers it has)
  vm --systemd [--binary PATH] [-- COMMAND…]
                              the same in a small Debian with systemd, made once by debootstrap;
                              `as-user` in it runs a command as an ordinary user (default: the
                              first page of the README, and stopping the service)";

/// Default command of `vm`.
const VM_DEFAULT: &str = "uname -a; cat /sys/fs/cgroup/cgroup.controllers; rootless id";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match chore(&words) {
        Ok(code) => code,
        Err(problem) => {
            eprintln!("error: {problem:#}");
            ExitCode::from(2)
        }
    }
}

fn chore(words: &[&str]) -> Result<ExitCode> {
    match words {
        ["test"] => suite::run(None),
        ["test", filter] => suite::run(Some(filter)),
        ["screenshots"] => screenshots(&settings::workspace_root().join("target/screenshots")),
        ["screenshots", folder] => screenshots(Path::new(folder)),
        ["tidy"] => check_tidy(),
        ["dist"] => dist::run().map(|()| ExitCode::SUCCESS),
        ["bench", rest @ ..] => bench::run(rest).map(|()| ExitCode::SUCCESS),
        ["services", rest @ ..] => services::run(rest.first().copied()).map(|()| ExitCode::SUCCESS),
        ["resources", rest @ ..] => {
            let (binary, names) = resources::arguments(rest)?;
            resources::run(&binary, names).map(|()| ExitCode::SUCCESS)
        }
        ["vm", rest @ ..] => boot(rest),
        [] | ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        other => bail!("unknown command `{}`\n\n{HELP}", other.join(" ")),
    }
}

fn screenshots(folder: &Path) -> Result<ExitCode> {
    suite::screenshots(folder)?;
    println!("written to {}", folder.display());
    Ok(ExitCode::SUCCESS)
}

fn check_tidy() -> Result<ExitCode> {
    let problems = tidy::check(&tidy::Tree::read(&settings::workspace_root())?);
    tidy::print(&problems);
    let errors = problems.iter().filter(|problem| problem.is_error()).count();
    println!("{} rules, {errors} errors", tidy::RULES.len());
    Ok(if errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn boot(words: &[&str]) -> Result<ExitCode> {
    let vm = VmArguments::read(words)?;
    let show = &mut |line: &str| println!("{line}");
    let binary = vm.binary.as_deref();
    let code = match vm.systemd {
        true => {
            let command = vm.command.map_or_else(vm::systemd::checks, Ok)?;
            vm::systemd::run(binary, &format!("{command}\n"), show)?
        }
        false => {
            let command = vm.command.as_deref().unwrap_or(VM_DEFAULT);
            vm::run(binary, &format!("{command}\n"), vm::DEADLINE, show)?
        }
    };
    let code = u8::try_from(code).with_context(|| format!("exit code {code} is no exit code"))?;
    Ok(ExitCode::from(code))
}

/// Arguments of `vm`.
#[derive(Debug, Default)]
struct VmArguments {
    systemd: bool,
    binary: Option<PathBuf>,
    command: Option<String>,
}

impl VmArguments {
    fn read(words: &[&str]) -> Result<Self> {
        match words {
            [] => Ok(Self::default()),
            ["--", command @ ..] => {
                Ok(Self { command: Some(command.join(" ")), ..Self::default() })
            }
            ["--systemd", rest @ ..] => Ok(Self { systemd: true, ..Self::read(rest)? }),
            ["--binary", path, rest @ ..] => {
                Ok(Self { binary: Some(PathBuf::from(path)), ..Self::read(rest)? })
            }
            other => bail!("`vm` does not understand `{}`\n\n{HELP}", other.join(" ")),
        }
    }
}
