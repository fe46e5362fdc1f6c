//! Any text as a payload, and as a block of one: nothing panics, and what passes comes back the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mxblocks::{Rich, has_float};

fuzz_target!(|text: &str| {
    try_payload(text);
    try_payload(&format!(r#"{{"v":1,"blocks":[{text}]}}"#));
});

fn try_payload(text: &str) {
    if let Ok(rich) = Rich::parse(text) {
        let json = serde_json::to_string(&rich).expect("a payload serialises");
        assert!(!has_float(&serde_json::from_str(&json).expect("it is JSON")), "{json}");
        assert_eq!(rich.validate(), Ok(()));
        assert_eq!(Rich::parse(&json).as_ref(), Ok(&rich));
        assert_eq!(rich.missing_from(&rich.markdown()), Vec::<String>::new());
    }
    // What does not pass may still be read, and written out as text.
    if let Ok(rich) = serde_json::from_str::<Rich>(text) {
        let said = rich.markdown();
        assert!(rich.missing_from(&said).len() <= rich.blocks.len());
        for block in &rich.blocks {
            assert!(block.prompt_ids().len() <= 1 + block.actions().len());
        }
    }
}
