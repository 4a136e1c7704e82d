//! Dead letters of the bus, under the paths of SomaAgent 01, for the operator.

use std::{sync::Arc, time::Duration};

use axum::{extract::State, response::Response};
use http::Uri;
use ringfence_edge::{
    Problem,
    identity::{self, May, check_operator},
    path::{Named, NamedWithin},
    problem_codes,
    query::Query,
    reply,
};
use ringfence_engine::data::{BusError, DeadLetter};
use ringfence_types::{Json, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{base64, shared::Shared};

/// Letters in one answer.
const MAX_PAGE: u64 = 100;

/// Message that could not be handled.
#[derive(Serialize, ToSchema)]
#[schema(as = DeadLetter)]
pub(crate) struct LetterView<'a> {
    id: u64,
    topic: &'a str,
    /// The message, if it is JSON.
    #[schema(value_type = Option<Object>)]
    event: Option<Json>,
    /// The message, byte for byte, in base64.
    payload: String,
    /// Cause of the last failure.
    error: &'a str,
    /// Group of readers that gave up.
    group: &'a str,
    /// Deliveries of the message.
    attempts: u32,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl<'a> LetterView<'a> {
    fn of(letter: &'a DeadLetter) -> Self {
        Self {
            id: letter.id,
            topic: &letter.message.topic,
            event: Json::parse(&letter.message.payload).ok(),
            payload: base64::encode(&letter.message.payload),
            error: &letter.cause,
            group: &letter.group,
            attempts: letter.attempts,
            created_at: letter.died_at,
        }
    }
}

/// Dead letters, oldest first.
#[derive(Serialize, ToSchema)]
#[schema(as = DeadLetterList)]
pub(crate) struct LetterListView<'a> {
    messages: Vec<LetterView<'a>>,
    /// Id for `after` of the next page; `null` after the last.
    next: Option<u64>,
}

/// Topics that have dead letters.
#[derive(Serialize, ToSchema)]
#[schema(as = DeadTopicList)]
pub(crate) struct TopicListView {
    topics: Vec<TopicView>,
}

/// A topic and the number of its dead letters.
#[derive(Serialize, ToSchema)]
#[schema(as = DeadTopic)]
pub(crate) struct TopicView {
    topic: String,
    count: u64,
}

/// Result of an action on dead letters.
#[derive(Serialize, ToSchema)]
#[schema(as = DeadLetterStatus)]
pub(crate) struct StatusView {
    /// `reprocessed` or `deleted`.
    status: &'static str,
    /// Number of letters that it happened to.
    count: u64,
}

/// Lists the topics that have dead letters. Only for keys of the operator.
#[utoipa::path(
    get, path = "/v1/admin/dlq", tag = "events",
    responses((status = 200, description = "Topics", body = TopicListView))
)]
pub(crate) async fn topics(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    uri: Uri,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    Query::of(&uri).finish()?;
    let topics = shared.engine.dead_topics().await.map_err(|error| failed(&error))?;
    let topics = topics.into_iter().map(|(topic, count)| TopicView { topic, count }).collect();
    Ok(reply::ok(&TopicListView { topics }))
}

/// Lists the dead letters of a topic, oldest first. Only for keys of the operator.
#[utoipa::path(
    get, path = "/v1/admin/dlq/{topic}", tag = "events",
    params(
        ("topic" = String, Path, description = "The topic"),
        ("after" = Option<u64>, Query, description = "Only letters behind this id"),
        ("limit" = Option<u64>, Query, description = "Letters in the answer", minimum = 1, maximum = 100),
    ),
    responses((status = 200, description = "Dead letters", body = LetterListView<'static>))
)]
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    Named(topic): Named<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    let mut query = Query::of(&uri);
    let after = query.number("after", 0, i64::MAX.unsigned_abs()).unwrap_or(0);
    let limit = query.number("limit", 1, MAX_PAGE).unwrap_or(MAX_PAGE);
    query.finish()?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let letters = shared.engine.dead_letters(&topic, after, limit).await;
    let letters = letters.map_err(|error| failed(&error))?;
    let next = letters.last().filter(|_| letters.len() == limit).map(|letter| letter.id);
    let messages = letters.iter().map(LetterView::of).collect();
    Ok(reply::ok(&LetterListView { messages, next }))
}

/// Removes all dead letters of a topic. Only for keys of the operator.
#[utoipa::path(
    delete, path = "/v1/admin/dlq/{topic}", tag = "events",
    params(("topic" = String, Path, description = "The topic")),
    responses((status = 200, description = "They are removed", body = StatusView))
)]
pub(crate) async fn clear(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    Named(topic): Named<String>,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    let (mut count, mut after) = (0, 0);
    loop {
        let letters = shared.engine.dead_letters(&topic, after, MAX_PAGE as usize).await;
        let letters = letters.map_err(|error| failed(&error))?;
        let Some(last) = letters.last() else { break };
        after = last.id;
        for letter in &letters {
            let removed = shared.engine.remove_dead_letter(&topic, letter.id).await;
            count += u64::from(removed.map_err(|error| failed(&error))?);
        }
    }
    Ok(reply::ok(&StatusView { status: "deleted", count }))
}

/// Removes a dead letter. Only for keys of the operator.
#[utoipa::path(
    delete, path = "/v1/admin/dlq/{topic}/{id}", tag = "events",
    params(
        ("topic" = String, Path, description = "The topic"),
        ("id" = u64, Path, description = "The letter"),
    ),
    responses((status = 200, description = "It is removed", body = StatusView))
)]
pub(crate) async fn remove(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    NamedWithin(topic, id): NamedWithin<String, u64>,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    let removed = shared.engine.remove_dead_letter(&topic, id).await;
    status(removed, "deleted")
}

/// Publishes a dead letter again and takes it off the list. Only for keys of the operator.
#[utoipa::path(
    post, path = "/v1/admin/dlq/{topic}/{id}/reprocess", tag = "events",
    params(
        ("topic" = String, Path, description = "The topic"),
        ("id" = u64, Path, description = "The letter"),
    ),
    responses((status = 200, description = "It is published again", body = StatusView))
)]
pub(crate) async fn reprocess(
    State(shared): State<Arc<Shared>>,
    caller: May<identity::Admin>,
    NamedWithin(topic, id): NamedWithin<String, u64>,
) -> Result<Response, Problem> {
    check_operator(&caller)?;
    let replayed = shared.engine.replay_dead_letter(&topic, id).await;
    status(replayed, "reprocessed")
}

fn status(done: Result<bool, BusError>, status: &'static str) -> Result<Response, Problem> {
    match done.map_err(|error| failed(&error))? {
        true => Ok(reply::ok(&StatusView { status, count: 1 })),
        false => Err(Problem::not_found()),
    }
}

fn failed(error: &BusError) -> Problem {
    let problem = Problem::new(&problem_codes::BUS_UNAVAILABLE, error.to_string());
    problem.retry_after(Duration::from_secs(1))
}
