//! HTTP dates (RFC 9110 §5.6.7), only in the preferred format.
//!
//! Senders must not generate any other. The obsolete formats are read as no date: the only reader
//! here, the gateway, treats that as a date outside its window.

use sotto_wire::utc;

use crate::Moment;

/// The inner `date` of a request is rounded down to a multiple of this, so that it says nothing
/// about one device's clock. Requests of the same ten minutes share it.
pub const DATE_STEP_S: u64 = 600;

/// The last second of the year 9999, the last four-digit year.
const LAST: u64 = 253_402_300_799;

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// `Sun, 06 Nov 1994 08:49:37 GMT`. Moments after the year 9999 are shown as its last second.
pub fn imf_fixdate(moment: Moment) -> String {
    let seconds = moment.0.min(LAST);
    // 1970 began on a Thursday.
    let weekday = name(&DAYS, seconds / utc::SECONDS_PER_DAY % 7);
    // `2026-11-15T08:30:00Z`, sliced at fixed positions.
    let text = utc::format(seconds);
    let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    let month = name(&MONTHS, part(5, 7).parse::<u64>().unwrap_or(1).saturating_sub(1));
    format!("{weekday}, {} {month} {} {} GMT", part(8, 10), part(0, 4), part(11, 19))
}

/// The moment of a date in exactly that format, with the right weekday.
pub fn parse_imf_fixdate(text: &[u8]) -> Option<Moment> {
    let text = std::str::from_utf8(text).ok()?;
    let mut parts = text.split(' ');
    let mut next = || parts.next();
    let (_weekday, day, month, year, clock) = (next()?, next()?, next()?, next()?, next()?);
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    let moment = Moment(utc::parse(&format!("{year}-{month:02}-{day}T{clock}Z"))?);
    // Checks the weekday, the zone, leading zeros and everything else: formatting must give the
    // same text.
    (imf_fixdate(moment) == text).then_some(moment)
}

/// The `date` field of a request made now.
pub fn rounded_date(now: Moment) -> String {
    imf_fixdate(Moment(now.0 - now.0 % DATE_STEP_S))
}

fn name(names: &[&'static str], index: u64) -> &'static str {
    usize::try_from(index).ok().and_then(|index| names.get(index)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_as_rfc_9110_does() {
        for (seconds, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_794_731_401, "Sun, 15 Nov 2026 08:30:01 GMT"),
            (LAST, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            assert_eq!(imf_fixdate(Moment(seconds)), text);
            assert_eq!(parse_imf_fixdate(text.as_bytes()), Some(Moment(seconds)));
        }
        assert_eq!(imf_fixdate(Moment(u64::MAX)), imf_fixdate(Moment(LAST)));
    }

    #[test]
    fn every_day_comes_back() {
        for day in 0..60_000 {
            let moment = Moment(day * utc::SECONDS_PER_DAY + day);
            assert_eq!(parse_imf_fixdate(imf_fixdate(moment).as_bytes()), Some(moment));
        }
    }

    #[test]
    fn everything_else_is_no_date() {
        for bad in [
            "",
            "Mon, 06 Nov 1994 08:49:37 GMT",
            "sun, 06 Nov 1994 08:49:37 GMT",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 GMT ",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:60 GMT",
            "Thu, 30 Feb 2026 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "784111777",
        ] {
            assert_eq!(parse_imf_fixdate(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(parse_imf_fixdate(&[0xff; 29]), None);
    }

    #[test]
    fn rounding_goes_down_to_ten_minutes() {
        for (now, date) in [(0, 0), (599, 0), (600, 600), (1_200, 1_200), (1_799, 1_200)] {
            assert_eq!(rounded_date(Moment(now)), imf_fixdate(Moment(date)));
        }
    }
}
