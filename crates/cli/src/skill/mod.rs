//! `ringfence skill`: writing, checking, testing and registering skills.

mod create;
mod registered;
mod test;

use std::{path::Path, process::ExitCode};

use ringfence_engine::syntax_problem;
use ringfence_registry::SkillFolder;
use ringfence_sandbox::{Config, Native};
use ringfence_types::Clock as _;
use serde_json::json;

use crate::{
    cli::SkillCommand,
    client::on_server,
    exit,
    failure::Failure,
    print,
    run::{prepare_process, runtime},
    serve::SystemClock,
    table::plain,
};

pub(crate) fn skill(command: &SkillCommand) -> Result<ExitCode, Failure> {
    match command {
        SkillCommand::New { name, lang: _ } => create::create(name),
        SkillCommand::Check { folder, json } => {
            check(folder, *json).map_err(|failure| failure.in_json(*json))
        }
        SkillCommand::Test { folder, json } => {
            test::test(folder, *json).map_err(|failure| failure.in_json(*json))
        }
        SkillCommand::Push { folder, client } => {
            on_server(client, async |server| registered::push(server, folder, client.json).await)
        }
        SkillCommand::Ls { client } => {
            on_server(client, async |server| registered::list(server, client.json).await)
        }
        SkillCommand::Rm { name, version, client } => on_server(client, async |server| {
            registered::remove(server, name, version.as_deref(), client.json).await
        }),
    }
}

/// The skill of a folder, or all its problems.
fn read(folder: &Path) -> Result<SkillFolder, Vec<String>> {
    SkillFolder::read(folder, SystemClock.now())
}

/// The failure of a command with an invalid folder.
fn broken(folder: &Path, problems: Vec<String>) -> Failure {
    let problems = problems.iter().map(|problem| plain(problem)).collect();
    Failure::listing(format!("the skill `{}` cannot be used", folder.display()), problems)
}

fn check(folder: &Path, is_json: bool) -> Result<ExitCode, Failure> {
    let found = read(folder);
    let problems = match &found {
        Ok(skill) => syntax(skill)?.into_iter().collect(),
        Err(problems) => problems.clone(),
    };
    if is_json {
        let object = json!({"folder": folder, "ok": problems.is_empty(), "problems": problems});
        print::line(&object.to_string());
    } else if let (Ok(skill), []) = (&found, problems.as_slice()) {
        let (tool, count) = (&skill.entry.tool, skill.examples.len());
        print::line(&format!("{} {} is valid, with {count} examples", tool.name, tool.version));
    } else {
        problems.iter().for_each(|problem| print::line(&plain(problem)));
        print::note(&format!("{} problems in `{}`\n", problems.len(), folder.display()));
    }
    Ok(ExitCode::from(if problems.is_empty() { exit::DONE } else { exit::FAILED }))
}

/// Syntax error of the handler, if it has one.
fn syntax(skill: &SkillFolder) -> Result<Option<String>, Failure> {
    prepare_process();
    let runtime = runtime()?;
    let problem = runtime.block_on(async {
        let sandbox = Native::open(Config::one_shot());
        syntax_problem(&sandbox, &skill.entry).await
    });
    runtime.shutdown_background();
    Ok(problem)
}
