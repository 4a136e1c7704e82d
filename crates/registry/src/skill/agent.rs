//! Agent Skills: folders with a `SKILL.md`, which tells a model what to do and when.
//!
//! The text is a guide that clients read as a resource. Where the folder has `scripts/`, it is also a
//! tool, which runs one of them in a sandbox with the files of the folder beside it. A script is code
//! that declares nothing about itself, so the tool has no safety flags and policy holds it by default.

use std::sync::Arc;

use ringfence_types::{Digest, Json, Limits, ToolName};
use serde_json::json;

use super::{
    Skill,
    manifest::Manifest,
    yaml::{self, Yaml},
};
use crate::{files::Files, schema::Schema, text::message};

/// File that makes a folder an Agent Skill.
pub(crate) const FILE: &str = "SKILL.md";

/// Folder of the scripts that can be run.
const SCRIPTS: &str = "scripts/";

/// Endings of files that can be run; the handler has the program of each.
const ENDINGS: [&str; 5] = [".py", ".sh", ".js", ".mjs", ".cjs"];

/// Runs a script inside the sandbox.
const HANDLER: &str = include_str!("agent.py");

/// Name of the handler's file, without `.py`.
const MODULE: &str = "_agent_skill";

/// Length limit of the description in characters.
const MAX_DESCRIPTION_CHARS: usize = 1_024;

/// Words to a model: the text of a `SKILL.md` and the files that it refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guide {
    /// Name in the front matter.
    pub name: ToolName,
    /// Work of the skill, and when to use it.
    pub description: String,
    /// Digest of the tool that runs the scripts of the folder or its `skill.yaml`, if there is one.
    pub tool: Option<Digest>,
    files: Vec<(String, Arc<[u8]>)>,
}

impl Guide {
    /// Text of `SKILL.md`.
    pub fn text(&self) -> &str {
        self.file(FILE).and_then(|content| std::str::from_utf8(content).ok()).unwrap_or_default()
    }

    /// Content of a file of the folder.
    pub fn file(&self, path: &str) -> Option<&[u8]> {
        self.files.iter().find(|(known, _)| known == path).map(|(_, content)| &**content)
    }

    /// Paths of all files, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|(path, _)| path.as_str())
    }

    /// The guide of a tool, which has the name of the tool.
    pub(crate) fn of_tool(self, name: ToolName, tool: Digest) -> Self {
        Self { name, tool: Some(tool), ..self }
    }
}

/// Guide of a folder; none if it has no `SKILL.md`.
pub(crate) fn guide(files: &Files) -> Result<Option<Guide>, Vec<String>> {
    let Some(content) = files.get(FILE) else { return Ok(None) };
    let problem = |problem: &str| vec![message(&format!("{FILE}: {problem}"))];
    let text = std::str::from_utf8(content).map_err(|_| problem("not UTF-8"))?;
    let front = front_matter(text).ok_or_else(|| {
        problem("begins with no front matter: `---`, `name:`, `description:`, `---`")
    })?;
    let map = match yaml::parse(front.as_bytes()).map_err(|error| problem(&error))? {
        Yaml::Map(map) => map,
        other => {
            let found = other.kind();
            return Err(problem(&format!("the front matter must be a mapping, found {found}")));
        }
    };
    // Other keys belong to the clients that know them.
    let field = |key: &str| {
        map.iter().find(|(known, _)| known == key).and_then(|(_, value)| match value {
            Yaml::Text(text) => Some(text.trim()),
            _ => None,
        })
    };
    let name = match field("name") {
        Some(name) => name.parse::<ToolName>().map_err(|error| format!("name: {error}")),
        None => Err("name: is missing or not text".to_owned()),
    };
    let description = match field("description") {
        Some("") | None => Err("description: is missing or not text".to_owned()),
        Some(text) if text.chars().count() > MAX_DESCRIPTION_CHARS => {
            Err(format!("description: must be at most {MAX_DESCRIPTION_CHARS} characters"))
        }
        Some(text) => Ok(text.to_owned()),
    };
    match (name, description) {
        (Ok(name), Ok(description)) => {
            let all = files.iter().map(|(path, content)| (path.to_owned(), content.clone()));
            let files_of = all.collect();
            Ok(Some(Guide { name, description, tool: None, files: files_of }))
        }
        (name, description) => Err([name.err(), description.err()]
            .into_iter()
            .flatten()
            .flat_map(|text| problem(&text))
            .collect()),
    }
}

/// Text between the first line `---` and the next.
fn front_matter(text: &str) -> Option<&str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let rest = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n"))?;
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some(&rest[..at]);
        }
        at += line.len();
    }
    None
}

/// Scripts of a folder, sorted.
fn scripts(files: &Files) -> Vec<&str> {
    let is_script =
        |path: &&str| path.starts_with(SCRIPTS) && ENDINGS.iter().any(|end| path.ends_with(end));
    files.iter().map(|(path, _)| path).filter(is_script).collect()
}

/// Whether the tool of a folder is the one that runs its scripts.
pub(crate) fn runs_scripts(files: &Files) -> bool {
    files.get(FILE).is_some() && files.get("skill.yaml").is_none() && !scripts(files).is_empty()
}

