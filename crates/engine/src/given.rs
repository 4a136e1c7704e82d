//! Things that a call is given beside its arguments: files, standard input, environment, lower limits.
//!
//! It is part of the arguments, under [`GIVEN`], so that digests, policy, approvals, masks and memos cover
//! it like everything else that is asked for. `code_execute` has the same fields among its own arguments.
//!
//! Invariant: an accepted call names the content of artifacts by digest. An id is resolved before.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ringfence_registry::{Entry, Violation};
use ringfence_sandbox::{InputFile, Request, Stdin, files::BoxPath};
use ringfence_store::{ArtifactRef, Error};
use ringfence_types::{
    Bytes, CallError, Digest, ErrorCode, GivenArtifact, Json, LimitCaps, TenantId,
    artifact_label as label,
};
use serde_json::{Map, Value, value::RawValue};

use crate::{
    engine::Inner,
    left_files::{self, MAX_PATTERNS},
    runners::{self, Job},
};

/// Name of the argument.
pub const GIVEN: &str = "$given";

/// Fields of the argument.
pub const GIVEN_FIELDS: [&str; 5] = ["env", "files", "limits", "outputs", "stdin"];

/// Folder of the workspace in which a skill finds its files. No module can be imported from it, so that a
/// file which is given never takes the place of code.
const SKILL_FOLDER: &str = "input-files";

/// Most files.
const MAX_FILES: usize = 64;
/// Most variables.
const MAX_VARIABLES: usize = 64;
/// Bytes of the name and of the value of a variable.
const MAX_VARIABLE_BYTES: (usize, usize) = (128, 32 << 10);
/// Prefix of variables between the server and the programs it starts.
const OWN_VARIABLES: &str = "RINGFENCE_";
/// Least memory of a program.
const MIN_MEMORY: Bytes = Bytes::mib(8);

/// Kinds of things that calls of a tool may be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Nothing: no program is started for the call.
    Nothing,
    /// Files in a folder of their own, standard input and limits: the code is the author's, who did not
    /// expect the caller to choose its surroundings.
    Data,
    /// All of it, also among the arguments of the tool: the code is the caller's.
    All,
}

/// Files, input, environment and limits that a call is given.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Given {
    env: BTreeMap<String, String>,
    files: BTreeMap<String, Content>,
    limits: LimitCaps,
    outputs: Option<Vec<String>>,
    stdin: Option<Content>,
}

/// Content of a file or of standard input.
#[derive(Debug, Clone, PartialEq)]
enum Content {
    /// Bytes in the arguments.
    Inline(Arc<[u8]>),
    /// Artifact of the tenant, and the digest that it must have.
    Artifact(ArtifactRef, Option<Digest>),
}

/// The arguments that the tool itself gets.
pub(crate) fn own_args(args: &Json) -> Cow<'_, Json> {
    // A text that is a value and not a name costs a parse, and nothing more.
    if !args.as_str().contains("\"$given\"") {
        return Cow::Borrowed(args);
    }
    let Ok(mut fields) = args.read::<BTreeMap<String, &RawValue>>() else {
        return Cow::Borrowed(args);
    };
    match fields.remove(GIVEN) {
        Some(_) => Cow::Owned(Json::plain(&fields)),
        None => Cow::Borrowed(args),
    }
}

/// Checks the arguments of a call, those of the tool and what is given; returns all violations.
pub(crate) fn check(entry: &Entry, args: &Json) -> Result<Given, Vec<Violation>> {
    let own = entry.check_input(&own_args(args));
    let takes = runners::of(entry).takes(entry);
    let given = read(takes, args).and_then(|given| within(given, entry));
    match (own, given) {
        (Ok(()), Ok(given)) => Ok(given),
        (own, given) => {
            let violations = [own.err(), given.err()];
            Err(violations.into_iter().flatten().flatten().collect())
        }
    }
}

/// Refuses limits above those of the tool.
fn within(given: Given, entry: &Entry) -> Result<Given, Vec<Violation>> {
    let (caps, limits) = (&given.limits, &entry.tool.limits);
    let too_much = |name: &str, asked: Option<u64>, most: u64| {
        let message = format!("must be at most {most}, the limit of the tool");
        asked.filter(|asked| *asked > most).map(|_| violation(&format!("limits/{name}"), message))
    };
    let violations = [
        too_much("wall_secs", caps.wall_secs, limits.wall.as_secs().max(1)),
        too_much("memory_bytes", caps.memory_bytes, limits.memory.0),
        too_much("cpu_millis", caps.cpu_millis.map(u64::from), limits.cpus.0.into()),
        too_much("processes", caps.processes.map(u64::from), limits.processes.into()),
    ];
    let violations: Vec<_> = violations.into_iter().flatten().collect();
    if violations.is_empty() { Ok(given) } else { Err(violations) }
}

