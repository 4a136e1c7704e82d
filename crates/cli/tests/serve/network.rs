//! Network access of programs: held by default, granted by approval or policy, enforced by the proxy.
//!
//! Servers are real and on loopback, which an operator's setting exempts; programs are those of this
//! host: curl, Python, git, pip and node.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    path::Path,
};

use serde_json::{Value, json};

use crate::support::{Place, Ran, Server, command, ran, shown, until};

/// Serves the files of a folder.
pub(crate) fn site(folder: &Path) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let folder = folder.to_owned();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(mut stream), folder) = (stream, folder.clone()) else { continue };
            std::thread::spawn(move || {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    match stream.read(&mut byte) {
                        Ok(1) => head.push(byte[0]),
                        _ => return,
                    }
                }
                let head = String::from_utf8_lossy(&head).into_owned();
                let path = head.split(' ').nth(1).unwrap_or("/");
                let path = path.split('?').next().unwrap_or("/").trim_start_matches('/');
                let mut file = folder.join(path);
                if file.is_dir() {
                    file.push("index.html");
                }
                let (status, body) = match std::fs::read(&file) {
                    Ok(body) => ("200 OK", body),
                    Err(_) => ("404 Not Found", Vec::new()),
                };
                let kind = if file.extension().is_some_and(|end| end == "html") {
                    "text/html"
                } else {
                    "application/octet-stream"
                };
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    body.len()
                );
                if !head.starts_with("HEAD") {
                    let _ = stream.write_all(&body);
                }
            });
        }
    });
    address
}

/// A folder with one file, served.
fn greeting(place: &Place) -> SocketAddr {
    let folder = place.path("site");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("hello"), "hello from outside").expect("a file");
    site(&folder)
}

fn serve(place: &Place, site: SocketAddr, rules: Option<&str>) -> Server {
    let exempt = site.to_string();
    let mut settings = vec![("RINGFENCE_EGRESS_ALLOW_PRIVATE", exempt.as_str())];
    let folder = place.path("rules");
    let folder_text = shown(&folder);
    if let Some(rules) = rules {
        std::fs::create_dir(&folder).expect("a folder");
        std::fs::write(folder.join("rules.rego"), rules).expect("a file");
        settings.push(("RINGFENCE_POLICY", &folder_text));
    }
    place.serve_with(&settings)
}

const ALLOW: &str = "package ringfence\n\ndecision := {\"decision\": \"allow\"}\n";

fn receipt(server: &Server, call: &Value) -> Value {
    let path = call["links"]["receipt"].as_str().expect("a path");
    server.ask("GET", path, None).json()
}

/// Fetches with urllib and prints the text, or the status and verdict of the refusal.
fn fetches(urls: &[String]) -> String {
    format!(
        "import urllib.request, urllib.error\n\
         for url in {urls:?}:\n    \
         try: print(urllib.request.urlopen(url, timeout=20).read().decode())\n    \
         except urllib.error.HTTPError as e: print(e.code, e.headers.get('x-ringfence-verdict'))\n    \
         except OSError as e: print('no network')\n"
    )
}

#[test]
fn a_call_that_asks_for_hosts_is_held_and_then_reaches_those_alone() {
    let place = Place::new();
    let site = greeting(&place);
    let server = serve(&place, site, None);
    let urls = [format!("http://{site}/hello"), "http://elsewhere.example/".to_owned()];
    let args = json!({"code": fetches(&urls), "hosts": [site.to_string()]});
    let held = server.call("code_execute", &args);
    assert_eq!(held["state"], "held", "{held}");
    assert!(held.to_string().contains(&format!("network access to `{site}`")), "{held}");
    let id = held["id"].as_str().expect("an id");
    let key = server.client(&["key", "create", "boss", "--scope", "approve"]);
    let approve = ["approve", id, "--yes", "--data", &server.data];
    ran(command(&approve).env("RINGFENCE_KEY", key.stdout.trim())).worked();
    let call = || server.ask("GET", &format!("/v1/calls/{id}"), None).json();
    until("the call to end", || call()["state"] == "finished");
    let call = call();
    let printed = call["result"]["stdout"].as_str().unwrap_or_default().to_owned();
    assert_eq!(printed, "hello from outside\n403 host_refused\n", "{call}");
    let receipt = receipt(&server, &call);
    assert_eq!(receipt["network"], json!([site.to_string()]));
    let flow = &receipt["egress"][0];
    assert_eq!((&flow["host"], &flow["method"]), (&json!("127.0.0.1"), &json!("GET")), "{receipt}");
    assert_eq!((&flow["bytes"], &flow["requests"]), (&json!(18), &json!(1)), "{receipt}");
    assert_eq!(receipt["egress"][1]["verdict"], "host_refused", "{receipt}");
    // The control: without hosts nothing is held, and there is no network.
    let call = server.call("code_execute", &json!({"code": fetches(&urls[..1])}));
    assert_eq!(call["result"]["stdout"], "no network\n", "{call}");
    let body = json!({"tool": "code_execute", "args": {"code": "", "hosts": ["http://x", "a b"]}});
    let bad = server.ask("POST", "/v1/calls", Some(&body));
    assert_eq!(bad.status, 422);
    let bad = bad.json().to_string();
    assert!(bad.contains("http://x") && bad.contains("a b"), "{bad}");
}

