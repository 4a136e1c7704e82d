//! Scan of the whole log, compared with the rows of keys and approvals in one pass.
//!
//! A server acts by rows; the entries are what was signed. So every start rebuilds the tree from
//! the text of the entries and compares their statements about keys and approvals with the rows.
//! Memory grows with the number of keys and approvals, not with the number of entries.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    sync::{Arc, Mutex, PoisonError},
};

use ringfence_ledger::{
    ApprovalClaim, Authority, Checkpoint, KeyChange, KeyClaim, Note, entry_leaf, merkle::Builder,
    said_in,
};
use ringfence_store::{
    ApprovalRow, EntryQuery, Error, Key, Scanned, Signed, Store, Unreadable, Visitor,
};
use ringfence_types::{Approval, ApprovalId, Digest, KeyId, Timestamp};
use serde_json::Value;

use super::damaged;

/// Differing rows that are listed; all are counted.
const MAX_DIFFERING: usize = 1_000;

/// A row that differs from the ledger.
#[derive(Debug, Clone, PartialEq)]
pub enum DifferingRow {
    /// A key of the API.
    Key {
        /// Id of the key.
        id: KeyId,
        /// The ledger's statement; none if the ledger does not know the key.
        claim: Option<Box<KeyClaim>>,
        /// The row; none if it is missing.
        row: Option<Box<Key>>,
    },
    /// An approval.
    Approval {
        /// Id of the approval.
        id: ApprovalId,
        /// The ledger's statement; none if the ledger does not know the approval.
        claim: Option<ApprovalClaim>,
        /// The row; none if it is missing.
        row: Option<Box<ApprovalRow>>,
    },
    /// A row that cannot be read.
    Unreadable(Unreadable),
}

/// One field of a row that differs from the ledger.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{table} {id}: {field}: the ledger says {ledger}, the row says {row}")]
pub struct Difference {
    /// `key` or `approval`.
    pub table: &'static str,
    /// Id of the row.
    pub id: String,
    /// Name of the field.
    pub field: String,
    /// Value in the ledger.
    pub ledger: String,
    /// Value in the row.
    pub row: String,
}

/// Result of one pass over a log.
#[derive(Debug, Default)]
pub struct LogScan {
    tree: Builder,
    /// Roots of the log at the sizes of the checkpoints to compare with.
    roots: BTreeMap<u64, Option<Digest>>,
    /// Statements of the entries about keys and approvals.
    pub authority: Authority,
    seen_keys: BTreeSet<KeyId>,
    seen_approvals: BTreeSet<ApprovalId>,
    /// Rows that differ from the ledger, up to a bound.
    pub differing: Vec<DifferingRow>,
    /// Number of all rows that differ.
    pub differing_count: u64,
    /// Description of the first invalid entry.
    flaw: Option<String>,
    /// The newest checkpoint, of the moment of the scan.
    newest: Option<Signed>,
}

/// The log differs from its newest checkpoint.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Flawed(String);

impl LogScan {
    /// Scans the log; `sizes` are those of checkpoints to compare with.
    pub async fn run(store: &dyn Store, sizes: &[u64]) -> Result<Self, Error> {
        let roots = sizes.iter().map(|size| (*size, None)).collect();
        let shared = Arc::new(Shared(Mutex::new(Self { roots, ..Self::default() })));
        store.scan(shared.clone()).await?;
        let mut scan = std::mem::take(&mut *shared.lock());
        scan.find_missing();
        Ok(scan)
    }

    /// Number of entries.
    pub fn size(&self) -> u64 {
        self.tree.size()
    }

    /// Root of the log at one of the requested sizes; none if the log is smaller.
    pub fn root_at(&self, size: u64) -> Option<Digest> {
        self.roots.get(&size).copied().flatten()
    }

    /// Checks that the entries are those under the newest checkpoint. The signature of that
    /// checkpoint is checked when the ledger is opened.
    pub fn check_newest(&self) -> Result<(), Error> {
        if let Some(flaw) = &self.flaw {
            let source =
                Box::new(Flawed(format!("{flaw}; run `ringfence verify --log` for details")));
            let doing = "the ledger differs from its newest checkpoint";
            return Err(Error::Backend { doing, source });
        }
        let Some(Signed { note, .. }) = &self.newest else {
            return if self.size() == 0 { Ok(()) } else { Err(damaged()) };
        };
        let newest = Note::parse(note).and_then(|note| Checkpoint::of(&note));
        let is_same =
            |newest: &Checkpoint| newest.size == self.size() && newest.root == self.tree.root();
        newest.filter(is_same).map(drop).ok_or_else(damaged)
    }

    /// Every field that differs, of the rows in [`LogScan::differing`].
    pub async fn differences(&self, store: &dyn Store) -> Result<Vec<Difference>, Error> {
        let mut all = Vec::new();
        for row in &self.differing {
            all.extend(fields(store, row).await?);
        }
        Ok(all)
    }

