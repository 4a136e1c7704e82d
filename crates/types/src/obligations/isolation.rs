//! Minimum isolation of a sandbox.

use serde::{Deserialize, Serialize};

use crate::{Isolation, Layer};

/// Minimum isolation. Written as a tier (`"cold"`), or as an object where layers are required as well,
/// or a container runtime (`{"tier": "cold", "layers": ["landlock"], "runtime": "runsc"}`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct MinIsolation {
    /// `cold` is built for the call alone. `zygote` and `warm` are equivalent: both stand for an
    /// interpreter that was started ahead, so each of the three tiers satisfies them.
    pub tier: Option<Isolation>,
    /// Layers without which the call must not run.
    pub layers: Vec<Layer>,
    /// Container runtime that the call must run under, such as `runsc`.
    pub runtime: Option<String>,
}

impl MinIsolation {
    /// Tier to request, given the tier `wanted` otherwise; `None` takes the fastest.
    pub fn tier(&self, wanted: Option<Isolation>) -> Option<Isolation> {
        match self.tier {
            Some(Isolation::Cold) => Some(Isolation::Cold),
            Some(Isolation::Zygote | Isolation::Warm) | None => wanted,
        }
    }

    /// Whether a sandbox of this tier satisfies the minimum.
    pub fn is_met_by(&self, tier: Isolation) -> bool {
        match self.tier {
            // Anything that was started ahead is not built for the call alone.
            Some(Isolation::Cold) => tier == Isolation::Cold,
            Some(Isolation::Zygote | Isolation::Warm) | None => true,
        }
    }

    pub(super) fn and(self, other: Self) -> Self {
        let mut layers = [self.layers, other.layers].concat();
        layers.sort();
        layers.dedup();
        let is_cold = [self.tier, other.tier].contains(&Some(Isolation::Cold));
        let tier = if is_cold { Some(Isolation::Cold) } else { self.tier.or(other.tier) };
        let runtime = match (self.runtime, other.runtime) {
            // No runtime is called so: a call that must run under two is refused by name.
            (Some(one), Some(two)) if one != two => Some(format!("{one} and {two}")),
            (one, two) => one.or(two),
        };
        Self { tier, layers, runtime }
    }
}

/// The two written forms.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Tier(Isolation),
    Both(Both),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Both {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tier: Option<Isolation>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    layers: Vec<Layer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    runtime: Option<String>,
}

impl From<Written> for MinIsolation {
    fn from(written: Written) -> Self {
        match written {
            Written::Tier(tier) => Self { tier: Some(tier), ..Self::default() },
            Written::Both(Both { tier, layers, runtime }) => Self { tier, layers, runtime },
        }
    }
}

impl From<MinIsolation> for Written {
    fn from(least: MinIsolation) -> Self {
        match least {
            MinIsolation { tier: Some(tier), layers, runtime: None } if layers.is_empty() => {
                Self::Tier(tier)
            }
            MinIsolation { tier, layers, runtime } => Self::Both(Both { tier, layers, runtime }),
        }
    }
}
