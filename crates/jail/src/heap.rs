//! Return of the process's memory to the host.

/// Size from which a block has a mapping of its own, which is unmapped when the block is freed.
const OWN_MAPPING: i32 = 256 << 10;

/// Makes large blocks go back to the host as soon as they are freed.
///
/// By default the C library raises this size to that of the largest block that was ever freed, up
/// to 32 MiB; from then on such blocks come from its heaps and stay there. After a few programs
/// with much output a server would hold hundreds of unused megabytes.
pub fn return_large_blocks() {
    #[cfg(target_env = "gnu")]
    // SAFETY: `mallopt` takes two numbers and changes how later blocks are allocated, none that exist.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_MAPPING);
    }
}
