//! Rich results and errors of interpreters.

use ringfence_sandbox::session::interpreter::Status;
use serde_json::json;

use crate::support::{Host, execute, value};

#[tokio::test]
async fn python_values_bring_their_representations() {
    let host = Host::new().await;
    let python = host.python().await;
    let code = "class Rich:\n  def __repr__(self): return 'plain'\n  def _repr_html_(self): return '<b>x</b>'\n  \
                def _repr_svg_(self): return '<svg/>'\n  def _repr_png_(self): return b'\\x89PNG'\n  \
                def _repr_json_(self): return {'a': [1, None]}\nRich()";
    let all = execute(&python, code).await;
    assert_eq!((all.status, all.results.len()), (Status::Ok, 1), "{all:?}");
    let data = &all.results[0].data;
    assert!(all.results[0].main);
    let expected = [
        ("application/json", json!({"a": [1, null]})),
        ("image/png", json!("iVBORw==")),
        ("image/svg+xml", json!("<svg/>")),
        ("text/html", json!("<b>x</b>")),
        ("text/plain", json!("plain")),
    ];
    for (kind, value) in expected {
        assert_eq!(data.get(kind), Some(&value), "{kind} of {data:?}");
    }
    host.close().await;
}

#[tokio::test]
async fn javascript_values_bring_their_representations() {
    let host = Host::new().await;
    let node = host.javascript().await;
    let code = "display.html('<b>'); display.png(Buffer.from([1, 2])); display.svg('<svg/>'); display.json({a: 1}); [1, 2]";
    let all = execute(&node, code).await;
    let shown: Vec<_> = all
        .results
        .iter()
        .map(|rich| (rich.main, serde_json::to_value(&rich.data).expect("json")))
        .collect();
    let expected = [
        (false, json!({"text/html": "<b>", "text/plain": "<html>"})),
        (false, json!({"image/png": "AQI=", "text/plain": "<png>"})),
        (false, json!({"image/svg+xml": "<svg/>", "text/plain": "<svg>"})),
        (false, json!({"application/json": {"a": 1}, "text/plain": "{ a: 1 }"})),
        (true, json!({"text/plain": "[ 1, 2 ]"})),
    ];
    assert_eq!(shown, expected);
    host.close().await;
}

#[tokio::test]
async fn errors_come_with_their_traceback() {
    let host = Host::new().await;
    let python = host.python().await;
    let all = execute(&python, "def f(n):\n    return 1 / n\nf(0)").await;
    let error = all.error.expect("an error");
    assert_eq!((all.status, error.name.as_str()), (Status::Error, "ZeroDivisionError"));
    let traceback = error.traceback.join("\n");
    assert!(
        traceback.contains("line 2, in f") && traceback.contains("return 1 / n"),
        "{traceback}"
    );
    assert!(!traceback.contains(".ringfence"), "no frame of ours: {traceback}");
    let syntax = execute(&python, "def (").await.error.expect("an error");
    assert_eq!(syntax.name, "SyntaxError");
    let node = host.javascript().await;
    let all = execute(&node, "function f() {\n  return null.x\n}\nf()").await;
    let error = all.error.expect("an error");
    assert_eq!((all.status, error.name.as_str()), (Status::Error, "TypeError"));
    assert!(error.traceback.join("\n").contains("at f (<cell 1>:2:15)"), "{:?}", error.traceback);
    assert_eq!(value(&node, "'alive'").await, "'alive'");
    host.close().await;
}

#[tokio::test]
async fn code_may_await_at_its_top_level() {
    let host = Host::new().await;
    let python = host.python().await;
    let code = "import asyncio\nasync def f():\n  await asyncio.sleep(0.01)\n  return 5\ny = await f()\ny + 1";
    assert_eq!(value(&python, code).await, "6");
    let node = host.javascript().await;
    let code = "const later = await new Promise((r) => setTimeout(r, 5, 7)); later";
    assert_eq!(value(&node, code).await, "7");
    host.close().await;
}
