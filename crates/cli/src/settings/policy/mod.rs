//! Tables of `policy` in the settings file.
//!
//! Their names are chosen by the operator, so they are not rows of the table of settings. Only the
//! folder has a flag and a variable. Every problem is reported with its place; an unknown field is
//! a problem.

mod engines;
mod fields;

use std::path::{Path, PathBuf};

use reqwest::Url;
use ringfence_policy::{AuthZen, Evaluate, How, Opa, OpaConfig, OpenFga, OpenFgaConfig, Remote};
use ringfence_types::TenantId;
use toml::{Table, Value};

use self::fields::Fields;
use crate::problems::Problems;

/// Name of the embedded rules.
pub(crate) const EMBEDDED: &str = "rego";

/// Policy settings.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    /// A folder of rules instead of the built-in ones.
    pub(crate) folder: Option<PathBuf>,
    /// Remote engines by name.
    pub(crate) engines: Vec<(String, Elsewhere)>,
    /// Routes; the first that matches counts.
    pub(crate) routes: Vec<Route>,
    /// Canaries.
    pub(crate) canaries: Vec<Canary>,
    /// Decision log.
    pub(crate) log: Option<Log>,
}

/// A remote engine.
#[derive(Debug, Clone)]
pub(crate) enum Elsewhere {
    Opa(OpaConfig),
    OpenFga(Box<OpenFgaConfig>),
    AuthZen(Remote),
    Evaluate(Remote),
}

/// Engines for some tools and tenants.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    pub(crate) actions: Vec<String>,
    pub(crate) tenants: Vec<TenantId>,
    /// Names of existing engines.
    pub(crate) engines: Vec<String>,
    pub(crate) how: How,
}

/// A canary policy.
#[derive(Debug, Clone)]
pub(crate) struct Canary {
    pub(crate) name: String,
    pub(crate) tenants: Vec<TenantId>,
    pub(crate) candidate: Candidate,
    pub(crate) fail_open: bool,
}

/// Candidate of a canary.
#[derive(Debug, Clone)]
pub(crate) enum Candidate {
    Folder(PathBuf),
    Engine(String),
}

/// Receiver of the decision log.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    pub(crate) file: Option<PathBuf>,
    pub(crate) url: Option<Url>,
    pub(crate) erase: Vec<String>,
}

impl Elsewhere {
    /// Opens the log. Needs a runtime.
    pub(crate) fn open(
        self,
    ) -> Result<std::sync::Arc<dyn ringfence_policy::Engine>, ringfence_policy::SetupError> {
        Ok(match self {
            Elsewhere::Opa(config) => std::sync::Arc::new(Opa::open(config)?),
            Elsewhere::OpenFga(config) => std::sync::Arc::new(OpenFga::open(*config)?),
            Elsewhere::AuthZen(remote) => std::sync::Arc::new(AuthZen::open(remote)?),
            Elsewhere::Evaluate(remote) => std::sync::Arc::new(Evaluate::open(remote)?),
        })
    }
}

/// Reads the tables, if there are any.
pub(super) fn read(
    folder: Option<PathBuf>,
    tables: Option<(&Table, &Path)>,
    problems: &mut Problems,
) -> Policy {
    let usual = Route {
        actions: Vec::new(),
        tenants: Vec::new(),
        engines: vec![EMBEDDED.to_owned()],
        how: How::All,
    };
    let Some((table, path)) = tables else {
        return Policy { folder, routes: vec![usual], ..Policy::default() };
    };
    let mut fields = Fields::new("policy", table, path, problems);
    // Parsed with the flags; only known here.
    fields.knows("folder");
    let engines = fields.tables_by_name("engines", |name, mut fields| {
        let engine = engines::read(name, &mut fields);
        fields.finish();
        engine.map(|engine| (name.to_owned(), engine))
    });
    let names: Vec<&str> =
        engines.iter().map(|(name, _)| name.as_str()).chain([EMBEDDED]).collect();
    let mut routes = fields.tables("route", |mut fields| {
        let route = route(&mut fields, &names, None);
        fields.finish();
        route
    });
    routes.extend(route(&mut fields, &names, Some(usual)));
    let canaries = fields.tables("canary", |mut fields| {
        let canary = canary(&mut fields, &names);
        fields.finish();
        canary
    });
    let log = fields.table("log", |mut fields| {
        let log = log(&mut fields);
        fields.finish();
        log
    });
    fields.finish();
    Policy { folder, engines, routes, canaries, log: log.flatten() }
}

