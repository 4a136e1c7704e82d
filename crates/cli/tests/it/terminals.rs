//! `ringfence shell`, on a terminal of the test's own and without one.

use std::{
    fs::File,
    io::{Read, Write},
    os::fd::{AsFd, OwnedFd},
    process::{Child, Stdio},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize},
};

use crate::support::{BINARY, command, fed, ringfence, until};

/// A shell on a terminal, and the hand that types.
struct Seat {
    child: Child,
    hand: File,
    /// Our own look at the terminal, which also keeps it open.
    screen: File,
    seen: String,
}

impl Seat {
    fn take(args: &[&str]) -> Self {
        let hand = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&hand).and_then(|()| unlockpt(&hand)).expect("a terminal");
        let name = ptsname(&hand, Vec::new()).expect("its name").into_string().expect("text");
        let open = || File::options().read(true).write(true).open(&name).expect("its other end");
        let ends: [OwnedFd; 3] = [open().into(), open().into(), open().into()];
        let [input, output, error] = ends.map(Stdio::from);
        // The child leads no process group yet, so `setsid` becomes the shell and forks nothing.
        let child = command("setsid")
            .args(["--ctty", "--wait", BINARY, "shell"])
            .args(args)
            .stdin(input)
            .stdout(output)
            .stderr(error)
            .spawn()
            .expect("setsid is installed");
        Self { child, hand: hand.into(), screen: open(), seen: String::new() }
    }

    fn types(&mut self, text: &str) {
        self.hand.write_all(text.as_bytes()).expect("the terminal takes it");
    }

    /// Reads until the text is on the screen.
    fn sees(&mut self, text: &str) {
        while !self.seen.contains(text) {
            let mut waiting = [PollFd::new(&self.hand, PollFlags::IN)];
            let patience = Timespec { tv_sec: 20, tv_nsec: 0 };
            let ready = poll(&mut waiting, Some(&patience)).expect("a terminal");
            assert_eq!(ready, 1, "no `{text}` in {:?}", self.seen);
            let mut buffer = [0; 4096];
            let count = self.hand.read(&mut buffer).expect("the terminal lives");
            self.seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        self.seen.clear();
    }

    fn is_raw(&self) -> bool {
        let modes = tcgetattr(self.screen.as_fd()).expect("a terminal").local_modes;
        !modes.contains(LocalModes::ICANON)
    }
}

#[test]
fn a_shell_has_a_terminal_of_its_own_and_gives_ours_back() {
    let mut seat = Seat::take(&[]);
    seat.sees("$ ");
    assert!(seat.is_raw());
    seat.types("tty; echo $((6*7))\r");
    seat.sees("/dev/pts/0\r\n42");
    seat.types("exit 7\r");
    assert_eq!(seat.child.wait().expect("it ends").code(), Some(7));
    assert!(!seat.is_raw());
}

#[test]
fn the_window_s_size_is_passed_on() {
    let mut seat = Seat::take(&[]);
    seat.sees("$ ");
    let size = Winsize { ws_row: 50, ws_col: 123, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&seat.screen, size).expect("a size");
    seat.types("until [ \"$(stty size)\" = '50 123' ]; do :; done; echo re'sized'\r");
    seat.sees("resized");
    seat.types("exit\r");
    assert!(seat.child.wait().expect("it ends").success());
}

#[test]
fn an_interrupt_acts_inside() {
    let mut seat = Seat::take(&[]);
    seat.sees("$ ");
    // A program, for a shell at its prompt handles the key itself, each in its own way.
    let waits = "trap \"echo caught; exit\" INT; echo rea\"\"dy; while :; do sleep 1; done";
    seat.types(&format!("sh -c '{waits}'\r"));
    seat.sees("ready");
    seat.types("\x03");
    seat.sees("caught");
    seat.types("exit 0\r");
    assert!(seat.child.wait().expect("it ends").success());
}

#[test]
fn a_signal_ends_the_shell_and_gives_the_terminal_back() {
    let mut seat = Seat::take(&[]);
    seat.sees("$ ");
    until("the terminal is raw", || seat.is_raw());
    kill_process(Pid::from_child(&seat.child), Signal::TERM).expect("it lives");
    assert_eq!(seat.child.wait().expect("it ends").code(), Some(143));
    assert!(!seat.is_raw());
}

#[test]
fn without_a_terminal_a_shell_reads_its_input() {
    fed(b"echo piped\nexit 5\n", &["shell"]).said(5, "piped\n");
}

#[test]
fn a_command_can_take_the_shell_s_place() {
    ringfence(&["shell", "--", "echo", "hi"]).said(0, "hi\n");
    ringfence(&["shell", "--", "no-such-program"]).failed(2, &["cannot start `no-such-program`"]);
}

#[test]
fn a_shell_that_met_a_limit_says_which_and_by_its_code() {
    let ran = ringfence(&["shell", "--timeout", "300ms", "--", "sleep", "60"]);
    ran.failed(124, &["its lifetime is over", "hint: raise --timeout"]);
    let code = "x = bytearray(10**9)";
    let ran = ringfence(&["shell", "--memory", "64M", "--", "python3", "-c", code]);
    ran.failed(
        1,
        &["error: the program reached its memory limit of 64 MiB", "hint: raise --memory"],
    );
    // The control: the same within its limits.
    ringfence(&["shell", "--", "python3", "-c", "x = bytearray(10**6)"]).said(0, "");
}
