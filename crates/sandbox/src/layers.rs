//! Layers that isolated one sandbox, as data for its report.

use ringfence_jail::wire::{ActiveLayers, Mode};
use ringfence_types::{Layer, LayerState, Layers};

use crate::{groups::Groups, jailed::Jailed};

/// Layers that the init found active after its lock-down, plus those added from outside.
pub(crate) fn layers(jailed: &Jailed) -> Layers {
    let Some(active_layers) = jailed.active_layers else { return Layers::default() };
    let mut layers = Layers::default();
    let mut put = |layer, state| {
        layers.0.insert(layer, state);
    };
    for layer in [
        Layer::MountNamespace,
        Layer::PidNamespace,
        Layer::NetworkNamespace,
        Layer::IpcNamespace,
        Layer::UtsNamespace,
        Layer::CgroupNamespace,
        Layer::NoCapabilities,
        Layer::Rlimits,
    ] {
        put(layer, LayerState::Active(String::new()));
    }
    put(Layer::Seccomp, LayerState::Active("default deny".to_owned()));
    put(Layer::PrivateProc, LayerState::Active("subset=pid, hidepid=2".to_owned()));
    put(Layer::UserNamespace, user_namespace(jailed.mode, active_layers));
    put(Layer::OwnUid, own_uid(jailed.mode));
    put(Layer::Landlock, landlock(active_layers));
    for (layer, controller) in
        [(Layer::CgroupMemory, "memory"), (Layer::CgroupCpu, "cpu"), (Layer::CgroupPids, "pids")]
    {
        put(layer, controller_state(jailed.groups(), controller));
    }
    layers
}

fn user_namespace(mode: Mode, active_layers: ActiveLayers) -> LayerState {
    match (active_layers.user_namespace, mode) {
        (true, Mode::Root) => LayerState::Active("late, below root's mounts".to_owned()),
        (true, Mode::Rootless) => LayerState::Active("nested, rootless".to_owned()),
        (false, _) => LayerState::Absent("the kernel refused one".to_owned()),
    }
}

fn own_uid(mode: Mode) -> LayerState {
    match mode {
        Mode::Root => LayerState::Active("unprivileged, from a range of its own".to_owned()),
        Mode::Rootless => LayerState::Absent("rootless: the uid of the user outside".to_owned()),
    }
}

fn landlock(active_layers: ActiveLayers) -> LayerState {
    match active_layers.landlock_abi {
        0 => LayerState::Absent("the kernel has none".to_owned()),
        abi => LayerState::Active(format!("abi {abi}")),
    }
}

fn controller_state(groups: &Groups, controller: &str) -> LayerState {
    match groups.missing(controller) {
        Some(reason) => LayerState::Absent(reason.what.clone()),
        None => LayerState::Active(groups.version.to_owned()),
    }
}
