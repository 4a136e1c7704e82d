//! What to measure, as the one who starts us says it.

use serde::Deserialize;

/// The whole plan.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    /// Counted runs of each row that has no number of its own.
    pub(crate) runs: usize,
    /// In how many rounds they are spread, so that noise hits all rows alike.
    pub(crate) rounds: usize,
    /// How long each closed loop lasts.
    pub(crate) loop_secs: f64,
    /// Which closed loops are run, by name.
    pub(crate) loops: Vec<String>,
    /// How many callers a loop has, one measurement for each number.
    pub(crate) concurrency: Vec<usize>,
    /// How many idle zygote children are weighed.
    pub(crate) idle_members: usize,
    /// Programs started by us without the library: bare interpreters, the command line, peers.
    pub(crate) commands: Vec<Command>,
    /// The program that the closed loop of bare calls starts.
    pub(crate) bare_python: Vec<String>,
}

impl Plan {
    pub(crate) fn has_loop(&self, name: &str) -> bool {
        self.loops.iter().any(|known| known == name)
    }
}

/// One program to time from start to exit.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Command {
    pub(crate) name: String,
    /// `{id}` in a word becomes a name that no other run has.
    pub(crate) argv: Vec<String>,
    /// Fewer runs for what takes a quarter of a second each.
    pub(crate) runs: Option<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_field_is_refused_by_name() {
        let text = r#"{"runs":1,"rounds":1,"loop_secs":1,"loops":[],"concurrency":[],"idle_members":1,
                       "commands":[{"name":"x","argv":["/bin/true"],"run":3}],"bare_python":[]}"#;
        let error = serde_json::from_str::<Plan>(text).expect_err("`run` is no field");
        assert!(error.to_string().contains("unknown field `run`"), "{error}");
    }
}
