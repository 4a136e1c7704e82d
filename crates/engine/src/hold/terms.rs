//! The bounds that a person may put on an approval.

use std::time::Duration;

use ringfence_types::{Arguments, Call, Predicate, Reach, SessionId, Terms, Timestamp};

/// Longest life of an approval.
const LONGEST: Duration = Duration::from_secs(90 * 86_400);
/// Most calls of one approval.
const MOST_USES: u32 = 10_000;
/// How long a yes to one call waits for its turn.
const ONCE: Duration = Duration::from_secs(3_600);
/// How long a session may go on by it, unless somebody says otherwise.
const SESSION: Duration = Duration::from_secs(8 * 3_600);
/// How often.
const SESSION_USES: u32 = 100;

/// How far an approval is to reach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wide {
    /// This call.
    #[default]
    Once,
    /// The session of this call.
    Session,
    /// Whatever is within the bounds.
    Rule,
}

/// Bounds as somebody asks for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TermsRequest {
    /// How far.
    pub wide: Wide,
    /// With which arguments; exactly those shown without.
    pub args: Option<Predicate>,
    /// How long.
    pub lasts: Option<Duration>,
    /// How often.
    pub uses: Option<u32>,
}

/// Bounds that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTerms {
    /// There is no session.
    #[error("the call belongs to no session, so an approval cannot be for one")]
    NoSession,
    /// One call, and yet more.
    #[error("an approval for one call has no conditions and one use: it is for what was shown")]
    Once,
    /// A rule without visible bounds.
    #[error("an approval as a rule says with which arguments, how often and how long")]
    Unbounded,
    /// Conditions that the call itself does not meet.
    #[error("the conditions do not hold for the call that is shown, so they would not let it run")]
    NotThis,
    /// Too long, or no time at all.
    #[error("an approval lasts from a second to 90 days")]
    Lasts,
    /// Too often, or never.
    #[error("an approval is for 1 to {MOST_USES} calls")]
    Uses,
}

impl TermsRequest {
    /// The bounds of an approval of `call` that is given now.
    pub(super) fn terms(&self, call: &Call, now: Timestamp) -> Result<Terms, InvalidTerms> {
        let shown = Arguments::Exactly(call.args_digest());
        let (reach, lasts, uses) = match self.wide {
            Wide::Once if self.args.is_some() || self.uses.is_some_and(|uses| uses != 1) => {
                return Err(InvalidTerms::Once);
            }
            Wide::Once => (Reach::Once(call.asked.id), self.lasts.unwrap_or(ONCE), 1),
            Wide::Session => {
                let lasts = self.lasts.unwrap_or(SESSION);
                (Reach::Session(session(call)?), lasts, self.uses.unwrap_or(SESSION_USES))
            }
            Wide::Rule => match (&self.args, self.lasts, self.uses) {
                (Some(_), Some(lasts), Some(uses)) => (Reach::Rule, lasts, uses),
                _ => return Err(InvalidTerms::Unbounded),
            },
        };
        if !(Duration::from_secs(1)..=LONGEST).contains(&lasts) {
            return Err(InvalidTerms::Lasts);
        }
        if !(1..=MOST_USES).contains(&uses) {
            return Err(InvalidTerms::Uses);
        }
        let args = self.args.clone().map_or(shown, Arguments::Where);
        if !args.include(call.args(), call.args_digest()) {
            return Err(InvalidTerms::NotThis);
        }
        Ok(Terms { args, reach, expires_at: now.after(lasts), uses })
    }
}

fn session(call: &Call) -> Result<SessionId, InvalidTerms> {
    call.asked.session.clone().ok_or(InvalidTerms::NoSession)
}

/// Whether two people mean the same bounds. Those of the first count for how long, because the
/// second says so a little later.
pub(super) fn agree(one: &Terms, other: &Terms) -> bool {
    one.args == other.args && one.reach == other.reach && one.uses == other.uses
}
