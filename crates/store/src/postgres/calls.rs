//! Finding calls.

use ringfence_types::{CallId, KeyId, SessionId, TenantId, Timestamp};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    connect::{Link, Params},
    pool::Pool,
    rows::{self, STORED},
    slices::{rows_to_visit, visit},
};
use crate::{
    CallPage, CallQuery, Error, KeyUse, PAGE, Stored,
    encoding::{Undecodable, horizon, is_open, page},
};

/// Table and name of a row of [`STORED`].
const CALL: (&str, usize) = ("calls", 5);

pub(super) async fn one(
    pool: &Pool,
    tenant: &TenantId,
    id: CallId,
) -> Result<Option<Stored>, Error> {
    let link = &*pool.read_for(tenant.as_str()).await?;
    let sql = format!("{STORED} WHERE calls.id = $1 AND calls.tenant = $2");
    first(link.first(&sql, &[&id.0, &tenant.as_str()]).await?)
}

pub(super) async fn idempotent(
    pool: &Pool,
    key: KeyId,
    idempotency_key: &str,
    now: Timestamp,
) -> Result<Option<KeyUse>, Error> {
    let link = &*pool.read().await?;
    let stored = format!("{STORED} {USED_BY}");
    let (at, name) = (horizon(now.as_micros()), idempotency_key.as_bytes());
    let params: Params<'_> = &[&key.0, &name, &at];
    if let Some(stored) = first(link.first(&stored, params).await?)? {
        return Ok(Some(KeyUse::Call(Box::new(stored))));
    }
    // An erased call has no records, and its key stays used. A statement of its own, after the other: of a
    // call that is erased between the two it says so.
    let erased = format!("SELECT calls.id FROM calls {USED_BY} AND calls.erased_in IS NOT NULL");
    let row = link.first(&erased, params).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?.map(|id| KeyUse::Erased(CallId(id))))
}

/// Finds the call that used an idempotency key.
const USED_BY: &str = "JOIN idempotency ON idempotency.call = calls.id
    WHERE idempotency.key = $1 AND idempotency_key = $2 AND (derived OR at > $3)";

fn first(row: Option<Row>) -> Result<Option<Stored>, Error> {
    row.map(|row| rows::whole(&row, CALL, rows::stored)).transpose()
}

/// Marks processes whose lease is over. Their numbers are never used again.
pub(super) const END_LEASES: &str =
    "UPDATE processes SET dead = true WHERE NOT dead AND ends_at < now()";

/// Condition of a call that is owned by a process that is gone.
const IS_ABANDONED: &str = "calls.owner <> $2 AND NOT EXISTS
    (SELECT 1 FROM processes WHERE processes.id = calls.owner AND NOT processes.dead)";

/// Calls that no living process owns. Those of dead processes are claimed; of two processes that ask at
/// once, each gets others.
pub(super) async fn unfinished(
    pool: &Pool,
    process: i64,
    after: Option<CallId>,
    limit: usize,
) -> Result<Vec<Stored>, Error> {
    let after = after.map_or(Uuid::nil(), |id| id.0);
    let link = &*pool.read().await?;
    link.execute(END_LEASES, &[]).await?;
    let sql = format!(
        "SELECT seq, owner IS NULL FROM calls WHERE open AND id > $1
             AND ((owner IS NULL AND NOT queued) OR ({IS_ABANDONED})) ORDER BY id LIMIT $3"
    );
    let found = link.query(&sql, &[&after, &process, &page(limit)]).await?;
    let seqs = |is_held: bool| -> Result<Vec<i64>, Error> {
        let mut seqs = Vec::new();
        for row in &found {
            if row.try_get::<_, bool>(1)? == is_held {
                seqs.push(row.try_get(0)?);
            }
        }
        Ok(seqs)
    };
    let (mut taken, abandoned) = (seqs(true)?, seqs(false)?);
    if !abandoned.is_empty() {
        taken.extend(claim(link, process, &abandoned).await?);
    }
    let sql = format!("{STORED} WHERE calls.open AND calls.seq = ANY($1) ORDER BY calls.id");
    Ok(rows::readable(&link.query(&sql, &[&taken]).await?, CALL, rows::stored))
}

