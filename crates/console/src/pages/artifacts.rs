//! Artifacts: list, versions, difference between versions, preview, lineage.

use std::sync::Arc;

use askama::Template;
use axum::{extract::State, response::Response};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderValue, StatusCode, Uri, header};
use ringfence_edge::{
    Problem,
    identity::{self, May},
    lineage_svg,
    path::Named,
    query::Query,
    reply,
};
use ringfence_engine::data::{
    Artifact, ArtifactQuery, ArtifactRef, ArtifactVersion, LineageDirection, LineageNode,
};
use ringfence_types::{ArtifactId, ArtifactKind, Principal};

use super::holds::diff::{self, Line};
use crate::{
    Shared,
    error::escape,
    html::{self, Html},
    shell::{self, Shell},
};

/// Artifacts on one page.
const PAGE: usize = 50;
/// Versions on the page of an artifact.
const MAX_VERSIONS: usize = 100;
/// Bytes of a version that are shown or compared.
const MAX_SHOWN: u64 = 512 << 10;
/// Depth and nodes of the lineage on the page.
const LINEAGE: (u32, usize) = (10, 150);

/// An artifact in the list.
#[derive(Debug)]
struct ArtifactRow {
    id: String,
    title: String,
    kind: &'static str,
    made_by: String,
    newest: u32,
    at: Html,
}

/// Filters as the reader wrote them.
#[derive(Debug, Default)]
struct Filter {
    kind: String,
    title: String,
    tag: String,
    label: String,
}

#[derive(Debug, Template)]
#[template(path = "artifacts.html")]
struct ListPage {
    shell: Shell,
    rows: Vec<ArtifactRow>,
    filter: Filter,
    is_filtered: bool,
    kinds: Vec<&'static str>,
    older: Option<String>,
    used: Html,
    words: String,
}

/// Lists artifacts, newest first.
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    uri: Uri,
) -> Result<Response, Problem> {
    let who = caller.principal();
    let mut query = Query::of(&uri);
    let text = |query: &mut Query, name| query.optional::<String>(name).unwrap_or_default();
    let filter = Filter {
        kind: text(&mut query, "kind"),
        title: text(&mut query, "title"),
        tag: text(&mut query, "tag"),
        label: text(&mut query, "label"),
    };
    let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let wanted = ArtifactQuery {
        kind: super::parsed::<ArtifactKind>(&mut query, "kind", &filter.kind),
        title: some(&filter.title),
        tag: some(&filter.tag),
        label: some(&filter.label),
        before: query.optional::<ArtifactId>("before"),
        limit: PAGE,
        ..ArtifactQuery::of(who.tenant.clone())
    };
    query.finish()?;
    let shell = Shell::new(&shared, &caller, "Artifacts").await?;
    let page = shared.engine.artifacts(wanted).await?;
    let totals = shared.engine.artifact_totals(who).await?;
    let quota = shared.engine.artifact_limits().bytes_per_tenant;
    let parts = [
        ("kind", &filter.kind),
        ("title", &filter.title),
        ("tag", &filter.tag),
        ("label", &filter.label),
    ];
    let set: Vec<_> = parts.iter().filter(|(_, value)| !value.is_empty()).collect();
    let older = page.next.map(|next| {
        let filters = set.iter().map(|(name, value)| format!("{name}={}&", escape(value)));
        format!("{}before={next}", filters.collect::<String>())
    });
    let rows = page.artifacts.iter().map(|artifact| row(artifact, &shell)).collect();
    let words = format!(
        "{} artifacts with {} versions; {} of {}",
        totals.artifacts,
        totals.versions,
        html::bytes(totals.bytes),
        html::bytes(quota)
    );
    let page = ListPage {
        rows,
        is_filtered: !set.is_empty(),
        filter,
        kinds: ArtifactKind::ALL.map(ArtifactKind::name).to_vec(),
        older,
        used: html::bar(totals.bytes as f64, quota as f64),
        words,
        shell,
    };
    Ok(shell::render(StatusCode::OK, &page))
}

