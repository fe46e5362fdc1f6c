//! Which commands an action is.

use jiff::tz::TimeZone;
use phone_actions::Action;
use serde_json::Value;

use super::{
    Apps, apps, clock,
    intent::{Argv, argv},
    maps, messages,
};

/// What of the phone a plan depends on.
pub(super) struct Phone<'a> {
    pub(super) zone: &'a TimeZone,
    pub(super) apps: &'a Apps,
}

/// One way to do an action.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Try {
    pub(super) step: Step,
    /// What the model is told beside that it is done.
    pub(super) note: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A command: the program and its arguments.
    Run(Argv),
    /// Looks up what an app begins with, and starts it.
    Launch { package: String },
}

impl From<Argv> for Try {
    fn from(argv: Argv) -> Self {
        Self { step: Step::Run(argv), note: None }
    }
}

impl Try {
    pub(super) fn with_note(self, note: impl Into<String>) -> Self {
        Self { note: Some(note.into()), ..self }
    }
}

/// The ways to do an action, best first: the next is tried where one fails. Without any, why there is none.
pub(super) type Plan = Result<Vec<Try>, String>;

/// Whether an action can be planned at all, by its name.
pub(super) fn can(action: &str, apps: &Apps) -> bool {
    match action {
        "alarm" | "timer" | "calendar_event" | "sms_draft" | "email_draft" | "dial" | "navigate" | "add_stop"
        | "search_nearby" | "open_url" | "torch" | "settings_panel" | "automation_intent" => true,
        "open_app" => !apps.is_empty(),
        _ => false,
    }
}

pub(super) fn plan(action: &Action, phone: &Phone<'_>) -> Plan {
    match action.name() {
        "alarm" => clock::alarm(action),
        "timer" => clock::timer(action),
        "calendar_event" => clock::calendar_event(action, phone.zone),
        "sms_draft" => messages::sms_draft(action),
        "email_draft" => messages::email_draft(action),
        "dial" => messages::dial(action),
        "navigate" => maps::navigate(action),
        "add_stop" => maps::add_stop(action),
        "search_nearby" => maps::search_nearby(action),
        "stop_navigation" => Err("map apps let nobody else end their route; the person ends it there".to_owned()),
        "open_app" => apps::open_app(action, phone.apps),
        "open_url" => apps::open_url(action),
        "media" => Err("Android lets Termux press no media keys; the person does it".to_owned()),
        "torch" => {
            let on = action.get("on").and_then(Value::as_bool).ok_or("the torch is to be neither on nor off")?;
            Ok(vec![argv(["termux-torch", if on { "on" } else { "off" }]).into()])
        }
        "settings_panel" => apps::settings_panel(action),
        "automation_intent" => apps::automation_intent(action),
        name => Err(format!("this phone does not know {name}")),
    }
}

/// A field's text; an empty one if it has none.
pub(super) fn text<'a>(action: &'a Action, field: &str) -> &'a str {
    action.get_or_default(field).and_then(Value::as_str).unwrap_or_default()
}

