//! What a field has to be: one rule for each kind of field, named by `checks` in `loop.json`.

use serde::Deserialize;
use serde_json::{Map, Value};

/// The weekdays as the contract writes them, in order.
pub(crate) const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// What a field has to be. A digit is an ASCII digit everywhere.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Rule {
    /// `HH:MM` of 24 hours.
    Clock,
    /// A list of [`DAYS`].
    Days,
    /// An integer from `min` to `max`; 60.0 is none.
    Seconds { min: i64, max: i64 },
    /// `YYYY-MM-DD`, or with `THH:MM` behind it. The calendar is not asked whether there is such a day.
    Moment,
    /// A list of texts that are not blank.
    People,
    /// A phone number of at least `min_digits` digits.
    Number { min_digits: usize },
    /// An object that says where: see [`is_place`].
    Place,
    /// A list of places.
    Places,
    /// One of these values; the table takes them from the tool's schema.
    Choice {
        #[serde(skip)]
        values: Vec<String>,
    },
    /// `http://` or `https://` in any case, and something behind it.
    Url,
    /// A boolean.
    Flag,
    /// An object of texts, which pass untouched.
    Texts,
}

impl Rule {
    /// The rule with the values of a choice, if it is one.
    pub(crate) fn with_values(self, values: impl FnOnce() -> Vec<String>) -> Self {
        match self {
            Self::Choice { .. } => Self::Choice { values: values() },
            rule => rule,
        }
    }

    /// The values of a choice.
    pub(crate) fn values(&self) -> &[String] {
        match self {
            Self::Choice { values } => values,
            _ => &[],
        }
    }

    /// Whether a value that is present and trimmed is what this rule asks for.
    pub(crate) fn accepts(&self, value: &Value) -> bool {
        let text = |is: &dyn Fn(&str) -> bool| value.as_str().is_some_and(is);
        let list = |is: &dyn Fn(&Value) -> bool| value.as_array().is_some_and(|items| items.iter().all(is));
        match self {
            Self::Clock => text(&is_clock),
            Self::Days => list(&|day| day.as_str().is_some_and(|day| DAYS.contains(&day))),
            Self::Seconds { min, max } => value.as_i64().is_some_and(|seconds| (*min..=*max).contains(&seconds)),
            Self::Moment => text(&is_moment),
            Self::People => list(&|one| one.as_str().is_some_and(|one| !one.trim().is_empty())),
            Self::Number { min_digits } => text(&|number| is_number(number, *min_digits)),
            Self::Place => is_place(value),
            Self::Places => list(&is_place),
            Self::Choice { values } => text(&|choice| values.iter().any(|value| value == choice)),
            Self::Url => text(&is_url),
            Self::Flag => value.is_boolean(),
            Self::Texts => value.as_object().is_some_and(|texts| texts.values().all(Value::is_string)),
        }
    }
}

/// Whether a text is `HH:MM`, from 00:00 to 23:59.
fn is_clock(text: &str) -> bool {
    match text.split_once(':') {
        Some((hours, minutes)) => {
            digits(hours, 2).is_some_and(|hours| hours < 24) && digits(minutes, 2).is_some_and(|minutes| minutes < 60)
        }
        None => false,
    }
}

fn is_moment(text: &str) -> bool {
    match text.split_once('T') {
        Some((date, clock)) => is_date(date) && is_clock(clock),
        None => is_date(text),
    }
}

fn is_date(text: &str) -> bool {
    let mut parts = text.split('-');
    let mut part = |width| parts.next().and_then(|part| digits(part, width)).is_some();
    part(4) && part(2) && part(2) && parts.next().is_none()
}

/// The number that exactly `width` digits write.
pub(crate) fn digits(text: &str, width: usize) -> Option<u32> {
    let all = text.len() == width && text.bytes().all(|byte| byte.is_ascii_digit());
    all.then(|| text.parse().ok()).flatten()
}

