//! Arguments of `skill`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

use super::ClientArgs;

const NEW_EXAMPLES: &str = "\
Examples:
  ringfence skill new word_count
  ringfence skill check word_count
  ringfence skill test word_count
  ringfence skill push word_count
  ringfence call word_count text='a b c'";

const CHECK_HELP: &str = "\
Needs no server. Exit codes: 0 no problems; 1 problems, all of which are named; 2 error of ringfence or a bad flag.";

const TEST_HELP: &str = "\
Each example of skill.yaml runs in a sandbox as a call would, with the skill's own schemas and limits, and
its result is compared with the expected one. Needs no server.

Exit codes: 0 all passed; 1 an example failed; 2 the skill cannot be used, or an error of ringfence.";

#[derive(Debug, Subcommand)]
#[command(after_help = NEW_EXAMPLES)]
pub(crate) enum SkillCommand {
    /// Create a folder with a new skill that works
    #[command(after_help = NEW_EXAMPLES)]
    New {
        /// Name of the skill, and of the folder that is created in the current directory
        name: String,
        /// Language of the handler
        #[arg(long, value_enum, default_value = "python")]
        lang: SkillLang,
    },
    /// Check a skill folder and name all its problems, without a server
    #[command(after_help = CHECK_HELP)]
    Check {
        /// Skill folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Run the examples of a skill in a sandbox and compare the results, without a server
    #[command(after_help = TEST_HELP)]
    Test {
        /// Skill folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Register a skill folder at a server; needs an admin key of the operator
    Push {
        /// Skill folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// List the skills of a server
    Ls {
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Remove a registered skill from a server; needs an admin key of the operator
    Rm {
        /// Name of the skill
        name: String,
        /// Only this version [default: all of them]
        #[arg(long, value_name = "VERSION")]
        version: Option<String>,
        #[command(flatten)]
        client: ClientArgs,
    },
}

/// Languages in which a skill can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SkillLang {
    Python,
}
