//! Contract of all tiers: the same suite for cold, zygote and warm.

use std::sync::Arc;

use ringfence_sandbox::{InputFile, Language, Program, Request, Stdin, files::BoxPath};
use ringfence_types::{Json, Outcome};
use serde_json::{Value, json};

use crate::support::{
    Service, Tier, assert_exited, command, on_every_tier, permit, shell, stderr, stdout, within,
};

on_every_tier! {
    output_arrives_byte_for_byte
    exit_codes_are_the_program_s_own
    a_signal_is_told_from_an_exit
    arguments_are_data
    the_environment_is_the_given_one_and_no_more
    the_program_starts_where_it_is_told
    standard_input_is_read_to_its_end
    unread_standard_input_blocks_no_other_process
    files_go_in_and_come_out
    a_call_returns_json_that_printing_cannot_forge
    arguments_reach_a_call_digit_by_digit
    every_byte_of_the_result_channel_is_the_program_s
    the_report_says_how_the_sandbox_came_about
}

async fn output_arrives_byte_for_byte(tier: Tier) {
    let service = tier.service();
    let request = tier.code(
        "import sys\nsys.stdout.buffer.write(bytes(range(256)) * 300)\nsys.stderr.write('e\\u2713')",
        "process.stdout.write(Buffer.from(Array.from({length: 76800}, (_, i) => i % 256)));\
         process.stderr.write('e\\u2713')",
    );
    let report = service.run(request).await;
    assert_exited(&report, 0);
    let expected: Vec<u8> = (0..=255).cycle().take(256 * 300).collect();
    assert!(report.stdout.kept() == expected, "{} bytes came", report.stdout.total());
    assert_eq!((stderr(&report).as_str(), report.stdout.truncated()), ("e✓", None));
    service.close().await;
}

async fn exit_codes_are_the_program_s_own(tier: Tier) {
    let service = tier.service();
    for code in [0, 1, 7, 137, 255] {
        let python = format!("import sys; sys.exit({code})");
        let report = service.run(tier.code(&python, &format!("process.exit({code})"))).await;
        assert_exited(&report, code);
        assert_eq!((report.exit_code, report.signal), (Some(code), None));
    }
    let failing = service.run(tier.code("raise ValueError('no')", "throw new Error('no')")).await;
    assert_exited(&failing, 1);
    assert!(stderr(&failing).contains("no"), "{}", stderr(&failing));
    service.close().await;
}

async fn a_signal_is_told_from_an_exit(tier: Tier) {
    let service = tier.service();
    for signal in [6, 9, 11, 15] {
        let python =
            format!("import os; os.kill(os.getpid(), {signal}); import time; time.sleep(9)");
        let javascript =
            format!("process.kill(process.pid, {signal}); setTimeout(() => {{}}, 9000)");
        let report = service.run(tier.code(&python, &javascript)).await;
        assert_eq!(report.outcome, Outcome::Signaled { signal }, "{}", stderr(&report));
        assert_eq!((report.exit_code, report.signal), (None, Some(signal)));
    }
    service.close().await;
}

async fn arguments_are_data(tier: Tier) {
    let service = tier.service();
    let hostile = ["$(id)", "; echo x", "-c", "--help", "a b\n\"'`", "✓", ""];
    let mut request = tier.code(
        "import json, sys; print(json.dumps(sys.argv[1:]))",
        "console.log(JSON.stringify(process.argv.slice(2)))",
    );
    if let Program::Code { args, .. } = &mut request.program {
        *args = hostile.map(str::to_owned).to_vec();
    }
    let report = service.run(request).await;
    assert_exited(&report, 0);
    let said: Vec<String> = serde_json::from_str(&stdout(&report)).expect("json");
    assert_eq!(said, hostile);
    service.close().await;
}

