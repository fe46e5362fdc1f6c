//! Strings with a form of their own: addresses, ids, names of languages.

/// The longest web address, in bytes.
const MAX_ADDRESS: usize = 2048;

/// The longest prompt id.
const MAX_ID: usize = 64;

/// Whether a string is the `mxc://server/id` address of an upload, of at most 255 bytes.
#[must_use]
pub fn is_mxc(text: &str) -> bool {
    let Some((server, id)) = text.strip_prefix("mxc://").and_then(|rest| rest.split_once('/')) else { return false };
    let in_server = |byte: u8| byte.is_ascii_alphanumeric() || b".:-[]".contains(&byte);
    let in_id = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    text.len() <= 255 && !server.is_empty() && server.bytes().all(in_server) && !id.is_empty() && id.bytes().all(in_id)
}

/// Whether a string can be the id of a button, a card's action or a form.
pub(super) fn is_prompt_id(text: &str) -> bool {
    let in_id = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
    (1..=MAX_ID).contains(&text.len()) && text.bytes().all(in_id)
}

/// Whether a string is an `http` or `https` address.
pub(crate) fn is_web(text: &str) -> bool {
    after_scheme(text, "http://").is_some_and(is_place_on_the_web) || is_https(text)
}

pub(super) fn is_https(text: &str) -> bool {
    after_scheme(text, "https://").is_some_and(is_place_on_the_web)
}

/// A host and what follows it. No user name: `https://bank.example@evil.example` misleads.
fn is_place_on_the_web(rest: &str) -> bool {
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    host.starts_with(|c: char| c.is_alphanumeric() || c == '[') && !host.contains('@') && is_address(rest)
}

/// A point on the earth by RFC 5870: `geo:48.2,16.37`, perhaps with parameters or a map's query.
pub(crate) fn is_geo(text: &str) -> bool {
    let is_point = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit() || c == '-') && rest.contains(',');
    after_scheme(text, "geo:").is_some_and(|rest| is_point(rest) && is_address(rest))
}

/// Whether a string can stand in a link as it is: no space, nothing that would end the link.
fn is_address(rest: &str) -> bool {
    !rest.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '<' | '>' | '"' | '\\' | '`'))
}

/// What follows the scheme of an address that is not too long as a whole.
fn after_scheme<'a>(text: &'a str, scheme: &str) -> Option<&'a str> {
    let (start, rest) = text.split_at_checked(scheme.len())?;
    (text.len() <= MAX_ADDRESS && start.eq_ignore_ascii_case(scheme)).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_mxc_address_names_a_server_and_an_id() {
        for yes in ["mxc://example.org/abc", "mxc://example.org:8448/A_b-9", "mxc://[2001:db8::1]/x"] {
            assert!(is_mxc(yes), "{yes}");
        }
        for no in [
            "",
            "mxc://",
            "mxc://example.org",
            "mxc://example.org/",
            "mxc:///abc",
            "mxc://example.org/a/b",
            "mxc://example.org/a?b",
            "https://example.org/abc",
            "mxc://exämple.org/abc",
            &format!("mxc://example.org/{}", "a".repeat(240)),
        ] {
            assert!(!is_mxc(no), "{no}");
        }
    }

    #[test]
    fn a_web_address_has_a_host_and_nothing_that_could_leave_a_link() {
        for yes in
            ["https://example.org", "HTTP://example.org/a?b=(c)#d", "https://bücher.example/ü", "http://[::1]:8/"]
        {
            assert!(is_web(yes), "{yes}");
        }
        for no in [
            "",
            "https://",
            "https:///a",
            "javascript:alert(1)",
            "ftp://example.org",
            "https://a b.example",
            "https://a.example/<b>",
            "https://good.example@evil.example/",
            "https://a.example/\n",
            &format!("https://a.example/{}", "a".repeat(2031)),
        ] {
            assert!(!is_web(no), "{no}");
        }
        assert!(is_web(&format!("https://a.example/{}", "a".repeat(2030))));
        assert!(!is_https("http://example.org"));
    }

    #[test]
    fn a_geo_address_has_coordinates() {
        assert!(is_geo("geo:48.2,16.37") && is_geo("geo:-1,2;u=35") && is_geo("geo:0,0?q=1+Main+St"));
        assert!(!is_geo("geo:") && !is_geo("geo:here") && !is_geo("geo:1") && !is_geo("geo:1, 2"));
    }

    #[test]
    fn a_prompt_id_is_a_word_of_at_most_64() {
        assert!(is_prompt_id("go") && is_prompt_id("a.b:c-d_9") && is_prompt_id(&"x".repeat(64)));
        assert!(!is_prompt_id("") && !is_prompt_id("a b") && !is_prompt_id("ä") && !is_prompt_id(&"x".repeat(65)));
    }
}
