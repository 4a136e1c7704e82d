//! Policy of a server, assembled: engines, their combination, canaries, decision log.

use std::{path::Path, sync::Arc};

use ringfence_policy::{
    self as policy, Bundle, Canary, Combined, Engine, Folder, InvalidBundle, LogConfig, Logged,
    Rego, Shadowed, Target,
};
use tokio::task::JoinHandle;

use super::stop::Stop;
use crate::{
    failure::Failure,
    settings::{
        Settings,
        policy::{Candidate, EMBEDDED, Log, Policy, Route},
    },
};

/// The policy engine, and its watchers.
#[derive(Debug)]
pub(super) struct Decider {
    pub(super) engine: Arc<dyn Engine>,
    /// Watchers of rules.
    pub(super) watchers: Vec<JoinHandle<()>>,
}

/// Opens everything. Needs a runtime.
pub(super) fn open(settings: &Settings, stop: &Stop) -> Result<Decider, Failure> {
    let wanted = &settings.policy;
    let mut opening = Opening { engines: Vec::new(), watchers: Vec::new(), stop };
    opening.engines(wanted)?;
    let mut engine = opening.combined(&wanted.routes)?;
    if !wanted.canaries.is_empty() {
        engine = Arc::new(Shadowed::new(engine, opening.canaries(wanted)?));
    }
    if let Some(log) = &wanted.log {
        engine = logged(engine, log, &settings.data)?;
    }
    let open = engine.fail_open();
    if !open.is_empty() {
        let tenants: Vec<_> = open.iter().map(ToString::to_string).collect();
        tracing::warn!(?tenants, "calls of these tenants RUN while policy gives no answer");
    }
    Ok(Decider { engine, watchers: opening.watchers })
}

struct Opening<'a> {
    engines: Vec<(String, Arc<dyn Engine>)>,
    watchers: Vec<JoinHandle<()>>,
    stop: &'a Stop,
}

impl Opening<'_> {
    /// Opens the embedded rules and the remote engines.
    fn engines(&mut self, wanted: &Policy) -> Result<(), Failure> {
        let embedded: Arc<dyn Engine> = match &wanted.folder {
            Some(folder) => self.folder(EMBEDDED, folder)?,
            None => {
                let built_in = Rego::load(&Bundle::built_in());
                Arc::new(built_in.map_err(|invalid| unusable("built-in", &invalid))?)
            }
        };
        self.engines.push((EMBEDDED.to_owned(), embedded));
        for (name, elsewhere) in &wanted.engines {
            let engine = elsewhere.clone().open().map_err(|error| {
                Failure::because(format!("cannot set up the policy engine `{name}`"), &error)
            })?;
            self.engines.push((name.clone(), engine));
        }
        Ok(())
    }

    /// Opens and watches the rules of a folder.
    fn folder(&mut self, name: &str, path: &Path) -> Result<Arc<dyn Engine>, Failure> {
        let folder = Folder::open(name, path)
            .map_err(|invalid| unusable(&path.display().to_string(), &invalid))?;
        let folder = Arc::new(folder);
        self.watchers.push(tokio::spawn(folder.clone().watch(self.stop.asked())));
        Ok(folder)
    }

    fn find(&self, name: &str) -> Result<Arc<dyn Engine>, Failure> {
        let found = self.engines.iter().find(|(known, _)| known == name);
        let found = found.map(|(_, engine)| engine.clone());
        found.ok_or_else(|| Failure::new(format!("there is no policy engine `{name}`")))
    }

    /// Combines the engines of the routes; a single engine is used directly.
    fn combined(&self, routes: &[Route]) -> Result<Arc<dyn Engine>, Failure> {
        if let [Route { engines, .. }] = routes
            && let [only] = engines.as_slice()
        {
            return self.find(only);
        }
        let route = |route: &Route| {
            let engines = route.engines.iter().map(|name| self.find(name));
            Ok(policy::Route {
                actions: route.actions.clone(),
                tenants: route.tenants.clone(),
                engines: engines.collect::<Result<_, Failure>>()?,
                how: route.how,
            })
        };
        let routes = routes.iter().map(route).collect::<Result<_, Failure>>()?;
        Ok(Arc::new(Combined::new(routes)))
    }

    fn canaries(&mut self, wanted: &Policy) -> Result<Vec<Canary>, Failure> {
        let mut canaries = Vec::new();
        for canary in &wanted.canaries {
            let candidate = match &canary.candidate {
                Candidate::Folder(path) => self.folder(&canary.name, path)?,
                Candidate::Engine(name) => self.find(name)?,
            };
            canaries.push(Canary {
                name: canary.name.clone(),
                tenants: canary.tenants.clone(),
                candidate,
                fail_open: canary.fail_open,
            });
        }
        Ok(canaries)
    }
}

fn logged(inner: Arc<dyn Engine>, log: &Log, data: &Path) -> Result<Arc<dyn Engine>, Failure> {
    let target = match (&log.file, &log.url) {
        (Some(file), _) => Target::File(file.clone()),
        (None, Some(url)) => Target::Service { url: url.clone(), spool: data.join("policy-log") },
        (None, None) => return Ok(inner),
    };
    let labels = [("app", "ringfence"), ("version", env!("CARGO_PKG_VERSION"))];
    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let config = LogConfig { target, erase: log.erase.clone(), labels };
    let logged = Logged::open(inner, config).map_err(|error| Failure::of(&error))?;
    Ok(Arc::new(logged))
}

fn unusable(place: &str, invalid: &InvalidBundle) -> Failure {
    let problems = invalid.0.iter().map(ToString::to_string).collect();
    Failure::listing(format!("the policy `{place}` cannot be used"), problems)
}