fn violation(place: &str, message: String) -> Violation {
    let keyword = "given".to_owned();
    Violation { pointer: format!("/{GIVEN}/{place}"), message, keyword }
}

/// Fields of the arguments that say what is given, with the text of each.
fn fields(takes: Takes, args: &Json) -> Result<Map<String, Value>, Vec<Violation>> {
    let has_given = args.as_str().contains("\"$given\"");
    if takes != Takes::All && !has_given {
        return Ok(Map::new());
    }
    let mut all: BTreeMap<String, &RawValue> = args.read().unwrap_or_default();
    let given = all.remove(GIVEN).and_then(|raw| serde_json::from_str(raw.get()).ok());
    let whole = |message: &str| {
        let keyword = "given".to_owned();
        Err(vec![Violation { pointer: format!("/{GIVEN}"), message: message.to_owned(), keyword }])
    };
    let own = |name: &&str| takes == Takes::All && all.contains_key(*name);
    match given {
        Some(_) if takes == Takes::Nothing => {
            whole("this tool starts no program of its own, so it takes no files, input or limits")
        }
        Some(_) if GIVEN_FIELDS.iter().any(own) => {
            whole("use either this or the arguments `env`, `files`, `limits`, `outputs`, `stdin`")
        }
        Some(Value::Object(fields)) => Ok(fields),
        Some(_) => whole("must be an object"),
        None => {
            let mut fields = Map::new();
            for name in GIVEN_FIELDS.iter().filter(|name| own(name)) {
                let value = all.get(*name).and_then(|raw| serde_json::from_str(raw.get()).ok());
                fields.insert((*name).to_owned(), value.unwrap_or(Value::Null));
            }
            Ok(fields)
        }
    }
}

/// Reads what is given, or returns all problems.
fn read(takes: Takes, args: &Json) -> Result<Given, Vec<Violation>> {
    let mut reader = Reader { takes, violations: Vec::new() };
    let mut given = Given::default();
    for (name, value) in fields(takes, args)? {
        match (name.as_str(), &value) {
            (_, Value::Null) => {}
            ("env", Value::Object(env)) => given.env = reader.env(env),
            ("files", Value::Object(files)) => given.files = reader.files(files),
            ("limits", Value::Object(limits)) => given.limits = reader.limits(limits),
            ("outputs", Value::Array(outputs)) => given.outputs = Some(reader.outputs(outputs)),
            ("stdin", value) => given.stdin = reader.content("stdin", value),
            ("outputs", _) => reader.fault("outputs", "must be a list of patterns"),
            ("env" | "files" | "limits", _) => reader.fault(&name, "must be an object"),
            _ => reader.fault(&name, "is not known here: env, files, limits, outputs, stdin"),
        }
    }
    if reader.violations.is_empty() { Ok(given) } else { Err(reader.violations) }
}

struct Reader {
    takes: Takes,
    violations: Vec<Violation>,
}

impl Reader {
    fn fault(&mut self, place: &str, message: impl Into<String>) {
        self.violations.push(violation(place, message.into()));
    }

