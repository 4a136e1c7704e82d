//! Erasure of records. The rows of erased calls and all entries of the ledger stay.

use ringfence_types::{CallId, SessionId, TenantId, Timestamp};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{blob_uses, connect::Link, pool::Pool, rows};
use crate::{
    BlobOwner, ErasableCalls, ErasedCalls, ErasedEvents, ErasureScope, Error, ExpiredCalls,
    encoding::{page, position},
};

const OF_CALL: &str = "WITH RECURSIVE made (id) AS (
        SELECT $2::uuid UNION SELECT calls.id FROM made
        JOIN calls ON calls.tenant = $1 AND calls.parent = made.id)
    SELECT calls.id, calls.open FROM made JOIN calls ON calls.id = made.id
    WHERE calls.tenant = $1 AND calls.erased_in IS NULL ORDER BY calls.id";

const OF_SESSION: &str = "SELECT id, open FROM calls
    WHERE tenant = $1 AND session = $2 AND erased_in IS NULL ORDER BY id";

pub(super) async fn erasable(
    pool: &Pool,
    tenant: &TenantId,
    scope: &ErasureScope,
    limit: usize,
) -> Result<ErasableCalls, Error> {
    let link = &*pool.read_for(tenant.as_str()).await?;
    let rows = match scope {
        ErasureScope::Call(id) => link.query(OF_CALL, &[&tenant.as_str(), &id.0]).await?,
        ErasureScope::Session(session) => {
            link.query(OF_SESSION, &[&tenant.as_str(), &session.as_str()]).await?
        }
    };
    let mut found = ErasableCalls::default();
    for row in rows {
        match row.try_get(1)? {
            true => found.under_way += 1,
            false if found.ended.len() < limit => found.ended.push(CallId(row.try_get(0)?)),
            false => {}
        }
    }
    Ok(found)
}

const VISIT: &str = "SELECT ledger.position, ledger.at < $2,
        CASE WHEN ledger.kind = 'call' THEN calls.id END
    FROM ledger LEFT JOIN calls ON calls.seq = ledger.call AND calls.erased_in IS NULL
    WHERE ledger.position > $1 ORDER BY ledger.position LIMIT $3";

pub(super) async fn expired(
    pool: &Pool,
    before: Timestamp,
    from: u64,
    limit: usize,
) -> Result<ExpiredCalls, Error> {
    let link = &*pool.read().await?;
    let found = link.query(VISIT, &[&position(from), &before.as_micros(), &page(limit)]).await?;
    let visited = |row: &Row| -> Result<_, tokio_postgres::Error> {
        let call = row.try_get::<_, Option<Uuid>>(2)?.map(CallId);
        Ok((row.try_get::<_, i64>(0)?.cast_unsigned(), row.try_get(1)?, call))
    };
    Ok(ExpiredCalls::of(from, found.iter().map(visited).collect::<Result<_, _>>()?))
}

/// Ended calls do not change, so nothing else waits for these rows. In one order, so that two that erase the
/// same calls do not wait for each other in a circle.
const MARK: &str = "UPDATE calls SET erased_in = erased.entry FROM
    (SELECT seq, new.entry FROM calls JOIN unnest($1::uuid[], $2::bigint[]) AS new (id, entry)
     USING (id) WHERE NOT open AND erased_in IS NULL ORDER BY seq FOR UPDATE OF calls) AS erased
    WHERE calls.seq = erased.seq RETURNING calls.seq, calls.id";

const LEAVE_ENTRIES: &str = "UPDATE records SET version = 0, decided_at = NULL, body = new.body,
    large = NULL FROM unnest($1::bigint[], $2::bytea[]) AS new (position, body)
    WHERE records.position = new.position";

pub(super) async fn erase(pool: &Pool, calls: Vec<(CallId, u64)>) -> Result<ErasedCalls, Error> {
    let link = Link::open(pool.url()).await?;
    link.batch("BEGIN").await?;
    let erased = erase_in(&link, &calls).await?;
    link.batch("COMMIT").await?;
    Ok(erased)
}

