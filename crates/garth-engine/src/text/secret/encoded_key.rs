//! Private keys of which the complete text is in base64, as in a Secret of Kubernetes, in one line or in
//! lines of equal length.

use std::ops::Range;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::private_key::{KIND, RUN, is_base64};
use super::span::{LONGEST, Secret};
use super::words::look_at;

/// `-----BEGIN` in base64, without the last digit, which depends on what follows.
pub(super) const MARK: &[u8] = b"LS0tLS1CRUdJTi";

/// Ends of the labels of private keys. Before the key there may be others, such as those of its parameters or
/// of its certificate.
const LABELS: [&[u8]; 2] = [b"PRIVATE KEY-----", b"PRIVATE KEY BLOCK-----"];

/// Base64 that may be cut off anywhere.
const CUT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

/// Returns the key that begins with this word.
pub(super) fn at(text: &[u8], word: &Range<usize>) -> Option<Secret> {
    let most = text.len().min(word.start + LONGEST);
    let (mut digits, mut lines, mut at) = (Vec::new(), Vec::<Line>::new(), word.start);
    loop {
        let length = run(&text[at..most]);
        let full = lines.first().map_or(length, |first| first.length);
        // Another key, or a text after the key.
        if length == 0 || length > full || (at > word.start && text[at..].starts_with(MARK)) {
            break;
        }
        digits.extend(text[at..at + length].iter().filter(|byte| **byte != b'='));
        lines.push(Line { length, digits: digits.len(), end: at + length });
        let Some(next) = next_line(text, at + length, most) else { break };
        at = next;
        if length < full.max(RUN) {
            break;
        }
    }
    look_at(at - word.start);
    // One digit alone stands for no byte.
    if digits.len() % 4 == 1 {
        digits.pop();
    }
    let key = CUT.decode(&digits).ok()?;
    let last = match label_ends(&key)? {
        // Digits of a text after the key are not its own.
        Some(end) => lines.iter().find(|line| line.digits >= (end * 4).div_ceil(3)),
        // The key was cut off: all full lines are its own.
        None => lines.iter().rfind(|line| line.length == lines[0].length),
    };
    last.map(|last| Secret::new(word.start..last.end, KIND))
}

/// Returns the length of the digits at the start of a text, with their padding. Digits after it are of
/// another text: each of many keys in a row would be read with all that follow.
fn run(text: &[u8]) -> usize {
    let digits = text.iter().take_while(|byte| is_base64(**byte) && **byte != b'=').count();
    digits + text[digits..].iter().take(2).take_while(|byte| **byte == b'=').count()
}

/// Line of a key.
struct Line {
    length: usize,
    /// Number of digits of the key up to its end.
    digits: usize,
    end: usize,
}

/// Returns the place of the next line, after the signs that it is quoted or indented with; `None` if
/// something else follows in this line.
fn next_line(text: &[u8], at: usize, most: usize) -> Option<usize> {
    let is_around = |byte: &&u8| byte.is_ascii_whitespace() || b"\"'`>\\,|*#".contains(byte);
    let gap = text[at..most].iter().take_while(is_around).count();
    text[at..at + gap].contains(&b'\n').then_some(at + gap)
}

