//! Callable tool.

use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc};

use ringfence_types::{Digest, Json, Origin, ServerName, Timestamp, Tool, ToolPermissions};
use serde::{Deserialize, Serialize};

use crate::{
    definition::Definition,
    directory::read_below,
    files::Files,
    http_tool::HttpTool,
    schema::{Schema, Violation},
    skill::{Example, Skill, examples},
    text::shown,
    version::Version,
};

/// One version of one tool, with its schemas compiled.
#[derive(Debug)]
pub struct Entry {
    /// Definition of the tool.
    pub tool: Tool,
    /// Implementation of the tool.
    pub runs: Runs,
    /// Folder of the skill, if it is on the server's disk.
    pub folder: Option<PathBuf>,
    /// Always equal to `tool.version`, in numbers.
    version: Version,
    /// Permissions that were granted; none if files of the server define the tool.
    grants: Option<ToolPermissions>,
    input: Schema,
    output: Schema,
}

/// Code of a tool.
#[derive(Clone)]
pub enum Runs {
    /// Part of the binary.
    Builtin,
    /// A function in Python, called with the arguments as keywords.
    Python {
        /// Text of the file with the function.
        code: Arc<str>,
        /// Name of that file without `.py`.
        module: String,
        /// Name of the function.
        function: String,
        /// Other files of the folder by path, placed beside it.
        files: Vec<(String, Arc<[u8]>)>,
    },
    /// A program, which gets the arguments as JSON on its standard input and in `TOOL_PARAMS`.
    Command(Arc<Command>),
    /// A tool of an MCP server.
    Mcp(Arc<McpTool>),
    /// Requests to an HTTP API.
    Http(Arc<HttpTool>),
}

/// A tool of an MCP server, with everything that its server says of it beside the description.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpTool {
    /// The server.
    pub server: ServerName,
    /// Name of the tool at the server.
    pub tool: String,
    /// Title for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Hints about its behaviour, which nothing is decided by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Json>,
    /// Digest of how the server is run.
    pub spec: Digest,
}

/// A program in a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// Program and its arguments.
    pub argv: Vec<String>,
    /// Text files in its working directory, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// Image of a container engine that it runs in; that of the host without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

/// Bytes of a manifest of a skill.
const MAX_MANIFEST_BYTES: usize = 1 << 20;

/// Words of a command line.
const MAX_WORDS: usize = 256;

/// Bytes of a command line.
const MAX_COMMAND_BYTES: usize = 64 << 10;

impl Command {
    /// All problems that keep it from being run.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let bytes: usize = self.argv.iter().map(String::len).sum();
        if let Some(image) = &self.image
            && !is_image(image)
        {
            problems.push(format!("image: `{}` is not the name of an image", shown(image)));
        }
        // An image may name its own program.
        let names_none = self.argv.is_empty() && self.image.is_some();
        if !names_none && self.argv.first().is_none_or(String::is_empty) {
            problems.push("command: names no program".to_owned());
        }
        if self.argv.len() > MAX_WORDS || bytes > MAX_COMMAND_BYTES {
            problems.push(format!("command: more than {MAX_WORDS} words or 64 KiB"));
        }
        if self.argv.iter().any(|word| word.contains('\0')) {
            problems.push("command: has a NUL character".to_owned());
        }
        let mut files = Files::default();
        for (path, content) in &self.files {
            if let Err(problem) = files.add(path, content.clone().into_bytes()) {
                problems.push(format!("files: {}: {problem}", shown(path)));
            }
        }
        problems
    }
}

/// Whether a text can name an image of a container engine, perhaps with a tag or a digest.
fn is_image(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
    let starts = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    starts && name.len() <= 255 && name.chars().all(is_plain) && !name.contains("..")
}

/// Kind of a tool, by which its runner is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Part of the binary.
    Builtin,
    /// A function in Python.
    Python,
    /// A program in a sandbox.
    Command,
    /// A tool of an MCP server.
    Mcp,
    /// Requests to an HTTP API.
    Http,
}

impl Runs {
    /// Kind of the tool.
    pub const fn kind(&self) -> Kind {
        match self {
            Runs::Builtin => Kind::Builtin,
            Runs::Python { .. } => Kind::Python,
            Runs::Command(_) => Kind::Command,
            Runs::Mcp(_) => Kind::Mcp,
            Runs::Http(_) => Kind::Http,
        }
    }

    /// Name of the handler, such as `module.function`.
    pub fn handler(&self, tool: &Tool) -> String {
        match self {
            Runs::Builtin => format!("builtin.{}", tool.name),
            Runs::Python { module, function, .. } => format!("{module}.{function}"),
            Runs::Command(command) => {
                let named = command.argv.first().or(command.image.as_ref());
                named.cloned().unwrap_or_default()
            }
            Runs::Mcp(tool) => format!("mcp.{}.{}", tool.server, tool.tool),
            Runs::Http(tool) => {
                let first = tool.operations.first();
                first.map(|one| format!("{} {}", one.method, one.path)).unwrap_or_default()
            }
        }
    }
}

