//! Addresses of pages. A browser or another app may act on what an address holds: start an app, open an installer, dial.

use unicode_normalization::UnicodeNormalization;

use super::{Refused, numbers, numbers::percent_decoded};

/// Schemes that start an app or run something. None of them may be handed on within an address either.
const SCHEMES: [&str; 7] = ["intent", "android-app", "market", "package", "javascript", "termux", "tasker"];

/// What an address of something on the phone begins with. A page may be called "File:" or "Content:", so it is the whole.
const LOCAL: [&str; 2] = ["file://", "content://"];

/// Schemes that take a number.
const NUMBER_SCHEMES: [&str; 5] = ["tel", "sms", "smsto", "mmsto", "callto"];

/// Files that install an app when they are opened.
const PACKAGES: [&str; 6] = [".apk", ".apks", ".apkm", ".xapk", ".aab", ".apex"];

/// Whether an address is plainly one of a page.
///
/// # Errors
/// What is wrong with it.
pub(super) fn check(url: &str) -> Result<(), Refused> {
    let refused = |why| Err(Refused::Address(why));
    let Some((scheme, rest)) = url.split_once("://") else { return refused("it is none") };
    if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return refused("it is not http or https");
    }
    if url.chars().any(|c| c.is_whitespace() || c.is_control() || c == '\\' || is_hidden(c)) {
        return refused("it has characters in it that hide or break it");
    }
    let (host, behind) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if host.contains('@') {
        return refused("it has a user name in it");
    }
    let name = host.split_once(':').map_or(host, |(name, _)| name);
    let is_ip6 = host.starts_with('[');
    if name.trim_matches('.').is_empty() || host.contains('%') || (!is_ip6 && !name.contains(char::is_alphanumeric)) {
        return refused("it has no host");
    }
    let path = behind.split(['?', '#']).next().unwrap_or_default();
    let path = plain(path);
    if PACKAGES.iter().any(|ending| path.trim_end_matches('/').ends_with(ending)) {
        return refused("it is an app to be installed");
    }
    // What is handed on: a part of the path, a parameter's value, the fragment, and what is encoded in them.
    for part in behind.split(['/', '?', '#', '&', '=', ';', ',', '|']).chain([behind.trim_start_matches('/')]) {
        check_part(&plain(part))?;
    }
    let mut values = behind.split(['?', '#', '&', '=', ';']).map(plain);
    if values.any(|value| LOCAL.iter().any(|local| value.starts_with(local))) {
        return refused("it hands on the address of something on the phone");
    }
    match plain(behind).contains("#intent;") {
        true => refused("it hands on the address of an app"),
        false => Ok(()),
    }
}

fn check_part(part: &str) -> Result<(), Refused> {
    let Some((scheme, rest)) = part.split_once(':') else { return Ok(()) };
    if SCHEMES.contains(&scheme) {
        return Err(Refused::Address("it hands on the address of an app"));
    }
    if NUMBER_SCHEMES.contains(&scheme) {
        return numbers::check(rest);
    }
    Ok(())
}

/// The text decoded twice, in compatibility form and lower case: what an app might take it for.
fn plain(text: &str) -> String {
    percent_decoded(&percent_decoded(text)).nfkc().collect::<String>().to_lowercase().trim().to_owned()
}

/// Characters that take no room or turn the direction of writing.
fn is_hidden(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_page_is_opened() {
        for fine in [
            "https://example.org",
            "HTTP://Example.org:8080/a?b=c#d",
            "https://exämple.org/ü?q=1%202",
            "http://[::1]:8080/",
            "http://127.0.0.1/",
            "https://en.example.org/wiki/Help:Contents",
            "https://example.org/?to=tel:+33123",
            "https://example.org/hotel:12",
            "https://example.org/?u=https://other.example/a",
            "https://example.org/apk",
            "https://example.org/data",
            "https://example.org/a.apk.html",
            "https://example.org/?file=x",
            "https://commons.example.org/wiki/File:Cat.jpg",
            "https://commons.example.org/wiki/Data:Content:x",
        ] {
            assert_eq!(check(fine), Ok(()), "{fine}");
        }
    }

    #[test]
    fn an_address_without_a_host_or_with_a_false_one_is_refused() {
        for wrong in [
            "https:///etc",
            "http://",
            "https://?q",
            "https://#x",
            "https://:80/",
            "https://.",
            "https://../a",
            "http://-/",
            "https://example.org@evil.example/",
            "https://example.org%2f@evil.example/",
            "https://example.org%00.evil/",
            "https:\\\\evil",
            "https://a\\b",
            "https://exa\u{200b}mple.org",
            "https://a\u{202e}b/",
            "https://a b/",
            "https://a\n/",
            "ftp://a",
            "intent://a",
            "tel:123",
            "",
        ] {
            assert!(matches!(check(wrong), Err(Refused::Address(_))), "{wrong:?}");
        }
    }

    #[test]
    fn an_address_that_hands_on_an_app_an_installer_or_a_code_is_refused() {
        for wrong in [
            "https://a.b/#Intent;scheme=x;end",
            "https://a.b/%23Intent;end",
            "https://a.b/?u=intent://x#Intent;end",
            "https://a.b/?u=intent%3A%2F%2Fx",
            "https://a.b/?u=INTENT%253A%252F",
            "https://a.b/intent:x",
            "https://a.b/?u=market://details?id=x",
            "https://a.b/?u=ｍarket:x",
            "https://a.b/#package:com.x",
            "https://a.b/?a&b=android-app://x",
            "https://a.b/x.apk",
            "https://a.b/x.APK?y",
            "https://a.b/x%2Eapk",
            "https://a.b/x.xapk/",
            "https://a.b/?u=javascript:x",
            "https://a.b/?u=file%3A%2F%2F/sdcard/x",
            "https://a.b/#content://sms",
        ] {
            assert!(matches!(check(wrong), Err(Refused::Address(_))), "{wrong:?}");
        }
        for code in [
            "https://a.b/?u=tel:*%2306%23",
            "https://a.b/tel:%2A100%23",
            "https://a.b/?u=tel%3A%252306%2523",
            "https://a.b/?u=sms:＃1",
        ] {
            assert_eq!(check(code), Err(Refused::Code), "{code}");
        }
    }

    proptest! {
        #[test]
        fn any_text_has_a_verdict(url in "\\PC{0,30}|https?://[%:/?#@a-z.&=;\\\\\\[\\]]{0,30}") {
            if check(&url).is_ok() {
                prop_assert!(url.split("://").next().is_some_and(|scheme| ["http", "https"].contains(&&*scheme.to_lowercase())));
            }
        }
    }
}