/// Makes this process the owner of calls that are abandoned still, and that no other process claims.
async fn claim(link: &Link, process: i64, seqs: &[i64]) -> Result<Vec<i64>, Error> {
    let sql = format!(
        "UPDATE calls SET owner = $2, queued = false WHERE seq IN
         (SELECT seq FROM calls WHERE seq = ANY($1) AND open AND {IS_ABANDONED}
          ORDER BY seq FOR UPDATE SKIP LOCKED)
         RETURNING seq"
    );
    let claimed = link.query(&sql, &[&seqs, &process]).await?;
    Ok(claimed.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}

pub(super) async fn list(pool: &Pool, query: CallQuery) -> Result<CallPage, Error> {
    let none = CallPage { calls: Vec::new(), next: None };
    let has_nul = |text: &Option<String>| text.as_ref().is_some_and(|text| text.contains('\0'));
    if query.limit == 0 || has_nul(&query.state) || has_nul(&query.tool) {
        return Ok(none);
    }
    let link = &*pool.read_for(query.tenant.as_str()).await?;
    let (sql, has_filters) = selection(&query);
    let (found, before) = (query.limit.min(PAGE), query.before.map_or(Uuid::max(), |id| id.0));
    let asked = rows_to_visit(found, has_filters);
    let session = query.session.as_ref().map(SessionId::as_str);
    let parent = query.parent.map(|id| id.0);
    let tenant = query.tenant.as_str();
    let params: Params<'_> =
        &[&tenant, &before, &query.state, &query.tool, &session, &parent, &asked];
    let rows = link.query(&sql, params).await?;
    let key = |row: &Row| -> Result<_, Undecodable> { Ok((row.try_get(0)?, row.try_get(2)?)) };
    let slice = visit::<(Uuid, i64)>(&rows, (found, asked), key)?;
    let seqs: Vec<i64> = slice.keys.iter().map(|(_, seq)| *seq).collect();
    let sql = format!("{STORED} WHERE calls.seq = ANY($1) ORDER BY calls.id DESC");
    let calls = rows::readable(&link.query(&sql, &[&seqs]).await?, CALL, rows::stored);
    Ok(CallPage { calls, next: slice.next.map(|(id, _)| CallId(id)) })
}

/// One of a few texts: the id, whether the call matches, and its row; and whether some may not match. The
/// narrowest index is visited; what else is asked for is looked at row by row.
fn selection(query: &CallQuery) -> (String, bool) {
    let (mut condition, mut is_narrow) = (String::new(), false);
    let mut filters = Vec::new();
    match query.state.as_deref() {
        Some("finished") => filters.push("state = $3"),
        Some(state) if is_open(state) => {
            (condition, is_narrow) = (" AND open".to_owned(), true);
            filters.push("state = $3");
        }
        Some(_) => {
            condition = " AND state = $3 AND NOT open AND state <> 'finished'".to_owned();
            is_narrow = true;
        }
        None => {}
    }
    if query.parent.is_some() {
        // Few calls make more than a few: all of them are looked at.
        if query.state.is_some() && filters.is_empty() {
            filters.push("state = $3");
        }
        (condition, is_narrow) = (" AND parent = $6".to_owned(), true);
    }
    for (is_asked, text, filter) in [
        (query.session.is_some(), " AND session = $5", "coalesce(session = $5, false)"),
        (query.tool.is_some(), " AND tool = $4", "tool = $4"),
    ] {
        match (is_asked, is_narrow) {
            (true, false) => (condition, is_narrow) = (text.to_owned(), true),
            (true, true) => filters.push(filter),
            (false, _) => {}
        }
    }
    let matches = if filters.is_empty() { "true".to_owned() } else { filters.join(" AND ") };
    // Every parameter has a type whatever the text.
    let sql = format!(
        "SELECT id, {matches}, seq FROM calls WHERE tenant = $1 AND id < $2{condition}
         AND erased_in IS NULL
         AND ($3::text IS NULL OR true) AND ($4::text IS NULL OR true)
         AND ($5::text IS NULL OR true) AND ($6::uuid IS NULL OR true)
         ORDER BY id DESC LIMIT $7"
    );
    (sql, !filters.is_empty())
}
