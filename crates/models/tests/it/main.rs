//! Models against a reference, and the library of weights.

mod golden;
mod library;
mod support;
