//! The binary as a person or a program uses it: real sandboxes, real files, real exit codes.

mod apart;
mod documents;
mod exit_codes;
mod files;
mod inputs;
mod json;
mod limits;
mod models;
mod networks;
mod others;
mod programs;
mod rootless;
mod streams;
mod support;
mod terminals;
mod traps;
