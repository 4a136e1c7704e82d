//! Plan of a run, given by the caller.

use serde::Deserialize;

/// Plan of a run.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    /// Counted runs of each row that has no number of its own.
    pub(crate) runs: usize,
    /// Rounds over which they are spread, so that noise affects all rows alike.
    pub(crate) rounds: usize,
    /// Duration of each closed loop.
    pub(crate) loop_secs: f64,
    /// Names of the closed loops.
    pub(crate) loops: Vec<String>,
    /// Numbers of callers of a loop, one measurement for each.
    pub(crate) concurrency: Vec<usize>,
    /// Number of idle zygote children measured.
    pub(crate) idle_members: usize,
    /// Programs started without the library: bare interpreters, the command line, peers.
    pub(crate) commands: Vec<Command>,
    /// Program of the closed loop of bare calls.
    pub(crate) bare_python: Vec<String>,
}

impl Plan {
    pub(crate) fn has_loop(&self, name: &str) -> bool {
        self.loops.iter().any(|known| known == name)
    }
}

/// Program to time from start to exit.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Command {
    pub(crate) name: String,
    /// `{id}` in an argument becomes a name that no other run has.
    pub(crate) argv: Vec<String>,
    /// Number of runs, for programs that take long.
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
