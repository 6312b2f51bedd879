//! Rust types that a declared field can be read as.

use std::borrow::Cow;
use std::collections::BTreeMap;

use garth_agent::memory::Edge;
use garth_agent::session::Usage;
use garth_agent::workspace::{Host, Inputs};
use garth_engine::home::Binding;
use garth_engine::model::{Timestamp, json_flaw};
use serde_json::value::RawValue;

use super::bounded;
use super::kind::{Kind, MAX_INTEGER, Shape};

/// Reason why a value is not of its kind; empty if the kind says it all.
pub(crate) type Flaw = String;

/// Type that a field is read as.
pub(crate) trait Slot<'a>: Sized {
    /// Type of JSON that it is read from. A field whose kind has another one does not compile.
    const SHAPE: Shape;
    /// True if the field may be left out even without a default.
    const IS_OPTIONAL: bool = false;
    /// True if `null` is a value, and not the same as leaving the field out.
    const TAKES_NULL: bool = false;

    /// Reads a value from its JSON.
    fn read(json: &'a str, kind: &Kind) -> Result<Self, Flaw>;

    /// Returns the value of a field that is left out, if it may be.
    fn absent() -> Option<Self> {
        None
    }
}

impl<'a, T: Slot<'a>> Slot<'a> for Option<T> {
    const SHAPE: Shape = T::SHAPE;
    const IS_OPTIONAL: bool = true;

    fn read(json: &'a str, kind: &Kind) -> Result<Self, Flaw> {
        T::read(json, kind).map(Some)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl<'a> Slot<'a> for Cow<'a, str> {
    const SHAPE: Shape = Shape::String;

    fn read(json: &'a str, kind: &Kind) -> Result<Self, Flaw> {
        if matches!(kind, Kind::Moment)
            && let Ok(sequence) = u64::read(json, &Kind::Integer { min: 0, max: MAX_INTEGER })
        {
            return Ok(Cow::Owned(sequence.to_string()));
        }
        let text = serde_json::from_str::<Text<'a>>(json).map_err(|error| flaw_of_text(&error))?.0;
        let fits = match kind {
            Kind::Moment => true,
            Kind::Words(words) => words.contains(&&*text),
            Kind::Text { min: 0, max: usize::MAX, .. } => true,
            Kind::Text { min, max, .. } => (*min..=*max).contains(&text.chars().count()),
            _ => false,
        };
        if fits { Ok(text) } else { Err(Flaw::new()) }
    }
}

impl<'a> Slot<'a> for Timestamp {
    const SHAPE: Shape = Shape::Time;

    fn read(json: &'a str, kind: &Kind) -> Result<Self, Flaw> {
        let text = serde_json::from_str::<Text<'a>>(json).map_err(|_| Flaw::new())?.0;
        if let Ok(time) = Self::parse_rfc3339(&text) {
            return Ok(time);
        }
        let end = Self::parse_rfc3339_end(&text).map_err(|_| Flaw::new())?;
        match kind {
            Kind::Time { is_end: true } => Ok(end),
            _ => Err(format!("the last one is {}", end.to_rfc3339())),
        }
    }
}

/// Reads an integer in any notation: `3600`, `3600.0` and `3.6e3` are the same number.
impl<'a> Slot<'a> for u64 {
    const SHAPE: Shape = Shape::Integer;

    fn read(json: &'a str, kind: &Kind) -> Result<Self, Flaw> {
        let Kind::Integer { min, max } = kind else { return Err(Flaw::new()) };
        // `whole` is for numbers with a fraction or an exponent.
        let number = json.parse().ok().or_else(|| whole(json));
        number.filter(|number| (min..=max).contains(&number)).ok_or_else(Flaw::new)
    }
}

/// Reads an integer that may be negative, in any notation.
impl<'a> Slot<'a> for i64 {
    const SHAPE: Shape = Shape::Integer;

    fn read(json: &'a str, kind: &Kind) -> Result<Self, Flaw> {
        let Kind::Signed { min, max } = kind else { return Err(Flaw::new()) };
        let (sign, digits): (i64, &str) = json.strip_prefix('-').map_or((1, json), |digits| (-1, digits));
        let number = digits.parse().ok().or_else(|| whole(digits)).and_then(|number: u64| {
            // The bounds leave out the one number whose digits alone do not fit.
            Self::try_from(number).ok().map(|number| sign * number)
        });
        number.filter(|number| (min..=max).contains(&number)).ok_or_else(Flaw::new)
    }
}

