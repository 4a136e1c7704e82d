//! `bench load`: the running server beside services that do less, in one run.

mod aims;
mod findings;
mod options;
mod peer;
mod plan;
mod tables;

use std::time::Instant;

use anyhow::Result;

use self::findings::Findings;
use self::options::Options;
use self::peer::Peer;
use self::plan::Parties;
use super::machine::{self, Quiet};
use super::peers::{docker::Engine, provide};
use super::scratch::Directory;
use super::{aim, build, measuring};

/// Parses the arguments, builds, starts the peers, measures, prints.
pub(super) fn run(words: &[&str]) -> Result<()> {
    let options = options::parse(words)?;
    let started = Instant::now();
    let built = build::release()?;
    let wrk = provide("wrk", "wrk")?;
    let scratch = Directory::create("load")?;
    let mut skipped = Vec::new();
    let peer = or_skipped(Peer::provide(&scratch.path), "fastapi", &mut skipped);
    let engine = or_skipped(Engine::start(&scratch.path), "docker run", &mut skipped);
    let before = Quiet::look();
    println!("machine: {}", machine::describe());
    say_how_much(&options, &before);
    let parties = Parties {
        ringfence: &built.ringfence,
        wrk: &wrk,
        scratch: &scratch.path,
        peer: peer.as_ref(),
        engine: engine.as_ref(),
    };
    let text = measuring::measure(&built.bench, &["load"], &plan::plan(&options, &parties))?;
    drop(engine);
    let mut found = findings::parse(&text)?;
    found.missing.extend(skipped);
    print(&found);
    let after = Quiet::look();
    println!("after: {}; took {:.0} s", after.describe(), started.elapsed().as_secs_f64());
    measuring::keep(options.json.as_deref(), &text, &before, &after)
}

fn or_skipped<T>(had: Result<T>, name: &str, skipped: &mut Vec<(String, String)>) -> Option<T> {
    had.inspect_err(|problem| {
        println!("SKIPPED {name}: {problem:#}");
        skipped.push((name.to_owned(), format!("{problem:#}")));
    })
    .ok()
}

fn say_how_much(options: &Options, before: &Quiet) {
    println!("before: {}", before.describe());
    before.warning().into_iter().for_each(|words| println!("{words}"));
    let Options { rounds, loop_secs, open_secs, starts, is_quick, .. } = options;
    println!(
        "{rounds} x {loop_secs} s of each loop, {open_secs} s at fixed rates, {starts} starts"
    );
    if *is_quick {
        println!("a look, not a measurement");
    }
}

fn print(found: &Findings) {
    println!("\nClosed loops\n{}", tables::closed(found));
    println!("At a fixed rate, from when a request was due\n{}", tables::paced(found));
    println!("Offered twice what it can do\n{}", tables::floods(found));
    println!("Where the time goes\n{}", tables::usage(found));
    println!("(CPU of the service from: {})\n", found.processor_source);
    println!("Plain SQLite, one writer\n{}", tables::sqlite(found));
    println!("At rest\n{}", tables::rest(found));
    println!("Aims\n{}", aim::render(aims::AIMS, found));
}
