//! A log with an entry of every kind, two keys, and a checkpoint now and then.

use std::time::Duration;

use ringfence_ledger::{
    Artifact, Bundle, Entry, Envelope, Item, KeyChange, LedgerKey, Manifest, Row, Selection,
    Signer, SigningKey, ToolChange, ToolEvent,
    merkle::{self, Builder, Tile, TileId, Tiles},
};
use ringfence_types::{
    About, Asked, Call, CallId, Decision, Digest, Finished, Json, KeyId, Memoised, Obligations,
    Produced, Reason, Receipt, ReceiptDetails, Scope, Scopes, State, Stream, Timestamp, ToolRef,
    Verdict,
};
use serde_json::json;
use uuid::Uuid;

pub(crate) const RESULT: &str = r#"{"words":6}"#;
pub(crate) const PRINTED: &[u8] = b"six words\n";

/// A log as it would be read.
pub(crate) struct Log {
    pub(crate) rows: Vec<Row>,
    pub(crate) checkpoints: Vec<String>,
    pub(crate) signer: Signer,
}

pub(crate) fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(1_767_225_600_000_000).after(Duration::from_secs(seconds))
}

pub(crate) fn call_id(number: u128) -> CallId {
    CallId(Uuid::from_u128(number))
}

pub(crate) fn signer(seed: u8) -> Signer {
    Signer::new(SigningKey::from_seed([seed; 32]), "ringfence/samples".into()).unwrap()
}

fn tool() -> ToolRef {
    let name = "text.count".parse().unwrap();
    ToolRef { name, version: "1.0.0".into(), digest: Digest::of(b"tool") }
}

pub(crate) fn decision() -> Decision {
    Decision {
        verdict: Verdict::Hold,
        reasons: vec![Reason { rule: "mail.outside".into(), message: "ask first".into() }],
        obligations: Obligations::default(),
        approvals: None,
        approval: None,
        fail_open: false,
        engine: "rego".into(),
        policy: Digest::of(b"policy"),
        input: Digest::of(b"input"),
    }
}

