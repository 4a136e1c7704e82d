//! Layers around a program in a container.

use ringfence_types::{Layer, LayerState, Layers};

use super::{EngineInfo, body::Shape};
use crate::Error;

/// Layers of one container.
pub(super) fn layers(info: &EngineInfo, shape: &Shape) -> Layers {
    let mut layers = of_engine(info);
    if shape.runtime != info.default_runtime {
        let mut put = |layer| {
            let words = format!("by the runtime `{}`", shape.runtime);
            layers.0.insert(layer, LayerState::Active(words));
        };
        [Layer::MountNamespace, Layer::PidNamespace].into_iter().for_each(&mut put);
    }
    layers
}

/// Layers that every container of an engine has.
pub(super) fn of_engine(info: &EngineInfo) -> Layers {
    let active = |words: &str| LayerState::Active(words.to_owned());
    let absent = |words: &str| LayerState::Absent(words.to_owned());
    let controller = |is_there: bool| match is_there {
        true => active(if info.cgroup_v2 { "v2" } else { "v1" }),
        false => absent("the engine lacks the controller"),
    };
    let maps_ids = info.has_option("userns") || info.has_option("rootless");
    let seccomp = match info.has_option("seccomp") {
        true => "default deny, and the profile of the engine",
        false => "default deny",
    };
    let all = [
        (Layer::MountNamespace, active("read-only image")),
        (Layer::PidNamespace, active("")),
        (Layer::NetworkNamespace, active("nothing in it")),
        (Layer::IpcNamespace, active("")),
        (Layer::UtsNamespace, active("")),
        (
            Layer::CgroupNamespace,
            match info.private_cgroups {
                true => active(""),
                false => absent("the engine is older than API 1.41"),
            },
        ),
        (Layer::NoCapabilities, active("no new privileges")),
        (Layer::Rlimits, active("")),
        (Layer::Seccomp, active(seccomp)),
        (Layer::PrivateProc, active("paths masked by the engine")),
        (
            Layer::UserNamespace,
            match maps_ids {
                true => active("of the engine"),
                false => absent("the engine maps no user ids"),
            },
        ),
        (Layer::OwnUid, active("unprivileged, from a range of containers")),
        (Layer::Landlock, absent("not used in containers")),
        (Layer::CgroupMemory, controller(info.memory_limit)),
        (Layer::CgroupCpu, controller(info.cpu_quota)),
        (Layer::CgroupPids, controller(info.pids_limit)),
    ];
    Layers(all.into_iter().collect())
}

/// Error for a layer that is required and missing.
pub(super) fn missing(layer: Layer, reason: String) -> Error {
    let words = match layer {
        Layer::UserNamespace => "a user namespace",
        Layer::Landlock => "Landlock",
        Layer::CgroupNamespace => "a cgroup namespace",
        Layer::CgroupMemory => "a memory limit",
        Layer::CgroupCpu => "a cpu limit",
        Layer::CgroupPids => "a process limit",
        _ => "a layer",
    };
    let hint = "run the tool natively (import its image with `ringfence image import`), or change the \
                engine: see docs/docker.md";
    Error::Missing { layer: words, reason: format!("{reason} (containers)"), hint: hint.to_owned() }
}
