//! `ringfence sandbox`: a sandbox that is kept, used from the command line.

use std::{fs, io::Write as _, process::Stdio};

use crate::support::{Place, Ran, Server, command, shown};

fn create(server: &Server, flags: &[&str]) -> String {
    let made = server.client(&[&["sandbox", "create"], flags].concat()).worked();
    made.stdout.trim().to_owned()
}

/// A program in a sandbox. What comes after `--` must stay last.
fn exec(server: &Server, id: &str, flags: &[&str], argv: &[&str]) -> Ran {
    let all = [&["sandbox", "exec", id, "--data", &server.data], flags, &["--"], argv].concat();
    crate::support::ran(&mut command(&all))
}

#[test]
fn programs_share_the_workspace_and_end_with_their_own_codes() {
    let place = Place::new();
    let server = place.serve();
    server.client(&["sandbox", "ls"]).failed(0, &["no sandboxes"]);
    let id = create(&server, &["--memory", "256M", "--env", "WHO=me", "--idle", "5m"]);
    assert_eq!(id.len(), 32, "{id}");
    let short = &id[24..];
    let listed = server.client(&["sandbox", "ls"]).worked().stdout;
    assert!(
        listed.contains(&format!("\n{short}  running ")) && listed.contains(" 256 MiB "),
        "{listed}"
    );
    let script = "echo out; echo err >&2; echo $WHO $MORE > kept; pwd; exit 7";
    let ran =
        exec(&server, short, &["--env", "MORE=x", "--cwd", "/workspace"], &["sh", "-c", script]);
    assert_eq!(
        (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
        (Some(7), "out\n/workspace\n", "err\n")
    );
    assert_eq!(exec(&server, &id, &[], &["cat", "kept"]).worked().stdout, "me x\n");
    let bytes = exec(&server, &id, &[], &["printf", "a\\377b"]);
    assert_eq!(bytes.stdout, "a\u{fffd}b", "as bytes that are no text: {bytes:?}");
    exec(&server, &id, &["--timeout", "300ms"], &["sleep", "50"]).failed(124, &["time limit"]);
    assert_eq!(exec(&server, &id, &[], &["sh", "-c", "kill -TERM $$"]).code, Some(143));
    exec(&server, &id, &[], &["/gone"]).failed(2, &["error: "]);
    let whole = exec(&server, &id, &["--json"], &["echo", "x"]).worked().json();
    assert_eq!((&whole["stdout"], &whole["exit_code"]), (&"x\n".into(), &0.into()));
    server.client(&["sandbox", "rm", short]).worked();
    server.client(&["sandbox", "ls"]).failed(0, &["no sandboxes"]);
    server
        .client(&["sandbox", "create", "--memory", "much", "--cpu", "x", "--env", "y"])
        .failed(2, &["--memory", "--cpu", "--env"]);
}

#[test]
fn standard_input_reaches_the_program() {
    let place = Place::new();
    let server = place.serve();
    let id = create(&server, &[]);
    let args = ["sandbox", "exec", &id, "-i", "--data", &server.data, "--", "tr", "a-z", "A-Z"];
    let mut child = command(&args);
    let child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("the binary starts");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all("word\n".repeat(50_000).as_bytes()).expect("it reads");
    drop(input);
    let ran: Ran = child.wait_with_output().expect("it ends").into();
    assert_eq!(ran.worked().stdout, "WORD\n".repeat(50_000));
}

#[test]
fn files_and_directories_are_copied_both_ways() {
    let place = Place::new();
    let server = place.serve();
    let id = create(&server, &[]);
    let folder = place.path("project");
    fs::create_dir_all(folder.join("deep/empty")).expect("folders");
    fs::write(folder.join("deep/data.bin"), b"\x00\xff\n").expect("a file");
    fs::write(folder.join("run.sh"), "echo ran\n").expect("a file");
    std::os::unix::fs::symlink("/etc/passwd", folder.join("link")).expect("a link");
    let project = shown(&folder);
    let cp = |from: &str, to: &str| server.client(&["sandbox", "cp", from, to]);
    cp(&project, &format!("{id}:")).failed(0, &["link` was not copied"]);
    let ran = exec(&server, &id, &[], &["sh", "-c", "sh project/run.sh; ls project project/deep"]);
    assert_eq!(
        ran.worked().stdout,
        "ran\nproject:\ndeep\nrun.sh\n\nproject/deep:\ndata.bin\nempty\n"
    );
    exec(&server, &id, &[], &["ln", "-s", "/etc/passwd", "project/away"]).worked();
    let back = place.path("back");
    cp(&format!("{id}:/workspace/project"), &shown(&back)).failed(0, &["away` was not copied"]);
    assert_eq!(fs::read(back.join("deep/data.bin")).expect("a file"), b"\x00\xff\n");
    assert!(back.join("deep/empty").is_dir() && !back.join("away").exists());
    let one = place.path("one.bin");
    cp(&format!("{}:project/deep/data.bin", &id[24..]), &shown(&one)).worked();
    assert_eq!(fs::read(&one).expect("a file"), b"\x00\xff\n");
    cp(&shown(&one), &format!("{id}:project/deep/new.bin")).worked();
    assert_eq!(
        exec(&server, &id, &[], &["wc", "-c", "project/deep/new.bin"]).worked().stdout,
        "3 project/deep/new.bin\n"
    );
    cp(&project, &shown(&back)).failed(2, &["one end of the copy", "hint: "]);
    cp(&format!("{id}:gone"), "/tmp/nowhere").failed(2, &["error: "]);
    cp("/gone", &format!("{id}:x")).failed(2, &["cannot read `/gone`"]);
}
