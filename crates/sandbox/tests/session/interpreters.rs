//! Stateful interpreters: what survives, what is interrupted, what dies and is restarted.

use std::time::Duration;

use ringfence_sandbox::{
    Language,
    session::interpreter::{Event, ExecuteRequest, Options, Status},
};

use crate::support::{
    Host, code_of, eventually, execute, permit, text_of, until_said, until_started, value, within,
};

#[tokio::test]
async fn variables_survive_between_executions() {
    let host = Host::new().await;
    let python = host.python().await;
    let first = execute(&python, "x = 20\ndef f(): return x + 1\nimport math").await;
    assert_eq!((first.status, first.count, first.results.len()), (Status::Ok, 1, 0));
    assert_eq!(value(&python, "f() * 2").await, "42");
    let node = host.javascript().await;
    execute(&node, "const x = 20; function f() { return x + 1 }").await;
    assert_eq!(value(&node, "f() * 2").await, "42");
    host.close().await;
}

#[tokio::test]
async fn interpreters_of_a_session_share_files_but_no_variables() {
    let host = Host::new().await;
    let (one, two) = (host.python().await, host.python().await);
    execute(&one, "x = 1; open('shared', 'w').write('text')").await;
    let missing = execute(&two, "x").await.error.expect("not defined there");
    assert_eq!(missing.name, "NameError");
    assert_eq!(value(&two, "open('shared').read()").await, "'text'");
    host.close().await;
}

#[tokio::test]
async fn output_is_exactly_that_of_the_execution() {
    let host = Host::new().await;
    let python = host.python().await;
    let big = execute(&python, "import sys\nfor n in range(1 << 17): print('%07d' % n)").await;
    assert_eq!(big.stdout.len(), 1 << 20);
    let expected: Vec<u8> = (0..1 << 17).flat_map(|n| format!("{n:07}\n").into_bytes()).collect();
    assert!(big.stdout == expected);
    let next = execute(&python, "print('only this', end=''); sys.stderr.write('and this')").await;
    assert_eq!(
        (next.stdout.as_slice(), next.stderr.as_slice()),
        (&b"only this"[..], &b"and this"[..])
    );
    let node = host.javascript().await;
    let wrote =
        execute(&node, "process.stdout.write('a'.repeat(200000)); console.error('e')").await;
    assert_eq!((wrote.stdout.len(), wrote.stderr.as_slice()), (200_000, &b"e\n"[..]));
    host.close().await;
}

