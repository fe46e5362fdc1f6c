//! Times, days and durations in words.

use serde_json::Value;

use crate::rule::{DAYS, digits};

/// The names of [`DAYS`].
const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// `HH:MM` for readers of either clock: `19:30 (7:30 pm)`.
pub(super) fn clock(time: &str) -> String {
    let hours = time.split_once(':').and_then(|(hours, minutes)| Some((digits(hours, 2)?, minutes)));
    let Some((hours, minutes)) = hours else { return time.to_owned() };
    let half = if hours < 12 { "am" } else { "pm" };
    let twelve = if hours % 12 == 0 { 12 } else { hours % 12 };
    format!("{time} ({twelve}:{minutes} {half})")
}

/// `YYYY-MM-DD` or `YYYY-MM-DDTHH:MM`: `Friday 1 May 2026, 19:30 (7:30 pm)`. What is in no calendar stays as it is.
pub(super) fn moment(moment: &str) -> String {
    match moment.split_once('T') {
        Some((day, time)) => format!("{}, {}", date(day), clock(time)),
        None => date(moment),
    }
}

fn date(date: &str) -> String {
    spelled(date).unwrap_or_else(|| date.to_owned())
}

fn spelled(date: &str) -> Option<String> {
    let mut parts = date.split('-');
    let mut part = |width| digits(parts.next()?, width);
    let (year, month, day) = (part(4)?, part(2)?, part(2)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => 31,
    };
    let name = MONTHS.get(usize::try_from(month.checked_sub(1)?).ok()?)?;
    let weekday = WEEKDAYS.get(weekday(year, month, day))?;
    (1..=length).contains(&day).then(|| format!("{weekday} {day} {name} {year}"))
}

/// The place of a date's weekday in [`WEEKDAYS`], by Zeller's congruence.
fn weekday(year: u32, month: u32, day: u32) -> usize {
    // March begins its year, which is counted from one that is 400 years later and has the same weekdays.
    let (year, month) = if month < 3 { (year + 399, month + 12) } else { (year + 400, month) };
    let from_saturday = day + 13 * (month + 1) / 5 + year + year / 4 - year / 100 + year / 400;
    ((from_saturday + 5) % 7) as usize
}

/// Weekdays in the week's order: `Monday to Friday`.
pub(super) fn days(days: &[Value]) -> String {
    let named = |day: &&str| days.iter().any(|given| given == *day);
    let names: Vec<_> = DAYS.iter().zip(WEEKDAYS).filter(|(day, _)| named(day)).map(|(_, name)| name).collect();
    match names.as_slice() {
        all if all.len() == 7 => "every day".to_owned(),
        ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"] => "Monday to Friday".to_owned(),
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        names => names.join(""),
    }
}

/// Seconds as `1 hour 30 minutes`.
pub(super) fn duration(seconds: u64) -> String {
    let parts = [(seconds / 3600, "hour"), (seconds / 60 % 60, "minute"), (seconds % 60, "second")];
    let part = |(count, unit): (u64, &str)| match count {
        0 => None,
        1 => Some(format!("1 {unit}")),
        count => Some(format!("{count} {unit}s")),
    };
    let parts: Vec<_> = parts.into_iter().filter_map(part).collect();
    if parts.is_empty() { "0 seconds".to_owned() } else { parts.join(" ") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_are_told_for_both_clocks() {
        let told = ["00:05", "07:30", "12:00", "23:59"].map(clock);
        assert_eq!(told, ["00:05 (12:05 am)", "07:30 (7:30 am)", "12:00 (12:00 pm)", "23:59 (11:59 pm)"]);
    }

    #[test]
    fn dates_are_told_with_their_weekday_if_there_is_such_a_day() {
        for (date, told) in [
            ("2026-05-01", "Friday 1 May 2026"),
            ("2024-02-29T08:00", "Thursday 29 February 2024, 08:00 (8:00 am)"),
            ("2000-02-29", "Tuesday 29 February 2000"),
            ("1900-01-01", "Monday 1 January 1900"),
            ("0000-01-01", "Saturday 1 January 0"),
            ("9999-12-31", "Friday 31 December 9999"),
            ("2026-02-29", "2026-02-29"),
            ("2026-13-01", "2026-13-01"),
            ("2026-00-10", "2026-00-10"),
            ("2026-04-00T10:00", "2026-04-00, 10:00 (10:00 am)"),
        ] {
            assert_eq!(moment(date), told);
        }
    }

    #[test]
    fn days_are_told_once_and_in_the_order_of_the_week() {
        let told = |names: &[&str]| days(&names.iter().map(|name| json!(name)).collect::<Vec<_>>());
        assert_eq!(told(&["fri", "mon", "wed", "fri"]), "Monday, Wednesday and Friday");
        assert_eq!(told(&["sun", "sat"]), "Saturday and Sunday");
        assert_eq!(told(&["tue"]), "Tuesday");
        assert_eq!(told(&DAYS[..5]), "Monday to Friday");
        assert_eq!(told(&DAYS), "every day");
    }

    #[test]
    fn durations_leave_out_what_is_zero() {
        let told = [1, 60, 90, 3600, 5025, 86_400, 0].map(duration);
        let expected = [
            "1 second",
            "1 minute",
            "1 minute 30 seconds",
            "1 hour",
            "1 hour 23 minutes 45 seconds",
            "24 hours",
            "0 seconds",
        ];
        assert_eq!(told, expected);
    }
}
