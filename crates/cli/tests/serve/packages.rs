//! Packages of skills, installed once with real pip from an index of the test, and images.

use std::{fs, net::SocketAddr};

use serde_json::{Value, json};

use crate::{
    network::{publish, site},
    support::{Place, Server, command, ran, shown, skill, until},
};

const HANDLER: &str = "import greet, os\n\
    def run(n=0):\n    \
        try: open(os.path.join(os.path.dirname(greet.__file__), 'x'), 'w'); wrote = True\n    \
        except OSError: wrote = False\n    \
        return {'words': greet.WORDS, 'wrote': wrote}\n";

/// A skill that requires the package of the index.
fn requiring(place: &Place, name: &str) {
    skill(&place.skills(), name, "none", HANDLER);
    let path = place.skills().join(name).join("skill.yaml");
    let manifest = fs::read_to_string(&path).expect("a manifest");
    fs::write(&path, manifest + "requirements: [\"greet==1.0\"]\n").expect("a manifest");
}

fn index(place: &Place) -> SocketAddr {
    let folder = place.path("site");
    fs::create_dir_all(&folder).expect("a folder");
    publish(&folder);
    site(&folder)
}

fn serve(place: &Place, index: SocketAddr, rules: Option<&str>) -> Server {
    let (host, url) = (index.to_string(), format!("http://{index}/simple"));
    let mut settings = vec![
        ("RINGFENCE_EGRESS_ALLOW_PRIVATE", host.as_str()),
        ("RINGFENCE_PACKAGES_HOSTS", host.as_str()),
        ("RINGFENCE_PACKAGES_PYTHON_INDEX", url.as_str()),
    ];
    let folder = place.path("rules");
    let text = shown(&folder);
    if let Some(rules) = rules {
        fs::create_dir(&folder).expect("a folder");
        fs::write(folder.join("rules.rego"), rules).expect("a file");
        settings.push(("RINGFENCE_POLICY", &text));
    }
    place.serve_with(&settings)
}

fn installs(server: &Server) -> Vec<Value> {
    let listed = server.ask("GET", "/v1/calls?tool=packages_install", None).json();
    listed["calls"].as_array().cloned().unwrap_or_default()
}

const ALLOW: &str = "package ringfence\n\ndecision := {\"decision\": \"allow\"}\n";

#[test]
fn packages_of_skills_are_installed_once_and_read_only() {
    let place = Place::new();
    let index = index(&place);
    requiring(&place, "one");
    requiring(&place, "two");
    let server = serve(&place, index, Some(ALLOW));
    for name in ["one", "two", "one"] {
        let call = server.call(name, &json!({}));
        assert_eq!(call["result"], json!({"words": "installed", "wrote": false}), "{call}");
    }
    let made = installs(&server);
    assert_eq!(made.len(), 1, "one layer for equal requirements: {made:?}");
    let id = made[0]["id"].as_str().expect("an id");
    let receipt = server.ask("GET", &format!("/v1/calls/{id}/receipt?format=json"), None).json();
    assert!(
        receipt.to_string().contains(&index.ip().to_string()),
        "flows are on record: {receipt}"
    );
    // The control: without requirements there is no such package.
    let code = json!({"code": "import greet"});
    let call = server.call("code_execute", &code);
    assert!(call.to_string().contains("No module named"), "{call}");
}

#[test]
fn installing_waits_for_approval_like_every_call_that_asks_for_hosts() {
    let place = Place::new();
    let index = index(&place);
    requiring(&place, "one");
    let server = serve(&place, index, None);
    let refused = server.call("one", &json!({}));
    assert_eq!(refused["error"]["code"], "root_unavailable", "{refused}");
    assert!(refused["error"]["message"].to_string().contains("which is held"), "{refused}");
    server.call("one", &json!({}));
    let made = installs(&server);
    assert_eq!(made.len(), 1, "the held call is not made twice: {made:?}");
    let id = made[0]["id"].as_str().expect("an id");
    let key = server.client(&["key", "create", "boss", "--scope", "approve"]);
    let approve = ["approve", id, "--yes", "--data", &server.data];
    ran(command(&approve).env("RINGFENCE_KEY", key.stdout.trim())).worked();
    let state = || server.ask("GET", &format!("/v1/calls/{id}"), None).json()["state"].clone();
    until("the packages to be installed", || state() == "finished");
    let call = server.call("one", &json!({}));
    assert_eq!(call["result"]["words"], "installed", "{call}");
}

#[test]
fn an_image_is_chosen_by_name_and_a_missing_one_is_named() {
    let place = Place::new();
    let server = serve(&place, "127.0.0.1:9".parse().expect("an address"), Some(ALLOW));
    let call = server.call("code_execute", &json!({"code": "1", "image": "nothing"}));
    assert_eq!(call["error"]["code"], "root_unavailable", "{call}");
    assert!(call["error"]["message"].to_string().contains("`nothing`"), "{call}");
    // A root of links into the host's trees would show nothing of them; so a small real one.
    let root = place.path("root");
    for folder in ["bin", "lib", "lib64", "usr"] {
        fs::create_dir_all(root.join(folder)).expect("a folder");
    }
    copy_shell(&root);
    fs::write(root.join("marker"), "of the image\n").expect("a file");
    let import = ["image", "import", "small", &shown(&root), "--data", &server.data];
    ran(&mut command(&import)).worked();
    let code = json!({"code": "while read line; do echo $line; done < /marker", "language": "bash", "image": "small"});
    let call = server.call("code_execute", &code);
    assert_eq!(call["result"]["stdout"], "of the image\n", "{call}");
    let body = json!({"image": "small"});
    let made = server.ask("POST", "/v1/sandboxes", Some(&body));
    assert_eq!(made.status, 201, "{made:?}");
    let id = made.json()["id"].as_str().expect("an id").to_owned();
    let args =
        ["sandbox", "exec", &id, "--data", &server.data, "--", "bash", "-c", "echo $(</marker)"];
    let printed = ran(&mut command(&args)).worked().stdout;
    assert_eq!(printed, "of the image\n");
}

/// Copies bash with its libraries.
#[expect(clippy::disallowed_methods, reason = "a test asks the host which libraries bash needs")]
fn copy_shell(root: &std::path::Path) {
    let listed = ran(std::process::Command::new("ldd").arg("/bin/bash")).worked().stdout;
    let paths = listed.split_whitespace().filter(|word| word.starts_with('/'));
    for path in paths.chain(["/bin/bash"]) {
        let to = root.join(path.trim_start_matches('/'));
        fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
        fs::copy(path, to).expect("a copy");
    }
}
