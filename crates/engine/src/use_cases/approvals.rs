//! Approvals: listing and revoking.

use ringfence_ledger::Entry;
use ringfence_store::{ApprovalPage, ApprovalQuery, Error, Standing};
use ringfence_types::{About, ApprovalId, KeyId, PersonId, Principal};
use serde::Serialize;

use crate::Engine;

impl Engine {
    /// Approvals, newest first. The tenant of the query is always the principal's.
    pub async fn approvals(
        &self,
        who: &Principal,
        query: ApprovalQuery,
    ) -> Result<ApprovalPage, Error> {
        let query = ApprovalQuery { tenant: who.tenant.clone(), ..query };
        self.inner.parts.store.approvals(query).await
    }

    /// One approval.
    pub async fn approval(
        &self,
        who: &Principal,
        id: ApprovalId,
    ) -> Result<Option<Standing>, Error> {
        self.inner.parts.store.approval(&who.tenant, id).await
    }

    /// Revokes an approval and records that on the ledger, in one commit; `false` if there is none.
    /// Calls that have begun go on.
    pub async fn revoke_approval(&self, who: &Principal, id: ApprovalId) -> Result<bool, Error> {
        let Some(standing) = self.approval(who, id).await? else { return Ok(false) };
        let at = self.clock().now();
        let about = About {
            call: Some(standing.approval.call),
            tool: Some(standing.approval.tool.name),
            persona: standing.approval.persona,
            ..About::tenant(who.tenant.clone(), at)
        };
        let (label, person) = (who.label.as_str(), who.person.as_ref());
        let revoked = Revoked { event: "revoked", id, by: who.key, label, person };
        let guard = self.inner.parts.ledger.signing_guard().await;
        let entry = guard.seal(Entry::approval(about, &revoked))?;
        self.inner.parts.store.revoke_approval(&who.tenant, id, who.key, at, entry).await
    }
}

/// The ledger entry about an approval that was revoked.
#[derive(Serialize)]
struct Revoked<'a> {
    event: &'static str,
    id: ApprovalId,
    by: KeyId,
    label: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    person: Option<&'a PersonId>,
}
