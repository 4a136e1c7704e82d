//! Lifecycle of tools: proposing, approving with grants, switching on and off, withdrawing.
//!
//! Every transition is an entry of the ledger in the commit of the new state.

mod types;

use std::sync::Arc;

use ringfence_ledger::{Entry as LedgerEntry, ToolTransition, said_in};
use ringfence_policy::{Action, ToolFacts};
use ringfence_registry::{Definition, Entry, beyond, differences};
use ringfence_store::{EntryQuery, Error, NewToolRow, PAGE, ToolRow, ToolRowDetails};
use ringfence_types::{
    EntryKind, IllegalTransition, Json, KeyId, LifecycleEvent, Origin, Principal, Timestamp,
    ToolName, ToolPermissions, ToolRef, ToolStatus, TraceContext,
};

pub use self::types::{
    LifecycleError, ProposedTool, ToolApproval, ToolDifference, ToolHistoryEntry, ToolState,
    VersionChoice,
};
use crate::{Engine, lifecycle};

/// Versions that are kept.
const MAX_VERSIONS: usize = 50_000;

/// Versions that are written in one commit.
const VERSIONS_PER_COMMIT: usize = 100;

/// Changes of one tool that are shown.
const MAX_HISTORY: usize = 200;

/// Characters of a reason.
pub const MAX_WHY_CHARS: usize = 1_000;

/// One row to be written.
struct Step {
    seen: Option<u64>,
    row: ToolRow,
    events: Vec<(LifecycleEvent, Option<ToolStatus>, ToolStatus)>,
}

/// Maker, time and reason of a change.
#[derive(Debug, Clone)]
struct By {
    key: Option<KeyId>,
    why: String,
    at: Timestamp,
}

impl Engine {
    /// State of every version of every tool, by name, version and digest.
    pub fn tool_states(&self) -> Vec<ToolState> {
        let rows = self.inner.lifecycle.rows();
        let mut states: Vec<_> = rows.all().map(|known| state_of_row(&known.row)).collect();
        let catalogue = self.tools();
        let active = catalogue.entries().iter().map(|entry| (entry, ToolStatus::Active));
        let inactive = catalogue.inactive().iter();
        let inactive = inactive.filter_map(|one| Some((one.entry.as_ref()?, one.status)));
        for (entry, status) in active.chain(inactive) {
            if rows.get(entry.tool.digest).is_none() {
                states.push(state_of_entry(entry, status));
            }
        }
        states.sort_by(|ToolState { tool: one, .. }, ToolState { tool: other, .. }| {
            let names = one.name.cmp(&other.name).then_with(|| one.version.cmp(&other.version));
            names.then_with(|| one.digest.as_bytes().cmp(other.digest.as_bytes()))
        });
        states
    }

    /// State of the versions of one tool, oldest change first.
    pub fn states_of_tool(&self, name: &ToolName) -> Vec<ToolState> {
        let rows = self.inner.lifecycle.rows();
        let mut states: Vec<_> = rows.named(name).map(|known| state_of_row(&known.row)).collect();
        let catalogue = self.tools();
        let active = catalogue.versions(name.as_str()).iter();
        let inactive = catalogue.inactive_versions(name.as_str()).iter();
        let inactive = inactive.filter_map(|one| Some((one.entry.as_ref()?, one.status)));
        for (entry, status) in active.map(|entry| (entry, ToolStatus::Active)).chain(inactive) {
            if rows.get(entry.tool.digest).is_none() {
                states.push(state_of_entry(entry, status));
            }
        }
        states.sort_by_key(|state| {
            let tool = &state.tool;
            let created_at = state.row.as_ref().map(|row| row.about.created_at);
            (created_at, tool.version.clone(), tool.digest.hex())
        });
        states
    }

