//! The SDK inside sandboxes: real programs in Python and Node call tools of the server they run in.

use serde_json::{Value, json};

use crate::support::{Place, Server, command, ran, shown, until};

/// Everything is allowed, but `timestamp` waits for a person and one text is refused.
const RULES: &str = r#"package ringfence

default decision := {"decision": "allow"}

decision := {"decision": "hold", "reasons": [{"rule": "ask", "message": "a person decides"}]} if {
	input.tool.name == "timestamp"
	input.approval == null
}

decision := {"decision": "deny", "reasons": [{"rule": "words", "message": "not this"}]} if {
	input.args.text == "forbidden"
}

decision := {"decision": "deny", "reasons": [{"rule": "all", "message": "not all tools"}]} if {
	"tool:*" in input.grants
	input.args.code == "all"
}
"#;

fn serve(place: &Place) -> Server {
    let folder = place.path("rules");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("rules.rego"), RULES).expect("a file");
    place.serve_with(&[("RINGFENCE_POLICY", &shown(&folder))])
}

fn call(server: &Server, id: &str) -> Value {
    server.ask("GET", &format!("/v1/calls/{id}"), None).json()
}

fn id_of(call: &Value) -> String {
    call["id"].as_str().unwrap_or_else(|| panic!("no id in {call}")).to_owned()
}

/// Runs code and gives its ended call.
fn run(server: &Server, args: &Value) -> Value {
    let id = id_of(&server.call("code_execute", args));
    until("the call to end", || call(server, &id)["state"] == "finished");
    call(server, &id)
}

fn printed(call: &Value) -> &str {
    call["result"]["stdout"].as_str().unwrap_or_else(|| panic!("no output: {call}"))
}

fn children(server: &Server, parent: &str) -> Vec<Value> {
    let listed = server.ask("GET", &format!("/v1/calls?parent={parent}&limit=100"), None).json();
    listed["calls"].as_array().unwrap_or_else(|| panic!("no calls: {listed}")).clone()
}

fn approve(server: &Server, id: &str) {
    let key = server.client(&["key", "create", "boss", "--scope", "approve"]).worked();
    let args = ["approve", id, "--yes", "--data", &server.data];
    ran(command(&args).env("RINGFENCE_KEY", key.stdout.trim())).worked();
}

const PYTHON: &str = "import ringfence\n\
    print(ringfence.tools.call('echo', {'text': 'hi'}), ringfence.tools.call('echo', text='ho'))\n\
    print(ringfence.tools.search('echo text')[0]['name'])\n";
const NODE: &str = "const { tools } = require('ringfence');\n\
    (async () => {\n\
      console.log(await tools.call('echo', { text: 'hi' }), await tools.call('echo', { text: 'ho' }));\n\
      console.log((await tools.search('echo text'))[0].name);\n\
    })();\n";

