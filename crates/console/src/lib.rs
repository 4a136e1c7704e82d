//! The console: pages for people over the engine's use cases.
//!
//! Pages are made by the server and readable without JavaScript; with it they are live. A browser signs
//! in with a key and gets a session of `access`; what the key may not do is not shown, and refused.
//!
//! Contents: `session` signs in and out; `shell` is the frame of every page; `pages` has one file per
//! subject; `live` tells open pages what changed; `form` reads forms; `schema_form` makes a form from a
//! JSON Schema; `html`, `json_view`, `risk` and `plot` make the pieces; `assets` are the files.
//!
//! Invariants:
//! - nothing is loaded from elsewhere, and no script or style stands in a page (`policy` in `assets`);
//! - text from outside is inert wherever it is shown (`html`);
//! - a request that changes something carries the token of its session's forms (`form`).

mod assets;
mod error;
mod form;
mod html;
mod json_view;
mod live;
mod pages;
mod plot;
mod risk;
mod schema_form;
mod session;
mod shell;

use std::sync::Arc;

use axum::{
    Router, middleware,
    routing::{get, post},
};
use ringfence_edge::{Door, Edge};
use ringfence_engine::Engine;

/// Beginning of all paths of the console.
pub const CONSOLE_PATH: &str = "/console";

/// A setting as the operator reads it.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Name in the configuration file.
    pub name: String,
    /// Value; secrets as `***`.
    pub value: String,
    /// Source of the value: default, file, environment or flag.
    pub source: String,
    /// Meaning of the setting.
    pub about: String,
}

/// Settings of the console.
#[derive(Debug, Clone, Default)]
pub struct ConsoleConfig {
    /// Settings of the server, to be shown.
    pub settings: Vec<Setting>,
    /// Whether the server is reached by TLS, so that the session's cookie may travel by it alone.
    pub has_tls: bool,
}

/// The console. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Console(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    edge: Edge,
    engine: Engine,
    config: ConsoleConfig,
}

impl Console {
    /// The console behind this edge.
    pub fn new(edge: Edge, config: ConsoleConfig) -> Self {
        Self(Arc::new(Shared { engine: edge.engine().clone(), edge, config }))
    }

    /// Path and query of a link that signs in once by this token.
    pub fn login_path(token: &ringfence_access::Token) -> String {
        format!("{CONSOLE_PATH}/login?link={}", token.reveal())
    }
}

/// Paths with their methods. The patterns are those of the router.
macro_rules! routes {
    ($($method:ident $path:literal $handler:path;)*) => {
        /// Route patterns; some stand here for two methods.
        const PATTERNS: &[&str] = &[$($path),*];

        fn router() -> Router<Arc<Shared>> {
            Router::new()$(.route($path, $method($handler)))*
        }
    };
}

routes! {
    get "/console" pages::overview::page;
    get "/console/login" session::form;
    post "/console/login" session::sign_in;
    post "/console/logout" session::sign_out;
    get "/console/assets/{file}" assets::serve;
    get "/console/live" live::all;
    get "/console/holds" pages::holds::list;
    get "/console/holds/{id}" pages::holds::read;
    post "/console/holds/{id}/resolve" pages::holds::resolve;
    get "/console/calls" pages::calls::list;
    get "/console/calls/{id}" pages::calls::read;
    get "/console/calls/{id}/live" live::call;
    get "/console/calls/{id}/output/{stream}" pages::calls::output;
    get "/console/calls/{id}/pages/{number}" pages::sandboxes::made_page;
    get "/console/calls/{id}/receipt" pages::calls::receipt;
    get "/console/calls/{id}/proof" pages::calls::proof;
    post "/console/calls/{id}/verify" pages::calls::verify;
    post "/console/calls/{id}/cancel" pages::calls::cancel;
    post "/console/calls/{id}/erase" pages::calls::erase;
    post "/console/calls/{id}/retry" pages::calls::retry;
    get "/console/artifacts" pages::artifacts::list;
    get "/console/artifacts/{id}" pages::artifacts::read;
    get "/console/artifacts/{id}/download" pages::artifacts::download;
    get "/console/tools" pages::tools::list;
    get "/console/tools/{name}" pages::tools::read;
    post "/console/tools/{name}" pages::tools::attempt;
    get "/console/sandboxes" pages::sandboxes::list;
    post "/console/sandboxes" pages::sandboxes::create;
    get "/console/sandboxes/{id}" pages::sandboxes::read;
    post "/console/sandboxes/{id}" pages::sandboxes::change;
    post "/console/sandboxes/{id}/cells" pages::sandboxes::execute;
    get "/console/sandboxes/{id}/file" pages::sandboxes::download;
    post "/console/sandboxes/{id}/files" pages::sandboxes::write;
    post "/console/sandboxes/{id}/upload" pages::sandboxes::upload;
    post "/console/sandboxes/{id}/snapshot" pages::sandboxes::snapshot;
    get "/console/sandboxes/{id}/metrics" pages::sandboxes::metrics;
    post "/console/sandboxes/{id}/terminal" pages::sandboxes::open_terminal;
    get "/console/sandboxes/{id}/terminal/{program}" pages::sandboxes::attach;
    get "/console/policy" pages::policy::read;
    post "/console/policy/replay" pages::policy::replay;
    get "/console/audit" pages::audit::list;
    get "/console/audit/export" pages::audit::export;
    post "/console/audit/verify" pages::audit::verify;
    get "/console/reviews" pages::reviews::page;
    post "/console/reviews/{name}" pages::reviews::decide;
    post "/console/discoveries/{id}/reject" pages::reviews::reject;
    get "/console/mcp" pages::mcp::page;
    post "/console/mcp/{name}/restart" pages::mcp::restart;
    get "/console/keys" pages::keys::list;
    post "/console/keys" pages::keys::create;
    post "/console/keys/{id}/revoke" pages::keys::revoke;
    get "/console/secrets" pages::secrets::list;
    post "/console/secrets" pages::secrets::set;
    post "/console/secrets/{name}/remove" pages::secrets::remove;
    get "/console/settings" pages::settings::list;
    get "/console/{*rest}" error::not_found;
}

impl Door for Console {
    fn routes(&self) -> Router {
        router().layer(middleware::from_fn(error::pages)).with_state(self.0.clone())
    }

    fn open_paths(&self) -> Vec<&'static str> {
        Vec::new()
    }

    fn route_patterns(&self) -> Vec<String> {
        let mut patterns: Vec<_> = PATTERNS.iter().map(|pattern| (*pattern).to_owned()).collect();
        patterns.dedup();
        patterns
    }

    fn areas(&self) -> &'static [&'static str] {
        &[CONSOLE_PATH]
    }

    fn session_area(&self) -> Option<&'static str> {
        Some(CONSOLE_PATH)
    }
}
