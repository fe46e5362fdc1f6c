//! How a model is brought to call tools.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The form of tool calls that an endpoint and its model understand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Form {
    /// The API's own tool calls, several a step.
    Native,
    /// One JSON object a step: a tool call or the reply.
    Constrained(ResponseFormat),
}

/// The way in which a server is told the form of the JSON object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseFormat {
    /// `{"type":"json_schema","json_schema":{…}}`
    JsonSchema,
    /// `{"type":"json_object","schema":{…}}`
    JsonObject,
    /// Not at all: the model is only asked for it.
    Free,
}

/// A text that names no [`Form`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no form of tool calls")]
pub struct UnknownForm(String);

impl Form {
    const ALL: [(Self, &str); 4] = [
        (Self::Native, "native"),
        (Self::Constrained(ResponseFormat::JsonSchema), "constrained/json_schema"),
        (Self::Constrained(ResponseFormat::JsonObject), "constrained/json_object"),
        (Self::Constrained(ResponseFormat::Free), "constrained/free"),
    ];
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find_map(|(form, name)| (form == self).then_some(*name));
        f.write_str(name.unwrap_or_default())
    }
}

impl FromStr for Form {
    type Err = UnknownForm;

    fn from_str(text: &str) -> Result<Self, UnknownForm> {
        let form = Self::ALL.iter().find_map(|(form, name)| (*name == text).then_some(*form));
        form.ok_or_else(|| UnknownForm(text.to_owned()))
    }
}

impl From<Form> for String {
    fn from(form: Form) -> Self {
        form.to_string()
    }
}

impl TryFrom<String> for Form {
    type Error = UnknownForm;

    fn try_from(text: String) -> Result<Self, UnknownForm> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn each_form_comes_back_from_its_text() {
        for (form, name) in Form::ALL {
            assert_eq!(form.to_string(), name);
            assert_eq!(name.parse(), Ok(form));
            assert_eq!(serde_json::from_str::<Form>(&serde_json::to_string(&form).unwrap()).unwrap(), form);
        }
        assert_eq!("other".parse::<Form>(), Err(UnknownForm("other".into())));
    }
}
