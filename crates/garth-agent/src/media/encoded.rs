//! Decoding of base64 and data URLs in the forms that programs write.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Decoder that accepts base64 with and without padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Decodes base64, also with white space, without padding, and in the alphabet for URLs. Returns `None` for
/// other text.
pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    if let Ok(bytes) = STANDARD.decode(text) {
        return Some(bytes);
    }
    let plain = |byte: u8| match byte {
        b'-' => b'+',
        b'_' => b'/',
        byte => byte,
    };
    let text: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).map(plain).collect();
    LENIENT.decode(text).ok()
}

/// Returns base64 in its standard form: unchanged if it is, else encoded again from `bytes`.
pub(crate) fn standard_base64<'a>(text: &'a str, bytes: &[u8]) -> Cow<'a, str> {
    // Missing padding, white space or the alphabet of URLs make it nonstandard.
    let is_standard = text.len().is_multiple_of(4)
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
    if is_standard { Cow::Borrowed(text) } else { Cow::Owned(STANDARD.encode(bytes)) }
}

/// Returns the MIME type, which may be empty, and the base64 of a data URL.
pub(crate) fn data_url(url: &str) -> Option<(&str, &str)> {
    let (head, data) = url.trim_start().split_once(',')?;
    let head = head.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("data:")).map(|_| &head[5..])?;
    let at = head.len().checked_sub(";base64".len()).filter(|at| head.is_char_boundary(*at))?;
    let (mime_type, encoding) = head.split_at(at);
    encoding.eq_ignore_ascii_case(";base64").then_some((mime_type, data))
}

/// Decodes percent-encoding in the base64 of a URL: some programs encode `+`, `/` and `=`. Returns a text
/// unchanged if one of its escapes is not of an ASCII character.
pub(crate) fn percent_decoded(text: &str) -> Cow<'_, str> {
    let (mut decoded, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('%') {
        let digits = after.get(..2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let Some(byte) = byte.filter(u8::is_ascii) else { return Cow::Borrowed(text) };
        decoded.push_str(before);
        decoded.push(char::from(byte));
        rest = &after[2..];
    }
    if decoded.is_empty() {
        return Cow::Borrowed(text);
    }
    decoded.push_str(rest);
    Cow::Owned(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_every_form_of_base64() {
        for text in ["+/8A", "-_8A", "+/8A\n", " +/\r\n8A ", "-/8A"] {
            assert_eq!(from_base64(text).as_deref(), Some(&[0xfb, 0xff, 0][..]), "{text}");
        }
        for text in ["aGk=", "aGk", "aG\nk=", "aGl="] {
            assert_eq!(from_base64(text).as_deref(), Some(&b"hi"[..]), "{text}");
        }
        for text in ["@@@@", "a", "aGk=aGk=", "ä"] {
            assert_eq!(from_base64(text), None, "{text}");
        }
        assert_eq!((&*standard_base64("aGk=", b"hi"), &*standard_base64("aGk", b"hi")), ("aGk=", "aGk="));
    }

    #[test]
    fn removes_percent_encoding_from_base64() {
        for (text, due) in [
            ("aGk%3D", "aGk="),
            ("%2b%2F8A%0A", "+/8A\n"),
            ("aGk=", "aGk="),
            ("a%3", "a%3"),
            ("a%+3", "a%+3"),
            ("a%3D%80", "a%3D%80"),
            ("%\u{e4}", "%\u{e4}"),
        ] {
            assert_eq!(percent_decoded(text), due, "{text}");
        }
    }

    #[test]
    fn data_urls_ignore_case() {
        assert_eq!(data_url("data:image/png;base64,aGk="), Some(("image/png", "aGk=")));
        assert_eq!(data_url(" DATA:IMAGE/PNG;BASE64,aGk="), Some(("IMAGE/PNG", "aGk=")));
        assert_eq!(data_url("data:;base64,aGk="), Some(("", "aGk=")));
        for url in ["https://x/a;base64,aGk=", "data:image/svg+xml,%3Csvg", "data:ä,", "dat", "data:"] {
            assert_eq!(data_url(url), None, "{url}");
        }
    }
}
