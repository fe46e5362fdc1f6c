//! The check of a call. Its order is part of the contract: a call with several faults is always told the same one.

use mxblocks::Rich;
use serde_json::{Map, Value};

use crate::{MAX_FALLBACK, MAX_ROOM, RichCall, RichTool, valid_event_id};

/// So much of what a model wrote is quoted back to it, in characters.
const MAX_QUOTE: usize = 40;

/// Checks a call of rich_send or rich_edit.
///
/// Null counts as no arguments, and an argument that is null as one that is not there. `payload` may also be a string
/// with the JSON of the object.
///
/// # Errors
/// What is wrong and what to do, written for the model. It names the argument, or the path in the payload
/// (`payload: blocks[0].price ...`). The checks go in this order: the arguments are an object, the tool exists, no
/// argument is unknown, the payload, the fallback, the room, the event ids.
pub fn plan(name: &str, arguments: &Value) -> Result<RichCall, String> {
    let arguments = Arguments::of(arguments)?;
    let tool = RichTool::named(name)
        .ok_or_else(|| format!("there is no tool {}; call rich_send or rich_edit", quoted(name)))?;
    arguments.are_known(tool)?;
    let payload = payload(arguments.get("payload"))?;
    let fallback = fallback(&arguments, &payload)?;
    let room = room(&arguments)?;
    let (reply_to, thread, edit) = match tool {
        RichTool::Send => (event_id(&arguments, "reply_to")?, event_id(&arguments, "thread")?, None),
        RichTool::Edit => (None, None, Some(edited(&arguments)?)),
    };
    Ok(RichCall { payload, fallback, reply_to, thread, edit, room })
}

struct Arguments<'a>(Option<&'a Map<String, Value>>);

impl<'a> Arguments<'a> {
    fn of(arguments: &'a Value) -> Result<Self, String> {
        match arguments {
            Value::Null => Ok(Self(None)),
            Value::Object(map) => Ok(Self(Some(map))),
            other => Err(format!(
                "the arguments must be an object such as {{\"payload\": {{...}}, \"fallback\": \"...\"}}, not {}",
                kind(other)
            )),
        }
    }

    fn are_known(&self, tool: RichTool) -> Result<(), String> {
        let unknown = self.0.and_then(|map| map.keys().find(|key| !tool.arguments().contains(&key.as_str())));
        match unknown {
            None => Ok(()),
            Some(key) => {
                Err(format!("unknown argument {}; {} takes {}", quoted(key), tool.name(), tool.arguments().join(", ")))
            }
        }
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        self.0?.get(name).filter(|value| !value.is_null())
    }

    fn text(&self, name: &str) -> Result<Option<&'a str>, String> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(format!("{name} must be a string, not {}", kind(other))),
        }
    }
}

fn payload(argument: Option<&Value>) -> Result<Rich, String> {
    let form = "an object {\"v\": 1, \"blocks\": [...]}";
    let Some(argument) = argument else { return Err(format!("payload is required: {form}")) };
    let parsed;
    let object = match argument {
        Value::String(text) => {
            parsed = serde_json::from_str(text)
                .map_err(|error| format!("payload is a string, but not of JSON ({error}); give {form}"))?;
            &parsed
        }
        other => other,
    };
    if !object.is_object() {
        return Err(format!("payload must be {form}, not {}", kind(object)));
    }
    checked(object).map_err(|error| format!("payload: {error}"))
}

fn checked(object: &Value) -> Result<Rich, String> {
    let mut rich: Rich = serde_json::from_value(object.clone()).map_err(|error| error.to_string())?;
    rich.canonicalize()?;
    rich.validate()?;
    Ok(rich)
}

fn fallback(arguments: &Arguments<'_>, payload: &Rich) -> Result<String, String> {
    let text = arguments.text("fallback")?.unwrap_or_default().trim();
    // The TeX of a math block is text enough.
    if text.is_empty() && payload.find_math().is_none() {
        return Err(
            "fallback is required: everything that the blocks say, as Markdown, for whoever can't see them".into()
        );
    }
    match text.chars().count() {
        ..=MAX_FALLBACK => Ok(text.to_owned()),
        length => Err(format!("fallback has {length} characters, and may have at most {MAX_FALLBACK}: shorten it")),
    }
}

