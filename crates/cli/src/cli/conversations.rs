//! Arguments of `chat` and `session`.

use clap::{Args, Subcommand};

use super::ClientArgs;

const CHAT_EXAMPLES: &str = "\
Examples:
  ringfence chat 'what can you do?'
  ringfence chat --session 0198c6b8-2b44-7d0a-9d3f-0a1b2c3d4e5f
  echo 'summarise this' | ringfence chat -";

#[derive(Debug, Args)]
#[command(after_help = CHAT_EXAMPLES)]
pub(crate) struct ChatArgs {
    /// Message; `-` reads it from standard input; without one, a line of standard input at a time
    #[arg(value_name = "MESSAGE")]
    pub(crate) message: Option<String>,
    /// Session to go on with [default: a new one]
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Tool that the model may call; repeatable [default: all that policy allows]
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Vec<String>,
    /// Offer no tools
    #[arg(long, conflicts_with = "tool")]
    pub(crate) no_tools: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// List sessions, the last active first
    List {
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Show the turns of a session
    Show {
        /// Session
        session: String,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Follow the events of a session
    Follow {
        /// Session
        session: String,
        /// Begin after the event with this id [default: the beginning]
        #[arg(long, value_name = "ID")]
        after: Option<u64>,
        #[command(flatten)]
        client: ClientArgs,
    },
}
