//! The shared database: group commit, isolation of failures, opening, closing.

#[cfg(test)]
mod commits;
#[cfg(test)]
mod files;
#[cfg(test)]
mod hook;
#[cfg(test)]
mod lanes;
#[cfg(test)]
mod opening;
#[cfg(test)]
mod support;
