//! The control group mounts in `/proc/self/mountinfo` (proc(5)), parsed without touching the disk.
//!
//! A line is `id parent major:minor root point options [tags…] - type source super-options`; blanks,
//! tabs, newlines and backslashes inside a field are octal escapes.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// One visible mount of a control group hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    /// Group that appears at `point`; `/` unless bind-mounted or seen from a container.
    pub(super) root: PathBuf,
    pub(super) point: PathBuf,
    pub(super) hierarchy: Hierarchy,
}

/// Hierarchy of a mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hierarchy {
    /// Version 1, with the super options (controllers and flags, undivided).
    V1(Vec<String>),
    /// The unified one.
    V2,
}

impl Mount {
    /// Whether this version 1 mount has `controller`.
    pub(super) fn carries(&self, controller: &str) -> bool {
        matches!(&self.hierarchy, Hierarchy::V1(options) if options.iter().any(|o| o == controller))
    }
}

/// Reachable control group mounts, in the order of the file.
///
/// A later mount on the same point hides the earlier one, of any type.
pub(super) fn parse(text: &str) -> Vec<Mount> {
    let mut mounts: Vec<Mount> = Vec::new();
    for (point, mount) in text.lines().filter_map(parse_line) {
        mounts.retain(|earlier| earlier.point != point);
        mounts.extend(mount);
    }
    mounts
}

/// Mount point of any line, and the mount if it is a control group mount.
fn parse_line(line: &str) -> Option<(PathBuf, Option<Mount>)> {
    let (before, after) = line.split_once(" - ")?;
    let mut fields = before.split(' ').skip(3);
    let (root, point) = (unescape(fields.next()?), unescape(fields.next()?));
    let mut tail = after.split(' ');
    let kind = tail.next()?;
    let options = tail.nth(1).unwrap_or_default();
    let hierarchy = match kind {
        "cgroup" => Some(Hierarchy::V1(options.split(',').map(str::to_owned).collect())),
        "cgroup2" => Some(Hierarchy::V2),
        _ => None,
    };
    Some((point.clone(), hierarchy.map(|hierarchy| Mount { root, point, hierarchy })))
}

/// Resolves escapes such as `\040`; a backslash that starts no escape stands for itself.
fn unescape(field: &str) -> PathBuf {
    let bytes = field.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at..].first_chunk().and_then(octal) {
            Some(byte) => {
                out.push(byte);
                at += 4;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    PathBuf::from(OsString::from_vec(out))
}

fn octal(escape: &[u8; 4]) -> Option<u8> {
    let [b'\\', digits @ ..] = escape else { return None };
    let value = digits.iter().try_fold(0_u32, |sum, digit| {
        matches!(digit, b'0'..=b'7').then(|| sum * 8 + u32::from(digit - b'0'))
    })?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn odd_mount_points_are_unescaped() {
        let line = r"40 31 0:37 /a\134b /mnt/with\040blank\011tab rw - cgroup none rw,pids";
        let expected = Mount {
            root: PathBuf::from(r"/a\b"),
            point: PathBuf::from("/mnt/with blank\ttab"),
            hierarchy: Hierarchy::V1(vec!["rw".into(), "pids".into()]),
        };
        assert_eq!(parse(line), [expected]);
    }

    #[test]
    fn a_backslash_without_three_octal_digits_stands_for_itself() {
        for literal in [r"\", r"\0", r"\08x", r"\777", r"a\04"] {
            assert_eq!(unescape(literal), PathBuf::from(literal));
        }
    }

    #[test]
    fn a_later_mount_on_the_same_point_hides_the_earlier() {
        let hidden = "1 0 0:1 / /cg rw - cgroup2 none rw\n2 1 0:2 / /cg rw - tmpfs none rw\n";
        assert_eq!(parse(hidden), []);
    }

    #[test]
    fn optional_tags_are_skipped_whatever_their_number() {
        for tags in ["", "shared:9 ", "shared:9 master:1 propagate_from:2 "] {
            let line = format!("35 24 0:31 / /sys/fs/cgroup rw,nosuid {tags}- cgroup2 cgroup2 rw");
            assert_eq!(parse(&line).len(), 1, "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_panic(text in "[ -~\n\\\\]{0,200}") {
            parse(&text);
            unescape(&text);
        }
    }
}