fn row(artifact: &Artifact, shell: &Shell) -> ArtifactRow {
    ArtifactRow {
        id: artifact.id.to_string(),
        title: artifact.title.clone(),
        kind: artifact.kind.name(),
        made_by: artifact.about.created_by.clone(),
        newest: artifact.newest,
        at: shell.time(&artifact.created_at),
    }
}

/// A version in the table.
#[derive(Debug)]
struct VersionRow {
    number: u32,
    author: String,
    changes: String,
    size: String,
    at: Html,
    digest: Html,
    labels: Vec<String>,
    call: Option<String>,
    is_shown: bool,
}

/// A verdict about a version.
#[derive(Debug)]
struct VerdictRow {
    version: u32,
    decision: Html,
    kind: String,
    reviewer: String,
    score: String,
    at: Html,
}

/// Content of a version, as far as it can be shown.
#[derive(Debug)]
enum Preview {
    Text(Html),
    /// Picture as the address of its data.
    Picture(String),
    /// Page for a frame without any rights.
    Framed(String),
    /// Why nothing is shown.
    None(&'static str),
}

#[derive(Debug, Template)]
#[template(path = "artifact.html")]
struct ArtifactPage {
    shell: Shell,
    id: Html,
    path_id: String,
    title: String,
    kind: &'static str,
    media_type: String,
    description: String,
    tags: Vec<String>,
    made_by: String,
    at: Html,
    shown: u32,
    versions: Vec<VersionRow>,
    verdicts: Vec<VerdictRow>,
    preview: Preview,
    compared: Option<u32>,
    difference: Vec<Line>,
    lineage: Html,
    is_cut: bool,
}

/// Shows one artifact.
pub(crate) async fn read(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<ArtifactId>,
    uri: Uri,
) -> Result<Response, Problem> {
    let who = caller.principal();
    let mut query = Query::of(&uri);
    let number = query.number("version", 1, u32::MAX.into()).map(|number| number as u32);
    let with = query.number("with", 1, u32::MAX.into()).map(|number| number as u32);
    query.finish()?;
    let artifact = shared.engine.artifact(who, id).await?.ok_or_else(Problem::not_found)?;
    let version = find(&shared, who, id, number).await?;
    let shell = Shell::new(&shared, &caller, "Artifacts").await?;
    let versions = shared.engine.artifact_versions(who, id, None, MAX_VERSIONS).await?;
    let verdicts = shared.engine.artifact_verdicts(who, id, MAX_VERSIONS).await?;
    let bytes = content(&shared, &version).await?;
    let difference = match with {
        Some(other) => {
            let other = find(&shared, who, id, Some(other)).await?;
            difference(content(&shared, &other).await?.as_deref(), bytes.as_deref())
        }
        None => Vec::new(),
    };
    let node = LineageNode::Artifact(id, version.number);
    let both = [LineageDirection::Backward, LineageDirection::Forward];
    let lineage = shared.engine.lineage(who, node, &both, LINEAGE).await?;
    let page = ArtifactPage {
        id: html::id(&id.to_string(), &id.to_string()),
        path_id: id.to_string(),
        preview: preview(&artifact.about.media_type, bytes),
        title: artifact.title,
        kind: artifact.kind.name(),
        media_type: artifact.about.media_type,
        description: artifact.about.description,
        tags: artifact.about.tags,
        made_by: artifact.about.created_by,
        at: shell.time(&artifact.created_at),
        shown: version.number,
        versions: versions.iter().map(|v| version_row(v, version.number, &shell)).collect(),
        verdicts: verdicts
            .iter()
            .map(|verdict| VerdictRow {
                version: verdict.version,
                decision: html::pill(tone(&verdict.about.decision), &verdict.about.decision),
                kind: verdict.about.kind.clone(),
                reviewer: verdict.about.reviewer.clone(),
                score: verdict.about.score.map_or(String::new(), |score| score.to_string()),
                at: shell.time(&verdict.at),
            })
            .collect(),
        compared: with,
        difference,
        // Made by us, with every name escaped.
        lineage: Html(lineage_svg::draw(&lineage)),
        is_cut: lineage.lineage.is_cut,
        shell,
    };
    Ok(shell::render(StatusCode::OK, &page))
}

fn version_row(version: &ArtifactVersion, shown: u32, shell: &Shell) -> VersionRow {
    let content = &version.content;
    VersionRow {
        number: version.number,
        author: content.about.author.clone(),
        changes: content.about.changes.clone(),
        size: html::bytes(content.size),
        at: shell.time(&content.at),
        digest: html::digest(&content.digest.to_string()),
        labels: content.about.labels.clone(),
        call: content.call.map(|call| call.to_string()),
        is_shown: version.number == shown,
    }
}

fn tone(decision: &str) -> &'static str {
    match decision {
        "accept" => "good",
        "reject" => "bad",
        _ => "wait",
    }
}