/// The same program for a language on a tier, as arguments of `code_execute`; bash is always cold.
fn programs() -> [(&'static str, Value); 4] {
    let shell = |program: &str, code: &str| format!("cat > p <<'END'\n{code}END\n{program} p\n");
    [
        ("zygote", json!({"code": PYTHON})),
        ("warm", json!({"code": NODE, "language": "javascript"})),
        ("cold", json!({"code": shell("python3", PYTHON), "language": "bash"})),
        ("cold", json!({"code": shell("node", NODE), "language": "bash"})),
    ]
}

#[test]
fn python_and_node_call_tools_on_every_tier_and_each_use_is_a_child() {
    let place = Place::new();
    let server = serve(&place);
    for (tier, mut args) in programs() {
        args["tools"] = json!(["echo", "tool_search"]);
        let parent = run(&server, &args);
        let lines: Vec<_> = printed(&parent).lines().collect();
        assert_eq!(lines.len(), 2, "{parent}");
        assert!(lines[0].contains("hi") && lines[0].contains("ho"), "{parent}");
        assert_eq!(lines[1], "echo");
        let id = id_of(&parent);
        let made = children(&server, &id);
        let names: Vec<_> = made.iter().rev().map(|child| &child["tool"]).collect();
        assert_eq!(names, ["echo", "echo", "tool_search"], "{made:?}");
        for child in &made {
            let path = child["links"]["receipt"].as_str().expect("a receipt");
            let receipt = server.ask("GET", path, None).json();
            assert_eq!(receipt["cause"]["parent"], json!(id), "{receipt}");
        }
        let path = parent["links"]["receipt"].as_str().expect("a receipt");
        let receipt = server.ask("GET", path, None).json();
        assert_eq!(receipt["isolation"], json!(tier), "{receipt}");
        assert_eq!(receipt["tools"], json!(["echo", "tool_search"]));
        assert_eq!(parent["tools"], receipt["tools"]);
    }
}

#[test]
fn without_a_grant_there_is_no_socket_and_no_module() {
    let place = Place::new();
    let server = serve(&place);
    let code = "import os\nprint(os.path.exists('/box/ringfence.sock'))\n\
                try: import ringfence\nexcept ImportError: print('no module')\n";
    let without = run(&server, &json!({"code": code}));
    assert_eq!(printed(&without), "False\nno module\n", "{without}");
    // The control.
    let with = run(&server, &json!({"code": code, "tools": ["echo"]}));
    assert_eq!(printed(&with), "True\n", "{with}");
    // Policy sees what is asked for.
    let refused = server.call("code_execute", &json!({"code": "all", "tools": ["*"]}));
    assert_eq!(refused["state"], "denied", "{refused}");
    let body = json!({"tool": "code_execute", "args": {"code": "", "tools": ["no such tool"]}});
    assert_eq!(server.ask("POST", "/v1/calls", Some(&body)).status, 422);
}

#[test]
fn each_refusal_has_a_type_of_its_own() {
    let place = Place::new();
    let server = serve(&place);
    let code = r#"
import ringfence
def attempt(*args, **more):
    try: print(ringfence.tools.call(*args, **more))
    except ringfence.Error as error: print(type(error).__name__, error.code, bool(error.call_id))
attempt('http_fetch', {'url': 'http://x/'})
attempt('nothing_like_it', {})
attempt('echo', {'text': 1})
attempt('echo', {'text': 'forbidden'})
attempt('timestamp', {})
attempt('code_execute', {'code': '1/0'})
attempt('code_execute', {'code': '', 'tools': ['http_fetch']})
attempt('code_execute', {'code': '', 'tools': ['*']})
attempt('echo', {'text': float('nan')})
attempt('echo', {'text': 'x' * (5 << 20)})
attempt('code_execute', {'code': 'import ringfence\nprint(ringfence.tools.call("echo", text="deep"))', 'tools': ['echo']})
"#;
    let tools = json!(["echo", "nothing_like_it", "timestamp", "code_execute"]);
    let parent = run(&server, &json!({"code": code, "tools": tools}));
    let lines: Vec<_> = printed(&parent).lines().collect();
    let expected = [
        "NotGranted not_granted False",
        "NotFound not_found False",
        "InvalidArguments invalid_arguments False",
        "Denied policy_denied True",
        "Held call_held True",
        "Failed code_failed True",
        "NotGranted not_granted False",
        "NotGranted not_granted False",
        "InvalidArguments invalid_arguments False",
        "InvalidArguments invalid_arguments False",
    ];
    assert_eq!(lines[..10], expected, "{parent}");
    assert!(lines[10].contains("deep"), "a child with tools of its own: {parent}");
    let script = "const r = require('ringfence');\n\
        const attempt = (...a) => r.tools.call(...a).then(console.log, (e) => console.log(e.name, e.code));\n\
        (async () => {\n\
          await attempt('http_fetch', { url: 'http://x/' });\n\
          await attempt('echo', { text: 'forbidden' });\n\
          await attempt('timestamp');\n\
        })();";
    let args = json!({"code": script, "language": "javascript", "tools": ["echo", "timestamp"]});
    let parent = run(&server, &args);
    assert_eq!(
        printed(&parent),
        "NotGranted not_granted\nDenied policy_denied\nHeld call_held\n",
        "{parent}"
    );
}

#[test]
fn a_program_can_wait_for_a_person() {
    let place = Place::new();
    let server = serve(&place);
    let code = "import ringfence, threading\n\
        others = lambda: print('meanwhile', ringfence.tools.call('echo', text='on'))\n\
        thread = threading.Timer(0.2, others); thread.start()\n\
        print('decided', type(ringfence.tools.call('timestamp', hold='wait')).__name__)\n\
        thread.join()\n";
    let body = json!({
        "tool": "code_execute", "args": {"code": code, "tools": ["echo", "timestamp"]}, "wait": 0,
    });
    let parent = id_of(&server.ask("POST", "/v1/calls", Some(&body)).json());
    let held = || {
        let made = children(&server, &parent);
        made.iter().find(|child| child["state"] == "held").map(id_of)
    };
    until("a child to be held and another to end", || {
        held().is_some()
            && children(&server, &parent).iter().any(|child| child["state"] == "finished")
    });
    approve(&server, &held().expect("it is held"));
    until("the parent to end", || call(&server, &parent)["state"] == "finished");
    let parent = call(&server, &parent);
    assert!(printed(&parent).contains("decided dict"), "{parent}");
}

#[test]
fn cancelling_the_parent_cancels_its_children() {
    let place = Place::new();
    let server = serve(&place);
    let inner = "import time\ntime.sleep(50)";
    let code =
        format!("import ringfence\nringfence.tools.call('code_execute', {{'code': {inner:?}}})\n");
    let body = json!({
        "tool": "code_execute", "args": {"code": code, "tools": ["code_execute"]}, "wait": 0,
    });
    let parent = id_of(&server.ask("POST", "/v1/calls", Some(&body)).json());
    until("the child to run", || {
        children(&server, &parent).iter().any(|child| child["state"] == "running")
    });
    let answer = server.ask("DELETE", &format!("/v1/calls/{parent}"), None);
    assert!(answer.status < 300, "{answer:?}");
    until("both to be cancelled", || {
        call(&server, &parent)["state"] == "cancelled"
            && children(&server, &parent).iter().all(|child| child["state"] == "cancelled")
    });
}

#[test]
fn storage_diagrams_and_the_names_of_tooloo() {
    let place = Place::new();
    let server = serve(&place);
    let python = r#"
import ringfence, tooloo
from ringfence import storage, visual
made = storage.save('notes.txt', 'first', tags=['sdk'])
storage.update(made['artifact'], b'\xff\x00', 'bytes')
print(storage.get(made['artifact'], 1)['content'], storage.get(made['artifact'])['content'])
print([one['title'] for one in storage.search(tag='sdk')])
print(visual.render_diagram('digraph { a -> b }').count('<svg'))
for attempt in (lambda: visual.render_diagram('graph TD', 'mermaid'), lambda: visual.render_diagram('digraph {'),
                lambda: storage.get('sha256:' + '0' * 64), lambda: ringfence.memory.recall('x')):
    try: print(attempt())
    except ringfence.Error as error: print(type(error).__name__, error.code)
print(tooloo.storage.save_artifact({'title': 't', 'content': 'c', 'type': 'data'})['version'])
print(ringfence.tools.call('artifact_read', {'artifact': made['artifact'], 'version': 1})['labels'])
"#;
    let parent = run(&server, &json!({"code": python, "tools": ["*"]}));
    let expected = "first b'\\xff\\x00'\n['notes.txt']\n1\nInvalidArguments invalid_arguments\nFailed code_failed\n\
                    Failed artifact_not_found\nNotFound not_found\n1\n['upload']\n";
    assert_eq!(printed(&parent), expected, "{parent}");
    // The program read an upload, so what its later children get may come from one.
    let newest = &children(&server, &id_of(&parent))[0];
    assert_eq!(newest["taint"], json!(["upload"]), "{newest}");
    let node = r#"
const { storage, visual } = require('ringfence');
const tooloo = require('tooloo');
(async () => {
  const made = await tooloo.storage.saveArtifact({ title: 'n.txt', content: 'node', type: 'data', tags: ['js'] });
  console.log((await storage.get(made.artifact)).content, (await storage.search({ tag: 'js' })).length);
  console.log((await tooloo.visual.renderDiagram('graph { a -- b }')).includes('<svg'));
  const all = await Promise.all(Array.from({ length: 40 }, (_, i) => require('ringfence').tools.call('echo', { text: `${i}` })));
  console.log(all.map((one) => one.message).join() === Array.from({ length: 40 }, (_, i) => i).join());
})();
"#;
    let args = json!({"code": node, "language": "javascript", "tools": ["*"]});
    let parent = run(&server, &args);
    assert_eq!(printed(&parent), "node 1\ntrue\ntrue\n", "{parent}");
}

#[test]
fn progress_is_shown_while_the_program_runs() {
    let place = Place::new();
    let server = serve(&place);
    let code = "import ringfence, time\nringfence.progress(3, 10, 'third page')\n\
                ringfence.log('seen', page=3)\ntime.sleep(50)";
    let body = json!({"tool": "code_execute", "args": {"code": code, "tools": ["*"]}, "wait": 0});
    let id = id_of(&server.ask("POST", "/v1/calls", Some(&body)).json());
    let expected = json!({"done": 3.0, "total": 10.0, "message": "third page"});
    until("progress to be shown", || call(&server, &id)["progress"] == expected);
    until("the line to be there", || {
        let path = format!("/v1/calls/{id}/output/stderr");
        server.ask("GET", &path, None).body.contains("INFO seen page=3")
    });
    server.ask("DELETE", &format!("/v1/calls/{id}"), None);
    until("the end", || call(&server, &id)["state"] == "cancelled");
    assert_eq!(call(&server, &id)["progress"], Value::Null);
}

/// Garbage, lengths that are too large, halves of frames, and more connections than are taken at once.
const HOSTILE: &str = r#"
import json, os, socket, struct, ringfence
def connect():
    made = socket.socket(socket.AF_UNIX)
    made.connect('/box/ringfence.sock'); made.settimeout(40); return made
def frame(body): return struct.pack('<I', len(body)) + body
def say(data, half=False):
    one = connect()
    try: one.sendall(data)
    except OSError: pass
    if half: one.close(); return 'closed'
    answer = b''
    try:
        # The head of an answer and its body can come apart.
        while len(answer) < 4 or len(answer) < 4 + struct.unpack('<I', answer[:4])[0]:
            more = one.recv(1 << 16)
            if not more: break
            answer += more
    except OSError: return 'reset'
    finally: one.close()
    return json.loads(answer[4:])['error']['kind'] if answer else 'closed'
print(say(b'\xff' * 4 + b'A' * 100_000))
print(say(struct.pack('<I', (4 << 20) + 1)))
print(say(frame(b'\x00\xff garbage')))
print(say(frame(b'[' * 100_000)))
print(say(frame(b'{"op":"call","tool":"echo","args":{},"tool":"code_execute"}')))
print(say(frame(b'{"op":"call","tool":"echo","args":{"text":"x"},"for":"' + b'0' * 36 + b'"}')))
print(say(frame(b'')))
for _ in range(200): say(struct.pack('<I', 1000) + b'half', half=True)
for _ in range(200): say(b'\x01', half=True)
for _ in range(2000): connect().close()
open_ones = []
try:
    for _ in range(5000):
        made = socket.socket(socket.AF_UNIX); made.setblocking(False)
        made.connect('/box/ringfence.sock'); open_ones.append(made)
except OSError as error: print(type(error).__name__)
print(len(open_ones) < 200)
for one in open_ones: one.close()
print(ringfence.tools.call('echo', text='still here'))
"#;

#[test]
fn hostile_frames_do_nothing() {
    let place = Place::new();
    let server = serve(&place);
    let parent = run(&server, &json!({"code": HOSTILE, "tools": ["echo"]}));
    let lines: Vec<_> = printed(&parent).lines().collect();
    let kinds = ["bad_request", "reset", "closed"];
    assert!(lines[..2].iter().all(|line| kinds.contains(line)), "{parent}");
    assert_eq!(lines[2..7], ["bad_request"; 5], "{parent}");
    assert_eq!(lines[7..9], ["BlockingIOError", "True"], "{parent}");
    assert!(lines[9].contains("still here"), "{parent}");
    let made = children(&server, &id_of(&parent));
    assert_eq!(made.len(), 1, "only the last request became a call: {made:?}");
}

/// A skill whose handler uses a tool ten thousand times, from as many threads as run at once.
const MANY: &str = "import ringfence\n\
from concurrent.futures import ThreadPoolExecutor\n\
def run(n):\n    \
with ThreadPoolExecutor(8) as pool:\n        \
said = pool.map(lambda i: ringfence.tools.call('echo', text=str(i)), range(n))\n        \
return {'sum': sum(int(one['message']) for one in said)}\n";

#[test]
fn a_skill_with_tools_uses_one_ten_thousand_times() {
    let place = Place::new();
    let folder = place.skills().join("many");
    std::fs::create_dir(&folder).expect("a folder");
    let manifest = "name: many\nversion: 1.0.0\ndescription: Uses a tool often.\nhandler: handler.run\n\
                    safety_flags: [none]\ntools: [echo]\nlimits: {timeout_seconds: 600}\n";
    let schema = r#"{"input": {"type": "object", "properties": {"n": {"type": "integer"}}},
                     "output": {"type": "object"}}"#;
    for (file, text) in [("skill.yaml", manifest), ("schema.json", schema), ("handler.py", MANY)] {
        std::fs::write(folder.join(file), text).expect("a file");
    }
    let server = serve(&place);
    // Several times, so that a zygote has loaded the module, which imports the SDK at its top.
    for _ in 0..3 {
        let few = server.call("many", &json!({"n": 3}));
        assert_eq!(few["result"], json!({"sum": 3}), "{few}");
    }
    let body = json!({"tool": "many", "args": {"n": 10_000}, "wait": 0});
    let id = id_of(&server.ask("POST", "/v1/calls", Some(&body)).json());
    let began = std::time::Instant::now();
    let ended = || call(&server, &id)["state"] == "finished";
    while !ended() {
        assert!(began.elapsed().as_secs() < 500, "it ends: {}", call(&server, &id));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    println!("10 000 uses in {:?}", began.elapsed());
    let ended = call(&server, &id);
    assert_eq!(ended["result"], json!({"sum": 49_995_000}), "{ended}");
    let numbers = server.ask("GET", "/metrics", None).body;
    let line = numbers.lines().find(|line| {
        line.starts_with("sdk_requests_total{") && line.contains("call") && line.contains("\"ok\"")
    });
    let count = line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    assert_eq!(count, Some(10_009), "{line:?}");
}

#[test]
fn programs_of_a_session_speak_for_the_call_that_runs_them() {
    let place = Place::new();
    let server = serve(&place);
    let post = |path: &str, body: &Value| {
        let answer = server.ask("POST", path, Some(body));
        assert!(matches!(answer.status, 200..=202), "{path}: {answer:?}");
        answer.json()
    };
    let sandbox = post("/v1/sandboxes", &json!({"tools": ["echo", "tool_search"]}));
    let path = format!("/v1/sandboxes/{}", sandbox["id"].as_str().expect("an id"));
    let exec = |argv: Value| post(&format!("{path}/exec"), &json!({"argv": argv}));
    let uses = |of: &Value, tools: &[&str]| {
        let id = of["call_id"].as_str().expect("a call");
        until("the call to end", || call(&server, id)["state"] == "finished");
        let made = children(&server, id);
        let names: Vec<_> = made.iter().rev().map(|child| &child["tool"]).collect();
        assert_eq!(names, tools, "{of}");
    };
    for argv in [json!(["python3", "-c", PYTHON]), json!(["node", "-e", NODE])] {
        let ran = exec(argv);
        assert_eq!(ran["exit_code"], 0, "{ran}");
        uses(&ran, &["echo", "echo", "tool_search"]);
    }
    for (language, code) in [
        ("python", "import ringfence\nringfence.tools.call('echo', text='cell')['message']"),
        ("javascript", "(await require('ringfence').tools.call('echo', {text: 'cell'})).message"),
    ] {
        let interpreter = post(&format!("{path}/interpreters"), &json!({"language": language}));
        let execute = format!("{path}/interpreters/{}/execute", interpreter["id"]);
        for _ in 0..2 {
            let execution = post(&execute, &json!({"code": code}));
            assert_eq!(execution["status"], "ok", "{execution}");
            assert!(execution.to_string().contains("cell"), "{execution}");
            uses(&execution, &["echo"]);
        }
    }
    // A program that outlives its call, and one that speaks for a call that has ended, get nothing.
    let late = "import os, sys, time, ringfence\n\
        if os.fork(): sys.exit()\n\
        while not os.path.exists('/workspace/go'): time.sleep(0.01)\n\
        try: ringfence.tools.call('echo', text='late'); said = 'spoke'\n\
        except ringfence.Error as error: said = type(error).__name__\n\
        open('/workspace/.said', 'w').write(said); os.rename('/workspace/.said', '/workspace/said')\n";
    let detached = "setsid python3 -c \"$0\" >/dev/null 2>&1 </dev/null & echo started";
    let started = exec(json!(["bash", "-c", detached, late]));
    uses(&started, &[]);
    let waits = "touch go; while ! test -e said; do sleep 0.02; done; cat said";
    let seen = exec(json!(["bash", "-c", waits]));
    assert_eq!(seen["stdout"], "Ended", "{seen}");
    uses(&seen, &[]);
    // The control: a sandbox without a grant.
    let plain = post("/v1/sandboxes", &json!({}));
    let exec = format!("/v1/sandboxes/{}/exec", plain["id"].as_str().expect("an id"));
    let ran = post(&exec, &json!({"argv": ["python3", "-c", "import ringfence"]}));
    assert_eq!(ran["exit_code"], 1, "{ran}");
    // A fork has the grant of its original.
    let fork = post(&format!("{path}/fork"), &json!({}));
    let exec = format!("/v1/sandboxes/{}/exec", fork["id"].as_str().expect("an id"));
    let ran = post(&exec, &json!({"argv": ["python3", "-c", PYTHON]}));
    assert_eq!(ran["exit_code"], 0, "{ran}");
    uses(&ran, &["echo", "echo", "tool_search"]);
}
