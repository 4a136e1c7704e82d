//! `/proc/self/cgroup` (groups of this process) and `/proc/cgroups` (controllers of the kernel).

use std::path::PathBuf;

/// One line of `/proc/<pid>/cgroup`: a hierarchy and our group in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Membership {
    /// Empty for the unified hierarchy; `name=systemd` for a named one.
    pub(super) controllers: Vec<String>,
    /// Relative to the root of our control group namespace.
    pub(super) path: PathBuf,
}

/// Parses `id:controllers:path` lines; a path may contain colons.
pub(super) fn parse(text: &str) -> Vec<Membership> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Membership> {
    let mut fields = line.splitn(3, ':');
    let (_id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let controllers = controllers.split(',').filter(|name| !name.is_empty());
    Some(Membership {
        controllers: controllers.map(str::to_owned).collect(),
        path: PathBuf::from(path),
    })
}

/// State of one controller in `/proc/cgroups`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Built {
    /// Not compiled into this kernel.
    No,
    /// Compiled in, switched off on the kernel command line.
    Disabled,
    /// Usable; `attached` to a version 1 hierarchy or not.
    Enabled { attached: bool },
}

/// State of `controller` in the text of `/proc/cgroups`.
pub(super) fn built(text: &str, controller: &str) -> Built {
    let row = text
        .lines()
        .map(|line| line.split_ascii_whitespace().collect::<Vec<_>>())
        .find(|fields| fields.first() == Some(&controller));
    match row.as_deref() {
        Some([_, hierarchy, _, "1"]) => Built::Enabled { attached: *hierarchy != "0" },
        Some(_) => Built::Disabled,
        None => Built::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, controllers: &[&str], path: &str) {
        let controllers = controllers.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(parse(line), [Membership { controllers, path: PathBuf::from(path) }]);
    }

    #[test]
    fn each_kind_of_line_is_understood() {
        check("0::/user.slice/session-2.scope", &[], "/user.slice/session-2.scope");
        check("4:cpu,cpuacct:/", &["cpu", "cpuacct"], "/");
        check("1:name=systemd:/init.scope", &["name=systemd"], "/init.scope");
        check("5:pids:/odd:name", &["pids"], "/odd:name");
    }

    #[test]
    fn a_line_that_is_not_one_is_left_out() {
        assert_eq!(parse("\n4\n4:memory\n"), []);
    }

    #[test]
    fn the_kernel_table_tells_disabled_from_missing() {
        let table = "#subsys_name\thierarchy\tnum_cgroups\tenabled\n\
                     cpu\t3\t1\t1\nmemory\t0\t1\t0\npids\t0\t1\t1\n";
        assert_eq!(built(table, "cpu"), Built::Enabled { attached: true });
        assert_eq!(built(table, "memory"), Built::Disabled);
        assert_eq!(built(table, "pids"), Built::Enabled { attached: false });
        assert_eq!(built(table, "freezer"), Built::No);
    }
}
