//! A small log with everything in it, and what becomes of it when anything is changed.

#[cfg(test)]
mod bundles;
#[cfg(test)]
mod entries;
#[cfg(test)]
mod growth;
#[cfg(test)]
mod late;
#[cfg(test)]
mod logs;
#[cfg(test)]
mod samples;
