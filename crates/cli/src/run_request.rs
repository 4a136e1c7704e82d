//! Request of `run` from its arguments, with all problems reported at once.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
    time::Duration,
};

use ringfence_sandbox::{
    Language, Program, Request, Root, Stdin,
    image::{ImageName, ImageStore},
};
use ringfence_types::{Bytes, Layer, Limits, parse_duration};

use crate::{
    cli::{PlaceArgs, RunArgs},
    config, copy_in,
    copy_spec::{self, FileOut},
    failure::Failure,
    problems::Problems,
    source,
};

/// A checked run.
#[derive(Debug)]
pub(crate) struct RunRequest {
    pub(crate) request: Request,
    pub(crate) out: Vec<FileOut>,
    /// Bytes that the program may be ahead of the reader of its output.
    pub(crate) ahead: u64,
}

/// Bytes kept of a relayed stream, to look for hints in.
const KEPT_OUTPUT: Bytes = Bytes::kib(64);

/// Checks all arguments, and reads code and files.
pub(crate) fn run_request(args: &RunArgs) -> Result<RunRequest, Failure> {
    let mut problems = Problems::default();
    let mut limits = place_limits(&args.place, &mut problems);
    problems.set(&mut limits.wall, "--timeout", &args.timeout, duration);
    problems.set(&mut limits.output, "--output", &args.output, str::parse::<Bytes>);
    problems.set_some(&mut limits.output_total, "--output-total", &args.output_total, str::parse);
    let program = program(args, &mut problems);
    let out = problems.all(&args.out, |text| copy_spec::parse_out(text));
    let place = place(&args.place, limits, &mut problems);
    let ahead = place.limits.output.0;
    let from_stdin = args.file.as_deref() == Some("-".as_ref());
    problems.none()?;
    let mut request = Request {
        stdin: if from_stdin { Stdin::Empty } else { Stdin::Inherit },
        isolation: Some(args.isolation.into()),
        ..place.request(program)
    };
    if !args.json {
        request.limits.output = KEPT_OUTPUT;
    }
    Ok(RunRequest { request, out, ahead })
}

/// Checked parts of a sandbox.
#[derive(Debug)]
pub(crate) struct SandboxParts {
    pub(crate) root: Root,
    pub(crate) limits: Limits,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) files: Vec<ringfence_sandbox::InputFile>,
    pub(crate) may_miss: Vec<Layer>,
}

impl SandboxParts {
    fn request(self, program: Program) -> Request {
        let Self { root, limits, env, files, may_miss } = self;
        Request { root, limits, env, files, may_miss, ..Request::new(program) }
    }
}

pub(crate) fn duration(text: &str) -> Result<Duration, ringfence_types::InvalidQuantity> {
    parse_duration(text)
}

/// Limits of every kind of sandbox. The default workspace shrinks with the memory it lives in; a
/// given size does not.
pub(crate) fn place_limits(args: &PlaceArgs, problems: &mut Problems) -> Limits {
    let mut limits = Limits::default();
    problems.set_some(&mut limits.cpu_time, "--cpu-time", &args.cpu_time, duration);
    problems.set(&mut limits.memory, "--memory", &args.memory, str::parse::<Bytes>);
    problems.set(&mut limits.cpus, "--cpu", &args.cpu, str::parse);
    problems.set(&mut limits.processes, "--pids", &args.pids, count::<u32>);
    problems.set(&mut limits.disk, "--disk", &args.disk, str::parse::<Bytes>);
    problems.set(&mut limits.inodes, "--inodes", &args.inodes, count::<u64>);
    problems.set(&mut limits.open_files, "--open-files", &args.open_files, count::<u64>);
    problems.set(&mut limits.network, "--network", &args.network, str::parse);
    problems.set(&mut limits.terminals, "--terminals", &args.terminals, count::<u32>);
    if args.disk.is_none() && limits.disk >= limits.memory {
        limits.disk = Bytes(limits.memory.0 / 2);
    }
    limits
}

fn count<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| format!("`{}` is not a count such as 64", text.escape_debug()))
}

/// Checks the other parts of a sandbox, and reads its files.
pub(crate) fn place(args: &PlaceArgs, limits: Limits, problems: &mut Problems) -> SandboxParts {
    if let Err(invalid) = limits.clone().checked() {
        for problem in invalid.problems {
            problems.add(format!("{} {}", flag_of(problem.field), problem.rule));
        }
    }
    let env = problems.all(&args.env, variable).into_iter().collect();
    let wanted = problems.all(&args.file_in, |text| copy_spec::parse_in(text));
    let gathered = copy_in::gather(&wanted, limits.disk.0);
    gathered.problems.into_iter().for_each(|problem| problems.add(problem));
    let root = problems.keep(root(args)).unwrap_or(Root::Host);
    let may_miss = args.allow_missing.iter().flat_map(|wall| wall.layers().iter().copied());
    SandboxParts { root, limits, env, files: gathered.files, may_miss: may_miss.collect() }
}

