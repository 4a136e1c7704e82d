//! Output live and byte-exact, input passed through, pipes that close.

use std::{
    io::{Read, Write},
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use crate::support::{BINARY, command, fed, json, processes_with, ringfence, until};

#[test]
fn output_comes_while_the_program_still_runs() {
    let mut child = command(BINARY)
        .args(["run", "--", "sh", "-c", "echo first; read line; echo then $line"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let (mut input, mut output) =
        (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
    let mut first = [0; 6];
    output.read_exact(&mut first).expect("the first line before the program can end");
    input.write_all(b"second\n").expect("it reads");
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("it ends");
    assert_eq!((&first, rest.as_str()), (b"first\n", "then second\n"));
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn what_python_printed_before_its_time_was_over_is_shown() {
    let code = "print('half done'); import time; time.sleep(9)";
    let ran = ringfence(&["run", "--timeout", "2s", "-c", code]);
    assert_eq!((ran.code, ran.text()), (Some(124), "half done\n"));
}

#[test]
fn every_byte_comes_out_as_it_was_written() {
    let code = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 1000)";
    let ran = ringfence(&["run", "-c", code]);
    assert_eq!(ran.code, Some(0));
    assert_eq!(ran.stdout, (0..=255).collect::<Vec<u8>>().repeat(1000));
}

#[test]
fn a_large_output_is_whole_however_slowly_it_is_read() {
    let code = "import sys\nfor n in range(100): sys.stdout.write(f'{n:02}' * (1 << 18))";
    let mut child = command(BINARY)
        .args(["run", "-c", code])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut out = child.stdout.take().expect("a pipe");
    let mut part = vec![0; 7001];
    let mut seen = Vec::new();
    while let count @ 1.. = out.read(&mut part).expect("a pipe") {
        seen.extend_from_slice(&part[..count]);
    }
    let expected: String = (0..100).map(|n| format!("{n:02}").repeat(1 << 18)).collect();
    assert!(child.wait().expect("it ends").success());
    assert!(seen == expected.as_bytes(), "{} bytes of {}", seen.len(), expected.len());
}

#[test]
fn the_two_streams_stay_apart() {
    let ran = ringfence(&["run", "--", "sh", "-c", "echo out; echo err >&2"]);
    assert_eq!((ran.text(), ran.stderr.as_str()), ("out\n", "err\n"));
}

#[test]
fn text_of_every_script_survives() {
    let text = "żółć 漢字 🦀 \u{202e}x";
    ringfence(&["run", "-c", &format!("print('{text}')")]).said(0, &format!("{text}\n"));
    ringfence(&["run", "--", "printf", "%s", text]).said(0, text);
}

#[test]
fn standard_input_is_passed_through() {
    let bytes: Vec<u8> = (0..=255).collect::<Vec<u8>>().repeat(4000);
    let ran = fed(&bytes, &["run", "--", "cat"]);
    assert_eq!((ran.code, ran.stdout.len()), (Some(0), bytes.len()));
    assert!(ran.stdout == bytes);
}

#[test]
fn unread_input_delays_no_program() {
    let flood = vec![b'x'; 64 << 20];
    fed(&flood, &["run", "--", "true"]).said(0, "");
    fed(&flood, &["run", "--", "head", "-c", "3"]).said(0, "xxx");
}

#[test]
fn code_from_standard_input_leaves_nothing_to_read() {
    fed(b"import sys; print(repr(sys.stdin.read()))", &["run", "-"]).said(0, "''\n");
    fed(b"console.log(6*7)", &["run", "--lang", "javascript", "-"]).said(0, "42\n");
    fed(b"echo \"$1\"", &["run", "--lang", "bash", "-", "--", "a b"]).said(0, "a b\n");
}

#[test]
fn a_reader_that_goes_away_is_not_an_error() {
    let mut child = command(BINARY)
        .args(["run", "--", "yes"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut first = [0; 2];
    child.stdout.take().expect("a pipe").read_exact(&mut first).expect("output");
    let started = Instant::now();
    let rest = child.wait_with_output().expect("it ends");
    assert_eq!((rest.status.code(), rest.stderr), (Some(0), Vec::new()));
    assert!(started.elapsed() < Duration::from_secs(20), "it did not wait for the time limit");
}

#[test]
fn a_reader_that_stalls_does_not_stop_the_clock() {
    let mut child = stalled("stalled-81723");
    until("its time is over", || processes_with("yes\0stalled-81723") == 0);
    assert!(child.try_wait().expect("a child").is_none(), "we still hold what it wrote");
    let output = child.wait_with_output().expect("it ends once it is read");
    assert_eq!(output.status.code(), Some(124));
    assert!(output.stdout.len() > 1 << 20, "what it was ahead is delivered");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!stderr.contains("not delivered"), "{stderr}");
}

#[test]
fn a_reader_that_stalls_for_ever_is_left_after_the_time_limit() {
    let mut child = stalled("stalled-81724");
    let mut code = None;
    until("we end although no reader is left", || {
        code = child.try_wait().expect("a child").map(|status| status.code());
        code.is_some()
    });
    let mut stderr = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("text");
    assert_eq!(code, Some(Some(124)));
    assert!(stderr.contains("bytes of output were not delivered"), "{stderr}");
    assert!(stderr.contains("error: the program reached its wall limit of 2s"), "{stderr}");
}

/// A program that writes without end to a pipe that is full at once and stays unread.
fn stalled(mark: &str) -> Child {
    let child = command(BINARY)
        .args(["run", "--timeout", "2s", "--output", "1M", "--", "sh", "-c"])
        .arg(format!("exec yes {mark}"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    until("the program runs", || processes_with(&format!("yes\0{mark}")) == 1);
    child
}

/// More than could be kept, numbered block by block, to a reader that is far behind from the start.
#[test]
fn a_slow_reader_gets_every_byte_and_the_program_waits_for_it() {
    const BLOCK: usize = 64 << 10;
    const BLOCKS: usize = 300 << 4;
    let code = format!(
        "import os\nfor n in range({BLOCKS}): os.write(1, n.to_bytes(8, 'little') * ({BLOCK} // 8))"
    );
    // Written at once by a program without a limit, this takes well below a second.
    let mut child = command(BINARY)
        .args(["run", "--timeout", "5m", "-c", &code, "--", "slow-55123"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    until("the program runs", || processes_with("slow-55123") == 2);
    let mut output = child.stdout.take().expect("a pipe");
    let (mut block, mut peak) = (vec![0; BLOCK], 0);
    for number in 0..BLOCKS {
        output.read_exact(&mut block).expect("a whole block");
        let expected = (number as u64).to_le_bytes().repeat(BLOCK / 8);
        assert!(block == expected, "block {number} is not what was written");
        if number % 480 == 0 {
            // It is at most the 8M of `--output` ahead of us, so it cannot have ended before this.
            assert_eq!(processes_with("slow-55123"), 2, "block {number}");
            std::thread::sleep(Duration::from_millis(100));
        }
        peak = peak_memory(child.id()).unwrap_or(peak);
    }
    assert_eq!(output.read(&mut block).expect("the end"), 0);
    assert!(child.wait().expect("it ends").success());
    assert!(peak > 1 << 20 && peak < 64 << 20, "{peak} bytes of memory");
}

/// The most memory that a process ever had; `None` if it has ended.
fn peak_memory(pid: u32) -> Option<usize> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<usize>().ok()? << 10)
}

#[test]
fn output_beyond_the_cap_is_dropped_with_an_exact_count() {
    let code = "import sys; sys.stdout.write('a' * 700_000 + 'z' * 300_000)";
    let (exit, object) = json(&["--output", "64K", "-c", code]);
    assert_eq!(exit, Some(0));
    let kept = object["stdout"].as_str().expect("text");
    let gap = &object["truncated"]["stdout"];
    let dropped = gap["dropped"].as_u64().expect("a count");
    assert_eq!(kept.len() as u64 + dropped, 1_000_000);
    assert_eq!(kept.len(), 64 << 10);
    assert_eq!(gap["at"], 48 << 10);
    assert!(kept.starts_with("aaa") && kept.ends_with("zzz"));
}

#[test]
fn a_background_child_that_holds_the_output_does_not_hold_us() {
    let started = Instant::now();
    ringfence(&["run", "--", "sh", "-c", "sleep 61 & echo done"]).said(0, "done\n");
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_child_that_forked_twice_dies_with_its_sandbox() {
    let script = "(setsid setsid sleep 73177 >/dev/null 2>&1 </dev/null &) ; echo left";
    ringfence(&["run", "--", "sh", "-c", script]).said(0, "left\n");
    until("the grandchild is gone", || processes_with("sleep\x0073177") == 0);
}
