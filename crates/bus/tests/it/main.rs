//! Both backends keep the contract; the embedded queue survives `kill -9` and remembers across restarts.

#[cfg(test)]
mod contract;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod kafka;
#[cfg(test)]
mod restart;
#[cfg(test)]
mod support;
