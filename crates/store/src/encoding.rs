//! Between values and the texts of a record: shared by all backends.

use ringfence_types::{Asked, Call, Decision, Edited, Fact, Sealed, State, Timestamp};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    Error, IDEMPOTENCY_SECS, NewDecision, PAGE, Record,
    packed::{Damaged, Packed, Rest, Texts, Unpacked},
};

/// Cause why a column cannot be decoded.
pub(crate) type Undecodable = Box<dyn std::error::Error + Send + Sync>;

/// Part of a call that changes.
#[derive(Serialize)]
struct Now<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    edited: &'a Option<Edited>,
    decision: &'a Option<Decision>,
    state: &'a State,
    changed_at: Timestamp,
}

#[derive(Deserialize)]
struct OwnedNow {
    #[serde(default)]
    edited: Option<Edited>,
    decision: Option<Decision>,
    state: State,
    changed_at: Timestamp,
}

/// Text of the part of a call that changes.
pub(crate) fn now(call: &Call) -> Result<String, Error> {
    let Call { edited, decision, state, changed_at, .. } = call;
    json(&Now { edited, decision, state, changed_at: *changed_at })
}

/// Text of a value.
pub(crate) fn json<T: Serialize>(value: &T) -> Result<String, Error> {
    let failed = Error::backend("write a value as JSON");
    // Room for most values, so that the text is not moved while it grows.
    let mut text = Vec::with_capacity(1_024);
    serde_json::to_writer(&mut text, value).map_err(failed)?;
    String::from_utf8(text).map_err(Error::backend("write a value as JSON"))
}

/// Value of a text that a record must have.
pub(crate) fn value<T: DeserializeOwned>(text: Option<&str>) -> Result<T, serde_json::Error> {
    serde_json::from_str(text.unwrap_or(""))
}

/// Decision as text, with its document.
#[derive(Debug)]
pub(crate) struct DecisionText {
    pub(crate) at: i64,
    decision: String,
    input: String,
}

impl DecisionText {
    pub(crate) fn of(new: &NewDecision) -> Result<Self, Error> {
        let decision = json(&new.decision)?;
        Ok(Self { at: new.at.as_micros(), decision, input: new.input.clone() })
    }

    /// Bytes of its texts.
    pub(crate) fn bytes(&self) -> usize {
        self.decision.len() + self.input.len()
    }

    /// Decision, and the document that was judged.
    pub(crate) fn texts(&self) -> (&str, &str) {
        (&self.decision, &self.input)
    }

    /// Record of this decision alone, which is no step of a call.
    pub(crate) fn alone(&self) -> Result<Packed, Error> {
        let rest = Some(Rest { decision: Some(self.texts()), ..Rest::default() });
        Ok(Texts { facts: "[]", entries: Vec::new(), rest }.pack()?)
    }
}

/// All texts of a step.
pub(crate) fn pack(
    record: &Record,
    decision: Option<&DecisionText>,
    has_asked: bool,
) -> Result<Packed, Error> {
    let asked = has_asked.then(|| json(&record.call.asked)).transpose()?;
    let (now, facts) = (now(&record.call)?, json(&record.facts)?);
    let rest = Rest {
        decision: decision.map(DecisionText::texts),
        now: Some(&now),
        asked: asked.as_deref(),
    };
    let entries = record.entries.iter().map(|entry| entry.payload.as_str()).collect();
    Ok(Texts { facts: &facts, entries, rest: Some(rest) }.pack()?)
}

/// Entry without its statement, which is among the texts of the record.
pub(crate) fn without_payload(entry: &Sealed) -> Sealed {
    Sealed { payload: String::new(), about: entry.about.clone(), ..*entry }
}

/// Texts of a record, unpacked from its columns `body` and `large`.
#[derive(Debug)]
pub(crate) struct RecordTexts {
    body: Unpacked,
    large: Option<Unpacked>,
}

impl RecordTexts {
    pub(crate) fn of(body: &[u8], large: Option<&[u8]>) -> Result<Self, Damaged> {
        Ok(Self { body: Unpacked::of(body)?, large: large.map(Unpacked::of).transpose()? })
    }

    /// Texts of any size.
    pub(crate) fn rest(&self) -> Result<Rest<'_>, Damaged> {
        match &self.large {
            Some(large) => large.rest(),
            None => Ok(self.body.texts()?.rest.unwrap_or_default()),
        }
    }

    /// The same record without the call: policy has some of it masked from now on. Facts, entries and
    /// decisions stay.
    pub(crate) fn without_call(&self) -> Result<Packed, Damaged> {
        let rest = Rest { now: None, asked: None, ..self.rest()? };
        Texts { rest: Some(rest), ..self.body.texts()? }.pack()
    }

    /// The same record with nothing but its entries of the ledger; none if it has no entry.
    pub(crate) fn entries_alone(&self) -> Result<Option<Packed>, Damaged> {
        let entries = self.body.texts()?.entries;
        if entries.is_empty() {
            return Ok(None);
        }
        Texts { facts: "[]", entries, rest: None }.pack().map(Some)
    }

    /// Decision and the document that was judged, as kept at a moment.
    pub(crate) fn decision(&self, at: Timestamp) -> Result<NewDecision, Undecodable> {
        let (decision, input) = self.rest()?.decision.unwrap_or_default();
        Ok(NewDecision { at, decision: value(Some(decision))?, input: input.to_owned() })
    }
}

/// Call from its newest record and the one that has what was asked, if that is another.
pub(crate) fn call(newest: &RecordTexts, asked: Option<&RecordTexts>) -> Result<Call, Undecodable> {
    let OwnedNow { edited, decision, state, changed_at } = value(newest.rest()?.now)?;
    let asked: Asked = value(asked.unwrap_or(newest).rest()?.asked)?;
    Ok(Call { asked, edited, decision, state, changed_at })
}

/// Facts in the column `body` of a record.
pub(crate) fn facts(body: &Unpacked) -> Result<Vec<Fact>, Undecodable> {
    Ok(value(Some(body.texts()?.facts))?)
}

/// Statement of an entry in the column `body` of a record.
pub(crate) fn payload(body: &[u8], part: i64) -> Result<String, Undecodable> {
    let body = Unpacked::of(body)?;
    let texts = body.texts()?;
    let text = usize::try_from(part).ok().and_then(|part| texts.entries.get(part));
    let text = text.ok_or_else(|| format!("the record has no entry {part}"))?;
    Ok((*text).to_owned())
}

/// Limit of an answer, never above [`PAGE`].
pub(crate) fn page(limit: usize) -> i64 {
    limit.min(PAGE) as i64
}

/// Position as SQL keeps it. One beyond what can exist finds nothing, as it should.
pub(crate) fn position(position: u64) -> i64 {
    i64::try_from(position).unwrap_or(i64::MAX)
}

/// Latest moment that is too long ago for an idempotency key that is used at `now`.
pub(crate) const fn horizon(now: i64) -> i64 {
    now.saturating_sub(IDEMPOTENCY_SECS as i64 * 1_000_000)
}

/// Whether a state of this name is not final.
pub(crate) fn is_open(state: &str) -> bool {
    matches!(state, "accepted" | "held" | "dispatched" | "running" | "cancelling")
}

/// Number of a tile: the level in the highest byte, the index below. No log comes near so many tiles of
/// one level.
pub(crate) const fn tile_id(level: u8, index: u64) -> i64 {
    ((level as i64 & 0x7f) << 56) | (index & 0x00ff_ffff_ffff_ffff).cast_signed()
}
