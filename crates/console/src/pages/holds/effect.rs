//! The effect of a held call in words.

use ringfence_engine::data::Catalogue;
use ringfence_types::{Call, Tool};

/// Safety flags of tools, in words.
const FLAGS: &[(&str, &str)] = &[
    ("external_call", "sends data to another service"),
    ("side_effect", "changes something outside its sandbox"),
    ("network_access", "reaches the network"),
    ("file_system", "reads and writes files of its workspace"),
    ("pii_risk", "may handle personal data"),
];

/// One sentence about what would happen.
pub(super) fn sentence(catalogue: &Catalogue, call: &Call) -> String {
    let Some(tool) = tool(catalogue, call) else {
        return "The tool was changed or removed since; the call cannot run as it was shown."
            .to_owned();
    };
    let effects: Vec<_> = effects(tool);
    match effects.as_slice() {
        [] if tool.is_pure() => "Runs in its sandbox and has no effect outside it.".to_owned(),
        [] => "The tool does not say what it does.".to_owned(),
        [only] => format!("If approved, it {only}."),
        [first @ .., last] => format!("If approved, it {} and {last}.", first.join(", ")),
    }
}

/// Facts about the call that help to decide.
pub(super) fn details(catalogue: &Catalogue, call: &Call) -> Vec<String> {
    let Some(tool) = tool(catalogue, call) else { return Vec::new() };
    let mut details = Vec::from_iter(tool.description.lines().next().map(str::to_owned));
    details.push(match tool.is_pure() {
        true => "Running it twice does no harm.".to_owned(),
        false => "It runs at most once; its effect cannot be taken back by this server.".to_owned(),
    });
    if tool.requires_approval {
        details.push("The tool asks for a person to approve every call of it.".to_owned());
    }
    details
}

fn tool<'a>(catalogue: &'a Catalogue, call: &Call) -> Option<&'a Tool> {
    catalogue.by_digest(call.asked.tool.digest).map(|entry| &entry.tool)
}

fn effects(tool: &Tool) -> Vec<&'static str> {
    let has = |flag: &str| tool.safety_flags.iter().any(|own| own == flag);
    FLAGS.iter().filter(|(flag, _)| has(flag)).map(|(_, words)| *words).collect()
}
