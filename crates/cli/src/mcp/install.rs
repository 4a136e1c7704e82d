//! `ringfence mcp install`: the configuration of an MCP client, shown or written.
//!
//! Every client starts `ringfence mcp` with a key of its own: one entry works wherever the server listens,
//! and the client is cut off by revoking its key.

use std::{
    env, fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};

use crate::{
    cli::{ClientArgs, McpClient, McpInstallArgs},
    client::Client,
    config,
    failure::Failure,
    print,
    run::runtime,
    serve::write_file,
};

/// Name of the entry in a client's configuration.
const ENTRY: &str = "ringfence";
/// Place of the key in a configuration that is only shown.
const NO_KEY: &str = "<a key: ringfence key create NAME --scope call>";

/// Form of a client's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// JSON, with the servers in this member.
    Json(&'static str),
    /// TOML, with a table per server.
    Toml,
}

pub(super) fn install(args: &McpInstallArgs) -> Result<(), Failure> {
    let (form, path) = target(args.name, args.file.as_ref())?;
    if !args.write {
        let key = config::server_key().and_then(|key| key.into_string().ok());
        let entry = entry(&args.client, key.as_deref().unwrap_or(NO_KEY))?;
        print::note(&format!("add this to {}:\n", path.display()));
        print::data(merged(form, None, &entry).map_err(Failure::new)?.as_bytes());
        return Ok(());
    }
    let before = existing(&path)?;
    let merged = |key: &str| {
        let merged = merged(form, before.as_deref(), &entry(&args.client, key)?);
        merged.map_err(|problem| {
            Failure::new(format!("`{}` is left as it is: {problem}", path.display()))
                .hint("add the entry by hand; without --write it is shown")
        })
    };
    // Before a key is made for it.
    merged(NO_KEY)?;
    let secret = runtime()?.block_on(new_key(args))?;
    write(&path, before.as_deref(), &merged(&secret)?)?;
    print::note(&format!("wrote `{}`; restart the client\n", path.display()));
    Ok(())
}

async fn new_key(args: &McpInstallArgs) -> Result<String, Failure> {
    let client = Client::find(&args.client)?;
    let body = json!({"label": format!("mcp {}", args.name.name()), "scopes": ["call"]});
    let made = client.post("/v1/keys", &body).await?;
    let secret = made["secret"].as_str().map(str::to_owned);
    secret.ok_or_else(|| Failure::new("the server did not return a key"))
}

fn target(client: McpClient, file: Option<&PathBuf>) -> Result<(Form, PathBuf), Failure> {
    let home = config::home();
    let at_home = |path: &str| home.as_ref().map(|home| home.join(path));
    let (form, usual) = match client {
        McpClient::Claude => (
            Form::Json("mcpServers"),
            config::config_home().map(|folder| folder.join("Claude/claude_desktop_config.json")),
        ),
        McpClient::ClaudeCode => (Form::Json("mcpServers"), at_home(".claude.json")),
        McpClient::Cursor => (Form::Json("mcpServers"), at_home(".cursor/mcp.json")),
        McpClient::Vscode => (Form::Json("servers"), Some(PathBuf::from(".vscode/mcp.json"))),
        McpClient::Codex => (Form::Toml, at_home(".codex/config.toml")),
    };
    let path = file.cloned().or(usual);
    let missing = || Failure::new("HOME is not set").hint("name the file with --file");
    Ok((form, path.ok_or_else(missing)?))
}

/// The entry of the server: how a client starts it.
fn entry(args: &ClientArgs, key: &str) -> Result<Value, Failure> {
    let binary = env::current_exe()
        .map_err(|error| Failure::because("cannot tell where this program is", &error))?;
    let mut words = vec!["mcp".to_owned()];
    let url = args.url.clone().or_else(|| config::server_url()?.into_string().ok());
    match url {
        Some(url) => words.extend(["--url".to_owned(), url]),
        None => {
            let data = config::data_dir(args.data.data.clone());
            let data = fs::canonicalize(&data).unwrap_or(data);
            words.extend(["--data".to_owned(), data.display().to_string()]);
        }
    }
    if let Some(authority) = args.ca.clone().or_else(|| config::server_ca().map(PathBuf::from)) {
        let authority = fs::canonicalize(&authority).unwrap_or(authority);
        words.extend(["--ca".to_owned(), authority.display().to_string()]);
    }
    Ok(json!({
        "type": "stdio",
        "command": binary.display().to_string(),
        "args": words,
        "env": {"RINGFENCE_KEY": key},
    }))
}

