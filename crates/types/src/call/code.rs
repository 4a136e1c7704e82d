//! Codes of call errors: machine-readable reasons why a dispatched call has no result.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::Limit;

macro_rules! codes {
    ($($(#[$doc:meta])+ $name:ident = $text:literal,)+) => {
        /// Machine-readable reason why a call has no result. The text of each is part of the API.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ErrorCode {
            $($(#[$doc])+ $name,)+
        }

        impl ErrorCode {
            /// All codes.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The text of the code.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }
    };
}

codes! {
    /// The address of a host name is not allowed.
    AddressRefused = "address_refused",
    /// Arguments were masked before the server stopped, so the call cannot be run again.
    ArgsRedacted = "args_redacted",
    /// The artifact does not exist, or no longer.
    ArtifactNotFound = "artifact_not_found",
    /// Another version of the artifact is the newest.
    ArtifactNotNewest = "artifact_not_newest",
    /// The artifacts of the tenant have reached their quota.
    ArtifactQuota = "artifact_quota",
    /// The tool failed again and again, and is left alone for a while.
    CircuitOpen = "circuit_open",
    /// Code of the caller failed.
    CodeFailed = "code_failed",
    /// No connection to the host.
    ConnectFailed = "connect_failed",
    /// The content for a session is invalid.
    ContentInvalid = "content_invalid",
    /// The content for a session is too large.
    ContentTooLarge = "content_too_large",
    /// The limit of CPU time was reached.
    CpuTimeLimit = "cpu_time_limit",
    /// The limit of workspace bytes was reached.
    DiskLimit = "disk_limit",
    /// Too many host names are being looked up.
    DnsBusy = "dns_busy",
    /// The host name was not found.
    DnsFailed = "dns_failed",
    /// Looking up the host name took too long.
    DnsTimeout = "dns_timeout",
    /// This server cannot fetch anything.
    FetchUnavailable = "fetch_unavailable",
    /// The file does not exist.
    FileNotFound = "file_not_found",
    /// The file is not text.
    FileNotText = "file_not_text",
    /// The file cannot be read.
    FileUnreadable = "file_unreadable",
    /// The handler of a skill failed.
    HandlerFailed = "handler_failed",
    /// A header of the request is invalid or reserved.
    HeaderInvalid = "header_invalid",
    /// The watchdog ended the program to protect the host.
    HostLimit = "host_limit",
    /// The host is not allowed.
    HostRefused = "host_refused",
    /// The server answered with a failure.
    HttpStatus = "http_status",
    /// The limit of workspace files was reached.
    InodesLimit = "inodes_limit",
    /// This host cannot provide the isolation that policy requires.
    IsolationUnavailable = "isolation_unavailable",
    /// The limit of memory was reached.
    MemoryLimit = "memory_limit",
    /// Too many texts wait for the model.
    ModelBusy = "model_busy",
    /// The model failed.
    ModelFailed = "model_failed",
    /// The weights of the model are not on the server.
    ModelMissing = "model_missing",
    /// The model server did not answer in time.
    ModelTimeout = "model_timeout",
    /// The model server cannot be reached, is overloaded, or is left alone because it failed.
    ModelUnavailable = "model_unavailable",
    /// The model is not known or not implemented.
    ModelUnsupported = "model_unsupported",
    /// An obligation of policy is invalid.
    ObligationInvalid = "obligation_invalid",
    /// The limit of open descriptors was reached.
    OpenFilesLimit = "open_files_limit",
    /// The result violates the tool's output schema, or is not JSON.
    OutputInvalid = "output_invalid",
    /// The limit of output bytes was reached.
    OutputLimit = "output_limit",
    /// The result is too large.
    OutputTooLarge = "output_too_large",
    /// The path is not allowed.
    PathRefused = "path_refused",
    /// The permit is for another tool or other arguments.
    PermitMismatch = "permit_mismatch",
    /// The key may not act for the persona.
    PersonaForeign = "persona_foreign",
    /// The name of the persona is invalid.
    PersonaInvalid = "persona_invalid",
    /// The limit of processes was reached.
    ProcessesLimit = "processes_limit",
    /// No model profile has the role.
    ProfileMissing = "profile_missing",
    /// The redirect is not allowed.
    RedirectRefused = "redirect_refused",
    /// The response is not valid HTTP.
    ResponseInvalid = "response_invalid",
    /// The image of the call or the packages of its skill are not there.
    RootUnavailable = "root_unavailable",
    /// The sandbox failed.
    SandboxFailed = "sandbox_failed",
    /// A session sandbox refused the request; the details have the reason.
    SandboxRefused = "sandbox_refused",
    /// The sandbox was not ready in time.
    SandboxTimeout = "sandbox_timeout",
    /// This host cannot make sandboxes.
    SandboxUnavailable = "sandbox_unavailable",
    /// A secret that the call needs does not exist, is not bound to its tool, or cannot be sent.
    SecretUnavailable = "secret_unavailable",
    /// The name of the session is invalid.
    SessionInvalid = "session_invalid",
    /// A connection could not be set up on this side.
    SetupFailed = "setup_failed",
    /// The MCP server of the tool does not answer.
    SourceUnavailable = "source_unavailable",
    /// The tool may not keep this between its calls, or not so much.
    StorageRefused = "storage_refused",
    /// The call took too long.
    Timeout = "timeout",
    /// No secure connection to the host.
    TlsFailed = "tls_failed",
    /// The response is too large.
    TooLarge = "too_large",
    /// Too many redirects.
    TooManyRedirects = "too_many_redirects",
    /// The tool was changed or removed while the server was down.
    ToolChanged = "tool_changed",
    /// The built-in tool does not exist.
    UnknownBuiltin = "unknown_builtin",
    /// No runner can start this kind of tool.
    UnknownRunner = "unknown_runner",
    /// The URL is invalid.
    UrlInvalid = "url_invalid",
}

impl ErrorCode {
    /// The code with this text.
    pub fn named(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == text)
    }

    /// The code of a program that reached a limit.
    pub const fn of_limit(limit: Limit) -> Self {
        match limit {
            Limit::Wall => Self::Timeout,
            Limit::CpuTime => Self::CpuTimeLimit,
            Limit::Memory => Self::MemoryLimit,
            Limit::Processes => Self::ProcessesLimit,
            Limit::Disk => Self::DiskLimit,
            Limit::Inodes => Self::InodesLimit,
            Limit::OpenFiles => Self::OpenFilesLimit,
            Limit::Output => Self::OutputLimit,
            Limit::Host => Self::HostLimit,
        }
    }

    /// Whether the message may quote the result or the output that was refused.
    pub const fn quotes_the_result(self) -> bool {
        matches!(self, Self::OutputInvalid | Self::OutputTooLarge | Self::OutputLimit)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ErrorCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Self::named(&text).ok_or_else(|| de::Error::custom(format!("unknown error code `{text}`")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_sorted_and_read_back() {
        assert!(ErrorCode::ALL.is_sorted_by_key(|code| code.as_str()));
        for code in ErrorCode::ALL {
            let text = serde_json::to_string(code).unwrap();
            assert_eq!(text, format!("\"{code}\""));
            assert_eq!(serde_json::from_str::<ErrorCode>(&text).unwrap(), *code);
        }
        assert!(serde_json::from_str::<ErrorCode>("\"no_such_code\"").is_err());
    }

    #[test]
    fn a_limit_is_named_by_its_code() {
        for limit in [
            Limit::CpuTime,
            Limit::Memory,
            Limit::Processes,
            Limit::Disk,
            Limit::Inodes,
            Limit::OpenFiles,
            Limit::Output,
            Limit::Host,
        ] {
            let name = serde_json::to_value(limit).unwrap();
            let expected = format!("{}_limit", name.as_str().unwrap());
            assert_eq!(ErrorCode::of_limit(limit).as_str(), expected);
        }
        assert_eq!(ErrorCode::of_limit(Limit::Wall), ErrorCode::Timeout);
    }
}
