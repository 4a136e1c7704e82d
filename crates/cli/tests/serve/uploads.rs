//! Uploaded skills are in the store: on every server, and there again when a folder is lost.

use std::fs;

use serde_json::json;

use crate::{
    ledger::meddle,
    postgres::Host,
    support::{Place, Server, until},
};

/// Uploads a skill that gives back its version.
fn upload(server: &Server, version: &str) {
    let yaml = format!(
        "name: sent\nversion: {version}\ndescription: Tells its version.\nhandler: handler.run\n\
         safety_flags: [none]\n"
    );
    let schema = json!({"input": {"type": "object"}, "output": {"type": "object"}}).to_string();
    let handler = format!("def run():\n    return {{'version': '{version}'}}\n");
    let files = json!({"skill.yaml": yaml, "schema.json": schema, "handler.py": handler});
    let answer = server.ask("POST", "/skills/register", Some(&json!({"files": files})));
    assert_eq!(answer.status, 201, "{answer:?}");
}

/// The version that runs; none without the skill.
fn runs(server: &Server) -> Option<String> {
    let body = json!({"tool": "sent", "args": {}});
    let answer = server.ask("POST", "/v1/calls", Some(&body));
    match answer.status {
        404 => None,
        200 => {
            let version = &answer.json()["result"]["version"];
            Some(version.as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned())
        }
        _ => panic!("{answer:?}"),
    }
}

#[test]
fn an_uploaded_skill_is_on_every_server_until_it_is_removed_on_any() {
    let one = Host::first();
    one.run(&["migrate"]).worked();
    let other = Host::second(&one);
    let (first, second) = (one.serve(), other.serve());
    assert_eq!(runs(&second), None);
    upload(&first, "1.0.0");
    assert_eq!(runs(&first).as_deref(), Some("1.0.0"), "at once where it was uploaded");
    until("the other to have it", || runs(&second).as_deref() == Some("1.0.0"));
    upload(&second, "1.1.0");
    until("the newer version to be on both", || runs(&first).as_deref() == Some("1.1.0"));
    // What another server has taken is refused here, whether or not it is known here by now.
    let taken = json!({"files": {
        "skill.yaml": "name: sent\nversion: 1.1.0\ndescription: Other.\nhandler: handler.run\n",
        "schema.json": "{\"input\": {\"type\": \"object\"}, \"output\": {\"type\": \"object\"}}",
        "handler.py": "def run():\n    return {}\n",
    }});
    let answer = first.ask("POST", "/skills/register", Some(&taken));
    assert_eq!((answer.status, &answer.json()["code"]), (409, &json!("tool_taken")));
    // The folder is lost while the server runs, and while it does not.
    let copies = other.place.data().join("skills");
    fs::remove_dir_all(&copies).expect("the copies are removed");
    until("the copies to be back", || {
        fs::read_dir(&copies).is_ok_and(|folders| folders.count() == 2)
    });
    assert_eq!(second.stop(), Some(0));
    fs::remove_dir_all(&copies).expect("the copies are removed");
    let second = other.serve();
    assert_eq!(runs(&second).as_deref(), Some("1.1.0"), "before the first request");
    let removed = second.ask("DELETE", "/skills/sent", None);
    assert_eq!(removed.json()["removed"].as_array().map(Vec::len), Some(2), "{removed:?}");
    assert_eq!(runs(&second), None);
    until("the other to have removed it", || runs(&first).is_none());
    assert_eq!((first.stop(), second.stop()), (Some(0), Some(0)));
    one.run(&["verify", "--log"]).worked();
}

#[test]
fn an_upload_of_an_earlier_program_is_taken_into_the_store() {
    let place = Place::new();
    let server = place.serve();
    upload(&server, "1.0.0");
    assert_eq!(server.stop(), Some(0));
    // As an earlier program leaves it: on disk alone.
    meddle(&place.data(), "DELETE FROM uploads");
    let server = place.serve();
    assert_eq!(runs(&server).as_deref(), Some("1.0.0"));
    assert_eq!(server.stop(), Some(0));
    fs::remove_dir_all(place.data().join("skills")).expect("the copies are removed");
    let server = place.serve();
    assert_eq!(runs(&server).as_deref(), Some("1.0.0"));
    assert_eq!(server.stop(), Some(0));
}
