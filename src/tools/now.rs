//! `now`: date and time, in the time zone asked for.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::{Timestamp, fmt::strtime, tz::TimeZone};
use serde_json::{Map, Value, json};

use super::{Origin, Output, Run, Tool};
use crate::{
    clock::Clock,
    model::{Example, ToolSpec},
};

/// Tells the date and time.
pub struct Now {
    clock: Arc<dyn Clock>,
    home: TimeZone,
}

impl Now {
    /// A clock on the wall: `home` is the zone where nobody names another.
    pub fn new(clock: Arc<dyn Clock>, home: TimeZone) -> Self {
        Self { clock, home }
    }

    fn zone(&self, asked: Option<&str>) -> Result<TimeZone, String> {
        match asked.map(str::trim).filter(|name| !name.is_empty()) {
            None => Ok(self.home.clone()),
            Some(name) => find_zone(name).ok_or_else(|| {
                format!("no time zone {name:?}; give an IANA name such as \"Europe/Paris\" or \"Asia/Tokyo\"")
            }),
        }
    }
}

#[async_trait]
impl Tool for Now {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "now".into(),
            description: "Tells the current date, time and day of the week in a time zone. \
                          Use it whenever the answer depends on today's date or the time."
                .into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "zone": {
                        "type": "string",
                        "description": "IANA time zone, such as \"Asia/Tokyo\"; empty for the usual one",
                    },
                },
                "additionalProperties": false,
            }),
            cases: Vec::new(),
            example: Some(Example {
                ask: "What time is it in Paris?".into(),
                arguments: Map::from_iter([("zone".into(), "Europe/Paris".into())]),
                result: "In Europe/Paris it is 14:05 on Monday, 5 May 2025 (+02:00).".into(),
                reply: "It is 14:05 in Paris.".into(),
            }),
        }
    }

    async fn run(&self, arguments: Value, _origin: &Origin) -> Run {
        let output = match self.zone(arguments["zone"].as_str()) {
            Err(refusal) => Output::refusal(refusal),
            Ok(zone) => {
                let essence = format!("the time in {}", name(&zone));
                Output { essence, ..Output::new(tell(self.clock.now(), &zone)) }
            }
        };
        output.into()
    }
}

fn tell(now: Timestamp, zone: &TimeZone) -> String {
    let there = now.to_zoned_datetime(zone.clone());
    let text = strtime::format("%H:%M on %A, %-d %B %Y (%:z)", &there).unwrap_or_else(|_| there.to_string());
    format!("In {} it is {text}.", name(zone))
}

fn name(zone: &TimeZone) -> String {
    zone.iana_name().unwrap_or("UTC").to_owned()
}

/// A zone by its IANA name in any case, or by the city in it: "tokyo" is Asia/Tokyo, "New York" America/New_York.
fn find_zone(name: &str) -> Option<TimeZone> {
    let db = jiff::tz::db();
    let name = name.replace(' ', "_");
    if let Ok(zone) = db.get(&name) {
        return Some(zone);
    }
    let city = db
        .available()
        .find(|known| known.as_str().rsplit('/').next().is_some_and(|city| city.eq_ignore_ascii_case(&name)))?;
    db.get(city.as_str()).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;

    struct At(Timestamp);

    impl Clock for At {
        fn now(&self) -> Timestamp {
            self.0
        }
    }

    async fn told(zone: Value) -> String {
        let clock = Arc::new(At("2026-03-29T00:30:00Z".parse().unwrap()));
        let origin = Origin::Unattended { why: "a test".into() };
        let now = Now::new(clock, TimeZone::get("Europe/Paris").unwrap());
        match now.run(json!({ "zone": zone }), &origin).await {
            Run::Done(output) => output.text,
            Run::Begun(_) | Run::Asks(_) => panic!("the time is told at once"),
        }
    }

    #[tokio::test]
    async fn the_time_is_told_in_the_zone_asked_for_and_else_at_home() {
        assert_eq!(told("Asia/Tokyo".into()).await, "In Asia/Tokyo it is 09:30 on Sunday, 29 March 2026 (+09:00).");
        for usual in [Value::Null, "".into(), " ".into()] {
            assert_eq!(told(usual).await, "In Europe/Paris it is 01:30 on Sunday, 29 March 2026 (+01:00).");
        }
    }

    #[tokio::test]
    async fn a_zone_is_found_by_its_city_and_in_any_case() {
        assert_eq!(told("tokyo".into()).await, told("Asia/Tokyo".into()).await);
        assert_eq!(told("new york".into()).await, told("America/New_York".into()).await);
        assert_eq!(told("europe/london".into()).await, told("Europe/London".into()).await);
    }

    #[tokio::test]
    async fn an_unknown_zone_is_an_error_that_says_what_is_wanted() {
        assert_eq!(
            told("Middle-earth".into()).await,
            "Error: no time zone \"Middle-earth\"; give an IANA name such as \"Europe/Paris\" or \"Asia/Tokyo\""
        );
    }
}
