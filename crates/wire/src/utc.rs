//! Moments as people write them, always UTC: calendar arithmetic (RFC 3339).
//!
//! The programs read the clock.

/// The number of seconds in a day.
pub const SECONDS_PER_DAY: u64 = 86_400;

/// POSIX seconds of `2026-11-15`, `2026-11-15T08:30Z` or `2026-11-15T08:30:00Z`, from 1970 to 9999.
pub fn parse(text: &str) -> Option<u64> {
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

/// `2026-11-15T08:30:00Z`.
pub fn format(posix_seconds: u64) -> String {
    let (days, second) = (posix_seconds / SECONDS_PER_DAY, posix_seconds % SECONDS_PER_DAY);
    let (year, month, day) = civil_from_days(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Seconds of `90`, `90s`, `5m`, `1h`, `2d` or `1w`.
pub fn parse_length(text: &str) -> Result<u64, LengthError> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..) {
        Some("" | "s") => 1,
        Some("m" | "min") => 60,
        Some("h") => 3_600,
        Some("d") => SECONDS_PER_DAY,
        Some("w") => 7 * SECONDS_PER_DAY,
        _ => return Err(LengthError::Unit),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(LengthError::Number);
    }
    digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(unit))
        .ok_or(LengthError::TooLong)
}

/// `1h`, `90m`, `45s`: the largest unit that fits exactly.
pub fn format_length(seconds: u64) -> String {
    let units = [(7 * SECONDS_PER_DAY, "w"), (SECONDS_PER_DAY, "d"), (3_600, "h"), (60, "m")];
    match units.into_iter().find(|(unit, _)| seconds > 0 && seconds.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", seconds / unit),
        None => format!("{seconds}s"),
    }
}

/// Why a text is not a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LengthError {
    /// It ends in an unknown unit.
    #[error("unknown unit of time: use s, m, h, d or w")]
    Unit,
    /// It does not begin with a number.
    #[error("not a length of time: give 3600 or 1h")]
    Number,
    /// It is too long to be represented.
    #[error("too long")]
    TooLong,
}

fn numbers(text: &str, separator: char) -> Option<Vec<u64>> {
    text.split(separator)
        .map(|part| {
            let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            if digits { part.parse().ok() } else { None }
        })
        .collect()
}

/// Days since 1970-01-01 of a Gregorian date from 1970 on. Years start in March here, so that the
/// leap day is the last day of the year.
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
        ] {
            assert_eq!(parse(text), Some(seconds), "{text}");
        }
        assert_eq!(format(1_794_731_401), "2026-11-15T08:30:01Z");
        for bad in ["2026-02-29", "2026-13-01", "2026-1", "15.11.2026", "2026-11-15T08:30:01", ""] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn every_day_comes_back() {
        for day in 0..60_000 {
            let (year, month, date) = civil_from_days(day);
            assert_eq!(days_from_civil(year, month, date), day);
            assert_eq!(
                parse(&format(day * SECONDS_PER_DAY + day)),
                Some(day * SECONDS_PER_DAY + day)
            );
        }
    }

    #[test]
    fn lengths_have_units() {
        for (text, seconds) in
            [("90", 90), ("90s", 90), ("5m", 300), ("1h", 3_600), ("2w", 1_209_600)]
        {
            assert_eq!(parse_length(text), Ok(seconds));
        }
        for seconds in [0, 1, 60, 5_400, 7_200, 86_400, 604_800, u64::MAX] {
            assert_eq!(parse_length(&format_length(seconds)), Ok(seconds));
        }
        for bad in ["", "h", "1x", "-1", "+1", "99999999999999999w", "1é"] {
            assert!(parse_length(bad).is_err(), "{bad}");
        }
    }
}
