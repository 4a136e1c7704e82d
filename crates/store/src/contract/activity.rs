//! Counts of ended calls by time, end and duration.

use std::{sync::Arc, time::Duration};

use ringfence_types::{Call, CallError, ErrorCode, Produced, State, TenantId};

use super::samples::{accepted, finished, in_state, record, tenant};
use crate::{ActivityQuery, ActivityRow, EndedCall, Ending, SLOT_SECS, Store, TimeClass, slot_of};

/// A call that ended so many seconds after others, after this many milliseconds.
fn ended(tenant: &TenantId, state: State, secs: u64, millis: u64) -> Call {
    let mut call = in_state(&accepted(tenant), state);
    call.asked.accepted_at = call.asked.accepted_at.after(Duration::from_secs(secs));
    call.changed_at = call.asked.accepted_at.after(Duration::from_millis(millis));
    call
}

fn failed() -> State {
    let State::Finished(mut end) = finished() else { panic!("it finished") };
    let error = CallError { code: ErrorCode::Timeout, message: String::new(), details: None };
    end.produced = Produced::Error(error);
    State::Finished(end)
}

async fn keep(store: &Arc<dyn Store>, call: &Call) {
    store.record(record(call, None)).await.expect("a step");
}

fn row(step: i64, ending: Ending, millis: Option<u64>, calls: u64) -> ActivityRow {
    let class = millis.map(|millis| TimeClass::of(Duration::from_millis(millis)));
    ActivityRow { ended: EndedCall { slot: step, ending, class }, calls }
}

/// Each end of a call is counted once, in its slot; steps add slots up, and other tenants are not seen.
pub async fn ended_calls_are_counted_by_time_and_end(store: &Arc<dyn Store>) {
    let (one, other) = (tenant(), tenant());
    let denied = || State::Denied { reasons: Vec::new() };
    let slot = SLOT_SECS.unsigned_abs();
    let first = slot_of(accepted(&one).asked.accepted_at);
    let begun = Call { state: State::Accepted, ..ended(&one, finished(), 0, 5) };
    let version = store.record(record(&begun, None)).await.expect("a step");
    let whole = ActivityQuery { tenant: one.clone(), from: first, until: first + 9, per: 1 };
    assert_eq!(store.activity(whole.clone()).await.expect("rows"), [], "it has not ended");
    let done = Call { state: finished(), ..ended(&one, finished(), 0, 5) };
    let done = Call { asked: begun.asked.clone(), ..done };
    store.record(record(&done, Some(version))).await.expect("a step");
    keep(store, &ended(&one, finished(), 1, 5)).await;
    keep(store, &ended(&one, failed(), 1, 900)).await;
    keep(store, &ended(&one, finished(), 2 * slot, 5)).await;
    keep(store, &ended(&one, denied(), 3 * slot, 1)).await;
    keep(store, &ended(&one, denied(), 9 * slot, 1)).await;
    keep(store, &ended(&other, finished(), 0, 5)).await;
    let rows = store.activity(whole.clone()).await.expect("rows");
    assert_eq!(
        rows,
        [
            row(0, Ending::Result, Some(5), 2),
            row(0, Ending::Error, Some(900), 1),
            row(2, Ending::Result, Some(5), 1),
            row(3, Ending::Denied, None, 1),
        ],
        "the last end is after the end of the query"
    );
    let wide = ActivityQuery { per: 3, ..whole };
    let rows = store.activity(wide).await.expect("rows");
    assert_eq!(
        rows,
        [
            row(0, Ending::Result, Some(5), 3),
            row(0, Ending::Error, Some(900), 1),
            row(1, Ending::Denied, None, 1),
        ]
    );
}

/// The time that a person took to decide is not counted, and slots of more than a day ago are removed.
pub async fn activity_has_a_bounded_past(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let mut approved = ended(&tenant, finished(), 0, 3_600_000);
    let decision = approved.decision.as_mut().expect("it was decided");
    decision.approval = Some(ringfence_types::ApprovalId(uuid::Uuid::now_v7()));
    keep(store, &approved).await;
    let first = slot_of(approved.changed_at);
    let query = ActivityQuery { tenant: tenant.clone(), from: first, until: first + 1, per: 1 };
    let class = Some(TimeClass::of(Duration::from_micros(1_234)));
    let counted = EndedCall { slot: 0, ending: Ending::Result, class };
    let rows = store.activity(query.clone()).await.expect("rows");
    assert_eq!(rows, [ActivityRow { ended: counted, calls: 1 }]);
    // Samples begin at a whole day, so this end is in a slot that removes old ones.
    keep(store, &ended(&tenant, finished(), 2 * 86_400, 5)).await;
    assert_eq!(store.activity(query).await.expect("rows"), []);
}
