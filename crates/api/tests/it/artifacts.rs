//! Artifacts over HTTP: files in and out of calls in real sandboxes, versions, lineage, taint.

use ringfence_policy::Bundle;
use ringfence_types::{Digest, Scope};
use serde_json::{Value, json};

use crate::support::{Answer, Plan, Server, send, with_json};

/// Makes a call and returns it when it has ended.
async fn call(server: &Server, body: &Value) -> Value {
    let answer = server.post("/v1/calls", body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

async fn content(server: &Server, id: &Value) -> Answer {
    let id = id.as_str().expect("an id");
    server.get(&format!("/v1/artifacts/{id}/content")).await
}

/// Stores a text as an artifact and returns the answer.
async fn store(server: &Server, title: &str, text: &str, labels: &[&str]) -> Value {
    let body = json!({"title": title, "content": text, "labels": labels});
    let answer = server.post("/v1/artifacts", &body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()
}

/// Code that reads what it is given and leaves two files, in each language.
const PROGRAMS: [(&str, &str, &str); 3] = [
    (
        "python",
        "zygote",
        "import os, sys\n\
         text = open('data/in.txt').read() + sys.stdin.read() + os.environ['MODE']\n\
         os.makedirs('out')\n\
         open('out/result.txt', 'w').write(text)\n\
         open('.hidden', 'w').write('x')\n\
         open('plot.svg', 'w').write('<svg/>')\n",
    ),
    (
        "javascript",
        "warm",
        "const fs = require('fs');\n\
         const text = fs.readFileSync('data/in.txt', 'utf8') + fs.readFileSync(0, 'utf8') \
         + process.env.MODE;\n\
         fs.mkdirSync('out');\n\
         fs.writeFileSync('out/result.txt', text);\n\
         fs.writeFileSync('.hidden', 'x');\n\
         fs.writeFileSync('plot.svg', '<svg/>');\n",
    ),
    (
        "bash",
        "cold",
        "mkdir out; { cat data/in.txt; cat; printf %s \"$MODE\"; } > out/result.txt\n\
         echo x > .hidden; printf '<svg/>' > plot.svg\n",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_go_into_every_kind_of_sandbox_and_come_out_as_artifacts() {
    let server = Server::of(Plan::sandboxed()).await;
    let given = store(&server, "in.txt", "given ", &[]).await;
    for (language, tier, code) in PROGRAMS {
        let body = json!({
            "tool": "code_execute", "args": {"code": code, "language": language},
            "files": {"data/in.txt": {"artifact": given["digest"]}},
            "stdin": "read ", "env": {"MODE": "set"}, "limits": {"wall_secs": 30},
        });
        let done = call(&server, &body).await;
        assert_eq!(done["error"], Value::Null, "{language}: {done:#}");
        assert_eq!(done["isolation"], tier);
        let files = done["artifacts"].as_array().expect("files");
        let paths: Vec<_> = files.iter().map(|file| file["path"].as_str().unwrap()).collect();
        assert_eq!(paths, ["out/result.txt", "plot.svg"], "{language}");
        assert_eq!(files[0]["digest"], json!(Digest::of(b"given read set")), "{language}");
        assert_eq!(files[1]["media_type"], "image/svg+xml");
        let read = content(&server, &files[0]["artifact"]).await;
        assert_eq!((read.status, read.bytes.as_slice()), (200, b"given read set".as_slice()));
        assert_eq!(read.header("content-disposition"), Some("attachment"));
        let listed = &done["result"]["files"];
        assert_eq!(listed[0]["artifact"], files[0]["artifact"], "{done:#}");
        let id = done["id"].as_str().unwrap();
        let receipt = server.get(&format!("/v1/calls/{id}/receipt")).await.json();
        assert_eq!(receipt["files"][0]["digest"], files[0]["digest"]);
        assert_eq!(receipt["inputs"][0]["artifact"], given["id"]);
        assert_eq!(receipt["limits"]["wall"]["secs"], 30);
        let shown = server.get(&format!("/v1/calls/{id}")).await.json();
        assert_eq!(shown["inputs"], receipt["inputs"]);
        assert_eq!(shown["artifacts"], done["artifacts"]);
        let made = server.get(&format!("/v1/artifacts?call_id={id}")).await.json();
        assert_eq!(made["artifacts"].as_array().map(Vec::len), Some(2), "{made}");
    }
    server.stop().await;
}

/// Skill that copies its input and says what it found.
const COPY: [(&str, &str); 3] = [
    (
        "skill.yaml",
        "name: copy\nversion: 1.0.0\ndescription: Copies.\nhandler: handler.run\n\
         safety_flags: [none]\noutputs: ['*.txt']\n",
    ),
    (
        "schema.json",
        r#"{"input": {"type": "object", "properties": {"name": {"type": "string"}},
            "required": ["name"], "additionalProperties": false}, "output": {"type": "object"}}"#,
    ),
    (
        "handler.py",
        "import json\n\
         def run(name):\n    \
             text = open('/workspace/input-files/' + name).read()\n    \
             open('copy.txt', 'w').write(text)\n    \
             open('copy.bin', 'w').write(text)\n    \
             return {'text': text, 'json': json.__file__}\n",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_skill_finds_its_files_in_a_folder_of_their_own() {
    let server = Server::of(Plan::sandboxed().skills(vec![("copy", COPY.to_vec())])).await;
    // A file that would be imported instead of a module of Python, were it beside the skill.
    let body = json!({
        "tool": "copy", "args": {"name": "json.py"}, "files": {"json.py": "raise SystemExit(9)"},
    });
    for _ in 0..2 {
        let done = call(&server, &body).await;
        assert_eq!(done["result"]["text"], "raise SystemExit(9)", "{done:#}");
        assert!(done["result"]["json"].as_str().unwrap().starts_with("/usr/"), "{done:#}");
        let files = done["artifacts"].as_array().unwrap();
        assert_eq!(files.len(), 1, "only what the skill names: {done:#}");
        assert_eq!(files[0]["path"], "copy.txt");
    }
    let env = json!({"tool": "copy", "args": {"name": "x"}, "env": {"PYTHONPATH": "/workspace"}});
    let refused = server.post("/v1/calls", &env).await;
    assert_eq!((refused.status, refused.problem().as_str()), (422, "args_invalid"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_is_bounded_and_what_is_not_stored_is_named() {
    let mut plan = Plan::sandboxed();
    plan.plane.tune = Box::new(|settings| {
        settings.artifacts.files_per_call = 3;
        settings.artifacts.bytes_per_call = 100;
        settings.artifacts.bytes_per_tenant = 150;
    });
    let server = Server::of(plan).await;
    let code = "for n in range(5):\n    open(f'{n}.txt', 'w').write('x' * 20)\n\
                open('big', 'w').write('y' * 101)\nimport os; os.symlink('/etc/passwd', 'link')";
    let done = call(&server, &json!({"tool": "code_execute", "args": {"code": code}})).await;
    assert_eq!(done["artifacts"].as_array().map(Vec::len), Some(3), "{done:#}");
    assert_eq!(done["artifacts_omitted"]["count"], 3, "{done:#}");
    assert_eq!(done["artifacts_omitted"]["first"][2]["path"], "big");
    let only = json!({
        "tool": "code_execute", "args": {"code": code, "outputs": ["4.*", "link"]},
    });
    let done = call(&server, &only).await;
    assert_eq!(done["artifacts"].as_array().map(Vec::len), Some(1), "{done:#}");
    let stats = server.get("/v1/artifacts/stats").await.json();
    assert_eq!((&stats["bytes"], &stats["quota_bytes"]), (&json!(80), &json!(150)));
    let late = call(&server, &json!({"tool": "code_execute", "args": {"code": code}})).await;
    assert_eq!(late["artifacts"].as_array().map(Vec::len), Some(3));
    let full = call(&server, &json!({"tool": "code_execute", "args": {"code": code}})).await;
    assert_eq!(full["artifacts"], Value::Null, "{full:#}");
    let why = full["artifacts_omitted"]["first"][0]["reason"].as_str().unwrap();
    assert!(why.contains("quota"), "{why}");
    let full = json!({"title": "a", "content": "12345678901"});
    assert_eq!(server.post("/v1/artifacts", &full).await.problem(), "storage_budget");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_inputs_are_named_and_leave_no_trace() {
    let server = Server::start().await;
    let missing = Digest::of(b"never stored");
    let bad = json!({
        "tool": "code_execute", "args": {"code": "1"},
        "files": {"../up": "x", "a": {"artifact": "x"}, "b": {"base64": "?"}, "c": 7},
        "stdin": {"more": 1}, "env": {"A=B": "c", "RINGFENCE_X": "1"},
        "limits": {"wall_secs": 999_999, "colour": 1}, "outputs": [7],
    });
    let refused = server.post("/v1/calls", &bad).await;
    assert_eq!((refused.status, refused.problem().as_str()), (422, "args_invalid"));
    assert!(refused.pointers().len() >= 9, "{:?}", refused.pointers());
    let too_much = json!({
        "tool": "code_execute", "args": {"code": "1"}, "limits": {"wall_secs": 999_999},
    });
    let refused = server.post("/v1/calls", &too_much).await;
    assert_eq!(refused.pointers(), ["/args/$given/limits/wall_secs"], "{refused:?}");
    let gone = json!({
        "tool": "code_execute", "args": {"code": "1"}, "files": {"a": {"artifact": missing}},
    });
    let refused = server.post("/v1/calls", &gone).await;
    assert_eq!(refused.pointers(), ["/args/$given/files/a"], "{refused:?}");
    let none = json!({"tool": "echo", "args": {"text": "x"}, "stdin": "y"});
    assert_eq!(server.post("/v1/calls", &none).await.problem(), "args_invalid");
    let twice = json!({
        "tool": "code_execute", "args": {"code": "1", "$given": {}}, "stdin": "y",
    });
    assert_eq!(server.post("/v1/calls", &twice).await.problem(), "body_invalid");
    let calls = server.get("/v1/calls").await.json();
    assert_eq!(calls["calls"], json!([]));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_are_walls_for_artifacts() {
    let server = Server::of(Plan::sandboxed()).await;
    let own = store(&server, "secret.txt", "mine", &[]).await;
    let key = server.key("other", &[Scope::Call, Scope::Read]).await;
    let id = own["id"].as_str().unwrap();
    for path in ["", "/content", "/versions", "/verdicts", "/verify", "/provenance", "/lineage"] {
        let request = server.bare("GET", &format!("/v1/artifacts/{id}{path}")).bearer_auth(&key);
        assert_eq!(send(request).await.status, 404, "{path}");
    }
    for wanted in [&own["digest"], &own["id"]] {
        let body = json!({
            "tool": "code_execute", "args": {"code": "print(open('a').read())"},
            "files": {"a": {"artifact": wanted}},
        });
        let request = with_json(server.bare("POST", "/v1/calls").bearer_auth(&key), &body);
        assert_eq!(send(request).await.problem(), "args_invalid");
        let own = call(&server, &body).await;
        assert_eq!(own["result"]["stdout"], "mine\n", "the control: {own:#}");
    }
    let removing = server.bare("DELETE", &format!("/v1/artifacts/{id}")).bearer_auth(&key);
    assert_eq!(send(removing).await.status, 404);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_artifact_has_versions_verdicts_and_a_way_back() {
    let server = Server::start().await;
    let made = store(&server, "notes.md", "one", &["internal"]).await;
    let id = made["id"].as_str().unwrap();
    let put = |text: &'static str, query: &str| {
        let path = format!("/v1/artifacts/{id}/content{query}");
        let request = server.request("PUT", &path);
        send(request.header("content-type", "application/octet-stream").body(text))
    };
    let second = put("two", "?changes=rewritten&after=1").await;
    assert_eq!((second.status, &second.json()["version"]), (200, &json!(2)), "{second:?}");
    assert_eq!(put("late", "?after=1").await.problem(), "conflict");
    let back = server.post(&format!("/v1/artifacts/{id}/rollback"), &json!({"version": 1})).await;
    assert_eq!(back.json()["version"], 3, "{back:?}");
    let verdict = json!({"type": "review", "decision": "accept", "score": 0.9, "reviewer": "ann"});
    let judged = server.post(&format!("/v1/artifacts/{id}/verdicts"), &verdict).await;
    assert_eq!((judged.status, &judged.json()["verdict"]), (200, &json!(1)), "{judged:?}");
    let wrong = json!({"type": "mood", "decision": "accept"});
    let wrong = server.post(&format!("/v1/artifacts/{id}/verdicts"), &wrong).await;
    assert_eq!((wrong.status, wrong.problem().as_str()), (422, "args_invalid"));
    let versions = server.get(&format!("/v1/artifacts/{id}/versions")).await.json();
    let list = versions["versions"].as_array().unwrap();
    let numbers: Vec<_> = list.iter().map(|v| v["version"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [3, 2, 1]);
    assert_eq!((&list[0]["copy_of"], &list[0]["author"]), (&json!(1), &json!("system-rollback")));
    assert_eq!(list[0]["labels"], json!(["internal", "upload"]), "{versions:#}");
    let (first, newest) = (&list[2]["digest"], &list[0]["digest"]);
    assert_eq!(first, newest);
    let shown = server.get(&format!("/v1/artifacts/{id}")).await.json();
    assert_eq!((&shown["newest"], &shown["kind"]), (&json!(3), &json!("document")));
    let old = server.get(&format!("/v1/artifacts/{id}/content?version=2")).await;
    assert_eq!(old.bytes, b"two");
    let verified = server.get(&format!("/v1/artifacts/{id}/verify?version=2")).await.json();
    assert_eq!(verified["is_valid"], true, "{verified}");
    let found = server.get("/v1/artifacts?title=NOTES&label=internal&type=document").await.json();
    assert_eq!(found["artifacts"][0]["id"], made["id"]);
    let by_content = server.get("/v1/artifacts?digest=").await;
    assert_eq!(by_content.status, 400);
    let provenance = server.get(&format!("/v1/artifacts/{id}/provenance")).await.json();
    let call_id = provenance["versions"][2]["call_id"].as_str().unwrap();
    assert_eq!(
        provenance["versions"][2]["tool"].as_str().unwrap().split(' ').next(),
        Some("artifact_write")
    );
    assert_eq!(server.get(&format!("/v1/calls/{call_id}/receipt")).await.status, 200);
    assert_eq!(server.delete(&format!("/v1/artifacts/{id}")).await.status, 200);
    assert_eq!(server.get(&format!("/v1/artifacts/{id}")).await.status, 404);
    assert_eq!(server.delete(&format!("/v1/artifacts/{id}")).await.status, 404);
    let stats = server.get("/v1/artifacts/stats").await.json();
    assert_eq!((&stats["artifacts"], &stats["bytes"]), (&json!(0), &json!(0)));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lineage_leads_from_an_artifact_to_everything_it_came_from() {
    let server = Server::of(Plan::sandboxed()).await;
    let source = store(&server, "source.txt", "data", &[]).await;
    let step = async |artifact: &Value| {
        let body = json!({
            "tool": "code_execute", "args": {"code": "open('b', 'w').write(open('a').read() + '!')"},
            "files": {"a": {"artifact": artifact}},
        });
        let done = call(&server, &body).await;
        (done["id"].as_str().unwrap().to_owned(), done["artifacts"][0]["artifact"].clone())
    };
    let (first, middle) = step(&source["id"]).await;
    let (second, last) = step(&middle).await;
    let last = last.as_str().unwrap();
    let path = format!("/v1/artifacts/{last}/lineage?direction=backward");
    let graph = server.get(&path).await.json();
    let ids: Vec<_> =
        graph["nodes"].as_array().unwrap().iter().map(|n| n["id"].as_str().unwrap()).collect();
    let source_id = source["id"].as_str().unwrap();
    for expected in [
        format!("artifact:{last}@1"),
        format!("call:{second}"),
        format!("artifact:{}@1", middle.as_str().unwrap()),
        format!("call:{first}"),
        format!("artifact:{source_id}@1"),
        format!("call:{}", source["call_id"].as_str().unwrap()),
    ] {
        assert!(ids.contains(&expected.as_str()), "{expected} is not in {ids:#?}");
    }
    let kinds = |kind: &str| ids.iter().filter(|id| id.starts_with(kind)).count();
    assert_eq!((kinds("tool:"), kinds("policy:")), (2, 1), "{ids:#?}");
    let near = server.get(&format!("{path}&depth=1")).await.json();
    assert_eq!(near["nodes"].as_array().map(Vec::len), Some(2), "{near:#}");
    let forward = format!("/v1/lineage?node=artifact:{source_id}@1&direction=forward");
    let forward = server.get(&forward).await.json();
    assert_eq!(forward["nodes"].as_array().map(Vec::len), Some(5), "{forward:#}");
    let cut = server.get(&format!("{path}&limit=2")).await.json();
    assert_eq!(cut["is_cut"], true);
    let svg = server.get(&format!("{path}&format=svg")).await;
    assert_eq!(svg.header("content-type"), Some("image/svg+xml"));
    let text = String::from_utf8(svg.bytes).unwrap();
    assert!(text.contains("source.txt v1") && text.contains("code_execute"), "{text}");
    let removed = server.delete(&format!("/v1/artifacts/{source_id}")).await;
    assert_eq!(removed.status, 200, "{removed:?}");
    let after = server.get(&path).await.json();
    assert_eq!(after["edges"], graph["edges"], "lineage stays");
    server.stop().await;
}

/// The worked rule of the documentation, and one that shows the labels.
const TAINT: &str = "package ringfence\n\n\
    default decision := {\"decision\": \"allow\", \"reasons\": []}\n\n\
    decision := {\"decision\": \"hold\", \"reasons\": [{\"rule\": \"web_to_mail\", \"message\": \"web data\"}]} if {\n\
    \t\"web\" in input.taint\n\tinput.tool.name == \"mail\"\n\tinput.approval == null\n}\n";

const MAIL: [(&str, &str); 3] = [
    (
        "skill.yaml",
        "name: mail\nversion: 1.0.0\ndescription: Mails.\nhandler: handler.run\nsafety_flags: [none]\n",
    ),
    ("schema.json", r#"{"input": {"type": "object"}, "output": {"type": "object"}}"#),
    ("handler.py", "def run():\n    return {}\n"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_from_the_web_does_not_reach_mail_without_approval() {
    let bundle = Bundle::from_files([("taint.rego", TAINT)]).expect("rules");
    let plan = Plan::sandboxed().bundle(&bundle).skills(vec![("mail", MAIL.to_vec())]);
    let server = Server::of(plan).await;
    let web = store(&server, "page.html", "from the web", &["web"]).await;
    let plain = store(&server, "plain.txt", "our own", &[]).await;
    let copy = json!("open('copy.txt', 'w').write(open('in').read().upper())");
    let copied = async |artifact: &Value| {
        let body = json!({
            "tool": "code_execute", "args": {"code": copy}, "files": {"in": {"artifact": artifact}},
        });
        call(&server, &body).await
    };
    let mail = async |artifact: &Value| {
        let body = json!({"tool": "mail", "args": {}, "files": {"body": {"artifact": artifact}}});
        server.post("/v1/calls", &body).await.json()
    };
    let derived = copied(&web["id"]).await;
    assert_eq!(derived["taint"], json!(["upload", "web"]), "{derived:#}");
    let derived = &derived["artifacts"][0]["digest"];
    let held = mail(derived).await;
    assert_eq!(
        (&held["state"], &held["reasons"][0]["rule"]),
        (&json!("held"), &json!("web_to_mail"))
    );
    assert_eq!(mail(&web["digest"]).await["state"], "held");
    let free = copied(&plain["id"]).await["artifacts"][0]["digest"].clone();
    assert_eq!(mail(&free).await["state"], "finished", "the control");
    // The same content under another name does not wash the label off.
    let copy = store(&server, "clean.txt", "FROM THE WEB", &[]).await;
    assert_eq!(mail(&copy["id"]).await["state"], "held");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_paths_of_tooloo_answer_in_its_forms() {
    let server = Server::start().await;
    let body = json!({
        "type": "code", "title": "main.py", "content": "print(1)", "description": "first",
        "mimeType": "text/x-python", "tags": ["demo"], "relatedIntentId": "i-7", "createdBy": "ann",
    });
    let made = server.post("/api/v1/artifacts/register", &body).await.json();
    assert_eq!((&made["ok"], &made["versionId"]), (&json!(true), &json!(1)), "{made}");
    let id = made["artifactId"].as_str().unwrap();
    let path = |rest: &str| format!("/api/v1/artifacts/{id}{rest}");
    let update =
        json!({"content": "print(2)", "changes": "two", "author": "bob", "confidence": 0.5});
    let updated = server.post(&path("/update"), &update).await.json();
    assert_eq!(updated["versionId"], 2, "{updated}");
    let verdict = json!({"type": "test", "decision": "reject", "score": 0.1, "reviewer": "ci"});
    assert_eq!(server.post(&path("/verdict"), &verdict).await.json()["verdictId"], 1);
    let back = server.post(&path("/rollback"), &json!({"targetVersionId": 1})).await.json();
    assert_eq!((&back["rolledBackTo"], &back["newVersionId"]), (&json!(1), &json!(3)), "{back}");
    let whole = server.get(&path("")).await.json();
    let versions = whole["artifact"]["versions"].as_array().unwrap();
    assert_eq!(versions.len(), 3);
    assert_eq!(versions[1]["verdicts"][0]["decision"], "reject", "{whole:#}");
    assert_eq!(versions[2]["content"], "print(1)");
    assert_eq!(whole["artifact"]["metadata"]["createdBy"], "ann");
    let one = server.get(&path("?versionId=2")).await.json();
    assert_eq!(one["artifact"]["versions"][0]["content"], "print(2)");
    let history = server.get(&path("/history")).await.json();
    assert_eq!(history["history"].as_array().map(Vec::len), Some(3));
    let provenance = server.get(&path("/provenance")).await.json();
    assert_eq!(provenance["provenance"]["intentId"], "i-7");
    assert_eq!(provenance["provenance"]["scoreTimeline"][0]["score"], 0.1);
    let found = server.get("/api/v1/artifacts/search?type=code&tag=demo&intentId=i-7").await.json();
    assert_eq!((&found["ok"], &found["count"]), (&json!(true), &json!(1)), "{found}");
    let stats = server.get("/api/v1/artifacts/stats").await.json();
    assert_eq!(stats["stats"]["totalVersions"], 3, "{stats}");
    assert_eq!(server.get(&path("/export")).await.json()["export"]["id"], id);
    let missing = "/api/v1/artifacts/019a8b7c-1234-7abc-8def-0123456789ab";
    let missing = server.get(missing).await;
    assert_eq!((missing.status, &missing.json()["ok"]), (404, &json!(false)));
    let wrong = server.post("/api/v1/artifacts/register", &json!({"title": 7})).await;
    assert_eq!((wrong.status, &wrong.json()["ok"]), (422, &json!(false)), "{wrong:?}");
    server.stop().await;
}
