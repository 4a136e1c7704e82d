//! `ringfence skill new`: a folder to start from, which passes `check` and `test`.

use std::{fs, path::Path, process::ExitCode};

use ringfence_types::ToolName;

use crate::{exit, failure::Failure, print};

/// The files of a new skill in Python. `NAME` stands for its name.
const FILES: [(&str, &str); 3] = [
    ("skill.yaml", include_str!("template/skill.yaml")),
    ("schema.json", include_str!("template/schema.json")),
    ("handler.py", include_str!("template/handler.py")),
];

pub(super) fn create(name: &str) -> Result<ExitCode, Failure> {
    let name: ToolName = name.parse().map_err(|invalid| {
        Failure::because(format!("`{name}` cannot be a skill's name"), &invalid)
    })?;
    let folder = Path::new(name.as_str());
    let failed = |error| Failure::because(format!("cannot make `{name}`"), &error);
    fs::create_dir(folder).map_err(failed)?;
    for (file, text) in FILES {
        fs::write(folder.join(file), text.replace("NAME", name.as_str())).map_err(failed)?;
    }
    print::note(&format!(
        "made {name}/: skill.yaml, schema.json and handler.py\n\
         hint: ringfence skill test {name}, then ringfence skill push {name}\n"
    ));
    Ok(ExitCode::from(exit::DONE))
}
