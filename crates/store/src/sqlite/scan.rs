//! Everything that the ledger can be held against, of one moment, row by row.

use std::sync::Arc;

use ringfence_sqlite::{Connection, Db};
use ringfence_types::{ApprovalId, Timestamp};
use rusqlite::{Row, types::Null};

use super::{approvals, checkpoints, keys, ledger, rows};
use crate::{ApprovalRow, Error, Scanned, Visitor};

pub(super) async fn scan(db: &Db, visitor: Arc<dyn Visitor>) -> Result<(), Error> {
    db.read(move |connection| {
        let visitor = visitor.as_ref();
        entries(connection, visitor)?;
        if let Some(newest) = checkpoints::newest_of(connection)? {
            visitor.visit(Scanned::Checkpoint(newest));
        }
        keys(connection, visitor)?;
        approvals(connection, visitor)
    })
    .await
}

fn entries(connection: &Connection, visitor: &dyn Visitor) -> Result<(), Error> {
    let sql = "SELECT ledger.position, ledger.leaf, ledger.payload, records.body, ledger.part
               FROM ledger LEFT JOIN records ON records.position = ledger.record
               ORDER BY ledger.position";
    let mut statement = connection.prepare(sql)?;
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        let index = row.get::<_, i64>(0)?.cast_unsigned().wrapping_sub(1);
        let read = rows::read(row, ("ledger", 0), |row| {
            Ok((rows::digest(row, 1)?, ledger::payload(row, 2)?))
        });
        match read {
            Ok((leaf, payload)) => {
                visitor.visit(Scanned::Entry { index, leaf, payload: &payload });
            }
            Err(unreadable) => visitor.visit(Scanned::Unreadable(unreadable)),
        }
    }
    Ok(())
}

fn keys(connection: &Connection, visitor: &dyn Visitor) -> Result<(), Error> {
    let mut statement = connection.prepare(&format!("{} ORDER BY id", keys::COLUMNS))?;
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        visitor.visit(match rows::read(row, ("keys", 0), keys::key) {
            Ok(key) => Scanned::Key(Box::new(key)),
            Err(unreadable) => Scanned::Unreadable(unreadable),
        });
    }
    Ok(())
}

fn approvals(connection: &Connection, visitor: &dyn Visitor) -> Result<(), Error> {
    // The columns that stand beside the text come after those of a standing approval.
    let sql = approvals::columns().replacen(
        " FROM approvals",
        ", id, tenant, tool, expires_at, uses FROM approvals",
        1,
    );
    let mut statement = connection.prepare(&format!("{sql} ORDER BY id"))?;
    let mut found = statement.query([Null])?;
    while let Some(row) = found.next()? {
        visitor.visit(match rows::read(row, ("approvals", 5), approval) {
            Ok(approval) => Scanned::Approval(Box::new(approval)),
            Err(unreadable) => Scanned::Unreadable(unreadable),
        });
    }
    Ok(())
}

fn approval(row: &Row<'_>) -> rusqlite::Result<ApprovalRow> {
    Ok(ApprovalRow {
        id: ApprovalId(rows::uuid(row, 5)?),
        tenant: row.get(6)?,
        tool: row.get(7)?,
        expires_at: Timestamp::from_micros(row.get(8)?),
        uses: row.get(9)?,
        standing: approvals::standing(row)?,
    })
}
