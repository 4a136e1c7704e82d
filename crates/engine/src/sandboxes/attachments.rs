//! Bytes that come with a call beside its arguments: the content of a file, an archive, a snapshot.
//!
//! Arguments are parsed, digested and stored with the call; a file of 32 MiB is not. Its digest and
//! length are arguments, and the bytes stay here until the call runs or is over. They are in memory
//! only, because their sandbox does not outlive the process either.

use std::{collections::HashMap, fmt, sync::Arc, sync::Mutex};

use ringfence_types::{CallId, TenantId};

use super::lock;

/// Bytes of all waiting attachments of one tenant.
const MAX_BYTES_PER_TENANT: usize = 64 << 20;

/// Bytes that come with a call beside its arguments. Cheap to clone.
#[derive(Clone)]
pub struct Attachment(Arc<dyn AsRef<[u8]> + Send + Sync>);

impl Attachment {
    /// An attachment of these bytes.
    pub fn new(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self(Arc::new(bytes))
    }
}

impl AsRef<[u8]> for Attachment {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Attachment({} bytes)", self.as_ref().len())
    }
}

/// The waiting attachments of the tenant are too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooMuch;

/// Attachments of calls that have not run yet.
#[derive(Debug, Default)]
pub(crate) struct Attachments {
    waiting: Mutex<HashMap<CallId, (TenantId, Attachment)>>,
}

impl Attachments {
    pub(crate) fn add(
        &self,
        call: CallId,
        tenant: &TenantId,
        attachment: Attachment,
    ) -> Result<(), TooMuch> {
        let mut waiting = lock(&self.waiting);
        let own = waiting.values().filter(|(owner, _)| owner == tenant);
        let bytes: usize = own.map(|(_, attachment)| attachment.as_ref().len()).sum();
        if bytes + attachment.as_ref().len() > MAX_BYTES_PER_TENANT {
            return Err(TooMuch);
        }
        waiting.insert(call, (tenant.clone(), attachment));
        Ok(())
    }

    /// Removes and returns the call's attachment.
    pub(crate) fn take(&self, call: CallId) -> Option<Attachment> {
        lock(&self.waiting).remove(&call).map(|(_, attachment)| attachment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_keeps_so_much_waiting_and_no_more() {
        let attachments = Attachments::default();
        let call = |n: u128| CallId(uuid::Uuid::from_u128(n));
        let tenant = |name: &str| name.parse::<TenantId>().unwrap();
        let half = Attachment::new(vec![0; MAX_BYTES_PER_TENANT / 2]);
        for n in [1, 2] {
            assert_eq!(attachments.add(call(n), &tenant("a"), half.clone()), Ok(()));
        }
        let one_more = Attachment::new(b"x");
        assert_eq!(attachments.add(call(3), &tenant("a"), one_more.clone()), Err(TooMuch));
        assert_eq!(attachments.add(call(3), &tenant("b"), one_more.clone()), Ok(()));
        assert!(attachments.take(call(1)).is_some());
        assert!(attachments.take(call(1)).is_none());
        assert_eq!(attachments.add(call(4), &tenant("a"), one_more), Ok(()));
    }
}
