//! Findings of a verification: a place and a problem.

use std::fmt;

use ringfence_types::Digest;

use crate::merkle::Mismatch;

/// A difference from what was signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct Flaw {
    /// The place.
    pub place: Place,
    /// The problem.
    pub problem: Problem,
}

/// Place of a problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The entry with this index.
    Entry(u64),
    /// One of the entries from the first to the last of these.
    Entries(u64, u64),
    /// The checkpoint over that many entries.
    Checkpoint(u64),
    /// A tile of hashes, by its path.
    Tile(String),
    /// An artifact of an entry.
    Artifact(Digest),
    /// The signed list of a bundle's content.
    Manifest,
    /// The file itself.
    File,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry(index) => write!(f, "entry {index}"),
            Self::Entries(first, last) => write!(f, "entries {first} to {last}"),
            Self::Checkpoint(size) => write!(f, "checkpoint over {size} entries"),
            Self::Tile(path) => write!(f, "{path}"),
            Self::Artifact(digest) => write!(f, "artifact {digest}"),
            Self::Manifest => f.write_str("manifest"),
            Self::File => f.write_str("file"),
        }
    }
}

/// Problem that was found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It cannot be parsed.
    #[error("not in the form that was written")]
    Form,
    /// It is not a file of Ringfence.
    #[error("not a file that `ringfence export` wrote")]
    NotOurs,
    /// The file is truncated.
    #[error("cut off after {0} bytes: the rest is missing")]
    Cut(usize),
    /// The content is as signed, but its JSON layout was changed.
    #[error(
        "reformatted: everything in it is as it was signed, but not the text around it; \
         verify the file as it was exported"
    )]
    Reformatted,
    /// It is not a known kind of statement.
    #[error("not a statement of this log")]
    Statement,
    /// The key that it names was not in force.
    #[error("signed by {found}, while {expected} was in force")]
    Key {
        /// The key in force.
        expected: Digest,
        /// The key it names.
        found: Digest,
    },
    /// The signature is not by the key.
    #[error("the signature is not by the key that it names")]
    Signature,
    /// The required signature is missing.
    #[error("it has no signature")]
    Unsigned,
    /// The stored leaf hash differs from that of the entry.
    #[error("its hash is not the one on record")]
    Leaf,
    /// The columns beside the statement differ from the statement.
    #[error("the columns beside it differ from its text")]
    Index,
    /// The same entry occurs before it.
    #[error("the same entry occurs before it")]
    Repeated,
    /// The entry is missing.
    #[error("missing; entry {found} follows")]
    Missing {
        /// The entry that was found instead.
        found: u64,
    },
    /// The log ends before it.
    #[error("missing; there are only {size} entries")]
    Truncated {
        /// Number of entries.
        size: u64,
    },
    /// The entries differ from those under the checkpoint.
    #[error("not those under the checkpoint over {size} entries")]
    Root {
        /// Size of the checkpoint.
        size: u64,
    },
    /// The inclusion proof does not hold.
    #[error("not under the checkpoint: {0}")]
    Inclusion(Mismatch),
    /// The signed list names something else in its place.
    #[error("not what the signed list names in its place")]
    Unlisted,
    /// The signed list names it, and it is missing.
    #[error("missing: the signed list names it, and it is not in the file")]
    LeftOut,
    /// It is out of order.
    #[error("not in order")]
    Order,
    /// It is outside the bundle's selection.
    #[error("concerns something else")]
    Foreign,
    /// It reuses the result of an earlier call, whose entry is missing or differs.
    #[error("its result should be that of entry {0}, which is missing or differs")]
    Original(u64),
    /// A stored artifact is missing or differs from the receipt.
    #[error("the stored {0} differs from the receipt")]
    Kept(&'static str),
    /// The bytes have another digest.
    #[error("the bytes have another digest")]
    Bytes,
    /// The log has another name.
    #[error("of the log `{found}`, not `{expected}`")]
    Origin {
        /// The name of this log.
        expected: String,
        /// The name it gives.
        found: String,
    },
    /// It was not signed by the pinned key.
    #[error("not signed by {0}")]
    Unpinned(Digest),
}

impl Place {
    pub(crate) fn is(self, problem: Problem) -> Flaw {
        Flaw { place: self, problem }
    }
}
