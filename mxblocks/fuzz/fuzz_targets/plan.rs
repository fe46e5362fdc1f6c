//! Any JSON as the arguments of a tool call: nothing panics, and what is planned may be sent.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mxblocks_tools::{MAX_FALLBACK, RICH_EDIT, RICH_SEND, plan, valid_event_id};
use serde_json::{Value, json};

fuzz_target!(|text: &str| {
    let arguments: Value = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    for arguments in [
        arguments.clone(),
        json!({"payload": arguments, "fallback": text, "reply_to": text, "room": text}),
        json!({"payload": {"v": 1, "blocks": [arguments]}, "fallback": text, "event_id": "$a", "thread": text}),
    ] {
        for name in [RICH_SEND, RICH_EDIT] {
            if let Ok(call) = plan(name, &arguments) {
                assert_eq!(call.payload.validate(), Ok(()));
                assert!(call.fallback.chars().count() <= MAX_FALLBACK);
                assert_eq!(call.edit.is_some(), name == RICH_EDIT);
                for id in [&call.reply_to, &call.thread, &call.edit].into_iter().flatten() {
                    assert!(valid_event_id(id), "{id}");
                }
            }
        }
    }
});
