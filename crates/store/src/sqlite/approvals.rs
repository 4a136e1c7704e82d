//! Approvals: given with a step of a call, spent with another, revoked.

use std::sync::Arc;

use ringfence_sqlite::{Connection, Db};
use ringfence_types::{Approval, ApprovalId, CallId, Digest, KeyId, Sealed, TenantId, Timestamp};
use rusqlite::{OptionalExtension as _, Row, params};
use uuid::Uuid;

use super::{
    SqliteStore, hook, ledger, rows,
    slices::{Bounds, SLICE, Slice, visit},
};
use crate::{ApprovalPage, ApprovalQuery, Error, PAGE, Spend, Standing};

/// Whether a key that gave an approval is revoked by now.
const WITHDRAWN: &str = "EXISTS (SELECT 1 FROM json_each(approvals.approval, '$.votes') AS vote
    JOIN keys ON keys.id = unhex(replace(vote.value ->> '$.by', '-', ''))
    WHERE keys.revoked_at IS NOT NULL)";

/// Columns in the order that [`standing`] reads. The first parameter is a call whose use does not
/// count.
pub(super) fn columns() -> String {
    format!(
        "SELECT approval, revoked_at, revoked_by,
         (SELECT count(*) FROM approval_uses
          WHERE approval_uses.approval = approvals.id AND approval_uses.call IS NOT ?1),
         {WITHDRAWN} FROM approvals"
    )
}

/// Condition that the terms of an approval cover a call.
const REACHES: &str = "(approval ->> '$.key' = ?5 AND (approval ->> '$.terms.reach' = 'rule'
    OR approval ->> '$.terms.reach.once' = ?6 OR approval ->> '$.terms.reach.session' = ?7))";

pub(super) fn standing(row: &Row<'_>) -> rusqlite::Result<Standing> {
    let revoked_at: Option<i64> = row.get(1)?;
    let revoked_by: Option<[u8; 16]> = row.get(2)?;
    Ok(Standing {
        approval: rows::parsed(row, 0)?,
        revoked_at: revoked_at.map(Timestamp::from_micros),
        revoked_by: revoked_by.map(|bytes| KeyId(Uuid::from_bytes(bytes))),
        used: row.get(3)?,
        is_withdrawn: row.get(4)?,
    })
}

pub(super) async fn list(db: &Db, query: ApprovalQuery) -> Result<ApprovalPage, Error> {
    let lane = query.tenant.clone();
    db.read_for(lane.as_str(), move |connection| page(connection, &query, SLICE)).await
}

fn page(
    connection: &Connection,
    query: &ApprovalQuery,
    visited: usize,
) -> Result<ApprovalPage, Error> {
    let slice = find(connection, query, visited)?;
    let sql = format!("{} WHERE id = ?2", columns());
    let mut statement = connection.prepare_cached(&sql)?;
    let not_by = query.not_by.as_ref().map(|call| call.0.as_bytes());
    let approvals = slice.keys.iter().map(|id| statement.query_row(params![not_by, id], standing));
    let approvals = approvals.collect::<Result<_, _>>()?;
    Ok(ApprovalPage { approvals, next: slice.next.map(|id| ApprovalId(Uuid::from_bytes(id))) })
}

fn find(
    connection: &Connection,
    query: &ApprovalQuery,
    visited: usize,
) -> Result<Slice<[u8; 16]>, Error> {
    // No id is larger than seventeen of the largest byte.
    let before = query.before.as_ref().map_or(&[0xff; 17][..], |id| id.0.as_bytes());
    let usable = query.usable_by.as_ref();
    let mut statement = connection.prepare_cached(&selection(query))?;
    let rows = statement.query(params![
        query.tenant.as_str(),
        before,
        query.tool.as_ref().map(|tool| tool.as_str()),
        query.live_at.map(Timestamp::as_micros),
        usable.map(|usable| usable.key.to_string()),
        usable.map(|usable| usable.call.to_string()),
        usable.and_then(|usable| Some(usable.session.as_ref()?.as_str())),
    ])?;
    visit(rows, Bounds { found: query.limit.min(PAGE), visited }, |row| row.get(0))
}

/// One of a few texts: the id, and whether the approval matches. No index is named: a database of an
/// older version, opened to be read, has others.
fn selection(query: &ApprovalQuery) -> String {
    let condition = if query.tool.is_some() { " AND tool = ?3" } else { "" };
    let mut filters = Vec::new();
    if query.live_at.is_some() {
        filters.push(format!("expires_at > ?4 AND revoked_at IS NULL AND NOT {WITHDRAWN}"));
    }
    if query.usable_by.is_some() {
        filters.push(format!("coalesce({REACHES}, 0)"));
    }
    let matches = if filters.is_empty() { "1".to_owned() } else { filters.join(" AND ") };
    // Every parameter is bound whatever the text, so every text names the last one.
    format!(
        "SELECT id, {matches} FROM approvals
         WHERE tenant = ?1 AND id < ?2{condition} AND ?7 IS ?7
         ORDER BY id DESC"
    )
}

pub(super) async fn one(
    db: &Db,
    tenant: &TenantId,
    id: ApprovalId,
) -> Result<Option<Standing>, Error> {
    let (tenant, lane) = (tenant.clone(), tenant.clone());
    db.read_for(lane.as_str(), move |connection| {
        let sql = format!("{} WHERE id = ?2 AND tenant = ?3", columns());
        let mut statement = connection.prepare_cached(&sql)?;
        let found = statement
            .query_row(params![rusqlite::types::Null, id.0.as_bytes(), tenant.as_str()], standing);
        Ok(found.optional()?)
    })
    .await
}

