//! Authenticated caller.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize, Serializer};

use crate::{KeyId, PersonId, PersonaId, TenantId};

/// Identity of an API key. Only authentication makes one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    /// The key.
    pub key: KeyId,
    /// Tenant of the key.
    pub tenant: TenantId,
    /// The only persona the key may act for; `None` means any.
    pub persona: Option<PersonaId>,
    /// Scopes of the key.
    pub scopes: Scopes,
    /// Label of the key, for the record.
    #[serde(default)]
    pub label: String,
    /// Person who has the key, if named at its creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<PersonId>,
}

impl Principal {
    /// Whether this is the same caller as a key in the hands of `person`: the same key, or another key
    /// of the same person.
    pub fn is(&self, key: KeyId, person: Option<&PersonId>) -> bool {
        let same = self.person.as_ref().zip(person).is_some_and(|(own, other)| own.is_same(other));
        self.key == key || same
    }
}

/// Permission of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Make and cancel calls, use sandboxes.
    Call,
    /// See calls, outputs, events and receipts of the tenant.
    Read,
    /// Decide about held calls.
    Approve,
    /// Manage keys and tools, and everything else.
    Admin,
}

impl Scope {
    /// All scopes.
    pub const ALL: [Scope; 4] = [Scope::Call, Scope::Read, Scope::Approve, Scope::Admin];

    /// Name on every wire.
    pub const fn name(self) -> &'static str {
        match self {
            Scope::Call => "call",
            Scope::Read => "read",
            Scope::Approve => "approve",
            Scope::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Invalid name of a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a scope: one of call, read, approve, admin")]
pub struct InvalidScope;

impl FromStr for Scope {
    type Err = InvalidScope;

    fn from_str(text: &str) -> Result<Self, InvalidScope> {
        Self::ALL.into_iter().find(|scope| scope.name() == text).ok_or(InvalidScope)
    }
}

/// Scopes of a key: a sorted list without repetition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Vec<Scope>")]
pub struct Scopes(Arc<[Scope]>);

impl Scopes {
    /// Whether `scope` is among them. `admin` includes `call` and `read` but not `approve`:
    /// administering keys does not imply deciding about calls.
    pub fn allow(&self, scope: Scope) -> bool {
        let by_admin = matches!(scope, Scope::Call | Scope::Read);
        self.0.contains(&scope) || (by_admin && self.0.contains(&Scope::Admin))
    }

    /// Scopes in order.
    pub fn iter(&self) -> impl Iterator<Item = Scope> + '_ {
        self.0.iter().copied()
    }
}

impl From<Vec<Scope>> for Scopes {
    fn from(mut scopes: Vec<Scope>) -> Self {
        scopes.sort();
        scopes.dedup();
        Self(scopes.into())
    }
}

impl Serialize for Scopes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_admin_may_call_and_read_but_not_approve() {
        let admin = Scopes::from(vec![Scope::Admin]);
        let may: Vec<_> = Scope::ALL.into_iter().filter(|scope| admin.allow(*scope)).collect();
        assert_eq!(may, [Scope::Call, Scope::Read, Scope::Admin]);
        assert!(!Scopes::default().allow(Scope::Read));
    }

    #[test]
    fn two_keys_of_one_person_are_the_same_caller_and_two_without_a_person_are_not() {
        let (one, other) = (KeyId(uuid::Uuid::from_u128(1)), KeyId(uuid::Uuid::from_u128(2)));
        let ann: PersonId = "ann".parse().unwrap();
        let who = |person: Option<&PersonId>| Principal {
            key: one,
            tenant: "acme".parse().unwrap(),
            persona: None,
            scopes: Scopes::default(),
            label: String::new(),
            person: person.cloned(),
        };
        assert!(who(None).is(one, None) && who(Some(&ann)).is(one, None));
        assert!(who(Some(&ann)).is(other, Some(&ann)));
        assert!(who(Some(&ann)).is(other, Some(&"ANN".parse().unwrap())), "however it is spelt");
        let bob = "bob".parse().unwrap();
        assert!(!who(None).is(other, None) && !who(Some(&ann)).is(other, Some(&bob)));
        assert!(!who(None).is(other, Some(&ann)) && !who(Some(&ann)).is(other, None));
    }
}