    /// Differences between a version and the one whose place it is to take, or the reverse for one that
    /// was quarantined; none if there is no such pair.
    pub fn tool_differences(
        &self,
        name: &ToolName,
        choice: &VersionChoice,
    ) -> Option<ToolDifference> {
        let rows = self.inner.lifecycle.rows();
        let fits = |row: &ToolRow| row.about.replaces.is_some();
        let chosen = |row: &ToolRow| {
            let is_it = |tool: &ToolRef| {
                choice.digest.is_none_or(|digest| tool.digest == digest)
                    && choice.version.as_ref().is_none_or(|version| tool.version == *version)
            };
            let before = row.about.replaces.and_then(|digest| rows.get(digest));
            is_it(&row.tool) || before.is_some_and(|before| is_it(&before.row.tool))
        };
        let newer = rows.named(name).filter(|known| fits(&known.row) && chosen(&known.row));
        let newer = newer.max_by_key(|known| known.row.about.created_at)?;
        let before = rows.get(newer.row.about.replaces?)?;
        let (old, new) = (before.row.definition.as_ref()?, newer.row.definition.as_ref()?);
        Some(ToolDifference {
            before: before.row.tool.clone(),
            after: newer.row.tool.clone(),
            changes: differences(old, new),
        })
    }

    /// Changes in the lifecycle of a tool, oldest first: the newest ones, as the ledger has them.
    pub async fn tool_history(&self, name: &ToolName) -> Result<Vec<ToolHistoryEntry>, Error> {
        let (mut from, mut history) = (0, Vec::new());
        loop {
            let (kind, tool) = (Some(EntryKind::Tool), Some(name.clone()));
            let query = EntryQuery { kind, tool, from, limit: PAGE, ..EntryQuery::default() };
            let page = self.inner.parts.store.audit(query).await?;
            for placed in &page.entries {
                if let Some(transition) = said_in::<ToolTransition>(&placed.sealed) {
                    let (index, at) = (placed.index, placed.sealed.about.at);
                    history.push(ToolHistoryEntry { index, at, transition });
                }
            }
            let excess = history.len().saturating_sub(MAX_HISTORY);
            history.drain(..excess);
            match page.next {
                Some(next) => from = next,
                None => return Ok(history),
            }
        }
    }

    /// Proposes tools of one source. One that is known changes nothing; one that was withdrawn is proposed
    /// again; one that differs from what the source offered under the same name and version quarantines
    /// that one alone. Without a principal the server asks by itself, which never brings back what was
    /// withdrawn.
    pub async fn propose_tools(
        &self,
        who: Option<(&Principal, &TraceContext)>,
        source: &str,
        definitions: &[Definition],
    ) -> Result<Vec<ProposedTool>, LifecycleError> {
        for definition in definitions {
            let problems = definition.problems();
            if !problems.is_empty() {
                let name = definition.name.to_string();
                return Err(LifecycleError::Broken { name, problems });
            }
        }
        self.propose_checked(who, source, definitions).await
    }

    /// Proposes tools whose definitions have no problems.
    pub(super) async fn propose_checked(
        &self,
        who: Option<(&Principal, &TraceContext)>,
        source: &str,
        definitions: &[Definition],
    ) -> Result<Vec<ProposedTool>, LifecycleError> {
        if let (Some((who, trace)), Some(first)) = (who, definitions.first()) {
            let args = Json::plain(&serde_json::json!({"source": source, "event": "propose"}));
            let about = facts(first);
            drop(self.permit_action(who, trace, Action::ToolInstall, about, args).await?);
        }
        let key = who.map(|(who, _)| who.key);
        let mut proposed = Vec::with_capacity(definitions.len());
        for chunk in definitions.chunks(VERSIONS_PER_COMMIT) {
            proposed.extend(self.propose_chunk(key, source, chunk).await?);
        }
        Ok(proposed)
    }

