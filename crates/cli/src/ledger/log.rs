//! The whole log: every entry by itself, all of them by every checkpoint.

use ringfence_ledger::{
    Audited, Checkpoint, LogCheck, Note, Place, Problem, Row, Statement, merkle::Tile,
};
use ringfence_store::{EntryQuery, PAGE, Placed, SqliteStore, Store as _};
use ringfence_types::Digest;
use serde_json::json;

use super::{
    artifacts::Artifacts,
    reading,
    verify::{Found, broken, kept},
};
use crate::{cli::VerifyArgs, failure::Failure};

/// Checks all of it.
pub(super) async fn check(args: &VerifyArgs, pinned: Option<Digest>) -> Result<Found, Failure> {
    let store = reading(&args.data).await?;
    let older = args.checkpoint.as_ref().map(|path| Older::read(&kept(path)?)).transpose()?;
    let newest = store.checkpoint().await.map_err(unreadable)?;
    let artifacts = args.artifacts.then(Artifacts::default);
    let check = LogCheck::default();
    let mut reading = Reading { store: &store, check, older, at: 0, artifacts };
    reading.entries().await?;
    // An entry is there before a checkpoint commits to it; so one that is not there was taken away.
    let end = reading.at;
    if let Some((size, _)) = newest.filter(|(size, _)| *size > end) {
        let flaw = ringfence_ledger::Flaw {
            place: Place::Entry(end),
            problem: Problem::Truncated { size: end },
        };
        return Err(broken(&format!("the log of {size} entries"), &flaw));
    }
    if let Some(older) = &reading.older {
        reading.check.expect(&older.note).map_err(|flaw| broken("the log", &flaw))?;
    }
    let audited = reading.check.finish().map_err(|flaw| broken("the log", &flaw))?;
    let mut found = told(&audited, pinned)?;
    if let Some(artifacts) = &reading.artifacts {
        artifacts.tell(&mut found);
    }
    Ok(found)
}

fn unreadable(error: ringfence_store::Error) -> Failure {
    Failure::because("cannot read the ledger", &error)
}

/// A checkpoint from earlier.
struct Older {
    size: u64,
    note: String,
}

impl Older {
    fn read(text: &str) -> Result<Self, Failure> {
        let checkpoint = Note::parse(text).and_then(|note| Checkpoint::of(&note));
        let checkpoint = checkpoint
            .ok_or_else(|| Failure::new("--checkpoint: the file is no checkpoint of a log"))?;
        Ok(Self { size: checkpoint.size, note: text.to_owned() })
    }
}

struct Reading<'a> {
    store: &'a SqliteStore,
    check: LogCheck,
    /// Not compared yet.
    older: Option<Older>,
    /// Entries so far.
    at: u64,
    /// What is kept beside them, if that is compared.
    artifacts: Option<Artifacts>,
}

impl Reading<'_> {
    async fn entries(&mut self) -> Result<(), Failure> {
        loop {
            let query = EntryQuery { from: self.at, limit: PAGE, ..EntryQuery::default() };
            let page = self.store.entries(query).await.map_err(unreadable)?;
            if page.is_empty() {
                return Ok(());
            }
            self.checkpoints(page.len() as u64).await?;
            for Placed { index, sealed } in page {
                self.row(&Row { index, sealed }).await?;
            }
        }
    }

    /// Those over what comes next.
    async fn checkpoints(&mut self, entries: u64) -> Result<(), Failure> {
        let end = self.at + entries;
        let found = self.store.checkpoints(self.at, PAGE).await.map_err(unreadable)?;
        for (_, note) in found.iter().filter(|(size, _)| *size <= end) {
            let size = Note::parse(note).and_then(|note| Checkpoint::of(&note)).map(|c| c.size);
            if let Some(older) = self.older.take_if(|older| size.is_some_and(|s| older.size <= s)) {
                self.expect(&older.note)?;
            }
            self.expect(note)?;
        }
        if let Some(older) = self.older.take_if(|older| older.size <= end) {
            self.expect(&older.note)?;
        }
        Ok(())
    }

    fn expect(&mut self, note: &str) -> Result<(), Failure> {
        self.check.expect(note).map_err(|flaw| broken("the log", &flaw))
    }

    async fn row(&mut self, row: &Row) -> Result<(), Failure> {
        let mut full: Vec<Tile> = Vec::new();
        let checked = self.check.row(row, |tile| full.push(tile));
        checked.map_err(|flaw| broken("the log", &flaw))?;
        self.at += 1;
        self.artifacts(row).await?;
        for tile in full {
            let kept = self.store.tile(tile.id.level, tile.id.index).await.map_err(unreadable)?;
            if kept.is_some_and(|kept| kept != tile.bytes()) {
                let place = Place::Tile(tile.id.path());
                let flaw = ringfence_ledger::Flaw { place, problem: Problem::Leaf };
                return Err(broken("the log", &flaw));
            }
        }
        Ok(())
    }
}

impl Reading<'_> {
    async fn artifacts(&mut self, row: &Row) -> Result<(), Failure> {
        let Some(artifacts) = &mut self.artifacts else { return Ok(()) };
        let Row { index, sealed } = row;
        let statement = Statement::parse(&sealed.payload);
        let predicate = statement.map(|statement| statement.predicate).unwrap_or_default();
        artifacts.compare(self.store, *index, sealed.kind, &predicate).await
    }
}

fn told(audited: &Audited, pinned: Option<Digest>) -> Result<Found, Failure> {
    let empty = || Failure::new("the ledger has no entries");
    let chain = audited.chain.as_ref().ok_or_else(empty)?;
    let key = *chain.at(audited.entries);
    if let Some(wanted) = pinned.filter(|wanted| *wanted != key.id()) {
        let place = Place::Checkpoint(audited.checkpoint.map_or(0, |(size, _)| size));
        let flaw = ringfence_ledger::Flaw { place, problem: Problem::Unpinned(wanted) };
        return Err(broken("the log", &flaw));
    }
    let (size, root) = audited.checkpoint.map_or((0, None), |(size, root)| (size, Some(root)));
    let mut text = format!("verified    the whole log\nlog         {}\n", chain.origin());
    text += &format!("entries     {}\n", audited.entries);
    for (kind, count) in &audited.kinds {
        text += &format!("            {count} {kind}\n");
    }
    if let Some(root) = root {
        text += &format!("checkpoint  {size} entries, root {root}\n");
    }
    if audited.unsigned > 0 {
        let count = audited.unsigned;
        text += &format!("            {count} by the checkpoint, not signed themselves yet\n");
    }
    let after = audited.entries - size;
    if after > 0 {
        text += &format!("            {after} after it, each signed, with no checkpoint yet\n");
    }
    text += &format!("keys        {}\nkey         {}\n", chain.keys().count(), key.id().hex());
    let json = json!({
        "outcome": "verified", "origin": chain.origin(), "entries": audited.entries,
        "kinds": audited.kinds, "unsigned": audited.unsigned, "size": size, "root": root, "uncommitted": after,
        "keys": chain.keys().map(|(from, key)| json!({"from": from, "keyid": key.id().hex()}))
            .collect::<Vec<_>>(),
        "keyid": key.id().hex(),
    });
    Ok(Found { text, json, key: key.id().hex() })
}
