//! Percent-encoding.

/// The text as a part of a URI: all but letters, digits and `-._~` of ASCII is encoded.
pub(super) fn component(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_end_a_part_or_is_not_ascii_is_encoded() {
        assert_eq!(component("a-b.c_d~9"), "a-b.c_d~9");
        assert_eq!(component("é & 1/2?#%\n"), "%C3%A9%20%26%201%2F2%3F%23%25%0A");
    }
}
