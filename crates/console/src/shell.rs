//! The frame of every page: navigation by what the key may do, the person who is signed in, the token of
//! forms.

use askama::Template;
use axum::{body::Body, response::Response};
use http::{HeaderValue, StatusCode, header};
use ringfence_access::is_operator;
use ringfence_edge::{Problem, identity::Caller, problem_codes, reply};
use ringfence_engine::data::CallQuery;
use ringfence_types::{Principal, Scope, Timestamp};

use crate::{
    Shared,
    assets::{REFERENCES, References},
    form,
    html::{self, Html},
    pages::calls,
};

/// A page in the navigation.
#[derive(Debug)]
pub(crate) struct NavItem {
    pub(crate) name: &'static str,
    pub(crate) path: &'static str,
    /// Second key of its shortcut, after `g`.
    pub(crate) key: char,
    pub(crate) icon: Html,
    /// Number beside the name, such as of holds that wait.
    pub(crate) count: String,
    pub(crate) is_current: bool,
}

/// The frame of a page.
#[derive(Debug)]
pub(crate) struct Shell {
    pub(crate) assets: &'static References,
    pub(crate) title: String,
    pub(crate) nav: Vec<NavItem>,
    /// Label of the key that is signed in.
    pub(crate) label: String,
    pub(crate) tenant: String,
    pub(crate) scopes: String,
    /// Token of the forms of this session.
    pub(crate) token: String,
    /// Words about the action that led here.
    pub(crate) done: Option<&'static str>,
    pub(crate) now: Timestamp,
}