    fn visit(&mut self, row: Scanned<'_>) {
        match row {
            Scanned::Entry { index, leaf, payload } => self.entry(index, leaf, payload),
            Scanned::Key(row) => self.key(row),
            Scanned::Approval(row) => self.approval(row),
            Scanned::Checkpoint(newest) => self.newest = Some(newest),
            Scanned::Unreadable(row) if row.table == "ledger" => {
                self.flaw.get_or_insert(row.to_string());
            }
            Scanned::Unreadable(row) => {
                match row.table {
                    "keys" => self.seen_keys.extend(row.id.parse::<KeyId>().ok()),
                    _ => self.seen_approvals.extend(row.id.parse::<ApprovalId>().ok()),
                }
                self.differs(DifferingRow::Unreadable(row));
            }
        }
    }

    fn entry(&mut self, index: u64, leaf: Digest, payload: &str) {
        let expected = self.tree.size();
        if self.flaw.is_none() && index != expected {
            self.flaw = Some(format!("entry {expected} is missing; entry {index} follows"));
        }
        let made = entry_leaf(payload);
        if self.flaw.is_none() && made != leaf {
            self.flaw = Some(format!("the text of entry {index} does not match its hash"));
        }
        self.tree.push(made, drop);
        let size = self.tree.size();
        if let Some(root) = self.roots.get_mut(&size) {
            *root = Some(self.tree.root());
        }
        self.authority.take(index, payload);
    }

    fn key(&mut self, row: Box<Key>) {
        self.seen_keys.insert(row.id);
        let claim = self.authority.keys.get(&row.id);
        if claim.is_none_or(|claim| !key_fields(claim, &row).is_empty()) {
            let claim = claim.cloned().map(Box::new);
            self.differs(DifferingRow::Key { id: row.id, claim, row: Some(row) });
        }
    }

    fn approval(&mut self, row: Box<ApprovalRow>) {
        self.seen_approvals.insert(row.id);
        let claim = self.authority.approvals.get(&row.id);
        let is_same = |claim: &ApprovalClaim| {
            claim.content == ApprovalClaim::digest(&row.standing.approval)
                && approval_fields(claim, &row).is_empty()
        };
        if !claim.is_some_and(is_same) {
            let claim = claim.cloned();
            self.differs(DifferingRow::Approval { id: row.id, claim, row: Some(row) });
        }
    }

    /// Keys and approvals of the ledger without a row. A missing key matters as much as a changed
    /// one: without the row of a revoked key, its approvals would count again.
    fn find_missing(&mut self) {
        let keys: Vec<_> =
            self.authority.keys.keys().filter(|id| !self.seen_keys.contains(id)).copied().collect();
        for id in keys {
            let claim = self.authority.keys.get(&id).cloned().map(Box::new);
            self.differs(DifferingRow::Key { id, claim, row: None });
        }
        let known = self.authority.approvals.keys();
        let approvals: Vec<_> =
            known.filter(|id| !self.seen_approvals.contains(id)).copied().collect();
        for id in approvals {
            let claim = self.authority.approvals.get(&id).cloned();
            self.differs(DifferingRow::Approval { id, claim, row: None });
        }
    }

    fn differs(&mut self, row: DifferingRow) {
        self.differing_count += 1;
        if self.differing.len() < MAX_DIFFERING {
            self.differing.push(row);
        }
    }
}

struct Shared(Mutex<LogScan>);

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, LogScan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Visitor for Shared {
    fn visit(&self, row: Scanned<'_>) {
        self.lock().visit(row);
    }
}

/// The approval that an entry recorded.
pub(super) async fn given(store: &dyn Store, entry: u64) -> Result<Option<Approval>, Error> {
    let query = EntryQuery { from: entry, limit: 1, ..EntryQuery::default() };
    let found = store.entries(query).await?;
    Ok(found.first().filter(|placed| placed.index == entry).and_then(|e| said_in(&e.sealed)))
}

/// The fields of a row that differ.
async fn fields(store: &dyn Store, row: &DifferingRow) -> Result<Vec<Difference>, Error> {
    Ok(match row {
        DifferingRow::Unreadable(row) => {
            let table = if row.table == "keys" { "key" } else { "approval" };
            vec![difference(table, &row.id, "row", "another thing", format!("nothing: {row}"))]
        }
        DifferingRow::Key { id, claim: Some(claim), row: Some(row) } => {
            named("key", id, key_fields(claim, row))
        }
        DifferingRow::Key { id, claim, .. } => vec![presence("key", id, claim.is_some())],
        DifferingRow::Approval { id, claim: Some(claim), row: Some(row) } => {
            let mut fields = approval_fields(claim, row);
            if let Some(given) = given(store, claim.entry).await? {
                fields.extend(content_fields(&given, &row.standing.approval));
            }
            named("approval", id, fields)
        }
        DifferingRow::Approval { id, claim, .. } => vec![presence("approval", id, claim.is_some())],
    })
}

