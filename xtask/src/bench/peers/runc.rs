//! runc with the host's trees bound read-only, and the limits of a sandbox.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::{PROGRAMS, host_trees, provide};
use crate::{host, shell};

/// Bundle for each program, and the commands that run them.
pub(super) fn commands(scratch: &Path) -> Result<Vec<Value>> {
    if !host::is_root() {
        bail!("runc with limits needs root here");
    }
    let runc = provide("runc", "runc")?;
    let root = scratch.join("runc");
    let mut commands = Vec::new();
    for (name, program) in PROGRAMS {
        let bundle = root.join(name);
        make_bundle(&runc, &bundle, program)
            .with_context(|| format!("make a bundle in `{}`", bundle.display()))?;
        let state = root.join("state").display().to_string();
        let bundle = bundle.display().to_string();
        let argv = json!([
            runc.display().to_string(),
            "--root",
            state,
            "run",
            "--bundle",
            bundle,
            "rf-{id}"
        ]);
        commands.push(json!({"name": format!("runc {name}"), "argv": argv}));
    }
    Ok(commands)
}

fn make_bundle(runc: &Path, bundle: &Path, program: &[&str]) -> Result<()> {
    let rootfs = bundle.join("rootfs");
    for directory in ["usr", "proc", "dev", "sys", "tmp", "workspace"] {
        fs::create_dir_all(rootfs.join(directory))?;
    }
    let (links, directories) = host_trees();
    for (path, target) in &links {
        symlink(target, rootfs.join(path.trim_start_matches('/')))?;
    }
    for path in &directories {
        fs::create_dir_all(rootfs.join(path.trim_start_matches('/')))?;
    }
    shell::run(shell::command(runc).arg("spec").current_dir(bundle))?;
    let file = bundle.join("config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&file)?)?;
    let binds = std::iter::once("/usr").chain(directories);
    adapt(&mut config, program, binds);
    Ok(fs::write(&file, config.to_string())?)
}

/// Generated configuration with the program, the trees and the limits.
fn adapt<'a>(config: &mut Value, program: &[&str], binds: impl Iterator<Item = &'a str>) {
    config["process"]["terminal"] = json!(false);
    config["process"]["args"] = json!(program);
    config["process"]["cwd"] = json!("/workspace");
    config["root"]["readonly"] = json!(true);
    config["linux"]["resources"]["memory"] = json!({"limit": 512 << 20});
    config["linux"]["resources"]["pids"] = json!({"limit": 64});
    let Some(mounts) = config["mounts"].as_array_mut() else { return };
    for path in binds {
        mounts.push(json!({
            "destination": path, "source": path, "type": "none",
            "options": ["rbind", "ro", "nosuid", "nodev"],
        }));
    }
    for path in ["/tmp", "/workspace"] {
        mounts.push(json!({
            "destination": path, "source": "tmpfs", "type": "tmpfs",
            "options": ["nosuid", "nodev", "size=67108864"],
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generated_configuration_keeps_what_we_do_not_change() {
        let mut config = json!({
            "process": {"terminal": true, "args": ["sh"], "noNewPrivileges": true},
            "root": {"path": "rootfs"}, "mounts": [], "linux": {"resources": {}},
        });
        adapt(&mut config, &["/bin/true"], ["/usr"].into_iter());
        assert_eq!(config["process"]["noNewPrivileges"], json!(true));
        assert_eq!(config["process"]["args"], json!(["/bin/true"]));
        assert_eq!(config["mounts"].as_array().map(Vec::len), Some(3));
    }
}
