//! Facts about calls, in the order in which they became true.

use serde::{Deserialize, Serialize};

use crate::{CallId, Json, Timestamp};

/// One fact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// What kind, for example `call.finished`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The call it is about.
    pub call: CallId,
    /// When.
    pub at: Timestamp,
    /// What else there is to know.
    pub data: Json,
}
