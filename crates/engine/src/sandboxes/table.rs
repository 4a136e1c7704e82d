//! The programs and interpreters of one sandbox, by number.
//!
//! A sandbox keeps its programs only while they run. The results of ended programs stay here,
//! within bounds, until the sandbox ends.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock},
};

use ringfence_sandbox::session::{Interpreter, Process};
use ringfence_types::{CallId, ReceiptDetails, Timestamp};

use super::{KEPT_OUTPUT, lock};
use crate::{
    network::{NetworkGrant, ServedProxy},
    sdk::{SdkCaller, ServedSdk, ToolGrant},
};

/// Programs that have ended and are kept, and bytes of their output.
const MAX_ENDED: usize = 64;
const MAX_ENDED_BYTES: u64 = 16 << 20;

/// The table of one sandbox.
#[derive(Debug, Default)]
pub(crate) struct SandboxTable {
    programs: Mutex<BTreeMap<u32, Program>>,
    interpreters: Mutex<Interpreters>,
    network: OnceLock<TableNetwork>,
    sdk: OnceLock<ServedSdk>,
}

/// Network access of a sandbox.
#[derive(Debug)]
struct TableNetwork {
    grant: NetworkGrant,
    proxy: ServedProxy,
}

#[derive(Debug, Default)]
struct Interpreters {
    last: u32,
    all: BTreeMap<u32, Interpreter>,
}

/// A program of a sandbox and its request.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program itself.
    pub process: Process,
    /// The call that started it.
    pub call: CallId,
    /// Program and arguments.
    pub argv: Arc<[String]>,
    /// Start time.
    pub started_at: Timestamp,
    /// Whether it has a terminal.
    pub has_terminal: bool,
    /// Whether it reads input that clients send later.
    pub is_open: bool,
}

impl SandboxTable {
    /// Keeps the proxy of the sandbox for as long as the sandbox lives.
    pub(crate) fn set_network(&self, grant: NetworkGrant, proxy: ServedProxy) {
        // A sandbox gets its network once, when it is made.
        let _ = self.network.set(TableNetwork { grant, proxy });
    }

    /// Hosts granted to the sandbox.
    pub(crate) fn network_grant(&self) -> Option<NetworkGrant> {
        self.network.get().map(|network| network.grant.clone())
    }

    /// Keeps the SDK of the sandbox for as long as the sandbox lives.
    pub(crate) fn set_sdk(&self, sdk: ServedSdk) {
        let _ = self.sdk.set(sdk);
    }

    /// Tools granted to the sandbox.
    pub(crate) fn tool_grant(&self) -> Option<ToolGrant> {
        self.sdk.get().map(|sdk| sdk.grant().clone())
    }

    /// Lets programs of the sandbox speak for a call; none if no tools were granted.
    pub(crate) fn speak_for(&self, call: CallId) -> Option<SdkCaller> {
        self.sdk.get().map(|sdk| sdk.speak_for(call))
    }

    /// Hosts, tools and network exchanges for the receipt of a call in this sandbox: the exchanges since the
    /// last such call. Programs share the network, so those of one that runs at the same time are among
    /// them.
    pub(crate) fn access_details(&self) -> ReceiptDetails {
        let network = self.network.get();
        let tools = self.sdk.get().map(|sdk| sdk.grant().names().to_vec());
        ReceiptDetails {
            network: network.map(|network| network.grant.hosts.clone()).unwrap_or_default(),
            egress: network.map(|network| network.proxy.flows.take()).unwrap_or_default(),
            tools: tools.unwrap_or_default(),
            ..ReceiptDetails::default()
        }
    }

    /// Adds a program, and removes the oldest ended ones beyond the bounds.
    pub(crate) fn add(&self, program: Program) {
        let mut programs = lock(&self.programs);
        programs.insert(program.process.id(), program);
        let ended: Vec<(u32, u64)> = programs
            .iter()
            .filter(|(_, program)| program.process.try_wait().is_some())
            .map(|(id, program)| (*id, program.bytes()))
            .collect();
        let mut bytes: u64 = ended.iter().map(|(_, bytes)| bytes).sum();
        let mut left = ended.len();
        for (id, of_it) in ended {
            if left <= MAX_ENDED && bytes <= MAX_ENDED_BYTES {
                break;
            }
            programs.remove(&id);
            (left, bytes) = (left - 1, bytes - of_it);
        }
    }

    /// The program that a call started.
    pub(crate) fn program_of(&self, call: CallId) -> Option<Program> {
        lock(&self.programs).values().find(|program| program.call == call).cloned()
    }

    pub(super) fn program(&self, number: u32) -> Option<Program> {
        lock(&self.programs).get(&number).cloned()
    }

    /// All programs, oldest first.
    pub(super) fn programs(&self) -> Vec<Program> {
        lock(&self.programs).values().cloned().collect()
    }

    pub(super) fn remove_program(&self, number: u32) {
        lock(&self.programs).remove(&number);
    }

    /// Adds an interpreter under a new number.
    pub(crate) fn add_interpreter(&self, interpreter: Interpreter) -> u32 {
        let mut interpreters = lock(&self.interpreters);
        interpreters.last += 1;
        let number = interpreters.last;
        interpreters.all.insert(number, interpreter);
        number
    }

    pub(crate) fn interpreter(&self, number: u32) -> Option<Interpreter> {
        lock(&self.interpreters).all.get(&number).cloned()
    }

    pub(super) fn interpreters(&self) -> Vec<(u32, Interpreter)> {
        let interpreters = lock(&self.interpreters);
        interpreters.all.iter().map(|(number, one)| (*number, one.clone())).collect()
    }

    pub(super) fn remove_interpreter(&self, number: u32) -> Option<Interpreter> {
        lock(&self.interpreters).all.remove(&number)
    }
}

impl Program {
    /// Bytes of its stored output.
    fn bytes(&self) -> u64 {
        let held = |total: u64| total.min(KEPT_OUTPUT.0);
        held(self.process.stdout().total()) + held(self.process.stderr().total())
    }
}
