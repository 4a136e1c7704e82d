//! Files of the console: embedded, named by their digests, and the policy that lets a browser load
//! nothing else.
//!
//! | file | origin |
//! |---|---|
//! | `htmx.min.js` | npm `htmx.org` 2.0.11, Zero-Clause BSD |
//! | `sse.min.js` | npm `htmx-ext-sse` 2.2.4, Zero-Clause BSD |
//! | `xterm.js`, `xterm.css` | npm `@xterm/xterm` 6.0.0, MIT |
//! | `addon-fit.js` | npm `@xterm/addon-fit` 0.11.0, MIT |
//! | `console.css`, `console.js`, `terminal.js`, `icon.svg` | this project |

use std::sync::LazyLock;

use axum::{extract::Path, response::Response};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use ringfence_edge::{Problem, reply};
use ringfence_types::Digest;

/// An embedded file.
#[derive(Debug)]
pub(crate) struct Asset {
    name: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
}

const STYLE: Asset =
    asset("console.css", "text/css; charset=utf-8", include_bytes!("../assets/console.css"));
const SCRIPT: Asset = asset("console.js", JAVASCRIPT, include_bytes!("../assets/console.js"));
const HTMX: Asset =
    asset("htmx.min.js", JAVASCRIPT, include_bytes!("../assets/vendor/htmx.min.js"));
const SSE: Asset = asset("sse.min.js", JAVASCRIPT, include_bytes!("../assets/vendor/sse.min.js"));
const XTERM: Asset = asset("xterm.js", JAVASCRIPT, include_bytes!("../assets/vendor/xterm.js"));
const XTERM_STYLE: Asset =
    asset("xterm.css", "text/css; charset=utf-8", include_bytes!("../assets/vendor/xterm.css"));
const XTERM_FIT: Asset =
    asset("addon-fit.js", JAVASCRIPT, include_bytes!("../assets/vendor/addon-fit.js"));
const TERMINAL: Asset = asset("terminal.js", JAVASCRIPT, include_bytes!("../assets/terminal.js"));
const ICON: Asset = asset("icon.svg", "image/svg+xml", include_bytes!("../assets/icon.svg"));

const ALL: [&Asset; 9] =
    [&STYLE, &SCRIPT, &HTMX, &SSE, &XTERM, &XTERM_STYLE, &XTERM_FIT, &TERMINAL, &ICON];

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

const fn asset(name: &'static str, content_type: &'static str, bytes: &'static [u8]) -> Asset {
    Asset { name, content_type, bytes }
}

/// Address of a file and its digest, for a page that loads it.
#[derive(Debug, Clone)]
pub(crate) struct Reference {
    /// Path; it changes with the file, so that the file may be kept for ever.
    pub(crate) path: String,
    /// Value of the attribute `integrity`.
    pub(crate) integrity: String,
}

impl Asset {
    fn reference(&self) -> Reference {
        let digest = Digest::of(self.bytes);
        let version = &digest.hex()[..12];
        Reference {
            path: format!("/console/assets/{}?v={version}", self.name),
            integrity: format!("sha256-{}", STANDARD.encode(digest.as_bytes())),
        }
    }
}

/// References of the files that every page loads.
#[derive(Debug)]
pub(crate) struct References {
    pub(crate) style: Reference,
    pub(crate) script: Reference,
    pub(crate) htmx: Reference,
    pub(crate) sse: Reference,
    pub(crate) icon: Reference,
}

/// References of the files that every page loads.
pub(crate) static REFERENCES: LazyLock<References> = LazyLock::new(|| References {
    style: STYLE.reference(),
    script: SCRIPT.reference(),
    htmx: HTMX.reference(),
    sse: SSE.reference(),
    icon: ICON.reference(),
});

/// References of the files of a terminal, which only its page loads.
#[derive(Debug)]
pub(crate) struct TerminalReferences {
    pub(crate) style: Reference,
    pub(crate) terminal: Reference,
    pub(crate) xterm: Reference,
    pub(crate) fit: Reference,
}

impl TerminalReferences {
    pub(crate) fn new() -> Self {
        Self {
            style: XTERM_STYLE.reference(),
            terminal: TERMINAL.reference(),
            xterm: XTERM.reference(),
            fit: XTERM_FIT.reference(),
        }
    }
}

/// Content security policy of every page: files of this server alone, no script or style within a page.
pub(crate) const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
     frame-src 'self'",
);

/// Content security policy of a page that a program made, which is shown in a frame: no script, no request,
/// no origin, even if it is opened by itself.
pub(crate) const FRAME_POLICY: HeaderValue = HeaderValue::from_static(
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; \
     form-action 'none'; base-uri 'none'; frame-ancestors 'self'",
);

/// Sends a file. Its address has its digest, so a browser asks once.
pub(crate) async fn serve(Path(name): Path<String>) -> Result<Response, Problem> {
    let asset = ALL.iter().find(|asset| asset.name == name).ok_or_else(Problem::not_found)?;
    let kind = HeaderValue::from_static(asset.content_type);
    let mut response = reply::of(StatusCode::OK, kind, Bytes::from_static(asset.bytes));
    let keep = HeaderValue::from_static("public, max-age=31536000, immutable");
    response.headers_mut().insert(header::CACHE_CONTROL, keep);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_others_are_as_they_were_published() {
        for (asset, digest) in [
            (&HTMX, "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717"),
            (&SSE, "98a46496de0c3605fbffdce9167ba427bdd9553184f83f149c261891a92c0136"),
            (&XTERM, "14903579ff54664cd72f8e8699e6961a6272c21863ec1c3b118cdc8af5d4a972"),
            (&XTERM_STYLE, "854a7c0fb70e8b1a083c16797ab827299fb18744f5ad34f227b48337e33293c6"),
            (&XTERM_FIT, "ba3ea256ce0620a0992a197d6c9baea64823fc93d8da07a9e366ca9943c18527"),
        ] {
            assert_eq!(Digest::of(asset.bytes).hex(), digest, "{}", asset.name);
        }
    }

    #[test]
    fn our_own_files_are_small_and_load_nothing() {
        for asset in [&STYLE, &SCRIPT, &TERMINAL, &ICON] {
            let text = std::str::from_utf8(asset.bytes).unwrap();
            assert!(text.len() < 40 << 10, "{}: {}", asset.name, text.len());
            let outside = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!outside.contains("http"), "{} names another server", asset.name);
        }
    }
}
