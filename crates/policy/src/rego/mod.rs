//! Rules in Rego, evaluated in this process.
//!
//! A [`Bundle`] is loaded once, with all of its problems named, and never changes afterwards: new
//! rules are a new [`Rego`]. The rule [`DECISION`] answers. Answers are remembered by the parts of
//! the document that the rules can see (see `reads`). What is new is found out where it is asked if
//! that takes but a moment (`here`), by the rules that may have something to say (`index`), and by
//! threads that can wait (`workers`) otherwise.

mod again;
mod answer;
mod brief;
mod bundle;
mod cache;
mod check;
mod explain;
mod folder;
mod here;
mod index;
mod mask;
mod nesting;
mod problem;
mod reads;
mod reload;
mod suite;
mod syntax;
mod workers;

use std::{
    num::NonZeroU32,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use async_trait::async_trait;
use regorus::utils::limits::ExecutionTimerConfig;
use ringfence_types::Digest;

pub use self::{
    again::Rejudge,
    bundle::Bundle,
    explain::{Cause, Change, Explanation, Search},
    problem::{InvalidBundle, Problem},
    reload::Folder,
    suite::{Coverage, Expression, Suite, TestOutcome, Tested},
};
use self::{
    cache::Cache,
    here::Here,
    index::Index,
    reads::{Reads, Seen},
    workers::Workers,
};
pub(crate) use self::{mask::Mask, workers::STACK};
use crate::{Answer, Engine, Input, Unavailable};

/// The rule that decides.
const DECISION: &str = "data.ringfence.decision";
/// Most rules that are evaluated where they are needed: more take too long to be worth a try.
const BRIEF_RULES: usize = 128;
/// Most bytes of `data.json` beside rules that are.
const BRIEF_DATA: usize = 256 << 10;
/// How long loading may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Rules that are ready to answer.
#[derive(Debug)]
pub struct Rego {
    bundle: Arc<Bundle>,
    revision: Digest,
    reads: Reads,
    cache: Cache,
    brief: Brief,
    workers: Workers,
}

/// What can be found out on the thread of whoever asks.
#[derive(Debug)]
struct Brief {
    /// By all rules, unless they are too many or not surely brief.
    whole: Option<Here>,
    /// By those that may have something to say.
    index: Option<Index>,
}

impl Rego {
    /// Loads a bundle, or says everything that is wrong with it. Takes a few milliseconds.
    pub fn load(bundle: &Bundle) -> Result<Self, InvalidBundle> {
        let (engine, reads, brief) = apart(bundle, PATIENCE, |bundle| {
            let (mut engine, reads) = compile(bundle)?;
            let brief = Brief::of(&mut engine, bundle);
            Ok((engine, reads, brief))
        })?;
        let revision = bundle.digest();
        let workers = Workers::start(&engine, revision).map_err(|error| {
            InvalidBundle(vec![Problem::in_file(".", format!("no thread for it: {error}"))])
        })?;
        let bundle = Arc::new(bundle.clone());
        Ok(Self { bundle, revision, reads, cache: Cache::default(), brief, workers })
    }

    /// The parts of the document that the rules look at, such as `tool.safety_flags`.
    pub fn reads(&self) -> Vec<String> {
        self.reads.names()
    }

    /// What the rules say, without looking at what they said before.
    async fn judge(&self, seen: &Seen<'_>, input: &Input) -> Result<Answer, Unavailable> {
        match self.brief.evaluate(seen) {
            Some(answer) => answer,
            None => self.ask(input).await,
        }
    }

    /// What all of the rules say about all of the document.
    async fn ask(&self, input: &Input) -> Result<Answer, Unavailable> {
        self.workers.ask(input.text()).await
    }
}

impl Brief {
    fn of(engine: &mut regorus::Engine, bundle: &Bundle) -> Self {
        // A pass over much data is one step, and a long one.
        if bundle.data().is_some_and(|data| data.len() > BRIEF_DATA) {
            return Self { whole: None, index: None };
        }
        let revision = bundle.digest();
        let modules = engine.get_modules();
        let rules = modules.iter().map(|module| module.policy.len()).sum::<usize>();
        let is_brief = rules <= BRIEF_RULES && brief::are_brief(modules);
        let whole = is_brief.then(|| Here::new(engine, revision));
        Self { whole, index: Index::of(engine, revision) }
    }

    /// What the rules say, if that is found in a moment.
    fn evaluate(&self, seen: &Seen<'_>) -> Option<Result<Answer, Unavailable>> {
        if seen.size() > here::DOCUMENT_BYTES || (self.whole.is_none() && self.index.is_none()) {
            return None;
        }
        let document = seen.document()?;
        match self.index.as_ref().and_then(|index| index.find(&document)) {
            Some(here) => here.evaluate(&document),
            None => self.whole.as_ref()?.evaluate(&document),
        }
    }
}

#[async_trait]
impl Engine for Rego {
    fn name(&self) -> &str {
        "rego"
    }

    fn revision(&self) -> Digest {
        self.revision
    }

    fn bundle(&self) -> Option<Arc<Bundle>> {
        Some(Arc::clone(&self.bundle))
    }

    async fn evaluate(&self, input: &Input) -> Result<Answer, Unavailable> {
        let seen = self.reads.see(input);
        let Some(key) = seen.key() else {
            return self.judge(&seen, input).await;
        };
        if let Some(answer) = self.cache.get(&key) {
            return Ok(answer);
        }
        // A failure is not kept: time may have run out by bad luck.
        let answer = self.judge(&seen, input).await?;
        self.cache.put(key, &answer);
        Ok(answer)
    }
}

/// Parsing and dropping a long chain of operators recurses as deep as the file is long, and some
/// files take the parser very long, so it happens on a thread that we need not wait for.
fn compile_apart(bundle: &Bundle) -> Result<(regorus::Engine, Reads), InvalidBundle> {
    apart(bundle, PATIENCE, compile)
}

/// Does something with a bundle on a thread of its own, within a time.
fn apart<T: Send + 'static>(
    bundle: &Bundle,
    patience: Duration,
    work: impl FnOnce(&Bundle) -> Result<T, InvalidBundle> + Send + 'static,
) -> Result<T, InvalidBundle> {
    let failed = |text: String| InvalidBundle(vec![Problem::in_file(".", text)]);
    let (done, compiled) = mpsc::channel();
    let bundle = bundle.clone();
    thread::Builder::new()
        .name("policy-load".to_owned())
        .stack_size(workers::STACK)
        .spawn(move || {
            // If nobody waits any more, there is nobody to tell.
            let _ = done.send(work(&bundle));
        })
        .map_err(|error| failed(format!("no thread for it: {error}")))?;
    compiled
        .recv_timeout(patience)
        .unwrap_or_else(|_| Err(failed(format!("not done within {} seconds", patience.as_secs()))))
}

