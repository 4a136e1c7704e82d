//! `ringfence artifact`: files with versions and lineage.

use std::{
    fs::{self, OpenOptions},
    io::{Read as _, Write as _},
    path::Path,
    process::ExitCode,
};

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    age,
    cli::{ArtifactCommand, GraphFormat},
    client::{Client, escaped, on_server},
    failure::Failure,
    print,
    table::{Table, cut},
};

pub(crate) fn artifact(command: &ArtifactCommand) -> Result<ExitCode, Failure> {
    on_server(command.client(), async |client| carry_out(command, client).await)
}

async fn carry_out(command: &ArtifactCommand, client: &Client) -> Result<(), Failure> {
    let is_json = command.client().json;
    match command {
        ArtifactCommand::List { title, kind, tag, label, call, limit, .. } => {
            let filters = [
                ("title", title.as_ref()),
                ("type", kind.as_ref()),
                ("tag", tag.as_ref()),
                ("label", label.as_ref()),
                ("call_id", call.as_ref()),
            ];
            list(client, &filters, *limit, is_json).await
        }
        ArtifactCommand::Show { id, .. } => {
            let id = whole_id(client, id).await?;
            let shown: Value = client.get(&format!("/v1/artifacts/{id}")).await?;
            if is_json {
                print::line(&shown.to_string());
            } else {
                show(&shown);
            }
            Ok(())
        }
        ArtifactCommand::Get { id, version, output, .. } => {
            let path = format!("/v1/artifacts/{}/content", whole_id(client, id).await?);
            get(client, &with_version(&path, *version), output.as_deref()).await
        }
        ArtifactCommand::Put { file, to, title, changes, label, .. } => {
            let (bytes, name) = contents(file)?;
            let title = title.clone().unwrap_or(name);
            let mut query: Vec<_> = label.iter().map(|label| ("label", label.as_str())).collect();
            let path = match to {
                Some(id) => {
                    query.extend(changes.as_deref().map(|changes| ("changes", changes)));
                    format!("/v1/artifacts/{}/content", whole_id(client, id).await?)
                }
                None => {
                    query.push(("title", &title));
                    "/v1/artifacts/upload".to_owned()
                }
            };
            let method = if to.is_some() { Method::PUT } else { Method::POST };
            put(client, (method, &with_query(&path, &query)), bytes, is_json).await
        }
        ArtifactCommand::History { id, .. } => {
            history(client, &whole_id(client, id).await?, is_json).await
        }
        ArtifactCommand::Rollback { id, version, .. } => {
            let path = format!("/v1/artifacts/{}/rollback", whole_id(client, id).await?);
            let done = client.post(&path, &json!({"version": version})).await?;
            changed(&done, is_json);
            Ok(())
        }
        ArtifactCommand::Verify { id, version, .. } => {
            let path = format!("/v1/artifacts/{}/verify", whole_id(client, id).await?);
            verify(client, &with_version(&path, *version), is_json).await
        }
        ArtifactCommand::Lineage { id, version, direction, depth, format, .. } => {
            let id = whole_id(client, id).await?;
            let mut path =
                format!("/v1/artifacts/{id}/lineage?direction={}&depth={depth}", direction.name());
            path.extend(version.map(|version| format!("&version={version}")));
            lineage(client, &path, *format, is_json).await
        }
        ArtifactCommand::Stats { .. } => {
            let stats: Value = client.get("/v1/artifacts/stats").await?;
            if is_json {
                print::line(&stats.to_string());
                return Ok(());
            }
            let rows = ["artifacts", "versions", "bytes", "quota_bytes"];
            let mut table = Table::new(["WHAT", "NUMBER"]);
            rows.iter().for_each(|name| table.row([(*name).to_owned(), stats[*name].to_string()]));
            print::data(table.fitted().as_bytes());
            Ok(())
        }
        ArtifactCommand::Rm { id, .. } => {
            let path = format!("/v1/artifacts/{}", whole_id(client, id).await?);
            client.send(client.request(Method::DELETE, &path)).await.map(drop)
        }
    }
}

/// Artifacts that are searched for the beginning of an id.
const SEARCHED: usize = 200;

