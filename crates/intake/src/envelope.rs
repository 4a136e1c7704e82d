//! Envelope of a message: CloudEvents in binary or structured mode, or a bare document.

use ringfence_bus::Message;
use ringfence_types::{Json, TraceContext, TraceParent, TraceState};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Media type of a structured event.
const STRUCTURED: &str = "application/cloudevents+json";

/// Document of a message and the trace that its envelope names.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) document: Json,
    pub(crate) trace: Option<TraceContext>,
}

/// Structured event, as far as it matters here.
#[derive(Deserialize)]
struct Event<'a> {
    specversion: String,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    data_base64: Option<serde::de::IgnoredAny>,
    traceparent: Option<String>,
    tracestate: Option<String>,
}

/// Opens the envelope of a message, or says what is wrong with it.
pub(crate) fn open(message: &Message) -> Result<Opened, String> {
    let header = |name: &str| {
        let mut found =
            message.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        found.next().and_then(|(_, value)| std::str::from_utf8(value).ok())
    };
    let document = Json::parse(&message.payload).map_err(|error| format!("not JSON: {error}"))?;
    let is_structured = header("content-type").is_some_and(|kind| {
        let kind = kind.split(';').next().unwrap_or_default();
        kind.trim().eq_ignore_ascii_case(STRUCTURED)
    });
    if is_structured {
        return structured(&document);
    }
    let version = header("ce_specversion");
    if let Some(version) = version.filter(|version| *version != "1.0") {
        return Err(format!("CloudEvents {} is not supported, only 1.0", shown(version)));
    }
    // Binary mode names traces by the extension, bare clients by the header of W3C.
    let parent = header("ce_traceparent").or_else(|| header("traceparent"));
    let state = header("ce_tracestate").or_else(|| header("tracestate"));
    Ok(Opened { document, trace: trace(parent, state) })
}

fn structured(document: &Json) -> Result<Opened, String> {
    let invalid = |error| format!("not a structured CloudEvent: {error}");
    let event: Event<'_> = document.read().map_err(invalid)?;
    if event.specversion != "1.0" {
        return Err(format!(
            "CloudEvents {} is not supported, only 1.0",
            shown(&event.specversion)
        ));
    }
    if event.data_base64.is_some() {
        return Err("`data_base64` is not supported: `data` must be a JSON object".to_owned());
    }
    let data = event.data.and_then(|data| document.part(data));
    let document = data.ok_or("the CloudEvent has no `data`")?;
    let trace = trace(event.traceparent.as_deref(), event.tracestate.as_deref());
    Ok(Opened { document, trace })
}

/// Trace of a pair of values. What is not valid is ignored, as the specification asks.
pub(crate) fn trace(parent: Option<&str>, state: Option<&str>) -> Option<TraceContext> {
    let parent: TraceParent = parent?.trim().parse().ok()?;
    Some(TraceContext { parent, state: TraceState::parse(state) })
}

fn shown(text: &str) -> String {
    format!("`{}`", text.chars().take(20).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn opened(headers: &[(&str, &str)], payload: &str) -> Result<(String, bool), String> {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).into()));
        let message = Message {
            topic: "t".to_owned(),
            key: None,
            headers: headers.collect(),
            payload: payload.into(),
        };
        open(&message).map(|opened| (opened.document.to_string(), opened.trace.is_some()))
    }

    #[test]
    fn three_envelopes_hold_the_same_document() {
        let document = r#"{"a":1}"#;
        let same = |traced| Ok((document.to_owned(), traced));
        assert_eq!(opened(&[], document), same(false));
        assert_eq!(opened(&[("traceparent", PARENT)], document), same(true));
        let binary = [
            ("content-type", "application/json"),
            ("ce_specversion", "1.0"),
            ("ce_id", "1"),
            ("ce_traceparent", PARENT),
        ];
        assert_eq!(opened(&binary, document), same(true));
        let kind = [("content-type", "application/cloudevents+json; charset=utf-8")];
        let whole = format!(
            r#"{{"specversion":"1.0","id":"1","source":"/x","type":"y","traceparent":"{PARENT}","data":{document}}}"#
        );
        assert_eq!(opened(&kind, &whole), same(true));
    }

    #[test]
    fn what_cannot_be_opened_says_why() {
        let kind = [("content-type", "application/cloudevents+json")];
        for (headers, payload, cause) in [
            (&[][..], "{", "not JSON"),
            (&[][..], r#"{"a":1,"a":2}"#, "not JSON"),
            (&[("ce_specversion", "0.3")][..], "{}", "CloudEvents `0.3` is not supported"),
            (&kind[..], "{}", "not a structured CloudEvent"),
            (&kind[..], r#"{"specversion":"2"}"#, "CloudEvents `2` is not supported"),
            (&kind[..], r#"{"specversion":"1.0"}"#, "no `data`"),
            (&kind[..], r#"{"specversion":"1.0","data_base64":""}"#, "`data_base64`"),
        ] {
            let problem = opened(headers, payload).unwrap_err();
            assert!(problem.contains(cause), "{problem}");
        }
        assert_eq!(opened(&[("traceparent", "x")], "{}"), Ok(("{}".to_owned(), false)));
    }
}
