//! `cargo xtask services`: real servers for use by hand.
//!
//! Nothing in the workspace speaks to a server yet, so there is nothing to start; the command
//! exists so that scripts written against it keep working when the first one arrives.

use anyhow::{Result, bail};

/// Answers `up`, `down` and `status`.
pub fn run(action: Option<&str>) -> Result<()> {
    match action {
        Some("up" | "down" | "status") => {
            println!("no part of this workspace needs a server yet: nothing to start or stop");
            Ok(())
        }
        Some(other) => bail!("unknown action `{other}`; use up, down or status"),
        None => bail!("name an action: up, down or status"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_actions_are_refused_by_name() {
        assert!(run(Some("up")).is_ok());
        let error = run(Some("restart")).expect_err("unknown").to_string();
        assert_eq!(error, "unknown action `restart`; use up, down or status");
        assert!(run(None).is_err());
    }
}
