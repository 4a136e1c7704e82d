//! Changes of few rows: keys, approvals and repairs, within the transaction of a batch.

use ringfence_types::{ApprovalId, KeyId, Scope, Scopes, TenantId, Timestamp};
use uuid::Uuid;

use super::{
    columns::insert_approval,
    connect::{DbError, Link},
    keys, rows, tool_rows,
    work::{Answer, Change, ChangeKind},
};
use crate::{Error, Key, Repair, Revocation, Revoked, encoding};

/// Answer, and whether the entries of the change are written; or why it is refused.
type Made = Result<(Answer, bool), Error>;

/// Makes a change; a refused one changes nothing.
pub(super) async fn make(link: &Link, change: &Change) -> Result<Made, DbError> {
    match &change.kind {
        ChangeKind::AddKey(key) => add_key(link, key).await,
        ChangeKind::RevokeKey(revocation) => revoke_key(link, revocation).await,
        ChangeKind::RevokeApproval { tenant, id, by, at } => {
            revoke_approval(link, tenant, *id, (*by, *at)).await
        }
        ChangeKind::Repair(repairs) => {
            for repair in repairs {
                if let Err(refused) = mend(link, repair).await? {
                    return Ok(Err(refused));
                }
            }
            Ok(Ok((Answer::Done, true)))
        }
        ChangeKind::PutTools(new) => {
            Ok(tool_rows::put(link, new).await?.map(|()| (Answer::Done, true)))
        }
    }
}

/// A second key with the same id or the same secret is [`Error::Stale`].
async fn add_key(link: &Link, key: &Key) -> Result<Made, DbError> {
    Ok(match insert_key(link, key).await? {
        Ok(1) => Ok((Answer::Done, true)),
        Ok(_) => Err(Error::Stale),
        Err(refused) => Err(refused),
    })
}

async fn insert_key(link: &Link, key: &Key) -> Result<Result<u64, Error>, DbError> {
    let scopes = match encoding::json(&key.scopes) {
        Ok(scopes) => scopes,
        Err(refused) => return Ok(Err(refused)),
    };
    for text in [&key.label, &key.prefix] {
        if let Err(refused) = rows::check_text(text) {
            return Ok(Err(refused));
        }
    }
    let micros = |at: Option<Timestamp>| at.map(Timestamp::as_micros);
    link.execute(
        keys::INSERT,
        &[
            &key.id.0,
            &key.tenant.as_str(),
            &key.persona.as_ref().map(|persona| persona.as_str()),
            &key.person.as_ref().map(|person| person.as_str()),
            &key.label,
            &key.prefix,
            &key.secret.as_bytes().as_slice(),
            &scopes,
            &key.created_at.as_micros(),
            &key.created_by.map(|by| by.0),
            &micros(key.expires_at),
            &micros(key.revoked_at),
        ],
    )
    .await
    .map(Ok)
}

/// All admin keys of the tenant are locked, in one order: of two that revoke each other one stays.
async fn revoke_key(link: &Link, revocation: &Revocation) -> Result<Made, DbError> {
    let Revocation { key, tenant, at, keeps_admin_of } = revocation;
    let at = at.as_micros();
    let mut admins = Vec::new();
    if let Some(tenant) = keeps_admin_of {
        let sql = "SELECT id, scopes FROM keys WHERE tenant = $1 AND revoked_at IS NULL
                   AND (expires_at IS NULL OR expires_at > $2) ORDER BY id FOR UPDATE";
        for row in link.query(sql, &[&tenant.as_str(), &at]).await? {
            let scopes = rows::parsed::<Scopes>(&row, 1);
            // Scopes that cannot be read allow nothing.
            if scopes.is_ok_and(|scopes| scopes.allow(Scope::Admin)) {
                admins.push(row.try_get::<_, Uuid>(0)?);
            }
        }
    }
    let sql = "SELECT revoked_at IS NULL FROM keys
               WHERE id = $1 AND ($2::text IS NULL OR tenant = $2) FOR UPDATE";
    let tenant = tenant.as_ref().map(TenantId::as_str);
    let Some(row) = link.first(sql, &[&key.0, &tenant]).await? else {
        return Ok(Ok((Answer::Revoked(Revoked::NotFound), false)));
    };
    if !row.try_get::<_, bool>(0)? {
        return Ok(Ok((Answer::Revoked(Revoked::Done), false)));
    }
    if keeps_admin_of.is_some() && admins == [key.0] {
        return Ok(Ok((Answer::Revoked(Revoked::LastAdmin), false)));
    }
    link.execute("UPDATE keys SET revoked_at = $1 WHERE id = $2", &[&at, &key.0]).await?;
    Ok(Ok((Answer::Revoked(Revoked::Done), true)))
}

async fn revoke_approval(
    link: &Link,
    tenant: &TenantId,
    id: ApprovalId,
    (by, at): (KeyId, Timestamp),
) -> Result<Made, DbError> {
    let sql = "SELECT revoked_at IS NULL FROM approvals WHERE id = $1 AND tenant = $2 FOR UPDATE";
    let Some(row) = link.first(sql, &[&id.0, &tenant.as_str()]).await? else {
        return Ok(Ok((Answer::Found(false), false)));
    };
    if !row.try_get::<_, bool>(0)? {
        return Ok(Ok((Answer::Found(true), false)));
    }
    revoke(link, id, by, at).await?;
    Ok(Ok((Answer::Found(true), true)))
}

async fn revoke(link: &Link, id: ApprovalId, by: KeyId, at: Timestamp) -> Result<(), DbError> {
    let sql = "UPDATE approvals SET revoked_at = $2, revoked_by = $3 WHERE id = $1";
    link.execute(sql, &[&id.0, &at.as_micros(), &by.0]).await.map(drop)
}

async fn mend(link: &Link, repair: &Repair) -> Result<Result<(), Error>, DbError> {
    match repair {
        Repair::PutKey(key) => {
            remove_key(link, key.id).await?;
            return Ok(insert_key(link, key).await?.map(drop));
        }
        Repair::RemoveKey(id) => remove_key(link, *id).await?,
        Repair::SetApproval { approval, revoked } => {
            let text = match encoding::json(approval) {
                Ok(text) => text,
                Err(refused) => return Ok(Err(refused)),
            };
            remove_approval(link, approval.id).await?;
            insert_approval(link, approval, &text).await?;
            if let Some((at, by)) = revoked {
                revoke(link, approval.id, *by, *at).await?;
            }
        }
        Repair::RemoveApproval(id) => remove_approval(link, *id).await?,
        Repair::AddUse(call, spend) => {
            let sql = "INSERT INTO approval_uses (approval, call, at) VALUES ($1, $2, $3)
                       ON CONFLICT DO NOTHING";
            link.execute(sql, &[&spend.approval.0, &call.0, &spend.at.as_micros()]).await?;
        }
    }
    Ok(Ok(()))
}

async fn remove_key(link: &Link, id: KeyId) -> Result<(), DbError> {
    link.execute("DELETE FROM keys WHERE id = $1", &[&id.0]).await.map(drop)
}

async fn remove_approval(link: &Link, id: ApprovalId) -> Result<(), DbError> {
    link.execute("DELETE FROM approvals WHERE id = $1", &[&id.0]).await.map(drop)
}