/// Digest of the tool that runs the scripts: the files and the handler.
pub(crate) fn digest(files: &Files) -> Digest {
    Digest::of(format!("agent skill 1\n{}\n{HANDLER}", files.digest().hex()).as_bytes())
}

/// The tool that runs the scripts of a folder.
pub(crate) fn load(files: &Files) -> Result<Skill, Vec<String>> {
    let guide = guide(files)?.ok_or_else(|| vec![format!("{FILE} is missing")])?;
    let scripts = scripts(files);
    let description = format!(
        "{}\n\nRuns one of the skill's scripts in a sandbox with its files beside it: {}.",
        guide.description,
        scripts.join(", ")
    );
    let manifest = Manifest {
        name: guide.name,
        version: "1.0.0".parse().map_err(|error| vec![format!("version: {error}")])?,
        description,
        module: MODULE.to_owned(),
        function: "run".to_owned(),
        safety_flags: Vec::new(),
        requires_approval: false,
        tags: vec!["agent-skill".to_owned()],
        limits: Limits::default(),
        network: Vec::new(),
        env: Default::default(),
        secrets: Default::default(),
        outputs: Vec::new(),
        tools: Vec::new(),
        requirements: Vec::new(),
        image: None,
    };
    let input = json!({
        "type": "object",
        "properties": {
            "script": {"type": "string", "enum": scripts, "description": "Path of the script"},
            "arguments": {
                "type": "array", "items": {"type": "string", "maxLength": 65_536}, "maxItems": 256,
                "description": "Arguments of its command line",
            },
            "stdin": {"type": "string", "description": "Its standard input"},
        },
        "required": ["script"],
        "additionalProperties": false,
    });
    let output = json!({
        "type": "object",
        "properties": {
            "exit_code": {"type": "integer"},
            "stdout": {"type": "string"},
            "stderr": {"type": "string"},
            "truncated": {"type": "boolean"},
        },
        "required": ["exit_code", "stdout", "stderr", "truncated"],
        "additionalProperties": false,
    });
    let others = files.iter().map(|(path, content)| (path.to_owned(), content.clone()));
    Ok(Skill {
        manifest,
        digest: digest(files),
        input: schema("input", &input)?,
        output: schema("output", &output)?,
        code: Arc::from(HANDLER),
        files: others.collect(),
    })
}

fn schema(name: &str, schema: &serde_json::Value) -> Result<Schema, Vec<String>> {
    let json = Json::parse(schema.to_string().as_bytes()).map_err(|e| vec![e.to_string()])?;
    Schema::compile_modern(name, &json)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(list: &[(&str, &str)]) -> Files {
        let mut files = Files::default();
        for (path, content) in list {
            files.add(path, content.as_bytes().to_vec()).unwrap();
        }
        files
    }

    const TEXT: &str =
        "---\nname: pdf-forms\ndescription: Fills forms.\nlicense: MIT\n---\n# Use\n";

    #[test]
    fn the_front_matter_names_the_guide_and_other_keys_are_the_clients() {
        let files = files(&[(FILE, TEXT), ("references/a.md", "more")]);
        let guide = guide(&files).unwrap().unwrap();
        assert_eq!((guide.name.as_str(), &*guide.description), ("pdf-forms", "Fills forms."));
        assert_eq!(guide.text(), TEXT);
        assert_eq!(guide.paths().collect::<Vec<_>>(), [FILE, "references/a.md"]);
        assert!(!runs_scripts(&files));
    }

    #[test]
    fn all_problems_of_a_guide_are_named() {
        for (text, expected) in [
            ("# x", vec!["begins with no front matter"]),
            ("---\nname: x\n", vec!["begins with no front matter"]),
            ("---\n- a\n---\n", vec!["must be a mapping, found a list"]),
            ("---\nname: a b\n---\n", vec!["name: ", "description: is missing"]),
            ("---\nname: [x]\ndescription: ''\n---\n", vec!["name: is missing", "description: "]),
            ("---\nname: a\nname: b\ndescription: d\n---\n", vec!["appears twice"]),
        ] {
            let problems = guide(&files(&[(FILE, text)])).unwrap_err();
            assert_eq!(problems.len(), expected.len(), "{text}: {problems:?}");
            for (problem, part) in problems.iter().zip(expected) {
                assert!(problem.starts_with("SKILL.md: ") && problem.contains(part), "{problem}");
            }
        }
    }

    #[test]
    fn only_scripts_can_be_run_and_their_change_is_another_tool() {
        let with = |content: &str| {
            let list = [
                (FILE, TEXT),
                ("scripts/fill.py", content),
                ("scripts/data.json", "{}"),
                ("other.py", ""),
            ];
            load(&files(&list)).unwrap()
        };
        let skill = with("print(1)");
        let check = |args: &str| skill.input.check(&Json::parse(args.as_bytes()).unwrap());
        assert!(check(r#"{"script": "scripts/fill.py", "arguments": ["a"]}"#).is_ok());
        for bad in [r#"{"script": "other.py"}"#, r#"{"script": "scripts/data.json"}"#, "{}"] {
            assert!(check(bad).is_err(), "{bad}");
        }
        assert!(skill.manifest.safety_flags.is_empty(), "policy holds what declares nothing");
        assert_ne!(skill.digest, with("print(2)").digest);
    }
}
