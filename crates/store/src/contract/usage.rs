//! Resources that ended calls took.

use std::{sync::Arc, time::Duration};

use ringfence_types::{Call, CallError, ErrorCode, KeyId, Produced, State, TenantId, Tokens};
use uuid::Uuid;

use super::samples::{accepted, finished, in_state, record, tenant, tool};
use crate::{
    Error, OtherUsage, Period, Record, Store, UsageQuery, UsageRow, Used, Version, hour_of,
};

/// A call that ended, so many hours later than others.
fn ended(tenant: &TenantId, key: KeyId, name: &str, hours: u64) -> Call {
    let mut call = in_state(&accepted(tenant), finished());
    (call.asked.key, call.asked.tool) = (key, tool(name));
    call.changed_at = call.changed_at.after(Duration::from_secs(hours * 3_600));
    call
}

fn failed(mut call: Call) -> Call {
    let State::Finished(mut finished) = call.state else { panic!("it finished") };
    let error =
        CallError { code: ErrorCode::Timeout, message: "too long".to_owned(), details: None };
    finished.produced = Produced::Error(error);
    finished.usage.get_or_insert_default().cpu_user = Duration::from_micros(7);
    call.state = State::Finished(finished);
    call
}

async fn keep(store: &Arc<dyn Store>, call: &Call) {
    store.record(record(call, None)).await.expect("a step");
}

fn all(tenant: &TenantId, hour: i64) -> UsageQuery {
    UsageQuery {
        tenant: Some(tenant.clone()),
        key: None,
        tool: None,
        from: hour - 48,
        until: hour + 48,
        per: Period::Hour,
        by_key: false,
        by_tool: false,
        limit: 100,
    }
}

async fn used(store: &Arc<dyn Store>, query: UsageQuery) -> Vec<UsageRow> {
    store.usage(query).await.expect("an answer")
}

/// A call is counted once, in the commit of its end; a step that is refused counts nothing.
pub async fn the_end_of_a_call_is_added_up_once(store: &Arc<dyn Store>) {
    let (tenant, key) = (tenant(), KeyId(Uuid::now_v7()));
    let call = ended(&tenant, key, "text.count", 0);
    let hour = hour_of(call.changed_at);
    let begun = Call { state: State::Accepted, ..call.clone() };
    let version = store.record(record(&begun, None)).await.expect("a step");
    assert_eq!(used(store, all(&tenant, hour)).await, []);
    let stale = Record { seen: Some(Version(7)), ..record(&call, None) };
    assert!(matches!(store.record(stale).await, Err(Error::Stale)));
    assert_eq!(used(store, all(&tenant, hour)).await, []);
    store.record(record(&call, Some(version))).await.expect("a step");
    keep(store, &failed(ended(&tenant, key, "text.count", 0))).await;
    let denied = State::Denied { reasons: Vec::new() };
    keep(store, &Call { state: denied, ..ended(&tenant, key, "text.count", 0) }).await;
    let result = br#"{"words":6,"exact":123456789012345678901234567890}"#.len() as u64;
    let sum = Used {
        calls: 3,
        failures: 1,
        cpu: Duration::from_micros(7),
        wall: Duration::from_micros(2 * 1234),
        output_bytes: 2 * 3000 + result,
        tokens: Tokens::default(),
    };
    let row = UsageRow { hour, tenant: tenant.clone(), key: None, tool: None, used: sum };
    assert_eq!(used(store, all(&tenant, hour)).await, [row]);
}

