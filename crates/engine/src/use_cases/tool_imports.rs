//! Importing tools: manifests and OpenAPI documents become proposed tools.

use ringfence_egress::{Hosts, Request, Target};
use ringfence_registry::{Manifest, OpenapiImport, OpenapiOptions, SkippedOperation};
use ringfence_types::{Bytes, Principal, TraceContext};

use super::lifecycle::{LifecycleError, ProposedTool};
use crate::Engine;

/// Size limit of a document that the server fetches.
const MAX_FETCHED: Bytes = Bytes::mib(64);

/// Characters of a source.
const MAX_SOURCE_CHARS: usize = 500;

/// Outcome of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedTools {
    /// File, URL or server that the tools came from.
    pub source: String,
    /// The tools.
    pub proposed: Vec<ProposedTool>,
    /// Operations that cannot be used.
    pub skipped: Vec<SkippedOperation>,
    /// Parts that have no effect, with the reason.
    pub notes: Vec<String>,
}

/// Document to be imported.
#[derive(Debug)]
pub enum ImportDocument {
    /// Text of the document.
    Text(Vec<u8>),
    /// URL that the server fetches it from.
    Url(String),
}

/// Reason why nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The document has problems.
    #[error("the document cannot be imported: {}", problems.join("; "))]
    Document {
        /// All problems, with their paths.
        problems: Vec<String>,
    },
    /// The document could not be fetched.
    #[error("fetch `{url}`: {problem}")]
    Fetch {
        /// URL of the document.
        url: String,
        /// Problem in words.
        problem: String,
    },
    /// The tools could not be proposed.
    #[error(transparent)]
    Lifecycle(#[from] LifecycleError),
}

fn problems(problems: Vec<String>) -> ImportError {
    ImportError::Document { problems }
}

impl Engine {
    /// Proposes the tool of a manifest.
    pub async fn import_manifest(
        &self,
        who: &Principal,
        trace: &TraceContext,
        source: &str,
        document: ImportDocument,
    ) -> Result<ImportedTools, ImportError> {
        let source = check_source(source)?;
        let bytes = self.document(document).await?;
        let read = self.parse(move || Manifest::read(&bytes)).await?;
        let definitions = [read.definition];
        let proposed = self.propose_tools(Some((who, trace)), &source, &definitions).await?;
        Ok(ImportedTools { source, proposed, skipped: Vec::new(), notes: read.notes })
    }

    /// Proposes the operations of an OpenAPI document, each as a tool. Those that cannot be used are named.
    pub async fn import_openapi(
        &self,
        who: &Principal,
        trace: &TraceContext,
        source: &str,
        document: ImportDocument,
        mut options: OpenapiOptions,
    ) -> Result<ImportedTools, ImportError> {
        let source = check_source(source)?;
        if let ImportDocument::Url(url) = &document {
            options.url.get_or_insert_with(|| url.clone());
        }
        let bytes = self.document(document).await?;
        let read = self.parse(move || OpenapiImport::read(&bytes, &options)).await?;
        let OpenapiImport { definitions, mut skipped, notes, .. } = read;
        let mut usable = Vec::with_capacity(definitions.len());
        for definition in definitions {
            match self.check_name(&definition, &source) {
                Ok(()) => usable.push(definition),
                Err(taken) => skipped.push(SkippedOperation {
                    operation: definition.name.to_string(),
                    problem: taken.to_string(),
                }),
            }
        }
        let proposed = self.propose_checked(Some((who, trace)), &source, &usable).await?;
        Ok(ImportedTools { source, proposed, skipped, notes })
    }

    /// Parses a document on a thread that can wait; one at a time, because a document may need some
    /// hundred megabytes.
    pub(super) async fn parse<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T, Vec<String>> + Send + 'static,
    ) -> Result<T, ImportError> {
        let _turn = self.inner.import_turn.acquire().await;
        let parsed = tokio::task::spawn_blocking(read).await;
        parsed.unwrap_or_else(|error| Err(vec![error.to_string()])).map_err(problems)
    }

    async fn document(&self, document: ImportDocument) -> Result<Vec<u8>, ImportError> {
        let url = match document {
            ImportDocument::Text(bytes) => return Ok(bytes),
            ImportDocument::Url(url) => url,
        };
        let failed = |problem: String| ImportError::Fetch { url: url.clone(), problem };
        let target = Target::parse(&url).map_err(|problem| failed(problem.to_string()))?;
        let fetcher = self.inner.parts.fetcher.as_ref();
        let fetcher = fetcher.map_err(|problem| failed(problem.to_string()))?;
        let timeout = std::time::Duration::from_secs(60);
        let get = Request::get(target);
        let request = Request { timeout, max_body: MAX_FETCHED, hosts: Hosts::Any, ..get };
        let response = fetcher.fetch(request).await.map_err(|error| failed(error.to_string()))?;
        Ok(response.body.to_vec())
    }
}

fn check_source(source: &str) -> Result<String, ImportError> {
    let fits = (1..=MAX_SOURCE_CHARS).contains(&source.chars().count());
    match fits && !source.contains(char::is_control) {
        true => Ok(source.to_owned()),
        false => Err(problems(vec![format!(
            "source: must have 1 to {MAX_SOURCE_CHARS} characters, none of them a control character"
        )])),
    }
}
