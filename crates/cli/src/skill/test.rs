//! `ringfence skill test`: runs the examples of a skill as a server would.
//!
//! The engine of a server is opened on an empty directory, with rules that allow everything, and
//! gets the folder as an upload: schemas, limits and the sandbox are those of a real call.

use std::{fs, path::Path, process::ExitCode, time::Duration};

use ringfence_engine::{CallRequest, Engine, new_trace};
use ringfence_registry::{Example, SkillFolder, Upload};
use ringfence_types::{Call, Principal, Produced, Scope, State};
use serde_json::{Value, json};

use super::{broken, read};
use crate::{
    cli::{DataArgs, SettingsArgs},
    exit,
    failure::Failure,
    print,
    run::prepare_process,
    serve::{self, Opened},
    settings::Settings,
    style::Tone,
    table::plain,
};

const ALLOW_ALL: &str = "package ringfence\n\ndecision := {\"decision\": \"allow\"}\n";

/// Timeout of a call: longer than the limits of any tool.
const CALL_TIMEOUT: Duration = Duration::from_secs(3_600);

/// Key id of the calls, which is no key of any server.
const NO_KEY: &str = "00000000-0000-0000-0000-000000000000";

/// Result of one example.
#[derive(Debug)]
struct Tested {
    index: usize,
    /// Problems, line by line; empty if it passed.
    problems: Vec<String>,
    took: Duration,
}

pub(super) fn test(folder: &Path, is_json: bool) -> Result<ExitCode, Failure> {
    let skill = read(folder).map_err(|problems| broken(folder, problems))?;
    if skill.examples.is_empty() {
        let message = format!("the skill `{}` has no examples", folder.display());
        let hint = "add to skill.yaml: examples: [{input: {…}, output: {…}}]";
        return Err(Failure::new(message).hint(hint));
    }
    let failed = |error| Failure::because("cannot make a temporary directory", &error);
    let place = tempfile::tempdir().map_err(failed)?;
    let settings = settings(place.path())?;
    // While there is one thread.
    prepare_process();
    let runtime = serve::runtime(settings.threads)?;
    let tested = runtime.block_on(run(&settings, &skill));
    runtime.shutdown_background();
    let tested = tested?;
    tested.iter().for_each(|tested| tell(tested, is_json));
    let passed = tested.iter().filter(|tested| tested.problems.is_empty()).count();
    let failed = tested.len() - passed;
    match is_json {
        true => print::line(&json!({"passed": passed, "failed": failed}).to_string()),
        false => print::line(&format!("{passed} passed, {failed} failed")),
    }
    Ok(ExitCode::from(if failed == 0 { exit::DONE } else { exit::FAILED }))
}

/// Settings of a server for this command alone.
fn settings(place: &Path) -> Result<Settings, Failure> {
    let (data, policy) = (place.join("data"), place.join("policy"));
    let failed = |error| Failure::because(format!("cannot write `{}`", place.display()), &error);
    fs::create_dir(&data).and_then(|()| fs::create_dir(&policy)).map_err(failed)?;
    fs::write(policy.join("allow.rego"), ALLOW_ALL).map_err(failed)?;
    let data = DataArgs { data: Some(data) };
    Settings::of_flags(&SettingsArgs { data, policy: Some(policy), ..SettingsArgs::default() })
}

async fn run(settings: &Settings, skill: &SkillFolder) -> Result<Vec<Tested>, Failure> {
    let opened: Opened = serve::open(settings).await?;
    let tested = run_all(&opened.engine, skill).await;
    opened.engine.stop(Duration::ZERO).await;
    opened.close().await;
    tested
}

async fn run_all(engine: &Engine, skill: &SkillFolder) -> Result<Vec<Tested>, Failure> {
    let upload = Upload::Files(skill.files.clone());
    let installed = engine.install_tool(&author(), &new_trace(None).into(), upload).await;
    let entry = installed.map_err(|error| Failure::of(&error))?;
    let mut tested = Vec::with_capacity(skill.examples.len());
    for (index, example) in skill.examples.iter().enumerate() {
        let request = CallRequest::new(entry.tool.name.clone(), example.input.clone());
        let ticket = engine.call(&author(), request).await;
        let mut ticket = ticket.map_err(|refused| Failure::of(&refused))?;
        let call = ticket.wait(CALL_TIMEOUT).await;
        let call = call.ok_or_else(|| Failure::new("the call could not be recorded"))?;
        let took = match &call.state {
            State::Finished(finished) => finished.duration,
            _ => Duration::ZERO,
        };
        tested.push(Tested { index, problems: problems(example, &call), took });
    }
    Ok(tested)
}

/// The only principal of that engine.
fn author() -> Principal {
    Principal {
        key: NO_KEY.parse().expect("an id of a key"),
        tenant: "default".parse().expect("a name of a tenant"),
        persona: None,
        scopes: vec![Scope::Call].into(),
        label: "skill test".to_owned(),
        person: None,
    }
}

fn problems(example: &Example, call: &Call) -> Vec<String> {
    let State::Finished(finished) = &call.state else {
        return vec![format!("the call is {}", call.state.name())];
    };
    match &finished.produced {
        Produced::Result(result) => example.differences(result),
        Produced::Error(error) => {
            let details = error.details.as_ref().map(ringfence_types::Json::as_str);
            let details: Value =
                details.and_then(|d| serde_json::from_str(d).ok()).unwrap_or_default();
            let traceback = details["traceback"].as_str().into_iter().flat_map(str::lines);
            let traceback = traceback.map(str::to_owned);
            [format!("{}: {}", error.code, error.message)].into_iter().chain(traceback).collect()
        }
    }
}

fn tell(tested: &Tested, is_json: bool) {
    let Tested { index, problems, took } = tested;
    let (word, tone) = match problems.is_empty() {
        true => ("passed", Tone::Good),
        false => ("failed", Tone::Bad),
    };
    if is_json {
        let object = json!({
            "example": index, "outcome": word, "problems": problems,
            "took_secs": took.as_secs_f64(),
        });
        return print::line(&object.to_string());
    }
    let millis = took.as_secs_f64() * 1e3;
    print::line(&format!("{}  example {index} ({millis:.1} ms)", tone.on_stdout(word)));
    problems.iter().for_each(|problem| print::line(&format!("        {}", plain(problem))));
}