    async fn propose_chunk(
        &self,
        key: Option<KeyId>,
        source: &str,
        definitions: &[Definition],
    ) -> Result<Vec<ProposedTool>, LifecycleError> {
        let rows = self.inner.lifecycle.rows();
        if rows.len() + definitions.len() > MAX_VERSIONS {
            return Err(LifecycleError::Full);
        }
        let at = self.clock().now();
        let (mut steps, mut proposed) = (Vec::new(), Vec::new());
        for definition in definitions {
            self.check_name(definition, source)?;
            let tool = definition.reference();
            let known = rows.get(tool.digest);
            let status = known.map(|known| known.row.status);
            let again = key.is_some() && status == Some(ToolStatus::Revoked);
            if let (Some(status), false) = (status, again) {
                proposed.push(ProposedTool { tool, status, is_new: false, replaces: None });
                continue;
            }
            let by = By { key, why: String::new(), at };
            let mut replaces = None;
            for earlier in rows.named(&definition.name) {
                if let Some(step) = superseded(earlier, definition, &tool, &by) {
                    replaces = Some(earlier.row.tool.digest);
                    steps.push(step);
                }
            }
            let (event, to) = (LifecycleEvent::Propose, ToolStatus::Proposed);
            let row = ToolRow {
                tool: tool.clone(),
                status: to,
                definition: Some(definition.text()),
                about: ToolRowDetails {
                    origin: definition.origin,
                    source: source.to_owned(),
                    asks: definition.asks.clone(),
                    grants: None,
                    replaces: replaces.or(known.and_then(|known| known.row.about.replaces)),
                    by: key,
                    why: String::new(),
                    changed_at: at,
                    created_at: at,
                    stops_running: false,
                },
            };
            let seen = known.map(|known| known.revision);
            steps.push(Step { seen, row, events: vec![(event, status, to)] });
            proposed.push(ProposedTool { tool, status: to, is_new: true, replaces });
        }
        self.write_steps(steps).await?;
        Ok(proposed)
    }

    /// Refuses a name that a tool of another source has.
    pub(super) fn check_name(
        &self,
        definition: &Definition,
        source: &str,
    ) -> Result<(), LifecycleError> {
        let (name, catalogue) = (&definition.name, self.tools());
        let taken = |holder: String| LifecycleError::Taken { name: name.to_string(), holder };
        let is_file = |origin: Origin| origin.is_born_active();
        let versions = catalogue.versions(name.as_str()).iter().map(|entry| entry.tool.origin);
        let inactive = catalogue.inactive_versions(name.as_str()).iter();
        if versions.chain(inactive.map(|inactive| inactive.origin)).any(is_file) {
            return Err(taken("a tool of the server".to_owned()));
        }
        let rows = self.inner.lifecycle.rows();
        let other = rows.named(name).find(|known| {
            let about = &known.row.about;
            let is_other = about.origin != definition.origin
                || (about.source != source && definition.origin != Origin::Manifest);
            is_other && known.row.status != ToolStatus::Revoked
        });
        match other {
            Some(other) => Err(taken(format!("a tool from `{}`", other.row.about.source))),
            None => Ok(()),
        }
    }

    /// Approves a proposed or quarantined version with its grants, and switches it on.
    pub async fn approve_tool(
        &self,
        who: &Principal,
        trace: &TraceContext,
        name: &ToolName,
        choice: &VersionChoice,
        approval: ToolApproval,
    ) -> Result<ToolState, LifecycleError> {
        let known = self.waiting(name, choice)?;
        let grants = approval.grants.unwrap_or_else(|| known.row.about.asks.clone());
        let parts = beyond(&grants, &known.row.about.asks);
        if !parts.is_empty() {
            return Err(LifecycleError::Beyond { parts });
        }
        let args = serde_json::json!({"event": "approve", "grants": grants.names()});
        self.permit(who, trace, Action::ToolInstall, &known.row, &args).await?;
        let mut events = vec![LifecycleEvent::Approve, LifecycleEvent::Install];
        if !approval.stays_off {
            events.push(LifecycleEvent::Enable);
        }
        let by = self.by(who, approval.why)?;
        let step = next(known.revision, &known.row, &events, &by, |about| {
            about.grants = Some(grants);
        })?;
        let row = step.row.clone();
        self.write_steps(vec![step]).await?;
        Ok(state_of_row(&Arc::new(row)))
    }

