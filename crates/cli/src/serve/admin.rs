//! The first admin key: made on the first start, shown once, stored in the data directory.

use std::path::Path;

use ringfence_access::{Access, NewKey, Secret};

use super::data;
use crate::failure::Failure;

/// Makes it if no key can create others.
pub(super) async fn ensure(access: &Access, dir: &Path) -> Result<Option<NewKey>, Failure> {
    let path = dir.join("admin.key");
    let keep = |secret: &Secret| data::write(&path, &format!("{}\n", secret.reveal())).map(drop);
    let made = access.ensure_admin_key(keep).await;
    made.map_err(|error| {
        let failure = Failure::because("cannot make the first key", &error);
        failure.hint(format!("it is kept in `{}`, which must be writable", path.display()))
    })
}
