//! Alarms, timers and calendar events. The keys are those of Android's `AlarmClock` and `CalendarContract`.

use jiff::{
    civil::{Date, DateTime},
    tz::TimeZone,
};
use phone_actions::Action;
use serde_json::Value;

use super::{
    intent::Intent,
    plan::{Plan, text, words},
};

/// An alarm, set without the clock app's screen.
pub(super) fn alarm(action: &Action) -> Plan {
    let time = text(action, "time");
    let (hour, minute) = time.split_once(':').ok_or("the time is none")?;
    let number = |digits: &str| digits.parse::<i64>().map_err(|_| "the time is none");
    let mut intent = Intent::start("android.intent.action.SET_ALARM")
        .int("android.intent.extra.alarm.HOUR", number(hour)?)
        .int("android.intent.extra.alarm.MINUTES", number(minute)?);
    let days = action.get("days").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut days: Vec<i64> = days.iter().filter_map(|day| weekday(day.as_str()?)).collect();
    days.sort_unstable();
    days.dedup();
    if !days.is_empty() {
        intent = intent.ints("android.intent.extra.alarm.DAYS", &days);
    }
    Ok(vec![named(intent, action).argv().into()])
}

/// A timer, started without the clock app's screen.
pub(super) fn timer(action: &Action) -> Plan {
    let seconds = action.get("seconds").and_then(Value::as_i64).ok_or("the seconds are no number")?;
    let intent = Intent::start("android.intent.action.SET_TIMER").int("android.intent.extra.alarm.LENGTH", seconds);
    Ok(vec![named(intent, action).argv().into()])
}

fn named(intent: Intent, action: &Action) -> Intent {
    let intent = match words(action, "label") {
        Some(label) => intent.text("android.intent.extra.alarm.MESSAGE", &label),
        None => intent,
    };
    intent.flag("android.intent.extra.alarm.SKIP_UI", true)
}

/// A day as `java.util.Calendar` counts it, from Sunday.
fn weekday(day: &str) -> Option<i64> {
    let place = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"].iter().position(|name| *name == day)?;
    i64::try_from(place + 1).ok()
}

/// The calendar's screen for a new event, filled in.
pub(super) fn calendar_event(action: &Action, zone: &TimeZone) -> Plan {
    let start = Moment::of(text(action, "start"))?;
    let end = match action.get("end").and_then(Value::as_str) {
        Some(end) => Some(Moment::of(end)?),
        None => None,
    };
    let (begin, end, all_day) = match (start, end) {
        // Whole days are counted in UTC, and the end is the day after the last.
        (Moment::Day(first), None) => (utc(first)?, utc(next(first)?)?, true),
        (Moment::Day(first), Some(Moment::Day(last))) => (utc(first)?, utc(next(last)?)?, true),
        (Moment::Day(first), Some(Moment::Time(end))) => (at(first.at(0, 0, 0, 0), zone)?, at(end, zone)?, false),
        (Moment::Time(start), None) => (at(start, zone)?, at(start, zone)?.saturating_add(HOUR), false),
        (Moment::Time(start), Some(Moment::Day(last))) => {
            (at(start, zone)?, at(next(last)?.at(0, 0, 0, 0), zone)?, false)
        }
        (Moment::Time(start), Some(Moment::Time(end))) => (at(start, zone)?, at(end, zone)?, false),
    };
    // A whole day has at least one day in it.
    if end < begin || (all_day && end == begin) {
        return Err("the event would end before it starts".to_owned());
    }
    let mut intent = Intent::start("android.intent.action.INSERT")
        .data("content://com.android.calendar/events")
        .mime("vnd.android.cursor.dir/event")
        .long("beginTime", begin)
        .long("endTime", end);
    if all_day {
        intent = intent.flag("allDay", true);
    }
    for (field, key) in [("title", "title"), ("location", "eventLocation"), ("notes", "description")] {
        if let Some(text) = words(action, field) {
            intent = intent.text(key, &text);
        }
    }
    Ok(vec![intent.argv().into()])
}

/// In milliseconds: how long an event is of which only the start is known.
const HOUR: i64 = 3_600_000;

#[derive(Clone, Copy)]
enum Moment {
    Day(Date),
    Time(DateTime),
}

impl Moment {
    fn of(text: &str) -> Result<Self, String> {
        let moment = match text.contains('T') {
            true => text.parse().map(Self::Time),
            false => text.parse().map(Self::Day),
        };
        moment.map_err(|_| format!("there is no such day as {text}"))
    }
}

const OUT_OF_RANGE: &str = "the calendar does not reach that far";

fn next(day: Date) -> Result<Date, String> {
    day.tomorrow().map_err(|_| OUT_OF_RANGE.to_owned())
}

fn utc(day: Date) -> Result<i64, String> {
    at(day.at(0, 0, 0, 0), &TimeZone::UTC)
}

/// In milliseconds since 1970. A time that a clock change leaves out is taken an hour later; of two the first.
fn at(time: DateTime, zone: &TimeZone) -> Result<i64, String> {
    let moment = zone.to_ambiguous_timestamp(time).compatible().map_err(|_| OUT_OF_RANGE.to_owned())?;
    Ok(moment.as_millisecond())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::plan::tests::shown;

    #[test]
    fn alarms_and_timers() {
        insta::assert_snapshot!(shown(&[
            json!({"action": "alarm", "time": "07:08"}),
            json!({"action": "alarm", "time": "00:00", "label": "-n \"x\"\n; $(id)"}),
            json!({"action": "alarm", "time": "23:59", "days": ["sun", "mon", "sat", "mon"], "label": "Work"}),
            json!({"action": "alarm", "time": "12:00", "label": 7}),
            json!({"action": "timer", "seconds": 1}),
            json!({"action": "timer", "seconds": 86_400, "label": "--es"}),
        ]));
    }

    #[test]
    fn calendar_events() {
        let event = |start: &str, end: Option<&str>| {
            let call = json!({"action": "calendar_event", "title": "Lunch", "start": start});
            let mut call = call.as_object().cloned().unwrap_or_default();
            call.extend(end.map(|end| ("end".to_owned(), json!(end))));
            serde_json::Value::Object(call)
        };
        insta::assert_snapshot!(shown(&[
            event("2026-05-01T12:30", None),
            event("2026-05-01T12:30", Some("2026-05-01T14:00")),
            event("2026-05-01T12:30", Some("2026-05-02")),
            event("2026-05-01", None),
            event("2026-05-01", Some("2026-05-01")),
            event("2026-05-01", Some("2026-05-03")),
            event("2026-05-01", Some("2026-05-01T18:00")),
            event("2026-03-29T02:30", None),
            event("2026-10-25T02:30", None),
            event("2026-02-30", None),
            event("2026-05-02", Some("2026-05-01")),
            event("2026-05-01T12:30", Some("2026-05-01T12:00")),
            event("9999-12-31", None),
            json!({"action": "calendar_event", "title": "--es", "start": "2026-05-01", "location": "1, Rue 'A'",
                "notes": "-d x\nsecond"}),
        ]));
    }
}
