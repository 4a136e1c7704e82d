//! Builds `ringfence-preload`, the library that a zygote loads, and `ringfence-container-init`, the
//! first process of a container, so that they can be embedded and users get one file. Cargo cannot
//! depend on another package's shared library or program yet, hence the inner builds; each has its own
//! target directory, shared by all profiles.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

fn main() {
    let manifest = PathBuf::from(var("CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(var("OUT_DIR"));
    for source in ["../preload", "../container-init", "../jail", "../../Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", manifest.join(source).display());
    }
    let target = target_dir(&out).join("preload");
    build(&manifest, &target, "ringfence-preload", &[]);
    let library = target.join("release/libringfence_preload.so");
    let embedded = out.join("preload.so");
    std::fs::copy(&library, &embedded).expect("the inner build leaves its library in `release`");
    build_container_init(&manifest, &out);
    list_drivers(&manifest.join("drivers"), &out.join("drivers.rs"));
}

/// Builds the first process of containers. It is linked statically, because an image may have any C
/// library or none; the target is named so that build scripts are not.
fn build_container_init(manifest: &Path, out: &Path) {
    let (target, triple) = (target_dir(out).join("container-init"), var("TARGET"));
    let flags = [("RUSTFLAGS", "-Ctarget-feature=+crt-static"), ("CARGO_BUILD_TARGET", &triple)];
    build(manifest, &target, "ringfence-container-init", &flags);
    let program = target.join(triple).join("release/ringfence-container-init");
    let copied = std::fs::copy(program, out.join("container-init"));
    copied.expect("the inner build leaves its program in `release`");
}

/// Writes the table of driver files from the directory listing.
fn list_drivers(drivers: &Path, table: &Path) {
    println!("cargo::rerun-if-changed={}", drivers.display());
    let rows = [("", drivers.to_path_buf()), ("sdk/", drivers.join("sdk"))];
    let rows: String = rows.iter().map(|(prefix, folder)| rows_of(prefix, folder)).collect();
    std::fs::write(table, format!("&[\n{rows}]\n")).expect("OUT_DIR is writable");
}

/// Rows of one folder, whose files get names with this prefix.
fn rows_of(prefix: &str, folder: &Path) -> String {
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .expect("the drivers are beside this script")
        .map(|entry| entry.expect("readable directory").path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "py" || kind == "js"))
        .collect();
    paths.sort();
    let row = |path: &PathBuf| {
        let name = path.file_name().expect("a listed file has a name").to_string_lossy();
        let name = format!("{prefix}{name}");
        format!("OwnFile {{ name: {name:?}, content: include_bytes!({path:?}) }},\n")
    };
    paths.iter().map(row).collect()
}

#[expect(clippy::disallowed_methods, reason = "a build script has no other way to run cargo")]
fn build(manifest: &Path, target: &Path, package: &str, settings: &[(&str, &str)]) {
    let mut cargo = Command::new(var("CARGO"));
    cargo
        .args(["build", "--release", "--quiet", "--package", package])
        .arg("--manifest-path")
        .arg(manifest.join("../../Cargo.toml"))
        .arg("--target-dir")
        .arg(target);
    // Every template holds a copy of the library in memory, so symbols are stripped.
    cargo.env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    // Settings of the outer build (clippy's wrapper, coverage flags) do not apply here.
    for name in ["RUSTC_WORKSPACE_WRAPPER", "RUSTC_WRAPPER", "CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS"]
    {
        cargo.env_remove(name);
    }
    cargo.envs(settings.iter().copied());
    let status = cargo.status().expect("cargo runs, for it is running us");
    assert!(status.success(), "building {package} failed: {status}");
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
