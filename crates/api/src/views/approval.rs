//! View of an approval.

use ringfence_engine::data::Standing;
use ringfence_types::{
    ApprovalId, Arguments, CallId, Digest, KeyId, PersonId, PersonaId, Predicate, Reach, SessionId,
    Terms, Timestamp, Vote,
};
use serde::Serialize;
use utoipa::ToSchema;

/// An approval and its remaining uses.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Approval)]
pub(crate) struct ApprovalView<'a> {
    /// Id of the approval.
    #[schema(value_type = String)]
    id: ApprovalId,
    /// The held call that was shown.
    #[schema(value_type = String)]
    call: CallId,
    /// Name of the tool.
    tool: &'a str,
    /// Version of the tool.
    version: &'a str,
    /// Digest of that version.
    #[schema(value_type = String)]
    digest: Digest,
    /// Key of the covered calls.
    #[schema(value_type = String)]
    key: KeyId,
    /// Persona of the covered calls.
    #[schema(value_type = Option<String>)]
    persona_id: Option<&'a PersonaId>,
    /// Digest of the rules under which it applies.
    #[schema(value_type = String)]
    policy: Digest,
    /// Its bounds.
    terms: TermsView<'a>,
    /// Approvers.
    votes: Vec<VoteView<'a>>,
    #[schema(value_type = String, format = DateTime)]
    given_at: Timestamp,
    /// `standing` if calls can use it, else the reason: `used_up`, `expired`, `revoked`, or
    /// `withdrawn` if a key that gave it was revoked.
    state: &'static str,
    /// Number of calls that have used it.
    used: u32,
    #[schema(value_type = Option<String>, format = DateTime)]
    revoked_at: Option<Timestamp>,
    #[schema(value_type = Option<String>)]
    revoked_by: Option<KeyId>,
}

/// The bounds of an approval.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Terms)]
pub(crate) struct TermsView<'a> {
    /// Scope: `once`, `session` or `rule`.
    scope: &'static str,
    /// Digest of the arguments, if it is for exactly those.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    args: Option<Digest>,
    /// Conditions on the arguments otherwise.
    #[serde(skip_serializing_if = "Option::is_none", rename = "where")]
    #[schema(value_type = Option<Vec<Object>>)]
    conditions: Option<&'a Predicate>,
    /// The session, if it is for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    session_id: Option<&'a SessionId>,
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
    /// Number of calls.
    uses: u32,
    /// The bounds as a sentence.
    summary: String,
}

/// Vote of one person.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Vote)]
pub(crate) struct VoteView<'a> {
    /// The key of the person.
    #[schema(value_type = String)]
    by: KeyId,
    /// Label of that key.
    label: &'a str,
    /// The person, if the key names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    person: Option<&'a PersonId>,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

/// Page of approvals, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ApprovalList)]
pub(crate) struct ApprovalListView<'a> {
    pub(crate) approvals: Vec<ApprovalView<'a>>,
    /// Cursor of the next page; none at the end.
    pub(crate) next_cursor: Option<String>,
}

impl<'a> ApprovalView<'a> {
    pub(crate) fn of(standing: &'a Standing, now: Timestamp) -> Self {
        let approval = &standing.approval;
        Self {
            id: approval.id,
            call: approval.call,
            tool: approval.tool.name.as_str(),
            version: &approval.tool.version,
            digest: approval.tool.digest,
            key: approval.key,
            persona_id: approval.persona.as_ref(),
            policy: approval.policy,
            terms: TermsView::of(&approval.terms),
            votes: votes(&approval.votes),
            given_at: approval.given_at,
            state: state(standing, now),
            used: standing.used,
            revoked_at: standing.revoked_at,
            revoked_by: standing.revoked_by,
        }
    }
}

/// State of an approval; acts of people take precedence over time and use.
fn state(standing: &Standing, now: Timestamp) -> &'static str {
    let terms = &standing.approval.terms;
    match standing {
        Standing { revoked_at: Some(_), .. } => "revoked",
        Standing { is_withdrawn: true, .. } => "withdrawn",
        _ if now >= terms.expires_at => "expired",
        _ if standing.used >= terms.uses => "used_up",
        _ => "standing",
    }
}

impl<'a> TermsView<'a> {
    pub(crate) fn of(terms: &'a Terms) -> Self {
        let (args, conditions) = match &terms.args {
            Arguments::Exactly(digest) => (Some(*digest), None),
            Arguments::Where(predicate) => (None, Some(predicate)),
        };
        let session_id = match &terms.reach {
            Reach::Session(session) => Some(session),
            Reach::Once(_) | Reach::Rule => None,
        };
        Self {
            scope: terms.reach.name(),
            args,
            conditions,
            session_id,
            expires_at: terms.expires_at,
            uses: terms.uses,
            summary: summary(terms),
        }
    }
}

fn summary(terms: &Terms) -> String {
    let Terms { args, reach, expires_at, uses } = terms;
    match reach {
        Reach::Once(_) => format!("this call, with {args}, until {expires_at}"),
        Reach::Session(session) => {
            format!("{uses} calls of session {session}, with {args}, until {expires_at}")
        }
        Reach::Rule => format!("{uses} calls, with {args}, until {expires_at}"),
    }
}

pub(crate) fn votes(votes: &[Vote]) -> Vec<VoteView<'_>> {
    votes.iter().map(VoteView::of).collect()
}

impl<'a> VoteView<'a> {
    fn of(vote: &'a Vote) -> Self {
        Self {
            by: vote.by,
            label: &vote.label,
            person: vote.person.as_ref(),
            at: vote.at,
            reason: vote.reason.as_deref(),
        }
    }
}
