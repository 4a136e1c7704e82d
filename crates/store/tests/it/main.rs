//! The SQLite backend keeps the contract, survives `kill -9`, and refuses cleanly when full.

#[cfg(test)]
mod contract;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod full;
#[cfg(test)]
mod limit;
#[cfg(test)]
mod support;
