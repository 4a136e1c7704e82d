//! Domain data of Ringfence: plain values and their pure rules.
//!
//! Nothing here does I/O, reads a clock or starts a task; everything above may depend on it.

mod limits;
mod outcome;
mod size;

pub use limits::{Cpus, InvalidLimits, Limits, LimitsProblem};
pub use outcome::{
    Absent, Evidence, Hit, Isolation, Layer, LayerState, Layers, Limit, Outcome, Truncated, Usage,
};
pub use size::{Bytes, InvalidQuantity, parse_duration};
