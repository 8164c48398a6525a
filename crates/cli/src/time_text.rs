//! Times and durations as people type and read them, always in UTC. The calendar is
//! `sotto_wire::utc`.

use anyhow::{Result, anyhow};
use sotto_protocol::Moment;
use sotto_wire::utc;

/// Parses `now`, POSIX seconds, `2026-11-15` or `2026-11-15T08:30[:00]Z`.
pub(crate) fn parse_moment(text: &str) -> Result<Moment> {
    if text == "now" {
        return now();
    }
    if let Ok(seconds) = text.parse() {
        return Ok(Moment(seconds));
    }
    utc::parse(text).map(Moment).ok_or_else(|| {
        anyhow!("{text:?} is not a time: give POSIX seconds or 2026-11-15T08:30:00Z")
    })
}

/// Parses seconds, or a number with the unit `s`, `m`, `h`, `d` or `w`.
pub(crate) fn parse_seconds(text: &str) -> Result<u64> {
    utc::parse_length(text).map_err(|error| anyhow!("{text:?}: {error}"))
}

/// The operating system's clock.
pub(crate) fn now() -> Result<Moment> {
    let since_epoch = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_err(|_| anyhow!("the clock of this machine is before 1970"))?;
    Ok(Moment(since_epoch.as_secs()))
}

/// `2026-11-15T08:30:00Z`.
pub(crate) fn show_moment(moment: Moment) -> String {
    utc::format(moment.0)
}

/// `1h`, `90m`, `45s`: the largest unit that fits exactly.
pub(crate) fn show_seconds(seconds: u64) -> String {
    utc::format_length(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_parsed_and_shown() {
        for (text, seconds) in [
            ("1970-01-01", 0),
            ("2000-02-29T12:00Z", 951_825_600),
            ("2026-11-15T08:30:01Z", 1_794_731_401),
            ("1794731401", 1_794_731_401),
        ] {
            assert_eq!(parse_moment(text).unwrap(), Moment(seconds), "{text}");
        }
        assert_eq!(show_moment(Moment(1_794_731_401)), "2026-11-15T08:30:01Z");
        for bad in ["2026-02-29", "2026-13-01", "2026-1", "15.11.2026", "2026-11-15T08:30:01", ""] {
            assert!(parse_moment(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn lengths_have_units() {
        for (text, seconds) in
            [("90", 90), ("90s", 90), ("5m", 300), ("1h", 3_600), ("2w", 1_209_600)]
        {
            assert_eq!(parse_seconds(text).unwrap(), seconds);
        }
        assert_eq!(show_seconds(7_200), "2h");
        assert_eq!(show_seconds(5_400), "90m");
        assert_eq!(show_seconds(1), "1s");
        assert_eq!(show_seconds(0), "0s");
        for bad in ["", "h", "1x", "-1", "99999999999999999w", "1é"] {
            assert!(parse_seconds(bad).is_err(), "{bad}");
        }
    }
}
