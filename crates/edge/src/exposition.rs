//! The formats of metrics: OpenMetrics, or the older text format of Prometheus.
//!
//! The library writes OpenMetrics. The older format differs in the names of counters' families and
//! in the kinds it knows, so it is made from the other by rewriting the lines that describe.

use http::{HeaderMap, HeaderValue};

use crate::body::accepts;

/// A way to write metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format 0.0.4 of Prometheus.
    Text,
}

impl Format {
    /// The one that a client asks for; the older one if it does not say, which all of them read.
    pub fn wanted(headers: &HeaderMap) -> Self {
        let open = HeaderValue::from_static("application/openmetrics-text");
        if accepts(headers, &open) { Self::OpenMetrics } else { Self::Text }
    }

    /// Its media type.
    pub const fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        })
    }

    /// Metrics in this format, from OpenMetrics.
    pub fn write(self, open: String) -> String {
        match self {
            Self::OpenMetrics => open,
            Self::Text => older(&open),
        }
    }
}

fn older(open: &str) -> String {
    let mut text = String::with_capacity(open.len());
    // The library writes a family's description before its kind, and the kind decides its name.
    let mut about = None;
    for line in open.lines() {
        if let Some(description) = line.strip_prefix("# HELP ") {
            about = description.split_once(' ');
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|described| described.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                kind => ("", kind),
            };
            if let Some((_, about)) = about.take() {
                text += &format!("# HELP {name}{suffix} {about}\n");
            }
            text += &format!("# TYPE {name}{suffix} {kind}\n");
        } else if !line.starts_with('#') {
            text += line;
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use http::header::ACCEPT;

    use super::*;

    fn wanted(accept: &'static str) -> Format {
        Format::wanted(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]))
    }

    #[test]
    fn a_client_gets_the_format_it_asks_for() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;q=0.5";
        assert_eq!(wanted(prometheus), Format::OpenMetrics);
        assert_eq!(wanted("*/*"), Format::Text);
        assert_eq!(Format::wanted(&HeaderMap::new()), Format::Text);
    }

    #[test]
    fn descriptions_follow_the_names_of_the_older_format() {
        let open = "# HELP calls Calls.\n# TYPE calls counter\ncalls_total{a=\"# x\"} 1\n\
                    # HELP build Build.\n# TYPE build info\nbuild_info{v=\"1\"} 1\n\
                    # HELP took Took.\n# TYPE took histogram\n# UNIT took seconds\n\
                    took_bucket{le=\"+Inf\"} 0\n# EOF\n";
        let text = "# HELP calls_total Calls.\n# TYPE calls_total counter\ncalls_total{a=\"# x\"} 1\n\
                    # HELP build_info Build.\n# TYPE build_info gauge\nbuild_info{v=\"1\"} 1\n\
                    # HELP took Took.\n# TYPE took histogram\ntook_bucket{le=\"+Inf\"} 0\n";
        assert_eq!(Format::Text.write(open.to_owned()), text);
    }
}