fn compile(bundle: &Bundle) -> Result<(regorus::Engine, Reads), InvalidBundle> {
    let mut engine = assemble(bundle, bundle.rules())?;
    prepare(&mut engine).map_err(|problem| InvalidBundle(vec![problem]))?;
    let reads = Reads::of(engine.get_modules());
    Ok((engine, reads))
}

/// These files of a bundle and its facts, checked.
fn assemble<'a>(
    bundle: &Bundle,
    files: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<regorus::Engine, InvalidBundle> {
    let mut engine = regorus::Engine::new();
    engine.set_gather_prints(true);
    let mut problems = Vec::new();
    for (name, text) in files {
        if let Some(line) = nesting::too_deep(text) {
            let message = format!("brackets nest more than {} deep", nesting::DEPTH);
            problems.push(Problem::at(name, line, message));
        } else if let Err(error) = engine.add_policy(name.to_owned(), text.to_owned()) {
            problems.push(Problem::from_rego(name, &error));
        }
    }
    problems.extend(check::problems(engine.get_modules()));
    if let Err(error) = engine.add_data_json(bundle.data().unwrap_or("{}")) {
        problems.push(Problem::from_rego(bundle::DATA, &error));
    }
    InvalidBundle::unless_none(problems)?;
    engine.set_execution_timer_config(ExecutionTimerConfig {
        limit: workers::LIMIT,
        // Reading the clock costs about as much as a step: every sixteenth is often enough.
        check_interval: NonZeroU32::new(16).unwrap_or(NonZeroU32::MIN),
    });
    Ok(engine)
}

fn prepare(engine: &mut regorus::Engine) -> Result<(), Problem> {
    let decides =
        |module: &regorus::unstable::Module| check::package(module) == ["data", "ringfence"];
    if !engine.get_modules().iter().any(|module| decides(module)) {
        return Err(Problem::in_file(".", "no file has `package ringfence`"));
    }
    engine.compile_with_entrypoint(&DECISION.into()).map_err(|error| {
        if error.to_string() == "not a valid rule path" {
            return Problem::in_file(".", "package `ringfence` has no rule `decision`");
        }
        Problem::from_rego(".", &error)
    })?;
    Ok(())
}

#[cfg(test)]
mod tests;
