//! Times: how they are written in a payload and how a person reads them.
//!
//! A time is a string in the form of RFC 3339 (seconds may be left out), or milliseconds since 1970 as in Matrix's own
//! timestamps. There is no calendar here beyond what it takes to check a date and to write one.

use std::fmt;

use serde_json::Value;

/// The last millisecond of the year 9999.
const MAX_MILLIS: i64 = 253_402_300_799_999;

/// Whether a value is a moment: a date and time with its offset, or milliseconds.
pub(crate) fn is_time(value: &Value) -> bool {
    Moment::read(value).is_some_and(|moment| moment.clock.is_some_and(|clock| clock.offset.is_some()))
}

/// Whether a value is a moment, a time without offset (that of the place), or a day.
pub(crate) fn is_when(value: &Value) -> bool {
    Moment::read(value).is_some()
}

/// A time as it was written: `2026-03-01 18:30 +01:00`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    date: Date,
    clock: Option<Clock>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Date {
    year: i64,
    month: i64,
    day: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Clock {
    hour: i64,
    minute: i64,
    second: i64,
    /// Minutes east of UTC; `None` is the time of the place.
    offset: Option<i64>,
}

impl Moment {
    /// Reads a time in any of its forms; `None` if it is none.
    pub(crate) fn read(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => number.as_i64().filter(|millis| (0..=MAX_MILLIS).contains(millis)).map(Self::at),
            _ => None,
        }
    }

    /// The time of day, or where there is none the day of the month: what a text that tells of it has in any style.
    pub(crate) fn mark(&self) -> String {
        match self.clock {
            Some(clock) => format!("{}:{:02}", clock.hour, clock.minute),
            None => self.date.day.to_string(),
        }
    }

    fn at(millis: i64) -> Self {
        let seconds = millis.div_euclid(1000);
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let clock = Clock { hour: second / 3600, minute: second / 60 % 60, second: second % 60, offset: Some(0) };
        Self { date: Date::at(days), clock: Some(clock) }
    }

    fn parse(text: &str) -> Option<Self> {
        let Some((date, clock)) = text.split_once(['T', 't', ' ']) else {
            return Some(Self { date: Date::parse(text)?, clock: None });
        };
        Some(Self { date: Date::parse(date)?, clock: Some(Clock::parse(clock)?) })
    }
}

impl Date {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let date =
            Self { year: digits(parts.next()?, 4)?, month: digits(parts.next()?, 2)?, day: digits(parts.next()?, 2)? };
        let is_date = parts.next().is_none() && (1..=date.days_in_month()).contains(&date.day);
        is_date.then_some(date)
    }

    /// None for a month that there is not.
    fn days_in_month(self) -> i64 {
        let is_leap = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        match self.month {
            2 if is_leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => 0,
        }
    }

    /// The date so many days after 1970-01-01. Counted in years that begin in March, so that a leap day is the last.
    fn at(days: i64) -> Self {
        let days = days + 719_468;
        let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        Self { year: era * 400 + year_of_era + i64::from(month <= 2), month, day }
    }
}

impl Clock {
    fn parse(text: &str) -> Option<Self> {
        let (time, offset) = match text.find(['Z', 'z', '+', '-']) {
            Some(at) => {
                let (time, offset) = text.split_at(at);
                (time, Some(parse_offset(offset)?))
            }
            None => (text, None),
        };
        let (time, fraction) = time.split_once('.').map_or((time, None), |(time, fraction)| (time, Some(fraction)));
        let mut parts = time.split(':');
        let (hour, minute) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
        let second = parts.next().map_or(Some(0), |second| digits(second, 2))?;
        let fraction_is_fine = fraction.is_none_or(|fraction| {
            (1..=9).contains(&fraction.len()) && fraction.bytes().all(|byte| byte.is_ascii_digit())
        });
        let is_clock = parts.next().is_none() && fraction_is_fine && hour < 24 && minute < 60 && second <= 60;
        is_clock.then_some(Self { hour, minute, second, offset })
    }
}

/// `Z` or `+01:00`, as minutes east of UTC.
fn parse_offset(text: &str) -> Option<i64> {
    if text.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = text.get(1..)?.split_once(':')?;
    let (hours, minutes) = (digits(hours, 2)?, digits(minutes, 2)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

/// A number of exactly so many digits.
fn digits(text: &str, count: usize) -> Option<i64> {
    let is_number = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

impl fmt::Display for Moment {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Date { year, month, day } = self.date;
        write!(out, "{year:04}-{month:02}-{day:02}")?;
        let Some(Clock { hour, minute, second, offset }) = self.clock else { return Ok(()) };
        write!(out, " {hour:02}:{minute:02}")?;
        if second != 0 {
            write!(out, ":{second:02}")?;
        }
        match offset {
            None => Ok(()),
            Some(0) => write!(out, " UTC"),
            Some(minutes) => {
                let sign = if minutes < 0 { '-' } else { '+' };
                write!(out, " {sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn shown(value: &Value) -> String {
        Moment::read(value).unwrap().to_string()
    }

    #[test]
    fn a_time_is_shown_as_it_was_written() {
        assert_eq!(shown(&json!("2026-03-01T18:30:00Z")), "2026-03-01 18:30 UTC");
        assert_eq!(shown(&json!("2026-03-01t18:30:05.25z")), "2026-03-01 18:30:05 UTC");
        assert_eq!(shown(&json!("2026-03-01T18:30-03:30")), "2026-03-01 18:30 -03:30");
        assert_eq!(shown(&json!("2026-03-01 18:30")), "2026-03-01 18:30");
        assert_eq!(shown(&json!("2026-03-01")), "2026-03-01");
    }

    #[test]
    fn milliseconds_are_shown_in_utc() {
        assert_eq!(shown(&json!(0)), "1970-01-01 00:00 UTC");
        assert_eq!(shown(&json!(951_782_399_000_i64)), "2000-02-28 23:59:59 UTC");
        assert_eq!(shown(&json!(951_782_400_000_i64)), "2000-02-29 00:00 UTC");
        assert_eq!(shown(&json!(1_772_389_800_000_i64)), "2026-03-01 18:30 UTC");
        assert_eq!(shown(&json!(MAX_MILLIS)), "9999-12-31 23:59:59 UTC");
    }

    #[test]
    fn a_moment_needs_an_offset_and_a_day_needs_a_calendar() {
        assert!(is_time(&json!("2026-03-01T18:30:00+01:00")) && is_time(&json!(1_772_389_800_000_i64)));
        assert!(!is_time(&json!("2026-03-01T18:30:00")) && !is_time(&json!("2026-03-01")));
        assert!(is_when(&json!("2026-03-01T18:30:00")) && is_when(&json!("2024-02-29")));
        for no in [
            json!("2026-02-29"),
            json!("2026-13-01"),
            json!("2026-00-10"),
            json!("2026-3-1"),
            json!("tomorrow"),
            json!(""),
            json!("2026-03-01T"),
            json!("2026-03-01T24:00Z"),
            json!("2026-03-01T18Z"),
            json!("2026-03-01T18:30:00.Z"),
            json!("2026-03-01T18:30:00+1:00"),
            json!("2026-03-01T18:30:00é"),
            json!(-1),
            json!(MAX_MILLIS + 1),
            json!(true),
        ] {
            assert!(!is_when(&no), "{no}");
        }
    }
}
