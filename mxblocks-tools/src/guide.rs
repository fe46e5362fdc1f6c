//! What a model is told about the blocks and the tools.

/// Which block is for what, with the fields that matter, one line a block: the description of rich_send and
/// [`prompt_line`] have it. What a model can seldom write itself, since it needs an upload or a stream, comes last.
pub const BLOCK_GUIDE: &str = "\
A block is {\"type\": \"weather\", ...its fields}. Pick the one that fits (? is optional):
- weather for weather questions: location, temp, unit?, condition?, high?, low?, forecast? [{label, temp?, condition?, high?, low?}]
- table for comparing and listing: columns [\"a\", \"b\"], rows [[\"1\", \"2\"]], caption?
- chart for a trend or numbers over time: series [{values: [1, 2], name?}], labels?, kind? line|bar|area|pie, title?, unit?
- ticker for a price: symbol, price, currency?, change?, percent?, series? [1, 2]
- place for one venue or address: name, address?, lat? with lon?, phone?, hours?, url?
- event for a meeting, trip or booking: title, start, end?, location?, url?
- countdown for a deadline: title, at \"2026-03-01T18:30:00+01:00\"
- card for one product, listing or order: title, subtitle?, text?, price?, currency?, facts? [{label, value}], url?
- cards for a few of them: cards [{title, ...}]
- sources for links that you used: sources [{url, title?, text?}]
- code for source text: code, language?, filename?
- diff for a change to it: diff, filename?
- math for a formula: tex, display? (false within a line)
- progress for work in steps: steps [{label, state? todo|active|done|failed|skipped}], percent?
- tracker for an order, ride or parcel under way: kind order|ride|parcel, state (at last \"done\"), eta?, percent?
- details for long text that folds away: summary, text
- buttons for a quick decision: buttons [{label, action: {type: \"react\", key: \"✅\"}, style? primary|danger}]
- chips for quick replies: chips [{label, action: {type: \"send\", body: \"Yes\"}}]
- form for several choices at once: id, fields [{id, label, type choice|choices|text|number|toggle, options?}]
- gallery for 2 to 20 uploaded images: images [{url: \"mxc://...\", caption?}], title?
- file for another upload: name, url: \"mxc://...\", caption?
- stream for an answer that is still being written: id, state live|done
Numbers are JSON numbers or strings such as \"62.99\", without unit or currency.";

/// The arguments of a small, valid call of rich_send, as JSON.
pub const WEATHER_EXAMPLE: &str = r#"{"payload":{"v":1,"blocks":[{"type":"weather","location":"Oslo","temp":-3,"unit":"C","condition":"Snow","high":0,"low":-6}]},"fallback":"**Oslo**: -3 °C, snow, high 0 °C, low -6 °C"}"#;

/// What the prompt of an agent says about the two tools, for a talk where rich_send without a `room` posts: what the
/// blocks are, which one is for what, that the text must carry everything, how to edit, and how to end the turn.
#[must_use]
pub fn prompt_line() -> String {
    format!(
        "With rich_send you post a message here with rich blocks (tables, cards, charts, buttons and more), 1 to 8 in a \
         payload {{\"v\":1,\"blocks\":[...]}}. Only some clients draw them, all others show just `fallback`: write \
         there everything that the blocks say. When nothing is left to say after it, end your turn with [no reply].\n\
         {BLOCK_GUIDE}\n\
         rich_send returns the event id of its message. rich_edit replaces a message by that id, only your own ones, \
         and each at most once every 2.5 s.\n\
         Example of rich_send: {WEATHER_EXAMPLE}"
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, clippy::unwrap_used)]

    use mxblocks::{DISPLAY_TYPES, Rich};

    use super::*;

    /// What the check misses in a block that has nothing but its type.
    fn required_fields(kind: &str) -> Vec<String> {
        let error = Rich::parse(&format!(r#"{{"v":1,"blocks":[{{"type":"{kind}"}}]}}"#)).unwrap_err();
        let (_, needs) = error.split_once(": needs ").unwrap();
        let (names, _) = needs.split_once(" (takes ").unwrap();
        names.split([',', ' ']).filter(|word| !word.is_empty() && *word != "and").map(str::to_owned).collect()
    }

    #[test]
    fn the_guide_has_one_line_for_each_type_of_block_with_the_fields_that_it_requires() {
        for kind in ["buttons", "chips"].into_iter().chain(DISPLAY_TYPES) {
            let head = format!("- {kind} for ");
            let lines: Vec<_> = BLOCK_GUIDE.lines().filter_map(|line| line.strip_prefix(&head)).collect();
            let [line] = lines.as_slice() else { panic!("{kind}: {lines:?}") };
            let (_, fields) = line.split_once(": ").unwrap();
            for field in required_fields(kind) {
                assert!(fields.split(|c: char| !c.is_alphanumeric()).any(|word| word == field), "{kind}: {field}");
            }
        }
    }

    #[test]
    fn the_guide_is_short() {
        assert!(BLOCK_GUIDE.len() <= 2560, "{}", BLOCK_GUIDE.len());
        assert!(BLOCK_GUIDE.contains("weather for weather questions"));
    }

    #[test]
    fn the_prompt_says_what_the_tools_do() {
        insta::assert_snapshot!(prompt_line());
    }
}
