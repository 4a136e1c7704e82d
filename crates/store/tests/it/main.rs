//! Both backends keep the contract. SQLite survives `kill -9` and refuses cleanly when full; PostgreSQL
//! survives broken lines, crashes and stalled processes.

#[cfg(test)]
mod contract;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod crash_artifacts;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod full;
#[cfg(test)]
mod limit;
#[cfg(test)]
mod postgres;
#[cfg(test)]
mod support;
