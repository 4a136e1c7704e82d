//! MCP servers of others as sources of tools: how one is reached, and what it is granted.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Digest, Json, KeyId, TenantId, Timestamp};

/// Bytes of a command and its environment.
const MAX_WORDS_BYTES: usize = 64 << 10;
/// Packages of one server.
const MAX_PACKAGES: usize = 32;
/// Headers of one server.
const MAX_HEADERS: usize = 32;

/// Place of the schema of structured results within the schema of a tool's results.
pub const STRUCTURED_CONTENT: &str = "#/properties/structuredContent";

/// Separator between the name of a server and the name of its tool.
pub const TOOL_SEPARATOR: &str = "__";

/// Name of an MCP server: 1 to 32 of `a-z 0-9 -`, so that `server__tool` is read in one way only.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ServerName(String);

/// Invalid name of an MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the name of an MCP server is 1 to 32 of a-z 0-9 - and begins with a letter")]
pub struct InvalidServerName;

impl ServerName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ServerName {
    type Err = InvalidServerName;

    fn from_str(text: &str) -> Result<Self, InvalidServerName> {
        Self::try_from(text.to_owned())
    }
}

impl TryFrom<String> for ServerName {
    type Error = InvalidServerName;

    fn try_from(text: String) -> Result<Self, InvalidServerName> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_valid = text.starts_with(|c: char| c.is_ascii_lowercase())
            && text.len() <= 32
            && text.chars().all(is_plain);
        if is_valid { Ok(Self(text)) } else { Err(InvalidServerName) }
    }
}

impl From<ServerName> for String {
    fn from(name: ServerName) -> Self {
        name.0
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An MCP server whose tools are offered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct McpServer {
    /// Name of the server, the prefix of its tools.
    pub name: ServerName,
    /// Transport and grants.
    #[serde(flatten)]
    pub spec: ServerSpec,
    /// Tenant whose calls start it.
    pub tenant: TenantId,
    /// Key that added it.
    pub key: KeyId,
    /// Time at which it was added.
    pub added_at: Timestamp,
}

/// Transport and grants of an MCP server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerSpec {
    /// Transport.
    #[serde(flatten)]
    pub transport: ServerTransport,
    /// Safety flags of its tools. By default `none` for a server without network, else `external_call`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safety_flags: Option<Vec<String>>,
    /// Seconds that one call of a tool may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_secs: Option<u32>,
}

/// Transport of an MCP server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "transport", rename_all = "snake_case")]
pub enum ServerTransport {
    /// A program in a session sandbox, by its standard input and output.
    Stdio(StdioServer),
    /// A service elsewhere, by streamable HTTP.
    Http(HttpServer),
}

/// A program in a session sandbox.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StdioServer {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Variables of its environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Packages that are installed before its first start: `pypi:NAME==VERSION`, `npm:NAME@VERSION`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<Package>,
    /// Hosts that it may reach while it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Bytes of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

/// A service elsewhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HttpServer {
    /// Address of its endpoint.
    pub url: String,
    /// Headers of every request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

/// A package of one version: `pypi:NAME==VERSION` or `npm:NAME@VERSION`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Package {
    /// Where it comes from.
    pub registry: PackageRegistry,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// Registry of packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackageRegistry {
    /// Python.
    Pypi,
    /// Node.
    Npm,
}

/// Invalid package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a package is `pypi:NAME==VERSION` or `npm:NAME@VERSION`, with an exact version")]
pub struct InvalidPackage;

impl FromStr for Package {
    type Err = InvalidPackage;

    fn from_str(text: &str) -> Result<Self, InvalidPackage> {
        let (registry, rest) = text.split_once(':').ok_or(InvalidPackage)?;
        let (registry, parts) = match registry {
            "pypi" => (PackageRegistry::Pypi, rest.split_once("==")),
            "npm" => (PackageRegistry::Npm, rest.rsplit_once('@')),
            _ => return Err(InvalidPackage),
        };
        let (name, version) = parts.ok_or(InvalidPackage)?;
        // No option, no path, no address, no range.
        let is_name = |c: char| c.is_ascii_alphanumeric() || "._-@/[],".contains(c);
        let is_version = |c: char| c.is_ascii_alphanumeric() || ".-+_".contains(c);
        let is_valid = !name.is_empty()
            && name.len() <= 214
            && !name.starts_with(['-', '.', '/'])
            && !name.contains("..")
            && name.chars().all(is_name)
            && version.starts_with(|c: char| c.is_ascii_digit())
            && version.len() <= 64
            && version.chars().all(is_version);
        let (name, version) = (name.to_owned(), version.to_owned());
        is_valid.then_some(Self { registry, name, version }).ok_or(InvalidPackage)
    }
}

