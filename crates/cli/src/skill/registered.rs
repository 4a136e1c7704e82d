//! Skills of a server: registering, listing and removing them.

use std::{collections::BTreeMap, path::Path};

use reqwest::Method;
use serde_json::{Value, json};

use super::{broken, read};
use crate::{
    age, base64,
    client::{Client, escaped},
    failure::Failure,
    print,
    table::{Table, plain},
};

pub(super) async fn push(client: &Client, folder: &Path, is_json: bool) -> Result<(), Failure> {
    let skill = read(folder).map_err(|problems| broken(folder, problems))?;
    let content = |bytes: Vec<u8>| match String::from_utf8(bytes) {
        Ok(text) => json!(text),
        Err(error) => json!({"base64": base64::encode(error.as_bytes())}),
    };
    let files: BTreeMap<_, _> =
        skill.files.into_iter().map(|(path, bytes)| (path, content(bytes))).collect();
    let registered = client.post("/skills/register", &json!({ "files": files })).await?;
    match is_json {
        true => print::line(&registered.to_string()),
        false => {
            let text = |name: &str| plain(registered[name].as_str().unwrap_or_default());
            let (name, version) = (text("name"), text("version"));
            print::note(&format!("registered {name} {version}, {}\n", text("digest")));
            print::note(&format!("hint: ringfence tools {name}\n"));
        }
    }
    Ok(())
}

pub(super) async fn list(client: &Client, is_json: bool) -> Result<(), Failure> {
    let listed: Value = client.get("/skills/list").await?;
    let skills = listed["skills"].as_array().map_or(&[][..], Vec::as_slice);
    if is_json {
        skills.iter().for_each(|skill| print::line(&skill.to_string()));
        return Ok(());
    }
    if skills.is_empty() {
        print::note("no skills\n");
        return Ok(());
    }
    let mut table = Table::new(["NAME", "VERSION", "SINCE", "FLAGS", "DESCRIPTION"]);
    for skill in skills {
        let text = |name: &str| skill[name].as_str().unwrap_or("-").to_owned();
        let flags = skill["safety_flags"].as_array().into_iter().flatten();
        let flags = flags.filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
        let since = age::ago(&text("created_at"));
        table.row([text("name"), text("version"), since, flags, text("description")]);
    }
    print::data(table.fitted().as_bytes());
    Ok(())
}

pub(super) async fn remove(
    client: &Client,
    name: &str,
    version: Option<&str>,
    is_json: bool,
) -> Result<(), Failure> {
    let version = version.map(|version| format!("?version={}", escaped(version)));
    let path = format!("/skills/{}{}", escaped(name), version.unwrap_or_default());
    let response = client.send(client.request(Method::DELETE, &path)).await?;
    let answer = client.text(response).await?;
    if is_json {
        print::line(&answer);
        return Ok(());
    }
    let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
    for removed in answer["removed"].as_array().into_iter().flatten() {
        let text = |name: &str| plain(removed[name].as_str().unwrap_or_default());
        print::note(&format!("removed {} {}\n", text("name"), text("version")));
    }
    Ok(())
}