/// Omits the contents of files: they are long and untrusted.
impl fmt::Debug for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Runs::Builtin => f.write_str("Builtin"),
            Runs::Python { module, function, files, .. } => {
                write!(f, "Python({module}.{function}, {} other files)", files.len())
            }
            Runs::Command(command) => write!(f, "Command({:?})", command.argv),
            Runs::Mcp(tool) => write!(f, "Mcp({}, {:?})", tool.server, tool.tool),
            Runs::Http(tool) => write!(f, "Http({} operations)", tool.operations.len()),
        }
    }
}

impl Entry {
    /// Whether it came from a skill folder, put beside the server or sent to it.
    pub fn is_skill(&self) -> bool {
        matches!(self.tool.origin, Origin::Folder | Origin::Upload)
    }

    /// Checks arguments against the input schema; returns all violations.
    pub fn check_input(&self, args: &Json) -> Result<(), Vec<Violation>> {
        self.input.check(args)
    }

    /// Checks a result against the output schema; returns all violations.
    pub fn check_output(&self, output: &Json) -> Result<(), Vec<Violation>> {
        self.output.check(output)
    }

    pub(crate) fn version(&self) -> &Version {
        &self.version
    }

    /// Entry of a built-in tool; its schemas are draft 2020-12 unless they say otherwise.
    pub(crate) fn builtin(tool: Tool) -> Result<Self, Vec<String>> {
        let version = tool.version.parse().map_err(|error| vec![format!("version: {error}")]);
        let input = Schema::compile_modern("input", &tool.input_schema);
        let output = Schema::compile_modern("output", &tool.output_schema);
        match (version, input, output) {
            (Ok(version), Ok(input), Ok(output)) => {
                let (runs, folder, grants) = (Runs::Builtin, None, None);
                Ok(Self { tool, runs, folder, version, grants, input, output })
            }
            (version, input, output) => {
                let problems = [version.err(), input.err(), output.err()];
                Err(problems.into_iter().flatten().flatten().collect())
            }
        }
    }

    pub(crate) fn skill(skill: Skill, origin: Origin, at: Timestamp) -> Self {
        let Skill { manifest, digest, input, output, code, files } = skill;
        let tool = Tool {
            name: manifest.name,
            version: manifest.version.as_str().to_owned(),
            description: manifest.description,
            origin,
            digest,
            input_schema: input.source().clone(),
            output_schema: output.source().clone(),
            safety_flags: manifest.safety_flags,
            requires_approval: manifest.requires_approval,
            network: manifest.network.clone(),
            env: manifest.env.clone(),
            secrets: manifest.secrets.clone(),
            tools: manifest.tools.clone(),
            requirements: manifest.requirements.clone(),
            image: manifest.image.clone(),
            tags: manifest.tags,
            outputs: manifest.outputs,
            limits: manifest.limits,
            created_at: at,
        };
        let (module, function) = (manifest.module, manifest.function);
        let runs = Runs::Python { code, module, function, files };
        let (version, grants) = (manifest.version, None);
        Self { tool, runs, folder: None, version, grants, input, output }
    }

    pub(crate) fn defined(
        tool: Tool,
        runs: Runs,
        grants: ToolPermissions,
        version: Version,
        input: Schema,
        output: Schema,
    ) -> Self {
        Self { tool, runs, folder: None, version, grants: Some(grants), input, output }
    }

    /// Whether it was granted storage, so that one call has an effect on later ones.
    pub fn keeps_data(&self) -> bool {
        self.grants.as_ref().is_some_and(|grants| grants.storage_bytes > 0)
    }

    /// Examples of the tool: those of its definition, or of the `skill.yaml` in its folder. Blocks on a file.
    pub fn examples(&self, defined: Option<&Definition>) -> Result<Vec<Example>, Vec<String>> {
        let folder = match (defined, &self.folder) {
            (Some(defined), _) => return Ok(defined.examples.clone()),
            (None, Some(folder)) => folder,
            (None, None) => return Ok(Vec::new()),
        };
        let read = read_below(folder, "skill.yaml", MAX_MANIFEST_BYTES);
        let bytes = read.map_err(|error| vec![format!("skill.yaml: {error}")])?;
        examples::parse(&bytes)
    }

    /// Permissions that were granted to it; none if files of the server define it.
    pub fn grants(&self) -> Option<&ToolPermissions> {
        self.grants.as_ref()
    }
}
