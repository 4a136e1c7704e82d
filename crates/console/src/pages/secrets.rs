//! Secrets: set, list, remove. A value is never shown.

use std::sync::Arc;

use askama::Template;
use axum::{
    extract::{Request, State},
    response::Response,
};
use http::StatusCode;
use ringfence_edge::{
    Problem,
    identity::{self, Caller, May},
    path::Named,
    query::Query,
};
use ringfence_engine::{NewSecret, SecretError, SecretInfo};
use ringfence_types::{SecretName, SecretPlace, SecretRule, SecretText, ToolName};

use crate::{
    Shared, form,
    html::Html,
    shell::{self, Shell},
};

/// A secret in the list.
#[derive(Debug)]
struct SecretRow {
    name: String,
    place: String,
    tools: String,
    hosts: Vec<String>,
    set: Html,
}

/// Fields of the form, as they were sent; the value is not among them.
#[derive(Debug, Default)]
struct Sent {
    name: String,
    tools: String,
    hosts: String,
    place: String,
    field: String,
    format: String,
}

#[derive(Debug, Template)]
#[template(path = "secrets.html")]
struct SecretsPage {
    shell: Shell,
    rows: Vec<SecretRow>,
    sent: Sent,
    problem: Option<String>,
}

/// Lists secrets.
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    uri: http::Uri,
) -> Result<Response, Problem> {
    let done = Query::of(&uri).optional::<String>("done");
    let mut page = view(&shared, &caller, Sent::default()).await?;
    page.shell = page.shell.done(done.as_deref());
    Ok(shell::render(StatusCode::OK, &page))
}

async fn view(shared: &Shared, caller: &Caller, sent: Sent) -> Result<SecretsPage, Problem> {
    let shell = Shell::new(shared, caller, "Secrets").await?;
    let found = shared.engine.secrets(caller.principal()).await?;
    let rows = found.iter().map(|secret| row(secret, &shell)).collect();
    Ok(SecretsPage { shell, rows, sent, problem: None })
}

fn row(secret: &SecretInfo, shell: &Shell) -> SecretRow {
    let place = match &secret.rule.place {
        SecretPlace::Header { name, format } => format!("{name}: {format}"),
        SecretPlace::Query { name } => format!("?{name}={{}}"),
    };
    let tools: Vec<_> = secret.rule.tools.iter().map(ToolName::as_str).collect();
    SecretRow {
        name: secret.name.to_string(),
        place,
        tools: tools.join(", "),
        hosts: secret.rule.hosts.clone(),
        set: shell.time(&secret.set_at),
    }
}

/// Sets a secret.
pub(crate) async fn set(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    request: Request,
) -> Result<Response, Problem> {
    let mut fields = form::read(&shared.edge, &caller, request).await?;
    let mut text = |name| fields.all(name).pop().unwrap_or_default().trim().to_owned();
    let value = SecretText::new(text("value"));
    let sent = Sent {
        name: text("name"),
        tools: text("tools"),
        hosts: text("hosts"),
        place: text("place"),
        field: text("field"),
        format: text("format"),
    };
    let set = match asked(&sent, value) {
        Ok(new) => shared.engine.set_secret(caller.principal(), new).await,
        Err(problem) => return failed(&shared, &caller, sent, problem).await,
    };
    match set {
        Ok(_) => Ok(shell::redirect("/console/secrets?done=set")),
        Err(SecretError::Invalid(problems)) => {
            let problems: Vec<_> =
                problems.iter().map(|(field, problem)| format!("{field} {problem}")).collect();
            failed(&shared, &caller, sent, format!("{}.", problems.join("; "))).await
        }
        Err(error) => Err(error.into()),
    }
}

async fn failed(
    shared: &Shared,
    caller: &Caller,
    sent: Sent,
    problem: String,
) -> Result<Response, Problem> {
    let mut page = view(shared, caller, sent).await?;
    page.problem = Some(problem);
    Ok(shell::render(StatusCode::UNPROCESSABLE_ENTITY, &page))
}

fn asked(sent: &Sent, value: SecretText) -> Result<NewSecret, String> {
    let name: SecretName = sent.name.parse().map_err(|error| format!("Name: {error}."))?;
    let parts = |text: &str| -> Vec<String> {
        let parts = text.split([',', '\n']).map(str::trim).filter(|part| !part.is_empty());
        parts.map(ToOwned::to_owned).collect()
    };
    let tools = parts(&sent.tools).iter().map(|tool| tool.parse::<ToolName>()).collect();
    let tools: Vec<ToolName> = Result::<_, _>::map_err(tools, |error| format!("Tools: {error}."))?;
    let place = match sent.place.as_str() {
        "query" => SecretPlace::Query { name: sent.field.clone() },
        _ => {
            let name = sent.field.to_ascii_lowercase();
            let usual = if name == "authorization" { "Bearer {}" } else { "{}" };
            let format = if sent.format.is_empty() { usual } else { sent.format.as_str() };
            SecretPlace::Header { name, format: format.to_owned() }
        }
    };
    let rule = SecretRule { tools, hosts: parts(&sent.hosts), place };
    Ok(NewSecret { name, value, rule })
}

/// Removes a secret.
pub(crate) async fn remove(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    Named(name): Named<SecretName>,
    request: Request,
) -> Result<Response, Problem> {
    form::read(&shared.edge, &caller, request).await?;
    shared.engine.remove_secret(caller.principal(), &name).await?;
    Ok(shell::redirect("/console/secrets?done=removed"))
}
