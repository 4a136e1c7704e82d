//! Settings of the bus, of the door that reads requests from it, and of Redis.

use std::{collections::BTreeMap, str::FromStr};

use ringfence_bus::{KafkaOptions, kafka::has_tls};
use ringfence_intake::{Config as IntakeConfig, REQUESTS, RESULTS};
use ringfence_redis::{Config as RedisConfig, RedisUrl};
use ringfence_types::{KeyId, TenantId};

use super::read::Reader;

/// Topic of held and denied calls.
const BLOCKED: &str = "policy.blocked";

/// Topic of what a conversation shows.
const CONVERSATION: &str = "conversation.outbound";

/// Protocols of brokers, and whether they need TLS.
const PROTOCOLS: [(&str, bool); 4] =
    [("PLAINTEXT", false), ("SASL_PLAINTEXT", false), ("SSL", true), ("SASL_SSL", true)];

/// Mechanisms of SASL, and whether they need OpenSSL.
const MECHANISMS: [(&str, bool); 3] =
    [("PLAIN", false), ("SCRAM-SHA-256", true), ("SCRAM-SHA-512", true)];

/// Advice for builds that lack a protocol.
const NO_TLS: &str = "needs a build with TLS for Kafka: cargo build --release --features kafka-tls";

/// Kafka as the bus.
#[derive(Debug, Clone)]
pub(crate) struct Kafka {
    options: KafkaOptions,
}

impl Kafka {
    /// Options for an installation of this name.
    pub(crate) fn options(&self, installation: &str) -> KafkaOptions {
        KafkaOptions { installation: installation.to_owned(), ..self.options.clone() }
    }

    /// Topics that a server uses.
    pub(crate) fn topics() -> [&'static str; 4] {
        [REQUESTS, RESULTS, BLOCKED, CONVERSATION]
    }
}

impl Reader<'_> {
    /// Nothing without an address; then nothing else of it matters.
    pub(super) fn kafka(&mut self) -> Option<Option<Kafka>> {
        if self.layers.get("bus").values.is_empty() {
            return Some(None);
        }
        let brokers = self.one("bus", brokers);
        let properties = self.properties();
        let names = self.topic_names();
        let create_topics = self.truth("kafka.create_topics");
        let partitions = self.count("kafka.partitions", 1, 10_000);
        let replicas = match self.layers.get("kafka.replicas").values.is_empty() {
            true => Some(None),
            false => self.count("kafka.replicas", 1, 100).map(Some),
        };
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let options = KafkaOptions {
            properties: properties?,
            topic_names: names?,
            create_topics: create_topics?,
            partitions: number(partitions?),
            replicas: replicas?.map(number),
            optional_topics: vec![CONVERSATION.to_owned()],
            ..KafkaOptions::new(brokers?, "")
        };
        Some(Some(Kafka { options }))
    }

    fn properties(&mut self) -> Option<Vec<(String, String)>> {
        let protocol = self.one("kafka.security_protocol", |text| among(text, &PROTOCOLS));
        let mechanism = self.optional("kafka.sasl_mechanism", |text| among(text, &MECHANISMS));
        let username = self.optional("kafka.sasl_username", |text| Ok(text.to_owned()));
        let password = self.optional("kafka.sasl_password", |text| Ok(text.to_owned()));
        let further = self.many("kafka.properties", |text| {
            let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
            let pair = pair.map(|(name, value)| (name.to_owned(), value.to_owned()));
            // Not repeated in the complaint: it may be a secret.
            pair.ok_or_else(|| "is not name=value".to_owned())
        });
        let named = [
            ("security.protocol", Some(protocol?)),
            ("sasl.mechanism", mechanism?),
            ("sasl.username", username?),
            ("sasl.password", password?),
        ];
        let named = named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Some(named.chain(further?).collect())
    }

    fn topic_names(&mut self) -> Option<BTreeMap<String, String>> {
        let mut names = BTreeMap::new();
        for (topic, setting) in [
            (REQUESTS, "kafka.requests_topic"),
            (RESULTS, "kafka.results_topic"),
            (BLOCKED, "kafka.blocked_topic"),
            (CONVERSATION, "kafka.conversation_topic"),
        ] {
            let name = self.one(setting, topic_name)?;
            if name != topic {
                names.insert(topic.to_owned(), name);
            }
        }
        Some(names)
    }

    /// The door is closed without a key.
    pub(super) fn intake(&mut self) -> Option<Option<IntakeConfig>> {
        let key = self.optional("intake.key", key_id);
        let tenants = self.many("intake.tenants", |text| {
            let (tenant, key) = text.split_once('=').ok_or("is not tenant=key id".to_owned())?;
            let tenant = TenantId::from_str(tenant).map_err(|error| error.to_string())?;
            Ok((tenant, key_id(key)?))
        });
        let group = self.one("intake.group", topic_name);
        let accepting = self.count("intake.accepting", 1, 1_000);
        let (key, tenants) = (key?, tenants?);
        if key.is_none() && tenants.is_empty() {
            return Some(None);
        }
        let tenants = tenants.into_iter().collect();
        Some(Some(IntakeConfig { group: group?, key, tenants, accepting: accepting? }))
    }

    /// Nothing without an address.
    pub(super) fn redis(&mut self) -> Option<Option<RedisConfig>> {
        let url = self.optional("redis", |text| {
            RedisUrl::from_str(text).map_err(|problem| problem.to_string())
        });
        let requeue_prefix = self.one("redis_mirror.requeue_prefix", |text| {
            let is_allowed = (1..=200).contains(&text.len()) && !text.contains(char::is_whitespace);
            is_allowed.then(|| text.to_owned()).ok_or("is not 1 to 200 characters".to_owned())
        });
        let session_lifetime = self.time("redis_mirror.session_lifetime");
        let config = |url| {
            Some(RedisConfig {
                url,
                requeue_prefix: requeue_prefix?,
                session_lifetime: session_lifetime?,
            })
        };
        match url? {
            Some(url) => config(url).map(Some),
            None => Some(None),
        }
    }

    /// A setting that may be empty.
    pub(super) fn optional<T>(
        &mut self,
        name: &'static str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Option<Option<T>> {
        match self.layers.get(name).values.is_empty() {
            true => Some(None),
            false => self.one(name, read).map(Some),
        }
    }
}

