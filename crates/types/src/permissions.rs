//! Permissions of a tool: what its manifest asks for, and what a person granted.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Bytes, Cpus, Limits};

/// Permissions of a tool. The same form says what a manifest asks for and what was granted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ToolPermissions {
    /// Hosts that it may reach: `[METHOD[,METHOD] ]host[:port][/path]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Bytes that it may keep between calls.
    #[serde(skip_serializing_if = "is_zero")]
    pub storage_bytes: u64,
    /// Names of secrets that are injected into its requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Names of other tools that it may call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Share of processors in thousandths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_millis: Option<u32>,
    /// Memory of one call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Processes and threads of one call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<u32>,
    /// Wall time of one call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Items of one list.
pub const MAX_PERMISSION_ITEMS: usize = 64;

/// Characters of one item.
const MAX_ITEM_CHARS: usize = 300;

impl ToolPermissions {
    /// Limits that keep to these permissions: the lower of both.
    pub fn apply(&self, limits: &Limits) -> Limits {
        let mut limits = limits.clone();
        if let Some(millis) = self.cpu_millis {
            limits.cpus = limits.cpus.min(Cpus(millis));
        }
        if let Some(bytes) = self.memory_bytes {
            limits.memory = limits.memory.min(Bytes(bytes));
        }
        if let Some(processes) = self.processes {
            limits.processes = limits.processes.min(processes);
        }
        if let Some(wall) = self.wall_ms {
            limits.wall = limits.wall.min(Duration::from_millis(wall));
        }
        // The workspace lives in memory.
        if limits.disk >= limits.memory {
            limits.disk = Bytes(limits.memory.0 / 2);
        }
        limits
    }

    /// All problems of the form: lists that are too long, items that are too long, zero limits.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (name, list) in
            [("hosts", &self.hosts), ("secrets", &self.secrets), ("tools", &self.tools)]
        {
            if list.len() > MAX_PERMISSION_ITEMS {
                problems.push(format!("{name}: more than {MAX_PERMISSION_ITEMS} items"));
            }
            let is_long = |item: &String| item.is_empty() || item.chars().count() > MAX_ITEM_CHARS;
            if list.iter().any(is_long) {
                problems.push(format!("{name}: an item has 1 to {MAX_ITEM_CHARS} characters"));
            }
        }
        let zero = [
            ("cpu_millis", self.cpu_millis == Some(0)),
            ("memory_bytes", self.memory_bytes == Some(0)),
            ("processes", self.processes == Some(0)),
            ("wall_ms", self.wall_ms == Some(0)),
        ];
        let zero = zero.into_iter().filter(|(_, is_zero)| *is_zero);
        problems.extend(zero.map(|(name, _)| format!("{name}: must be above 0")));
        problems
    }

    /// Numbers and names in which `self` is more than `asked`; hosts are compared by who can read them.
    pub fn beyond(&self, asked: &Self) -> Vec<String> {
        let mut beyond = Vec::new();
        if self.storage_bytes > asked.storage_bytes {
            beyond.push("storage_bytes".to_owned());
        }
        for (name, granted, asked) in
            [("secrets", &self.secrets, &asked.secrets), ("tools", &self.tools, &asked.tools)]
        {
            let more = granted.iter().filter(|item| !asked.contains(item));
            beyond.extend(more.map(|item| format!("{name}: `{item}`")));
        }
        let numbers = [
            ("cpu_millis", self.cpu_millis.map(u64::from), asked.cpu_millis.map(u64::from)),
            ("memory_bytes", self.memory_bytes, asked.memory_bytes),
            ("processes", self.processes.map(u64::from), asked.processes.map(u64::from)),
            ("wall_ms", self.wall_ms, asked.wall_ms),
        ];
        // Without a number the limit of the definition holds, which is what was asked for.
        let is_more = |(_, granted, asked): &(&str, Option<u64>, Option<u64>)| {
            granted.zip(*asked).is_some_and(|(granted, asked)| granted > asked)
        };
        let more = numbers.into_iter().filter(is_more);
        beyond.extend(more.map(|(name, ..)| name.to_owned()));
        beyond
    }

    /// The permissions as short names for rules: `host:…`, `secret:…`, `tool:…`, `storage`.
    pub fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        names.extend(self.hosts.iter().map(|host| format!("host:{host}")));
        names.extend(self.secrets.iter().map(|secret| format!("secret:{secret}")));
        names.extend(self.tools.iter().map(|tool| format!("tool:{tool}")));
        if self.storage_bytes > 0 {
            names.push("storage".to_owned());
        }
        names
    }

    /// Meaning of the permissions, in words for the person who grants them.
    pub fn in_words(&self) -> Vec<String> {
        let mut words = Vec::new();
        for host in &self.hosts {
            let any = matches!(host.as_str(), "*" | "*:80" | "*:443");
            words.push(match any {
                true => "sends what it is given to any host on the internet".to_owned(),
                false => format!("sends what it is given to `{host}`"),
            });
        }
        let secrets = self.secrets.iter();
        words.extend(secrets.map(|name| format!("uses the secret `{name}` in its requests")));
        let tools = self.tools.iter();
        words.extend(tools.map(|name| format!("calls the tool `{name}` with the caller's rights")));
        if self.storage_bytes > 0 {
            let bytes = Bytes(self.storage_bytes);
            words
                .push(format!("keeps up to {bytes} between calls: calls can influence later ones"));
        }
        if words.is_empty() {
            words.push("no network, no secrets, no other tools, nothing kept between calls".into());
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_lowered_and_never_raised() {
        let granted = ToolPermissions {
            cpu_millis: Some(250),
            memory_bytes: Some(64 << 20),
            processes: Some(10_000),
            wall_ms: Some(1_500),
            ..ToolPermissions::default()
        };
        let limits = granted.apply(&Limits::default());
        assert_eq!(limits.cpus, Cpus(250));
        assert_eq!((limits.memory, limits.disk), (Bytes::mib(64), Bytes::mib(32)));
        assert_eq!(limits.processes, Limits::default().processes);
        assert_eq!(limits.wall, Duration::from_millis(1_500));
        assert_eq!(ToolPermissions::default().apply(&Limits::default()), Limits::default());
    }

    #[test]
    fn each_permission_beyond_the_request_is_named() {
        let asked = ToolPermissions {
            secrets: vec!["key".into()],
            memory_bytes: Some(100),
            ..ToolPermissions::default()
        };
        assert!(asked.beyond(&asked).is_empty());
        assert!(ToolPermissions::default().beyond(&asked).is_empty());
        let more = ToolPermissions {
            storage_bytes: 1,
            secrets: vec!["key".into(), "other".into()],
            tools: vec!["echo".into()],
            memory_bytes: Some(101),
            ..ToolPermissions::default()
        };
        let beyond = more.beyond(&asked);
        assert_eq!(beyond, ["storage_bytes", "secrets: `other`", "tools: `echo`", "memory_bytes"]);
    }

    #[test]
    fn the_form_has_bounds() {
        let long = ToolPermissions {
            hosts: vec!["x".repeat(301)],
            tools: vec!["t".into(); 65],
            wall_ms: Some(0),
            ..ToolPermissions::default()
        };
        assert_eq!(long.problems().len(), 3, "{:?}", long.problems());
        assert!(ToolPermissions::default().problems().is_empty());
    }

    #[test]
    fn permissions_are_written_without_what_is_absent() {
        let text = serde_json::to_string(&ToolPermissions::default()).unwrap();
        assert_eq!(text, "{}");
        assert!(serde_json::from_str::<ToolPermissions>(r#"{"hots": []}"#).is_err());
    }
}
