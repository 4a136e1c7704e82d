//! `ringfence verify`: checks records against their signatures, without a server.

use std::{collections::BTreeSet, fs, io::Read as _, path::Path, process::ExitCode};

use ringfence_ledger::{
    Bundle, Flaw, Ground, MissingArtifact, Problem, PublicKey, Selection, Shown,
};
use ringfence_types::{CallId, Digest, EntryKind};
use serde_json::{Value, json};

use super::{artifacts::Artifacts, entry_summary::summary, log, reading};
use crate::{cli::VerifyArgs, exit, failure::Failure, print, run::runtime, table::plain};

pub(crate) fn verify(args: &VerifyArgs) -> Result<ExitCode, Failure> {
    carry_out(args).map_err(|failure| failure.in_json(args.json))?;
    Ok(ExitCode::from(exit::DONE))
}

fn carry_out(args: &VerifyArgs) -> Result<(), Failure> {
    let pinned = args.key.as_deref().map(pin).transpose()?;
    let found = match (&args.file, &args.call) {
        (Some(file), _) => bundle(file, pinned)?,
        (None, Some(call)) => runtime()?.block_on(one(args, call, pinned))?,
        (None, None) => runtime()?.block_on(log::check(args, pinned))?,
    };
    match args.json {
        true => print::line(&found.json.to_string()),
        false => print::data(found.text.as_bytes()),
    }
    if pinned.is_none() && !args.json {
        let hint = format!("hint: compare the key with one you trust: --key {}\n", found.key);
        print::note(&hint);
    }
    Ok(())
}

/// Report of a successful verification.
pub(super) struct VerifyReport {
    pub(super) text: String,
    pub(super) json: Value,
    /// The key that signed last.
    pub(super) key: String,
}

/// A pinned key, by its id or by a file.
fn pin(text: &str) -> Result<Digest, Failure> {
    let bare = text.strip_prefix("sha256:").unwrap_or(text);
    if let Ok(id) = format!("sha256:{bare}").parse() {
        return Ok(id);
    }
    let read = fs::read_to_string(text);
    let read = read.map_err(|error| {
        Failure::because(format!("--key: `{text}` is no key id, and no file"), &error)
    })?;
    let key = PublicKey::parse(&read);
    key.map(|key| key.id())
        .map_err(|error| Failure::because(format!("--key: cannot use `{text}`"), &error))
}

/// The failure of a verification.
pub(super) fn broken(what: &str, flaw: &Flaw) -> Failure {
    Failure::because(format!("{what} does not hold"), flaw).code(exit::FAILED)
}

fn bundle(file: &Path, pinned: Option<Digest>) -> Result<VerifyReport, Failure> {
    let unreadable = |error| Failure::because(format!("cannot read `{}`", file.display()), &error);
    let text = match file.as_os_str() == "-" {
        true => {
            let mut text = Vec::new();
            std::io::stdin().lock().read_to_end(&mut text).map_err(unreadable)?;
            text
        }
        false => fs::read(file).map_err(unreadable)?,
    };
    let name = format!("`{}`", file.display());
    let verified = Bundle::verify(&text, pinned).map_err(|flaw| match flaw.problem {
        Problem::NotOurs => Failure::because(format!("cannot verify {name}"), &flaw)
            .hint("`ringfence export` writes such files; `ringfence verify --log` checks a data directory"),
        _ => broken(&name, &flaw),
    })?;
    let ground =
        Ground { checkpoint: verified.checkpoint, key: verified.key, chain: verified.chain };
    let about = match &verified.manifest.selection {
        Selection::Call(call) => format!("call {call}"),
        Selection::Session(session) => format!("session {session}"),
    };
    let erased = erased_receipts(&verified.entries);
    let mut told = told(&ground, &verified.entries, &about);
    told.json["exported_at"] = json!(verified.manifest.at);
    told.json["artifacts"] = json!(verified.artifacts);
    if let Some(count) = verified.artifacts {
        told.text += &format!("artifacts   {count}, each with its digest\n");
    }
    let absent = |absent: &MissingArtifact| json!({"entry": absent.entry, "name": absent.name, "digest": absent.digest});
    told.json["absent"] = verified.missing_artifacts.iter().map(absent).collect();
    for MissingArtifact { entry, name, digest } in &verified.missing_artifacts {
        let why = match erased.contains(entry) {
            true => "erased on request",
            false => "masked by policy, erased, or left out",
        };
        told.text += &format!("absent      the {name} of entry {entry}, {digest}: {why}\n");
    }
    Ok(told)
}

