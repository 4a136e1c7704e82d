//! The first key: made on the first start, shown once, kept for its owner beside the data.

use std::path::Path;

use ringfence_api::keys::{self, NewKey};

use super::{data, parts::Opened};
use crate::failure::Failure;

/// Makes it if no key can make others.
pub(super) async fn ensure(opened: &Opened, dir: &Path) -> Result<Option<NewKey>, Failure> {
    let made = keys::ensure_admin_key(&opened.engine).await;
    let made = made.map_err(|error| Failure::because("cannot make the first key", &error))?;
    if let Some(new) = &made {
        let path = dir.join("admin.key");
        data::write(&path, &format!("{}\n", new.secret.reveal())).map_err(|error| {
            Failure::because(format!("cannot write `{}`", path.display()), &error)
        })?;
    }
    Ok(made)
}