/// The id that begins with a text, among the newest artifacts.
async fn whole_id(client: &Client, text: &str) -> Result<String, Failure> {
    if text.len() >= 36 {
        return Ok(escaped(text));
    }
    let page: Value = client.get(&format!("/v1/artifacts?limit={SEARCHED}")).await?;
    let ids = page["artifacts"].as_array().into_iter().flatten();
    let ids = ids.filter_map(|artifact| artifact["id"].as_str());
    let mut found = ids.filter(|id| id.starts_with(text) || id.ends_with(text));
    match (found.next(), found.next()) {
        (Some(id), None) => Ok(id.to_owned()),
        (Some(_), Some(_)) => Err(Failure::new(format!("`{text}` stands for several artifacts"))),
        (None, _) => Err(Failure::new(format!("no artifact `{text}` among the newest {SEARCHED}"))),
    }
}

fn with_version(path: &str, version: Option<u32>) -> String {
    version.map_or(path.to_owned(), |version| format!("{path}?version={version}"))
}

fn with_query(path: &str, query: &[(&str, &str)]) -> String {
    let parts: Vec<_> =
        query.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
    if parts.is_empty() { path.to_owned() } else { format!("{path}?{}", parts.join("&")) }
}

async fn list(
    client: &Client,
    filters: &[(&str, Option<&String>)],
    limit: usize,
    is_json: bool,
) -> Result<(), Failure> {
    let given = filters.iter().filter_map(|(name, value)| Some((*name, value.as_ref()?.as_str())));
    let given: Vec<_> = given.collect();
    let mut table = Table::new(["ARTIFACT", "AGE", "KIND", "V", "TITLE"]);
    let (mut cursor, mut left) = (None::<String>, limit);
    while left > 0 {
        let page_size = left.min(200).to_string();
        let mut query = given.clone();
        query.push(("limit", &page_size));
        query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
        let page: Value = client.get(&with_query("/v1/artifacts", &query)).await?;
        for artifact in page["artifacts"].as_array().into_iter().flatten() {
            left = left.saturating_sub(1);
            if is_json {
                print::line(&artifact.to_string());
                continue;
            }
            let text = |name: &str| artifact[name].as_str().unwrap_or("-").to_owned();
            let (age, title) = (age::ago(&text("created_at")), cut(&text("title"), 60));
            table.row([text("id"), age, text("kind"), artifact["newest"].to_string(), title]);
        }
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    if !is_json {
        print::data(table.fitted().as_bytes());
    }
    Ok(())
}

fn show(artifact: &Value) {
    let version = &artifact["version"];
    let mut table = Table::new(["FIELD", "VALUE"]);
    let words = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    };
    let fields = [
        "id",
        "title",
        "kind",
        "media_type",
        "description",
        "tags",
        "created_by",
        "created_at",
        "path",
        "newest",
    ];
    for name in fields {
        table.row([name.to_owned(), words(&artifact[name])]);
    }
    for name in ["digest", "size", "author", "changes", "labels", "call_id"] {
        table.row([name.to_owned(), words(&version[name])]);
    }
    print::data(table.fitted().as_bytes());
}

async fn get(client: &Client, path: &str, output: Option<&Path>) -> Result<(), Failure> {
    let mut response = client.send(client.request(Method::GET, path)).await?;
    let broken = |error: &dyn std::error::Error| Failure::because("the content broke off", error);
    let mut file = match output {
        Some(path) => {
            let opened = OpenOptions::new().write(true).create_new(true).open(path);
            let why = |error| Failure::because(format!("cannot write {}", path.display()), &error);
            Some(opened.map_err(why)?)
        }
        None => None,
    };
    while let Some(part) = response.chunk().await.map_err(|error| broken(&error))? {
        match &mut file {
            Some(file) => file.write_all(&part).map_err(|error| broken(&error))?,
            None => print::data(&part),
        }
    }
    Ok(())
}

/// Content of a file or of standard input, with a name for it.
fn contents(file: &Path) -> Result<(Vec<u8>, String), Failure> {
    let name =
        file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let read = match file.as_os_str() == "-" {
        true => {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes).map(|_| (bytes, "stdin".to_owned()))
        }
        false => fs::read(file).map(|bytes| (bytes, name)),
    };
    read.map_err(|error| Failure::because(format!("cannot read {}", file.display()), &error))
}

