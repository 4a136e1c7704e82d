//! Types of steps, and the fields of their payloads.

/// Types of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Command,
    FileWrite,
    FileRead,
    Code,
    Tool,
    Approval,
    Wait,
}

/// Fields of a payload: name, whether it is needed, JSON type.
pub(crate) type Fields = &'static [(&'static str, bool, &'static str)];

impl Kind {
    pub(crate) const ALL: [(&'static str, Self); 7] = [
        ("command", Self::Command),
        ("file:write", Self::FileWrite),
        ("file:read", Self::FileRead),
        ("code:execute", Self::Code),
        ("tool", Self::Tool),
        ("approval", Self::Approval),
        ("wait", Self::Wait),
    ];

    /// Types that are known and cannot run here, with the reason.
    pub(crate) const ABSENT: [(&'static str, &'static str); 3] = [
        ("llm", "a model is asked by a step of type `tool` with `llm_generate`"),
        (
            "tool_discovery",
            "tools are found by a step of type `tool` with `tool_search` or `tool_discover`",
        ),
        ("image:generate", "this server generates no images"),
    ];

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    pub(crate) fn fields(self) -> Fields {
        match self {
            Self::Command => &[
                ("command", true, "string"),
                ("cwd", false, "string"),
                ("env", false, "object"),
                ("stdin", false, "any"),
                ("hosts", false, "array"),
            ],
            Self::FileWrite => &[("path", true, "string"), ("content", true, "string")],
            Self::FileRead => &[("path", true, "string")],
            Self::Code => &[
                ("language", true, "string"),
                ("code", true, "string"),
                ("env", false, "object"),
                ("stdin", false, "any"),
                ("hosts", false, "array"),
            ],
            Self::Tool => {
                &[("tool", true, "string"), ("version", false, "string"), ("args", false, "object")]
            }
            Self::Approval => &[("message", true, "string")],
            Self::Wait => &[("seconds", true, "integer")],
        }
    }

    /// Fields that are programs: text for another language, into which no value is written.
    pub(crate) const fn program(self) -> Option<&'static str> {
        match self {
            Self::Command => Some("command"),
            Self::Code => Some("code"),
            _ => None,
        }
    }

    /// Whether it may be given files.
    pub(crate) const fn takes_files(self) -> bool {
        matches!(self, Self::Command | Self::Code | Self::FileRead | Self::Tool)
    }

    /// Whether it may leave files.
    pub(crate) const fn leaves_files(self) -> bool {
        matches!(self, Self::Command | Self::Code | Self::FileWrite | Self::Tool)
    }

    /// Whether it sees the files of the `file:write` steps that it comes after.
    pub(crate) const fn sees_written(self) -> bool {
        matches!(self, Self::Command | Self::Code | Self::FileRead)
    }
}