/// Sums are by hour or day, by key and tool if that is asked for, and of one tenant.
pub async fn usage_is_added_up_as_asked(store: &Arc<dyn Store>) {
    let (one, other) = (tenant(), tenant());
    let keys = [KeyId(Uuid::now_v7()), KeyId(Uuid::now_v7())];
    let hour = hour_of(ended(&one, keys[0], "a", 0).changed_at);
    for (tenant, key, name, hours) in [
        (&one, keys[0], "a", 0),
        (&one, keys[0], "b", 1),
        (&one, keys[1], "b", 1),
        (&one, keys[1], "b", 25),
        (&other, keys[0], "a", 0),
    ] {
        keep(store, &ended(tenant, key, name, hours)).await;
    }
    let counted = |rows: Vec<UsageRow>| -> Vec<(i64, Option<KeyId>, Option<String>, u64)> {
        let row = |row: UsageRow| (row.hour - hour, row.key, row.tool, row.used.calls);
        rows.into_iter().map(row).collect()
    };
    let ask = async |query: UsageQuery| counted(used(store, query).await);
    let base = all(&one, hour);
    let hours = [(0, None, None, 1), (1, None, None, 2), (25, None, None, 1)];
    assert_eq!(ask(base.clone()).await, hours);
    // The samples are at the first hour of a day.
    let by_day = UsageQuery { per: Period::Day, ..base.clone() };
    assert_eq!(ask(by_day.clone()).await, [(0, None, None, 3), (24, None, None, 1)]);
    let by_tool = UsageQuery { by_tool: true, ..by_day.clone() };
    let named = |name: &str| Some(name.to_owned());
    let tools = [(0, None, named("a"), 1), (0, None, named("b"), 2), (24, None, named("b"), 1)];
    assert_eq!(ask(by_tool.clone()).await, tools);
    assert_eq!(ask(UsageQuery { limit: 2, ..by_tool }).await, tools[..2]);
    let by_key = UsageQuery { by_key: true, until: hour + 2, ..by_day.clone() };
    let found = [(0, Some(keys[0]), None, 2), (0, Some(keys[1]), None, 1)];
    assert_eq!(ask(by_key).await, found);
    let of_key = UsageQuery { key: Some(keys[1]), ..by_day.clone() };
    assert_eq!(ask(of_key).await, [(0, None, None, 1), (24, None, None, 1)]);
    let of_tool = UsageQuery { tool: named("a"), ..by_day.clone() };
    assert_eq!(ask(of_tool).await, [(0, None, None, 1)]);
    let everywhere = UsageQuery { tenant: None, ..by_day };
    let rows = used(store, everywhere).await;
    let of_other: Vec<_> = rows.iter().filter(|row| row.tenant == other).collect();
    assert_eq!(of_other.len(), 1, "{rows:?}");
}

/// Tokens of calls and tokens used outside calls are added up together, by the name of what used them.
pub async fn tokens_are_added_up(store: &Arc<dyn Store>) {
    let (tenant, key) = (tenant(), KeyId(Uuid::now_v7()));
    let mut call = ended(&tenant, key, "llm_generate", 0);
    let (at, hour) = (call.changed_at, hour_of(call.changed_at));
    let State::Finished(finished) = &mut call.state else { panic!("it finished") };
    finished.tokens = Some(Tokens { input: 7, output: 3 });
    keep(store, &call).await;
    let tokens = Tokens { input: 100, output: 20 };
    let used = Used { tokens, ..Used::default() };
    let other = OtherUsage { tenant: tenant.clone(), key, tool: "conversation", at, used };
    for _ in 0..2 {
        store.add_usage(other.clone()).await.expect("it is added");
    }
    let by_tool = UsageQuery { by_tool: true, ..all(&tenant, hour) };
    let found = self::used(store, by_tool).await;
    let found: Vec<_> =
        found.iter().map(|row| (row.tool.as_deref(), row.used.calls, row.used.tokens)).collect();
    let twice = tokens.and(tokens);
    assert_eq!(
        found,
        [
            (Some("conversation"), 0, twice),
            (Some("llm_generate"), 1, Tokens { input: 7, output: 3 }),
        ]
    );
    let whole = self::used(store, all(&tenant, hour)).await;
    assert_eq!(whole[0].used.tokens, Tokens { input: 207, output: 43 });
}
