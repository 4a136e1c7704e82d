//! The caller's own memory. The cgroup and rlimits bound its size.

pub(super) const ALLOWED: &[super::Allowed] = &[
    ("brk", "the heap"),
    ("munmap", "gives memory back"),
    ("mremap", "grows or moves a mapping"),
    ("mprotect", "every dynamic loader and run-time compiler"),
    ("pkey_mprotect", "mprotect with a protection key"),
    ("pkey_alloc", "protection keys; V8 guards its code with them"),
    ("pkey_free", "protection keys; V8 guards its code with them"),
    ("mincore", "residency; the kernel answers only for files the caller may write"),
    ("mlock", "bounded by RLIMIT_MEMLOCK; cryptographic libraries"),
    ("mlock2", "bounded by RLIMIT_MEMLOCK; cryptographic libraries"),
    ("munlock", "undoes mlock"),
    ("mlockall", "bounded by RLIMIT_MEMLOCK"),
    ("munlockall", "undoes mlockall"),
    ("mseal", "makes a mapping unchangeable; newer dynamic loaders"),
    ("map_shadow_stack", "control-flow protection of the caller's own stack"),
    ("membarrier", "memory ordering between the caller's threads"),
];
