//! Files in and out, hostile ones too.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use crate::support::{BINARY, Ran, command, json, ringfence, scratch, shown, write};

#[test]
fn a_file_goes_in_and_its_result_comes_out() {
    let dir = scratch();
    let input = write(dir.path(), "data.csv", "1,2,3\n");
    let output = shown(dir.path().join("sum.txt"));
    let code = "open('sum.txt','w').write(str(sum(map(int, open('data.csv').read().split(',')))))";
    let (file, out) = (format!("{input}:data.csv"), format!("sum.txt:{output}"));
    ringfence(&["run", "--file", &file, "--out", &out, "-c", code]).said(0, "");
    assert_eq!(fs::read_to_string(&output).expect("the result"), "6");
}

#[test]
fn empty_directories_and_their_permissions_go_in_too() {
    let dir = scratch();
    write(dir.path(), "in/full/a.txt", "a");
    for (name, mode) in [("in/empty/deeper", 0o750), ("in/full", 0o500)] {
        let path = dir.path().join(name);
        fs::create_dir_all(&path).expect("a directory");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
    }
    let seen = "empty d 755\nempty/deeper d 750\nfull d 700\nfull/a.txt f 644\n";
    for place in ["", "below"] {
        let file = format!("{}/:{place}", shown(dir.path().join("in")));
        let script = format!("cd ./{place}; find . -mindepth 1 -printf '%P %y %m\\n' | sort");
        ringfence(&["run", "--file", &file, "--", "sh", "-c", &script]).said(0, seen);
    }
}

#[test]
fn a_directory_goes_in_and_comes_out_whole() {
    let dir = scratch();
    write(dir.path(), "in/a.txt", "a");
    let run = write(
        dir.path(),
        "in/deep/run.sh",
        "#!/bin/sh\nmkdir -p build/x; cp a.txt build/x/b.txt\n",
    );
    fs::set_permissions(&run, fs::Permissions::from_mode(0o755)).expect("a mode");
    let (file, out) = (
        format!("{}/:", shown(dir.path().join("in"))),
        format!("build/:{}", shown(dir.path().join("built"))),
    );
    ringfence(&["run", "--file", &file, "--out", &out, "--", "deep/run.sh"]).said(0, "");
    assert_eq!(fs::read_to_string(dir.path().join("built/x/b.txt")).expect("the file"), "a");
    assert_eq!(names(dir.path()), ["built", "in"], "nothing is left beside them");
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a directory").flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn what_is_not_a_plain_file_is_refused_with_the_reason() {
    for (make, reason) in [
        ("ln -s /etc/shadow x", "symbolic link"),
        ("mkfifo x", "is a FIFO"),
        ("mkdir x", "is a directory"),
        ("true", "does not exist"),
    ] {
        let dir = scratch();
        let local = dir.path().join("x");
        let out = format!("x:{}", shown(local.clone()));
        let ran = ringfence(&["run", "--out", &out, "--", "sh", "-c", make]);
        ran.failed(2, &["--out `x`", reason]);
        assert!(names(dir.path()).is_empty(), "{make} left {:?}", names(dir.path()));
    }
}

#[test]
fn a_sparse_giant_is_never_made() {
    let dir = scratch();
    let local = dir.path().join("x");
    let out = format!("x:{}", shown(local.clone()));
    let ran = ringfence(&["run", "--out", &out, "--", "truncate", "-s", "100G", "x"]);
    assert_ne!(ran.code, Some(0), "{ran:?}");
    assert!(fs::metadata(local).map_or(0, |found| found.len()) < 1 << 20);
}

#[test]
fn a_directory_with_a_link_in_it_is_refused_whole() {
    let dir = scratch();
    let out = format!("d/:{}", shown(dir.path().join("d")));
    let script = "mkdir d; echo fine > d/a; ln -s ../../etc d/z";
    let ran = ringfence(&["run", "--out", &out, "--", "sh", "-c", script]);
    ran.failed(2, &["symbolic link"]);
    assert!(names(dir.path()).is_empty());
}

#[test]
fn a_directory_that_cannot_be_read_or_lies_too_deep_is_named() {
    let deep = "p=d; for n in $(seq 140); do p=$p/x; done; mkdir -p $p";
    for (make, reason) in [
        ("mkdir -p d/a/closed; chmod 0 d/a/closed", "`d/a/closed` may not be accessed"),
        ("mkdir d; echo > d/closed; chmod 0 d/closed", "`d/closed` may not be accessed"),
        (deep, "lies deeper than the 128 levels"),
    ] {
        let dir = scratch();
        let out = format!("d/:{}", shown(dir.path().join("d")));
        let ran = ringfence(&["run", "--out", &out, "--", "sh", "-c", make]);
        ran.failed(2, &["--out `d`", reason]);
        assert!(!ran.stderr.contains("archive") && !ran.stderr.contains("entries"), "{ran:?}");
        assert!(names(dir.path()).is_empty(), "{make} left {:?}", names(dir.path()));
    }
}