impl TryFrom<String> for Package {
    type Error = InvalidPackage;

    fn try_from(text: String) -> Result<Self, InvalidPackage> {
        text.parse()
    }
}

impl From<Package> for String {
    fn from(package: Package) -> Self {
        package.to_string()
    }
}

impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, version, .. } = self;
        match self.registry {
            PackageRegistry::Pypi => write!(f, "pypi:{name}=={version}"),
            PackageRegistry::Npm => write!(f, "npm:{name}@{version}"),
        }
    }
}

impl ServerSpec {
    /// Digest of everything that decides what runs.
    pub fn digest(&self) -> Digest {
        Json::plain(&self.transport).digest()
    }

    /// All problems that keep it from being used.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        match &self.transport {
            ServerTransport::Stdio(server) => {
                if server.command.first().is_none_or(String::is_empty) {
                    problems.push("command: names no program".to_owned());
                }
                let words = server.command.iter().chain(server.env.values());
                let words: Vec<&String> = words.chain(server.env.keys()).collect();
                if words.iter().map(|word| word.len()).sum::<usize>() > MAX_WORDS_BYTES {
                    problems.push(format!("command and env: more than {MAX_WORDS_BYTES} bytes"));
                }
                if words.iter().any(|word| word.contains('\0')) {
                    problems.push("command and env: a NUL character".to_owned());
                }
                if server.env.keys().any(|name| name.is_empty() || name.contains('=')) {
                    problems.push("env: a name is empty or has `=` in it".to_owned());
                }
                if server.packages.len() > MAX_PACKAGES {
                    problems.push(format!("packages: more than {MAX_PACKAGES}"));
                }
            }
            ServerTransport::Http(server) => {
                if !server.url.starts_with("http://") && !server.url.starts_with("https://") {
                    problems.push("url: not an http or https URL".to_owned());
                }
                if server.headers.len() > MAX_HEADERS {
                    problems.push(format!("headers: more than {MAX_HEADERS}"));
                }
            }
        }
        if self.timeout_secs == Some(0) {
            problems.push("timeout_secs: must be above zero".to_owned());
        }
        problems
    }

    /// Whether calls of its tools may have an effect outside its sandbox.
    pub fn has_network(&self) -> bool {
        match &self.transport {
            ServerTransport::Stdio(server) => !server.hosts.is_empty(),
            ServerTransport::Http(_) => true,
        }
    }

    /// Safety flags of its tools.
    pub fn flags(&self) -> Vec<String> {
        let usual = if self.has_network() { "external_call" } else { "none" };
        self.safety_flags.clone().unwrap_or_else(|| vec![usual.to_owned()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_one_way_only() {
        for good in ["time", "my-server2"] {
            assert_eq!(good.parse::<ServerName>().unwrap().as_str(), good);
        }
        for bad in ["", "a_b", "A", "-a", "1a", "a__b", &"a".repeat(33), "a.b", "ä"] {
            bad.parse::<ServerName>().unwrap_err();
        }
    }

    #[test]
    fn a_package_has_an_exact_version_and_is_no_option() {
        for good in ["pypi:mcp-server-time==2026.1.2", "npm:@scope/name@1.2.3"] {
            assert_eq!(good.parse::<Package>().unwrap().to_string(), good);
        }
        let bad = [
            "pypi:time",
            "npm:x@latest",
            "npm:--registry=http://x@1.0",
            "pypi:a==1;rm -rf",
            "pypi:../a==1",
            "gem:x@1",
            "npm:x@^1.0",
            "pypi:x==1.*",
        ];
        for text in bad {
            assert_eq!(text.parse::<Package>(), Err(InvalidPackage), "{text}");
        }
    }

    #[test]
    fn another_command_is_another_digest() {
        let spec = |word: &str| ServerSpec {
            transport: ServerTransport::Stdio(StdioServer {
                command: vec![word.to_owned()],
                ..StdioServer::default()
            }),
            safety_flags: None,
            timeout_secs: None,
        };
        assert_eq!(spec("a").digest(), spec("a").digest());
        assert_ne!(spec("a").digest(), spec("b").digest());
        assert_eq!(spec("a").flags(), ["none"]);
    }

    #[test]
    fn a_server_reads_back() {
        let text = r#"{"name":"time","transport":"stdio","command":["a"],"packages":["npm:x@1.0.0"],
            "tenant":"t","key":"019a8b7c-1234-7abc-8def-0123456789ab","added_at":"2026-01-01T00:00:00Z"}"#;
        let read: McpServer = serde_json::from_str(text).unwrap();
        let again: McpServer =
            serde_json::from_str(&serde_json::to_string(&read).unwrap()).unwrap();
        assert_eq!(read, again);
    }
}
