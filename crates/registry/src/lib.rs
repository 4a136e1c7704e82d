//! Registry of tools: skill folders, uploads, built-ins and definitions kept in the store, with their
//! schemas, digests and problems.
//!
//! Nothing here runs a tool or evaluates its code. A skill is a handful of files; this crate reads
//! them once, names everything that is wrong with them, and hands out snapshots.
//!
//! Invariants:
//! - a [`Catalogue`] never changes; a change is a new catalogue;
//! - the contents of [`Runs`] are exactly the bytes that the digest was made of;
//! - a broken skill is listed with its problems and affects no other skill;
//! - whatever a skill contains, reading it ends soon and within fixed memory.

mod archive;
mod author;
mod catalogue;
mod config;
mod definition;
mod directory;
pub mod document;
mod entry;
mod files;
mod folder;
mod http_tool;
mod manifest;
mod openapi;
mod registry;
mod scan;
mod schema;
mod search;
mod skill;
mod standing;
mod text;
mod upload;
mod version;
mod watch;

pub use self::{
    archive::Refused,
    author::SkillFolder,
    catalogue::{Broken, Catalogue},
    config::{Config, EmbeddedSkill, Error},
    definition::{Definition, DefinitionChange, Recipe, beyond, differences},
    directory::{
        DocumentKind, ListedDocument, MAX_INDEX_BYTES, fit_of, fitting, read_below, read_index,
    },
    entry::{Command, Entry, Kind, McpTool, Runs},
    files::Problem,
    http_tool::{
        BodyKind, CredentialPlace, HttpBody, HttpCredential, HttpOperation, HttpParameter,
        HttpRequest, HttpTool, ParameterPlace, ParameterStyle,
    },
    manifest::Manifest,
    openapi::{OpenapiImport, OpenapiOptions, SkippedOperation},
    registry::Registry,
    schema::{Schema, Violation},
    search::ranked,
    skill::{Example, Guide, REQUIREMENT},
    standing::{DefinedTool, Inactive, Standing},
    upload::{CopiedUpload, RegisterError, RemoveError, Upload},
};