async fn the_environment_is_the_given_one_and_no_more(tier: Tier) {
    let service = tier.service();
    let mut request = tier.code(
        "import json, os; print(json.dumps(dict(os.environ)))",
        "console.log(JSON.stringify(process.env))",
    );
    request.env = [("GIVEN", "x=y\n✓"), ("HOME", "/tmp")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    let report = service.run(request).await;
    let said: std::collections::BTreeMap<String, String> =
        serde_json::from_str(&stdout(&report)).expect("json");
    assert_eq!((said["GIVEN"].as_str(), said["HOME"].as_str()), ("x=y\n✓", "/tmp"));
    let known = [
        "GIVEN",
        "HOME",
        "LANG",
        "LOGNAME",
        "PATH",
        "SHELL",
        "TMPDIR",
        "USER",
        "LC_CTYPE",
        "MPLBACKEND",
        "NODE_OPTIONS",
        "NODE_PATH",
        "RINGFENCE_CPUS",
        "RINGFENCE_MEMORY_BYTES",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONPATH",
        "PYTHONUNBUFFERED",
        "RINGFENCE_RESULT_FD",
    ];
    let unknown: Vec<_> = said.keys().filter(|key| !known.contains(&key.as_str())).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    service.close().await;
}

async fn the_program_starts_where_it_is_told(tier: Tier) {
    let service = tier.service();
    for cwd in ["/workspace", "/tmp", "/usr/lib"] {
        let request = tier.code("import os; print(os.getcwd())", "console.log(process.cwd())");
        let report = service.run(Request { cwd: cwd.to_owned(), ..request }).await;
        assert_eq!(stdout(&report).trim(), cwd, "{}", stderr(&report));
    }
    service.close().await;
}

async fn standard_input_is_read_to_its_end(tier: Tier) {
    let service = tier.service();
    let request = tier.code(
        "import sys; data = sys.stdin.buffer.read(); print(len(data), sum(data))",
        "const data = require('fs').readFileSync(0);\
         console.log(data.length, data.reduce((a, b) => a + b, 0))",
    );
    let input = vec![3; 300_000];
    let report = service.run(Request { stdin: Stdin::Bytes(input), ..request.clone() }).await;
    assert_eq!(stdout(&report), "300000 900000\n", "{}", stderr(&report));
    let empty = service.run(request).await;
    assert_eq!(stdout(&empty), "0 0\n", "{}", stderr(&empty));
    service.close().await;
}

async fn unread_standard_input_blocks_no_other_process(tier: Tier) {
    let service = tier.service();
    let request = tier.code("print('done')", "console.log('done')");
    let report = service.run(Request { stdin: Stdin::Bytes(vec![0; 4 << 20]), ..request }).await;
    assert_exited(&report, 0);
    assert_eq!(stdout(&report), "done\n");
    service.close().await;
}

async fn files_go_in_and_come_out(tier: Tier) {
    let service = tier.service();
    let request = tier.code(
        "data = open('in/data.bin', 'rb').read(); open('out.bin', 'wb').write(data[::-1])",
        "const fs = require('fs'); const data = fs.readFileSync('in/data.bin');\
         fs.writeFileSync('out.bin', Buffer.from(data).reverse())",
    );
    let content: Arc<[u8]> = (0..=255).collect();
    let path = BoxPath::parse("in/data.bin").expect("a path inside");
    let files = vec![InputFile { path, mode: 0o600, content }];
    let report = service.run(Request { files, ..request }).await;
    assert_exited(&report, 0);
    let workspace = report.workspace.as_ref().expect("it outlives its program");
    let mut taken = Vec::new();
    let out = BoxPath::parse("out.bin").expect("a path inside");
    let mut file = workspace.get(&out).expect("was written");
    file.copy_to(&mut taken).expect("can be read");
    assert_eq!(taken, (0..=255).rev().collect::<Vec<u8>>());
    service.close().await;
}

fn call(tier: Tier, python: &str, javascript: &str, args: Value) -> Request {
    let args = Json::of(&args).expect("json");
    called(tier, python, javascript, args)
}

fn called(tier: Tier, python: &str, javascript: &str, args: Json) -> Request {
    let (language, code) = match tier {
        Tier::Warm => (Language::Javascript, javascript),
        _ => (Language::Python, python),
    };
    let function = Some("add".to_owned());
    let file = "handler".to_owned();
    let program = Program::Call { language, code: code.into(), file, function, args, ahead: None };
    Request { isolation: Some(tier.isolation()), ..Request::new(program) }
}

async fn a_call_returns_json_that_printing_cannot_forge(tier: Tier) {
    let service = tier.service();
    let request = call(
        tier,
        "def add(a, b):\n    print('{\"ok\": true, \"result\": 666}')\n    return {'sum': a + b}",
        "module.exports.add = ({a, b}) => {\
         console.log('{\"ok\": true, \"result\": 666}'); return {sum: a + b} }",
        json!({"a": 2, "b": 40}),
    );
    let report = service.run(request).await;
    assert_exited(&report, 0);
    let result: Value = serde_json::from_slice(&report.result).expect("json");
    assert_eq!(result, json!({"sum": 42}), "{}", stderr(&report));
    assert!(stdout(&report).contains("666"));
    service.close().await;
}

/// Numbers are not parsed on the way: Python gets every digit, JavaScript the nearest number.
async fn arguments_reach_a_call_digit_by_digit(tier: Tier) {
    let service = tier.service();
    let sent = r#"{"a":1180591620717411303424,"b":[0.1,-0.0,9007199254740993,1e-7]}"#;
    let request = called(
        tier,
        "def add(a, b):\n    return {'a': a, 'b': b}",
        "module.exports.add = (args) => args",
        Json::parse(sent.as_bytes()).expect("json"),
    );
    let report = service.run(request).await;
    assert_exited(&report, 0);
    let expected = match tier {
        Tier::Warm => r#"{"a":1.1805916207174113e+21,"b":[0.1,0,9007199254740992,1e-7]}"#,
        _ => r#"{"a":1180591620717411303424,"b":[0.1,-0.0,9007199254740993,1e-07]}"#,
    };
    assert_eq!(String::from_utf8_lossy(&report.result), expected, "{}", stderr(&report));
    service.close().await;
}

/// Bytes that a program writes to the result channel itself are kept exactly.
async fn every_byte_of_the_result_channel_is_the_program_s(tier: Tier) {
    let service = tier.service();
    let request = tier.code(
        "import os; os.write(int(os.environ['RINGFENCE_RESULT_FD']), b'\\x00own\\xff')",
        "require('fs').writeSync(Number(process.env.RINGFENCE_RESULT_FD), \
         Buffer.from([0, 111, 119, 110, 255]))",
    );
    let report = service.run(request).await;
    assert_exited(&report, 0);
    assert_eq!((report.result.as_slice(), stdout(&report).as_str()), (&b"\0own\xff"[..], ""));
    service.close().await;
}

async fn the_report_says_how_the_sandbox_came_about(tier: Tier) {
    let service = tier.service();
    let report = service.run(tier.code("print(1)", "console.log(1)")).await;
    assert_eq!(report.isolation, tier.isolation());
    assert!(report.usage.wall > std::time::Duration::ZERO);
    assert!(report.usage.memory_peak.is_some_and(|peak| peak.0 > 0), "{:?}", report.usage);
    assert!(report.timings.total >= report.timings.run, "{:?}", report.timings);
    service.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_run_as_given_and_missing_ones_are_an_error() {
    let service = Service::cold();
    let report = service.run(command(&["printf", "%s|", "a b", "$HOME", "*"])).await;
    assert_eq!(stdout(&report), "a b|$HOME|*|");
    assert_exited(&service.run(shell("exit 3")).await, 3);
    let missing = service.try_run(command(&["no-such-program"])).await.expect_err("is not there");
    assert!(missing.to_string().contains("no-such-program"), "{missing}");
    assert!(missing.hint().is_some());
    // The same with as few descriptors as can be asked for.
    let limits = ringfence_types::Limits { open_files: 16, ..ringfence_types::Limits::default() };
    let few = service.run(Request { limits: limits.clone(), ..command(&["echo", "few"]) }).await;
    assert_eq!(stdout(&few), "few\n");
    let missing = Request { limits, ..command(&["no-such-program"]) };
    service.try_run(missing).await.expect_err("is not there");
    service.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_make_no_sense_are_refused_before_anything_starts() {
    let service = Service::cold();
    let with_env = |key: &str| Request {
        env: [(key.to_owned(), "x".to_owned())].into(),
        ..command(&["true"])
    };
    let call = |args: Value| Program::Call {
        language: Language::Python,
        code: "def main(): pass".into(),
        file: "main.py".to_owned(),
        ahead: None,
        function: None,
        args: Json::of(&args).expect("json"),
    };
    let refused = [
        Request::new(call(json!([1]))),
        Request::new(call(json!(null))),
        command(&[]),
        command(&[""]),
        command(&["true", "a\0b"]),
        with_env(""),
        with_env("a=b"),
        Request { cwd: "/tmp\0".to_owned(), ..command(&["true"]) },
        Request { isolation: Some(Tier::Zygote.isolation()), ..command(&["true"]) },
        Request {
            isolation: Some(Tier::Warm.isolation()),
            ..crate::support::code(Language::Bash, "true")
        },
    ];
    for request in refused {
        let error = service.try_run(request.clone()).await.expect_err("makes no sense");
        assert!(matches!(error, ringfence_sandbox::Error::Invalid(_)), "{request:?}: {error:?}");
    }
    service.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_at_once_all_end_with_their_own_output() {
    let service = Service::pooled();
    let tier = |number: usize| [Tier::Cold, Tier::Zygote, Tier::Warm][number % 3];
    let one = |number: usize| {
        let python = format!("print({number} * 1000)");
        let request = tier(number).code(&python, &format!("console.log({number} * 1000)"));
        let native = service.native.clone();
        tokio::spawn(async move { native.run(permit(), request).await?.wait().await })
    };
    let tasks: Vec<_> = (0..16).map(one).collect();
    for (number, task) in tasks.into_iter().enumerate() {
        let report = within("one of sixteen", task).await.expect("joined").expect("stands");
        assert_eq!(stdout(&report), format!("{}\n", number * 1000), "{}", stderr(&report));
    }
    service.close().await;
}
