//! How the process's memory goes back to the host.

/// Blocks of this size and above are mapped each on its own, and unmapped when they are freed.
const OWN_MAPPING: i32 = 256 << 10;

/// From now on large blocks go back to the host as soon as they are freed.
///
/// The C library raises the size from which it does so to that of the largest block that was ever
/// freed, up to 32 MiB; from then on such blocks come from its heaps and stay there. After a few
/// programs with much output a server would hold hundreds of megabytes that nobody uses.
pub fn return_large_blocks() {
    #[cfg(target_env = "gnu")]
    // SAFETY: `mallopt` takes two numbers and changes how later blocks are allocated, none that exist.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_MAPPING);
    }
}