    /// Changes the grants of a version that was approved.
    pub async fn grant_tool(
        &self,
        who: &Principal,
        trace: &TraceContext,
        name: &ToolName,
        choice: &VersionChoice,
        grants: ToolPermissions,
        why: String,
    ) -> Result<ToolState, LifecycleError> {
        let rows = self.inner.lifecycle.rows();
        let granted =
            |row: &ToolRow| row.about.grants.is_some() && row.status != ToolStatus::Revoked;
        let found = rows.named(name).filter(|known| is_chosen(&known.row.tool, choice));
        let mut found: Vec<_> = found.filter(|known| granted(&known.row)).cloned().collect();
        found.sort_by_key(|known| known.row.about.created_at);
        let known = match found.pop() {
            Some(known) if found.is_empty() => known,
            Some(known) => {
                found.push(known);
                return Err(ambiguous(name, found.iter().map(|known| &known.row.tool)));
            }
            None if self
                .tools()
                .versions(name.as_str())
                .iter()
                .any(|entry| entry.tool.origin.is_born_active()) =>
            {
                return Err(LifecycleError::NotGranted { name: name.to_string() });
            }
            None => return Err(unknown(name, choice)),
        };
        let parts = beyond(&grants, &known.row.about.asks);
        if !parts.is_empty() {
            return Err(LifecycleError::Beyond { parts });
        }
        let args = serde_json::json!({"event": "grant", "grants": grants.names()});
        self.permit(who, trace, Action::ToolInstall, &known.row, &args).await?;
        let by = self.by(who, why)?;
        let status = known.row.status;
        let about = ToolRowDetails {
            grants: Some(grants),
            by: by.key,
            why: by.why,
            changed_at: by.at,
            stops_running: false,
            ..known.row.about.clone()
        };
        let row = ToolRow { about, ..(*known.row).clone() };
        let events = vec![(LifecycleEvent::Approve, Some(status), status)];
        let step = Step { seen: Some(known.revision), row: row.clone(), events };
        self.write_steps(vec![step]).await?;
        Ok(state_of_row(&Arc::new(row)))
    }