#[tokio::test]
async fn output_streams_live_and_in_order_with_results() {
    let host = Host::new().await;
    let python = host.python().await;
    let code = "import os, time\nprint('before')\ndisplay(1)\nprint('between')\ndisplay(2)\n\
                while not os.path.exists('go'): time.sleep(0.01)\nprint('after')\n3";
    let mut execution = python.execute(permit(), ExecuteRequest::new(code)).expect("queued");
    let (mut output, mut told) = (String::new(), Vec::new());
    while let Some(event) = within("event", execution.next()).await {
        // Number of lines that were delivered before each event.
        let lines = output.lines().count();
        match event {
            Event::Stdout(bytes) => output += std::str::from_utf8(&bytes).expect("text"),
            Event::Started { fresh } => told.push((format!("started {fresh}"), 0..=lines)),
            Event::Done { status, count } => told.push((format!("{status:?} {count}"), 3..=lines)),
            Event::Result(rich) => {
                let value = rich.data["text/plain"].as_str().expect("text");
                told.push((
                    format!("{value} {}", rich.main),
                    value.parse().expect("number")..=lines,
                ));
                // It is delivered while the code still waits for us.
                if value == "2" {
                    assert!(!output.contains("after"));
                    host.sh("touch go").await;
                }
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(output, "before\nbetween\nafter\n");
    let events: Vec<_> = told.iter().map(|(event, _)| event.as_str()).collect();
    assert_eq!(events, ["started true", "1 false", "2 false", "3 true", "Ok 1"]);
    // Each came after the lines that were printed before it, and the first before all.
    assert!(told.iter().all(|(_, lines)| !lines.is_empty()) && told[0].1 == (0..=0), "{told:?}");
    host.close().await;
}

#[tokio::test]
async fn an_execution_can_be_interrupted_and_the_state_stays() {
    let host = Host::new().await;
    for (language, busy, waiting) in [
        (Language::Python, "while True: pass", "import time\nprint('w')\ntime.sleep(1000)"),
        (
            Language::Javascript,
            "while (true);",
            "console.log('w'); await new Promise(() => setTimeout(() => {}, 1e9))",
        ),
    ] {
        let interpreter = host.interpreter(language).await;
        execute(&interpreter, "x = 7").await;
        for _ in 0..3 {
            let mut execution =
                interpreter.execute(permit(), ExecuteRequest::new(busy)).expect("queued");
            until_started(&mut execution).await;
            assert!(interpreter.interrupt().expect("running"));
            let end = within("end", execution.collect()).await;
            assert_eq!(end.status, Status::Interrupted, "{language:?}");
            assert_eq!(value(&interpreter, "x").await, "7", "{language:?}");
        }
        let execution =
            interpreter.execute(permit(), ExecuteRequest::new(waiting)).expect("queued");
        until_said(execution.stdout(), "w").await;
        execution.interrupt();
        assert_eq!(within("end", execution.collect()).await.status, Status::Interrupted);
        assert_eq!(value(&interpreter, "x").await, "7");
        assert!(!interpreter.interrupt().expect("running"), "nothing to interrupt");
    }
    host.close().await;
}

#[tokio::test]
async fn an_interrupt_never_reaches_a_later_execution() {
    let host = Host::new().await;
    for language in [Language::Python, Language::Javascript] {
        let interpreter = host.interpreter(language).await;
        let busy = if language == Language::Python { "while True: pass" } else { "for (;;);" };
        for round in 0..15 {
            let mut first =
                interpreter.execute(permit(), ExecuteRequest::new(busy)).expect("queued");
            let second =
                interpreter.execute(permit(), ExecuteRequest::new("6 * 7")).expect("queued");
            if round % 3 > 0 {
                until_started(&mut first).await;
            }
            first.interrupt();
            if round % 3 == 2 {
                first.interrupt();
            }
            assert_eq!(within("end", first.collect()).await.status, Status::Interrupted);
            let second = within("end", second.collect()).await;
            assert_eq!(
                (second.status, second.results.len()),
                (Status::Ok, 1),
                "{language:?} {round}"
            );
        }
    }
    host.close().await;
}

#[tokio::test]
async fn a_timeout_interrupts_and_then_kills() {
    let host = Host::new().await;
    let python = host.python().await;
    execute(&python, "x = 1").await;
    let timed = |code: &str| ExecuteRequest {
        timeout: Some(Duration::from_millis(300)),
        ..ExecuteRequest::new(code)
    };
    let soft = python.execute(permit(), timed("while True: pass")).expect("queued");
    assert_eq!(within("end", soft.collect()).await.status, Status::TimedOut);
    assert_eq!(value(&python, "x").await, "1", "its state survived");
    let stubborn = "import signal; signal.signal(2, signal.SIG_IGN)\nwhile True: pass";
    let hard = python.execute(permit(), timed(stubborn)).expect("queued");
    assert_eq!(within("end", hard.collect()).await.status, Status::TimedOut);
    let gone = execute(&python, "x").await;
    assert_eq!(gone.error.map(|error| error.name).as_deref(), Some("NameError"), "a new one");
    host.close().await;
}

#[tokio::test]
async fn an_interpreter_that_died_is_replaced() {
    let host = Host::new().await;
    for (language, suicide) in [
        (Language::Python, "print('last words'); import os; os.kill(os.getpid(), 9)"),
        (
            Language::Javascript,
            "console.log('last words'); process.kill(process.pid, 'SIGKILL'); for (;;);",
        ),
    ] {
        let interpreter = host.interpreter(language).await;
        assert_eq!(value(&interpreter, "1 + 1").await, "2");
        let died = execute(&interpreter, suicide).await;
        assert_eq!((died.status, died.stdout.as_slice()), (Status::Died, &b"last words\n"[..]));
        let error = died.error.expect("an explanation");
        assert_eq!(
            (error.name.as_str(), error.value.as_str()),
            ("InterpreterDied", "it was ended by signal 9")
        );
        let mut next = interpreter.execute(permit(), ExecuteRequest::new("2 + 3")).expect("queued");
        assert!(until_started(&mut next).await, "fresh");
        assert_eq!(within("end", next.collect()).await.results.len(), 1);
    }
    host.close().await;
}

#[tokio::test]
async fn death_between_executions_is_noticed_too() {
    let host = Host::new().await;
    let python = host.python().await;
    execute(&python, "x = 1").await;
    host.sh("pkill -9 -f 'driver.py sessio[n]'").await;
    let all = execute(&python, "'x' in globals()").await;
    assert_eq!(all.status, Status::Ok, "{all:?}");
    assert_eq!(all.results[0].data["text/plain"], "False");
    host.close().await;
}

#[tokio::test]
async fn want_of_memory_is_named() {
    let host = Host::new().await;
    let python = host.python().await;
    let code = "import ctypes\nkeep = [b'x' * (1 << 20) for _ in range(4096)]";
    let died = execute(&python, code).await;
    let error = died.error.expect("an explanation");
    assert_eq!(died.status, Status::Died, "{error:?}");
    assert!(error.value.contains("out of memory"), "{error:?}");
    assert_eq!(host.sh("echo the session lives").await, "the session lives\n");
    host.close().await;
}

#[tokio::test]
async fn variables_completions_and_reset() {
    let host = Host::new().await;
    let python = host.python().await;
    execute(&python, "number = 5; text = 'abc'").await;
    let variables = python.variables().await.expect("variables");
    let told: Vec<_> =
        variables.iter().map(|v| (v.name.as_str(), v.kind.as_str(), v.repr.as_str())).collect();
    assert_eq!(told, [("number", "int", "5"), ("text", "str", "'abc'")]);
    let found = python.complete("1 + num", 7).await.expect("completions");
    assert_eq!(
        (found.matches, found.cursor_start, found.cursor_end),
        (vec!["number".to_owned()], 4, 7)
    );
    python.reset(permit()).await.expect("reset");
    assert_eq!(python.variables().await.expect("variables"), []);
    let node = host.javascript().await;
    execute(&node, "const number = 5").await;
    assert_eq!(node.variables().await.expect("variables")[0].repr, "5");
    assert!(
        node.complete("num", 3).await.expect("completions").matches.contains(&"number".to_owned())
    );
    node.reset(permit()).await.expect("reset");
    assert_eq!(node.variables().await.expect("variables"), []);
    host.close().await;
}

#[tokio::test]
async fn a_restart_forgets_everything_even_while_it_is_busy() {
    let host = Host::new().await;
    let python = host.python().await;
    execute(&python, "x = 1").await;
    within("restart", python.restart(permit())).await.expect("restarted");
    assert_eq!(value(&python, "'x' in globals()").await, "False");
    let mut busy =
        python.execute(permit(), ExecuteRequest::new("while True: pass")).expect("queued");
    until_started(&mut busy).await;
    within("restart", python.restart(permit())).await.expect("restarted");
    assert_eq!(within("end", busy.collect()).await.status, Status::Died);
    assert_eq!(value(&python, "1 + 1").await, "2");
    host.close().await;
}

#[tokio::test]
async fn the_queue_is_bounded_and_runs_in_order() {
    let host = Host::new().await;
    let python = host.python().await;
    execute(&python, "n = 0").await;
    let mut first =
        python.execute(permit(), ExecuteRequest::new("while True: pass")).expect("queued");
    until_started(&mut first).await;
    let mut waiting = Vec::new();
    let refused = loop {
        match python.execute(permit(), ExecuteRequest::new("n += 1; n")) {
            Ok(execution) => waiting.push(execution),
            Err(error) => break error,
        }
    };
    assert_eq!((refused.code(), waiting.len()), ("too_many", 16));
    waiting[3].interrupt();
    first.interrupt();
    let mut values = Vec::new();
    for execution in waiting {
        let all = within("end", execution.collect()).await;
        values.extend(all.results.iter().map(|rich| rich.data["text/plain"].to_string()));
    }
    let expected: Vec<_> = (1..=15).map(|n| format!("\"{n}\"")).collect();
    assert_eq!(values, expected, "all but the one that was interrupted, in order");
    host.close().await;
}

#[tokio::test]
async fn a_flood_of_unread_results_blocks_no_execution() {
    let host = Host::new().await;
    let python = host.python().await;
    let code = "for n in range(20000): display(n)\nprint('x' * (20 << 20))";
    let execution = python.execute(permit(), ExecuteRequest::new(code)).expect("queued");
    // The next one runs although no event of the first has been read.
    assert_eq!(value(&python, "'through'").await, "'through'");
    let mut execution = execution;
    let (mut shown, mut dropped) = (0, 0);
    while let Some(event) = within("event", execution.next()).await {
        match event {
            Event::Result(_) => shown += 1,
            Event::Dropped { events } => dropped += events,
            _ => {}
        }
    }
    assert_eq!(shown + dropped, 20000);
    assert!(dropped > 0 && shown > 1000, "{shown} {dropped}");
    host.close().await;
}

#[tokio::test]
async fn an_interpreter_ends_with_its_last_handle() {
    let host = Host::new().await;
    let python = host.python().await;
    let clone = python.clone();
    drop(python);
    assert_eq!(value(&clone, "1").await, "1");
    drop(clone);
    let mut left = String::from("not asked");
    for _ in 0..500 {
        left = host.sh("pgrep -f 'driver.py sessio[n]'; true").await;
        if left.is_empty() {
            break;
        }
    }
    assert_eq!(left, "");
    let closed = host.python().await;
    within("close", closed.close()).await;
    assert_eq!(code_of(closed.execute(permit(), ExecuteRequest::new("1"))), "interpreter_gone");
    host.close().await;
}

#[tokio::test]
async fn directory_and_environment_are_the_given_ones() {
    let host = Host::new().await;
    host.sh("mkdir sub; echo 'y = 9' > sub/mine.py").await;
    let options = Options {
        cwd: "/workspace/sub".to_owned(),
        env: [("GIVEN".to_owned(), "value".to_owned())].into(),
    };
    let python =
        host.session.interpreter(permit(), Language::Python, options).await.expect("started");
    let code = "import os, mine; (os.getcwd(), os.environ['GIVEN'], mine.y)";
    assert_eq!(value(&python, code).await, "('/workspace/sub', 'value', 9)");
    let wrong = Options { cwd: "/nowhere".to_owned(), ..Options::default() };
    assert_eq!(
        code_of(host.session.interpreter(permit(), Language::Python, wrong).await),
        "not_started"
    );
    let bash = host.session.interpreter(permit(), Language::Bash, Options::default()).await;
    assert_eq!(code_of(bash), "invalid_request");
    host.close().await;
}

#[tokio::test]
async fn there_is_a_bound_on_interpreters() {
    let host = Host::new().await;
    let mut all = Vec::new();
    let refused = loop {
        match host.session.interpreter(permit(), Language::Python, Options::default()).await {
            Ok(interpreter) => all.push(interpreter),
            Err(error) => break error,
        }
    };
    assert_eq!((refused.code(), all.len()), ("too_many", 8));
    host.close().await;
}

#[tokio::test]
async fn a_driver_that_lies_is_only_lying_about_itself() {
    let host = Host::new().await;
    let python = host.python().await;
    // Frames written by the code itself: of another execution, malformed, too long for a frame.
    let forge = "import os, struct, json\n\
        def say(frame):\n  body = json.dumps(frame).encode(); os.write(4, struct.pack('<I', len(body)) + body)\n\
        say({'ev': 'done', 'id': 999, 'status': 'ok', 'execution_count': 1})\n\
        say({'ev': 'result', 'id': 999, 'main': True, 'data': {'text/plain': 'forged'}})\n\
        say([1, 2]); say({'ev': 'error'}); say({'ev': 'started', 'id': None}); 'true'";
    let all = execute(&python, forge).await;
    assert_eq!((all.status, all.results.len()), (Status::Ok, 1), "{all:?}");
    let nonsense =
        execute(&python, "os.write(4, b'\\xff' * 100); import time; time.sleep(1000)").await;
    assert_eq!(nonsense.status, Status::Died);
    assert_eq!(value(&python, "'a new one'").await, "'a new one'");
    host.close().await;
}

#[tokio::test]
async fn what_is_written_between_executions_belongs_to_none() {
    let host = Host::new().await;
    let python = host.python().await;
    let code = "import threading, os, time\ndef late():\n  while not os.path.exists('go'): time.sleep(0.01)\n\
                \n  os.write(1, b'late' * 50000); open('over', 'w')\nthreading.Thread(target=late).start()";
    let first = execute(&python, code).await;
    assert_eq!(first.stdout, b"");
    host.sh("touch go; until [ -e over ]; do read -t 0.01 < /dev/zero; done; true").await;
    let next = execute(&python, "print('mine')").await;
    assert_eq!(String::from_utf8_lossy(&next.stdout), "mine\n");
    let process = host.start("echo x").await;
    eventually("its own", || text_of(process.stdout()) == "x\n").await;
    host.close().await;
}

#[tokio::test]
async fn a_representation_that_never_ends_is_refused_and_the_state_stays() {
    let host = Host::new().await;
    let python = host.python().await;
    let code = "class Slow:\n  def __repr__(self):\n    while True: pass\nx = Slow()\ny = 5";
    execute(&python, code).await;
    assert_eq!(code_of(within("answer", python.variables()).await), "interpreter_refused");
    assert_eq!(value(&python, "y").await, "5");
    host.close().await;
}