async fn put(
    client: &Client,
    (method, path): (Method, &str),
    bytes: Vec<u8>,
    is_json: bool,
) -> Result<(), Failure> {
    let request = client.request(method, path);
    let request = request.header("content-type", "application/octet-stream").body(bytes);
    let answer = client.send(request).await?;
    let text = client.text(answer).await?;
    changed(&serde_json::from_str(&text).unwrap_or_default(), is_json);
    Ok(())
}

/// Prints the id of a changed artifact, for scripts; or that the change is held.
fn changed(done: &Value, is_json: bool) {
    if is_json {
        return print::line(&done.to_string());
    }
    match (done["id"].as_str(), done["call_id"].as_str()) {
        (Some(id), _) => {
            print::line(id);
            print::note(&format!("version {}\n", done["version"]));
        }
        (None, call) => {
            let call = call.unwrap_or_default();
            print::note(&format!("held by policy: `ringfence holds {call}`\n"));
        }
    }
}

async fn history(client: &Client, id: &str, is_json: bool) -> Result<(), Failure> {
    let mut table = Table::new(["VERSION", "AGE", "SIZE", "AUTHOR", "CHANGES"]);
    let mut before = None::<u64>;
    loop {
        let query = before.map_or(String::new(), |before| format!("?before={before}"));
        let page: Value = client.get(&format!("/v1/artifacts/{id}/versions{query}")).await?;
        for version in page["versions"].as_array().into_iter().flatten() {
            if is_json {
                print::line(&version.to_string());
                continue;
            }
            let text = |name: &str| version[name].as_str().unwrap_or("-").to_owned();
            let (author, changes) = (cut(&text("author"), 30), cut(&text("changes"), 60));
            let (number, size) = (version["version"].to_string(), version["size"].to_string());
            table.row([number, age::ago(&text("at")), size, author, changes]);
            table.note(&text("digest"));
        }
        before = page["next_before"].as_u64();
        if before.is_none() {
            break;
        }
    }
    if !is_json {
        print::data(table.fitted().as_bytes());
    }
    Ok(())
}

async fn verify(client: &Client, path: &str, is_json: bool) -> Result<(), Failure> {
    let found: Value = client.get(path).await?;
    let version = &found["version"];
    if is_json {
        print::line(&found.to_string());
    } else if found["is_valid"] == true {
        print::line(&format!(
            "version {version} is {}",
            found["stored_digest"].as_str().unwrap_or("-")
        ));
    }
    match found["is_valid"] == true {
        true => Ok(()),
        false => {
            Err(Failure::new(format!("version {version} has other content than when it was made")))
        }
    }
}

async fn lineage(
    client: &Client,
    path: &str,
    format: GraphFormat,
    is_json: bool,
) -> Result<(), Failure> {
    if format == GraphFormat::Svg {
        let answer =
            client.send(client.request(Method::GET, &format!("{path}&format=svg"))).await?;
        print::line(&client.text(answer).await?);
        return Ok(());
    }
    let graph: Value = client.get(path).await?;
    if is_json {
        print::line(&graph.to_string());
        return Ok(());
    }
    let nodes = graph["nodes"].as_array().cloned().unwrap_or_default();
    let name = |id: &Value| {
        let node = nodes.iter().find(|node| node["id"] == *id);
        let name = node.and_then(|node| node["name"].as_str()).unwrap_or("");
        cut(&format!("{} {name}", id.as_str().unwrap_or("-")), 100)
    };
    let mut table = Table::new(["RELATION", "NODE"]);
    for edge in graph["edges"].as_array().into_iter().flatten() {
        let relation = edge["relation"].as_str().unwrap_or("-").replace('_', " ");
        table.row([relation, name(&edge["node"])]);
        table.note(&name(&edge["cause"]));
    }
    print::data(table.fitted().as_bytes());
    if graph["is_cut"] == true {
        print::note("there are more nodes; ask for a smaller depth, or use --json\n");
    }
    Ok(())
}
