//! OpenFGA server with a store on disk, so that relations survive a restart.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http;
use crate::process::{Health, Process, Start, command, free_address};

/// Ports tried.
const MAX_TRIES: usize = 5;

/// Model in which keys call tools directly, or because their tenant or persona may. Tenant and persona
/// of a key are sent with each question.
pub const RELATIONS: &str = r#"{
  "schema_version": "1.1",
  "type_definitions": [
    {"type": "key"},
    {"type": "tenant", "relations": {"member": {"this": {}}},
     "metadata": {"relations": {"member": {"directly_related_user_types": [{"type": "key"}]}}}},
    {"type": "persona", "relations": {"actor": {"this": {}}},
     "metadata": {"relations": {"actor": {"directly_related_user_types": [{"type": "key"}]}}}},
    {"type": "tool", "relations": {"can_call": {"this": {}}},
     "metadata": {"relations": {"can_call": {"directly_related_user_types": [
        {"type": "key"}, {"type": "tenant", "relation": "member"},
        {"type": "persona", "relation": "actor"}]}}}}
  ]
}"#;

/// OpenFGA server. It is killed when dropped.
#[derive(Debug)]
pub struct OpenFga {
    program: PathBuf,
    directory: TempDir,
    address: SocketAddr,
    grpc: SocketAddr,
    process: Process,
    /// Id of its only store.
    pub store: String,
    /// Id of its only model.
    pub model: String,
}

impl OpenFga {
    /// Serves one store with this model.
    pub fn start(program: &Path, model: &str) -> Result<Self> {
        let directory = tempfile::tempdir().context("make a directory for OpenFGA")?;
        migrate(program, directory.path())?;
        let mut last = None;
        for _ in 0..MAX_TRIES {
            let (address, grpc) = (free_address()?, free_address()?);
            match run(program, directory.path(), address, grpc) {
                Ok(process) => {
                    let (store, model) = set_up(address, model)?;
                    let program = program.to_owned();
                    return Ok(Self { program, directory, address, grpc, process, store, model });
                }
                Err(problem) => last = Some(problem),
            }
        }
        Err(last.context("no try was made")?)
    }

    /// Address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// URL of the server.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Process of the server.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Adds a relation.
    pub fn relate(&self, user: &str, relation: &str, object: &str) -> Result<()> {
        self.write("writes", user, relation, object)
    }

    /// Removes a relation.
    pub fn unrelate(&self, user: &str, relation: &str, object: &str) -> Result<()> {
        self.write("deletes", user, relation, object)
    }

    /// Restarts a killed server on the same address.
    pub fn restart(&mut self) -> Result<()> {
        self.process.kill();
        self.process = run(&self.program, self.directory.path(), self.address, self.grpc)?;
        Ok(())
    }

    fn write(&self, what: &str, user: &str, relation: &str, object: &str) -> Result<()> {
        let tuple = json!({"user": user, "relation": relation, "object": object});
        let body = json!({
            what: {"tuple_keys": [tuple]},
            "authorization_model_id": self.model,
        });
        ask(self.address, &format!("/stores/{}/write", self.store), &body).map(|_| ())
    }
}

fn set_up(address: SocketAddr, model: &str) -> Result<(String, String)> {
    let model: Value = serde_json::from_str(model).context("the model is JSON")?;
    let store = ask(address, "/stores", &json!({"name": "ringfence"}))?;
    let store = store["id"].as_str().context("a store has an id")?.to_owned();
    let path = format!("/stores/{store}/authorization-models");
    let model = ask(address, &path, &model)?;
    let model = model["authorization_model_id"].as_str().context("a model has an id")?;
    Ok((store, model.to_owned()))
}

fn ask(address: SocketAddr, path: &str, body: &Value) -> Result<Value> {
    let answer = http::post(address, path, body)?;
    if answer.status >= 300 {
        bail!("{path}: {answer:?}");
    }
    Ok(answer.json())
}

fn datastore(directory: &Path) -> [String; 4] {
    let uri = format!("file:{}/openfga.db", directory.display());
    ["--datastore-engine".to_owned(), "sqlite".to_owned(), "--datastore-uri".to_owned(), uri]
}

fn migrate(program: &Path, directory: &Path) -> Result<()> {
    let mut migrate = command(program);
    migrate.arg("migrate").args(datastore(directory)).stdin(Stdio::null());
    let output = migrate.output().context("start OpenFGA's migration")?;
    if !output.status.success() {
        bail!("OpenFGA cannot make its store: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

fn run(program: &Path, directory: &Path, address: SocketAddr, grpc: SocketAddr) -> Result<Process> {
    let (http, grpc) = (address.to_string(), grpc.to_string());
    let fixed = ["run", "--playground-enabled=false", "--metrics-enabled=false"];
    let more = ["--log-level", "error", "--http-addr", &http, "--grpc-addr", &grpc];
    let arguments = fixed.into_iter().chain(more).map(str::to_owned);
    let arguments = arguments.chain(datastore(directory)).collect();
    let log = directory.join("log");
    Process::start(&Start { program, arguments, log, address, health: Health::Path("/healthz") })
}
