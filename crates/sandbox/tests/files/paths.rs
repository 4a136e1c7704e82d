//! F11: hostile names.

use proptest::prelude::*;
use ringfence_sandbox::files::{BoxPath, MAX_NAME, MAX_PATH};

use crate::support::Host;

fn code(raw: impl AsRef<[u8]>) -> &'static str {
    BoxPath::parse(raw).expect_err("refused").code()
}

#[test]
fn every_rule_refuses_by_its_name() {
    let long_name = "n".repeat(MAX_NAME + 1);
    let long_path = "a/".repeat(MAX_PATH / 2 + 1);
    for (raw, expected) in [
        ("", "path_empty"),
        ("..", "path_parent"),
        ("a/../b", "path_parent"),
        ("/workspace/../etc", "path_parent"),
        (".", "path_dot"),
        ("a/./b", "path_dot"),
        ("a//b", "path_empty_name"),
        ("a/", "path_empty_name"),
        ("/workspace//a", "path_absolute"),
        ("/etc/passwd", "path_absolute"),
        ("/workspaces/a", "path_absolute"),
        ("/", "path_absolute"),
        ("a\0b", "path_nul"),
        (long_name.as_str(), "path_name_too_long"),
        (long_path.as_str(), "path_too_long"),
    ] {
        assert_eq!(code(raw), expected, "{raw:?}");
    }
}

#[test]
fn the_longest_path_is_one_byte_below_the_kernels_4096() {
    assert_eq!(code("a/".repeat(2047) + "bb"), "path_too_long");
    assert!(BoxPath::parse("a/".repeat(2047) + "b").is_ok());
}

#[test]
fn the_workspace_itself_and_what_is_beneath_it_may_be_absolute() {
    assert_eq!(BoxPath::parse("/workspace"), Ok(BoxPath::root()));
    assert_eq!(BoxPath::parse("/workspace/"), Ok(BoxPath::root()));
    assert_eq!(BoxPath::parse("/workspace/a/b"), BoxPath::parse("a/b"));
}

#[test]
fn odd_names_are_stored_verbatim_and_shown_escaped() {
    let host = Host::new();
    let names: [(&[u8], &str); 6] = [
        (b"new\nline", "new\\u{a}line"),
        (b"-rf", "-rf"),
        (b"\xff\xfe", "\\xff\\xfe"),
        ("a\u{202e}txt.exe".as_bytes(), "a\\u{202e}txt.exe"),
        (b"back\\slash`", "back\\\\slash\\`"),
        (b"...", "..."),
    ];
    for (name, shown) in names {
        let path = BoxPath::parse(name).expect("legal on Linux");
        assert_eq!(path.to_string(), shown);
        host.workspace.put(&path, 0o644, &mut &b"x"[..]).expect(shown);
    }
    let mut stored: Vec<Vec<u8>> = std::fs::read_dir(&host.inside)
        .expect("read")
        .map(|e| std::os::unix::ffi::OsStringExt::into_vec(e.expect("entry").file_name()))
        .collect();
    let mut expected: Vec<Vec<u8>> = names.iter().map(|(name, _)| name.to_vec()).collect();
    stored.sort();
    expected.sort();
    assert_eq!(stored, expected);
}

proptest! {
    #[test]
    fn what_is_accepted_keeps_the_invariant_and_every_byte(
        raw in prop_oneof![
            any::<Vec<u8>>(),
            prop::collection::vec(prop::sample::select(b"/.a\0-".to_vec()), 0..40),
            prop::collection::vec(prop::sample::select(vec!["/workspace", "/", "..", ".", "a", "b c"]), 0..12)
                .prop_map(|parts| parts.concat().into_bytes()),
        ],
    ) {
        let Ok(path) = BoxPath::parse(&raw) else { return Ok(()) };
        prop_assert!(path.as_bytes().len() <= MAX_PATH);
        prop_assert!(raw.ends_with(path.as_bytes()));
        prop_assert!(!path.as_bytes().contains(&0));
        for name in path.as_bytes().split(|b| *b == b'/').filter(|_| !path.is_root()) {
            prop_assert!(!matches!(name, b"" | b"." | b".."));
            prop_assert!(name.len() <= MAX_NAME);
        }
        prop_assert!(path.to_string().chars().all(|c| !c.is_control()));
        if !path.is_root() {
            prop_assert_eq!(BoxPath::parse(path.as_bytes()), Ok(path));
        }
    }
}
