//! Builds `ringfence-preload`, the library that a zygote loads, so that it can be embedded and
//! users get one file. Cargo cannot depend on another package's shared library yet, hence the inner
//! build; it has its own target directory, shared by all profiles.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

fn main() {
    let manifest = PathBuf::from(var("CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(var("OUT_DIR"));
    for source in ["../preload", "../jail", "../../Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", manifest.join(source).display());
    }
    let target = target_dir(&out).join("preload");
    build(&manifest, &target);
    let library = target.join("release/libringfence_preload.so");
    let embedded = out.join("preload.so");
    std::fs::copy(&library, &embedded).expect("the inner build leaves its library in `release`");
    list_drivers(&manifest.join("drivers"), &out.join("drivers.rs"));
}

/// Writes the table of driver files from the directory listing.
fn list_drivers(drivers: &Path, table: &Path) {
    println!("cargo::rerun-if-changed={}", drivers.display());
    let mut paths: Vec<_> = std::fs::read_dir(drivers)
        .expect("the drivers are beside this script")
        .map(|entry| entry.expect("readable directory").path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "py" || kind == "js"))
        .collect();
    paths.sort();
    let rows: String = paths
        .iter()
        .map(|path| {
            let name = path.file_name().expect("a listed file has a name").to_string_lossy();
            format!("OwnFile {{ name: {name:?}, content: include_bytes!({path:?}) }},\n")
        })
        .collect();
    std::fs::write(table, format!("&[\n{rows}]\n")).expect("OUT_DIR is writable");
}

#[expect(clippy::disallowed_methods, reason = "a build script has no other way to run cargo")]
fn build(manifest: &Path, target: &Path) {
    let mut cargo = Command::new(var("CARGO"));
    cargo
        .args(["build", "--release", "--quiet", "--package", "ringfence-preload"])
        .arg("--manifest-path")
        .arg(manifest.join("../../Cargo.toml"))
        .arg("--target-dir")
        .arg(target);
    // Every template holds a copy of it in memory, so symbols are stripped.
    cargo.env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    // Settings of the outer build (clippy's wrapper, coverage flags) do not apply here.
    for name in ["RUSTC_WORKSPACE_WRAPPER", "RUSTC_WRAPPER", "CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS"]
    {
        cargo.env_remove(name);
    }
    let status = cargo.status().expect("cargo runs, for it is running us");
    assert!(status.success(), "building ringfence-preload failed: {status}");
}

/// The workspace's target directory: the ancestor of `OUT_DIR` that cargo made.
fn target_dir(out: &Path) -> PathBuf {
    let marked = out.ancestors().find(|dir| dir.join("CACHEDIR.TAG").exists());
    marked.unwrap_or(out).to_path_buf()
}

#[expect(clippy::disallowed_methods, reason = "cargo passes its settings to build scripts so")]
fn var(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}
