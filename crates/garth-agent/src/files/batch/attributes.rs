//! Attributes that an operation of a batch sets.

use garth_engine::model::{SetAttrs, Timestamp};
use serde_json::Value;

use super::fields::{Fields, Result};
use super::lifetime::Lifetime;

/// Parses permissions: three or four octal digits.
///
/// # Errors
/// The reason, for any other text.
pub fn parse_mode(text: &str) -> Result<u32, String> {
    let octal = (3..=4).contains(&text.len()) && text.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    let mode = octal.then(|| u32::from_str_radix(text, 8).ok()).flatten();
    mode.ok_or_else(|| "write three or four octal digits, such as 644 or 0700".into())
}

/// Attributes to set; missing fields are unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LineAttributes {
    set: SetAttrs,
    ttl: Option<Lifetime>,
}

impl LineAttributes {
    /// Takes the attributes of a line, if it has any.
    pub(super) fn take(from: &mut Fields) -> Result<Option<Self>> {
        let Some(mut from) = from.object("attrs", "attrs.")? else { return Ok(None) };
        let set = SetAttrs {
            mode: from.parsed("mode", parse_mode)?,
            uid: from.id("uid")?,
            gid: from.id("gid")?,
            mtime: from.parsed("mtime", Timestamp::parse_rfc3339)?,
            content_type: from.nullable_text("content_type")?,
            tags: from.texts("tags")?,
            importance: from.number("importance")?,
            searchable: from.nullable_flag("searchable")?,
            metadata: from.map("metadata")?.unwrap_or_default(),
            ..SetAttrs::default()
        };
        let ttl = match from.take("ttl") {
            None => None,
            // `null` removes the expiry, a missing field leaves it.
            Some(Value::Null) => Some(Lifetime::NEVER),
            Some(Value::String(text)) => {
                Some(text.parse::<Lifetime>().map_err(|why| format!("{}: {why}", from.named("ttl")))?)
            }
            Some(_) => return Err(format!("{} must be a string or null", from.named("ttl"))),
        };
        from.end()?;
        Ok(Some(Self { set, ttl }))
    }

    /// Returns about the bytes of memory that they take.
    pub(super) fn weight(&self) -> usize {
        self.set.weight()
    }

    /// Returns the attributes to set. A time to live counts from `now`.
    pub(super) fn resolve(&self, now: Timestamp) -> SetAttrs {
        SetAttrs { expires_at: self.ttl.map(|ttl| ttl.end(now)), ..self.set.clone() }
    }
}
