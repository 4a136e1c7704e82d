//! OpenAPI 3.0 and 3.1 documents: each operation becomes a tool.
//!
//! The document is a tree of JSON. What cannot be used is named per operation, and the rest is imported.
//! Time and memory are bounded: a reference is followed once per schema and never copied, a schema of one
//! operation and all of them together have a size limit, and nothing is ever fetched.

mod names;
mod operation;
mod schema;
mod security;
mod server;

use ringfence_egress::Target;
use serde_json::Value;

use self::{names::Names, schema::Resolver};
use crate::{
    definition::Definition,
    document,
    text::{message, shown},
};

pub(crate) use self::server::authority;

/// Size limit of a document.
const MAX_BYTES: usize = 64 << 20;

/// Values of a document.
const MAX_VALUES: usize = 8_000_000;

/// Operations of a document.
const MAX_OPERATIONS: usize = 5_000;

/// Bytes of all definitions together.
const MAX_TOTAL_BYTES: usize = 128 << 20;

/// Methods of a path item, in the order in which they are read.
const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// Choices of an import.
#[derive(Debug, Clone, Default)]
pub struct OpenapiOptions {
    /// Beginning of the names of tools; from the title without one.
    pub prefix: Option<String>,
    /// URL of the server; the document's own without one.
    pub server: Option<String>,
    /// URL of the document, against which relative servers are resolved.
    pub url: Option<String>,
}

/// An imported document.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenapiImport {
    /// Title of the API.
    pub title: String,
    /// The tools.
    pub definitions: Vec<Definition>,
    /// Operations that cannot be used.
    pub skipped: Vec<SkippedOperation>,
    /// Parts that have no effect, with the reason.
    pub notes: Vec<String>,
}

/// Operation that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SkippedOperation {
    /// Method and path, such as `GET /pets/{id}`.
    pub operation: String,
    /// Reason.
    pub problem: String,
}

/// Parts of a document that all operations share.
struct Document<'a> {
    root: &'a Value,
    resolver: Resolver<'a>,
    prefix: String,
    version: String,
    options: &'a OpenapiOptions,
    base: Option<Target>,
}

impl OpenapiImport {
    /// Reads a document, or says why none of it can be used.
    pub fn read(bytes: &[u8], options: &OpenapiOptions) -> Result<Self, Vec<String>> {
        let bounds = document::Bounds { bytes: MAX_BYTES, values: MAX_VALUES };
        let root = document::read(bytes, &bounds).map_err(|problem| vec![problem])?;
        let is_old = check_kind(&root).map_err(|problem| vec![problem])?;
        let title = root["info"]["title"].as_str().unwrap_or("api").trim().to_owned();
        let mut notes = Vec::new();
        let prefix = options.prefix.as_deref().map_or_else(|| names::prefix(&title), names::slug);
        let (version, note) = names::version(root["info"]["version"].as_str().unwrap_or_default());
        notes.extend(note);
        let base = match options.url.as_deref().map(Target::parse) {
            None => None,
            Some(Ok(base)) => Some(base),
            Some(Err(problem)) => return Err(vec![format!("the URL of the document: {problem}")]),
        };
        let resolver = Resolver::new(&root, is_old);
        let document = Document { root: &root, resolver, prefix, version, options, base };
        let mut import =
            Self { title: message(&title), definitions: Vec::new(), skipped: Vec::new(), notes };
        import.operations(&document)?;
        Ok(import)
    }

    fn operations(&mut self, document: &Document<'_>) -> Result<(), Vec<String>> {
        let Some(paths) = document.root.get("paths").and_then(Value::as_object) else {
            return Err(vec!["paths: is missing, so there is nothing to call".to_owned()]);
        };
        let mut names = Names::default();
        let (mut count, mut bytes) = (0, 0);
        for (path, item) in paths {
            let item = match document.resolver.follow(item) {
                Ok(item) => item,
                Err(problem) => {
                    self.skip(path, problem);
                    continue;
                }
            };
            for method in METHODS {
                let Some(described) = item.get(method) else { continue };
                let label = format!("{} {path}", method.to_ascii_uppercase());
                count += 1;
                if count > MAX_OPERATIONS {
                    self.skip(&label, format!("more than {MAX_OPERATIONS} operations"));
                    return Ok(());
                }
                let read = operation::read(document, &mut names, path, method, item, described);
                match read {
                    Ok(definition) => {
                        bytes += definition.text().as_str().len();
                        if bytes > MAX_TOTAL_BYTES {
                            let limit = MAX_TOTAL_BYTES >> 20;
                            self.skip(&label, format!("all tools together are above {limit} MiB"));
                            return Ok(());
                        }
                        self.definitions.push(definition);
                    }
                    Err(problem) => self.skip(&label, problem),
                }
            }
        }
        if self.definitions.is_empty() {
            let mut problems = vec!["no operation can be used".to_owned()];
            let skipped = self.skipped.iter().take(20);
            problems.extend(skipped.map(|one| format!("{}: {}", one.operation, one.problem)));
            return Err(problems);
        }
        Ok(())
    }

    fn skip(&mut self, operation: &str, problem: String) {
        // Enough to see what is wrong with a document.
        if self.skipped.len() < 1_000 {
            let (operation, problem) = (shown(operation), message(&problem));
            self.skipped.push(SkippedOperation { operation, problem });
        }
    }
}

/// Whether the document is of OpenAPI 3.0, whose schemas are a dialect of their own.
fn check_kind(root: &Value) -> Result<bool, String> {
    if let Some(version) = root.get("swagger") {
        return Err(format!(
            "Swagger {} is not supported; convert the document to OpenAPI 3",
            shown(&version.to_string())
        ));
    }
    match root.get("openapi").and_then(Value::as_str) {
        Some(version) if version.starts_with("3.0") => Ok(true),
        Some(version) if version.starts_with("3.1") => Ok(false),
        Some(version) => Err(format!("openapi: `{}` is neither 3.0 nor 3.1", shown(version))),
        None => Err("openapi: is missing: this is not an OpenAPI document".to_owned()),
    }
}

#[cfg(test)]
mod tests;