/// Reads two integers that may be negative.
impl<'a> Slot<'a> for [i64; 2] {
    const SHAPE: Shape = Shape::Pair;

    fn read(json: &'a str, kind: &Kind) -> Result<Self, Flaw> {
        let Kind::Pair { min, max } = *kind else { return Err(Flaw::new()) };
        let numbers: [&'a RawValue; 2] = serde_json::from_str(json).map_err(|_| Flaw::new())?;
        let [first, last] = numbers.map(|number| i64::read(number.get(), &Kind::Signed { min, max }));
        Ok([first?, last?])
    }
}

impl<'a> Slot<'a> for usize {
    const SHAPE: Shape = Shape::Integer;

    fn read(json: &'a str, kind: &Kind) -> Result<Self, Flaw> {
        Self::try_from(u64::read(json, kind)?).map_err(|_| Flaw::new())
    }
}

impl<'a> Slot<'a> for f64 {
    const SHAPE: Shape = Shape::Number;

    fn read(json: &'a str, kind: &Kind) -> Result<Self, Flaw> {
        let Kind::Number { min, max } = kind else { return Err(Flaw::new()) };
        let number = serde_json::from_str(json).ok().filter(|number| (min..=max).contains(&number));
        number.ok_or_else(Flaw::new)
    }
}

impl<'a> Slot<'a> for bool {
    const SHAPE: Shape = Shape::Boolean;

    fn read(json: &'a str, _: &Kind) -> Result<Self, Flaw> {
        json.parse().map_err(|_| Flaw::new())
    }
}

impl<'a> Slot<'a> for Vec<String> {
    const SHAPE: Shape = Shape::Strings;

    fn read(json: &'a str, kind: &Kind) -> Result<Self, Flaw> {
        let Kind::Texts { max, .. } = kind else { return Err(Flaw::new()) };
        bounded::items(json, *max).map_err(|error| flaw_of_text(&error))
    }
}

/// Reads objects and keeps the JSON of each as it was sent, to the last digit.
impl<'a> Slot<'a> for Vec<&'a RawValue> {
    const SHAPE: Shape = Shape::Array;

    fn read(json: &'a str, kind: &Kind) -> Result<Self, Flaw> {
        let Kind::Array { max, .. } = kind else { return Err(Flaw::new()) };
        let items: Self = bounded::items(json, *max).map_err(|_| Flaw::new())?;
        if items.iter().all(|item| item.get().starts_with('{')) { Ok(items) } else { Err(Flaw::new()) }
    }
}

/// Keeps the JSON as it was sent, to the last digit.
impl<'a> Slot<'a> for &'a RawValue {
    const SHAPE: Shape = Shape::Any;
    const TAKES_NULL: bool = true;

    fn read(json: &'a str, _: &Kind) -> Result<Self, Flaw> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }
}

/// Reads texts by name and refuses a repeated name.
impl<'a> Slot<'a> for BTreeMap<String, String> {
    const SHAPE: Shape = Shape::Object;

    fn read(json: &'a str, kind: &Kind) -> Result<Self, Flaw> {
        let Kind::Object { max, .. } = kind else { return Err(Flaw::new()) };
        bounded::texts(json, *max).map_err(|error| json_flaw("", json, &error, &|_| None))
    }
}

/// Reads types that `serde` knows. A struct is read from an object only.
macro_rules! deserialized {
    ($($type:ty as $shape:ident),*) => {
        $(impl<'a> Slot<'a> for $type {
            const SHAPE: Shape = Shape::$shape;

            fn read(json: &'a str, kind: &Kind) -> Result<Self, Flaw> {
                // serde also reads a struct from an array of its fields, which the API does not promise.
                let are_objects = match Self::SHAPE {
                    Shape::Array => Vec::<&RawValue>::read(json, kind).is_ok(),
                    _ => json.starts_with('{'),
                };
                if !are_objects {
                    return Err(Flaw::new());
                }
                let read = |json: &str| serde_json::from_str::<$type>(json);
                read(json).map_err(|error| json_flaw("", json, &error, &|json: &str| read(json).err()))
            }
        })*
    };
}

deserialized! {
    Binding as Object, Inputs as Object, Usage as Object, Vec<Edge> as Array, Vec<Host> as Array
}

/// Returns the flaw of JSON strings that are not text: half of a surrogate pair has no UTF-8.
fn flaw_of_text(error: &serde_json::Error) -> Flaw {
    let said = error.to_string();
    match said.contains("surrogate") || said.contains("hex escape") {
        true => "it contains half of a surrogate pair (\\uD800 to \\uDFFF)".to_owned(),
        false => Flaw::new(),
    }
}

