//! Limits of the REST door, chosen by the operator.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Limits of the REST door.
#[derive(Debug, Clone, Default)]
pub struct ApiConfig {
    /// Whether `/metrics` needs no key.
    pub open_metrics: bool,
    /// The settings of the server as `GET /v1/config` shows them.
    pub settings: Vec<Setting>,
}

/// One setting of the server for display; secrets are masked already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Setting {
    /// Its name in the settings file.
    pub name: String,
    /// Value; a list for several, null without one.
    #[schema(value_type = Object)]
    pub value: serde_json::Value,
    /// Source of the value: `default`, a file, a variable or a flag.
    pub source: String,
    /// The environment variable that sets it, if there is one.
    pub variable: Option<String>,
    /// Its meaning.
    pub about: Option<String>,
}
