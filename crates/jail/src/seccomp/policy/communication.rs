//! Pipes, sockets, shared memory and waiting. Sockets end at the edge of the network namespace.

pub(super) const ALLOWED: &[super::Allowed] = &[
    // Pipes and waiting.
    ("pipe", "shell pipelines"),
    ("pipe2", "shell pipelines"),
    ("poll", "waits for own descriptors"),
    ("ppoll", "waits for own descriptors"),
    ("select", "waits for own descriptors"),
    ("pselect6", "waits for own descriptors"),
    ("epoll_create", "event loops"),
    ("epoll_create1", "event loops"),
    ("epoll_ctl", "event loops"),
    ("epoll_wait", "event loops"),
    ("epoll_pwait", "event loops"),
    ("epoll_pwait2", "event loops"),
    ("eventfd", "wakes event loops"),
    ("eventfd2", "wakes event loops"),
    // Sockets; which kinds exist is decided by the rule for `socket`.
    ("connect", "reaches only the own network namespace"),
    ("bind", "reaches only the own network namespace"),
    ("listen", "reaches only the own network namespace"),
    ("accept", "reaches only the own network namespace"),
    ("accept4", "reaches only the own network namespace"),
    ("getsockname", "own sockets"),
    ("getpeername", "own sockets"),
    ("shutdown", "own sockets"),
    // System V objects live in the ipc namespace and are charged to the memory limit.
    ("shmget", "shared memory of the ipc namespace"),
    ("shmat", "shared memory of the ipc namespace"),
    ("shmdt", "shared memory of the ipc namespace"),
    ("shmctl", "shared memory of the ipc namespace"),
    ("semget", "semaphores of the ipc namespace"),
    ("semop", "semaphores of the ipc namespace"),
    ("semtimedop", "semaphores of the ipc namespace"),
    ("semctl", "semaphores of the ipc namespace"),
];
