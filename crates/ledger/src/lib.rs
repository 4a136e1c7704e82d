//! Transparency log: entries, signatures, checkpoints and proofs.
//!
//! An entry is an in-toto statement in a DSSE envelope, signed with Ed25519 ([`Entry`], [`Signer`],
//! [`Envelope`]). Entries are the leaves of a tree that only grows ([`merkle`]); a signed
//! [`Checkpoint`] commits to all of them; keys follow one another in entries of their own
//! ([`Chain`]). A holder of a checkpoint can verify that an entry is under it, and that a later
//! checkpoint removed nothing.
//!
//! Everything here is a function of its arguments: no file, no clock, no task. All formats are
//! public standards, so that other tools can verify them: RFC 6962 for hashes, C2SP `tlog-tiles`,
//! `tlog-checkpoint` and `signed-note`, in-toto attestation v1, DSSE v1.
//!
//! The end of a call is stored without a signature of its own ([`Signer::prepare_step`]): the
//! checkpoint of its commit vouches for it. It is signed when a proof is asked for, and only under
//! a checkpoint.
//!
//! Invariant: every structure has one byte form. Parsed input is rendered again and compared, so no
//! verified byte can be changed unnoticed.

mod authority;
mod bundle;
mod chain;
mod checkpoint;
mod encoding;
mod entry;
mod envelope;
mod flaw;
mod growth;
mod inclusion;
mod key;
mod log;
mod memo_source;
pub mod merkle;
mod missing_artifacts;
mod note;
mod signer;
mod statement;

pub use self::{
    authority::{ApprovalClaim, Authority, KeyClaim, approval_used_by},
    bundle::{Artifact, Bundle, Ground, Item, Manifest, Selection, Shown, Verified},
    chain::Chain,
    checkpoint::Checkpoint,
    entry::{
        Entry, Erasure, KeyChange, LedgerKey, Maintenance, SecretChange, ToolChange, ToolEvent,
        ToolTransition, said_in,
    },
    envelope::{Envelope, MAX_ENVELOPE_BYTES, leaf as entry_leaf},
    flaw::{Flaw, Place, Problem},
    growth::{Grown, Growth, signed_checkpoint},
    inclusion::Proved,
    key::{InvalidKey, PublicKey, SigningKey},
    log::{Audited, LogCheck, Row},
    missing_artifacts::MissingArtifact,
    note::Note,
    signer::{OwnCheckpoint, Signer, TooLarge},
    statement::{Statement, Subject, kind_of, predicate_type},
};
