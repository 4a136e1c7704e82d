//! Dependency tiers.
//!
//! A crate depends on lower tiers only, and crates of one tier do not know each other: then the
//! graph has no knots, and the question "where does this belong" has one answer.

use super::{Problem, Tree};

/// Crates with their tiers, bottom up.
const TIERS: &[(&str, u8)] = &[
    ("ringfence-types", 0),
    // The file that the embedded store and the embedded bus share.
    ("ringfence-sqlite", 0),
    ("ringfence-jail", 1),
    ("ringfence-store", 1),
    ("ringfence-bus", 1),
    ("ringfence-egress", 1),
    ("ringfence-models", 1),
    ("ringfence-otlp", 1),
    ("ringfence-ledger", 1),
    // It asks remote engines through the guarded client.
    ("ringfence-policy", 2),
    // It keeps keys in the store, and signs what it does to them.
    ("ringfence-access", 2),
    // The other side of the protocol: it reaches servers by the guarded client or a pipe it is given.
    ("ringfence-mcp-client", 2),
    // Model servers of others, over the guarded client.
    ("ringfence-llm", 2),
    ("ringfence-registry", 2),
    // It reads the bus and speaks HTTP, without knowing what events mean.
    ("ringfence-webhook", 2),
    ("ringfence-hostile", 2),
    // The sandbox embeds what is built from it, but does not depend on it.
    ("ringfence-preload", 2),
    // The same: it starts the program of a container.
    ("ringfence-container-init", 2),
    ("ringfence-sandbox", 3),
    ("ringfence-engine", 4),
    // It shares rates of keys and mirrors rows of the store, without knowing how a call runs.
    ("ringfence-redis", 4),
    ("ringfence-plans", 5),
    ("ringfence-conversation", 6),
    // What all doors share.
    ("ringfence-edge", 7),
    ("ringfence-api", 8),
    ("ringfence-console", 8),
    ("ringfence-intake", 8),
    ("ringfence-mcp", 8),
    ("ringfence", 9),
];

/// Tools beside the tiers: they may use any crate; the product uses none of them, and tests may
/// use the first.
const TOOLS: &[&str] = &["ringfence-testkit", "ringfence-bench", "xtask"];

/// The parts behind the engine. A door that reached one would go around policy, record or ledger.
const BACKENDS: &[&str] = &[
    "ringfence-bus",
    "ringfence-egress",
    "ringfence-ledger",
    "ringfence-llm",
    "ringfence-models",
    "ringfence-policy",
    "ringfence-redis",
    "ringfence-registry",
    "ringfence-sandbox",
    "ringfence-sqlite",
    "ringfence-store",
];

/// Dependencies that a crate must not have, by package name, with the reason.
const FORBIDDEN: &[(&str, &[&str], &str)] = &[
    ("ringfence-ledger", &["tokio", "rustix", "libc", "rusqlite"], "it does no I/O"),
    ("ringfence-types", &["tokio", "rustix", "libc", "sqlx", "axum", "reqwest"], "it does no I/O"),
    (
        "ringfence-jail",
        &["tokio", "axum", "hyper", "reqwest", "sqlx", "clap"],
        "it runs before any thread or runtime exists, and inside the sandbox",
    ),
    ("ringfence-sandbox", &["axum", "sqlx"], "it knows neither HTTP doors nor the store"),
    ("ringfence-policy", &["axum", "sqlx"], "a decision does not depend on who asks over HTTP"),
    ("ringfence-store", &["axum"], "it knows no JSON over HTTP"),
    ("ringfence-registry", &["ringfence-jail", "ringfence-sandbox"], "it runs nothing"),
    ("ringfence-engine", &["axum", "sqlx", "rustix", "libc"], "it knows no HTTP, SQL or syscalls"),
    ("ringfence-access", &["axum", "http", "hyper"], "it knows no HTTP"),
    ("ringfence-edge", BACKENDS, "it sees use cases of the engine, not the parts behind them"),
    ("ringfence-api", BACKENDS, "a door sees use cases of the engine, not the parts behind them"),
    (
        "ringfence-console",
        BACKENDS,
        "a door sees use cases of the engine, not the parts behind them",
    ),
    (
        "ringfence-intake",
        // Not the bus: it is to this door what HTTP is to the others.
        &[
            "ringfence-egress",
            "ringfence-ledger",
            "ringfence-policy",
            "ringfence-redis",
            "ringfence-registry",
            "ringfence-sandbox",
            "ringfence-sqlite",
            "ringfence-store",
            "rdkafka",
        ],
        "a door sees use cases of the engine, not the parts behind them",
    ),
    ("ringfence-mcp", BACKENDS, "a door sees use cases of the engine, not the parts behind them"),
];

/// Libraries that only some crates may depend on, with the reason.
const RESERVED: &[(&str, &[&str], &str)] = &[
    (
        "rusqlite",
        &["ringfence-sqlite", "ringfence-store", "ringfence-bus"],
        "SQL is written in the store and the bus only",
    ),
    ("redis", &["ringfence-redis"], "Redis is behind the traits of those that use it"),
    ("object_store", &["ringfence-store"], "bytes are kept by the store only"),
    ("rdkafka", &["ringfence-bus"], "Kafka is behind the trait of the bus"),
    ("tokio-postgres", &["ringfence-store"], "SQL is written in the store and the bus only"),
];