    fn env(&mut self, env: &Map<String, Value>) -> BTreeMap<String, String> {
        let mut read = BTreeMap::new();
        if self.takes != Takes::All && !env.is_empty() {
            let message = "the environment of a skill is its author's; give files or arguments";
            self.fault("env", message);
            return read;
        }
        if env.len() > MAX_VARIABLES {
            self.fault("env", format!("has at most {MAX_VARIABLES} variables"));
        }
        for (name, value) in env.iter().take(MAX_VARIABLES) {
            let place = format!("env/{}", escaped(name));
            let (of_name, of_value) = MAX_VARIABLE_BYTES;
            let is_name = (1..=of_name).contains(&name.len())
                && name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric())
                && !name.starts_with(|c: char| c.is_ascii_digit());
            match value.as_str() {
                _ if !is_name => {
                    let rule = format!("a name has 1 to {of_name} letters, digits and `_`");
                    self.fault(&place, rule);
                }
                _ if name.starts_with(OWN_VARIABLES) => {
                    self.fault(&place, format!("names with `{OWN_VARIABLES}` are reserved"));
                }
                Some(text) if text.len() <= of_value && !text.contains('\0') => {
                    read.insert(name.clone(), text.to_owned());
                }
                _ => self.fault(&place, format!("must be text of at most {of_value} bytes")),
            }
        }
        read
    }

    fn files(&mut self, files: &Map<String, Value>) -> BTreeMap<String, Content> {
        if files.len() > MAX_FILES {
            self.fault("files", format!("has at most {MAX_FILES} files"));
        }
        let mut read = BTreeMap::new();
        for (path, value) in files.iter().take(MAX_FILES) {
            let place = format!("files/{}", escaped(path));
            match BoxPath::parse(path) {
                Ok(inside) if inside.is_root() => self.fault(&place, "is the workspace itself"),
                Err(invalid) => self.fault(&place, invalid.to_string()),
                Ok(_) => {}
            }
            if let Some(content) = self.content(&place, value) {
                read.insert(path.clone(), content);
            }
        }
        read
    }

    /// `"text"`, `{"text": …}`, `{"base64": …}` or `{"artifact": …}`.
    fn content(&mut self, place: &str, value: &Value) -> Option<Content> {
        let inline = |bytes: Vec<u8>| Some(Content::Inline(bytes.into()));
        let rule = "must be text, {\"base64\": …}, or {\"artifact\": …} with a digest or an id";
        let fields = match value {
            Value::String(text) => return inline(text.as_bytes().to_vec()),
            Value::Object(fields) => fields,
            _ => {
                self.fault(place, rule);
                return None;
            }
        };
        let text = |name: &str| fields.get(name).and_then(Value::as_str);
        match (fields.len(), text("text"), text("base64"), text("artifact")) {
            (1, Some(text), None, None) => inline(text.as_bytes().to_vec()),
            (1, None, Some(encoded), None) => match STANDARD.decode(encoded) {
                Ok(bytes) => inline(bytes),
                Err(_) => {
                    self.fault(place, "`base64` must be base64 with padding");
                    None
                }
            },
            (_, None, None, Some(name)) => self.artifact(place, name, fields),
            _ => {
                self.fault(place, rule);
                None
            }
        }
    }

    fn artifact(
        &mut self,
        place: &str,
        name: &str,
        fields: &Map<String, Value>,
    ) -> Option<Content> {
        let known = ["artifact", "version", "digest"];
        if fields.keys().any(|field| !known.contains(&field.as_str())) {
            self.fault(place, "an artifact has `artifact`, `version` and `digest`");
            return None;
        }
        if let Ok(digest) = name.parse::<Digest>() {
            return Some(Content::Artifact(ArtifactRef::Content(digest), Some(digest)));
        }
        let version = fields.get("version").map(|version| version.as_u64());
        let digest = fields.get("digest").map(|digest| digest.as_str().map(str::parse::<Digest>));
        match (name.parse(), version, digest) {
            (Ok(id), None | Some(Some(1..=0xffff_ffff)), None | Some(Some(Ok(_)))) => {
                let version = version.flatten().and_then(|version| u32::try_from(version).ok());
                let digest = digest.flatten().and_then(Result::ok);
                Some(Content::Artifact(ArtifactRef::Version(id, version), digest))
            }
            _ => {
                let rule = "`artifact` is `sha256:…` or an id, `version` a number from 1";
                self.fault(place, rule);
                None
            }
        }
    }

    fn limits(&mut self, limits: &Map<String, Value>) -> LimitCaps {
        let mut caps = LimitCaps::default();
        for (name, value) in limits {
            let place = format!("limits/{}", escaped(name));
            let number = value.as_u64().filter(|number| *number > 0);
            let small = number.and_then(|number| u32::try_from(number).ok());
            match (name.as_str(), number) {
                ("memory_bytes", Some(bytes)) if bytes < MIN_MEMORY.0 => {
                    self.fault(&place, format!("must be at least {}", MIN_MEMORY.0));
                }
                ("wall_secs", Some(_)) => caps.wall_secs = number,
                ("memory_bytes", Some(_)) => caps.memory_bytes = number,
                ("cpu_millis", Some(10..)) if small.is_some() => caps.cpu_millis = small,
                ("processes", Some(4..)) if small.is_some() => caps.processes = small,
                ("cpu_millis", _) => self.fault(&place, "must be a whole number from 10"),
                ("processes", _) => self.fault(&place, "must be a whole number from 4"),
                ("wall_secs" | "memory_bytes", None) => {
                    self.fault(&place, "must be a whole number from 1");
                }
                _ => self.fault(
                    &place,
                    "is not a limit: wall_secs, memory_bytes, cpu_millis, processes",
                ),
            }
        }
        caps
    }

    fn outputs(&mut self, outputs: &[Value]) -> Vec<String> {
        let fits = |pattern: &&str| left_files::is_pattern(pattern);
        let read: Vec<_> =
            outputs.iter().filter_map(Value::as_str).filter(fits).map(str::to_owned).collect();
        if outputs.len() > MAX_PATTERNS || read.len() != outputs.len() {
            let rule = format!("has at most {MAX_PATTERNS} patterns such as `*.csv` or `out/**`");
            self.fault("outputs", rule);
        }
        read
    }
}

