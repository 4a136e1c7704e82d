//! Translation of a request into the init's message: program, environment, files of ours.

use ringfence_jail::{
    base_environment,
    wire::{Exec, PROXY_PORT},
};
use ringfence_types::Json;
use serde::Serialize;

use crate::{Error, Language, Listener, Program, Request};

/// Start parameters of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Launch {
    pub(crate) argv: Vec<Vec<u8>>,
    /// Names and contents of files in `/box`.
    pub(crate) files: Vec<(String, Vec<u8>)>,
    /// JobFrame for a driver, if one runs the program.
    pub(crate) job: Option<Vec<u8>>,
}

/// Descriptor numbers of the result channel and the job channel inside.
pub(crate) const RESULT_FD: u32 = 3;
pub(crate) const JOB_FD: u32 = 4;

/// Start parameters without a prepared interpreter.
pub(crate) fn cold(request: &Request) -> Result<Launch, Error> {
    match &request.program {
        Program::Command(argv) => command(argv),
        Program::Code { language: Language::Python, code, args } => {
            Ok(script(&["python3", "-B"], "main.py", code, args))
        }
        Program::Code { language: Language::Bash, code, args } => {
            Ok(script(&["bash"], "main.sh", code, args))
        }
        Program::Code { language: Language::Javascript, .. } | Program::Call { .. } => Ok(Launch {
            argv: driver(request)?,
            files: Vec::new(),
            job: Some(job(request, false)?),
        }),
    }
}

fn command(argv: &[Vec<u8>]) -> Result<Launch, Error> {
    if argv.first().is_none_or(Vec::is_empty) {
        return Err(Error::Invalid("the command is empty".to_owned()));
    }
    Ok(Launch { argv: argv.to_vec(), files: Vec::new(), job: None })
}

fn script(interpreter: &[&str], name: &str, code: &str, args: &[String]) -> Launch {
    let mut argv: Vec<Vec<u8>> = interpreter.iter().map(|s| s.as_bytes().to_vec()).collect();
    argv.push(format!("/box/{name}").into_bytes());
    argv.extend(args.iter().map(|arg| arg.clone().into_bytes()));
    Launch { argv, files: vec![(name.to_owned(), code.as_bytes().to_vec())], job: None }
}

/// Driver that runs one job of the request's language.
fn driver(request: &Request) -> Result<Vec<Vec<u8>>, Error> {
    let language = language(&request.program);
    let argv = match language {
        Some(Language::Python) => python_driver("once", &[]),
        Some(Language::Javascript) => node_driver("once", request.limits.memory.0),
        _ => return Err(Error::Invalid("only python and javascript can be called".to_owned())),
    };
    Ok(argv)
}

/// Python's driver, with modules to load before it is ready.
pub(crate) fn python_driver(kind: &str, imports: &[String]) -> Vec<Vec<u8>> {
    let mut argv = strings(&["python3", "-I", "-B", "/.ringfence/driver.py", kind]);
    if !imports.is_empty() {
        argv.push(imports.join(",").into_bytes());
    }
    argv
}

/// Node's driver. Node sizes its heap by the machine's memory, which it cannot see here: three
/// quarters of the sandbox's memory are for the heap, the rest for buffers and the program itself.
pub(crate) fn node_driver(kind: &str, memory: u64) -> Vec<Vec<u8>> {
    let heap = format!("--max-old-space-size={}", ((memory >> 20) * 3 / 4).max(16));
    strings(&["node", &heap, "/.ringfence/driver.js", kind])
}

fn strings(list: &[&str]) -> Vec<Vec<u8>> {
    list.iter().map(|s| s.as_bytes().to_vec()).collect()
}

/// Language of a program, if it has one.
pub(crate) fn language(program: &Program) -> Option<Language> {
    match program {
        Program::Code { language, .. } | Program::Call { language, .. } => Some(*language),
        Program::Command(_) => None,
    }
}

/// JobFrame frame for the driver, with its length in front. `loaded`: the driver has the code already.
pub(crate) fn job(request: &Request, loaded: bool) -> Result<Vec<u8>, Error> {
    let (what, filename, code) = match &request.program {
        Program::Code { language, code, args } => {
            (JobBody::Run { argv: args }, file_name(*language).to_owned(), code.as_str())
        }
        Program::Call { code, file, function, args, .. } => {
            (JobBody::Call { function: function.as_deref(), args }, workspace_file(file), &**code)
        }
        Program::Command(_) => return Err(Error::Invalid("a command has no driver".to_owned())),
    };
    frame(&JobFrame {
        what,
        code: (!loaded).then_some(code),
        filename,
        env: environment(request),
        cwd: &request.cwd,
    })
}

/// JobFrame for a driver. It is serialised straight to text: a tree of values would turn long integers
/// into floating point.
#[derive(Serialize)]
struct JobFrame<'a> {
    #[serde(flatten)]
    what: JobBody<'a>,
    code: Option<&'a str>,
    filename: String,
    env: std::collections::BTreeMap<String, String>,
    cwd: &'a str,
}

