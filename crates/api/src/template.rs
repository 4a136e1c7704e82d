//! The route that a path belongs to. Paths hold ids and are without number; routes are few, so
//! they may stand in logs, spans and labels.

use std::sync::LazyLock;

use crate::openapi;

/// Those of the document, and the document's own. Plain ones first: they win over those with a
/// place for a name.
static TEMPLATES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut templates = openapi::paths();
    templates.extend(["/docs", "/openapi.json"].map(str::to_owned));
    templates.sort_by_key(|template| template.contains('{'));
    templates
});

/// The route of a path, if there is one.
pub(crate) fn of(path: &str) -> Option<&'static str> {
    TEMPLATES.iter().find(|template| fits(template, path)).map(String::as_str)
}

fn fits(template: &str, path: &str) -> bool {
    let (mut wanted, mut found) = (template.split('/'), path.split('/'));
    loop {
        match (wanted.next(), found.next()) {
            (None, None) => return true,
            (Some(wanted), Some(found)) if wanted == found => {}
            (Some(wanted), Some(found)) if wanted.starts_with('{') && !found.is_empty() => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_finds_its_route_and_nonsense_finds_none() {
        for (path, route) in [
            ("/", Some("/")),
            ("/v1/calls", Some("/v1/calls")),
            ("/v1/calls/019a/output/stdout", Some("/v1/calls/{id}/output/{stream}")),
            ("/skills/list", Some("/skills/list")),
            ("/skills/other", Some("/skills/{id}")),
            ("/docs", Some("/docs")),
            ("/v1/calls/", None),
            ("/v1/nothing", None),
            ("", None),
        ] {
            assert_eq!(of(path), route, "{path}");
        }
    }
}
