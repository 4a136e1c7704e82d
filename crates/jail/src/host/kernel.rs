//! Release of the kernel, and whether it is new enough.

use super::Finding;
use rustix::system::uname;

/// Oldest release with all features: `clone3` with `CLONE_INTO_CGROUP` came with 5.7, `cgroup.kill`
/// with 5.14, overlay mounts inside user namespaces with 5.11; Landlock starts at 5.13.
const WANTED: (u32, u32) = (5, 14);

pub(super) fn release() -> String {
    uname().release().to_string_lossy().into_owned()
}

pub(super) fn finding() -> Finding {
    finding_for(&release())
}

fn finding_for(release: &str) -> Finding {
    match parse(release) {
        Some(version) if version >= WANTED => Finding::ok("kernel", format!("Linux {release}")),
        Some(_) => Finding::degraded(
            "kernel",
            format!("Linux {release} lacks cgroup.kill or Landlock"),
            Some("use Linux 5.14 or newer".to_owned()),
        ),
        None => Finding::degraded("kernel", format!("unreadable release `{release}`"), None),
    }
}

fn parse(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Status;

    #[test]
    fn releases_are_compared_as_numbers() {
        for (release, status) in [
            ("6.18.44-fc", Status::Ok),
            ("5.14.0-70.el9", Status::Ok),
            ("5.4.0-100-generic", Status::Degraded),
            ("10.0", Status::Ok),
            ("strange", Status::Degraded),
        ] {
            assert_eq!(finding_for(release).status, status, "{release}");
        }
    }
}
