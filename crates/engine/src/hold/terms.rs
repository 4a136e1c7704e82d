//! The bounds that a person may put on an approval.

use std::time::Duration;

use ringfence_types::{Arguments, Call, Predicate, Reach, SessionId, Terms, Timestamp};

/// Maximum lifetime of an approval.
const MAX_APPROVAL_LIFETIME: Duration = Duration::from_secs(90 * 86_400);
/// Maximum number of calls of one approval.
const MAX_APPROVAL_USES: u32 = 10_000;
/// Default lifetime of an approval for one call.
const ONCE_LIFETIME: Duration = Duration::from_secs(3_600);
/// Default lifetime of an approval for a session.
const SESSION_LIFETIME: Duration = Duration::from_secs(8 * 3_600);
/// Default number of calls of an approval for a session.
const DEFAULT_SESSION_USES: u32 = 100;

/// Requested scope of an approval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ApprovalScope {
    /// One call.
    #[default]
    Once,
    /// The session of this call.
    Session,
    /// Every call within the bounds.
    Rule,
}

/// Requested bounds of an approval.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TermsRequest {
    /// The scope.
    pub scope: ApprovalScope,
    /// Condition on the arguments; without it, exactly those shown.
    pub args: Option<Predicate>,
    /// Lifetime.
    pub expires_in: Option<Duration>,
    /// Number of calls.
    pub uses: Option<u32>,
}

/// Bounds that cannot be granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTerms {
    /// The call has no session.
    #[error("scope `session` needs a call with a session, and this call has none")]
    NoSession,
    /// Conditions or several uses on an approval for one call.
    #[error(
        "scope `once` takes no `where` and one use: it approves exactly the call that was shown"
    )]
    Once,
    /// A rule without visible bounds.
    #[error("scope `rule` requires `where`, `uses` and `expires_in`")]
    Unbounded,
    /// Conditions that the call itself does not meet.
    #[error("`where` does not match the call that was shown, so the approval would not allow it")]
    NotMatching,
    /// The lifetime is too long, or zero.
    #[error("the lifetime of an approval must be from 1 second to 90 days")]
    Lifetime,
    /// The number of calls is too large, or zero.
    #[error("`uses` must be from 1 to {MAX_APPROVAL_USES}")]
    Uses,
}

impl TermsRequest {
    /// The bounds of an approval of `call` that is given now.
    pub(super) fn terms(&self, call: &Call, now: Timestamp) -> Result<Terms, InvalidTerms> {
        let shown = Arguments::Exactly(call.args_digest());
        let (reach, expires_in, uses) = match self.scope {
            ApprovalScope::Once
                if self.args.is_some() || self.uses.is_some_and(|uses| uses != 1) =>
            {
                return Err(InvalidTerms::Once);
            }
            ApprovalScope::Once => {
                (Reach::Once(call.asked.id), self.expires_in.unwrap_or(ONCE_LIFETIME), 1)
            }
            ApprovalScope::Session => {
                let expires_in = self.expires_in.unwrap_or(SESSION_LIFETIME);
                (
                    Reach::Session(session(call)?),
                    expires_in,
                    self.uses.unwrap_or(DEFAULT_SESSION_USES),
                )
            }
            ApprovalScope::Rule => match (&self.args, self.expires_in, self.uses) {
                (Some(_), Some(expires_in), Some(uses)) => (Reach::Rule, expires_in, uses),
                _ => return Err(InvalidTerms::Unbounded),
            },
        };
        if !(Duration::from_secs(1)..=MAX_APPROVAL_LIFETIME).contains(&expires_in) {
            return Err(InvalidTerms::Lifetime);
        }
        if !(1..=MAX_APPROVAL_USES).contains(&uses) {
            return Err(InvalidTerms::Uses);
        }
        let args = self.args.clone().map_or(shown, Arguments::Where);
        if !args.include(call.args(), call.args_digest()) {
            return Err(InvalidTerms::NotMatching);
        }
        Ok(Terms { args, reach, expires_at: now.after(expires_in), uses })
    }
}

fn session(call: &Call) -> Result<SessionId, InvalidTerms> {
    call.asked.session.clone().ok_or(InvalidTerms::NoSession)
}

/// Whether two approvers set equal bounds. The expiry of the first counts, because the second
/// answers a little later.
pub(super) fn agree(one: &Terms, other: &Terms) -> bool {
    one.args == other.args && one.reach == other.reach && one.uses == other.uses
}