/// Name of a field, its value in the ledger, and its value in the row.
type Field = (String, String, String);

fn named(table: &'static str, id: &impl Display, fields: Vec<Field>) -> Vec<Difference> {
    let named = |(field, ledger, row): Field| difference(table, id, &field, &ledger, row);
    fields.into_iter().map(named).collect()
}

fn presence(table: &'static str, id: &impl Display, is_on_ledger: bool) -> Difference {
    let words = |is_there: bool| if is_there { "it exists" } else { "there is none" };
    difference(table, id, "row", words(is_on_ledger), words(!is_on_ledger).to_owned())
}

fn difference(
    table: &'static str,
    id: &impl Display,
    field: &str,
    ledger: &str,
    row: String,
) -> Difference {
    Difference {
        table,
        id: id.to_string(),
        field: field.to_owned(),
        ledger: ledger.to_owned(),
        row,
    }
}

fn key_fields(claim: &KeyClaim, row: &Key) -> Vec<Field> {
    let KeyClaim { tenant, at, said, revoked_at, .. } = claim;
    let mut fields = Vec::new();
    compare(&mut fields, "tenant", tenant, &row.tenant);
    compare(&mut fields, "label", &said.label, &row.label);
    compare_text(&mut fields, "scopes", json(&said.scopes), json(&row.scopes));
    compare_text(&mut fields, "persona", json(&said.persona), json(&row.persona));
    compare_text(&mut fields, "person", json(&said.person), json(&row.person));
    compare(&mut fields, "created_at", at, &row.created_at);
    compare_text(&mut fields, "created_by", json(&said.by), json(&row.created_by));
    compare_text(&mut fields, "expires_at", time(said.expires_at), time(row.expires_at));
    compare_text(&mut fields, "revoked_at", time(*revoked_at), time(row.revoked_at));
    // The secret of a revoked key no longer matters.
    if let Some(fingerprint) = said.fingerprint.filter(|_| revoked_at.is_none()) {
        let found = KeyChange::fingerprint_of(row.secret);
        compare(&mut fields, "secret (by fingerprint)", &fingerprint, &found);
    }
    fields
}

/// Fields of an approval's row beside its text: state and uses.
fn approval_fields(claim: &ApprovalClaim, row: &ApprovalRow) -> Vec<Field> {
    let approval = &row.standing.approval;
    let mut fields = Vec::new();
    compare(&mut fields, "id", &row.id, &approval.id);
    compare_text(&mut fields, "tenant", approval.tenant.to_string(), row.tenant.clone());
    compare_text(&mut fields, "tool", approval.tool.name.to_string(), row.tool.clone());
    compare(&mut fields, "expires_at", &approval.terms.expires_at, &row.expires_at);
    compare(&mut fields, "uses", &i64::from(approval.terms.uses), &row.uses);
    let (at, by) = (claim.revoked.map(|(at, _)| at), claim.revoked.map(|(_, by)| by));
    compare_text(&mut fields, "revoked_at", time(at), time(row.standing.revoked_at));
    compare_text(&mut fields, "revoked_by", json(&by), json(&row.standing.revoked_by));
    // More uses than receipts is no difference: a running call has used it and has no receipt yet.
    if row.standing.used < claim.used {
        compare(&mut fields, "calls that used it", &claim.used, &row.standing.used);
    }
    fields
}

/// Members of an approval's text that differ.
fn content_fields(given: &Approval, row: &Approval) -> Vec<Field> {
    let object = |approval| match serde_json::to_value(approval) {
        Ok(Value::Object(members)) => members,
        _ => serde_json::Map::new(),
    };
    let (given, row) = (object(given), object(row));
    let names: BTreeSet<_> = given.keys().chain(row.keys()).collect();
    let mut fields = Vec::new();
    for name in names {
        let text = |of: &serde_json::Map<String, Value>| {
            of.get(name).map_or_else(|| "nothing".to_owned(), Value::to_string)
        };
        compare_text(&mut fields, name, text(&given), text(&row));
    }
    fields
}

fn compare<T: PartialEq + Display>(fields: &mut Vec<Field>, name: &str, ledger: &T, row: &T) {
    if ledger != row {
        fields.push((name.to_owned(), ledger.to_string(), row.to_string()));
    }
}

fn compare_text(fields: &mut Vec<Field>, name: &str, ledger: String, row: String) {
    compare(fields, name, &ledger, &row);
}

fn time(at: Option<Timestamp>) -> String {
    at.map_or_else(|| "never".to_owned(), |at| at.to_string())
}

fn json(value: &impl serde::Serialize) -> String {
    match serde_json::to_string(value) {
        Ok(text) if text != "null" => text,
        _ => "nothing".to_owned(),
    }
}
