//! Events of sessions.

use std::sync::Arc;

use ringfence_types::{Json, TenantId, Timestamp};

use super::samples::{AT, accepted, record, tenant};
use crate::{Error, SessionEvent, SessionQuery, Store, Version};

fn event(tenant: &TenantId, session: &str, kind: &str, number: usize) -> SessionEvent {
    SessionEvent {
        tenant: tenant.clone(),
        session: session.parse().expect("a session"),
        at: Timestamp::from_micros(AT + number as i64),
        kind: kind.to_owned(),
        payload: Json::parse(format!("[{number},1.50]").as_bytes()).expect("valid JSON"),
    }
}

/// Events of a session come in order, from a position on or the newest ones, and of no other.
pub async fn session_events_are_in_order(store: &Arc<dyn Store>) {
    let (mine, theirs) = (tenant(), tenant());
    let mut expected = Vec::new();
    for number in 0..9 {
        let kind = ["canvas", "turn", "turn"][number % 3];
        let event = event(&mine, "s", kind, number);
        let position = store.append_session_event(event.clone()).await.expect("a position");
        expected.push((position, event));
        for (tenant, session) in [(&mine, "t"), (&theirs, "s")] {
            let other = self::event(tenant, session, "turn", 100);
            store.append_session_event(other).await.expect("a position");
        }
    }
    let query = SessionQuery {
        tenant: mine.clone(),
        session: "s".parse().expect("a session"),
        kind: None,
        after: 0,
        last: false,
        limit: 99,
    };
    let read = async |query| store.session_events(query).await.expect("events");
    assert_eq!(read(query.clone()).await, expected);
    assert_eq!(read(SessionQuery { limit: 2, ..query.clone() }).await, expected[..2]);
    let newest = SessionQuery { limit: 2, last: true, ..query.clone() };
    assert_eq!(read(newest).await, expected[7..]);
    let after = SessionQuery { after: expected[4].0, ..query.clone() };
    assert_eq!(read(after).await, expected[5..]);
    let canvas = SessionQuery { kind: Some("canvas".to_owned()), ..query };
    let found: Vec<_> = read(canvas).await.into_iter().map(|(position, _)| position).collect();
    assert_eq!(found, [expected[0].0, expected[3].0, expected[6].0]);
}

/// Events that a record appends to a session are there if the record is, and only then.
pub async fn session_events_of_a_record_share_its_commit(store: &Arc<dyn Store>) {
    let tenant = tenant();
    let mut step = record(&accepted(&tenant), None);
    step.session_events = (0..2).map(|number| event(&tenant, "s", "canvas", number)).collect();
    let stale = crate::Record { seen: Some(Version(7)), ..step.clone() };
    let answer = store.record(stale).await;
    assert!(matches!(answer, Err(Error::Stale)), "expected stale, got {answer:?}");
    let query = SessionQuery {
        tenant: tenant.clone(),
        session: "s".parse().expect("a session"),
        kind: None,
        after: 0,
        last: false,
        limit: 99,
    };
    let read = async || store.session_events(query.clone()).await.expect("events");
    assert_eq!(read().await, []);
    store.record(step.clone()).await.expect("a step");
    store.record(step.clone()).await.expect_err("the same id again");
    let found: Vec<_> = read().await.into_iter().map(|(_, event)| event).collect();
    assert_eq!(found, step.session_events);
}

/// Sessions of a tenant are listed by their newest event, with numbers and times of their events.
pub async fn sessions_are_listed_by_their_newest_event(store: &Arc<dyn Store>) {
    let (mine, theirs) = (tenant(), tenant());
    let mut newest = 0;
    for (number, session) in ["a", "b", "a"].into_iter().enumerate() {
        let event = event(&mine, session, "turn", number);
        newest = store.append_session_event(event).await.expect("a position");
    }
    store.append_session_event(event(&theirs, "c", "turn", 9)).await.expect("a position");
    let found = store.sessions(&mine, 9).await.expect("sessions");
    let names: Vec<_> = found.iter().map(|found| (found.session.as_str(), found.events)).collect();
    assert_eq!(names, [("a", 2), ("b", 1)]);
    let at = |number: i64| Timestamp::from_micros(AT + number);
    assert_eq!((found[0].newest, found[0].first_at, found[0].last_at), (newest, at(0), at(2)));
    assert_eq!(store.sessions(&mine, 1).await.expect("sessions").len(), 1);
}
