//! Sizes and counts: parsing and printing.

use std::str::FromStr;

/// Units of size, each 1024 times the previous one.
const UNITS: [char; 5] = ['K', 'M', 'G', 'T', 'P'];

/// Returns a size for a column: in bytes, or with `human` in at most four characters, rounded up as by `ls
/// -h`.
pub(crate) fn size_text(bytes: u64, human: bool) -> String {
    if !human || bytes < 1024 {
        return bytes.to_string();
    }
    let mut unit = 1024_u64;
    let mut units = UNITS.iter();
    let mut name = units.next();
    // 1023.5K would be rounded up to 1024K, which must be 1.0M.
    while bytes.div_ceil(unit) >= 1024 {
        let (Some(next), Some(larger)) = (units.next(), unit.checked_mul(1024)) else { break };
        (name, unit) = (Some(next), larger);
    }
    let name = name.map_or(String::new(), char::to_string);
    let tenths = (u128::from(bytes) * 10).div_ceil(u128::from(unit));
    if tenths < 100 {
        format!("{}.{}{name}", tenths / 10, tenths % 10)
    } else {
        format!("{}{name}", bytes.div_ceil(unit))
    }
}

/// Parses a size: bytes, or a number with a unit: `512`, `10k`, `1M`, `2G`. For clap.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "`{text}` is not a size; write bytes, or a number with k or KiB (1024 bytes), M or MiB, G or GiB, T \
             or TiB: 512, 10k, 2MiB"
        )
    };
    // `10KiB` is the same as `10K`.
    let text = text
        .strip_suffix("iB")
        .filter(|rest| rest.ends_with(|unit: char| unit.is_ascii_alphabetic()))
        .unwrap_or(text);
    let (number, unit) = match text.char_indices().next_back() {
        // `c` is the unit of bytes in `find -size`.
        Some((_, 'c' | 'B')) => (&text[..text.len() - 1], 1),
        Some((at, letter)) if letter.is_ascii_alphabetic() => {
            let power = UNITS.iter().position(|unit| letter.eq_ignore_ascii_case(unit)).ok_or_else(wrong)?;
            (&text[..at], 1024_u64.pow(u32::try_from(power).unwrap_or_default() + 1))
        }
        _ => (text, 1),
    };
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| number.parse::<u64>().ok()?.checked_mul(unit)).flatten().ok_or_else(wrong)
}

/// Parses a number of tokens: `32000`, `32k` (thousand) or `1M` (million). For clap.
pub(crate) fn parse_tokens(text: &str) -> Result<u64, String> {
    garth_agent::count::parse_tokens(text).ok_or_else(|| {
        format!("`{text}` is not a number of tokens; write an integer, or one with k or M: 32k")
    })
}

/// Parses an integer. For clap, whose own messages name Rust types.
pub(crate) fn parse_count<T: FromStr>(text: &str) -> Result<T, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| text.parse().ok()).flatten();
    number.ok_or_else(|| if digits { "the number is too large".into() } else { "not an integer".into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn human_sizes_match_ls() {
        for (bytes, text) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1.0K"),
            (1025, "1.1K"),
            (10 * 1024, "10K"),
            (10 * 1024 + 1, "11K"),
            (1024 * 1024 - 1, "1.0M"),
            (5 << 30, "5.0G"),
            (u64::MAX, "16384P"),
        ] {
            assert_eq!(size_text(bytes, true), text, "{bytes}");
        }
        assert_eq!(size_text(4096, false), "4096");
    }

    #[test]
    fn wrong_size_names_both_forms_of_units() {
        let error = parse_size("2MB").unwrap_err();
        assert!(
            ["`2MB` is not a size", "k or KiB (1024 bytes)"].iter().all(|part| error.contains(part)),
            "{error}"
        );
    }

    #[test]
    fn sizes_and_tokens_take_units_without_overflow() {
        for (text, bytes) in
            [("0", 0), ("512", 512), ("7c", 7), ("10k", 10_240), ("1M", 1 << 20), ("3MiB", 3 << 20)]
        {
            assert_eq!(parse_size(text), Ok(bytes));
        }
        for (text, tokens) in [("0", 0), ("32000", 32_000), ("32k", 32_000), ("4K", 4_000), ("1M", 1_000_000)]
        {
            assert_eq!(parse_tokens(text), Ok(tokens));
        }
        for wrong in ["", "k", "-1", "1.5k", "32kB", "99999999999999999999", "99999999999999999M"] {
            assert!(parse_tokens(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_count::<u64>("20"), Ok(20));
        for wrong in ["", "x", "-1", "+1", "99999999999999999999"] {
            assert!(parse_count::<u64>(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "k", "-1", "1.5M", "1x", "1iB", "MiB", "99999999999999999999", "99999999P", "1é"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
