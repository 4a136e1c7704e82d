//! Entries of the ledger, its checkpoints and its tiles, found again. They are written by a batch.

use ringfence_types::{
    About, CallId, Digest, EntryKind, PersonaId, Receipt, Sealed, SessionId, TenantId, Timestamp,
    ToolName,
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    connect::Link,
    pool::Pool,
    rows,
    slices::{SLICE, Slice, rows_to_visit, visit},
};
use crate::{
    EntryPage, EntryQuery, Error, PAGE, Placed, Signed,
    encoding::{self, Undecodable, page, position, tile_id},
};

/// Columns of every query for entries, in the order that [`placed`] reads.
const COLUMNS: &str = "SELECT ledger.position, ledger.kind, ledger.tenant, calls.id, \
    ledger.persona, ledger.tool, ledger.at, ledger.leaf, signers.key, ledger.signature, \
    ledger.payload, records.body, ledger.part FROM ledger \
    LEFT JOIN signers ON signers.id = ledger.signer \
    LEFT JOIN calls ON calls.seq = ledger.call \
    LEFT JOIN records ON records.position = ledger.record";

/// Statement of an entry, from its own column, or from the `body` of a record and its number there.
pub(super) fn payload(row: &Row, index: usize) -> Result<String, Undecodable> {
    if let Some(payload) = row.try_get::<_, Option<String>>(index)? {
        return Ok(payload);
    }
    encoding::payload(row.try_get(index + 1)?, row.try_get(index + 2)?)
}

/// Entry from [`COLUMNS`].
fn placed(row: &Row) -> Result<Placed, Undecodable> {
    let tenant: &str = row.try_get(2)?;
    let about = About {
        tenant: (!tenant.is_empty()).then(|| tenant.parse()).transpose()?,
        call: row.try_get::<_, Option<Uuid>>(3)?.map(CallId),
        persona: rows::name_or_none(row, 4)?,
        tool: rows::name_or_none(row, 5)?,
        at: rows::timestamp(row, 6)?,
    };
    let signature = row.try_get::<_, Option<&[u8]>>(9)?;
    let sealed = Sealed {
        kind: rows::name(row, 1)?,
        about,
        leaf: rows::digest(row, 7)?,
        signer: rows::digest(row, 8)?,
        signature: signature.map(TryInto::try_into).transpose()?,
        payload: payload(row, 10)?,
    };
    Ok(Placed { index: rows::unsigned(row, 0)?.wrapping_sub(1), sealed })
}

pub(super) async fn receipt(
    pool: &Pool,
    tenant: &TenantId,
    id: CallId,
) -> Result<Option<Receipt>, Error> {
    let link = &*pool.read_for(tenant.as_str()).await?;
    let sql = "SELECT ledger.payload, records.body, ledger.part, ledger.position
                   FROM calls JOIN ledger ON ledger.call = calls.seq
                   LEFT JOIN records ON records.position = ledger.record
                   WHERE calls.id = $1 AND calls.tenant = $2 AND ledger.kind = 'call'";
    let Some(row) = link.first(sql, &[&id.0, &tenant.as_str()]).await? else { return Ok(None) };
    let receipt = |row: &Row| Ok(ringfence_types::predicate(&payload(row, 0)?)?);
    rows::whole(&row, ("ledger", 3), receipt).map(Some)
}

pub(super) async fn leaves(pool: &Pool, from: u64, limit: usize) -> Result<Vec<Digest>, Error> {
    let link = &*pool.read().await?;
    let sql = "SELECT leaf, position FROM ledger WHERE position > $1 ORDER BY position LIMIT $2";
    let found = link.query(sql, &[&position(from), &page(limit)]).await?;
    let leaf = |row: &Row| rows::whole(row, ("ledger", 1), |row| rows::digest(row, 0));
    found.iter().map(leaf).collect()
}

/// Newest checkpoint.
pub(super) const NEWEST: &str = "SELECT size, note FROM checkpoints ORDER BY size DESC LIMIT 1";

pub(super) async fn checkpoint(pool: &Pool) -> Result<Option<Signed>, Error> {
    let link = &*pool.read().await?;
    Ok(link.first(NEWEST, &[]).await?.map(signed).transpose()?)
}

pub(super) async fn checkpoints(
    pool: &Pool,
    after: u64,
    limit: usize,
) -> Result<Vec<Signed>, Error> {
    let link = &*pool.read().await?;
    let sql = "SELECT size, note FROM checkpoints WHERE size > $1 ORDER BY size LIMIT $2";
    let found = link.query(sql, &[&position(after), &page(limit)]).await?;
    Ok(found.into_iter().map(signed).collect::<Result<_, _>>()?)
}

pub(super) fn signed(row: Row) -> Result<Signed, tokio_postgres::Error> {
    Ok(Signed { size: row.try_get::<_, i64>(0)?.cast_unsigned(), note: row.try_get(1)? })
}