fn room(arguments: &Arguments<'_>) -> Result<Option<String>, String> {
    let Some(room) = arguments.text("room")? else { return Ok(None) };
    if room.contains(['\n', '\r', '\t']) {
        return Err("room must be one line without tabs: the name or the id of one room".into());
    }
    if room.trim().is_empty() {
        return Err("room is blank: name a room, or leave it out to post here".into());
    }
    match room.len() {
        ..=MAX_ROOM => Ok(Some(room.trim().to_owned())),
        length => Err(format!("room has {length} bytes, and may have at most {MAX_ROOM}: name one room")),
    }
}

fn edited(arguments: &Arguments<'_>) -> Result<String, String> {
    event_id(arguments, "event_id")?
        .ok_or_else(|| "event_id is required: the event id of your own message that is to be replaced".into())
}

fn event_id(arguments: &Arguments<'_>, name: &str) -> Result<Option<String>, String> {
    let Some(value) = arguments.get(name) else { return Ok(None) };
    let form = "an event id, which begins with $ and has no space in it";
    match value.as_str().map(str::trim) {
        Some(id) if valid_event_id(id) => Ok(Some(id.to_owned())),
        Some(id) => Err(format!("{name} must be {form}, not {}", quoted(id))),
        None => Err(format!("{name} must be {form}, not {}", kind(value))),
    }
}

