//! Verification of the whole log: every entry, by every checkpoint.

use ringfence_engine::LogScan;
use ringfence_ledger::{
    Audited, Authority, Checkpoint, LogCheck, Note, Place, Problem, Row, Statement, merkle::Tile,
};
use ringfence_store::{EntryQuery, PAGE, Placed, Signed, Store};
use ringfence_types::Digest;
use serde_json::json;

use super::{
    artifacts::Artifacts,
    differing, directory, head, reading, records,
    verify::{VerifyReport, broken, kept},
};
use crate::{cli::VerifyArgs, exit, failure::Failure};

/// Verifies the log.
pub(super) async fn check(
    args: &VerifyArgs,
    pinned: Option<Digest>,
) -> Result<VerifyReport, Failure> {
    let mut older = Vec::new();
    if let Some(path) = &args.checkpoint {
        older.push(Older::read(&kept(path)?, "--checkpoint")?);
    }
    // Before the log is read: the head is never ahead of the log.
    let head = head::path(&directory(&args.data));
    if head.exists() {
        older.push(Older::read(&kept(&head)?, &head.display().to_string())?);
    }
    let has_head = head.exists();
    older.sort_by_key(|older| older.size);
    let store = reading(&args.data).await?;
    let newest = store.checkpoint().await.map_err(unreadable)?;
    let artifacts = args.artifacts.then(Artifacts::default);
    let check = LogCheck::default();
    let mut reading = Reading { store: store.as_ref(), check, older, at: 0, artifacts, erased: 0 };
    reading.entries().await?;
    // An entry is stored before a checkpoint covers it, so a missing one was removed.
    let end = reading.at;
    if let Some(Signed { size, .. }) = newest.filter(|newest| newest.size > end) {
        let flaw = ringfence_ledger::Flaw {
            place: Place::Entry(end),
            problem: Problem::Truncated { size: end },
        };
        return Err(broken(&format!("the log of {size} entries"), &flaw));
    }
    for older in &reading.older {
        reading.check.expect(&older.note).map_err(|flaw| broken("the log", &flaw))?;
    }
    let erased = reading.erased;
    let audited = reading.check.finish().map_err(|flaw| broken("the log", &flaw))?;
    let mut found = told(&audited, pinned)?;
    let scan = LogScan::run(store.as_ref(), &[]).await.map_err(unreadable)?;
    if !scan.differing.is_empty() {
        return Err(differing(&scan, store.as_ref()).await?.code(exit::FAILED));
    }
    let Authority { keys, approvals, .. } = &scan.authority;
    let (keys, approvals) = (keys.len(), approvals.len());
    found.text +=
        &format!("rows        {keys} keys and {approvals} approvals, as the entries say\n");
    found.json["rows"] = json!({"keys": keys, "approvals": approvals});
    if erased > 0 {
        found.text += &format!("erased      the records of {erased} calls, as entries say\n");
    }
    found.json["erased_calls"] = json!(erased);
    found.json["head"] = json!(has_head);
    if has_head {
        found.text += "head        the log is a continuation of the one beside the key\n";
    }
    if let Some(artifacts) = &reading.artifacts {
        artifacts.tell(&mut found);
    }
    Ok(found)
}

fn unreadable(error: ringfence_store::Error) -> Failure {
    Failure::because("cannot read the ledger", &error)
}

/// An earlier checkpoint.
struct Older {
    size: u64,
    note: String,
}

impl Older {
    fn read(text: &str, name: &str) -> Result<Self, Failure> {
        let checkpoint = Note::parse(text).and_then(|note| Checkpoint::of(&note));
        let checkpoint = checkpoint.ok_or_else(|| {
            Failure::new(format!("{name}: the file is not a checkpoint of a log"))
        })?;
        Ok(Self { size: checkpoint.size, note: text.to_owned() })
    }
}

struct Reading<'a> {
    store: &'a dyn Store,
    check: LogCheck,
    /// Earlier checkpoints that are not compared yet, smallest first.
    older: Vec<Older>,
    /// Entries so far.
    at: u64,
    /// Comparison of artifacts, if asked for.
    artifacts: Option<Artifacts>,
    /// Calls whose records were erased.
    erased: u64,
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

    /// Adds the checkpoints over the next entries.
    async fn checkpoints(&mut self, entries: u64) -> Result<(), Failure> {
        let end = self.at + entries;
        let found = self.store.checkpoints(self.at, PAGE).await.map_err(unreadable)?;
        for Signed { note, .. } in found.iter().filter(|signed| signed.size <= end) {
            let size = Note::parse(note).and_then(|note| Checkpoint::of(&note)).map(|c| c.size);
            self.expect_older(size.unwrap_or(0))?;
            self.expect(note)?;
        }
        self.expect_older(end)
    }

    /// Adds earlier checkpoints over at most that many entries.
    fn expect_older(&mut self, most: u64) -> Result<(), Failure> {
        while self.older.first().is_some_and(|older| older.size <= most) {
            let older = self.older.remove(0);
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
        self.beside(row).await?;
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
    /// Compares the rows and artifacts of an entry.
    async fn beside(&mut self, row: &Row) -> Result<(), Failure> {
        let Row { index, sealed } = row;
        let statement = Statement::parse(&sealed.payload);
        let predicate = statement.map(|statement| statement.predicate).unwrap_or_default();
        let is_erased = records::compare(self.store, *index, sealed.kind, &predicate).await?;
        self.erased += u64::from(is_erased);
        let Some(artifacts) = &mut self.artifacts else { return Ok(()) };
        artifacts.compare(self.store, *index, sealed.kind, &predicate).await
    }
}

fn told(audited: &Audited, pinned: Option<Digest>) -> Result<VerifyReport, Failure> {
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
        text += &format!(
            "            {count} under the checkpoint, signed when a proof is asked for\n"
        );
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
    Ok(VerifyReport { text, json, key: key.id().hex() })
}
