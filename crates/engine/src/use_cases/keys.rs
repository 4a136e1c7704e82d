//! Revoking keys, with what follows for calls.

use ringfence_access::RevokeError;
use ringfence_types::{KeyId, Principal};

use crate::Engine;

impl Engine {
    /// Revokes a key, at once and for good. Programs that it runs in session sandboxes end. What it
    /// asked for and has not begun does not begin, and approvals that it gave count no more: held
    /// calls are decided again.
    pub async fn revoke_key(&self, who: &Principal, id: KeyId) -> Result<(), RevokeError> {
        self.access().revoke_by(who, id).await?;
        self.end_programs_of(id, who);
        self.judge_holds_again();
        Ok(())
    }
}