/// A name as part of a JSON pointer.
fn escaped(name: &str) -> String {
    let shown: String = name.chars().take(100).collect();
    shown.replace('~', "~0").replace('/', "~1")
}

/// Result of looking up the artifacts that arguments name.
#[derive(Debug, Default)]
pub(crate) struct Resolved {
    /// The arguments with the digests of all artifacts, if that changes them.
    pub(crate) args: Option<Json>,
    /// Labels of the artifacts.
    pub(crate) taint: Vec<String>,
}

/// Reason why artifacts were not looked up.
pub(crate) enum Unresolved {
    Invalid(Vec<Violation>),
    Store(Error),
}

impl Given {
    /// Artifacts with their places.
    fn artifacts(&self) -> impl Iterator<Item = (Option<&str>, ArtifactRef, Option<Digest>)> {
        let files = self.files.iter().map(|(path, content)| (Some(path.as_str()), content));
        let stdin = self.stdin.iter().map(|content| (None, content));
        files.chain(stdin).filter_map(|(path, content)| match content {
            Content::Artifact(wanted, digest) => Some((path, *wanted, *digest)),
            Content::Inline(_) => None,
        })
    }

    /// Looks up the artifacts of a call that is about to be accepted or was edited.
    pub(crate) async fn resolve(
        &self,
        inner: &Inner,
        tenant: &TenantId,
        args: &Json,
    ) -> Result<Resolved, Unresolved> {
        let store = &inner.parts.store;
        let (mut taint, mut violations, mut changes) = (Vec::new(), Vec::new(), Vec::new());
        for (path, wanted, digest) in self.artifacts() {
            let place = path.map_or("stdin".to_owned(), |path| format!("files/{}", escaped(path)));
            let found = store.artifact_version(tenant, wanted).await.map_err(Unresolved::Store)?;
            let Some((id, version)) = found else {
                violations.push(violation(&place, "artifact not found".to_owned()));
                continue;
            };
            let content = version.content.digest;
            if digest.is_some_and(|digest| digest != content) {
                let message = format!("version {} has the content {content}", version.number);
                violations.push(violation(&place, message));
            }
            taint.extend(store.labels_of(tenant, content).await.map_err(Unresolved::Store)?);
            if digest.is_none() {
                let pinned = serde_json::json!({
                    "artifact": id, "version": version.number, "digest": content,
                });
                changes.push((path, pinned));
            }
        }
        if !violations.is_empty() {
            return Err(Unresolved::Invalid(violations));
        }
        let args = (!changes.is_empty()).then(|| pinned(args, changes));
        Ok(Resolved { args, taint: label::union(&taint, &[]) })
    }
}

/// Arguments with other contents.
fn pinned(args: &Json, changes: Vec<(Option<&str>, Value)>) -> Json {
    let mut fields: BTreeMap<String, Box<RawValue>> = args.read().unwrap_or_default();
    let has_given = fields.contains_key(GIVEN);
    let parse = |raw: &RawValue| serde_json::from_str::<Value>(raw.get()).unwrap_or_default();
    let raw = |value: &Value| serde_json::value::to_raw_value(value).ok();
    let mut given = match fields.get(GIVEN) {
        Some(given) => parse(given),
        None => {
            let own = |name: &str| fields.get(name).map(|raw| (name.to_owned(), parse(raw)));
            Value::Object(["files", "stdin"].into_iter().filter_map(own).collect())
        }
    };
    for (path, content) in changes {
        match path {
            Some(path) => given["files"][path] = content,
            None => given["stdin"] = content,
        }
    }
    match (has_given, given) {
        (true, given) => fields.extend(raw(&given).map(|raw| (GIVEN.to_owned(), raw))),
        (false, Value::Object(own)) => {
            fields.extend(own.iter().filter_map(|(name, value)| Some((name.clone(), raw(value)?))));
        }
        (false, _) => {}
    }
    Json::plain(&fields)
}