fn key_id(text: &str) -> Result<KeyId, String> {
    text.parse().map_err(|_| format!("`{text}` is not the id of a key; ringfence key list --json"))
}

/// Addresses of brokers.
fn brokers(text: &str) -> Result<String, String> {
    let problem = || format!("`{text}` is not kafka://HOST:PORT");
    let list = text.strip_prefix("kafka://").ok_or_else(problem)?;
    let is_address = |address: &str| {
        let (host, port) = address.rsplit_once(':').unwrap_or_default();
        !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
    };
    match list.split(',').all(is_address) {
        true => Ok(list.to_owned()),
        false => Err(problem()),
    }
}

/// Name that Kafka takes for a topic or a group.
fn topic_name(text: &str) -> Result<String, String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    match (1..=200).contains(&text.len()) && text.chars().all(is_allowed) {
        true => Ok(text.to_owned()),
        false => Err(format!("`{text}` is not 1 to 200 letters, digits, dots, `_` and `-`")),
    }
}

/// One of these words, if this build can do it.
fn among(text: &str, words: &[(&'static str, bool)]) -> Result<String, String> {
    let text = text.to_ascii_uppercase();
    match words.iter().find(|(word, _)| *word == text) {
        Some((_, true)) if !has_tls() => Err(format!("{text} {NO_TLS}")),
        Some((word, _)) => Ok((*word).to_owned()),
        None => {
            let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            Err(format!("`{text}` is none of {}", words.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_brokers_are_checked() {
        assert_eq!(brokers("kafka://a:1,b:2").as_deref(), Ok("a:1,b:2"));
        for wrong in ["a:1", "http://a:1", "kafka://", "kafka://a", "kafka://a:0", "kafka://a:1,"] {
            assert!(brokers(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_this_build_cannot_do_is_said_at_once() {
        assert_eq!(among("plaintext", &PROTOCOLS).as_deref(), Ok("PLAINTEXT"));
        assert_eq!(among("SASL_SSL", &PROTOCOLS).is_ok(), has_tls());
        assert!(among("TLS", &PROTOCOLS).unwrap_err().contains("SASL_SSL"));
    }
}
