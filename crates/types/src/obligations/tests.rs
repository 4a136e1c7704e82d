use proptest::{option::of as some, prelude::*};

use super::*;
use crate::{Bytes, Cpus, Isolation, Json, Layer, Limits, SandboxNetwork};

fn parse(text: &str) -> Result<Obligations, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

#[test]
fn it_is_read_as_it_is_written() {
    for text in [
        "{}",
        r#"{"limits":{"wall_secs":1}}"#,
        r#"{"limits":{"network":"none","terminals":0}}"#,
        r#"{"min_isolation":"cold"}"#,
        r#"{"min_isolation":{"layers":["landlock"]}}"#,
        r#"{"min_isolation":{"tier":"cold","layers":["own_uid","seccomp"]}}"#,
        r#"{"redact":["/args/a~1b/~0","/result","/stderr"]}"#,
        r#"{"network":"none"}"#,
        r#"{"network":["a.example","*.b.example"]}"#,
    ] {
        assert_eq!(serde_json::to_string(&parse(text).unwrap()).unwrap(), text);
    }
}

#[test]
fn what_is_not_understood_is_refused() {
    let many = serde_json::to_string(&vec!["/args/a"; 65]).unwrap();
    for text in [
        r#"{"isolation":"cold"}"#,
        r#"{"min_isolation":"tepid"}"#,
        r#"{"min_isolation":{"tier":"cold","walls":[]}}"#,
        r#"{"redact":["args/a"]}"#,
        r#"{"redact":["/args"]}"#,
        r#"{"redact":["/metadata/a"]}"#,
        r#"{"redact":["/stdout/0"]}"#,
        r#"{"redact":["/args/~2"]}"#,
        r#"{"redact":["/args/~"]}"#,
        &format!(r#"{{"redact":{many}}}"#),
        r#"{"network":"some"}"#,
        r#"{"network":[""]}"#,
        r#"{"network":["a b"]}"#,
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
}

#[test]
fn only_a_sandbox_built_for_the_call_is_cold() {
    let tiers = [Isolation::Cold, Isolation::Zygote, Isolation::Warm];
    for least in tiers {
        let least_tier = MinIsolation { tier: Some(least), ..MinIsolation::default() };
        for tier in tiers {
            let expected = least != Isolation::Cold || tier == Isolation::Cold;
            assert_eq!(least_tier.is_met_by(tier), expected, "{least:?} and {tier:?}");
            let asked = least_tier.tier(Some(tier)).unwrap();
            assert!(least_tier.is_met_by(asked), "what is asked for will do");
        }
    }
}

fn caps() -> impl Strategy<Value = LimitCaps> {
    let (long, short) = (|| some(any::<u64>()), || some(any::<u32>()));
    let network =
        some(prop::sample::select(SandboxNetwork::ALL.map(|(network, _)| network).to_vec()));
    (long(), long(), short(), short(), network, short()).prop_map(
        |(wall_secs, memory_bytes, cpu_millis, processes, network, terminals)| LimitCaps {
            wall_secs,
            memory_bytes,
            cpu_millis,
            processes,
            network,
            terminals,
        },
    )
}

fn least() -> impl Strategy<Value = MinIsolation> {
    let tiers = vec![Isolation::Cold, Isolation::Zygote, Isolation::Warm];
    let layers = vec![Layer::Landlock, Layer::OwnUid, Layer::Seccomp];
    let layers = prop::collection::vec(prop::sample::select(layers), 0..3);
    let runtimes = some(prop::sample::select(vec!["runsc".to_owned(), "kata".to_owned()]));
    (prop::option::of(prop::sample::select(tiers)), layers, runtimes)
        .prop_map(|(tier, layers, runtime)| MinIsolation { tier, layers, runtime })
}

fn redact() -> impl Strategy<Value = Redact> {
    let all = ["/args/a", "/args/b/0", "/args/b", "/result", "/result/a", "/stdout", "/stderr"];
    let one = prop::sample::select(all.to_vec()).prop_map(|text| text.parse().unwrap());
    prop::collection::vec(one, 0..5).prop_map(Redact::of)
}

fn network() -> impl Strategy<Value = Network> {
    let hosts = vec!["a.example", "*.a.example", "b.example"];
    prop::collection::vec(prop::sample::select(hosts).prop_map(str::to_owned), 0..3)
        .prop_map(|hosts| Network::only(hosts).unwrap())
}

fn any_obligations() -> impl Strategy<Value = Obligations> {
    (some(caps()), some(least()), redact(), some(network()), any::<bool>()).prop_map(
        |(limits, min_isolation, redact, network, fresh)| Obligations {
            limits,
            min_isolation,
            redact,
            network,
            fresh,
        },
    )
}

fn applied(obligations: &Obligations, limits: Limits) -> Limits {
    match &obligations.limits {
        Some(caps) => caps.apply(limits),
        None => limits,
    }
}

fn is_within(one: &Limits, other: &Limits) -> bool {
    one.wall <= other.wall
        && one.memory <= other.memory
        && one.cpus <= other.cpus
        && one.processes <= other.processes
        && one.network <= other.network
        && one.terminals <= other.terminals
}

/// Whether every host permitted by `one` is permitted by `other`.
fn narrows(one: Option<&Network>, other: Option<&Network>) -> bool {
    match (one, other) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(one), Some(other)) => one.hosts().iter().all(|host| other.hosts().contains(host)),
    }
}

proptest! {
    #[test]
    fn obligations_only_ever_lower_limits(
        obligations in any_obligations(),
        wall in 1_u64..10_000, memory in any::<u64>(), cpus in any::<u32>(), processes in any::<u32>(),
    ) {
        let limits = Limits {
            wall: std::time::Duration::from_secs(wall),
            memory: Bytes(memory),
            cpus: Cpus(cpus),
            processes,
            network: SandboxNetwork::Loopback,
            terminals: 4,
            ..Limits::default()
        };
        prop_assert!(is_within(&applied(&obligations, limits.clone()), &limits));
    }

    #[test]
    fn both_are_at_least_as_tight_as_each(one in any_obligations(), other in any_obligations()) {
        let joined = one.clone().and(other.clone());
        for each in [&one, &other] {
            let limits =
                Limits { network: SandboxNetwork::Loopback, terminals: 4, ..Limits::default() };
            prop_assert!(is_within(&applied(&joined, limits.clone()), &applied(each, limits)));
            for tier in [Isolation::Cold, Isolation::Zygote, Isolation::Warm] {
                let met = |obligations: &Obligations| {
                    obligations.min_isolation.as_ref().is_none_or(|least| least.is_met_by(tier))
                };
                prop_assert!(!met(&joined) || met(each));
            }
            let walls = |obligations: &Obligations| {
                obligations.min_isolation.clone().unwrap_or_default().layers
            };
            prop_assert!(walls(each).iter().all(|wall| walls(&joined).contains(wall)));
            prop_assert!(each.redact.iter().all(|p| joined.redact.iter().any(|q| p == q)));
            prop_assert!(narrows(joined.network.as_ref(), each.network.as_ref()));
        }
    }

    #[test]
    fn what_is_masked_once_is_masked_with_more(one in redact(), other in redact()) {
        let json = Json::parse(br#"{"a":"secret-a","b":["secret-b",1],"c":"plain"}"#).unwrap();
        let both = one.clone().and(other);
        for root in [Root::Args, Root::Result] {
            let (once, more) = (one.apply(root, &json), both.apply(root, &json));
            for secret in ["secret-a", "secret-b", "plain"] {
                prop_assert!(once.as_str().contains(secret) || !more.as_str().contains(secret));
            }
        }
    }
}
