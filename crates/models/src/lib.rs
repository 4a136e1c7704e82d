//! Small models that run inside the server, without Python and without a GPU.
//!
//! - [`Library`]: the folder of weights. A model is trusted by the digests of its files; where they
//!   came from does not matter.
//! - [`Encoder`]: sentence vectors of BERT models such as all-MiniLM-L6-v2.
//! - [`Embedder`]: the same on threads of its own, with a bounded queue and batches.
//! - [`Analyser`]: intent, slots, safety tags and sentiment of a message.
//!
//! Invariant: weights are used only after their digests were checked, and a missing model is an error
//! by name, never a made-up vector.

mod analysis;
mod catalogue;
mod embedder;
mod encoder;
mod error;
pub mod index;
mod intents;
mod library;
mod slots;
mod sources;
mod tokenizer;
mod weights;

pub use self::{
    analysis::{Analyser, Analysis, rules},
    catalogue::{DEFAULT_MODEL, Model, ModelFile, Package, find, known},
    embedder::{Embedder, EmbedderConfig, Embedding},
    encoder::{Encoder, normalise},
    error::Error,
    intents::{Intent, IntentHead},
    library::{Installed, Library, State},
    slots::{Slot, slots},
    sources::Files,
    tokenizer::Tokenizer,
};
