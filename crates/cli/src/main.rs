//! The `ringfence` binary: flags, wiring, exit codes.
//!
//! One binary has several roles. The helper roles need a process with a single thread, so `main`
//! branches to them before anything else happens.
//!
//! Invariant: no thread and no runtime exists before [`role::play`] has returned.

mod age;
mod artifacts;
mod base64;
mod call;
mod calls;
mod cancel;
mod chat;
mod cli;
mod client;
mod clock;
mod completions;
mod config;
mod copy_in;
mod copy_out;
mod copy_spec;
mod dead_letters;
mod demo;
mod discover;
mod doctor;
mod events;
mod exit;
mod failure;
mod holds;
mod image;
mod json;
mod key;
mod ledger;
mod limit_text;
mod logs;
mod mcp;
mod models;
mod plans;
mod policy;
mod print;
mod problems;
mod processes;
mod retention;
mod role;
mod run;
mod run_request;
mod sandbox;
mod secret;
mod selftest;
mod serve;
mod settings;
mod shell;
mod show;
mod signals;
mod skill;
mod source;
mod stream;
mod style;
mod table;
mod terminal;
mod tool;
mod tools;
mod usage;
mod wait;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    if let Some(code) = role::play() {
        return code;
    }
    match cli::Cli::try_parse() {
        Ok(cli) => cli.command.carry_out().unwrap_or_else(|failure| failure.tell()),
        Err(error) => {
            // Help and version come this way too; a closed output is not an error.
            let _ = error.print();
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(exit::OURS))
        }
    }
}