fn existing(path: &Path) -> Result<Option<String>, Failure> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text).filter(|text| !text.trim().is_empty())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::because(format!("cannot read `{}`", path.display()), &error)),
    }
}

/// The configuration with the entry in it; everything else stays. An error says why it cannot be added.
fn merged(form: Form, before: Option<&str>, entry: &Value) -> Result<String, String> {
    match form {
        Form::Json(member) => merged_json(member, before.unwrap_or("{}"), entry),
        Form::Toml => merged_toml(before.unwrap_or(""), entry),
    }
}

fn merged_json(member: &str, before: &str, entry: &Value) -> Result<String, String> {
    let not_plain = |error| format!("it is not plain JSON ({error})");
    let mut root: Map<String, Value> = serde_json::from_str(before).map_err(not_plain)?;
    let servers = root.entry(member).or_insert_with(|| json!({}));
    let servers = servers.as_object_mut().ok_or_else(|| format!("`{member}` is not an object"))?;
    servers.insert(ENTRY.to_owned(), entry.clone());
    let text = serde_json::to_string_pretty(&root).map_err(|error| error.to_string())?;
    Ok(format!("{text}\n"))
}

/// Appends a table, so that comments and order of the rest stay.
fn merged_toml(before: &str, entry: &Value) -> Result<String, String> {
    let parsed: toml::Table =
        before.parse().map_err(|error: toml::de::Error| format!("it is not TOML ({error})"))?;
    let servers = parsed.get("mcp_servers");
    if servers.is_some_and(|servers| servers.get(ENTRY).is_some()) {
        return Err(format!("it has a table `mcp_servers.{ENTRY}` already"));
    }
    // Strings and lists of strings are the same in both languages.
    let (command, words) = (&entry["command"], &entry["args"]);
    let key = &entry["env"]["RINGFENCE_KEY"];
    let gap = if before.is_empty() || before.ends_with("\n\n") { "" } else { "\n" };
    let line = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    let added = format!(
        "[mcp_servers.{ENTRY}]\ncommand = {command}\nargs = {words}\nenv = {{ RINGFENCE_KEY = {key} }}\n"
    );
    let text = format!("{before}{line}{gap}{added}");
    match text.parse::<toml::Table>() {
        Ok(_) => Ok(text),
        Err(error) => Err(format!("the entry does not fit into it ({error})")),
    }
}

/// Writes the file for its owner alone, because it has a key in it. The old one is kept beside it.
fn write(path: &Path, before: Option<&str>, content: &str) -> Result<(), Failure> {
    let failed = |error| Failure::because(format!("cannot write `{}`", path.display()), &error);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    if let Some(before) = before {
        let mut name = path.as_os_str().to_owned();
        name.push(".bak");
        drop(write_file(Path::new(&name), before).map_err(failed)?);
    }
    // A link, as dotfiles often are, stays one.
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    drop(write_file(&real, content).map_err(failed)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Value {
        json!({"type": "stdio", "command": "/bin/ringfence", "args": ["mcp"], "env": {"RINGFENCE_KEY": "rf_x"}})
    }

    #[test]
    fn other_servers_and_settings_stay() {
        let before = r#"{"theme": "dark", "mcpServers": {"other": {"url": "http://x"}}}"#;
        let text = merged(Form::Json("mcpServers"), Some(before), &example()).unwrap();
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["theme"], "dark");
        assert_eq!(read["mcpServers"]["other"]["url"], "http://x");
        assert_eq!(read["mcpServers"]["ringfence"], example());
        let again = merged(Form::Json("mcpServers"), Some(&text), &example()).unwrap();
        assert_eq!(again, text);
    }

    #[test]
    fn a_file_that_is_not_understood_is_refused() {
        for before in ["// comment\n{}", "[]", "{", r#"{"servers": 5}"#] {
            merged(Form::Json("servers"), Some(before), &example()).unwrap_err();
        }
        merged(Form::Toml, Some("= 5"), &example()).unwrap_err();
    }

    #[test]
    fn a_table_is_appended_once() {
        let before = "# mine\nmodel = \"x\"\n";
        let text = merged(Form::Toml, Some(before), &example()).unwrap();
        assert!(text.starts_with(before), "{text}");
        let read: toml::Table = text.parse().unwrap();
        let entry = &read["mcp_servers"]["ringfence"];
        assert_eq!(entry["env"]["RINGFENCE_KEY"].as_str(), Some("rf_x"));
        assert_eq!(entry["args"].as_array().map(Vec::len), Some(1));
        merged(Form::Toml, Some(&text), &example()).unwrap_err();
    }
}