#[derive(Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum JobBody<'a> {
    Run { argv: &'a [String] },
    Call { function: Option<&'a str>, args: &'a Json },
}

/// Path under which a call's code appears: in the workspace unless it is absolute.
pub(crate) fn workspace_file(name: &str) -> String {
    if name.starts_with('/') { name.to_owned() } else { format!("/workspace/{name}") }
}

fn file_name(language: Language) -> &'static str {
    match language {
        Language::Python => "/box/main.py",
        Language::Javascript => "/workspace/main.js",
        Language::Bash => "/box/main.sh",
    }
}

/// One frame of a job channel.
pub(crate) fn frame(body: &impl Serialize) -> Result<Vec<u8>, Error> {
    let body = serde_json::to_vec(body).map_err(|error| Error::Invalid(error.to_string()))?;
    if body.len() > MAX_FRAME {
        return Err(Error::Invalid(format!("code and arguments are over {MAX_FRAME} bytes")));
    }
    let mut frame = (body.len() as u32).to_le_bytes().to_vec();
    frame.extend(body);
    Ok(frame)
}

/// Largest frame in either direction.
pub(crate) const MAX_FRAME: usize = 64 << 20;

/// Complete environment of the program.
pub(crate) fn environment(request: &Request) -> std::collections::BTreeMap<String, String> {
    let mut env: std::collections::BTreeMap<_, _> = base_environment()
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    env.insert("RINGFENCE_RESULT_FD".to_owned(), RESULT_FD.to_string());
    // Programs cannot see their cgroup; code that sizes caches or pools by memory can read this.
    env.insert("RINGFENCE_MEMORY_BYTES".to_owned(), request.limits.memory.0.to_string());
    env.insert("RINGFENCE_CPUS".to_owned(), request.limits.cpus.to_string());
    env.insert("NODE_OPTIONS".to_owned(), "--require=/.ringfence/limits.js".to_owned());
    match language(&request.program) {
        Some(Language::Python) => {
            env.insert("PYTHONPATH".to_owned(), "/workspace".to_owned());
            env.insert("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned());
            env.insert("MPLBACKEND".to_owned(), "Agg".to_owned());
        }
        Some(Language::Javascript) => {
            env.insert("NODE_PATH".to_owned(), "/workspace/node_modules".to_owned());
        }
        _ => {}
    }
    env.extend(proxy_environment(&request.listeners));
    env.extend(request.env.clone());
    add_sdk(&mut env, &request.listeners);
    env
}

/// Folder of the modules that speak to the server, in every sandbox.
pub(crate) const SDK_FOLDER: &str = "/.ringfence/sdk";

/// Lets interpreters find the modules of the SDK, if the sandbox has its socket: behind every path of the
/// program's own.
pub(crate) fn add_sdk(
    env: &mut std::collections::BTreeMap<String, String>,
    listeners: &[Listener],
) {
    if !listeners.contains(&sdk_listener()) {
        return;
    }
    for name in ["PYTHONPATH", "NODE_PATH"] {
        let paths = env.entry(name.to_owned()).or_default();
        let separator = if paths.is_empty() { "" } else { ":" };
        *paths = format!("{paths}{separator}{SDK_FOLDER}");
    }
}

/// The socket by which programs of a sandbox call tools: `/box/ringfence.sock`.
pub fn sdk_listener() -> Listener {
    Listener::Unix("ringfence.sock".to_owned())
}

/// Variables by which programs find the proxy; none if there is no proxy. A program that ignores
/// them has no network.
pub(crate) fn proxy_environment(
    listeners: &[Listener],
) -> impl Iterator<Item = (String, String)> + use<> {
    let url = format!("http://127.0.0.1:{PROXY_PORT}");
    let names =
        ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
    let own = [
        ("NO_PROXY", ""),
        ("no_proxy", ""),
        ("NODE_USE_ENV_PROXY", "1"),
        // For versions of Node that do not know the variable before.
        ("NODE_OPTIONS", "--require=/.ringfence/proxy.js"),
    ];
    let has_proxy = listeners.contains(&Listener::Proxy);
    let proxies = names.into_iter().map(move |name| (name.to_owned(), url.clone()));
    proxies
        .chain(own.map(|(name, value)| (name.to_owned(), value.to_owned())))
        .filter(move |_| has_proxy)
}

/// Message to the init that starts the program.
pub(crate) fn exec(request: &Request, launch: Launch, id: u32) -> Exec {
    let mut env: Vec<Vec<u8>> = environment(request)
        .into_iter()
        .map(|(key, value)| format!("{key}={value}").into_bytes())
        .collect();
    if launch.job.is_some() {
        env.push(format!("RINGFENCE_JOB_FD={JOB_FD}").into_bytes());
    }
    Exec {
        id,
        argv: launch.argv,
        env,
        cwd: request.cwd.clone().into_bytes(),
        files: launch.files,
        terminal: None,
        joins: false,
    }
}
