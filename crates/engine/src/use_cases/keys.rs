//! Revoking keys, with what follows for calls.

use ringfence_access::RevokeError;
use ringfence_types::{KeyId, Principal};

use crate::Engine;

impl Engine {
    /// Revokes a key, at once and for good. Its calls that run are cancelled, with the calls those made
    /// and with programs in session sandboxes. What it asked for and has not begun does not begin, and
    /// approvals that it gave count no more: held calls are decided again.
    pub async fn revoke_key(&self, who: &Principal, id: KeyId) -> Result<(), RevokeError> {
        self.access().revoke_by(who, id).await?;
        self.key_revoked(id, who.key);
        Ok(())
    }
}
