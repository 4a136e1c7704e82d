//! `ringfence mcp`: the tools of a server over standard input and output, for clients that start their
//! servers themselves.
//!
//! The server of the data directory is used if one runs; else one runs in this process for as long as the
//! client does. Standard output carries the protocol and nothing else.

mod bridge;
mod install;
mod servers;

use std::process::ExitCode;

use clap::Parser;

use crate::{
    cli::{Cli, ClientArgs, Command, McpArgs, McpCommand},
    client::{self, Client, on_server},
    config, exit,
    failure::Failure,
    run::runtime,
    serve,
};

pub(crate) fn mcp(args: &McpArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        Some(McpCommand::Install(install)) => {
            install::install(install).map_err(|failure| failure.in_json(install.client.json))?;
            Ok(ExitCode::from(exit::DONE))
        }
        Some(McpCommand::Add(args)) => {
            on_server(&args.client, async |client| servers::add(client, args).await)
        }
        Some(McpCommand::List(args)) => {
            on_server(&args.client, async |client| servers::list(client, args).await)
        }
        Some(McpCommand::Rm(args)) => {
            on_server(&args.client, async |client| servers::remove(client, args).await)
        }
        None if needs_server(&args.client) => beside_server(&args.client),
        None => {
            let client = Client::find(&args.client)?;
            let runtime = runtime()?;
            runtime.block_on(bridge::run(client, tokio::io::stdin()));
            // Reading standard input cannot be interrupted.
            runtime.shutdown_background();
            Ok(ExitCode::from(exit::DONE))
        }
    }
}

/// Whether no server is named and none runs on the data directory.
fn needs_server(args: &ClientArgs) -> bool {
    let is_named = args.url.is_some() || config::server_url().is_some();
    !is_named && !client::is_running(&config::data_dir(args.data.data.clone()))
}

/// Runs a server for this client alone.
fn beside_server(args: &ClientArgs) -> Result<ExitCode, Failure> {
    let data = config::data_dir(args.data.data.clone()).display().to_string();
    let words = ["ringfence", "serve", "--listen", "127.0.0.1:0", "--data", &data];
    let parsed = Cli::try_parse_from(words);
    let Ok(Cli { command: Command::Serve(serve) }) = parsed else {
        return Err(Failure::new("cannot start a server for this client"));
    };
    let code = serve::beside(&serve, async || {
        let client = Client::find(args)?;
        bridge::run(client, tokio::io::stdin()).await;
        Ok(())
    })?;
    Ok(ExitCode::from(code))
}
