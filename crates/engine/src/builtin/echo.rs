//! `echo`: says what it was told.

use serde_json::{Value, json};

use super::{Given, text};

pub(super) fn run(args: &Value) -> Given {
    Ok(json!({"message": text(args, "text")}))
}
