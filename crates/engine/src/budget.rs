//! Budgets: usage of a call is reserved before it is dispatched, and counted when it has ended.
//!
//! A call may run while something is left of every budget that concerns it: of its tenant and of
//! its key. It reserves one call, and of CPU time and output the limits of its tool, or the rest if
//! that is less; so concurrent calls cannot all use the same rest, and a budget is overdrawn by
//! less than one call's limit. The reservation ends when the end of the call is on record, where it
//! is counted (see `Metering`).
//!
//! Tokens are reserved by estimate: those of the request, and the bound of the answer. Only what asks a
//! model needs some left. An answer of a conversation belongs to no call: see [`Engine::reserve_tokens`].
//!
//! A call without budget is held with the rule [`BUDGET`], and rechecked when the period is over or
//! a budget was changed. Reservations are known only to the process of their calls.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ringfence_registry::Entry;
use ringfence_store::{
    Budget, BudgetBounds, BudgetFor, Error, OtherUsage, Period, UsageQuery, Used, hour_of,
    start_of_hour,
};
use ringfence_types::{Event, Hold, KeyId, Limits, Reason, TenantId, Timestamp, Tokens};

use crate::{Engine, active_call::ActiveCall, engine::Inner, runners};

/// Rule named when a call is held for lack of budget.
const BUDGET: &str = "budget";

/// Time for which the budgets of a tenant are not looked up again; another process may change them.
const CACHE_TIME: Duration = Duration::from_secs(1);

/// Tenants whose budgets are kept in memory.
const MAX_CACHED: usize = 10_000;

/// Budgets of tenants, and when they were looked up.
type CachedBudgets = HashMap<TenantId, (Timestamp, Arc<[Budget]>)>;

/// Budgets as this process knows them.
#[derive(Debug, Default)]
pub(crate) struct Budgets {
    cached: Mutex<CachedBudgets>,
    reserved: Arc<Mutex<HashMap<BudgetFor, Used>>>,
    /// Held while a call computes the rest and reserves its share.
    turn: tokio::sync::Mutex<()>,
    /// Whether a call was held for lack of budget.
    has_held: AtomicBool,
}

/// A budget with its usage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetState {
    /// The budget.
    pub budget: Budget,
    /// Usage of calls that ended in the present period.
    pub used: Used,
    /// Reservations of running calls.
    pub reserved: Used,
    /// End of the period.
    pub renewed_at: Timestamp,
}

impl BudgetState {
    /// The exhausted resource, if there is one, for what may take these tokens.
    fn exhausted(&self, tokens: u64) -> Option<&'static str> {
        if tokens > 0 && self.has_no_tokens() {
            return Some("tokens");
        }
        let BudgetBounds { calls, cpu, output_bytes, .. } = self.budget.bounds;
        let (used, reserved) = (&self.used, &self.reserved);
        if calls.is_some_and(|most| used.calls.saturating_add(reserved.calls) >= most) {
            return Some("calls");
        }
        if cpu.is_some_and(|most| used.cpu.saturating_add(reserved.cpu) >= most) {
            return Some("CPU time");
        }
        let output = used.output_bytes.saturating_add(reserved.output_bytes);
        output_bytes.is_some_and(|most| output >= most).then_some("output")
    }

    fn has_no_tokens(&self) -> bool {
        let taken = self.used.tokens.and(self.reserved.tokens).total();
        self.budget.bounds.tokens.is_some_and(|most| taken >= most)
    }

    /// Tokens to reserve of those that are wanted: the rest if that is less.
    fn token_share(&self, wanted: u64) -> Tokens {
        let taken = self.used.tokens.and(self.reserved.tokens).total();
        let left = self.budget.bounds.tokens.map(|most| most.saturating_sub(taken).min(wanted));
        Tokens { input: left.unwrap_or_default(), output: 0 }
    }

    /// Reservation of a call with these limits that may take these tokens.
    fn share(&self, limits: &Limits, tokens: u64) -> Used {
        let BudgetBounds { cpu, output_bytes, .. } = self.budget.bounds;
        let (used, reserved) = (&self.used, &self.reserved);
        let time = limits.wall.saturating_mul(limits.cpus.0).checked_div(1_000);
        let cpu = cpu.map(|most| {
            let left = most.saturating_sub(used.cpu).saturating_sub(reserved.cpu);
            left.min(time.unwrap_or_default())
        });
        let output = output_bytes.map(|most| {
            let gone = used.output_bytes.saturating_add(reserved.output_bytes);
            most.saturating_sub(gone).min(limits.output.0)
        });
        Used {
            calls: 1,
            failures: 0,
            cpu: cpu.unwrap_or_default(),
            wall: Duration::ZERO,
            output_bytes: output.unwrap_or_default(),
            tokens: self.token_share(tokens),
        }
    }

    /// Reason of the hold, in words that stay the same until the period is over.
    fn reason(&self, exhausted: &str) -> Reason {
        let BudgetFor { tenant, key, per } = &self.budget.of;
        let per = match per {
            Period::Hour => "hour",
            Period::Day => "day",
        };
        let of = match key {
            Some(key) => format!("key {key}"),
            None => format!("tenant `{tenant}`"),
        };
        let message = format!(
            "the {exhausted} of {of} for this {per} are used up; the call goes on after {} or when \
             the budget is raised",
            self.renewed_at
        );
        Reason { rule: BUDGET.into(), message }
    }
}

