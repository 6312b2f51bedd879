//! The body of a request: one JSON object, read field by field, so that a refusal names the field and says in
//! terms of JSON what it must be. Fields that nobody asks for are ignored. `null` is the same as leaving a
//! field out.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::errors::Refusal;

/// The fields of a body, in the order given.
pub(crate) struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// Reads a body: one JSON object in UTF-8.
    pub(crate) fn parse(body: &'a [u8]) -> Result<Self, Refusal> {
        let text = std::str::from_utf8(body).map_err(|_| Refusal::validation("the body must be UTF-8"))?;
        if !text.trim_start_matches([' ', '\t', '\r', '\n']).starts_with('{') {
            return Err(Refusal::validation("the body must be a JSON object"));
        }
        serde_json::from_str(text)
            .map_err(|error| Refusal::validation(format!("the body is not valid JSON: {}", reworded(&error))))
    }

    /// A field as it was sent; also `null`.
    pub(crate) fn raw(&self, name: &str) -> Result<Option<&'a RawValue>, Refusal> {
        let mut values = self.0.iter().filter(|(field, _)| field == name).map(|(_, value)| *value);
        let value = values.next();
        if values.next().is_some() {
            return Err(Refusal::validation(format!("\"{name}\" is given twice")));
        }
        Ok(value)
    }

    /// A field that must be there.
    pub(crate) fn required<T>(name: &str, value: Option<T>) -> Result<T, Refusal> {
        value.ok_or_else(|| Refusal::validation(format!("\"{name}\" is missing")))
    }

    /// A string.
    pub(crate) fn text(&self, name: &str) -> Result<Option<Cow<'a, str>>, Refusal> {
        Ok(self.typed::<Text<'a>>(name, "a string")?.map(|text| text.0))
    }

    /// A string that must be there.
    pub(crate) fn required_text(&self, name: &str) -> Result<Cow<'a, str>, Refusal> {
        Self::required(name, self.text(name)?)
    }

    /// An array of strings.
    pub(crate) fn texts(&self, name: &str) -> Result<Option<Vec<String>>, Refusal> {
        self.typed(name, "an array of strings")
    }

    /// A finite number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<f64>, Refusal> {
        self.typed(name, "a number")
    }

    /// `true` or `false`.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, Refusal> {
        self.typed(name, "true or false")
    }

    /// An integer from `min` to `max`, however it is written: `3600`, `3600.0` and `3.6e3` are the same
    /// number.
    pub(crate) fn integer(&self, name: &str, min: u64, max: u64) -> Result<Option<u64>, Refusal> {
        let must = if max == u64::MAX {
            "a positive integer".to_owned()
        } else {
            format!("an integer from {min} to {max}")
        };
        let Some(value) = self.present(name)? else { return Ok(None) };
        let number = value.get().parse().ok().or_else(|| whole(value.get()));
        number.filter(|number| (min..=max).contains(number)).map(Some).ok_or_else(|| must_be(name, &must))
    }

    /// A value of any type; a refusal says in the parser's words what is wrong with it.
    pub(crate) fn parsed<T: Deserialize<'a>>(&self, name: &str) -> Result<Option<T>, Refusal> {
        let value = self.present(name)?.map(|value| serde_json::from_str(value.get()));
        value.transpose().map_err(|error| Refusal::validation(format!("\"{name}\": {error}")))
    }

    fn typed<T: Deserialize<'a>>(&self, name: &str, must: &str) -> Result<Option<T>, Refusal> {
        let value = self.present(name)?.map(|value| serde_json::from_str(value.get()));
        value.transpose().map_err(|_| must_be(name, must))
    }

    fn present(&self, name: &str) -> Result<Option<&'a RawValue>, Refusal> {
        Ok(self.raw(name)?.filter(|value| value.get() != "null"))
    }
}

/// Why text is not JSON. The parser's own words for text that begins with no value name its functions.
fn reworded(error: &serde_json::Error) -> String {
    error.to_string().replace("expected ident", "expected a value")
}

fn must_be(name: &str, what: &str) -> Refusal {
    Refusal::validation(format!("\"{name}\" must be {what}"))
}

/// A number written with a fraction or an exponent, if it is an integer that a 64-bit float holds exactly;
/// one beyond that becomes the largest there is, which every limit refuses.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked, and saturating beyond
fn whole(text: &str) -> Option<u64> {
    let number: f64 = serde_json::from_str(text).ok()?;
    (number >= 0.0 && number.fract() == 0.0).then_some(number as u64)
}

/// A string, borrowed from the body where it has no escapes.
#[derive(serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Object).map(Self)
    }
}

struct Object;

impl<'de> Visitor<'de> for Object {
    type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::with_capacity(8);
        while let Some((name, value)) = map.next_entry::<Text<'de>, &RawValue>()? {
            fields.push((name.0, value));
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn integer(value: &str) -> Result<Option<u64>, String> {
        let body = format!("{{\"n\":{value}}}");
        let fields = Fields::parse(body.as_bytes()).unwrap();
        fields.integer("n", 1, 9_007_199_254_740_992).map_err(|refusal| refusal.message)
    }

    #[test]
    fn an_integer_is_a_number_without_a_fraction_however_it_is_written() {
        for text in ["3600", "3600.0", "3.6e3", "36E+2", "360000e-2"] {
            assert_eq!(integer(text), Ok(Some(3600)), "{text}");
        }
        assert_eq!(integer("null"), Ok(None));
        for text in ["0", "-1", "1.5", "1e300", "-0", "\"1\"", "true", "[]", "18446744073709551616"] {
            assert_eq!(integer(text).unwrap_err(), "\"n\" must be an integer from 1 to 9007199254740992");
        }
    }

    #[test]
    fn what_is_no_json_is_told_in_terms_of_json() {
        let refusal = Fields::parse(br#"{"path": "/a", "value": nope}"#).err().unwrap();
        assert_eq!(refusal.message, "the body is not valid JSON: expected a value at line 1 column 26");
    }

    #[test]
    fn a_field_given_twice_is_refused_and_one_that_nobody_asks_for_is_not() {
        let fields = Fields::parse(br#"{"a":1,"a":2,"b":1,"\u0063":"x"}"#).unwrap();
        assert_eq!(fields.number("a").unwrap_err().message, "\"a\" is given twice");
        assert_eq!(fields.number("b").unwrap(), Some(1.0));
        assert_eq!(fields.text("c").unwrap().as_deref(), Some("x"));
    }
}