    /// Switches versions of a tool on or off, quarantines or withdraws them: the named one, or all that the
    /// event applies to. With `stops_running` their running calls are cancelled, in every process.
    #[expect(
        clippy::too_many_arguments,
        reason = "who, where, what, which, why and how are all asked for"
    )]
    pub async fn change_tool(
        &self,
        who: &Principal,
        trace: &TraceContext,
        name: &ToolName,
        choice: &VersionChoice,
        event: LifecycleEvent,
        why: String,
        stops_running: bool,
    ) -> Result<Vec<ToolState>, LifecycleError> {
        let candidates: Vec<_> = self
            .states_of_tool(name)
            .into_iter()
            .filter(|state| is_chosen(&state.tool, choice))
            .collect();
        let Some(last) = candidates.last() else { return Err(unknown(name, choice)) };
        if let (true, Err(illegal)) =
            (candidates.iter().all(|state| state.status.on(event).is_err()), last.status.on(event))
        {
            return Err(illegal.into());
        }
        let action = match event {
            LifecycleEvent::Enable => Action::ToolInstall,
            _ => Action::ToolRemove,
        };
        let by = self.by(who, why)?;
        let rows = self.inner.lifecycle.rows();
        let mut steps = Vec::new();
        for state in candidates.iter().filter(|state| state.status.on(event).is_ok()) {
            let seen = rows.get(state.tool.digest).map(|known| known.revision);
            let before = state.row.clone().unwrap_or_else(|| Arc::new(first_row(state, by.at)));
            let args = serde_json::json!({"event": event.name()});
            self.permit(who, trace, action.clone(), &before, &args).await?;
            let mut step = next(0, &before, &[event], &by, |about| {
                about.stops_running = stops_running;
            })?;
            step.seen = seen;
            steps.push(step);
        }
        let changed = steps.iter().map(|step| state_of_row(&Arc::new(step.row.clone()))).collect();
        self.write_steps(steps).await?;
        Ok(changed)
    }

    /// The one version that waits for a decision.
    fn waiting(
        &self,
        name: &ToolName,
        choice: &VersionChoice,
    ) -> Result<lifecycle::KnownRow, LifecycleError> {
        let rows = self.inner.lifecycle.rows();
        let chosen: Vec<_> =
            rows.named(name).filter(|known| is_chosen(&known.row.tool, choice)).collect();
        if chosen.is_empty() {
            return match self.states_of_tool(name).pop() {
                Some(state) => Err(illegal(state.status, LifecycleEvent::Approve)),
                None => Err(unknown(name, choice)),
            };
        }
        let is =
            |status: ToolStatus| move |known: &&&lifecycle::KnownRow| known.row.status == status;
        let proposed: Vec<_> = chosen.iter().filter(is(ToolStatus::Proposed)).collect();
        let quarantined: Vec<_> = chosen.iter().filter(is(ToolStatus::Quarantined)).collect();
        // The one that replaces a quarantined one is what a person is asked about.
        let waiting = if proposed.is_empty() { quarantined } else { proposed };
        match waiting.as_slice() {
            [one] => Ok((**one).clone()),
            [] => {
                let newest = chosen.iter().max_by_key(|known| known.revision);
                let status = newest.map_or(ToolStatus::Revoked, |known| known.row.status);
                Err(illegal(status, LifecycleEvent::Approve))
            }
            several => Err(ambiguous(name, several.iter().map(|known| &known.row.tool))),
        }
    }

    fn by(&self, who: &Principal, why: String) -> Result<By, LifecycleError> {
        if why.chars().count() > MAX_WHY_CHARS {
            return Err(LifecycleError::LongReason);
        }
        Ok(By { key: Some(who.key), why, at: self.clock().now() })
    }

    async fn permit(
        &self,
        who: &Principal,
        trace: &TraceContext,
        action: Action,
        row: &ToolRow,
        args: &serde_json::Value,
    ) -> Result<(), LifecycleError> {
        let read = row.definition.as_ref().and_then(|text| text.read::<Definition>().ok());
        let about = match read {
            Some(definition) => facts(&definition),
            None => ToolFacts::named(row.tool.name.clone(), &row.tool.version),
        };
        drop(self.permit_action(who, trace, action, about, Json::plain(args)).await?);
        Ok(())
    }

    /// Writes new states with their entries in one commit, and takes them over in this process.
    async fn write_steps(&self, steps: Vec<Step>) -> Result<(), LifecycleError> {
        if steps.is_empty() {
            return Ok(());
        }
        let ledger = &self.inner.parts.ledger;
        let guard = ledger.signing_guard().await;
        let mut entries = Vec::new();
        for step in &steps {
            for (event, from, to) in &step.events {
                let transition = transition(&step.row, *event, *from, *to);
                let entry = LedgerEntry::tool_transition(step.row.about.changed_at, &transition);
                entries.push(guard.seal(entry)?);
            }
        }
        let rows = steps.into_iter().map(|Step { seen, row, .. }| NewToolRow { seen, row });
        let written = self.inner.parts.store.put_tools(rows.collect(), entries).await;
        drop(guard);
        // After a conflict too: the next try sees what others wrote.
        lifecycle::refresh(&self.inner).await?;
        Ok(written?)
    }
}

fn transition(
    row: &ToolRow,
    transition: LifecycleEvent,
    from: Option<ToolStatus>,
    to: ToolStatus,
) -> ToolTransition {
    let about = &row.about;
    let is_approval = transition == LifecycleEvent::Approve;
    ToolTransition {
        transition,
        tool: row.tool.clone(),
        from,
        to,
        origin: about.origin,
        by: about.by,
        why: about.why.clone(),
        grants: about.grants.clone().filter(|_| is_approval),
        replaces: about.replaces,
    }
}