pub(super) async fn revoke(
    store: &SqliteStore,
    tenant: &TenantId,
    id: ApprovalId,
    (by, at): (KeyId, Timestamp),
    entry: Sealed,
) -> Result<bool, Error> {
    hook::check(store, std::slice::from_ref(&entry))?;
    let tenant = tenant.clone();
    let revoke = move |connection: &Connection| -> Result<(bool, Option<u64>), Error> {
        let sql = "SELECT revoked_at IS NULL FROM approvals WHERE id = ?1 AND tenant = ?2";
        let mut statement = connection.prepare_cached(sql)?;
        let key = params![id.0.as_bytes(), tenant.as_str()];
        let found = statement.query_row(key, |row| row.get::<_, bool>(0)).optional()?;
        let Some(true) = found else { return Ok((found.is_some(), None)) };
        let sql = "UPDATE approvals SET revoked_at = ?2, revoked_by = ?3 WHERE id = ?1";
        let change = params![id.0.as_bytes(), at.as_micros(), by.0.as_bytes()];
        connection.prepare_cached(sql)?.execute(change)?;
        Ok((true, Some(ledger::put(connection, &entry)?)))
    };
    let grown = Arc::clone(&store.grown);
    let then = move |(_, size): &(bool, Option<u64>)| ledger::announce(&grown, *size);
    store.db.write_then(revoke, then).await.map(|(is_there, _): (bool, _)| is_there)
}

/// Whether a call may use an approval: it exists, is not over, not revoked, given by keys that are
/// not, fewer other calls have used it than may, and its row says what the caller has seen.
pub(super) fn check(
    connection: &Connection,
    tenant: &TenantId,
    call: CallId,
    spend: &Spend,
) -> Result<(), Error> {
    let sql = format!(
        "SELECT approval FROM approvals WHERE id = ?1 AND tenant = ?2 AND revoked_at IS NULL
         AND NOT {WITHDRAWN} AND expires_at > ?3 AND uses > (SELECT count(*) FROM approval_uses
         WHERE approval_uses.approval = ?1 AND approval_uses.call <> ?4)"
    );
    let found = connection
        .prepare_cached(&sql)?
        .query_row(
            params![
                spend.approval.0.as_bytes(),
                tenant.as_str(),
                spend.at.as_micros(),
                call.0.as_bytes()
            ],
            |row| Ok(Digest::of(row.get_ref(0)?.as_str()?.as_bytes())),
        )
        .optional()?;
    let is_seen = |found: &Digest| spend.content.is_none_or(|content| content == *found);
    found.filter(is_seen).map(drop).ok_or(Error::Spent)
}

pub(super) fn spend(connection: &Connection, call: CallId, spend: &Spend) -> Result<(), Error> {
    connection
        .prepare_cached(
            "INSERT INTO approval_uses (approval, call, at) VALUES (?1, ?2, ?3)
             ON CONFLICT (approval, call) DO NOTHING",
        )?
        .execute(params![spend.approval.0.as_bytes(), call.0.as_bytes(), spend.at.as_micros()])?;
    Ok(())
}

pub(super) fn insert(
    connection: &Connection,
    approval: &Approval,
    text: &str,
) -> Result<(), Error> {
    connection
        .prepare_cached(
            "INSERT INTO approvals (id, tenant, tool, expires_at, uses, approval)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            approval.id.0.as_bytes(),
            approval.tenant.as_str(),
            approval.tool.name.as_str(),
            approval.terms.expires_at.as_micros(),
            approval.terms.uses,
            text
        ])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Usable;

    #[test]
    fn every_filter_is_visited_along_an_index_and_nothing_is_sorted() {
        let connection = Connection::open_in_memory().unwrap();
        super::super::MIGRATIONS.iter().for_each(|sql| connection.execute_batch(sql).unwrap());
        let all = ApprovalQuery {
            tenant: "t".parse().unwrap(),
            tool: None,
            usable_by: None,
            live_at: None,
            before: None,
            not_by: None,
            limit: 9,
        };
        let tool = Some("x".parse().unwrap());
        let usable = Usable { key: KeyId(Uuid::nil()), call: CallId(Uuid::nil()), session: None };
        let live_at = Some(Timestamp::from_micros(1));
        let cases = [
            (all.clone(), "approvals_by_tenant"),
            (ApprovalQuery { live_at, ..all.clone() }, "approvals_by_tenant"),
            (ApprovalQuery { tool: tool.clone(), ..all.clone() }, "approvals_of_tool"),
            (ApprovalQuery { tool, live_at, usable_by: Some(usable), ..all }, "approvals_of_tool"),
        ];
        for (query, index) in cases {
            let sql = format!("EXPLAIN QUERY PLAN {}", selection(&query));
            let mut statement = connection.prepare(&sql).unwrap();
            let steps =
                statement.query_map([rusqlite::types::Null; 7], |row| row.get::<_, String>(3));
            let plan = steps.unwrap().collect::<Result<Vec<_>, _>>().unwrap().join("; ");
            assert!(plan.contains(&format!("INDEX {index} ")), "{query:?}: {plan}");
            assert!(!plan.contains("SCAN approvals") && !plan.contains("B-TREE"), "{plan}");
        }
    }
}
