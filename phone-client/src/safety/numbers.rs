//! Codes in phone numbers. With `*` and `#` a number is a command to the phone or its network: it can redirect calls, lock
//! the SIM card, and on some phones erase everything.

use unicode_normalization::UnicodeNormalization;

use super::Refused;

/// How often a text is decoded: each time may bring out another encoding.
const MAX_DECODINGS: usize = 4;

/// Signs that are taken for `*` or `#`, beside those whose compatibility form is one of them.
const LOOK_ALIKES: &str = "٭†‡※⁎⁑⁕∗⋆⌗★☆⚹✱✲✳✴✵✶✷✸✹✺✻✼❃❇❈❉❊❋⧆⩨⩩⩮⭐ꙮ꙳🞯🞰🞱🞲🞳🞴♯⋕⧣⧤⧥𐄌᙭";

/// Whether a text can be given to an app as a number: it has no code in it, however that is written.
///
/// # Errors
/// It has.
pub(super) fn check(text: &str) -> Result<(), Refused> {
    let mut text = text.to_owned();
    for _ in 0..MAX_DECODINGS {
        let plain: String = text.nfkc().collect();
        if plain.chars().any(|c| matches!(c, '*' | '#') || LOOK_ALIKES.contains(c)) {
            return Err(Refused::Code);
        }
        let decoded = percent_decoded(&plain);
        if decoded == text {
            return Ok(());
        }
        text = decoded;
    }
    // Nobody encodes an honest number that often.
    Err(Refused::Code)
}

/// The text with each `%XX` as its byte, and what makes no character then replaced.
pub(super) fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let digit = |place: usize| char::from(*behind.get(place)?).to_digit(16);
        match (byte, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.extend(u8::try_from(high * 16 + low));
                rest = behind.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(byte);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_code_is_found_however_it_is_written() {
        for code in [
            "*#06#",
            "##4636##",
            "123*",
            "#",
            "%23",
            "%2a06",
            "*%32",
            "%2523",
            "%25252A",
            "＃06＃",
            "＊06",
            "﹟1",
            "﹡1",
            "1♯",
            "∗06",
            "1⁎2",
            "✱06✱",
            "٭06",
            "#️⃣",
            "*️⃣",
            "%EF%BC%83",
            "Bob %23",
            "𐄌1",
            "%252525252525252523",
        ] {
            assert_eq!(check(code), Err(Refused::Code), "{code}");
        }
    }

    #[test]
    fn numbers_and_names_have_no_code() {
        for fine in ["+33 (0)1 23-45.67/89", "112", "Bob", "Zoë % & Co", "100 %", "%", "%2", "%zz", "a@example.org", ""]
        {
            assert_eq!(check(fine), Ok(()), "{fine}");
        }
    }

    #[test]
    fn decoding_takes_whole_codes_only() {
        assert_eq!(percent_decoded("a%20b%C3%A9%2%zz%"), "a bé%2%zz%");
        assert_eq!(percent_decoded("%ff"), "\u{fffd}");
    }

    proptest! {
        #[test]
        fn any_text_with_a_code_is_refused_and_no_number_is(before in "\\PC{0,6}", after in "\\PC{0,6}", number in "[0-9 +()./-]{0,9}") {
            let (plain, encoded) = (format!("{before}*{after}"), format!("{before}%23{after}"));
            prop_assert!(check(&plain).is_err());
            prop_assert!(check(&encoded).is_err() || before.ends_with('%'));
            prop_assert!(check(&number).is_ok());
        }
    }
}