#[test]
fn a_skill_declares_hosts_and_policy_grants_a_part_of_them() {
    let place = Place::new();
    let site = greeting(&place);
    let other = greeting(&place);
    let folder = place.skills().join("reader");
    std::fs::create_dir_all(&folder).expect("a folder");
    let manifest = format!(
        "name: reader\nversion: 1.0.0\ndescription: Reads a page.\nhandler: handler.run\n\
         safety_flags: [network_access]\nnetwork: [\"{site}\", \"{other}\"]\n\
         limits:\n  timeout_seconds: 30\n"
    );
    let handler = "import urllib.request, urllib.error\n\
        def run(url):\n    \
        try: return {'text': urllib.request.urlopen(url, timeout=20).read().decode()}\n    \
        except urllib.error.HTTPError as e: return {'text': e.headers.get('x-ringfence-verdict')}\n";
    let schema = r#"{"input": {"type": "object", "properties": {"url": {"type": "string"}}}, "output": {"type": "object"}}"#;
    for (name, text) in
        [("skill.yaml", &*manifest), ("handler.py", handler), ("schema.json", schema)]
    {
        std::fs::write(folder.join(name), text).expect("a file");
    }
    let rules = format!(
        "package ringfence\n\ndecision := {{\"decision\": \"allow\", \"obligations\": \
         {{\"network\": [\"{site}\"]}}}} if input.network[_] == \"{other}\"\n"
    );
    let server = serve(&place, site, Some(&rules));
    for _ in 0..2 {
        let read = server.call("reader", &json!({"url": format!("http://{site}/hello")}));
        assert_eq!(read["result"]["text"], "hello from outside", "{read}");
        assert_eq!(receipt(&server, &read)["network"], json!([site.to_string()]));
    }
    let refused = server.call("reader", &json!({"url": format!("http://{other}/hello")}));
    assert_eq!(refused["result"]["text"], "host_refused", "{refused}");
}

