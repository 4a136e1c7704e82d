//! Files in, files out, archives and images, against the real kernel and hostile content.
//!
//! The numbers F01 to F33 are those of the project's list of hostile cases. Every refusal has a
//! control beside it: the same thing, done naively or without the attack, succeeds.

mod archives;
mod bombs;
mod fuzz;
mod images;
mod paths;
mod support;
mod trees;
mod watches;
mod workspace;
mod zips;