/// Receipts of calls whose records were erased on request, by the entries that say so.
fn erased_receipts(entries: &[Shown]) -> BTreeSet<u64> {
    let of = |kind| entries.iter().filter(move |entry| entry.kind == kind);
    let erased: BTreeSet<_> = of(EntryKind::Erasure).filter_map(|entry| entry.about.call).collect();
    let is_erased = |entry: &&Shown| entry.about.call.is_some_and(|call| erased.contains(&call));
    of(EntryKind::Call).filter(is_erased).map(|entry| entry.index).collect()
}

/// Verifies one call of the data directory.
async fn one(
    args: &VerifyArgs,
    call: &str,
    pinned: Option<Digest>,
) -> Result<VerifyReport, Failure> {
    let id: CallId = call.parse().map_err(|error| Failure::because("--call", &error))?;
    let store = reading(&args.data).await?;
    let proof = ringfence_engine::ledger_proof(store.as_ref(), id).await;
    let proof = proof.map_err(|error| Failure::because("cannot read the ledger", &error))?;
    let (note, keys, entries) =
        proof.ok_or_else(|| Failure::new("the ledger has no checkpoint yet"))?;
    if entries.is_empty() {
        return Err(Failure::new(format!("the ledger has no entry about call {id}"))
            .hint("ringfence calls lists calls; one that has not ended has no receipt yet"));
    }
    let about = format!("call {id}");
    let ground = Ground::of(&note, &keys, pinned).map_err(|flaw| broken(&about, &flaw))?;
    let shown = ground.show_kept(&entries).map_err(|flaw| broken(&about, &flaw))?;
    let mut found = told(&ground, &shown, &about);
    let mut artifacts = Artifacts::default();
    for entry in &shown {
        artifacts.compare(store.as_ref(), entry.index, entry.kind, &entry.predicate).await?;
    }
    artifacts.tell(&mut found);
    Ok(found)
}

fn told(ground: &Ground, entries: &[Shown], about: &str) -> VerifyReport {
    let Ground { checkpoint, key, .. } = ground;
    let mut text = format!(
        "verified    {about}\nlog         {}\ncheckpoint  {} entries, root {}\nkey         {}\n",
        checkpoint.origin,
        checkpoint.size,
        checkpoint.root,
        key.id().hex(),
    );
    for entry in entries {
        let by = if entry.is_signed { "" } else { "  by the checkpoint, not signed itself yet" };
        let predicate: Value = serde_json::from_str(&entry.predicate).unwrap_or_default();
        let kind = entry.kind.name();
        let tool = entry.about.tool.as_ref().map_or(String::new(), |tool| format!("{tool} "));
        let said = plain(&summary(kind, &predicate));
        let (index, at) = (entry.index, entry.about.at);
        text += &format!("entry       {index}  {at}  {kind}  {tool}{said}{by}\n");
        if let (Some(call), Some(index)) =
            (predicate["memoised"]["call"].as_str(), predicate["memoised"]["entry"].as_u64())
        {
            text += &format!("memoised    the result is that of call {call}, entry {index}\n");
        }
    }
    let entry = |entry: &Shown| {
        let predicate: Value = serde_json::from_str(&entry.predicate).unwrap_or_default();
        json!({"index": entry.index, "kind": entry.kind, "at": entry.about.at, "signed": entry.is_signed, "predicate": predicate})
    };
    let json = json!({
        "outcome": "verified", "about": about, "origin": checkpoint.origin,
        "size": checkpoint.size, "root": checkpoint.root, "keyid": key.id().hex(),
        "entries": entries.iter().map(entry).collect::<Vec<_>>(),
    });
    VerifyReport { text, json, key: key.id().hex() }
}

/// A stored checkpoint.
pub(super) fn kept(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path)
        .map_err(|error| Failure::because(format!("cannot read `{}`", path.display()), &error))
}
