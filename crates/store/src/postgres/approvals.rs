//! Approvals, found again. They are given, used and revoked by a batch.

use ringfence_types::{Approval, ApprovalId, KeyId, Reach, TenantId, Timestamp, ToolName};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    pool::Pool,
    rows,
    slices::{rows_to_visit, visit},
};
use crate::{ApprovalPage, ApprovalQuery, Error, PAGE, Standing, encoding::Undecodable};

/// Whether a key that gave an approval is revoked by now.
const WITHDRAWN: &str = "EXISTS (SELECT 1 FROM keys
    WHERE keys.id = ANY(approvals.voters) AND keys.revoked_at IS NOT NULL)";

/// Columns in the order that [`standing`] reads. The first parameter is a call whose use does not count.
pub(super) fn columns() -> String {
    format!(
        "SELECT approval, revoked_at, revoked_by,
         (SELECT count(*) FROM approval_uses WHERE approval_uses.approval = approvals.id
          AND approval_uses.call IS DISTINCT FROM $1::uuid),
         {WITHDRAWN}, approvals.id FROM approvals"
    )
}

pub(super) fn standing(row: &Row) -> Result<Standing, Undecodable> {
    Ok(Standing {
        approval: rows::parsed(row, 0)?,
        revoked_at: rows::timestamp_or_none(row, 1)?,
        revoked_by: row.try_get::<_, Option<Uuid>>(2)?.map(KeyId),
        used: u32::try_from(row.try_get::<_, i64>(3)?)?,
        is_withdrawn: row.try_get(4)?,
    })
}

pub(super) async fn list(pool: &Pool, query: ApprovalQuery) -> Result<ApprovalPage, Error> {
    let found = query.limit.min(PAGE);
    if found == 0 {
        return Ok(ApprovalPage { approvals: Vec::new(), next: None });
    }
    let link = &*pool.read_for(query.tenant.as_str()).await?;
    let (sql, has_filters) = selection(&query);
    let asked = rows_to_visit(found, has_filters);
    let before = query.before.map_or(Uuid::max(), |id| id.0);
    let usable = query.usable_by.as_ref();
    let (key, call) = (usable.map(|usable| usable.key.0), usable.map(|usable| usable.call.0));
    let session = usable.and_then(|usable| Some(usable.session.as_ref()?.as_str()));
    let tool = query.tool.as_ref().map(ToolName::as_str);
    let (tenant, at) = (query.tenant.as_str(), query.live_at.map(Timestamp::as_micros));
    let rows =
        link.query(&sql, &[&tenant, &before, &tool, &at, &key, &call, &session, &asked]).await?;
    let slice = visit::<Uuid>(&rows, (found, asked), |row| Ok(row.try_get(0)?))?;
    let not_by = query.not_by.map(|call| call.0);
    let sql = format!("{} WHERE id = ANY($2) ORDER BY id DESC", columns());
    let found = link.query(&sql, &[&not_by, &slice.keys]).await?;
    let read = |row: &Row| rows::whole(row, ("approvals", 5), standing);
    let approvals = found.iter().map(read).collect::<Result<_, _>>()?;
    Ok(ApprovalPage { approvals, next: slice.next.map(ApprovalId) })
}

/// One of a few texts: the id, and whether the approval matches; and whether some may not match.
fn selection(query: &ApprovalQuery) -> (String, bool) {
    let condition = if query.tool.is_some() { " AND tool = $3" } else { "" };
    let mut filters = Vec::new();
    if query.live_at.is_some() {
        filters.push(format!("expires_at > $4 AND revoked_at IS NULL AND NOT {WITHDRAWN}"));
    }
    if query.usable_by.is_some() {
        let reaches = "reach = 'rule' OR once = $6 OR session = $7";
        filters.push(format!("coalesce(key = $5 AND ({reaches}), false)"));
    }
    let matches = if filters.is_empty() { "true".to_owned() } else { filters.join(" AND ") };
    // Every parameter has a type whatever the text.
    let sql = format!(
        "SELECT id, {matches} FROM approvals WHERE tenant = $1 AND id < $2{condition}
         AND ($3::text IS NULL OR true) AND ($4::bigint IS NULL OR true)
         AND ($5::uuid IS NULL OR true) AND ($6::uuid IS NULL OR true)
         AND ($7::text IS NULL OR true) ORDER BY id DESC LIMIT $8"
    );
    (sql, !filters.is_empty())
}

pub(super) async fn one(
    pool: &Pool,
    tenant: &TenantId,
    id: ApprovalId,
) -> Result<Option<Standing>, Error> {
    let link = &*pool.read_for(tenant.as_str()).await?;
    let sql = format!("{} WHERE id = $2 AND tenant = $3", columns());
    let row = link.first(&sql, &[&None::<Uuid>, &id.0, &tenant.as_str()]).await?;
    row.map(|row| rows::whole(&row, ("approvals", 5), standing)).transpose()
}

/// Columns that an approval is found by.
#[derive(Debug)]
pub(super) struct Found<'a> {
    pub(super) reach: &'static str,
    pub(super) once: Option<Uuid>,
    pub(super) session: Option<&'a str>,
    pub(super) voters: Vec<Uuid>,
}

impl<'a> Found<'a> {
    pub(super) fn of(approval: &'a Approval) -> Self {
        let (once, session) = match &approval.terms.reach {
            Reach::Once(call) => (Some(call.0), None),
            Reach::Session(session) => (None, Some(session.as_str())),
            Reach::Rule => (None, None),
        };
        let voters = approval.votes.iter().map(|vote| vote.by.0).collect();
        Self { reach: approval.terms.reach.name(), once, session, voters }
    }
}

/// Adds an approval, unless there is one of its id.
pub(super) const INSERT: &str = "INSERT INTO approvals
    (id, tenant, tool, expires_at, uses, key, reach, once, session, voters, approval)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (id) DO NOTHING";
