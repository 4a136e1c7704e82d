//! Settings of `otlp` as the configuration of the exporter.

use std::path::Path;

use percent_encoding::percent_decode_str;
use reqwest::{
    Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use ringfence_otlp as otlp;

use super::{file, read::Reader};

impl Reader<'_> {
    /// The configuration; none without an endpoint, and then nothing else matters.
    pub(super) fn otlp(&mut self) -> Option<Option<otlp::Config>> {
        let is_given = |name: &str| !self.layers.get(name).values.is_empty();
        let endpoint = match (is_given("otlp.traces_endpoint"), is_given("otlp.endpoint")) {
            (true, _) => self.one("otlp.traces_endpoint", address),
            (false, true) => self.one("otlp.endpoint", |text| address(text).map(|url| below(&url))),
            (false, false) => return Some(None),
        };
        let protocol = self.one("otlp.protocol", |text| match text {
            "http/protobuf" => Ok(()),
            other => Err(format!("`{other}` is not supported; use http/protobuf")),
        });
        let (listed, kept) = (self.many("otlp.headers", header), self.kept_headers());
        let (timeout, queue) = (self.time("otlp.timeout"), self.count("otlp.queue", 1, 1_000_000));
        let (sample, resource) = (self.one("otlp.sample", share), self.resource());
        protocol?;
        Some(Some(otlp::Config {
            endpoint: endpoint?,
            headers: HeaderMap::from_iter(kept?.into_iter().chain(listed?)),
            timeout: timeout?,
            queue: queue?,
            sample: sample?,
            resource: resource?,
        }))
    }

    /// Headers of the file, if there is one.
    fn kept_headers(&mut self) -> Option<Vec<(HeaderName, HeaderValue)>> {
        if self.layers.get("otlp.headers_file").values.is_empty() {
            return Some(Vec::new());
        }
        self.one("otlp.headers_file", |path| {
            let text =
                file::content(Path::new(path)).map_err(|error| format!("{path}: {error}"))?;
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            let lines = lines.filter(|line| !line.starts_with('#')).map(|line| {
                let (name, value) = line.split_once(':').ok_or(WRONG_LINE)?;
                field(name, value.as_bytes())
            });
            lines.collect()
        })
    }

    fn resource(&mut self) -> Option<Vec<(String, String)>> {
        let service = self.one("otlp.service", |text| Ok(text.to_owned()));
        let more = self.many("otlp.resource", |text| {
            let wrong = || format!("`{text}` is not name=value");
            let (name, value) = text.split_once('=').ok_or_else(wrong)?;
            let value = percent_decode_str(value).decode_utf8().map_err(|_| wrong())?.into_owned();
            Ok((name.trim().to_owned(), value))
        });
        let version = ("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        let mut resource = vec![("service.name".to_owned(), service?), version];
        for (name, value) in more? {
            // An explicit attribute overrides the default one.
            resource.retain(|(known, _)| *known != name);
            resource.push((name, value));
        }
        Some(resource)
    }
}

const WRONG_LINE: &str = "a line is not `name: value`";

/// Endpoint without credentials: it is shown and logged, so secrets belong into headers.
fn address(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    match url {
        Some(url) if !url.username().is_empty() || url.password().is_some() => {
            Err("an address with a name or a password; use otlp.headers".to_owned())
        }
        Some(url) => Ok(url),
        None => Err("not an address such as http://localhost:4318".to_owned()),
    }
}

/// Path for traces below a base URL.
fn below(base: &Url) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}/v1/traces", base.path().trim_end_matches('/')));
    url
}

/// Header from `name=value`; as in the standard variable, the value is percent-encoded. Errors do
/// not repeat the value.
fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text.split_once('=').ok_or("a header is not name=value")?;
    field(name, &percent_decode_str(value).collect::<Vec<_>>())
}

fn field(name: &str, value: &[u8]) -> Result<(HeaderName, HeaderValue), String> {
    let name: HeaderName = name.trim().parse().map_err(|_| "the name of a header is not one")?;
    let mut value = HeaderValue::from_bytes(value.trim_ascii())
        .map_err(|_| format!("the value of header `{name}` is not one"))?;
    value.set_sensitive(true);
    Ok((name, value))
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("`{text}` is not a number from 0 to 1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_address_gets_the_path_of_traces() {
        for (base, whole) in [
            ("http://localhost:4318", "http://localhost:4318/v1/traces"),
            ("https://a.example/otel/", "https://a.example/otel/v1/traces"),
        ] {
            assert_eq!(below(&address(base).unwrap()).as_str(), whole);
        }
        for bad in ["", "localhost:4318", "ftp://a", "http://user:pw@a"] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_header_is_decoded_and_what_is_wrong_is_told_without_it() {
        let (name, value) = header("Authorization=Basic%20c2VjcmV0Og==").unwrap();
        assert_eq!(
            (name.as_str(), value.to_str().unwrap()),
            ("authorization", "Basic c2VjcmV0Og==")
        );
        assert!(!format!("{value:?}").contains("c2Vj"), "{value:?}");
        for bad in ["c2VjcmV0", "a b=c2VjcmV0", "a=c2VjcmV0%0ax"] {
            assert!(!header(bad).unwrap_err().contains("c2Vj"), "{bad}");
        }
        assert_eq!(header("a=100%, %zz%4").unwrap().1, "100%, %zz%4");
    }
}
