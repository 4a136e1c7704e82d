//! What makes a record evidence.
//!
//! An entry is a statement of in-toto in an envelope of DSSE, signed with Ed25519 ([`Entry`],
//! [`Signer`], [`Envelope`]). Entries are the leaves of a tree that only grows ([`merkle`]); a signed
//! [`Checkpoint`] commits to all of them; keys follow one another in entries of their own
//! ([`Chain`]). Whoever has a checkpoint can be shown that an entry is under it, and that a later
//! checkpoint took nothing away.
//!
//! Everything here is a function of its arguments: no file, no clock, no task. Formats are those of
//! others, so that others can check us: RFC 6962 for hashes, C2SP `tlog-tiles`, `tlog-checkpoint`
//! and `signed-note`, in-toto attestation v1, DSSE v1.
//!
//! The end of a call is kept without a signature of its own ([`Signer::prepare_step`]): the checkpoint of
//! its commit vouches for it. Only what is under one is signed, when a proof is asked for.
//!
//! Invariant: every structure has one byte form. What is read is written again and compared, so no
//! byte of what was verified can be changed without notice.

mod absent;
mod authority;
mod bundle;
mod chain;
mod checkpoint;
mod encoding;
mod entry;
mod envelope;
mod flaw;
mod given_again;
mod growth;
mod key;
mod log;
pub mod merkle;
mod note;
mod proved;
mod signer;
mod statement;

pub use self::{
    absent::Absent,
    authority::{ApprovalClaim, Authority, KeyClaim, approval_used_by},
    bundle::{Artifact, Bundle, Ground, Item, Manifest, Selection, Shown, Verified},
    chain::Chain,
    checkpoint::Checkpoint,
    entry::{Entry, KeyChange, LedgerKey, Maintenance, ToolChange, ToolEvent, said_in},
    envelope::{Envelope, MOST as MOST_ENVELOPE, leaf as entry_leaf},
    flaw::{Flaw, Place, Problem},
    growth::{Grown, Growth, signed_checkpoint},
    key::{InvalidKey, PublicKey, SigningKey},
    log::{Audited, LogCheck, Row},
    note::Note,
    proved::Proved,
    signer::{Own, Signer, TooLarge},
    statement::{Statement, Subject, kind_of, predicate_type},
};
