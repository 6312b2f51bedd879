//! Fields in the query of an address.

use axum::http::Uri;
use serde_json::Value;

use super::percent::decoded;
use super::route::Route;
use crate::errors::Refusal;
use crate::fields::Kind;

/// Returns the fields of a query as a JSON object. Numbers, `true` and `false` are such for fields of these
/// types; everything else is a string.
pub(super) fn query(uri: &Uri, route: &Route) -> Result<Vec<u8>, Refusal> {
    let is_plain = |name: &str| {
        let field = route.field_groups().flatten().find(|field| field.name == name);
        field.is_some_and(|field| {
            use Kind::{Flag, Integer, Number, Signed};
            matches!(field.kind, Integer { .. } | Signed { .. } | Number { .. } | Flag)
        })
    };
    let field = |(name, value): (String, String)| {
        let parsed = is_plain(&name).then(|| serde_json::from_str::<Value>(&value).ok()).flatten();
        let value = match parsed.filter(|parsed| parsed.is_number() || parsed.is_boolean()) {
            Some(_) => value,
            // JSON strings escape names and values.
            None => Value::from(value).to_string(),
        };
        format!("{}:{value}", Value::from(name))
    };
    let fields: Vec<String> = pairs(uri.query().unwrap_or_default())?.into_iter().map(field).collect();
    Ok(format!("{{{}}}", fields.join(",")).into_bytes())
}

/// Returns the names and values of a query, in its order. As in forms, a `+` is a space.
pub(crate) fn pairs(query: &str) -> Result<Vec<(String, String)>, Refusal> {
    let text = |part: &str| decoded(part.replace('+', " ").as_bytes());
    let pair = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let name = text(name).ok_or_else(|| refusal(name))?;
        let value = text(value).ok_or_else(|| refusal(&name))?;
        Ok((name, value))
    };
    query.split('&').filter(|part| !part.is_empty()).map(pair).collect()
}

fn refusal(name: &str) -> Refusal {
    let message = "of the query must be UTF-8 in which `%` begins an escape such as `%25`";
    Refusal::validation(format!("{} {message}", Value::from(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(query: &str) -> Vec<(String, String)> {
        pairs(query).unwrap()
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn names_and_values_are_decoded_once() {
        assert!(texts("").is_empty());
        assert_eq!(texts("a=1&&b=x+y%2Bz&a=%2541"), [pair("a", "1"), pair("b", "x y+z"), pair("a", "%41")]);
        assert_eq!(texts("%61=%C3%BC=ü&flag"), [pair("a", "ü=ü"), pair("flag", "")]);
    }

    #[test]
    fn rejects_broken_escapes_and_other_bytes_than_utf8() {
        for value in ["%", "%4", "%zz", "100%", "%+1", "%ff", "%fe", "%c3", "%ED%A0%80", "%u0041"] {
            let message = pairs(&format!("a=1&user={value}")).unwrap_err().message;
            assert!(message.starts_with("\"user\" of the query must be UTF-8"), "{value}: {message}");
        }
        assert!(pairs("us%ffer=ann").unwrap_err().message.starts_with("\"us%ffer\" of the query"));
        // The character by which lossy decoders replace such bytes is a text like any other.
        assert_eq!(texts("user=%EF%BF%BD"), [pair("user", "\u{fffd}")]);
    }
}