/// Returns the end of a private key, `None` if it is cut off. `None` for a text without one.
fn label_ends(key: &[u8]) -> Option<Option<usize>> {
    let after = |from: usize| {
        let ends = LABELS.iter().filter_map(|label| {
            let at = key[from..].windows(label.len()).position(|window| window == *label)?;
            Some(from + at + label.len())
        });
        ends.min()
    };
    let begin = after(0)?;
    Some(after(begin))
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose;
    use garth_testkit::data::random::Random;

    use super::super::{Judgement, masked, masked_in_context};

    fn encoded(text: impl AsRef<[u8]>) -> String {
        general_purpose::STANDARD.encode(text)
    }

    fn wrapped(text: &str, length: usize, end: &str) -> String {
        text.as_bytes().chunks(length).map(|line| str::from_utf8(line).unwrap()).collect::<Vec<_>>().join(end)
    }

    /// Returns a block of PEM with random bytes.
    fn block(random: &mut Random, label: &str, length: usize) -> String {
        let bytes: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
        format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", wrapped(&encoded(bytes), 64, "\n"))
    }

    /// Returns keys as tools write them.
    fn keys() -> Vec<String> {
        let random = &mut Random::new(5);
        let labels =
            ["", "RSA ", "EC ", "DSA ", "ENCRYPTED ", "OPENSSH "].map(|of| format!("{of}PRIVATE KEY"));
        let mut keys = Vec::new();
        for length in [48, 119, 1190, 2350] {
            keys.extend(labels.iter().map(|label| block(random, label, length)));
            keys.push(block(random, "PGP PRIVATE KEY BLOCK", length));
        }
        // A bundle, with the key after its parameters or its certificate.
        keys.push(block(random, "EC PARAMETERS", 10) + &block(random, "EC PRIVATE KEY", 121));
        keys.push(block(random, "CERTIFICATE", 800) + &block(random, "PRIVATE KEY", 1190));
        keys
    }

    #[test]
    fn masks_keys_in_manifests_of_kubernetes() {
        for key in keys() {
            let data = encoded(&key);
            for (text, due) in [
                (format!("data:\n  tls.key: {data}\n  user: ann\n"), "data:\n  tls.key: *\n  user: ann\n"),
                (format!("data:\n  tls.key: {data}\nThanks\n"), "data:\n  tls.key: *\nThanks\n"),
                (format!("{{\"data\":{{\"id\":\"{data}\",\"x\":1}}}}"), "{\"data\":{\"id\":\"*\",\"x\":1}}"),
                (
                    format!("data:\n  id: |\n    {}\n  user: ann\n", wrapped(&data, 76, "\n    ")),
                    "data:\n  id: |\n    *\n  user: ann\n",
                ),
                (format!("{}\nThanks\n", wrapped(&data, 64, "\n")), "*\nThanks\n"),
                (format!("> {}\r\n> Thanks", wrapped(&data, 64, "\r\n> ")), "> *\r\n> Thanks"),
                (format!("{{\"a\":\"{}\\nThanks\"}}", wrapped(&data, 76, "\\n")), "{\"a\":\"*\\nThanks\"}"),
            ] {
                assert_eq!(masked(&text), due.replace('*', "[secret: private key]"), "{text}\n{key}");
            }
        }
    }

    #[test]
    fn masks_encoded_keys_across_piece_borders() {
        let key = block(&mut Random::new(6), "ENCRYPTED PRIVATE KEY", 119);
        let data = encoded(&key);
        for text in [format!("a: {data}\nb\n"), format!("a: |\n  {}\nb\n", wrapped(&data, 76, "\n  "))] {
            for cut in 1..text.len() {
                let (before, behind) = text.as_bytes().split_at(cut);
                let front = masked_in_context(b"", before, behind);
                let back = masked_in_context(before, behind, b"");
                let both = String::from_utf8([&front[..], b"|", &back[..]].concat()).unwrap();
                let is_shown = |line: &&str| line.len() > 24 && both.contains(&line[..24]);
                assert!(!wrapped(&data, 76, "\n").split('\n').any(|line| is_shown(&line)), "{cut}: {both}");
            }
        }
    }

    #[test]
    fn shows_encoded_certificates_and_public_keys() {
        let random = &mut Random::new(7);
        for label in ["CERTIFICATE", "PUBLIC KEY", "RSA PUBLIC KEY", "PGP PUBLIC KEY BLOCK"] {
            let data = encoded(block(random, label, 800));
            for text in [format!("tls.crt: {data}\n"), wrapped(&data, 76, "\n")] {
                assert_eq!(masked(&text), text);
            }
        }
    }

    #[test]
    fn earlier_judgement_shows_wrapped_keys() {
        let key = block(&mut Random::new(8), "PRIVATE KEY", 1190);
        let text = wrapped(&encoded(key), 76, "\n");
        assert_eq!(Judgement::Third.during(|| masked(&text).into_owned()), text);
        assert_eq!(masked(&text), "[secret: private key]");
    }
}
