//! Sandbox types for doors: plain data, and handles that run nothing without a permit.

pub use ringfence_sandbox::{Chunk, Language, Output};

/// Archives of a workspace.
pub mod archive {
    pub use ringfence_sandbox::archive::{PackOptions, Packed};
}

/// Files of a workspace.
pub mod files {
    pub use ringfence_sandbox::files::{BoxPath, Entry, Event, EventKind, Kind, ListOptions};
}

/// Session sandboxes.
pub mod session {
    pub use ringfence_sandbox::session::{
        Error, Interpreter, Metrics, ProcessEnd, ProcessUsage, Session, SessionId, SessionInfo,
        Size, State, Watcher,
    };

    /// Interpreters that keep their state.
    pub mod interpreter {
        pub use ringfence_sandbox::session::interpreter::{
            Collected, Completions, Event, Execution, Raised, Rich, Status, Variable,
        };
    }
}
