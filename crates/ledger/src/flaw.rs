//! What is wrong, and with which entry.

use std::fmt;

use ringfence_types::Digest;

use crate::merkle::Mismatch;

/// Something that is not as it was signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct Flaw {
    /// Where.
    pub place: Place,
    /// What.
    pub problem: Problem,
}

/// Where something is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The entry of this index.
    Entry(u64),
    /// One of the entries from the first to the last of these.
    Entries(u64, u64),
    /// The checkpoint over so many entries.
    Checkpoint(u64),
    /// A tile of hashes, by its path.
    Tile(String),
    /// Bytes that an entry refers to.
    Artifact(Digest),
    /// The statement that says what the bundle holds.
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

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It cannot be read at all.
    #[error("not in the form that was written")]
    Form,
    /// It is no file of ours, so nothing can be said of it.
    #[error("not a file that `ringfence export` wrote")]
    NotOurs,
    /// It ends before its end.
    #[error("cut off after {0} bytes: the rest is missing")]
    Cut(usize),
    /// It says what was signed, in other text than was written.
    #[error(
        "reformatted: everything in it is as it was signed, but not the text around it; \
         verify the file as it was exported"
    )]
    Reformatted,
    /// It is not a statement of a kind that we know.
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
    /// It has no signature, and must have one.
    #[error("it has no signature")]
    Unsigned,
    /// The leaf that was kept is not that of the entry.
    #[error("its hash is not the one on record")]
    Leaf,
    /// What is kept beside the statement is not what the statement says.
    #[error("what is kept beside it is not what it says")]
    Index,
    /// The same entry stands before it.
    #[error("the same entry stands before it")]
    Repeated,
    /// Another entry stands where this one should.
    #[error("missing; entry {found} follows")]
    Missing {
        /// The entry that was found instead.
        found: u64,
    },
    /// Entries end before it.
    #[error("missing; there are only {size} entries")]
    Truncated {
        /// How many there are.
        size: u64,
    },
    /// The entries are not those that were signed.
    #[error("not those under the checkpoint over {size} entries")]
    Root {
        /// Of the checkpoint.
        size: u64,
    },
    /// The proof of inclusion does not hold.
    #[error("not under the checkpoint: {0}")]
    Inclusion(Mismatch),
    /// The signed list does not name it in its place.
    #[error("not what the signed list names in its place")]
    Unlisted,
    /// The signed list names it, and it is not here.
    #[error("missing: the signed list names it, and it is not in the file")]
    LeftOut,
    /// Its place is not where it belongs.
    #[error("not in order")]
    Order,
    /// It concerns something else than the bundle is about.
    #[error("concerns something else")]
    Foreign,
    /// It has the result of an earlier call, whose entry is not in the bundle or says otherwise.
    #[error("its result is said to be that of entry {0}, which is not here or says otherwise")]
    Original(u64),
    /// What is kept of what it names is not there, or is something else.
    #[error("the {0} that is kept is not what it names")]
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
    /// It was not signed by the key that was asked for.
    #[error("not signed by {0}")]
    Unpinned(Digest),
}

impl Place {
    pub(crate) fn is(self, problem: Problem) -> Flaw {
        Flaw { place: self, problem }
    }
}
