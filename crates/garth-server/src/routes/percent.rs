//! Percent-encoding. There is one decoder, and it is strict: one that replaces bytes which are not UTF-8, or
//! leaves a broken escape as it is, takes different texts for one name.

/// Decodes a percent-encoded text; `None` for a broken escape, or what is not UTF-8.
pub(crate) fn decoded(text: &[u8]) -> Option<String> {
    let (mut decoded, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((byte, after)) = rest.split_first() {
        rest = match (byte, after) {
            (b'%', [high, low, after @ ..]) => {
                let digit =
                    |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                decoded.push(digit(high)? * 16 + digit(low)?);
                after
            }
            (b'%', _) => return None,
            (byte, after) => {
                decoded.push(*byte);
                after
            }
        };
    }
    String::from_utf8(decoded).ok()
}
