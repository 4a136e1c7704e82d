//! Revocation of keys, with its consequences for calls.

use ringfence_access::RevokeError;
use ringfence_types::{KeyId, Principal};

use crate::Engine;

impl Engine {
    /// Revokes a key, at once and for good. Its running calls are cancelled, with the calls those
    /// made and with programs in session sandboxes. Its waiting calls do not start, and its
    /// approvals no longer count: held calls are decided again.
    pub async fn revoke_key(&self, who: &Principal, id: KeyId) -> Result<(), RevokeError> {
        self.access().revoke_by(who, id).await?;
        self.key_revoked(id, who.key);
        Ok(())
    }
}
