//! Paths of all doors: the route pattern of a path, its area, and whether it needs a key. Paths hold
//! ids and are without number; patterns and areas are few, so they may stand in logs, spans and labels.

use crate::Door;

/// Paths of all doors.
#[derive(Debug)]
pub(crate) struct Paths {
    open: Vec<&'static str>,
    /// Plain ones first: they win over those with a place for a name.
    patterns: Vec<String>,
    areas: Vec<&'static str>,
}

impl Paths {
    pub(crate) fn of(doors: &[&dyn Door]) -> Self {
        let mut patterns: Vec<_> = doors.iter().flat_map(|door| door.route_patterns()).collect();
        patterns.sort_by_key(|pattern| pattern.contains('{'));
        let open = doors.iter().flat_map(|door| door.open_paths()).collect();
        let areas = doors.iter().flat_map(|door| door.areas()).copied().collect();
        Self { open, patterns, areas }
    }

    /// Whether a path needs no key.
    pub(crate) fn is_open(&self, path: &str) -> bool {
        self.open.contains(&path)
    }

    /// The route pattern of a path, if there is one.
    pub(crate) fn pattern(&self, path: &str) -> Option<&str> {
        self.patterns.iter().find(|pattern| fits(pattern, path)).map(String::as_str)
    }

    /// The area that a path is counted in.
    pub(crate) fn area(&self, path: &str) -> &'static str {
        self.areas.iter().copied().find(|area| path.starts_with(area)).unwrap_or("other")
    }
}

fn fits(pattern: &str, path: &str) -> bool {
    let (mut wanted, mut found) = (pattern.split('/'), path.split('/'));
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
    use axum::Router;

    use super::*;

    #[derive(Debug)]
    struct Example;

    impl Door for Example {
        fn routes(&self) -> Router {
            Router::new()
        }

        fn open_paths(&self) -> Vec<&'static str> {
            vec!["/"]
        }

        fn route_patterns(&self) -> Vec<String> {
            ["/", "/v1/calls/{id}/output/{stream}", "/v1/calls", "/skills/{id}", "/skills/list"]
                .map(str::to_owned)
                .to_vec()
        }

        fn areas(&self) -> &'static [&'static str] {
            &["/v1/calls", "/skills"]
        }
    }

    #[test]
    fn a_path_finds_its_pattern_and_nonsense_finds_none() {
        let paths = Paths::of(&[&Example]);
        for (path, pattern) in [
            ("/", Some("/")),
            ("/v1/calls", Some("/v1/calls")),
            ("/v1/calls/019a/output/stdout", Some("/v1/calls/{id}/output/{stream}")),
            ("/skills/list", Some("/skills/list")),
            ("/skills/other", Some("/skills/{id}")),
            ("/v1/calls/", None),
            ("/v1/nothing", None),
            ("", None),
        ] {
            assert_eq!(paths.pattern(path), pattern, "{path}");
        }
    }

    #[test]
    fn only_named_areas_are_labels() {
        let paths = Paths::of(&[&Example]);
        assert_eq!(paths.area("/v1/calls/019a"), "/v1/calls");
        assert_eq!(paths.area("/made/up"), "other");
    }
}