pub(crate) fn asked(number: u128) -> Asked {
    let args = Json::parse(br#"{"text":"a b c d e f"}"#).unwrap();
    Asked {
        id: call_id(number),
        tenant: "acme".parse().unwrap(),
        key: KeyId(Uuid::from_u128(7)),
        scopes: Scopes::from(vec![Scope::Call]),
        persona: Some("reader".parse().unwrap()),
        session: Some("thread-1".parse().unwrap()),
        tool: tool(),
        pure: true,
        args_digest: Digest::of_json(&args),
        inputs_hash: String::new(),
        args,
        metadata: Json::empty_object(),
        idempotency: None,
        fresh: false,
        trace_id: "0".repeat(32),
        trace_parent: None,
        trace_state: None,
        cause: None,
        taint: Vec::new(),
        accepted_at: at(10),
    }
}

/// A call that ended with a result, or, without one, denied.
pub(crate) fn receipt(number: u128, has_result: bool) -> Receipt {
    let finished = Finished {
        produced: Produced::Result(Json::parse(RESULT.as_bytes()).unwrap()),
        true_result: None,
        outputs_hash: String::new(),
        outcome: None,
        stdout: Stream { length: 10, digest: Some(Digest::of(PRINTED)), truncated: None },
        stderr: Stream::default(),
        usage: None,
        isolation: None,
        layers: None,
        files: None,
        started_at: at(11),
        duration: Duration::from_millis(3),
        memoised: None,
        tokens: None,
    };
    let state = match has_result {
        true => State::Finished(Box::new(finished)),
        false => State::Denied { reasons: decision().reasons },
    };
    let (asked, decision, edited) = (asked(number), Some(decision()), None);
    let call = Call { asked, edited, decision, state, changed_at: at(12) };
    Receipt::of(&call, ReceiptDetails::default()).unwrap()
}

fn about(number: u128, seconds: u64) -> About {
    About::call(&asked(number), at(seconds))
}

fn genesis(signer: &Signer) -> Entry {
    let key = LedgerKey {
        origin: signer.origin().into(),
        public: *signer.public(),
        id: signer.id(),
        replaces: None,
    };
    Entry::checkpoint_key(at(0), &key)
}

fn rotation(old: &Signer, new: &Signer) -> Entry {
    let key = LedgerKey {
        origin: old.origin().into(),
        public: *new.public(),
        id: new.id(),
        replaces: Some(old.id()),
    };
    Entry::checkpoint_key(at(20), &key)
}

fn first_half() -> Vec<Entry> {
    let change = ToolChange {
        event: ToolEvent::Added,
        tool: tool(),
        origin: "builtin".into(),
        before: None,
    };
    let key = KeyChange {
        event: "created".into(),
        key: KeyId(Uuid::from_u128(7)),
        label: "first".into(),
        scopes: Scopes::from(vec![Scope::Admin]),
        persona: None,
        person: Some("ann".parse().unwrap()),
        expires_at: None,
        by: None,
        fingerprint: None,
    };
    vec![
        Entry::tool(at(1), &change),
        Entry::key("acme".parse().unwrap(), at(2), &key),
        Entry::call(receipt(1, true)),
        Entry::decision(about(2, 13), &decision()),
    ]
}

fn second_half() -> Vec<Entry> {
    vec![
        Entry::approval(about(2, 21), &json!({"by": "anna", "uses": 1})),
        Entry::resolution(about(2, 22), &json!({"action": "approve", "reason": "fine"})),
        Entry::call(receipt(2, true)),
        Entry::call(receipt(3, false)),
    ]
}

/// The log, with a checkpoint before and after the second key and at the end.
pub(crate) fn log() -> Log {
    let (old, new) = (signer(1), signer(2));
    let mut log = Log { rows: Vec::new(), checkpoints: Vec::new(), signer: signer(2) };
    log.add(&old, vec![genesis(&old)]);
    log.add(&old, first_half());
    log.checkpoint(&old);
    log.add(&old, vec![rotation(&old, &new)]);
    log.checkpoint(&new);
    log.add(&new, second_half());
    log.checkpoint(&new);
    log
}

impl Log {
    fn add(&mut self, signer: &Signer, entries: Vec<Entry>) {
        for entry in entries {
            let sealed = signer.seal(entry).unwrap();
            self.rows.push(Row { index: self.rows.len() as u64, sealed });
        }
    }

    fn checkpoint(&mut self, signer: &Signer) {
        let (tree, _) = self.grown();
        self.checkpoints.push(signer.checkpoint(tree.size(), tree.root()).render());
    }

    pub(crate) fn grown(&self) -> (Builder, Tiles) {
        let mut tree = Builder::default();
        for row in &self.rows {
            tree.push(row.sealed.leaf, |_| {});
        }
        let edge = TileId::edge(tree.size()).into_iter().flatten().zip(tree.edge());
        let tiles = edge.map(|(id, hashes)| Tile { id, hashes: hashes.clone() }).collect();
        (tree, tiles)
    }

    fn items(&self, wanted: impl Fn(&Row) -> bool) -> Vec<Item> {
        let (tree, tiles) = self.grown();
        let item = |row: &Row| Item {
            index: row.index,
            envelope: Envelope::of(&row.sealed).unwrap(),
            proof: merkle::inclusion(&tiles, row.index, tree.size()).unwrap(),
        };
        self.rows.iter().filter(|row| wanted(row)).map(item).collect()
    }

    /// Everything about the second call, with the bytes that its receipt names.
    pub(crate) fn bundle(&self) -> Bundle {
        let artifacts = [RESULT.as_bytes(), PRINTED]
            .map(|bytes| Artifact { digest: Digest::of(bytes), bytes: bytes.to_vec() });
        let about = |row: &Row| row.sealed.about.call == Some(call_id(2));
        self.bundle_of(2, about, Some(artifacts.into()))
    }

    /// The bundle with everything about a call.
    pub(crate) fn bundle_of(
        &self,
        call: u128,
        wanted: impl Fn(&Row) -> bool,
        artifacts: Option<Vec<Artifact>>,
    ) -> Bundle {
        let is_key = |row: &Row| row.sealed.kind == ringfence_types::EntryKind::CheckpointKey;
        let checkpoint = self.checkpoints.last().unwrap().clone();
        let bundle = Bundle::new(checkpoint, self.items(is_key), self.items(wanted), artifacts);
        let selection = Selection::Call(call_id(call));
        let manifest = Manifest { at: at(30), tenant: "acme".parse().unwrap(), selection };
        self.signer.bundle(&manifest, bundle)
    }

    /// A fourth call, which was given the result of an earlier one.
    pub(crate) fn given_again(mut self, memoised: Memoised) -> Self {
        let entry = Entry::call(Receipt { memoised: Some(memoised), ..receipt(4, true) });
        self.add(&signer(2), vec![entry]);
        self.checkpoint(&signer(2));
        self
    }
}
