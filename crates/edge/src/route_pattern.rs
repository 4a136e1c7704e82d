//! Paths of all doors: the route pattern of a path, its area, and whether it needs a key. Paths hold
//! ids and are without number; patterns and areas are few, so they may stand in logs, spans and labels.

use http::Method;
use ringfence_engine::Owned;

use crate::{Door, OwnedRule};

/// Paths of all doors.
#[derive(Debug)]
pub(crate) struct Paths {
    open: Vec<&'static str>,
    /// Plain ones first: they win over those with a place for a name.
    patterns: Vec<String>,
    areas: Vec<&'static str>,
    /// Beginnings of paths on which a session's cookie stands for a key.
    session_areas: Vec<&'static str>,
    owned: Vec<OwnedRule>,
}

impl Paths {
    pub(crate) fn of(doors: &[&dyn Door]) -> Self {
        let mut patterns: Vec<_> = doors.iter().flat_map(|door| door.route_patterns()).collect();
        patterns.sort_by_key(|pattern| pattern.contains('{'));
        let open = doors.iter().flat_map(|door| door.open_paths()).collect();
        let areas = doors.iter().flat_map(|door| door.areas()).copied().collect();
        let session_areas = doors.iter().filter_map(|door| door.session_area()).collect();
        let owned = doors.iter().filter_map(|door| door.owned()).collect();
        Self { open, patterns, areas, session_areas, owned }
    }

    /// Whether a path needs no key.
    pub(crate) fn is_open(&self, path: &str) -> bool {
        self.open.contains(&path)
    }

    /// Whether a session's cookie stands for a key on this path, and nothing else does.
    pub(crate) fn takes_sessions(&self, path: &str) -> bool {
        let is_within = |area: &&str| {
            path.strip_prefix(*area).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.session_areas.iter().any(is_within)
    }

    /// Subject of a request that one process alone has in memory.
    pub(crate) fn owned(&self, method: &Method, path: &str) -> Option<Owned> {
        self.owned.iter().find_map(|rule| rule(method, path))
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

        fn session_area(&self) -> Option<&'static str> {
            Some("/skills")
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
    fn sessions_count_within_their_area_alone() {
        let paths = Paths::of(&[&Example]);
        assert!(["/skills", "/skills/list"].into_iter().all(|path| paths.takes_sessions(path)));
        assert!(
            ["/", "/skillset", "/v1/calls"].into_iter().all(|path| !paths.takes_sessions(path))
        );
    }

    #[test]
    fn only_named_areas_are_labels() {
        let paths = Paths::of(&[&Example]);
        assert_eq!(paths.area("/v1/calls/019a"), "/v1/calls");
        assert_eq!(paths.area("/made/up"), "other");
    }
}