/// A package index with one wheel, and a bare repository, as plain files.
#[expect(clippy::disallowed_methods, reason = "a test publishes with the programs of the host")]
pub(crate) fn publish(folder: &Path) {
    let script = r#"
import os, subprocess, sys, zipfile
root = sys.argv[1]
os.makedirs(root + '/simple/greet')
wheel = root + '/simple/greet/greet-1.0-py3-none-any.whl'
with zipfile.ZipFile(wheel, 'w') as z:
    z.writestr('greet.py', 'WORDS = "installed"\n')
    z.writestr('greet-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\nName: greet\nVersion: 1.0\n')
    z.writestr('greet-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
    z.writestr('greet-1.0.dist-info/RECORD', '')
open(root + '/simple/greet/index.html', 'w').write('<a href="greet-1.0-py3-none-any.whl">greet-1.0-py3-none-any.whl</a>')
env = dict(os.environ, GIT_CONFIG_GLOBAL='/dev/null', GIT_AUTHOR_NAME='t', GIT_AUTHOR_EMAIL='t@t', GIT_COMMITTER_NAME='t', GIT_COMMITTER_EMAIL='t@t')
git = lambda *args: subprocess.run(['git', *args], check=True, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
git('init', '-q', root + '/tree')
open(root + '/tree/file', 'w').write('cloned\n')
git('-C', root + '/tree', 'add', '.')
git('-C', root + '/tree', 'commit', '-q', '-m', 'first')
git('clone', '-q', '--bare', root + '/tree', root + '/repo.git')
git('-C', root + '/repo.git', 'update-server-info')
"#;
    let mut python = std::process::Command::new("python3");
    ran(python.args(["-c", script]).arg(folder)).worked();
}

/// Runs a program in a session sandbox.
fn exec(server: &Server, id: &str, argv: &[&str]) -> Ran {
    let mut args = vec!["sandbox", "exec", id, "--data", &server.data, "--"];
    args.extend(argv);
    ran(&mut command(&args))
}

#[test]
fn usual_programs_work_in_a_session_sandbox() {
    let place = Place::new();
    let folder = place.path("site");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("hello"), "hello from outside").expect("a file");
    publish(&folder);
    let site = site(&folder);
    let server = serve(&place, site, Some(ALLOW));
    let host = site.to_string();
    let made = server.client(&["sandbox", "create", "--allow-host", &host]).worked();
    let id = made.stdout.trim().to_owned();
    let run = |script: &str| {
        let script = script.replace("SITE", &host);
        exec(&server, &id, &["sh", "-c", &script])
    };
    let printed = |script: &str| {
        let ran = run(script);
        assert_eq!(ran.code, Some(0), "{script}: {ran:?}");
        ran.stdout
    };
    assert_eq!(printed("curl -sS http://SITE/hello"), "hello from outside");
    assert_eq!(
        printed(
            "python3 -c \"import urllib.request as u; print(u.urlopen('http://SITE/hello').read().decode())\""
        ),
        "hello from outside\n"
    );
    assert_eq!(
        printed(
            "node -e \"fetch('http://SITE/hello').then(a => a.text()).then(t => console.log(t))\""
        ),
        "hello from outside\n"
    );
    assert_eq!(
        printed(
            "node -e \"require('http').get('http://SITE/hello', a => a.on('data', d => console.log(d + '')))\""
        ),
        "hello from outside\n"
    );
    assert_eq!(
        printed("git clone -q http://SITE/repo.git /tmp/clone && cat /tmp/clone/file"),
        "cloned\n"
    );
    let pip = "PIP=$(ls /usr/share/python-wheels/pip-*.whl); python3 $PIP/pip install -q --root-user-action ignore \
               --disable-pip-version-check --no-cache-dir --trusted-host 127.0.0.1 \
               --index-url http://SITE/simple --target /workspace/lib greet \
               && PYTHONPATH=/workspace/lib python3 -c 'import greet; print(greet.WORDS)'";
    assert_eq!(printed(pip), "installed\n");
    // A program that ignores the proxy has no network, and neither has one without a grant.
    let direct = run("curl -sS --noproxy '*' --max-time 5 http://SITE/hello");
    assert_ne!(direct.code, Some(0), "{direct:?}");
    let other = server.client(&["sandbox", "create"]).worked().stdout.trim().to_owned();
    let url = format!("http://{host}/hello");
    let none = exec(&server, &other, &["curl", "-sS", &url]);
    assert_ne!(none.code, Some(0), "{none:?}");
    // Flows are on the receipt of the program that made them.
    let listed = server.client(&["calls", "--json"]).worked();
    let ids = listed.stdout.lines().filter_map(|line| {
        let call: Value = serde_json::from_str(line).ok()?;
        (call["tool"] == "sandbox_exec").then(|| call["id"].as_str().map(str::to_owned))?
    });
    let calls: Vec<Value> =
        ids.map(|id| server.ask("GET", &format!("/v1/calls/{id}"), None).json()).collect();
    let cloned = calls.iter().find(|call| call["args"].to_string().contains("git clone"));
    let cloned = cloned.unwrap_or_else(|| panic!("{}", listed.stdout));
    assert_eq!(cloned["network"], json!([host]), "{cloned}");
    assert!(cloned["egress"][0]["requests"].as_u64() > Some(2), "{cloned}");
    let direct = calls.iter().find(|call| call["args"].to_string().contains("--noproxy"));
    assert_eq!(direct.map(|call| &call["egress"]), Some(&Value::Null));
    server.client(&["sandbox", "rm", &id]).worked();
}