async fn erase_in(link: &Link, calls: &[(CallId, u64)]) -> Result<ErasedCalls, Error> {
    let ids: Vec<Uuid> = calls.iter().map(|(id, _)| id.0).collect();
    // Every index is one less than its position.
    let entries: Vec<i64> = calls.iter().map(|(_, entry)| position(*entry) + 1).collect();
    let marked = link.query(MARK, &[&ids, &entries]).await?;
    let (mut seqs, mut owners) = (Vec::<i64>::new(), Vec::new());
    for row in &marked {
        seqs.push(row.try_get(0)?);
        owners.push(BlobOwner::Call(CallId(row.try_get(1)?)));
    }
    let sql = "SELECT body, large, position FROM records WHERE call = ANY($1)";
    let (mut gone, mut left, mut bodies) = (Vec::<i64>::new(), Vec::<i64>::new(), Vec::new());
    for row in link.query(sql, &[&seqs]).await? {
        let texts = rows::whole(&row, ("records", 2), |row| rows::texts(row, 0))?;
        match texts.entries_alone()? {
            Some(packed) => {
                left.push(row.try_get(2)?);
                bodies.push(packed.body);
            }
            None => gone.push(row.try_get(2)?),
        }
    }
    link.execute(LEAVE_ENTRIES, &[&left, &bodies]).await?;
    link.execute("DELETE FROM records WHERE position = ANY($1)", &[&gone]).await?;
    let blobs = blob_uses::release_in(link, &owners).await?;
    Ok(ErasedCalls { calls: seqs.len() as u64, blobs })
}

/// Events from before a moment. The newest of all stays, so that no position is given twice.
const OLD_EVENTS: &str = "SELECT position FROM session_events WHERE at < $1
    AND position < (SELECT max(position) FROM session_events)";

/// Takes the content out of the newest event of all, if it is one of the session: its position stays taken.
const KEEP_LAST: &str = "UPDATE session_events SET session = '', kind = 'erased', payload = '{}'
    WHERE position = (SELECT max(position) FROM session_events) AND tenant = $1 AND session = $2";

const OF_SESSION_EVENTS: &str = "DELETE FROM session_events WHERE position IN
    (SELECT position FROM session_events WHERE tenant = $1 AND session = $2
     AND position < (SELECT max(position) FROM session_events) LIMIT $3)";

pub(super) async fn events(pool: &Pool, of: ErasedEvents, limit: usize) -> Result<u64, Error> {
    let link = &*pool.read().await?;
    match of {
        ErasedEvents::Session(tenant, session) => {
            session_events(link, &tenant, &session, limit).await
        }
        ErasedEvents::Before(before) => {
            let sql =
                format!("DELETE FROM session_events WHERE position IN ({OLD_EVENTS} LIMIT $2)");
            Ok(link.execute(&sql, &[&before.as_micros(), &page(limit)]).await?)
        }
    }
}

async fn session_events(
    link: &Link,
    tenant: &TenantId,
    session: &SessionId,
    limit: usize,
) -> Result<u64, Error> {
    let (tenant, session) = (tenant.as_str(), session.as_str());
    link.execute(KEEP_LAST, &[&tenant, &session]).await?;
    Ok(link.execute(OF_SESSION_EVENTS, &[&tenant, &session, &page(limit)]).await?)
}

/// Decisions about actions other than calls. The newest record stays, so that no position is given twice.
const OLD_DECISIONS: &str = "SELECT position FROM records
    WHERE decided_at < $1 AND decided_at IS NOT NULL AND call IS NULL
    AND position < (SELECT max(position) FROM records)";

pub(super) async fn decisions(pool: &Pool, before: Timestamp, limit: usize) -> Result<u64, Error> {
    let link = &*pool.read().await?;
    let sql = format!(
        "WITH gone AS (DELETE FROM records WHERE position IN ({OLD_DECISIONS} LIMIT $2)
                       RETURNING position),
              of AS (DELETE FROM actions WHERE position IN (SELECT position FROM gone))
         SELECT count(*) FROM gone"
    );
    let row = link.one(&sql, &[&before.as_micros(), &page(limit)]).await?;
    Ok(row.try_get::<_, i64>(0)?.cast_unsigned())
}

/// Numbers of session events and of decisions before a moment that can be erased.
pub(super) async fn count(pool: &Pool, before: Timestamp) -> Result<(u64, u64), Error> {
    let link = &*pool.read().await?;
    let mut counts = [0, 0];
    for (count, sql) in counts.iter_mut().zip([OLD_EVENTS, OLD_DECISIONS]) {
        let sql = format!("SELECT count(*) FROM ({sql}) AS old");
        *count = link.one(&sql, &[&before.as_micros()]).await?.try_get::<_, i64>(0)?;
    }
    Ok((counts[0].cast_unsigned(), counts[1].cast_unsigned()))
}

pub(super) async fn entry(
    pool: &Pool,
    tenant: &TenantId,
    id: CallId,
) -> Result<Option<u64>, Error> {
    let link = &*pool.read_for(tenant.as_str()).await?;
    let sql = "SELECT erased_in - 1 FROM calls WHERE id = $1 AND tenant = $2
               AND erased_in IS NOT NULL";
    let row = link.first(sql, &[&id.0, &tenant.as_str()]).await?;
    Ok(row.map(|row| row.try_get::<_, i64>(0)).transpose()?.map(i64::cast_unsigned))
}
