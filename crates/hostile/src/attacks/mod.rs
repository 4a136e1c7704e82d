//! All attacks, by subject. Each file returns its cases; this one orders them.

mod bombs;
mod calls;
mod canaries;
mod capabilities;
mod chroot;
mod crashes;
mod descriptors;
mod devices;
mod disk;
mod identity;
mod kernel_files;
mod kernel_objects;
mod leftovers;
mod mounts;
mod namespaces;
mod network;
mod output;
mod processes;
mod setid;
mod shared;
mod signals;
mod sockets;
mod time;
mod uncharged;
mod writes;

use std::sync::LazyLock;

pub(crate) use identity::host_facts;

use crate::Case;

/// Every case, in the order in which the suite runs them.
pub fn cases() -> &'static [Case] {
    static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
        let groups: [fn() -> Vec<Case>; 25] = [
            writes::cases,
            descriptors::cases,
            chroot::cases,
            mounts::cases,
            devices::cases,
            setid::cases,
            namespaces::cases,
            calls::cases,
            processes::cases,
            sockets::cases,
            signals::cases,
            kernel_files::cases,
            crashes::cases,
            capabilities::cases,
            canaries::cases,
            identity::cases,
            bombs::cases,
            disk::cases,
            kernel_objects::cases,
            shared::cases,
            uncharged::cases,
            time::cases,
            output::cases,
            leftovers::cases,
            network::cases,
        ];
        groups.into_iter().flat_map(|cases| cases()).collect()
    });
    &CASES
}
