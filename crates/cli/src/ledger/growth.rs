//! `ringfence ledger consistency`: checks that a server's log continues a stored checkpoint.

use std::path::Path;

use ringfence_ledger::{Checkpoint, Grown, Growth, Note, PublicKey};
use serde::Deserialize;
use serde_json::json;

use super::verify::{broken, kept};
use crate::{client::Client, failure::Failure, print};

/// The keys of a log, as the server lists them.
#[derive(Debug, Deserialize)]
struct Keys {
    keys: Vec<Key>,
}

#[derive(Debug, Deserialize)]
struct Key {
    named_at: u64,
    public: PublicKey,
}

pub(super) async fn consistency(
    server: &Client,
    file: &Path,
    is_json: bool,
) -> Result<(), Failure> {
    let older = kept(file)?;
    let checkpoint = Note::parse(&older).and_then(|note| Checkpoint::of(&note));
    let none = || Failure::new(format!("`{}` is not a checkpoint of a log", file.display()));
    let size = checkpoint.ok_or_else(none)?.size.max(1);
    let Keys { keys } = server.get("/v1/ledger/keys").await?;
    let keys: Vec<_> = keys.into_iter().map(|key| (key.named_at, key.public)).collect();
    let growth: Growth = server.get(&format!("/v1/ledger/consistency?from={size}")).await?;
    let grown = growth.verify(&older, &keys).map_err(|flaw| broken("the log", &flaw))?;
    tell(&grown, is_json);
    Ok(())
}

fn tell(Grown { from, to, key }: &Grown, is_json: bool) {
    let key = key.id().hex();
    if is_json {
        let of =
            |checkpoint: &Checkpoint| json!({"size": checkpoint.size, "root": checkpoint.root});
        let object = json!({
            "outcome": "consistent", "origin": to.origin, "from": of(from), "to": of(to), "keyid": key,
        });
        return print::line(&object.to_string());
    }
    let text = format!(
        "consistent  the log has only grown since\nlog         {}\nfrom        {} entries, root {}\n\
         to          {} entries, root {}\nkey         {key}\n",
        to.origin, from.size, from.root, to.size, to.root,
    );
    print::data(text.as_bytes());
}