fn quoted(text: &str) -> String {
    let cut: String = text.chars().take(MAX_QUOTE).collect();
    let more = if cut.len() < text.len() { "…" } else { "" };
    format!("{cut:?}{more}")
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use mxblocks::has_float;
    use proptest::{collection, prelude::*};
    use serde_json::json;

    use super::*;
    use crate::{RICH_EDIT, RICH_SEND, WEATHER_EXAMPLE};

    fn weather() -> Value {
        json!({"v": 1, "blocks": [{"type": "weather", "location": "Oslo", "temp": -3}]})
    }

    fn sent(arguments: &Value) -> Result<RichCall, String> {
        plan(RICH_SEND, arguments)
    }

    fn refusal(tool: &str, arguments: &Value) -> String {
        plan(tool, arguments).unwrap_err()
    }

    #[test]
    fn the_example_is_a_call_of_rich_send_whose_payload_comes_out_as_it_went_in() {
        let arguments: Value = serde_json::from_str(WEATHER_EXAMPLE).unwrap();
        let call = sent(&arguments).unwrap();
        assert_eq!(serde_json::to_value(&call.payload).unwrap(), arguments["payload"]);
        assert_eq!(call.fallback, arguments["fallback"]);
        assert_eq!((call.reply_to, call.thread, call.edit, call.room), (None, None, None, None));
    }

    #[test]
    fn the_faults_of_a_call_are_told_in_the_order_of_the_contract() {
        // Each step mends the fault that was told and leaves all later ones in.
        let mut arguments = json!({
            "mood": 1, "payload": {"v": 1, "blocks": [{"type": "weather"}]}, "fallback": " ",
            "room": "a\nb", "reply_to": "x", "thread": "y",
        });
        let mut told = vec![refusal("rich", &json!([])), refusal("rich", &arguments), refusal(RICH_SEND, &arguments)];
        arguments.as_object_mut().unwrap().remove("mood");
        for (name, value) in [
            ("payload", weather()),
            ("fallback", "x".repeat(MAX_FALLBACK + 1).into()),
            ("fallback", "Oslo: -3 °C".into()),
            ("room", " ".into()),
            ("room", "r".repeat(MAX_ROOM + 1).into()),
            ("room", Value::Null),
            ("reply_to", "$a".into()),
        ] {
            told.push(refusal(RICH_SEND, &arguments));
            arguments[name] = value;
        }
        told.push(refusal(RICH_SEND, &arguments));
        let edit = json!({"payload": weather(), "fallback": "Oslo"});
        told.push(refusal(RICH_EDIT, &edit));
        told.push(refusal(RICH_EDIT, &json!({"event_id": "[31]", "payload": weather(), "fallback": "Oslo"})));
        told.push(refusal(RICH_EDIT, &json!({"event_id": 31, "payload": weather(), "fallback": "Oslo"})));
        insta::assert_snapshot!(told.join("\n"));
    }

    #[test]
    fn a_name_that_is_quoted_back_is_cut_at_40_characters() {
        let mut arguments = json!({"payload": weather(), "fallback": "Oslo"});
        let name = "é".repeat(41);
        arguments[&name] = 1.into();
        let error = refusal(RICH_SEND, &arguments);
        assert!(error.contains(&format!("unknown argument \"{}\"…", "é".repeat(40))), "{error}");
    }

    #[test]
    fn a_payload_may_be_the_json_of_an_object() {
        let call = sent(&json!({"payload": weather().to_string(), "fallback": "Oslo"})).unwrap();
        assert_eq!(serde_json::to_value(call.payload).unwrap(), weather());
        for (payload, told) in [
            (json!("{\"v\":1,"), "not of JSON"),
            (json!("[]"), "not a list"),
            (json!(weather().to_string()).to_string().into(), "not a string"),
            (json!(1), "not a number"),
            (Value::Null, "payload is required"),
        ] {
            let error = refusal(RICH_SEND, &json!({"payload": payload, "fallback": "Oslo"}));
            assert!(error.contains(told), "{payload}: {error}");
        }
    }

    #[test]
    fn only_a_payload_with_math_may_go_without_a_fallback() {
        let math = json!({"type": "math", "tex": "e=mc^2"});
        for fallback in [Value::Null, "".into(), " \n".into()] {
            let call = sent(&json!({"payload": {"v": 1, "blocks": [math]}, "fallback": fallback})).unwrap();
            assert_eq!(call.fallback, "");
            let error = refusal(RICH_SEND, &json!({"payload": weather(), "fallback": fallback}));
            assert!(error.contains("fallback is required"), "{error}");
        }
        let mut both = weather();
        both["blocks"].as_array_mut().unwrap().push(math);
        assert_eq!(sent(&json!({ "payload": both })).unwrap().fallback, "");
    }

    #[test]
    fn text_room_and_ids_are_trimmed() {
        let call = sent(&json!({
            "payload": weather(), "fallback": "\n Oslo \n", "room": " dm ", "reply_to": " $a ", "thread": "\t$b\n",
        }));
        let payload = serde_json::from_value(weather()).unwrap();
        let some = |text: &str| Some(text.to_owned());
        let (reply_to, thread, room) = (some("$a"), some("$b"), some("dm"));
        assert_eq!(call, Ok(RichCall { payload, fallback: "Oslo".into(), reply_to, thread, edit: None, room }));
    }

    /// Any JSON, with floats and with keys that mean something more often than chance would have it.
    fn any_json() -> impl Strategy<Value = Value> {
        let key = prop_oneof![
            3 => proptest::sample::select(vec![
                "v", "blocks", "type", "payload", "fallback", "room", "reply_to", "thread", "event_id", "location", "temp",
                "symbol", "price", "series", "columns", "rows", "tex", "buttons", "label", "action", "id", "fallback",
            ]).prop_map(str::to_owned),
            1 => any::<String>(),
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            (-10..10_i64).prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            key.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 40, 6, move |inner| {
            prop_oneof![
                collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                collection::btree_map(key.clone(), inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// Calls that come through often: known blocks with floats in known fields and in others.
    fn likely_call() -> impl Strategy<Value = Value> {
        let number = prop_oneof![
            8 => (-1e6..1e6).prop_map(Value::from),
            1 => any::<f64>().prop_map(Value::from),
            1 => any_json(),
        ];
        let extra = prop_oneof![3 => collection::vec(number.clone(), 0..3).prop_map(Value::from), 1 => any_json()];
        let block = prop_oneof![
            4 => (number.clone(), extra).prop_map(|(temp, extra)| {
                json!({"type": "weather", "location": "Oslo", "temp": temp, "extra": extra})
            }),
            4 => (number.clone(), collection::vec(number, 0..5)).prop_map(|(price, series)| {
                json!({"type": "ticker", "symbol": "X", "price": price, "series": series})
            }),
            1 => any_json(),
        ];
        collection::vec(block, 1..4)
            .prop_map(|blocks| json!({"payload": {"v": 1, "blocks": blocks}, "fallback": "text"}))
    }

    proptest! {
        #[test]
        fn whatever_the_arguments_are_nothing_panics_and_no_float_comes_through(
            arguments in prop_oneof![any_json(), likely_call()],
            name in prop_oneof![Just(RICH_SEND), Just(RICH_EDIT), Just("other")],
        ) {
            match plan(name, &arguments) {
                Ok(call) => prop_assert!(!has_float(&serde_json::to_value(&call.payload).unwrap())),
                Err(error) => prop_assert!(!error.is_empty()),
            }
        }

        #[test]
        fn a_checked_call_that_is_checked_again_comes_out_the_same(arguments in likely_call()) {
            if let Ok(call) = sent(&arguments) {
                let again = sent(&json!({"payload": call.payload, "fallback": call.fallback}));
                prop_assert_eq!(again, Ok(call));
            }
        }
    }
}