#[test]
fn what_comes_out_has_no_more_permissions_than_our_umask_allows() {
    let dir = scratch();
    let make = "echo > x; chmod 777 x; mkdir -p d/e; echo > d/e/f; chmod -R 777 d";
    let file = format!("x:{}", shown(dir.path().join("x")));
    let folder = format!("d/:{}", shown(dir.path().join("d")));
    let with_umask = "umask 027; exec \"$0\" \"$@\"";
    let run = [BINARY, "run", "--out", &file, "--out", &folder, "--", "sh", "-c", make];
    let mut sh = command("sh");
    let ran = Ran::from(sh.args(["-c", with_umask]).args(run).output().expect("sh is there"));
    ran.said(0, "");
    for name in ["x", "d", "d/e", "d/e/f"] {
        let mode = fs::metadata(dir.path().join(name)).expect(name).permissions().mode();
        assert_eq!(mode & 0o7777, 0o750, "{name}: {mode:o}");
    }
}

#[test]
fn a_local_link_is_replaced_and_never_written_through() {
    let dir = scratch();
    let precious = write(dir.path(), "precious", "keep");
    std::os::unix::fs::symlink(&precious, dir.path().join("out")).expect("a link");
    let out = format!("x:{}", shown(dir.path().join("out")));
    ringfence(&["run", "--out", &out, "--", "sh", "-c", "echo new > x"]).said(0, "");
    assert_eq!(fs::read_to_string(&precious).expect("untouched"), "keep");
    assert_eq!(fs::read_to_string(dir.path().join("out")).expect("the file"), "new\n");
}

#[test]
fn privileged_bits_stay_inside() {
    let dir = scratch();
    let out = format!("x:{}", shown(dir.path().join("x")));
    let script = "echo x > x; chmod 4755 x || chmod 755 x";
    let ran = ringfence(&["run", "--out", &out, "--", "sh", "-c", script]);
    assert_eq!(ran.code, Some(0));
    let mode = fs::metadata(dir.path().join("x")).expect("the file").permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
}

#[test]
fn a_failing_program_s_code_wins_over_a_missing_file() {
    let dir = scratch();
    let out = format!("x:{}", shown(dir.path().join("x")));
    let ran = ringfence(&["run", "--out", &out, "--", "sh", "-c", "exit 9"]);
    ran.failed(9, &["--out `x`: does not exist"]);
}

#[test]
fn a_link_out_of_a_named_directory_is_not_followed() {
    let dir = scratch();
    write(dir.path(), "repo/a", "a");
    std::os::unix::fs::symlink("/etc/passwd", dir.path().join("repo/b")).expect("a link");
    let file = format!("{}/:", shown(dir.path().join("repo")));
    let ran = ringfence(&["run", "--file", &file, "--", "true"]);
    ran.failed(2, &["is a symbolic link that leads to no file of that directory"]);
}

#[test]
fn files_that_do_not_fit_are_refused_before_anything_runs() {
    let dir = scratch();
    let big = write(dir.path(), "big", &"x".repeat(2 << 20));
    let ran = ringfence(&["run", "--disk", "1M", "--file", &big, "--", "true"]);
    ran.failed(2, &["does not fit into the workspace; raise --disk"]);
}

#[test]
fn the_object_tells_what_came_out() {
    let dir = scratch();
    let out = format!("x:{}", shown(dir.path().join("x")));
    let (code, object) = json(&["--out", &out, "--out", "y", "--", "sh", "-c", "printf abc > x"]);
    assert_eq!(code, Some(2));
    assert_eq!(object["out"][0]["bytes"], 3);
    assert_eq!(object["out"][1]["error"], "does not exist");
}

#[test]
fn a_root_of_one_s_own_is_all_there_is() {
    let dir = scratch();
    let root = dir.path().join("root");
    for name in ["bin", "lib", "lib64", "usr", "proc", "dev", "tmp"] {
        fs::create_dir_all(root.join(name)).expect("a directory");
    }
    fs::copy("/bin/busybox", root.join("bin/busybox")).expect("busybox is installed");
    let root = format!("{}/", shown(root));
    ringfence(&["run", "--root", &root, "--", "/bin/busybox", "ls", "/bin"]).said(0, "busybox\n");
}
