//! Moments and lengths of time as people type and read them, always UTC.

use anyhow::{Result, anyhow, bail};
use sotto_protocol::Moment;

const SECONDS_PER_DAY: u64 = 86_400;

/// Parses `now`, POSIX seconds, `2026-11-15` or `2026-11-15T08:30[:00]Z`.
pub(crate) fn parse_moment(text: &str) -> Result<Moment> {
    if text == "now" {
        return now();
    }
    if let Ok(seconds) = text.parse() {
        return Ok(Moment(seconds));
    }
    parse_date(text)
        .map(Moment)
        .ok_or_else(|| anyhow!("{text:?} is no time: give POSIX seconds or 2026-11-15T08:30:00Z"))
}

/// Parses seconds, or a number with the unit `s`, `m`, `h`, `d` or `w`.
pub(crate) fn parse_seconds(text: &str) -> Result<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &text[digits.len()..] {
        "" | "s" => 1,
        "m" | "min" => 60,
        "h" => 3_600,
        "d" => SECONDS_PER_DAY,
        "w" => 7 * SECONDS_PER_DAY,
        other => bail!("{other:?} is no unit of time: use s, m, h, d or w"),
    };
    let number: u64 =
        digits.parse().map_err(|_| anyhow!("{text:?} is no length of time: give 3600 or 1h"))?;
    number.checked_mul(unit).ok_or_else(|| anyhow!("{text:?} is too long"))
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
    let (days, second) = (moment.0 / SECONDS_PER_DAY, moment.0 % SECONDS_PER_DAY);
    let (year, month, day) = civil_from_days(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// `1h`, `90m`, `45s`: the largest unit that fits exactly.
pub(crate) fn show_seconds(seconds: u64) -> String {
    let units = [(7 * SECONDS_PER_DAY, "w"), (SECONDS_PER_DAY, "d"), (3_600, "h"), (60, "m")];
    match units.into_iter().find(|(unit, _)| seconds > 0 && seconds.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", seconds / unit),
        None => format!("{seconds}s"),
    }
}

fn parse_date(text: &str) -> Option<u64> {
    let (date, clock) = match text.split_once('T') {
        Some((date, clock)) => (date, clock.strip_suffix('Z')?),
        None => (text, "00:00:00"),
    };
    let [year, month, day] = numbers(date, '-')?[..] else { return None };
    let (hour, minute, second) = match numbers(clock, ':')?[..] {
        [hour, minute] => (hour, minute, 0),
        [hour, minute, second] => (hour, minute, second),
        _ => return None,
    };
    let in_range = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !in_range {
        return None;
    }
    let days = days_from_civil(year, month, day);
    // A day that the month does not have comes back as another date.
    (civil_from_days(days) == (year, month, day))
        .then_some(days * SECONDS_PER_DAY + hour * 3_600 + minute * 60 + second)
}

fn numbers(text: &str, separator: char) -> Option<Vec<u64>> {
    text.split(separator)
        .map(|part| {
            let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            if digits { part.parse().ok() } else { None }
        })
        .collect()
}

/// Days since 1970-01-01 of a Gregorian date from 1970 on. The year is taken to begin in March, so
/// that the leap day is its last.
fn days_from_civil(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = year * 365 + year / 4 - year / 100 + year / 400 + day_of_year;
    days - 719_468
}

/// The inverse of [`days_from_civil`].
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
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
    fn every_day_comes_back() {
        for day in 0..60_000 {
            let (year, month, date) = civil_from_days(day);
            assert_eq!(days_from_civil(year, month, date), day);
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