/// Reservation of a call, until its end is on record.
#[derive(Debug, Default)]
pub(crate) struct Reservation {
    reserved: Arc<Mutex<HashMap<BudgetFor, Used>>>,
    shares: Vec<(BudgetFor, Used)>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.shares.is_empty() {
            return;
        }
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        for (of, share) in &self.shares {
            let Some(sum) = reserved.get_mut(of) else { continue };
            sum.calls = sum.calls.saturating_sub(share.calls);
            sum.cpu = sum.cpu.saturating_sub(share.cpu);
            sum.output_bytes = sum.output_bytes.saturating_sub(share.output_bytes);
            sum.tokens.input = sum.tokens.input.saturating_sub(share.tokens.input);
            if *sum == Used::default() {
                reserved.remove(of);
            }
        }
    }
}

/// Reserves what the call may take; `None` if it is held instead.
pub(crate) async fn reserve(
    active: &mut ActiveCall,
    entry: &Entry,
) -> Result<Option<Reservation>, Error> {
    let inner = active.inner.clone();
    let (tenant, key) = (active.asked().tenant.clone(), active.asked().key);
    let tokens = runners::of(entry).tokens(entry, active.args());
    let share = |state: &BudgetState| match state.exhausted(tokens) {
        Some(exhausted) => Err(exhausted),
        None => Ok(state.share(&entry.tool.limits, tokens)),
    };
    match reserve_shares(&inner, &tenant, key, share).await? {
        Ok(reservation) => Ok(Some(reservation)),
        Err((exhausted, state)) => {
            hold(active, state.reason(exhausted), state.renewed_at);
            Ok(None)
        }
    }
}

