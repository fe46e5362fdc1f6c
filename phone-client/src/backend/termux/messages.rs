//! Drafts and the dialler: the app opens, and the person sends or calls.

use phone_actions::Action;
use serde_json::Value;

use super::{
    intent::Intent,
    plan::{Plan, Try, words},
    uri::component,
};

/// The messages app with a new message. Only what is a number gets into its address line: names are the person's to pick.
pub(super) fn sms_draft(action: &Action) -> Plan {
    let (numbers, others) = people(action, "to", number);
    let mut intent = Intent::start("android.intent.action.SENDTO").data(&format!("smsto:{}", numbers.join(",")));
    if let Some(body) = words(action, "body") {
        intent = intent.text("sms_body", &body);
    }
    Ok(vec![noted(intent, &others)])
}

/// The mail app with a new mail (RFC 6068).
pub(super) fn email_draft(action: &Action) -> Plan {
    let (to, mut others) = people(action, "to", address);
    let (cc, others_in_cc) = people(action, "cc", address);
    others.extend(others_in_cc);
    let text = |field| component(&words(action, field).unwrap_or_default().replace("\r\n", "\n").replace('\n', "\r\n"));
    let headers: Vec<_> = [("cc", cc.join(",")), ("subject", text("subject")), ("body", text("body"))]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let query = if headers.is_empty() { String::new() } else { format!("?{}", headers.join("&")) };
    let intent = Intent::start("android.intent.action.SENDTO").data(&format!("mailto:{}{query}", to.join(",")));
    Ok(vec![noted(intent, &others)])
}

/// The dialler with a number; it does not call.
pub(super) fn dial(action: &Action) -> Plan {
    let number = action.get("number").and_then(Value::as_str).and_then(number).ok_or("that is no phone number")?;
    Ok(vec![Intent::start("android.intent.action.DIAL").data(&format!("tel:{number}")).argv().into()])
}

fn noted(intent: Intent, others: &[String]) -> Try {
    let attempt = Try::from(intent.argv());
    match others {
        [] => attempt,
        others => attempt.with_note(format!("the person still has to fill in: {}", others.join(", "))),
    }
}

/// Those whom the app can be given, in its own way of writing, and those whom it can't.
fn people(action: &Action, field: &str, written: impl Fn(&str) -> Option<String>) -> (Vec<String>, Vec<String>) {
    let people = action.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let (mut known, mut others) = (Vec::new(), Vec::new());
    for person in people.iter().filter_map(Value::as_str) {
        match written(person) {
            Some(written) => known.push(written),
            None => others.push(person.split_whitespace().collect::<Vec<_>>().join(" ")),
        }
    }
    (known, others)
}

/// A phone number without what only separates its digits. A `+` counts in front alone, and there are no other signs: `*`
/// and `#` make codes.
fn number(text: &str) -> Option<String> {
    let text = text.trim();
    let (plus, rest) = match text.strip_prefix('+') {
        Some(rest) => ("+", rest),
        None => ("", text),
    };
    // Behind a country's code, "(0)" is what is dialled instead of it within the country.
    let rest = if plus.is_empty() { rest.to_owned() } else { rest.replacen("(0)", "", 1) };
    let digits: String = rest.chars().filter(char::is_ascii_digit).collect();
    let plain = rest.chars().all(|c| c.is_ascii_digit() || " ()-./".contains(c));
    (plain && digits.len() >= 3).then(|| format!("{plus}{digits}"))
}

/// An e-mail address, encoded but for what is plain in one.
fn address(text: &str) -> Option<String> {
    let (name, host) = text.split_once('@')?;
    let plain = |c: char| !c.is_whitespace() && !c.is_control() && !"@,;:<>()[]\\\"".contains(c);
    let whole = |part: &str| !part.is_empty() && part.chars().all(plain);
    (whole(name) && whole(host)).then(|| format!("{}@{}", component(name), component(host)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::plan::tests::shown, *};

    #[test]
    fn drafts_and_the_dialler() {
        insta::assert_snapshot!(shown(&[
            json!({"action": "sms_draft", "to": ["+33 1 23 45 67 89"]}),
            json!({"action": "sms_draft", "body": "-n it's \"late\";\n$(id) & more"}),
            json!({"action": "sms_draft", "to": ["(0800) 123-4.5/6", "Bob\nBuilder", "112", "*#06#"], "body": "Hi"}),
            json!({"action": "email_draft", "to": ["a+b@example.org", "Bob", "x?bcc=y@z"]}),
            json!({"action": "email_draft", "subject": "1 & 2 = 3?"}),
            json!({"action": "email_draft", "body": "a\nb\r\nc%0A"}),
            json!({"action": "email_draft", "to": ["a@b.c", "d@e.f"], "cc": ["g@h.i", "Eve"], "subject": "S", "body": "B"}),
            json!({"action": "dial", "number": "+33 (0)1 23-45.67/89"}),
            json!({"action": "dial", "number": "(0)800 123"}),
            json!({"action": "dial", "number": "*100*1#"}),
            json!({"action": "dial", "number": "12+345"}),
        ]));
    }

    #[test]
    fn a_number_has_nothing_in_it_that_could_be_a_code() {
        for text in ["*100#", "123#", "123%23", "１２３", "123,456", "123;ext=4", "12", "++123", "tel:123", "123p1", ""]
        {
            assert_eq!(number(text), None, "{text}");
        }
    }

    #[test]
    fn an_address_can_add_no_header() {
        assert_eq!(address("x?bcc=y&z@example.org").as_deref(), Some("x%3Fbcc%3Dy%26z@example.org"));
        for text in ["a@b@c", "a,b@c", "a b@c", "<a@b>", "\"a\"@b", "@b", "a@", "a", "a@b\n"] {
            assert_eq!(address(text), None, "{text}");
        }
    }
}
