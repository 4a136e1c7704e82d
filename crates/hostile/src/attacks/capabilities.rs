//! Capabilities that are left in a set.

use ringfence_jail::attack::{self, Capabilities, capabilities};

use crate::{
    AttackContext, Case, Finding, Group,
    child::in_child,
    finding::{broken, escaped, held},
};

type Set = (&'static str, fn(&Capabilities) -> u64);

const SETS: [Set; 5] = [
    ("effective", |sets| sets.effective),
    ("permitted", |sets| sets.permitted),
    ("inheritable", |sets| sets.inheritable),
    ("bounding", |sets| sets.bounding),
    ("ambient", |sets| sets.ambient),
];

pub(super) fn cases() -> Vec<Case> {
    let case = |(name, set): Set| {
        let promise = format!("the {name} set holds no capability");
        let attack = move |context: &AttackContext| look(context, set);
        Case::new(Group::Kernel, format!("K18.{name}"), promise, attack)
    };
    SETS.map(case).into()
}

/// Looks for capabilities. The control takes every capability it can have into every set first, in
/// a user namespace of its own if it is not root.
fn look(context: &AttackContext, set: fn(&Capabilities) -> u64) -> Finding {
    in_child(|| {
        if context.is_outside()
            && let Err(error) = attack::enter_own(0).and_then(|()| attack::fill_capability_sets())
        {
            return context.refused("own capabilities", &error);
        }
        report(set)
    })
}

fn report(set: fn(&Capabilities) -> u64) -> Finding {
    match capabilities().map(|sets| set(&sets)) {
        Ok(0) => held("empty"),
        Ok(bits) => escaped(format!("{bits:#x}")),
        Err(error) => broken(format!("capget: {error}")),
    }
}