/// A field's text, a number as its digits: a label may be one.
pub(super) fn words(action: &Action, field: &str) -> Option<String> {
    match action.get(field)? {
        Value::String(text) => Some(text.clone()),
        Value::Null => None,
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]

    use phone_actions::check;
    use proptest::prelude::*;
    use serde_json::{Map, json};

    use super::*;

    pub(crate) fn phone_apps() -> Apps {
        let apps = [
            ("firefox", "org.mozilla.firefox"),
            ("notes", "org.example.notes/.ui.Main$Start"),
            ("console", "com.termux"),
        ];
        apps.map(|(name, package)| (name.to_owned(), package.to_owned())).into()
    }

    pub(crate) fn planned(call: &Value) -> Plan {
        let zone = TimeZone::get("Europe/Paris").unwrap();
        plan(&check(call).unwrap(), &Phone { zone: &zone, apps: &phone_apps() })
    }

    /// Calls and what becomes of them, for a snapshot.
    pub(crate) fn shown(calls: &[Value]) -> String {
        let mut lines = String::new();
        for call in calls {
            lines.push_str(&format!("{call}\n"));
            match planned(call) {
                Err(why) => lines.push_str(&format!("    fails: {why}\n")),
                Ok(tries) => {
                    for Try { step, note } in tries {
                        match step {
                            Step::Run(argv) => lines.push_str(&format!("    {argv:?}\n")),
                            Step::Launch { package } => lines.push_str(&format!("    launch {package}\n")),
                        }
                        lines.extend(note.map(|note| format!("        note: {note}\n")));
                    }
                }
            }
        }
        lines
    }

    /// The command that is tried first.
    pub(crate) fn first(call: &Value) -> Argv {
        match planned(call).unwrap().remove(0).step {
            Step::Run(argv) => argv,
            Step::Launch { package } => vec![package],
        }
    }

    /// What a model may write to get out of its argument.
    pub(crate) const ODD: [&str; 12] = [
        "-",
        "--",
        "-n",
        "--es",
        "--es a b",
        "'; id; '",
        "\"$(id)\"",
        "`id`",
        "a\nb",
        "a,b\\,c",
        "%00&x=y#z?",
        "a\u{202e}b",
    ];

    /// A call with a text in each of its fields that takes any, and how many arguments the same call has with a tame one.
    #[test]
    fn an_odd_text_adds_no_argument_and_takes_none_away() {
        let with = |text: &str| {
            [
                json!({"action": "alarm", "time": "07:30", "label": text}),
                json!({"action": "timer", "seconds": 60, "label": text}),
                json!({"action": "calendar_event", "title": text, "start": "2026-05-01", "location": text, "notes": text}),
                json!({"action": "sms_draft", "to": [text, "112"], "body": text}),
                json!({"action": "email_draft", "to": [text, "a@b.c"], "cc": [text], "subject": text, "body": text}),
                json!({"action": "navigate", "destination": {"query": text}}),
                json!({"action": "navigate", "destination": {"name": text}, "stops": [{"query": text}]}),
                json!({"action": "search_nearby", "query": text}),
                json!({"action": "open_url", "url": format!("https://example.org/{text}")}),
                json!({"action": "automation_intent", "name": text, "values": {"level": text, "more": text}}),
            ]
        };
        for odd in ODD {
            for (tame, odd) in with("tame").iter().zip(&with(odd)) {
                let (tame, argv) = (first(tame), first(odd));
                assert_eq!(tame.len(), argv.len(), "{odd}: {argv:?}");
                for (tame, argument) in tame.iter().zip(&argv) {
                    assert!(tame.contains("tame") || tame == argument, "{odd}: {argument:?} is no text");
                }
            }
        }
    }

    #[test]
    fn what_a_phone_without_an_apps_table_can_do() {
        let none = Apps::new();
        for action in ["stop_navigation", "media", "open_app", "fly"] {
            assert!(!can(action, &none), "{action}");
        }
        assert!(can("open_app", &phone_apps()) && can("alarm", &none));
    }

    #[test]
    fn what_can_t_be_done_says_why() {
        insta::assert_snapshot!(shown(&[
            json!({"action": "stop_navigation"}),
            json!({"action": "media", "command": "pause"}),
            json!({"action": "torch", "on": true}),
            json!({"action": "torch", "on": false}),
        ]));
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "\\PC{0,12}|[\\x00-\\x7f]{0,12}".prop_map(Value::from),
            prop::sample::select(vec![
                "07:30",
                "2026-02-30",
                "9999-12-31T23:59",
                "0000-01-01",
                "mon",
                "drive",
                "transit",
                "route",
                "me",
                "nfc",
                "play",
                "https://",
                "http://x/%2",
                "+1 (234) 5*#",
                "me@example.org",
                "Tasker",
            ])
            .prop_map(Value::from),
        ];
        leaf.prop_recursive(2, 8, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("lat|lon|query|name|\\PC{0,4}", inner, 0..3)
                    .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
            ]
        })
    }

    /// A call of which each field is right as often as not.
    pub(crate) fn any_call() -> impl Strategy<Value = Value> {
        let place = prop_oneof![
            (-90.0..=90.0, -180.0..=180.0).prop_map(|(lat, lon)| json!({"lat": lat, "lon": lon})),
            "\\PC{1,8}".prop_map(|name| json!({"name": name})),
        ];
        let field = |right: BoxedStrategy<Value>| prop_oneof![4 => right, 1 => any_value()].boxed();
        let text = || "\\PC{0,20}|[\\x00-\\x7f]{0,20}".prop_map(Value::from).boxed();
        let texts = || prop::collection::vec(text(), 0..3).prop_map(Value::from).boxed();
        let one_of = |values: &[&'static str]| prop::sample::select(values.to_vec()).prop_map(Value::from).boxed();
        let clock = (0..24, 0..60).prop_map(|(hour, minute)| json!(format!("{hour:02}:{minute:02}"))).boxed();
        let moment = || {
            (0..10_000, 0..14, 0..33, prop::option::of(0..24))
                .prop_map(|(year, month, day, hour)| {
                    let hour = hour.map(|hour| format!("T{hour:02}:59")).unwrap_or_default();
                    json!(format!("{year:04}-{month:02}-{day:02}{hour}"))
                })
                .boxed()
        };
        let values = prop::collection::btree_map("\\PC{0,6}|[a-z]{3}", "\\PC{0,8}", 0..3).prop_map(|map| json!(map));
        let fields: Vec<(&'static str, BoxedStrategy<Value>)> = vec![
            ("action", field(one_of(&NAMES))),
            ("summary", text()),
            ("time", field(clock)),
            ("days", field(prop::collection::vec(one_of(&["mon", "sun"]), 0..4).prop_map(Value::from).boxed())),
            ("label", field(text())),
            ("seconds", field((1..86_401).prop_map(Value::from).boxed())),
            ("title", field(text())),
            ("start", field(moment())),
            ("end", field(moment())),
            ("location", field(text())),
            ("notes", field(text())),
            ("to", field(texts())),
            ("cc", field(texts())),
            ("subject", field(text())),
            ("body", field(text())),
            ("number", field("[0-9 +()./#*-]{3,12}".prop_map(Value::from).boxed())),
            ("destination", field(place.clone().boxed())),
            ("stop", field(place.clone().boxed())),
            ("stops", field(prop::collection::vec(place, 0..12).prop_map(Value::from).boxed())),
            ("mode", field(one_of(&["drive", "walk", "bicycle", "transit"]))),
            ("query", field(text())),
            ("near", field(one_of(&["me", "route"]))),
            ("app", field(text())),
            ("url", field("https?://\\PC{0,20}".prop_map(Value::from).boxed())),
            ("command", field(one_of(&["play", "next"]))),
            ("on", field(any::<bool>().prop_map(Value::from).boxed())),
            ("panel", field(one_of(&["internet", "nfc"]))),
            ("name", field(text())),
            ("values", field(values.boxed())),
        ];
        let (names, strategies): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
        strategies.prop_map(move |values| {
            Value::Object(names.iter().map(|name| (*name).to_owned()).zip(values).collect::<Map<_, _>>())
        })
    }

    const NAMES: [&str; 16] = [
        "alarm",
        "timer",
        "calendar_event",
        "sms_draft",
        "email_draft",
        "dial",
        "navigate",
        "add_stop",
        "search_nearby",
        "stop_navigation",
        "open_app",
        "open_url",
        "media",
        "torch",
        "settings_panel",
        "automation_intent",
    ];

    proptest! {
        #[test]
        fn any_action_is_planned_or_refused_in_one_line(call in any_call()) {
            let Ok(action) = check(&call) else { return Ok(()) };
            let zone = TimeZone::get("America/New_York").unwrap();
            match plan(&action, &Phone { zone: &zone, apps: &phone_apps() }) {
                Ok(tries) => {
                    prop_assert!(!tries.is_empty());
                    for attempt in tries {
                        if let Step::Run(argv) = attempt.step {
                            prop_assert!(["am", "termux-torch"].contains(&argv[0].as_str()), "{argv:?}");
                        }
                    }
                }
                Err(why) => prop_assert!(!why.is_empty() && !why.contains('\n'), "{why:?}"),
            }
        }
    }
}