/// One page: name, path, shortcut, shape of the icon, and whether a principal sees it.
type PageEntry = (&'static str, &'static str, char, &'static str, fn(&Principal) -> bool);

/// Pages in the order of the navigation.
const PAGES: &[PageEntry] = &[
    ("Overview", "/console", 'o', "M3 12 12 4l9 8M6 10v10h12V10", reads),
    ("Holds", "/console/holds", 'h', "M9 6v12M15 6v12", sees_holds),
    ("Calls", "/console/calls", 'c', "M4 6h16M4 12h16M4 18h10", reads),
    ("Artifacts", "/console/artifacts", 'f', "M6 3h8l4 4v14H6zM14 3v4h4", reads),
    (
        "Tools",
        "/console/tools",
        't',
        "M14 7a4 4 0 0 0-5 5l-6 6 3 3 6-6a4 4 0 0 0 5-5l-3 2-2-2z",
        reads,
    ),
    ("Sandboxes", "/console/sandboxes", 'b', "M4 8l8-4 8 4v8l-8 4-8-4zM4 8l8 4 8-4M12 12v8", reads),
    ("MCP", "/console/mcp", 'm', "M8 8V4M16 8V4M6 8h12v4a6 6 0 0 1-12 0zM12 18v3", operates),
    ("Policy", "/console/policy", 'p', "M12 4v16M6 8h12M6 8l-3 6h6zM18 8l-3 6h6zM8 20h8", operates),
    (
        "Audit",
        "/console/audit",
        'l',
        "M12 3l8 4v5c0 5-3.5 8-8 9-4.5-1-8-4-8-9V7z M9 12l2 2 4-4",
        reads,
    ),
    ("Keys", "/console/keys", 'k', "M14 10a4 4 0 1 0-3 3.9L13 16h3v3h3v-3l-5-5.1z", administers),
    (
        "Secrets",
        "/console/secrets",
        'e',
        "M6 11h12v9H6zM9 11V8a3 3 0 0 1 6 0v3M12 15v2",
        administers,
    ),
    (
        "Settings",
        "/console/settings",
        's',
        "M4 7h10M18 7h2M4 17h2M10 17h10M14 4v6M6 14v6",
        operates,
    ),
];

fn reads(who: &Principal) -> bool {
    who.scopes.allow(Scope::Read)
}

fn sees_holds(who: &Principal) -> bool {
    reads(who) || who.scopes.allow(Scope::Approve)
}

fn administers(who: &Principal) -> bool {
    who.scopes.allow(Scope::Admin)
}

fn operates(who: &Principal) -> bool {
    administers(who) && is_operator(who)
}

/// Holds that are counted beside the navigation.
const MAX_COUNTED: usize = 20;

impl Shell {
    /// The frame of a page of this title.
    pub(crate) async fn new(
        shared: &Shared,
        caller: &Caller,
        title: &str,
    ) -> Result<Self, Problem> {
        let who = caller.principal();
        let visible = PAGES.iter().filter(|(.., sees)| sees(who));
        let mut nav: Vec<_> = visible
            .map(|(name, path, key, shape, _)| NavItem {
                name,
                path,
                key: *key,
                icon: icon(shape),
                count: String::new(),
                is_current: *name == title,
            })
            .collect();
        if let Some(holds) = nav.iter_mut().find(|item| item.name == "Holds") {
            holds.count = count_holds(shared, who).await?;
        }
        let scopes: Vec<_> = who.scopes.iter().map(Scope::name).collect();
        Ok(Self {
            assets: &REFERENCES,
            title: title.to_owned(),
            nav,
            label: if who.label.is_empty() { "unnamed key".to_owned() } else { who.label.clone() },
            tenant: who.tenant.to_string(),
            scopes: scopes.join(", "),
            token: form::token(caller),
            done: None,
            now: shared.engine.clock().now(),
        })
    }

    /// With words about the action that led here, by their name in the query.
    pub(crate) fn done(mut self, name: Option<&str>) -> Self {
        let words = DONE.iter().find(|(known, _)| Some(*known) == name);
        self.done = words.map(|(_, words)| *words);
        self
    }

    /// A moment, relative to now.
    pub(crate) fn time(&self, at: &Timestamp) -> Html {
        html::time(*at, self.now)
    }
}

/// Words about actions that are done, by their names in a query.
const DONE: &[(&str, &str)] = &[
    ("approved", "Approved. The call goes on."),
    ("voted", "Your approval counts. The call waits for more people."),
    ("held-again", "Policy was asked again and still holds the call."),
    ("denied", "Denied. The call does not run."),
    ("discarded", "Discarded. The call does not run."),
    ("stopped", "Stopped. The sandbox and everything in it is gone."),
    ("forked", "Forked: this sandbox has a copy of the files and no programs."),
    ("saved", "Saved."),
    ("tool-approved", "Approved. The tool can be called."),
    ("tool-rejected", "Rejected. The tool cannot be called."),
    ("restarted", "The MCP server is started anew."),
    ("revoked", "Revoked. The key stopped working."),
    ("set", "Set. Requests that begin now use it."),
    ("removed", "Removed. Requests do not get it any more."),
    ("cancelled", "Cancelled."),
    ("cancelling", "The call is being stopped."),
    ("erased", "Erased. The receipt and the ledger are kept."),
];

async fn count_holds(shared: &Shared, who: &Principal) -> Result<String, Problem> {
    let query = CallQuery {
        tenant: who.tenant.clone(),
        state: Some("held".to_owned()),
        tool: None,
        session: None,
        parent: None,
        before: None,
        limit: MAX_COUNTED,
    };
    let (held, next) = calls::page_of(shared, who, query).await?;
    Ok(match (held.len(), next) {
        (0, None) => String::new(),
        (count, None) => count.to_string(),
        (count, Some(_)) => format!("{count}+"),
    })
}

/// An icon of one stroke.
fn icon(shape: &str) -> Html {
    Html(format!(
        "<svg viewBox=\"0 0 24 24\" aria-hidden=\"true\" class=\"icon\"><path d=\"{shape}\"/></svg>"
    ))
}

/// Refuses keys that may not use a page which needs one of two scopes.
pub(crate) fn is_operator_key(caller: &Caller) -> bool {
    is_operator(caller.principal())
}

/// A page as an answer.
pub(crate) fn render(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => {
            let kind = HeaderValue::from_static("text/html; charset=utf-8");
            reply::of(status, kind, text.into())
        }
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "a page cannot be written");
            let mut response = Response::new(Body::empty());
            let problem = Problem::new(&problem_codes::INTERNAL, "the page cannot be written");
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            response.extensions_mut().insert(problem);
            response
        }
    }
}

/// The answer to a form: the browser goes on to a page.
pub(crate) fn redirect(path: &str) -> Response {
    let mut response = reply::nothing();
    *response.status_mut() = StatusCode::SEE_OTHER;
    let place = HeaderValue::try_from(path).unwrap_or(HeaderValue::from_static("/console"));
    response.headers_mut().insert(header::LOCATION, place);
    response
}
