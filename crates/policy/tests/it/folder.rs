//! Rules from a folder.

use std::{fs, os::unix::fs::symlink};

use expect_test::expect;
use ringfence_policy::{Bundle, Rego};
use tempfile::tempdir;

const RULES: &str = "package ringfence\ndecision := true\n";

#[tokio::test]
async fn files_links_within_and_folders_are_read() {
    let dir = tempdir().expect("temp dir");
    // As configuration is mounted: the files are links into a hidden folder.
    fs::create_dir(dir.path().join("..2026")).expect("folder");
    fs::write(dir.path().join("..2026/rules.rego"), RULES).expect("file");
    symlink("..2026", dir.path().join("..data")).expect("link");
    symlink("..data/rules.rego", dir.path().join("rules.rego")).expect("link");
    fs::create_dir(dir.path().join("more")).expect("folder");
    fs::write(dir.path().join("more/a.rego"), "package a\n").expect("file");
    fs::write(dir.path().join("data.json"), "{}").expect("file");
    fs::write(dir.path().join("README.md"), "notes").expect("file");
    let bundle = Bundle::from_folder(dir.path()).expect("a bundle");
    let same = [("rules.rego", RULES), ("more/a.rego", "package a\n"), ("data.json", "{}")];
    assert_eq!(bundle, Bundle::from_files(same).expect("a bundle"));
    Rego::load(&bundle).expect("rules");
}

#[test]
fn nothing_outside_is_read_and_nothing_is_skipped_in_silence() {
    let outside = tempdir().expect("temp dir");
    fs::write(outside.path().join("rules.rego"), RULES).expect("file");
    let dir = tempdir().expect("temp dir");
    let at = |name: &str| dir.path().join(name);
    symlink(outside.path().join("rules.rego"), at("out.rego")).expect("link");
    symlink(outside.path(), at("out")).expect("link");
    symlink("nowhere.rego", at("dangling.rego")).expect("link");
    symlink("loop.rego", at("loop.rego")).expect("link");
    symlink(".", at("self")).expect("link");
    fs::write(at("binary.rego"), [0xff, 0xfe]).expect("file");
    fs::write(at("policy.reg"), RULES).expect("file");
    fs::write(at("bad\nname.rego"), RULES).expect("file");
    fs::write(at("long.rego"), "#".repeat(300 << 10)).expect("file");
    let _socket = std::os::unix::net::UnixListener::bind(at("socket.rego")).expect("socket");
    let refused = Bundle::from_folder(dir.path()).expect_err("a broken folder");
    expect![[r#"
        the policy cannot be used
          bad�name.rego: not a name of printable text
          binary.rego: not UTF-8
          dangling.rego: No such file or directory (os error 2)
          long.rego: more than 262144 bytes
          loop.rego: Too many levels of symbolic links (os error 40)
          out: a link that leads out of the folder
          out.rego: a link that leads out of the folder
          policy.reg: not a policy file: only *.rego and data.json at the top are read
          self: neither a file nor a link to one
          socket.rego: neither a file nor a link to one"#]]
    .assert_eq(&refused.to_string());
    // Control: the same file by its real name.
    Rego::load(&Bundle::from_folder(outside.path()).expect("a bundle")).expect("rules");
}

#[test]
fn a_missing_folder_is_named() {
    let dir = tempdir().expect("temp dir");
    let refused = Bundle::from_folder(&dir.path().join("none")).expect_err("no folder");
    assert!(refused.to_string().contains("none: No such file"), "{refused}");
}

#[test]
fn folders_in_folders_end_somewhere() {
    let dir = tempdir().expect("temp dir");
    let deep = (0..20).fold(dir.path().to_owned(), |path, _| path.join("d"));
    fs::create_dir_all(&deep).expect("folders");
    assert!(Bundle::from_folder(dir.path()).is_err());
}
