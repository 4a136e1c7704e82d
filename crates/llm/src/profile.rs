//! Model profiles: which model of which server answers in which role.
//!
//! The file groups profiles by deployment mode, as SomaAgent 01's `model_profiles.yaml` does.

use std::{collections::BTreeMap, fmt, path::PathBuf, str::FromStr};

use ringfence_egress::Target;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Role of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Answers in conversations.
    Dialogue,
    /// Answers where the dialogue model is not enough.
    Escalation,
    /// Small model for pre-processing.
    Slm,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 3] = [Self::Dialogue, Self::Escalation, Self::Slm];

    /// Name of the role.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dialogue => "dialogue",
            Self::Escalation => "escalation",
            Self::Slm => "slm",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|role| role.as_str() == text);
        named.ok_or_else(|| format!("`{text}` is not a role: dialogue, escalation or slm"))
    }
}

/// A model and its server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Role.
    pub role: Role,
    /// Deployment mode, such as `LOCAL` or `PROD`; in a file the group gives it.
    #[serde(default)]
    pub deployment_mode: String,
    /// Name of the model at the server.
    pub model: String,
    /// URL of the server up to and including `/v1`.
    #[serde(default)]
    pub base_url: String,
    /// Path after `base_url`; `/chat/completions` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_path: Option<String>,
    /// Temperature.
    #[serde(default = "usual_temperature")]
    pub temperature: f64,
    /// Further fields of every request.
    #[serde(default, alias = "kwargs", skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
    /// File with the API key of the server; read for every request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_file: Option<PathBuf>,
    /// Role whose profile is asked if this one fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Role>,
    /// Tokens that the model reads at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u32>,
}

fn usual_temperature() -> f64 {
    0.2
}

impl Profile {
    /// URL of chat completions.
    pub(crate) fn url(&self) -> Result<Target, String> {
        let path = self.api_path.as_deref().unwrap_or("/chat/completions");
        let url =
            format!("{}/{}", self.base_url.trim_end_matches('/'), path.trim_start_matches('/'));
        Target::parse(&url).map_err(|problem| format!("`{url}` {problem}"))
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let at = format!("{} of {}", self.role, self.deployment_mode);
        if self.model.is_empty() {
            problems.push(format!("{at}: `model` is empty"));
        }
        if !(0.0..=2.0).contains(&self.temperature) {
            problems.push(format!("{at}: `temperature` must be from 0 to 2"));
        }
        problems.extend(self.url().err().map(|problem| format!("{at}: `base_url`: {problem}")));
        problems
    }
}

/// Profiles of one deployment mode.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Profiles {
    by_role: BTreeMap<Role, Profile>,
}

/// Reasons why a file of profiles is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct InvalidProfiles(pub Vec<String>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    #[serde(default)]
    router: Option<Router>,
    #[serde(default)]
    profiles: Vec<Profile>,
}

#[derive(Deserialize)]
struct Router {
    base_url: String,
}

impl Profiles {
    /// Profiles of a mode, from a YAML file.
    pub fn parse(text: &str, mode: &str) -> Result<Self, InvalidProfiles> {
        let invalid = |problem: String| InvalidProfiles(vec![problem]);
        let mut groups: BTreeMap<String, Group> =
            serde_norway::from_str(text).map_err(|error| invalid(error.to_string()))?;
        let known: Vec<_> = groups.keys().cloned().collect();
        let group = groups.remove(mode).ok_or_else(|| {
            invalid(format!("no deployment mode `{mode}`; the file has {}", known.join(", ")))
        })?;
        let router = group.router.map(|router| router.base_url).unwrap_or_default();
        let (mut profiles, mut problems) = (Self::default(), Vec::new());
        for mut profile in group.profiles {
            profile.deployment_mode = mode.to_owned();
            if profile.base_url.is_empty() {
                profile.base_url.clone_from(&router);
            }
            problems.extend(profile.problems());
            let role = profile.role;
            if profiles.by_role.insert(role, profile).is_some() {
                problems.push(format!("two profiles for the role {role} of {mode}"));
            }
        }
        if problems.is_empty() { Ok(profiles) } else { Err(InvalidProfiles(problems)) }
    }

    /// The profile of a role.
    pub fn get(&self, role: Role) -> Option<&Profile> {
        self.by_role.get(&role)
    }

    /// All profiles.
    pub fn iter(&self) -> impl Iterator<Item = &Profile> {
        self.by_role.values()
    }

    /// The profile of a role and those that are asked if it fails, in order.
    pub(crate) fn chain(&self, role: Role) -> Vec<Profile> {
        let mut chain: Vec<Profile> = Vec::new();
        let mut next = Some(role);
        while let Some(profile) = next.and_then(|role| self.get(role)) {
            if chain.iter().any(|earlier| earlier.role == profile.role) {
                break;
            }
            next = profile.fallback;
            chain.push(profile.clone());
        }
        chain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
LOCAL:
  router: {base_url: 'http://127.0.0.1:8000/v1'}
  profiles:
    - {role: dialogue, model: big, fallback: slm, extra: {top_p: 0.9}}
    - {role: slm, model: small, base_url: 'http://127.0.0.1:9000/v1/', temperature: 0}
PROD:
  profiles: []
";

    #[test]
    fn profiles_of_a_mode_are_read() {
        let profiles = Profiles::parse(FILE, "LOCAL").expect("valid");
        let big = profiles.get(Role::Dialogue).expect("there");
        assert_eq!(big.url().expect("valid").as_str(), "http://127.0.0.1:8000/v1/chat/completions");
        assert_eq!((big.temperature, &*big.deployment_mode), (0.2, "LOCAL"));
        let chain = profiles.chain(Role::Dialogue);
        let models: Vec<_> = chain.iter().map(|profile| &*profile.model).collect();
        assert_eq!(models, ["big", "small"]);
        assert!(Profiles::parse(FILE, "PROD").expect("valid").get(Role::Slm).is_none());
    }

    #[test]
    fn problems_are_named_together() {
        let file = "A: {profiles: [{role: slm, model: '', base_url: nowhere, temperature: 9}]}";
        let error = Profiles::parse(file, "A").expect_err("invalid");
        assert_eq!(error.0.len(), 3, "{error}");
        assert!(Profiles::parse(file, "B").expect_err("no such mode").to_string().contains('A'));
        assert!(Profiles::parse("A: {profiles: [{role: king}]}", "A").is_err());
        assert!(Profiles::parse("- a", "A").is_err());
    }
}
