//! What the phone is asked to do.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    tables::tables,
    text::{Frame, Text, text_of},
};

/// An action that has passed [`check`](crate::check): `{"action", "summary", ...}` with the action's own fields.
///
/// It is written as such an object, and read again by [`check`](crate::check), which leaves it as it is. The coordinates
/// of a place are JSON numbers here; decimal strings stand for them only on the wire.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Action(Map<String, Value>);

impl Action {
    pub(crate) fn new(name: &str, summary: &str, mut fields: Map<String, Value>) -> Self {
        fields.insert("action".to_owned(), name.into());
        fields.insert("summary".to_owned(), summary.into());
        Self(fields)
    }

    /// Which action, such as `alarm`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.string("action")
    }

    /// The model's line on what this is for; the action's name where it gave none.
    #[must_use]
    pub fn summary(&self) -> &str {
        self.string("summary")
    }

    /// A field, if it was given.
    #[must_use]
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.0.get(field)
    }

    /// A field, or what leaving it out means: a route without `mode` is one by car.
    #[must_use]
    pub fn get_or_default(&self, field: &str) -> Option<&Value> {
        self.get(field).or_else(|| tables().action(self.name())?.defaults.get(field))
    }

    /// What would happen, in words and with all details, for whoever asks the person: nothing of how to answer.
    #[must_use]
    pub fn text(&self) -> Text {
        text_of(tables(), self, Frame::Proposal)
    }

    /// The whole as JSON.
    #[must_use]
    pub fn to_value(&self) -> Value {
        Value::Object(self.0.clone())
    }

    fn string(&self, key: &str) -> &str {
        self.0.get(key).and_then(Value::as_str).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use crate::check;

    #[test]
    fn a_field_that_is_left_out_means_its_default() {
        let action = check(&json!({"action": "navigate", "destination": {"name": "Home"}})).unwrap();
        assert_eq!((action.get("mode"), action.get_or_default("mode")), (None, Some(&json!("drive"))));
        assert_eq!(action.get_or_default("stops"), None);
    }

    #[test]
    fn a_proposal_says_what_would_happen_and_not_how_to_answer() {
        let action = check(&json!({"action": "dial", "summary": "Call home", "number": "112"})).unwrap();
        let expected = "📞 Open the dialler with 112\n\nThe agent says:\n> Call home\n\nYou place the call.";
        assert_eq!(action.text().plain(), expected);
    }

    #[test]
    fn an_action_that_was_written_is_read_by_the_check_and_stays_as_it_is() {
        let action = check(&json!({"action": "timer", "seconds": 60, "label": " Tea "})).unwrap();
        let written = serde_json::to_value(&action).unwrap();
        assert_eq!(written, json!({"action": "timer", "summary": "timer", "seconds": 60, "label": "Tea"}));
        assert_eq!(check(&written), Ok(action));
    }
}
