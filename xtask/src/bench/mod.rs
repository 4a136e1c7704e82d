//! `cargo xtask bench`: measure in one run, print ratios, name the machine.
//!
//! Absolute times depend on the machine; the ratio of two rows of the same run can be compared, so the
//! aims are ratios.

mod aim;
mod aims;
mod build;
mod cluster;
mod console;
mod findings;
mod fuzz;
mod kafka;
mod ledger;
mod lineage;
mod load;
mod machine;
mod mcp;
mod measurement;
mod measuring;
mod models;
mod options;
pub(crate) mod peers;
mod policy;
mod sandbox;
mod scratch;
mod tables;

use anyhow::{Result, bail};

/// Benchmarks with their options.
const NAMES: &str = "sandbox [--quick] [--runs N] [--json FILE], load [--quick] [--json FILE], \
                     policy [--quick] [--json FILE], ledger [--quick], lineage [--quick], models [--clinc FILE], console [--quick | --long], mcp [--quick], kafka [--quick] [--soak], cluster [--quick], fuzz [--minutes N]";

/// Runs the benchmark that the arguments name.
pub fn run(words: &[&str]) -> Result<()> {
    match words {
        ["sandbox", rest @ ..] => sandbox::run(&options::parse(rest)?),
        ["load", rest @ ..] => load::run(rest),
        ["policy", rest @ ..] => policy::run(rest),
        ["ledger", rest @ ..] => ledger::run(rest),
        ["lineage", rest @ ..] => lineage::run(rest),
        ["models", rest @ ..] => models::run(rest),
        ["console", rest @ ..] => console::run(rest),
        ["cluster", rest @ ..] => cluster::run(rest),
        ["kafka", rest @ ..] => kafka::run(rest),
        ["mcp", rest @ ..] => mcp::run(rest),
        ["fuzz", rest @ ..] => fuzz::run(rest),
        other => bail!("no benchmark `{}`; there are: {NAMES}", other.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_benchmark_is_refused() {
        assert!(run(&["no-such-bench"]).is_err());
        assert!(run(&[]).is_err());
        assert!(run(&["sandbox", "--no-such-option"]).is_err());
        assert!(run(&["load", "--no-such-option"]).is_err());
    }
}
