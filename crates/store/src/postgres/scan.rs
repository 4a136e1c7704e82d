//! Everything that the ledger can be compared with, of one moment, row by row.

use std::{pin::pin, sync::Arc};

use futures_util::TryStreamExt as _;
use ringfence_types::{ApprovalId, Timestamp};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    PostgresUrl, approvals,
    connect::{DbError, Link},
    keys, ledger, rows,
};
use crate::{ApprovalRow, Error, Scanned, Visitor, encoding::Undecodable};

/// On a connection of its own: it takes as long as the log is.
pub(super) async fn scan(url: &PostgresUrl, visitor: Arc<dyn Visitor>) -> Result<(), Error> {
    let link = Link::open(url).await?;
    let visitor = visitor.as_ref();
    link.batch(
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 0;
         SET LOCAL idle_in_transaction_session_timeout = '60s'",
    )
    .await?;
    let sql = "SELECT ledger.position, ledger.leaf, ledger.payload, records.body, ledger.part
               FROM ledger LEFT JOIN records ON records.position = ledger.record
               ORDER BY ledger.position";
    each(&link, sql, |row| entry(row, visitor)).await?;
    if let Some(newest) = link.first(ledger::NEWEST, &[]).await? {
        visitor.visit(Scanned::Checkpoint(ledger::signed(newest)?));
    }
    each(&link, &format!("{} ORDER BY id", keys::COLUMNS), |row| {
        visitor.visit(match rows::read(row, ("keys", 0), keys::key) {
            Ok(key) => Scanned::Key(Box::new(key)),
            Err(unreadable) => Scanned::Unreadable(unreadable),
        });
    })
    .await?;
    let sql = approvals::columns().replace("$1::uuid", "NULL").replacen(
        ", approvals.id FROM approvals",
        ", approvals.id, tenant, tool, expires_at, uses FROM approvals",
        1,
    );
    each(&link, &format!("{sql} ORDER BY id"), |row| {
        visitor.visit(match rows::read(row, ("approvals", 5), approval) {
            Ok(approval) => Scanned::Approval(Box::new(approval)),
            Err(unreadable) => Scanned::Unreadable(unreadable),
        });
    })
    .await?;
    Ok(link.batch("COMMIT").await?)
}

/// Shows each row of a statement as it arrives.
async fn each(link: &Link, sql: &str, mut visit: impl FnMut(&Row)) -> Result<(), DbError> {
    let nothing: [&str; 0] = [];
    let mut rows = pin!(link.client().query_raw(sql, nothing).await?);
    while let Some(row) = rows.try_next().await? {
        visit(&row);
    }
    Ok(())
}

fn entry(row: &Row, visitor: &dyn Visitor) {
    let read = rows::read(row, ("ledger", 0), |row| {
        let index = rows::unsigned(row, 0)?.wrapping_sub(1);
        Ok((index, rows::digest(row, 1)?, ledger::payload(row, 2)?))
    });
    match read {
        Ok((index, leaf, payload)) => {
            visitor.visit(Scanned::Entry { index, leaf, payload: &payload });
        }
        Err(unreadable) => visitor.visit(Scanned::Unreadable(unreadable)),
    }
}

fn approval(row: &Row) -> Result<ApprovalRow, Undecodable> {
    Ok(ApprovalRow {
        id: ApprovalId(row.try_get::<_, Uuid>(5)?),
        tenant: row.try_get(6)?,
        tool: row.try_get(7)?,
        expires_at: Timestamp::from_micros(row.try_get(8)?),
        uses: row.try_get(9)?,
        standing: approvals::standing(row)?,
    })
}