/// The row after some events.
fn next(
    seen: u64,
    row: &ToolRow,
    events: &[LifecycleEvent],
    by: &By,
    change: impl FnOnce(&mut ToolRowDetails),
) -> Result<Step, IllegalTransition> {
    let mut row = row.clone();
    let mut steps = Vec::with_capacity(events.len());
    for event in events {
        let from = row.status;
        row.status = from.on(*event)?;
        steps.push((*event, Some(from), row.status));
    }
    row.about.by = by.key;
    row.about.why.clone_from(&by.why);
    row.about.changed_at = by.at;
    row.about.stops_running = false;
    change(&mut row.about);
    Ok(Step { seen: Some(seen), row, events: steps })
}

/// The step of an earlier version whose place another one is to take; none if it stays as it is.
fn superseded(
    earlier: &lifecycle::KnownRow,
    definition: &Definition,
    by_tool: &ToolRef,
    by: &By,
) -> Option<Step> {
    let row = &earlier.row;
    // An author's new version stands beside the old one; a server that offers tools has one of each name.
    let is_same = row.tool.version == definition.version || definition.origin == Origin::Mcp;
    if !is_same || row.tool.digest == by_tool.digest {
        return None;
    }
    let why = format!("its source now offers another definition, {}", by_tool.digest);
    let by = By { why, ..by.clone() };
    let step = |event| next(earlier.revision, row, &[event], &by, |_| {}).ok();
    match row.status {
        ToolStatus::Discovered | ToolStatus::Proposed => step(LifecycleEvent::Revoke),
        _ => step(LifecycleEvent::Quarantine),
    }
}

fn facts(definition: &Definition) -> ToolFacts {
    ToolFacts {
        digest: definition.digest(),
        name: definition.name.clone(),
        origin: definition.origin,
        pure: false,
        requires_approval: definition.requires_approval,
        safety_flags: definition.safety_flags.clone(),
        tags: definition.tags.clone(),
        version: definition.version.clone(),
    }
}

fn state_of_row(row: &Arc<ToolRow>) -> ToolState {
    let definition = row.definition.as_ref().and_then(|text| text.read().ok());
    ToolState {
        tool: row.tool.clone(),
        origin: row.about.origin,
        status: row.status,
        row: Some(row.clone()),
        definition,
    }
}

fn state_of_entry(entry: &Entry, status: ToolStatus) -> ToolState {
    let (tool, origin) = (entry.tool.reference(), entry.tool.origin);
    ToolState { tool, origin, status, row: None, definition: None }
}

/// The first row of a version that files of the server define.
fn first_row(state: &ToolState, at: Timestamp) -> ToolRow {
    ToolRow {
        tool: state.tool.clone(),
        status: state.status,
        definition: None,
        about: ToolRowDetails {
            origin: state.origin,
            source: state.origin.name().to_owned(),
            asks: ToolPermissions::default(),
            grants: None,
            replaces: None,
            by: None,
            why: String::new(),
            changed_at: at,
            created_at: at,
            stops_running: false,
        },
    }
}

fn is_chosen(tool: &ToolRef, choice: &VersionChoice) -> bool {
    choice.digest.is_none_or(|digest| tool.digest == digest)
        && choice.version.as_ref().is_none_or(|version| tool.version == *version)
}

fn unknown(name: &ToolName, choice: &VersionChoice) -> LifecycleError {
    let digest = choice.digest.map(|digest| digest.to_string());
    LifecycleError::Unknown { name: name.to_string(), version: choice.version.clone().or(digest) }
}

fn illegal(status: ToolStatus, event: LifecycleEvent) -> LifecycleError {
    IllegalTransition { status, event }.into()
}

fn ambiguous<'a>(name: &ToolName, tools: impl Iterator<Item = &'a ToolRef>) -> LifecycleError {
    let versions = tools.map(|tool| format!("{} ({})", tool.version, tool.digest)).collect();
    LifecycleError::Ambiguous { name: name.to_string(), versions }
}