/// A route, or the default route at the top.
fn route(fields: &mut Fields<'_>, names: &[&str], usual: Option<Route>) -> Option<Route> {
    let how = fields.optional("combine", |value| match value.as_str() {
        Some("all") => Ok(How::All),
        Some("first") => Ok(How::First),
        _ => Err("neither \"all\" nor \"first\"".to_owned()),
    });
    let engines = fields.list("use", |text| known(text, names));
    let how = how.unwrap_or(How::All);
    match (engines, usual) {
        (Some(engines), _) if engines.is_empty() => fields.problem("use", "names no engine"),
        (Some(engines), Some(usual)) => Some(Route { engines, how, ..usual }),
        (None, Some(usual)) => Some(Route { how, ..usual }),
        (engines, None) => {
            let actions = fields.list("actions", |text| Ok(text.to_owned())).unwrap_or_default();
            let tenants = tenants(fields);
            match engines {
                Some(engines) => Some(Route { actions, tenants, engines, how }),
                None => fields.problem("use", "is missing"),
            }
        }
    }
}

fn known(text: &str, names: &[&str]) -> Result<String, String> {
    match names.contains(&text) {
        true => Ok(text.to_owned()),
        false => Err(format!("no engine is called `{text}`: there is {}", names.join(", "))),
    }
}

fn tenants(fields: &mut Fields<'_>) -> Vec<TenantId> {
    let parse =
        |text: &str| text.parse().map_err(|error: ringfence_types::InvalidId| error.to_string());
    fields.list("tenants", parse).unwrap_or_default()
}

fn canary(fields: &mut Fields<'_>, names: &[&str]) -> Option<Canary> {
    let name = fields.required("name", fields::text);
    let folder = fields.optional("folder", |value| fields::text(value).map(PathBuf::from));
    let engine = fields.optional("engine", |value| known(&fields::text(value)?, names));
    let tenants = tenants(fields);
    let fail_open = fields.optional("fail_open", fields::truth).unwrap_or(false);
    if fail_open && tenants.is_empty() {
        // Fail-open tenants must be named explicitly.
        return fields
            .problem("fail_open", "needs `tenants`: each tenant that fails open is named");
    }
    let candidate = match (folder, engine) {
        (Some(folder), None) => Candidate::Folder(folder),
        (None, Some(engine)) => Candidate::Engine(engine),
        _ => return fields.problem("folder", "or `engine`: one of them is what is tried"),
    };
    Some(Canary { name: name?, tenants, candidate, fail_open })
}

fn log(fields: &mut Fields<'_>) -> Option<Log> {
    let file = fields.optional("file", |value| fields::text(value).map(PathBuf::from));
    let url = fields.optional("url", fields::address);
    let erase = fields.list("erase", |text| match text.starts_with('/') {
        true => Ok(text.to_owned()),
        false => Err(format!("`{text}` is not a JSON pointer such as /input/args")),
    });
    match (&file, &url) {
        (Some(_), None) | (None, Some(_)) => {
            Some(Log { file, url, erase: erase.unwrap_or_default() })
        }
        _ => fields.problem("file", "or `url`: one of them is where decisions go"),
    }
}

/// Every value of the tables with its full name, for `config show`.
pub(super) fn rows(table: &Table) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    for (name, value) in table {
        flatten(&format!("policy.{name}"), value, &mut rows);
    }
    rows
}

fn flatten(name: &str, value: &Value, rows: &mut Vec<(String, String)>) {
    match value {
        Value::Table(table) => {
            for (inner, value) in table {
                flatten(&format!("{name}.{inner}"), value, rows);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_table) => {
            for (index, item) in items.iter().enumerate() {
                flatten(&format!("{name}[{index}]"), item, rows);
            }
        }
        Value::String(text) => rows.push((name.to_owned(), text.clone())),
        other => rows.push((name.to_owned(), other.to_string())),
    }
}

#[cfg(test)]
mod tests;
