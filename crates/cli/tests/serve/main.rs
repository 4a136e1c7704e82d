//! A real server on a free port, used as people and programs use it, stopped and killed.

mod authors;
mod calls;
mod cancels;
mod circuits;
mod demo;
mod evidence;
mod fetches;
mod full;
mod gone;
mod heads;
mod holds;
mod hosts;
mod keys;
mod kills;
#[cfg(test)]
mod ledger;
mod lookups;
mod memos;
mod network;
mod observed;
mod past;
mod policy;
mod postgres;
mod reading;
mod redis;
mod remains;
mod rows;
mod sandboxes;
mod session_calls;
mod settings;
mod skills;
mod starts;
mod support;
mod tls;
mod usage;
mod wire;
