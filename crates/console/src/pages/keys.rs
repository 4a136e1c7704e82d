//! Keys: create, list, revoke.

use std::sync::Arc;

use askama::Template;
use axum::{
    extract::{Request, State},
    response::Response,
};
use http::StatusCode;
use ringfence_access::{Key, KeyRequest, NewKey};
use ringfence_edge::{
    Problem,
    identity::{self, Caller, May},
    path::Named,
    query::Query,
};
use ringfence_types::{
    KeyId, PersonId, PersonaId, Principal, Scope, Scopes, TenantId, Timestamp, parse_duration,
};

use crate::{
    Shared, form,
    html::{self, Html},
    shell::{self, Shell},
};

/// A key in the list.
#[derive(Debug)]
struct KeyRow {
    id: String,
    label: String,
    prefix: String,
    tenant: String,
    person: String,
    scopes: Vec<&'static str>,
    state: Html,
    can_be_revoked: bool,
    is_own: bool,
    created: Html,
    used: Option<Html>,
    expires: Option<Html>,
}

/// Fields of the form, as they were sent.
#[derive(Debug, Default)]
struct Sent {
    label: String,
    tenant: String,
    persona: String,
    person: String,
    expires_in: String,
    scopes: Vec<String>,
}

#[derive(Debug, Template)]
#[template(path = "keys.html")]
struct KeysPage {
    shell: Shell,
    rows: Vec<KeyRow>,
    scopes: Vec<(&'static str, &'static str, bool)>,
    sent: Sent,
    /// Secret of the key that was just made, and its label.
    made: Option<(String, String)>,
    problem: Option<String>,
    is_operator: bool,
}

/// Scopes with their meaning.
const SCOPES: [(Scope, &str); 4] = [
    (Scope::Call, "make and cancel calls, use sandboxes"),
    (Scope::Read, "see calls, outputs, events and receipts"),
    (Scope::Approve, "decide about held calls"),
    (Scope::Admin, "manage keys and tools; includes call and read"),
];

/// Lists keys.
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

async fn view(shared: &Shared, caller: &Caller, sent: Sent) -> Result<KeysPage, Problem> {
    let who = caller.principal();
    let shell = Shell::new(shared, caller, "Keys").await?;
    let keys = shared.edge.access().list_by(who, None).await?;
    let mut rows: Vec<_> = keys.iter().map(|key| row(key, who, &shell)).collect();
    rows.reverse();
    // Keys that can be used come first.
    rows.sort_by_key(|row| !row.can_be_revoked);
    let is_chosen = |scope: Scope| sent.scopes.iter().any(|chosen| chosen == scope.name());
    let scopes =
        SCOPES.iter().map(|(scope, about)| (scope.name(), *about, is_chosen(*scope))).collect();
    let is_operator = shell::is_operator_key(caller);
    Ok(KeysPage { shell, rows, scopes, sent, made: None, problem: None, is_operator })
}

fn row(key: &Key, who: &Principal, shell: &Shell) -> KeyRow {
    let is_expired = key.expires_at.is_some_and(|end| end <= shell.now);
    let state = match (key.revoked_at, is_expired) {
        (Some(_), _) => html::pill("bad", "revoked"),
        (None, true) => html::pill("calm", "expired"),
        (None, false) => html::pill("good", "active"),
    };
    KeyRow {
        id: key.id.to_string(),
        label: key.label.clone(),
        prefix: key.prefix.clone(),
        tenant: key.tenant.to_string(),
        person: key.person.as_ref().map(ToString::to_string).unwrap_or_default(),
        scopes: key.scopes.iter().map(Scope::name).collect(),
        state,
        can_be_revoked: key.revoked_at.is_none() && !is_expired,
        is_own: key.id == who.key,
        created: shell.time(&key.created_at),
        used: key.last_used_at.as_ref().map(|at| shell.time(at)),
        expires: key.expires_at.as_ref().map(|at| shell.time(at)),
    }
}

/// Makes a key and shows its secret, this once.
pub(crate) async fn create(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    request: Request,
) -> Result<Response, Problem> {
    let mut fields = form::read(&shared.edge, &caller, request).await?;
    let mut text = |name| fields.all(name).pop().unwrap_or_default().trim().to_owned();
    let (label, tenant, persona) = (text("label"), text("tenant"), text("persona"));
    let (person, expires_in) = (text("person"), text("expires_in"));
    let scopes = fields.all("scope");
    let sent = Sent { label, tenant, persona, person, expires_in, scopes };
    let made = match asked(caller.principal(), shared.engine.clock().now(), &sent) {
        Ok(request) => shared.edge.access().create_by(caller.principal(), request).await,
        Err(words) => return failed(&shared, &caller, sent, words).await,
    };
    match made {
        Ok(NewKey { key, secret }) => {
            let mut page = view(&shared, &caller, Sent::default()).await?;
            page.made = Some((secret.reveal().to_owned(), key.label));
            Ok(shell::render(StatusCode::CREATED, &page))
        }
        Err(error) => Err(error.into()),
    }
}

async fn failed(
    shared: &Shared,
    caller: &Caller,
    sent: Sent,
    words: String,
) -> Result<Response, Problem> {
    let mut page = view(shared, caller, sent).await?;
    page.problem = Some(words);
    Ok(shell::render(StatusCode::UNPROCESSABLE_ENTITY, &page))
}

fn asked(who: &Principal, now: Timestamp, sent: &Sent) -> Result<KeyRequest, String> {
    if !(1..=200).contains(&sent.label.chars().count()) {
        return Err("The label must have 1 to 200 characters.".to_owned());
    }
    let scopes = sent.scopes.iter().map(|scope| scope.parse::<Scope>());
    let scopes = scopes.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
    if scopes.is_empty() {
        return Err("Choose at least one scope.".to_owned());
    }
    let lasts = match sent.expires_in.as_str() {
        "" => None,
        text => Some(parse_duration(text).map_err(|error| format!("Expires in: {error}."))?),
    };
    Ok(KeyRequest {
        tenant: optional::<TenantId>("Tenant", &sent.tenant)?.unwrap_or_else(|| who.tenant.clone()),
        persona: optional::<PersonaId>("Persona", &sent.persona)?,
        person: optional::<PersonId>("Person", &sent.person)?,
        label: sent.label.clone(),
        scopes: Scopes::from(scopes),
        expires_at: lasts.map(|lasts| now.after(lasts)),
        created_by: Some(who.key),
    })
}

fn optional<T: std::str::FromStr<Err: std::fmt::Display>>(
    name: &str,
    text: &str,
) -> Result<Option<T>, String> {
    match text {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|error| format!("{name}: {error}.")),
    }
}

/// Revokes a key.
pub(crate) async fn revoke(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    Named(id): Named<KeyId>,
    request: Request,
) -> Result<Response, Problem> {
    form::read(&shared.edge, &caller, request).await?;
    shared.engine.revoke_key(caller.principal(), id).await?;
    Ok(shell::redirect("/console/keys?done=revoked"))
}
