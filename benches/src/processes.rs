//! Process tree, and memory of each process.

use std::{collections::HashMap, fs};

/// Children by process.
#[derive(Debug, Default)]
pub(crate) struct Family(HashMap<u32, Vec<u32>>);

impl Family {
    /// All processes now.
    pub(crate) fn read() -> Self {
        let mut family = Self::default();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            if let Some(parent) = parent(&stat) {
                family.0.entry(parent).or_default().push(pid);
            }
        }
        family
    }

    pub(crate) fn children(&self, pid: u32) -> &[u32] {
        self.0.get(&pid).map_or(&[], Vec::as_slice)
    }

    /// Children, their children, and so on.
    pub(crate) fn descendants(&self, pid: u32) -> Vec<u32> {
        let mut found = self.children(pid).to_vec();
        let mut next = 0;
        while next < found.len() {
            found.extend(self.children(found[next]));
            next += 1;
        }
        found
    }
}

/// Parent's pid: the second field after the name, which may hold anything, even `)`.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Command line, separated by spaces.
pub(crate) fn command_line(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// Proportional and private size in KiB; `None` for a process that is gone or not readable.
pub(crate) fn weight(pid: u32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let field = |name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or_default()
    };
    let private = field("Private_Clean:") + field("Private_Dirty:");
    text.contains("Pss:").then(|| (field("Pss:"), private))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_full_of_brackets_does_not_hide_the_parent() {
        assert_eq!(parent("7 (a) (b) R) S 42 1 1 0"), Some(42));
        assert_eq!(parent("nonsense"), None);
    }

    #[test]
    fn we_are_our_parents_descendant_and_weigh_something() {
        let parent = std::os::unix::process::parent_id();
        assert!(Family::read().descendants(parent).contains(&std::process::id()));
        let (pss, _) = weight(std::process::id()).expect("our own weight");
        assert!(pss > 0);
    }
}
