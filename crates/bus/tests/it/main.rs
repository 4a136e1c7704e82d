//! The embedded queue keeps the contract, survives `kill -9`, and remembers across restarts.

#[cfg(test)]
mod contract;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod restart;
#[cfg(test)]
mod support;
