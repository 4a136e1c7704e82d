//! Message to the first process of a container.

use std::path::Path;

use ringfence_jail::container::{self, DIRECTORY, Mark, Start, StartFile, WORKSPACE};
use ringfence_types::SandboxNetwork;

use super::engine::Image;
use crate::{
    Error, InputFile, Language, Program, Request, files::put::DIRECTORY_TYPE, launch::environment,
};

/// A message with its length in front, and its mark.
pub(super) struct Frame {
    pub(super) bytes: Vec<u8>,
    pub(super) mark: Mark,
    /// Name of the program, for errors.
    pub(super) program: String,
}

pub(super) fn frame(request: &Request, image: &Image) -> Result<Frame, Error> {
    let (argv, code) = command(request, image)?;
    let program = String::from_utf8_lossy(&argv[0]).into_owned();
    let mut files: Vec<_> = request.files.iter().chain(&request.inputs).map(input).collect();
    files.extend(code);
    let mut mark = [0; 32];
    let filled = rustix::rand::getrandom(&mut mark, rustix::rand::GetRandomFlags::empty());
    if filled != Ok(mark.len()) {
        return Err(Error::Gone("random numbers of the kernel"));
    }
    let start = Start {
        mark,
        argv,
        env: variables(request),
        cwd: directory(request, image).into_bytes(),
        files,
        cpus: request.limits.cpus.whole(),
        loopback: request.limits.network == SandboxNetwork::Loopback,
    };
    let body = postcard::to_allocvec(&start).map_err(|error| Error::Invalid(error.to_string()))?;
    if body.len() > container::MAX_START {
        let most = container::MAX_START >> 20;
        return Err(Error::Invalid(format!("program and files are over {most} MiB")));
    }
    let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
    bytes.extend(body);
    Ok(Frame { bytes, mark, program })
}

/// Command line, and the file with the code if there is one.
fn command(request: &Request, image: &Image) -> Result<(Vec<Vec<u8>>, Option<StartFile>), Error> {
    let (interpreter, name, code, args) = match &request.program {
        Program::Command(argv) if argv.is_empty() && !image.command.is_empty() => {
            return Ok((
                image.command.iter().map(|word| word.clone().into_bytes()).collect(),
                None,
            ));
        }
        Program::Command(argv) if argv.first().is_none_or(Vec::is_empty) => {
            return Err(Error::Invalid(
                "neither the request nor the image names a program".to_owned(),
            ));
        }
        Program::Command(argv) => return Ok((argv.clone(), None)),
        Program::Call { .. } => {
            let words = "functions are called in native sandboxes only; a container runs commands";
            return Err(Error::Invalid(words.to_owned()));
        }
        Program::Code { language, code, args } => match language {
            Language::Python => (&["python3", "-B"][..], "main.py", code, args),
            Language::Bash => (&["bash"][..], "main.sh", code, args),
            Language::Javascript => (&["node"][..], "main.js", code, args),
        },
    };
    let path = format!("/box/{name}").into_bytes();
    let mut argv: Vec<_> = interpreter.iter().map(|word| word.as_bytes().to_vec()).collect();
    argv.push(path.clone());
    argv.extend(args.iter().map(|arg| arg.clone().into_bytes()));
    let content = Some(code.clone().into_bytes());
    Ok((argv, Some(StartFile { path, mode: 0o644, content })))
}

fn input(file: &InputFile) -> StartFile {
    let path = format!("{WORKSPACE}/{}", file.path).into_bytes();
    let is_directory = file.mode & !0o777 == DIRECTORY_TYPE;
    let content = (!is_directory).then(|| file.content.to_vec());
    StartFile { path, mode: file.mode & 0o777, content }
}

/// The working directory: that of the image for a command that names none.
fn directory(request: &Request, image: &Image) -> String {
    match (request.cwd.is_empty(), &image.directory) {
        (false, _) => request.cwd.clone(),
        (true, Some(directory)) if request.files.is_empty() => directory.clone(),
        _ => WORKSPACE.to_owned(),
    }
}

/// Variables of the request. The image's own `PATH` stands, and files that only native sandboxes have are
/// not named.
fn variables(request: &Request) -> Vec<(Vec<u8>, Vec<u8>)> {
    let is_own = |name: &str| request.env.contains_key(name);
    let all = environment(request).into_iter();
    let here = all.filter(|(name, value)| {
        let native = name == "PATH" || name == "RINGFENCE_RESULT_FD" || value.contains(DIRECTORY);
        is_own(name) || !native
    });
    here.map(|(name, value)| (name.into_bytes(), value.into_bytes())).collect()
}

/// Name of an image as people write it, without anything that could be another part of a URL.
pub(super) fn image_name(name: &str) -> Result<&str, Error> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
    let fits = !name.is_empty() && name.len() <= 255 && name.chars().all(is_plain);
    let climbs = Path::new(name).components().any(|part| part.as_os_str() == "..");
    match fits && !climbs && !name.starts_with(['/', '.', '-']) {
        true => Ok(name),
        false => {
            Err(Error::Invalid(format!("`{}` is not the name of an image", name.escape_debug())))
        }
    }
}
