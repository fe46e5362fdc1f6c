//! Addresses that open a map, a mail app or a page. None has a blank, a quote, a bracket or a hidden character.

use serde_json::Value;

use crate::{
    action::Action,
    rule::{coordinates, place_text},
};

use super::shown::is_hidden;

/// The longest address of a draft; a longer one is left out, since apps cut it anywhere.
const MAX_MAILTO: usize = 1500;

/// A web address as it was given; what could hide or break it is percent-encoded.
pub(super) fn url(url: &str) -> String {
    encode(url, |c| !(c.is_whitespace() || c.is_control() || is_hidden(c) || "<>()[]\"'`\\^{|}".contains(c)))
}

/// A page with the place on a map: at its coordinates, else the results of looking for it.
pub(super) fn map(place: &Value) -> Option<String> {
    let place = place.as_object()?;
    if let Some([lat, lon]) = coordinates(place) {
        return Some(format!("https://www.openstreetmap.org/?mlat={lat}&mlon={lon}#map=17/{lat}/{lon}"));
    }
    let sought = place_text(place, "query").or_else(|| place_text(place, "name"))?;
    Some(format!("https://www.openstreetmap.org/search?query={}", component(sought)))
}

/// The place as a `geo:` URI (RFC 5870), if it has coordinates. Matrix allows no links to it, but some clients find it in
/// a text and open the map app.
pub(super) fn geo(place: &Value) -> Option<String> {
    let [lat, lon] = coordinates(place.as_object()?)?;
    Some(format!("geo:{lat},{lon}"))
}

/// The text if it is an e-mail address that needs no encoding in a link.
pub(super) fn address(text: &str) -> Option<&str> {
    let (name, host) = text.split_once('@')?;
    let all = |text: &str, more: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
    };
    (all(name, "._+-") && all(host, ".-")).then_some(text)
}

/// A draft of an e-mail (RFC 6068) from the fields `to`, `cc`, `subject` and `body`, which are called so there too.
pub(super) fn mailto(action: &Action) -> Option<String> {
    let people = |field| {
        let people = action.get(field).and_then(Value::as_array).into_iter().flatten();
        people.filter_map(|one| address(one.as_str()?)).collect::<Vec<_>>().join(",")
    };
    let text = |field| component(&action.get(field).and_then(Value::as_str).unwrap_or_default().replace('\n', "\r\n"));
    let headers = [("cc", people("cc")), ("subject", text("subject")), ("body", text("body"))];
    let headers: Vec<_> = headers
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let to = people("to");
    let query = if headers.is_empty() { String::new() } else { format!("?{}", headers.join("&")) };
    let address = format!("mailto:{to}{query}");
    (address.len() > "mailto:".len() && address.len() <= MAX_MAILTO).then_some(address)
}

fn component(text: &str) -> String {
    encode(text, |c| c.is_ascii_alphanumeric() || "-._~".contains(c))
}

/// The text with all but these characters percent-encoded.
fn encode(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for c in text.chars() {
        if keep(c) {
            encoded.push(c);
        } else {
            let mut bytes = [0; 4];
            encoded.extend(c.encode_utf8(&mut bytes).bytes().map(|byte| format!("%{byte:02X}")));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn a_web_address_stays_as_it_is_but_for_what_hides_or_breaks_it() {
        assert_eq!(url("HTTPS://exämple.org/a?b=c&d=%20#e"), "HTTPS://exämple.org/a?b=c&d=%20#e");
        assert_eq!(url("https://a/\"><b>\u{202e} (x)\n"), "https://a/%22%3E%3Cb%3E%E2%80%AE%20%28x%29%0A");
    }

    #[test]
    fn a_place_is_found_by_its_coordinates_before_its_words() {
        let at = json!({"lat": 48.85, "lon": -2, "query": "x"});
        assert_eq!(map(&at).unwrap(), "https://www.openstreetmap.org/?mlat=48.85&mlon=-2#map=17/48.85/-2");
        assert_eq!(geo(&at).unwrap(), "geo:48.85,-2");
        let sought = json!({"lat": 91, "lon": 0, "name": "Home", "query": "Rue d'Été & 1"});
        assert_eq!(
            map(&sought).unwrap(),
            "https://www.openstreetmap.org/search?query=Rue%20d%27%C3%89t%C3%A9%20%26%201"
        );
        assert_eq!(geo(&sought), None);
    }

    #[test]
    fn an_address_is_linked_only_if_it_is_plainly_one() {
        assert_eq!(address("a.b+c@example.org"), Some("a.b+c@example.org"));
        for other in ["Bob", "a@", "@b", "a@b@c", "a b@c", "a?bcc=x@c", "a@b>c", "é@b"] {
            assert_eq!(address(other), None, "{other}");
        }
    }

    #[test]
    fn a_draft_is_one_link_unless_it_is_too_long() {
        let draft = |call| mailto(&crate::check(&call).unwrap());
        let call = json!({"action": "email_draft", "to": ["a@b.c", "Bob"], "cc": ["d@e.f"], "subject": "1 & 2",
            "body": "x\ny"});
        assert_eq!(draft(call).unwrap(), "mailto:a@b.c?cc=d@e.f&subject=1%20%26%202&body=x%0D%0Ay");
        assert_eq!(draft(json!({"action": "email_draft", "to": ["Bob"]})), None);
        assert_eq!(draft(json!({"action": "email_draft", "body": "x".repeat(MAX_MAILTO)})), None);
    }
}
