//! `ringfence key`: creates, lists and revokes API keys.

use std::process::ExitCode;

use reqwest::Method;
use ringfence_types::{Timestamp, parse_duration};
use serde_json::{Value, json};

use crate::{
    age,
    cli::{ClientArgs, KeyCommand},
    client::{
        Client, escaped,
        short_id::{Kind, ShortIds},
    },
    exit,
    failure::Failure,
    print,
    run::runtime,
    serve::SystemClock,
    style::Tone,
    table::{Table, cut},
};

pub(crate) fn key(command: &KeyCommand) -> Result<ExitCode, Failure> {
    let (KeyCommand::Create { client, .. }
    | KeyCommand::List { client }
    | KeyCommand::Revoke { client, .. }) = command;
    let told = runtime()?.block_on(carry_out(command, client));
    told.map_err(|failure| failure.in_json(client.json))?;
    Ok(ExitCode::from(exit::DONE))
}

async fn carry_out(command: &KeyCommand, args: &ClientArgs) -> Result<(), Failure> {
    match command {
        KeyCommand::Create { label, scope, tenant, persona, person, expires, .. } => {
            let expires_at = expires.as_deref().map(expiry).transpose()?;
            let body = json!({
                "label": label, "scopes": scope, "tenant": tenant, "persona_id": persona,
                "person": person, "expires_at": expires_at,
            });
            create(&Client::find(args)?, &body, args.json).await
        }
        KeyCommand::List { .. } => list(&Client::find(args)?, args.json).await,
        KeyCommand::Revoke { id, .. } => {
            let client = Client::find(args)?;
            let id = client.whole_id(Kind::Key, id).await?;
            let request = client.request(Method::DELETE, &format!("/v1/keys/{}", escaped(&id)));
            client.send(request).await?;
            Ok(())
        }
    }
}

/// An instant, or a duration from now.
fn expiry(text: &str) -> Result<Timestamp, Failure> {
    if let Ok(instant) = text.parse() {
        return Ok(instant);
    }
    let after = parse_duration(text).map_err(|_| {
        Failure::new(format!("--expires: `{text}` is neither 90d nor 2027-01-01T00:00:00Z"))
    })?;
    Ok(ringfence_types::Clock::now(&SystemClock).after(after))
}

async fn create(client: &Client, body: &Value, is_json: bool) -> Result<(), Failure> {
    let made = client.post("/v1/keys", body).await?;
    if is_json {
        print::line(&made.to_string());
        return Ok(());
    }
    // Only the secret on standard output, for scripts.
    print::line(made["secret"].as_str().unwrap_or_default());
    let id = made["key_id"].as_str().unwrap_or_default();
    print::note(&format!(
        "key {id} created; its secret is not shown again
    "
    ));
    Ok(())
}

async fn list(client: &Client, is_json: bool) -> Result<(), Failure> {
    let listed: Value = client.get("/v1/keys").await?;
    let keys = listed["keys"].as_array().cloned().unwrap_or_default();
    if is_json {
        keys.iter().for_each(|key| print::line(&key.to_string()));
        return Ok(());
    }
    let ids: Vec<_> = keys.iter().filter_map(|key| key["key_id"].as_str()).collect();
    let ids = ShortIds::of(&ids);
    let mut table = Table::new(["KEY", "LABEL", "STATE", "USED", "SCOPES"]);
    for key in &keys {
        let text = |name: &str| key[name].as_str().unwrap_or("-").to_owned();
        let scopes = key["scopes"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let scopes = scopes.collect::<Vec<_>>().join(" ");
        let used = age::ago(&text("last_used_at"));
        let (id, label) = (ids.show(&text("key_id")), cut(&text("label"), 24));
        table.toned_row([id, label, state(key), used, scopes], 2, tone(key));
        let mut note = format!("{}…, tenant {}", text("prefix"), text("tenant"));
        for (name, what) in
            [("person", "person"), ("persona_id", "persona"), ("expires_at", "until")]
        {
            if let Some(value) = key[name].as_str() {
                note += &format!(", {what} {value}");
            }
        }
        table.note(&note);
    }
    print::data(table.fitted().as_bytes());
    Ok(())
}

fn tone(key: &Value) -> Tone {
    if state(key) == "valid" { Tone::Good } else { Tone::Bad }
}

fn state(key: &Value) -> String {
    let is = |name: &str| key[name].as_bool() == Some(true);
    match (is("revoked"), is("expired")) {
        (true, _) => "revoked",
        (_, true) => "expired",
        _ => "valid",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_has_ended_is_not_listed_as_valid() {
        assert_eq!(state(&json!({"revoked": false, "expired": true})), "expired");
        assert_eq!(state(&json!({"revoked": true, "expired": true})), "revoked");
        assert_eq!(state(&json!({"revoked": false, "expired": false})), "valid");
    }
}