pub(super) async fn tile(pool: &Pool, level: u8, index: u64) -> Result<Option<Vec<u8>>, Error> {
    let link = &*pool.read().await?;
    let sql = "SELECT hashes FROM tiles WHERE id = $1";
    let row = link.first(sql, &[&tile_id(level, index)]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

/// Entries for readers inside the server: slice by slice, until there are enough.
pub(super) async fn list(pool: &Pool, mut query: EntryQuery) -> Result<Vec<Placed>, Error> {
    let (limit, mut found) = (query.limit.min(PAGE), Vec::new());
    loop {
        query.limit = limit - found.len();
        let page = slice(pool, &query).await?;
        found.extend(page.entries);
        match page.next {
            Some(next) if found.len() < limit => query.from = next,
            _ => return Ok(found),
        }
    }
}

/// Entries for clients: as many as a bounded number of rows holds.
///
/// Entries about the whole server belong to every tenant, so a tenant's entries are found in two places.
/// Each is in order; entries beyond the end of a slice of either wait for the next page.
pub(super) async fn slice(pool: &Pool, query: &EntryQuery) -> Result<EntryPage, Error> {
    let limit = query.limit.min(PAGE);
    if limit == 0 {
        return Ok(EntryPage { entries: Vec::new(), next: None });
    }
    let lane = query.tenant.as_ref().map_or("", TenantId::as_str);
    let link = &*pool.read_for(lane).await?;
    let mut slices = Vec::new();
    match &query.tenant {
        None => slices.push(find(link, query, None, limit).await?),
        Some(tenant) => {
            slices.push(find(link, query, Some(tenant.as_str()), limit).await?);
            // No entry about the server belongs to a session, a persona or a call.
            if query.call.is_none() && query.session.is_none() && query.persona.is_none() {
                slices.push(find(link, query, Some(""), limit).await?);
            }
        }
    }
    let end = slices.iter().filter_map(|slice| slice.next).min();
    let mut positions: Vec<_> = slices.into_iter().flat_map(|slice| slice.keys).collect();
    positions.retain(|position| end.is_none_or(|end| *position <= end));
    positions.sort_unstable();
    let is_cut = positions.len() > limit;
    positions.truncate(limit);
    let next = if is_cut { positions.last().copied() } else { end };
    let sql = format!("{COLUMNS} WHERE ledger.position = ANY($1) ORDER BY ledger.position");
    let found = link.query(&sql, &[&positions]).await?;
    // Of evidence no row is left out: one that cannot be read is an error that names it.
    let read = |row: &Row| rows::whole(row, ("ledger", 0), placed);
    let entries = found.iter().map(read).collect::<Result<_, _>>()?;
    // An index is its position less one, so the position is the index of the entry after it.
    Ok(EntryPage { entries, next: next.map(i64::cast_unsigned) })
}

async fn find(
    link: &Link,
    query: &EntryQuery,
    tenant: Option<&str>,
    limit: usize,
) -> Result<Slice<i64>, Error> {
    let is_sorted_first = query.call.is_some() || query.session.is_some();
    let (sql, has_filters) = selection(query, tenant);
    // Entries of one call or session are few; they are sorted after they were found.
    let asked = if is_sorted_first { SLICE as i64 } else { rows_to_visit(limit, has_filters) };
    let found = link
        .query(
            &sql,
            &[
                &position(query.from),
                &tenant,
                &query.kind.map(EntryKind::name),
                &query.call.map(|call| call.0),
                &query.session.as_ref().map(SessionId::as_str),
                &query.persona.as_ref().map(PersonaId::as_str),
                &query.tool.as_ref().map(ToolName::as_str),
                &query.since.map(Timestamp::as_micros),
                &query.until.map(Timestamp::as_micros),
                &asked,
            ],
        )
        .await?;
    visit::<i64>(&found, (limit, asked), |row| Ok(row.try_get(0)?))
}

/// One of some texts: the position, and whether the entry matches; and whether some may not match.
fn selection(query: &EntryQuery, tenant: Option<&str>) -> (String, bool) {
    let mut conditions = vec!["ledger.position > $1"];
    let mut filters = Vec::new();
    if tenant.is_some() {
        conditions.push("ledger.tenant = $2");
    }
    if query.call.is_some() {
        conditions.push("ledger.call = (SELECT seq FROM calls WHERE id = $4)");
    }
    if query.session.is_some() {
        // A session belongs to a tenant: without one nothing is found.
        conditions
            .push("ledger.call IN (SELECT seq FROM calls WHERE tenant = $2 AND session = $5)");
    }
    match query.kind {
        Some(EntryKind::Call) => filters.push("ledger.kind = $3"),
        Some(_) => conditions.push("ledger.kind = $3 AND ledger.kind <> 'call'"),
        None => {}
    }
    let mut filter = |is_given: bool, text| filters.extend(is_given.then_some(text));
    filter(query.persona.is_some(), "coalesce(ledger.persona = $6, false)");
    filter(query.tool.is_some(), "coalesce(ledger.tool = $7, false)");
    filter(query.since.is_some(), "ledger.at >= $8");
    filter(query.until.is_some(), "ledger.at < $9");
    let matches = if filters.is_empty() { "true".to_owned() } else { filters.join(" AND ") };
    let conditions = conditions.join(" AND ");
    // Every parameter has a type whatever the text.
    let sql = format!(
        "SELECT ledger.position, {matches} FROM ledger WHERE {conditions}
         AND ($2::text IS NULL OR true) AND ($3::text IS NULL OR true)
         AND ($4::uuid IS NULL OR true) AND ($5::text IS NULL OR true)
         AND ($6::text IS NULL OR true) AND ($7::text IS NULL OR true)
         AND ($8::bigint IS NULL OR true) AND ($9::bigint IS NULL OR true)
         ORDER BY ledger.position LIMIT $10"
    );
    (sql, !filters.is_empty())
}
