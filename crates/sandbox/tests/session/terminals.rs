//! Programs with a terminal.

use ringfence_sandbox::session::{ExecRequest, Input, Size};

use crate::support::{Host, code_of, exec, script, text_of, until_said, wait};

fn terminal(request: ExecRequest) -> ExecRequest {
    ExecRequest { terminal: Some(Size { rows: 24, columns: 80 }), ..request }
}

#[tokio::test]
async fn a_terminal_has_its_size_and_can_be_resized() {
    let host = Host::new().await;
    let watch = "trap 'stty size; exit' WINCH; stty size; echo $TERM; tty; \
                 while :; do read -t 0.05 line; done";
    let process = exec(&host.session, terminal(script(watch))).await;
    until_said(process.stdout(), "/dev/pts/").await;
    let before = text_of(process.stdout());
    assert_eq!(before, "24 80\r\nxterm-256color\r\n/dev/pts/0\r\n");
    process.resize(Size { rows: 50, columns: 132 }).expect("resized");
    assert_eq!(wait(&process).await.code, Some(0));
    assert_eq!(text_of(process.stdout()), format!("{before}50 132\r\n"));
    assert_eq!(text_of(process.stderr()), "");
    host.close().await;
}

#[tokio::test]
async fn what_is_typed_is_read_and_keys_send_signals() {
    let host = Host::new().await;
    let request = ExecRequest { stdin: Input::Bytes(b"hello\n".to_vec()), ..script("exec cat -u") };
    let process = exec(&host.session, terminal(request)).await;
    until_said(process.stdout(), "hello\r\nhello\r\n").await;
    process.write(b"again\n").await.expect("typed");
    until_said(process.stdout(), "again\r\nagain\r\n").await;
    process.write(b"\x03").await.expect("typed");
    let end = wait(&process).await;
    assert_eq!(end.signal, Some(2), "Ctrl-C is an interrupt: {}", text_of(process.stdout()));
    host.close().await;
}

#[tokio::test]
async fn an_interactive_shell_has_job_control_and_ends_at_its_end() {
    let host = Host::new().await;
    let shell = ExecRequest::new(["bash", "--norc", "-i"]);
    let env = [("PS1".to_owned(), "$ ".to_owned())].into();
    let process = exec(&host.session, terminal(ExecRequest { env, ..shell })).await;
    until_said(process.stdout(), "$ ").await;
    process.write(b"sleep 1000\n").await.expect("typed");
    until_said(process.stdout(), "sleep 1000\r\n").await;
    host.sh("until pgrep -x sleep; do :; done").await;
    process.write(b"\x1a").await.expect("typed");
    until_said(process.stdout(), "Stopped").await;
    process.write(b"kill -9 %1; fg 2> /dev/null; echo over=$((40+2))\n").await.expect("typed");
    until_said(process.stdout(), "over=42").await;
    process.write(b"exit 5\n").await.expect("typed");
    assert_eq!(wait(&process).await.code, Some(5));
    host.close().await;
}

#[tokio::test]
async fn the_last_output_of_a_terminal_is_not_lost() {
    let host = Host::new().await;
    for _ in 0..30 {
        let request = script("seq 1 2000; echo last");
        let process = exec(&host.session, terminal(request)).await;
        assert_eq!(wait(&process).await.code, Some(0));
        let said = text_of(process.stdout());
        assert!(said.starts_with("1\r\n2\r\n") && said.ends_with("2000\r\nlast\r\n"), "{said}");
    }
    host.close().await;
}

#[tokio::test]
async fn only_terminals_can_be_resized() {
    let host = Host::new().await;
    let process = host.start("sleep 1000").await;
    assert_eq!(code_of(process.resize(Size { rows: 1, columns: 1 })), "no_terminal");
    host.close().await;
}