async fn find(
    shared: &Shared,
    who: &Principal,
    id: ArtifactId,
    number: Option<u32>,
) -> Result<ArtifactVersion, Problem> {
    let found = shared.engine.artifact_version(who, ArtifactRef::Version(id, number)).await?;
    found.map(|(_, version)| version).ok_or_else(Problem::not_found)
}

/// Bytes of a version; none if there are too many to be shown.
async fn content(shared: &Shared, version: &ArtifactVersion) -> Result<Option<Vec<u8>>, Problem> {
    if version.content.size > MAX_SHOWN {
        return Ok(None);
    }
    Ok(shared.engine.artifact_bytes(version, 0, MAX_SHOWN).await?)
}

fn preview(media_type: &str, bytes: Option<Vec<u8>>) -> Preview {
    let Some(bytes) = bytes else {
        return Preview::None("It is too large to be shown here: download it.");
    };
    let is_picture = ["image/png", "image/jpeg", "image/gif", "image/webp"].contains(&media_type);
    match (media_type, String::from_utf8(bytes)) {
        ("text/html" | "image/svg+xml", Ok(text)) => Preview::Framed(text),
        (_, Err(error)) if is_picture => {
            let data = STANDARD.encode(error.as_bytes());
            Preview::Picture(format!("data:{media_type};base64,{data}"))
        }
        (_, Ok(text)) => Preview::Text(html::text(&text)),
        (_, Err(_)) => Preview::None("It is not text: download it."),
    }
}

/// Lines in which two versions differ; none if one of them is not text.
fn difference(old: Option<&[u8]>, new: Option<&[u8]>) -> Vec<Line> {
    let text =
        |bytes: Option<&[u8]>| bytes.and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
    match (text(old), text(new)) {
        (Some(old), Some(new)) => diff::lines(&old, &new),
        _ => Vec::new(),
    }
}

/// Sends the content of a version as a download.
pub(crate) async fn download(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Read>,
    Named(id): Named<ArtifactId>,
    uri: Uri,
) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let number = query.number("version", 1, u32::MAX.into()).map(|number| number as u32);
    query.finish()?;
    let version = find(&shared, caller.principal(), id, number).await?;
    let bytes = shared.engine.artifact_bytes(&version, 0, u64::MAX).await?;
    let bytes = bytes.ok_or_else(Problem::not_found)?;
    let kind = HeaderValue::from_static("application/octet-stream");
    let mut response = reply::of(StatusCode::OK, kind, bytes.into());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_run_is_framed_and_what_is_not_text_is_not_shown() {
        let of = |media_type, bytes: &[u8]| preview(media_type, Some(bytes.to_vec()));
        assert!(matches!(of("text/html", b"<script>"), Preview::Framed(_)));
        assert!(matches!(of("image/svg+xml", b"<svg onload=x>"), Preview::Framed(_)));
        assert!(
            matches!(of("text/plain", b"<b>"), Preview::Text(Html(text)) if text == "&lt;b&gt;")
        );
        assert!(
            matches!(of("image/png", b"\xFFPNG"), Preview::Picture(text) if text.starts_with("data:image/png;base64,"))
        );
        assert!(matches!(of("application/pdf", b"\xFF"), Preview::None(_)));
        assert!(matches!(preview("text/plain", None), Preview::None(_)));
        assert_eq!(difference(Some(b"a"), Some(b"b")).len(), 2);
        assert_eq!(difference(Some(b"\xFF"), Some(b"b")), []);
    }
}