/// Things that the program of a call is given, with all bytes.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    given: Given,
    files: Vec<InputFile>,
    stdin: Option<Vec<u8>>,
    /// Artifacts among them.
    pub(crate) artifacts: Vec<GivenArtifact>,
}

impl Loaded {
    /// Reads everything that a call is given.
    pub(crate) async fn of(job: &Job<'_>) -> Result<Self, CallError> {
        let takes = runners::of(job.entry).takes(job.entry);
        let given = read(takes, job.args()).map_err(|violations| {
            let message = violations.first().map_or("", |violation| &violation.message);
            invalid(format!("what the call is given is invalid: {message}"))
        })?;
        let mut loaded = Self::default();
        // The workspace has to hold it, and half of its room is left to the program.
        let mut room = job.entry.tool.limits.disk.0 / 2;
        for (path, content) in &given.files {
            let bytes = loaded.bytes(job, Some(path), content, &mut room).await?;
            let mut path = BoxPath::parse(path).map_err(|error| invalid(error.to_string()))?;
            if takes != Takes::All {
                let inside = [SKILL_FOLDER.as_bytes(), b"/", path.as_bytes()].concat();
                path = BoxPath::relative(&inside).map_err(|error| invalid(error.to_string()))?;
            }
            loaded.files.push(InputFile { path, mode: 0o644, content: bytes });
        }
        if let Some(content) = &given.stdin {
            let bytes = loaded.bytes(job, None, content, &mut room).await?;
            loaded.stdin = Some(bytes.to_vec());
        }
        loaded.given = given;
        Ok(loaded)
    }

    async fn bytes(
        &mut self,
        job: &Job<'_>,
        path: Option<&String>,
        content: &Content,
        room: &mut u64,
    ) -> Result<Arc<[u8]>, CallError> {
        let too_large = || {
            let message = "the files that the call is given need more than half of its workspace";
            error(ErrorCode::DiskLimit, message.to_owned())
        };
        let mut take = |size: u64| {
            *room = room.checked_sub(size).ok_or_else(too_large)?;
            Ok::<_, CallError>(())
        };
        let (wanted, digest) = match content {
            Content::Inline(bytes) => {
                take(bytes.len() as u64)?;
                return Ok(bytes.clone());
            }
            Content::Artifact(wanted, digest) => (*wanted, *digest),
        };
        let (store, tenant) = (&job.inner().parts.store, &job.asked().tenant);
        let failed = |source: Error| {
            let cause = ringfence_types::error_chain(&source);
            tracing::error!(error = cause, "an artifact cannot be read");
            error(ErrorCode::FileUnreadable, "an artifact could not be read".to_owned())
        };
        let gone = || {
            let name = path.map_or("standard input", String::as_str);
            let message = format!("the artifact for `{name}` was removed");
            error(ErrorCode::ArtifactNotFound, message)
        };
        let found = store.artifact_version(tenant, wanted).await.map_err(failed)?;
        let (artifact, version) = found.ok_or_else(gone)?;
        let digest = digest.unwrap_or(version.content.digest);
        take(version.content.size)?;
        let bytes = store.blob(digest, 0, u64::MAX).await.map_err(failed)?.ok_or_else(gone)?;
        // What policy and approvers saw is a digest; nothing else runs.
        if Digest::of(&bytes) != digest || version.content.digest != digest {
            return Err(gone());
        }
        let (path, version) = (path.cloned(), version.number);
        self.artifacts.push(GivenArtifact { path, artifact, version, digest });
        Ok(bytes.into())
    }

    /// Puts everything into a request.
    pub(crate) fn apply(&mut self, request: &mut Request) {
        request.inputs.append(&mut self.files);
        request.env.append(&mut self.given.env);
        if let Some(bytes) = self.stdin.take() {
            request.stdin = Stdin::Bytes(bytes);
        }
        let mut limits = self.given.limits.apply(request.limits.clone());
        // The workspace lives in memory.
        limits.disk = limits.disk.min(Bytes(limits.memory.0 / 2));
        request.limits = limits;
    }

    /// Patterns of the files that are kept afterwards, if the call names any.
    pub(crate) fn outputs(&self) -> Option<&[String]> {
        self.given.outputs.as_deref()
    }
}

fn invalid(message: String) -> CallError {
    error(ErrorCode::SandboxRefused, message)
}

fn error(code: ErrorCode, message: String) -> CallError {
    CallError { code, message, details: None }
}

#[cfg(test)]
mod tests;