/// The flag of a limit.
fn flag_of(field: &str) -> &'static str {
    match field {
        "wall" => "--timeout",
        "cpu_time" => "--cpu-time",
        "cpus" => "--cpu",
        "memory" => "--memory",
        "processes" => "--pids",
        "disk" => "--disk",
        "inodes" => "--inodes",
        "open_files" => "--open-files",
        "output_total" => "--output-total",
        "network" => "--network",
        "terminals" => "--terminals",
        _ => "--output",
    }
}

fn variable(text: &OsString) -> Result<(String, String), String> {
    let problem = |what: &str| format!("--env `{}`: {what}", text.to_string_lossy().escape_debug());
    let text = text.to_str().ok_or_else(|| problem("is not UTF-8"))?;
    match text.split_once('=') {
        Some(("", _)) | None => Err(problem("is not of the form NAME=VALUE")),
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
    }
}

/// The root: a name without a slash is an image, anything else a directory.
fn root(args: &PlaceArgs) -> Result<Root, String> {
    let Some(given) = &args.root else { return Ok(Root::Host) };
    let shown = given.display();
    if given.as_os_str().as_encoded_bytes().contains(&b'/') {
        return directory(given).map_err(|why| format!("--root `{shown}`: {why}"));
    }
    let name = given.to_str().unwrap_or_default();
    image(name, args.data.data.clone()).map_err(|error| format!("--root: {error}"))
}

fn directory(given: &Path) -> Result<Root, String> {
    let path = given.canonicalize().map_err(|error| error.to_string())?;
    match path.is_dir() {
        true => Ok(Root::Directory(path)),
        false => Err("is not a directory".to_owned()),
    }
}

fn image(name: &str, data: Option<PathBuf>) -> Result<Root, ringfence_sandbox::image::Error> {
    let name: ImageName = name.parse()?;
    let store = ImageStore::open(&config::data_dir(data).join("images"))?;
    Ok(Root::Directory(store.rootfs(&name)?.path))
}

const NOTHING: &str = "nothing to run";
const NOTHING_HINT: &str =
    "give code (`-c 'print(6*7)'`), a file (`script.py`, or `-`), or a command (`-- ls -l`)";

fn program(args: &RunArgs, problems: &mut Problems) -> Program {
    let found = match (&args.code, &args.file) {
        (Some(code), _) => code
            .to_str()
            .map(|code| (code.to_owned(), args.lang.map_or(Language::Python, Into::into)))
            .ok_or_else(|| "-c: the code is not UTF-8".to_owned()),
        (None, Some(file)) => from_file(args, file, problems),
        (None, None) => return command(args, problems),
    };
    let arguments = problems.all(&args.command, |text| {
        let shown = text.to_string_lossy();
        text.to_str().map(str::to_owned).ok_or_else(|| format!("argument `{shown}` is not UTF-8"))
    });
    match problems.keep(found) {
        Some((code, language)) => Program::Code { language, code, args: arguments },
        None => Program::Command(Vec::new()),
    }
}

fn from_file(
    args: &RunArgs,
    file: &Path,
    problems: &mut Problems,
) -> Result<(String, Language), String> {
    let read = source::read(file);
    if read.is_err() && !file.exists() && args.command.is_empty() {
        let name = file.display();
        problems
            .hint(format!("a program of the sandbox is named after `--`: ringfence run -- {name}"));
    }
    let code = read?;
    let is_stdin = file == Path::new("-");
    let told = args.lang.map(Into::into).or_else(|| source::language(file, &code));
    let language = told.or(is_stdin.then_some(Language::Python));
    language
        .map(|language| (code, language))
        .ok_or_else(|| format!("`{}` does not tell its language; give --lang", file.display()))
}

fn command(args: &RunArgs, problems: &mut Problems) -> Program {
    if args.command.is_empty() {
        problems.add(NOTHING);
        problems.hint(NOTHING_HINT);
    } else if args.lang.is_some() {
        problems.add("--lang is for code, not for a command");
    }
    Program::Command(args.command.iter().cloned().map(OsStringExt::into_vec).collect())
}
