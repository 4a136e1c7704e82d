//! `ringfence models`: weights of the models that run in the server.

mod download;

use std::{fs, path::Path, process::ExitCode};

use ringfence_models::{DEFAULT_MODEL, Error, Files, Installed, Library, Model, State};
use ringfence_types::Bytes;
use serde_json::json;

use crate::{
    cli::{DataArgs, ModelsCommand},
    exit,
    failure::Failure,
    print, settings,
    style::Tone,
    table::Table,
};

pub(crate) fn models(command: &ModelsCommand) -> Result<ExitCode, Failure> {
    match command {
        ModelsCommand::List { json, data } => list(&library(data)?, *json),
        ModelsCommand::Fetch { names, from, sha256, json, data } => {
            let source = Source { from: from.as_deref(), sha256: sha256.as_deref() };
            fetch(&library(data)?, names, &source, *json)
                .map_err(|failure| failure.in_json(*json))?;
        }
        ModelsCommand::Verify { names, data } => verify(&library(data)?, names)?,
        ModelsCommand::Rm { name, data } => remove(&library(data)?, name)?,
        ModelsCommand::Export { name, file, data } => export(&library(data)?, name, file)?,
    }
    Ok(ExitCode::from(exit::DONE))
}

/// Library of the data directory or of the setting `models.folder`.
fn library(data: &DataArgs) -> Result<Library, Failure> {
    settings::models_folder(data).map(Library::new)
}

fn list(library: &Library, is_json: bool) {
    let models = library.list();
    if is_json {
        for found in &models {
            print::line(&object(found).to_string());
        }
        return;
    }
    let mut table = Table::new(["NAME", "STATE", "SIZE", "LICENCE", "USED BY"]);
    for found in &models {
        let tone = match found.state {
            State::Ready => Tone::Good,
            State::Damaged => Tone::Bad,
            State::Missing | State::Unsupported => Tone::Plain,
        };
        let size = match found.bytes {
            0 => "-".to_owned(),
            bytes => Bytes(bytes).to_string(),
        };
        let model = &found.model;
        let used_by =
            if model.name == DEFAULT_MODEL { "embed_text, intents" } else { "embed_text" };
        let cells = [model.name, found.state.as_str(), &size, model.licence, used_by];
        table.toned_row(cells.map(str::to_owned), 1, tone);
    }
    print::data(table.fitted().as_bytes());
}

fn object(found: &Installed) -> serde_json::Value {
    json!({
        "name": found.model.name,
        "state": found.state.as_str(),
        "bytes": found.bytes,
        "licence": found.model.licence,
        "dimension": found.model.dimension,
    })
}

/// Where the files of models come from.
struct Source<'a> {
    from: Option<&'a str>,
    sha256: Option<&'a str>,
}

fn fetch(
    library: &Library,
    names: &[String],
    source: &Source<'_>,
    is_json: bool,
) -> Result<(), Failure> {
    let default = [DEFAULT_MODEL.to_owned()];
    let names = if names.is_empty() { &default[..] } else { names };
    if names.len() > 1 && source.from.is_some() {
        return Err(Failure::new("--from takes the files of one model; name one"));
    }
    for name in names {
        let model = library.model(name).map_err(|error| told(&error))?;
        if let Some(why) = model.unsupported {
            let name = model.name.to_owned();
            return Err(told(&Error::Unsupported { name, why }));
        }
        let is_there = source.from.is_none() && library.verify(model.name).is_ok();
        if !is_there {
            let files = files(&model, source.from)?;
            let installed = library.install(model.name, &files, source.sha256);
            installed.map_err(|error| told(&error))?;
        }
        if is_json {
            print::line(&json!({"name": model.name, "state": "ready"}).to_string());
        } else {
            let state = if is_there { "is here already" } else { "is ready" };
            print::note(&format!("{} {state} (licence: {})\n", model.name, model.licence));
        }
    }
    Ok(())
}

fn files(model: &Model, from: Option<&str>) -> Result<Files, Failure> {
    match from {
        Some(url) if url.starts_with("http://") || url.starts_with("https://") => {
            download::archive(model, url)
        }
        Some(path) => Files::from_path(model, Path::new(path)).map_err(|error| told(&error)),
        None => download::package(model),
    }
}

fn verify(library: &Library, names: &[String]) -> Result<(), Failure> {
    let installed = library.list().into_iter().filter(|found| found.bytes > 0);
    let installed: Vec<_> = installed.map(|found| found.model.name.to_owned()).collect();
    let names = if names.is_empty() { &installed[..] } else { names };
    if names.is_empty() {
        return Err(Failure::new("no model is installed").hint("ringfence models fetch"));
    }
    for name in names {
        library.verify(name).map_err(|error| told(&error))?;
        print::line(&format!("{name}: all digests agree"));
    }
    Ok(())
}

fn remove(library: &Library, name: &str) -> Result<(), Failure> {
    match library.remove(name).map_err(|error| told(&error))? {
        true => Ok(()),
        false => Err(Failure::new(format!("model `{name}` is not installed"))),
    }
}

fn export(library: &Library, name: &str, file: &Path) -> Result<(), Failure> {
    library.verify(name).map_err(|error| told(&error))?;
    let cannot = |error: &std::io::Error| {
        Failure::because(format!("cannot write `{}`", file.display()), error)
    };
    let out = fs::File::create(file).map_err(|error| cannot(&error))?;
    library.export(name, &out).map_err(|error| told(&error))?;
    out.sync_all().map_err(|error| cannot(&error))?;
    print::note(&format!("on the other machine: ringfence models fetch {name} --from FILE\n"));
    Ok(())
}

/// The failure of a command, with the next step.
fn told(error: &Error) -> Failure {
    let failure = Failure::of(error);
    match error {
        Error::Damaged { .. } => {
            failure.hint("get the files again: ringfence models fetch, or name another --from")
        }
        Error::Unknown { .. } => failure.hint("ringfence models list"),
        _ => failure,
    }
}
