//! Rules in Rego, evaluated in this process.
//!
//! A [`Bundle`] is loaded once, with all of its problems named, and never changes afterwards: new
//! rules are a new [`Rego`]. The rule [`DECISION`] answers. Answers are cached by the parts of the
//! document that the rules read (`reads`, `cache`). Other documents are evaluated inline on the
//! caller's thread if that is surely short (`inline`), by the subset of rules that may apply
//! (`index`), and by worker threads otherwise (`workers`).

mod answer;
mod bundle;
mod cache;
mod check;
mod explain;
mod folder;
mod index;
mod inline;
mod inline_safe;
mod mask;
mod nesting;
mod problem;
mod reads;
mod reload;
mod replay;
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
    bundle::Bundle,
    explain::{Cause, Change, Explanation, Search},
    problem::{InvalidBundle, Problem},
    reload::Folder,
    replay::Rejudge,
    suite::{Coverage, Expression, Suite, TestOutcome, Tested},
};
use self::{
    cache::Cache,
    index::Index,
    inline::Inline,
    reads::{Reads, Seen},
    workers::Workers,
};
pub(crate) use self::{mask::Mask, workers::STACK};
use crate::{Answer, Engine, Input, Unavailable};

/// Path of the rule that decides.
const DECISION: &str = "data.ringfence.decision";
/// Rules evaluated inline; more take too long to be worth a try.
const MAX_INLINE_RULES: usize = 128;
/// Size limit of `data.json` for inline evaluation.
const MAX_INLINE_DATA_BYTES: usize = 256 << 10;
/// Time limit for loading a bundle.
const LOAD_TIMEOUT: Duration = Duration::from_secs(20);

/// Loaded rules.
#[derive(Debug)]
pub struct Rego {
    bundle: Arc<Bundle>,
    revision: Digest,
    reads: Reads,
    cache: Cache,
    inline: InlineEvaluators,
    workers: Workers,
}

/// Inline evaluators of a bundle.
#[derive(Debug)]
struct InlineEvaluators {
    /// Evaluator with all rules; `None` if they are too many or not inline-safe.
    whole: Option<Inline>,
    /// Evaluators with the rules that may apply to a document.
    index: Option<Index>,
}

impl Rego {
    /// Loads a bundle, or returns everything that is wrong with it. Takes a few milliseconds.
    pub fn load(bundle: &Bundle) -> Result<Self, InvalidBundle> {
        let (engine, reads, inline) = apart(bundle, LOAD_TIMEOUT, |bundle| {
            let (mut engine, reads) = compile(bundle)?;
            let inline = InlineEvaluators::of(&mut engine, bundle);
            Ok((engine, reads, inline))
        })?;
        let revision = bundle.digest();
        let workers = Workers::start(&engine, revision).map_err(|error| {
            InvalidBundle(vec![Problem::in_file(".", format!("no thread for it: {error}"))])
        })?;
        let bundle = Arc::new(bundle.clone());
        Ok(Self { bundle, revision, reads, cache: Cache::default(), inline, workers })
    }

    /// Parts of the document that the rules read, such as `tool.safety_flags`.
    pub fn reads(&self) -> Vec<String> {
        self.reads.names()
    }

    /// Answer of the rules, bypassing the cache.
    async fn judge(&self, seen: &Seen<'_>, input: &Input) -> Result<Answer, Unavailable> {
        match self.inline.evaluate(seen) {
            Some(answer) => answer,
            None => self.ask(input).await,
        }
    }

    /// Answer of all rules about the whole document, from a worker.
    async fn ask(&self, input: &Input) -> Result<Answer, Unavailable> {
        self.workers.ask(input.text()).await
    }
}

impl InlineEvaluators {
    fn of(engine: &mut regorus::Engine, bundle: &Bundle) -> Self {
        // A pass over much data is a single long step.
        if bundle.data().is_some_and(|data| data.len() > MAX_INLINE_DATA_BYTES) {
            return Self { whole: None, index: None };
        }
        let revision = bundle.digest();
        let modules = engine.get_modules();
        let rules = modules.iter().map(|module| module.policy.len()).sum::<usize>();
        let is_safe = rules <= MAX_INLINE_RULES && inline_safe::are_inline_safe(modules);
        let whole = is_safe.then(|| Inline::new(engine, revision));
        Self { whole, index: Index::of(engine, revision) }
    }

    /// Answer of the rules if it is found inline.
    fn evaluate(&self, seen: &Seen<'_>) -> Option<Result<Answer, Unavailable>> {
        if seen.size() > inline::MAX_DOCUMENT_BYTES
            || (self.whole.is_none() && self.index.is_none())
        {
            return None;
        }
        let document = seen.document()?;
        match self.index.as_ref().and_then(|index| index.find(&document)) {
            Some(inline) => inline.evaluate(&document),
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
        // A failure is not cached: a timeout may be bad luck.
        let answer = self.judge(&seen, input).await?;
        self.cache.put(key, &answer);
        Ok(answer)
    }
}

/// Compiles on a separate thread: parsing and dropping a long chain of operators recurses as deep as
/// the file is long, and some files take the parser very long.
fn compile_apart(bundle: &Bundle) -> Result<(regorus::Engine, Reads), InvalidBundle> {
    apart(bundle, LOAD_TIMEOUT, compile)
}

/// Runs `work` on a separate thread with a deep stack, within a time limit.
fn apart<T: Send + 'static>(
    bundle: &Bundle,
    timeout: Duration,
    work: impl FnOnce(&Bundle) -> Result<T, InvalidBundle> + Send + 'static,
) -> Result<T, InvalidBundle> {
    let failed = |text: String| InvalidBundle(vec![Problem::in_file(".", text)]);
    let (done, compiled) = mpsc::channel();
    let bundle = bundle.clone();
    thread::Builder::new()
        .name("policy-load".to_owned())
        .stack_size(workers::STACK)
        .spawn(move || {
            // The receiver may be gone.
            let _ = done.send(work(&bundle));
        })
        .map_err(|error| failed(format!("no thread for it: {error}")))?;
    compiled
        .recv_timeout(timeout)
        .unwrap_or_else(|_| Err(failed(format!("not done within {} seconds", timeout.as_secs()))))
}

fn compile(bundle: &Bundle) -> Result<(regorus::Engine, Reads), InvalidBundle> {
    let mut engine = assemble(bundle, bundle.rules())?;
    prepare(&mut engine).map_err(|problem| InvalidBundle(vec![problem]))?;
    let reads = Reads::of(engine.get_modules());
    Ok((engine, reads))
}

/// Engine with these files of a bundle and its data, checked.
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
        limit: workers::EVALUATE_TIMEOUT,
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
