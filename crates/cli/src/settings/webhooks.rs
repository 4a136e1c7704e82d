//! Settings of `webhook`.

use reqwest::Url;
use ringfence_egress::Target;
use ringfence_webhook::{Config, Secret};

use super::read::Reader;

/// Published topics.
const TOPICS: [&str; 2] = ["policy.blocked", "tool.results"];

impl Reader<'_> {
    /// The configuration; none without a URL, and then nothing else matters.
    pub(super) fn webhooks(&mut self) -> Option<Option<Config>> {
        if self.layers.get("webhook.urls").values.is_empty() {
            return Some(None);
        }
        let urls = self.many("webhook.urls", target);
        let secret = self.one("webhook.secret", |text| match text {
            "" => Err("is required for webhook.urls: receivers check it".to_owned()),
            text => Secret::read(text).map_err(|invalid| invalid.to_string()),
        });
        let topics = self.many("webhook.topics", |text| match TOPICS.contains(&text) {
            true => Ok(text.to_owned()),
            false => Err(format!("`{text}` is none of {}", TOPICS.join(", "))),
        });
        let (timeout, pause) = (self.time("webhook.timeout"), self.time("webhook.pause"));
        Some(Some(Config {
            urls: urls?,
            secret: secret?,
            topics: topics?,
            timeout: timeout?,
            pause: pause?,
        }))
    }
}

/// A URL to send to. Errors do not repeat it: its path may be a secret.
fn target(text: &str) -> Result<Target, String> {
    Target::parse(text).map_err(|problem| format!("{problem}; expected https://host/path"))
}

/// A URL. Errors do not repeat it: its path may be a secret.
pub(super) fn address(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    url.filter(Url::has_host)
        .ok_or_else(|| "is not an address such as https://host/path".to_owned())
}
