//! The servers of others that tests run against: which version, and where its program is.

use std::path::PathBuf;

use anyhow::Result;

use crate::settings;

/// A server that is built from a Go module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Server {
    /// What it is called, and the name of its program.
    pub name: &'static str,
    /// The package of its program.
    pub package: &'static str,
    /// The version that tests are known to work with.
    pub version: &'static str,
    /// The variable that says where its program is.
    pub variable: &'static str,
}

/// Open Policy Agent.
pub const OPA: Server = Server {
    name: "opa",
    package: "github.com/open-policy-agent/opa",
    version: "v1.22.0",
    variable: settings::OPA,
};

/// OpenFGA.
pub const OPENFGA: Server = Server {
    name: "openfga",
    package: "github.com/openfga/openfga/cmd/openfga",
    version: "v1.19.0",
    variable: settings::OPENFGA,
};

/// All of them.
pub const ALL: [Server; 2] = [OPA, OPENFGA];

impl Server {
    /// Where its program is kept, whether or not it was built yet.
    pub fn kept(&self) -> Result<PathBuf> {
        let folder = format!("{}-{}", self.name, self.version);
        Ok(settings::cache_directory()?.join("servers").join(folder).join(self.name))
    }

    /// Its program: the one that the variable names, else the one that is kept.
    pub fn program(&self) -> Option<PathBuf> {
        settings::path(self.variable).or_else(|| self.kept().ok().filter(|path| path.exists()))
    }

    /// Its program, or a recorded skip of this test.
    ///
    /// # Panics
    ///
    /// If there is none and tests may not skip.
    pub fn program_or_skip(&self, test: &str) -> Option<PathBuf> {
        let found = self.program();
        if found.is_none() {
            let reason = format!("no `{}`: `cargo xtask services build` builds it", self.name);
            settings::skip(test, &reason);
        }
        found
    }
}
