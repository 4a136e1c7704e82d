//! Current time, as RFC 3339 in UTC.

/// Current time, to the second.
#[expect(clippy::disallowed_methods, reason = "the command line is where time enters")]
pub(crate) fn now() -> String {
    let now = jiff::Timestamp::try_from(std::time::SystemTime::now()).unwrap_or_default();
    format!("{now:.0}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_time_has_whole_seconds() {
        let now = super::now();
        assert!(now.len() == 20 && now.ends_with('Z'), "{now}");
        assert!(now.parse::<jiff::Timestamp>().is_ok(), "{now}");
    }
}
