//! Tools that the programs of a sandbox may call.

use ringfence_types::ToolName;

/// Name that stands for every tool that policy lets the caller call.
const ANY_TOOL: &str = "*";

/// Tools that the programs of a sandbox may call. Policy decides about each call beside this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolGrant {
    names: Vec<String>,
}

impl ToolGrant {
    /// The grant of these names; none without names.
    pub(crate) fn of(names: Vec<String>) -> Option<Self> {
        (!names.is_empty()).then_some(Self { names })
    }

    /// Names as granted, for the receipt.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether programs may call this tool.
    pub(crate) fn allows(&self, tool: &ToolName) -> bool {
        self.allows_name(tool.as_str())
    }

    fn allows_name(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == ANY_TOOL || known == name)
    }

    /// Names that this grant does not cover: a program cannot give more than it has.
    pub(crate) fn missing<'a>(&self, asked: &'a [String]) -> Vec<&'a str> {
        let asked = asked.iter().map(String::as_str);
        asked.filter(|name| !self.allows_name(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(names: &[&str]) -> ToolGrant {
        ToolGrant::of(names.iter().map(|&name| name.to_owned()).collect()).expect("names")
    }

    #[test]
    fn a_grant_covers_its_names_and_a_star_covers_all() {
        let tool = |name: &str| name.parse::<ToolName>().expect("a name");
        assert!(ToolGrant::of(Vec::new()).is_none());
        assert!(grant(&["echo", "timestamp"]).allows(&tool("timestamp")));
        assert!(!grant(&["echo"]).allows(&tool("echo_more")));
        assert!(grant(&["*"]).allows(&tool("anything")));
    }

    #[test]
    fn a_grant_covers_another_only_name_by_name() {
        let asked = ["echo".to_owned(), "http_fetch".to_owned()];
        assert_eq!(grant(&["echo"]).missing(&asked), ["http_fetch"]);
        assert!(grant(&["*"]).missing(&asked).is_empty());
        assert!(grant(&["*"]).missing(&["*".to_owned()]).is_empty());
        assert_eq!(grant(&["echo"]).missing(&["*".to_owned()]), ["*"]);
    }
}
