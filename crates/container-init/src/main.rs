//! First process of a container. A program of its own, because it has to be linked statically to run
//! in images without libraries.

use std::process::ExitCode;

fn main() -> ExitCode {
    ringfence_jail::container::serve()
}