/// A string, borrowed from the body where it has no escapes.
#[derive(serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Returns the value of a number that is written with a fraction or an exponent, if it is an integer. A
/// number that is too large becomes `u64::MAX`, which every limit refuses.
fn whole(text: &str) -> Option<u64> {
    // Refuses digits that are not JSON, such as `01`.
    serde_json::from_str::<serde::de::IgnoredAny>(text).ok()?;
    // Computed with digits, not with `f64`: 9007199254740990.5 would be rounded to an integer.
    let (number, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (digits, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{digits}{fraction}");
    let digits = digits.trim_start_matches('0');
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // An exponent that does not fit moves the point beyond all digits, as this one does.
    let far = if exponent.starts_with('-') { i64::MIN / 2 } else { i64::MAX / 2 };
    let exponent = exponent.parse().unwrap_or(far).clamp(i64::MIN / 2, i64::MAX / 2);
    let shift = exponent - i64::try_from(fraction.len()).ok()?;
    let Ok(behind) = usize::try_from(-shift) else {
        // With 20 zeros, every number exceeds `u64`.
        let zeros = usize::try_from(shift).unwrap_or(usize::MAX).min(20);
        // Zero has no digits left, and stays zero.
        let zeros = if digits.is_empty() { 0 } else { zeros };
        return Some(format!("0{digits}{}", "0".repeat(zeros)).parse().unwrap_or(u64::MAX));
    };
    let (whole, fraction) = digits.split_at_checked(digits.len().saturating_sub(behind))?;
    let is_whole =
        fraction.bytes().all(|digit| digit == b'0') && (digits.is_empty() || behind <= digits.len());
    is_whole.then(|| format!("0{whole}").parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_may_be_sequences() {
        let read = |json| Cow::<str>::read(json, &Kind::Moment);
        for (json, text) in [("42", "42"), ("42.0", "42"), ("0", "0"), (r#""42""#, "42"), (r#""1h""#, "1h")] {
            assert_eq!(read(json).as_deref(), Ok(text), "{json}");
        }
        for json in ["-1", "1.5", "9007199254740992", "true", "[42]", "{}"] {
            assert_eq!(read(json), Err(String::new()), "{json}");
        }
        // Other strings are no numbers.
        assert!(Cow::<str>::read("42", &Kind::Text { of: "path", min: 0, max: usize::MAX }).is_err());
    }

    #[test]
    fn integers_may_have_zero_fraction_or_exponent() {
        let kind = Kind::Integer { min: 1, max: 9_007_199_254_740_992 };
        for text in ["3600", "3600.0", "3.6e3", "36E+2", "360000e-2"] {
            assert_eq!(u64::read(text, &kind), Ok(3600), "{text}");
        }
        for text in ["0.0e-9", "0.0e-9223372036854775808", "0.0e9223372036854775807"] {
            assert_eq!(u64::read(text, &Kind::Integer { min: 0, max: 1 }), Ok(0), "{text}");
        }
        for text in [
            "9007199254740990.5",
            "1e-400",
            "0.9999999999999999999999",
            "3600e-3",
            "1e99999999999999999999",
            "1e9223372036854775807",
            "1e-9223372036854775808",
            "1.5e-9223372036854775808",
        ] {
            assert_eq!(
                u64::read(text, &Kind::Integer { min: 0, max: 9_007_199_254_740_992 }),
                Err(String::new())
            );
        }
        for text in ["0", "-1", "1.5", "1e300", "-0", "\"1\"", "true", "[]", "18446744073709551616"] {
            assert_eq!(u64::read(text, &kind), Err(String::new()), "{text}");
        }
    }

    #[test]
    fn signed_integers_may_be_negative() {
        let kind = Kind::Signed { min: -1000, max: 1000 };
        for (text, number) in
            [("-7", -7), ("-7.0", -7), ("-1e3", -1000), ("0", 0), ("-0.0", 0), ("1000", 1000)]
        {
            assert_eq!(i64::read(text, &kind), Ok(number), "{text}");
        }
        for text in
            ["1001", "-1001", "-0.5", "-1e300", "\"-1\"", "-9223372036854775808", "-18446744073709551616"]
        {
            assert_eq!(i64::read(text, &kind), Err(String::new()), "{text}");
        }
    }
}