/// A resource that is exhausted, with the budget that bounds it.
type Exhausted = (&'static str, Box<BudgetState>);

/// Reserves a share of every budget that concerns a key, or of none.
async fn reserve_shares(
    inner: &Inner,
    tenant: &TenantId,
    key: KeyId,
    share: impl Fn(&BudgetState) -> Result<Used, &'static str>,
) -> Result<Result<Reservation, Exhausted>, Error> {
    let concerns = |budget: &&Budget| budget.of.key.is_none_or(|of| of == key);
    let budgets = of_tenant(inner, tenant).await?;
    if !budgets.iter().any(|budget| concerns(&budget)) {
        return Ok(Ok(Reservation::default()));
    }
    // Until the shares are added below.
    let _turn = inner.budgets.turn.lock().await;
    let mut shares = Vec::new();
    for budget in budgets.iter().filter(concerns) {
        let state = state(inner, budget).await?;
        match share(&state) {
            Ok(share) => shares.push((budget.of.clone(), share)),
            Err(exhausted) => return Ok(Err((exhausted, Box::new(state)))),
        }
    }
    let mut reserved = inner.budgets.reserved();
    for (of, share) in &shares {
        let sum = reserved.entry(of.clone()).or_default();
        sum.calls = sum.calls.saturating_add(share.calls);
        sum.cpu = sum.cpu.saturating_add(share.cpu);
        sum.output_bytes = sum.output_bytes.saturating_add(share.output_bytes);
        sum.tokens.input = sum.tokens.input.saturating_add(share.tokens.input);
    }
    drop(reserved);
    Ok(Ok(Reservation { reserved: inner.budgets.reserved.clone(), shares }))
}

/// Holds the call, or leaves it as it is if it is held for the same reason already.
fn hold(active: &mut ActiveCall, reason: Reason, renewed_at: Timestamp) {
    active.unmask();
    active.inner.budgets.has_held.store(true, Ordering::Relaxed);
    let reasons = vec![reason];
    let before = active.call.hold();
    if before.is_some_and(|hold| hold.reasons == reasons) {
        return;
    }
    let parts = &active.inner.parts;
    let since = before.map_or_else(|| parts.clock.now(), |hold| hold.since);
    // Not lost: however short holds are, the next period comes first.
    let expires_at = renewed_at.after(parts.settings.hold_for);
    active.step(Event::Hold(Box::new(Hold::new(reasons, since, expires_at, 1))));
}

/// Budgets of a tenant: those that were set, and the usual one where none was set for the day.
async fn of_tenant(inner: &Inner, tenant: &TenantId) -> Result<Arc<[Budget]>, Error> {
    let now = inner.parts.clock.now();
    let cached = inner.budgets.cached().get(tenant).cloned();
    if let Some((at, budgets)) = cached
        && now.since(at) < CACHE_TIME
    {
        return Ok(budgets);
    }
    let mut budgets = inner.parts.store.budgets(Some(tenant)).await?;
    let usual = BudgetFor { tenant: tenant.clone(), key: None, per: Period::Day };
    let bounds = inner.parts.settings.daily_budget;
    if !bounds.is_empty() && budgets.iter().all(|budget| budget.of != usual) {
        budgets.push(Budget { of: usual, bounds });
    }
    let budgets: Arc<[Budget]> = budgets.into();
    let mut cached = inner.budgets.cached();
    if cached.len() >= MAX_CACHED {
        cached.clear();
    }
    cached.insert(tenant.clone(), (now, budgets.clone()));
    Ok(budgets)
}

/// Usage of a budget. Reservations are read first: a call that ends meanwhile is counted twice for
/// a moment, and never left out.
async fn state(inner: &Inner, budget: &Budget) -> Result<BudgetState, Error> {
    let reserved = inner.budgets.reserved().get(&budget.of).copied().unwrap_or_default();
    let BudgetFor { tenant, key, per } = &budget.of;
    let from = hour_of(inner.parts.clock.now()).div_euclid(per.hours()) * per.hours();
    let until = from + per.hours();
    let query = UsageQuery {
        tenant: Some(tenant.clone()),
        key: *key,
        tool: None,
        from,
        until,
        per: *per,
        by_key: false,
        by_tool: false,
        limit: 1,
    };
    let used = inner.parts.store.usage(query).await?.first().map(|row| row.used);
    let (used, renewed_at) = (used.unwrap_or_default(), start_of_hour(until));
    Ok(BudgetState { budget: budget.clone(), used, reserved, renewed_at })
}

impl Budgets {
    fn reserved(&self) -> MutexGuard<'_, HashMap<BudgetFor, Used>> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cached(&self) -> MutexGuard<'_, CachedBudgets> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until budgets are renewed, if a call was held for want of one.
    pub(crate) async fn renewed(&self, now: Timestamp) {
        if !self.has_held.load(Ordering::Relaxed) {
            return std::future::pending().await;
        }
        let next = start_of_hour(hour_of(now) + 1);
        tokio::time::sleep(next.since(now)).await;
        self.has_held.store(false, Ordering::Relaxed);
    }
}

/// Reservation of tokens for something that is no call.
#[derive(Debug)]
pub struct ReservedTokens {
    inner: Arc<Inner>,
    reservation: Reservation,
    tenant: TenantId,
    key: KeyId,
}

impl ReservedTokens {
    /// Counts the tokens that were used, under a name in the place of a tool, and ends the reservation.
    pub async fn settle(self, used_by: &'static str, tokens: Tokens) -> Result<(), Error> {
        let used = Used { tokens, ..Used::default() };
        let (tenant, key, at) = (self.tenant, self.key, self.inner.parts.clock.now());
        let usage = OtherUsage { tenant, key, tool: used_by, at, used };
        let counted = self.inner.parts.store.add_usage(usage).await;
        drop(self.reservation);
        counted
    }
}

/// Failure to reserve tokens.
#[derive(Debug, thiserror::Error)]
pub enum NoTokens {
    /// A budget is used up.
    #[error("{0}")]
    UsedUp(String),
    /// The store failed.
    #[error("read the budgets")]
    Store(#[from] Error),
}

impl Engine {
    /// Reserves tokens for something that is no call, while some are left of every budget of the tenant and
    /// the key.
    pub async fn reserve_tokens(
        &self,
        tenant: &TenantId,
        key: KeyId,
        wanted: u64,
    ) -> Result<ReservedTokens, NoTokens> {
        let share = |state: &BudgetState| match state.has_no_tokens() {
            true => Err("tokens"),
            false => Ok(Used { tokens: state.token_share(wanted), ..Used::default() }),
        };
        match reserve_shares(&self.inner, tenant, key, share).await? {
            Ok(reservation) => {
                let (inner, tenant) = (self.inner.clone(), tenant.clone());
                Ok(ReservedTokens { inner, reservation, tenant, key })
            }
            Err((exhausted, state)) => Err(NoTokens::UsedUp(state.reason(exhausted).message)),
        }
    }

    /// Sets a budget; calls that wait for one are looked at again.
    pub async fn set_budget(&self, budget: Budget) -> Result<(), Error> {
        let tenant = budget.of.tenant.clone();
        self.inner.parts.store.set_budget(budget).await?;
        self.budgets_changed(&tenant);
        Ok(())
    }

    /// Removes a budget; `false` if there was none.
    pub async fn remove_budget(&self, of: BudgetFor) -> Result<bool, Error> {
        let tenant = of.tenant.clone();
        let removed = self.inner.parts.store.remove_budget(of).await?;
        self.budgets_changed(&tenant);
        Ok(removed)
    }

    fn budgets_changed(&self, tenant: &TenantId) {
        self.inner.budgets.cached().remove(tenant);
        self.inner.rechecks.changed.notify_one();
    }

    /// Budgets of a tenant and how much of each is gone.
    pub async fn budgets(&self, tenant: &TenantId) -> Result<Vec<BudgetState>, Error> {
        let mut states = Vec::new();
        for budget in of_tenant(&self.inner, tenant).await?.iter() {
            states.push(state(&self.inner, budget).await?);
        }
        Ok(states)
    }
}
