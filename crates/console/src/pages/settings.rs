//! Settings of the server: read-only, with the source of each value.

use std::sync::Arc;

use askama::Template;
use axum::{extract::State, response::Response};
use http::{StatusCode, Uri};
use ringfence_edge::{
    Problem,
    identity::{self, May, check_operator},
    query::Query,
};

use crate::{
    Setting, Shared,
    shell::{self, Shell},
};

#[derive(Debug, Template)]
#[template(path = "settings.html")]
struct SettingsPage<'a> {
    shell: Shell,
    rows: Vec<&'a Setting>,
    search: String,
    version: &'static str,
}

/// Shows the settings to operators.
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    uri: Uri,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    let mut query = Query::of(&uri);
    let search = query.optional::<String>("q").unwrap_or_default();
    query.finish()?;
    let words = search.to_lowercase();
    let fits = |setting: &&Setting| {
        let text = format!("{} {} {}", setting.name, setting.value, setting.about);
        text.to_lowercase().contains(&words)
    };
    let rows = shared.config.settings.iter().filter(fits).collect();
    let shell = Shell::new(&shared, &caller, "Settings").await?;
    let page = SettingsPage { shell, rows, search, version: env!("CARGO_PKG_VERSION") };
    Ok(shell::render(StatusCode::OK, &page))
}