/// Every crate has a tier.
pub(super) fn every_crate_has_a_tier(tree: &Tree) -> Vec<Problem> {
    let is_placed = |name: &str| tier(name).is_some() || TOOLS.contains(&name);
    tree.crates
        .iter()
        .filter(|found| !is_placed(&found.name))
        .map(|found| Problem::error(&found.name, "has no tier; give it one in xtask's tidy::tiers"))
        .collect()
}

/// Dependencies point to lower tiers only.
pub(super) fn dependencies_point_downwards(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for found in &tree.crates {
        for (dependency, is_for_tests) in &found.dependencies {
            if !is_allowed(&found.name, dependency, *is_for_tests) {
                let message = format!("must not depend on `{dependency}`: it is not a lower tier");
                problems.push(Problem::error(&found.name, message));
            }
        }
    }
    problems
}

/// Forbidden dependencies are absent, whatever the tier.
pub(super) fn rooms_do_not_know_what_they_must_not(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, forbidden, reason) in FORBIDDEN {
        let dependencies = tree.crates.iter().filter(|found| found.name == *name);
        // Test dependencies never reach the product.
        for (dependency, _) in dependencies.flat_map(|c| &c.dependencies).filter(|(_, t)| !t) {
            if forbidden.contains(&dependency.as_str()) {
                let message = format!("must not depend on `{dependency}`: {reason}");
                problems.push(Problem::error(*name, message));
            }
        }
    }
    problems
}

/// Some libraries belong to a few rooms.
pub(super) fn reserved_libraries_stay_in_their_rooms(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (library, rooms, reason) in RESERVED {
        let knows = |found: &&super::Crate| {
            found.dependencies.iter().any(|(name, is_for_tests)| name == library && !is_for_tests)
        };
        let is_outside = |found: &&super::Crate| {
            !rooms.contains(&found.name.as_str()) && !TOOLS.contains(&found.name.as_str())
        };
        for found in tree.crates.iter().filter(is_outside).filter(knows) {
            let message = format!("must not depend on `{library}`: {reason}");
            problems.push(Problem::error(&found.name, message));
        }
    }
    problems
}

fn is_allowed(from: &str, to: &str, is_for_tests: bool) -> bool {
    if TOOLS.contains(&from) {
        return true;
    }
    if TOOLS.contains(&to) {
        return is_for_tests && to == "ringfence-testkit";
    }
    match (tier(from), tier(to)) {
        (Some(from), Some(to)) => to < from,
        // Third-party, or reported by the rule above.
        _ => true,
    }
}

fn tier(name: &str) -> Option<u8> {
    TIERS.iter().find(|(known, _)| *known == name).map(|(_, tier)| *tier)
}

#[cfg(test)]
mod tests {
    use super::super::Crate;
    use super::*;

    fn tree(name: &str, dependency: &str, is_for_tests: bool) -> Tree {
        let dependencies = vec![(dependency.to_owned(), is_for_tests)];
        let crates = vec![Crate { name: name.to_owned(), dependencies }];
        Tree { crates, ..Tree::default() }
    }

    #[test]
    fn upward_and_sideways_dependencies_are_refused() {
        let is_refused =
            |from, to, tests| !dependencies_point_downwards(&tree(from, to, tests)).is_empty();
        assert!(is_refused("ringfence-types", "ringfence-jail", false));
        assert!(is_refused("ringfence-registry", "ringfence-hostile", false));
        assert!(is_refused("ringfence-jail", "ringfence-sandbox", true));
        assert!(is_refused("ringfence", "xtask", false));
        assert!(is_refused("ringfence-store", "ringfence-testkit", false));
        assert!(!is_refused("ringfence-store", "ringfence-testkit", true));
        assert!(!is_refused("ringfence-sandbox", "ringfence-jail", false));
        assert!(!is_refused("ringfence", "ringfence-hostile", false));
        assert!(!is_refused("ringfence-types", "serde", false));
    }

    #[test]
    fn an_unplaced_crate_is_refused() {
        assert_eq!(every_crate_has_a_tier(&tree("ringfence-misc", "serde", false)).len(), 1);
        assert_eq!(every_crate_has_a_tier(&tree("xtask", "serde", false)), []);
    }

    #[test]
    fn a_door_knows_no_part_behind_the_engine() {
        let problems = |dependency, tests| {
            rooms_do_not_know_what_they_must_not(&tree("ringfence-api", dependency, tests)).len()
        };
        assert_eq!(problems("ringfence-store", false), 1);
        assert_eq!(problems("ringfence-store", true), 0);
        assert_eq!(problems("ringfence-access", false), 0);
    }

    #[test]
    fn sql_stays_in_the_store_and_the_bus() {
        let problems = |name, tests| {
            reserved_libraries_stay_in_their_rooms(&tree(name, "rusqlite", tests)).len()
        };
        assert_eq!(problems("ringfence", false), 1);
        assert_eq!(problems("ringfence", true), 0);
        assert_eq!(problems("ringfence-store", false), 0);
    }

    #[test]
    fn the_jail_knows_no_runtime() {
        let problems = |name, dependency, tests| {
            rooms_do_not_know_what_they_must_not(&tree(name, dependency, tests)).len()
        };
        assert_eq!(problems("ringfence-jail", "tokio", false), 1);
        assert_eq!(problems("ringfence-jail", "tokio", true), 0);
        assert_eq!(problems("ringfence-sandbox", "tokio", false), 0);
    }
}