fn is_number(text: &str, min_digits: usize) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    digits >= min_digits && text.bytes().all(|byte| byte.is_ascii_digit() || b" +()-./#*".contains(&byte))
}

fn is_url(text: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| {
        text.len() > scheme.len() && text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    })
}

/// Whether a value says where: by coordinates in range, by a query, or by a name. One of them is enough, whatever stands
/// beside it.
fn is_place(value: &Value) -> bool {
    let Some(place) = value.as_object() else { return false };
    coordinates(place).is_some() || ["query", "name"].into_iter().any(|key| place_text(place, key).is_some())
}

/// Latitude and longitude of a place, where it has both, as numbers and in range.
pub(crate) fn coordinates(place: &Map<String, Value>) -> Option<[f64; 2]> {
    let number = |key, limit: f64| place.get(key)?.as_f64().filter(|number| number.abs() <= limit);
    Some([number("lat", 90.0)?, number("lon", 180.0)?])
}

/// A text of a place that is not blank.
pub(crate) fn place_text<'a>(place: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    place.get(key)?.as_str().map(str::trim).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn sorts(rule: &Rule, accepted: &[Value], refused: &[Value]) {
        for value in accepted {
            assert!(rule.accepts(value), "{rule:?} refuses {value}");
        }
        for value in refused {
            assert!(!rule.accepts(value), "{rule:?} accepts {value}");
        }
    }

    #[test]
    fn times_have_two_digits_twice_and_stay_within_a_day() {
        let refused = ["24:00", "23:60", "7:05", "07:5", "0730", "07:30:00", "٠٧:٣٠", "+7:30", "07:+3", ""];
        sorts(&Rule::Clock, &[json!("00:00"), json!("23:59")], &refused.map(Value::from));
    }

    #[test]
    fn moments_are_checked_by_their_form_and_not_by_the_calendar() {
        let refused =
            ["2026-5-1", "2026-05-01T", "2026-05-01 07:30", "2026-05-01T24:00", "2026-05-01T07:30Z", "2026-05-01-01"];
        sorts(
            &Rule::Moment,
            &[json!("2026-02-30"), json!("2026-99-99"), json!("2026-05-01T23:59")],
            &refused.map(Value::from),
        );
    }

    #[test]
    fn seconds_are_integers_and_nothing_like_them() {
        let rule = Rule::Seconds { min: 1, max: 86_400 };
        let refused = [json!(0), json!(86_401), json!(60.0), json!(true), json!("60"), json!(u64::MAX), json!(-1)];
        sorts(&rule, &[json!(1), json!(86_400)], &refused);
    }

    #[test]
    fn an_address_has_something_behind_its_scheme() {
        let refused = ["http://", "https://", "ftp://x", "http:/x", "intent://x", "ﬁttp://x", "x http://x"];
        sorts(&Rule::Url, &[json!("HTTPS://x"), json!("http://é")], &refused.map(Value::from));
    }

    #[test]
    fn a_place_needs_one_of_its_three_ways_to_be_found() {
        let accepted = [
            json!({"lat": 90, "lon": -180}),
            json!({"lat": -90.0, "lon": 180.0}),
            json!({"query": "a"}),
            json!({"name": "a"}),
            json!({"lat": 91, "lon": 0, "name": "a"}),
        ];
        let refused = [
            json!({"lat": 90.000_1, "lon": 0}),
            json!({"lat": 0, "lon": -180.5}),
            json!({"lat": 1}),
            json!({"lat": "1", "lon": "2"}),
            json!({"lat": true, "lon": false}),
            json!({"query": " ", "name": ""}),
            json!({"query": 5}),
            json!("Paris"),
            json!([1, 2]),
        ];
        sorts(&Rule::Place, &accepted, &refused);
        sorts(&Rule::Places, &[json!([{"name": "a"}])], &[json!([{"name": "a"}, {}]), json!({"name": "a"})]);
    }
}
