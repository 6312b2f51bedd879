//! Conditions of a request on the version of a file: `If-Match` and `If-None-Match` (RFC 9110, 13.1).
//! Conditions of a write are judged in its commit.

use axum::http::header::{IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderName};
use garth_engine::model::{MAX_ETAGS, Precondition, VersionId};

use crate::errors::Refusal;

/// Conditions of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conditions {
    if_match: Option<Tags>,
    if_none_match: Option<Tags>,
}

/// Entity tags of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Tags {
    /// `*`: any version.
    Any,
    Listed(Vec<Tag>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tag {
    is_weak: bool,
    /// `None` for a tag that no file has.
    etag: Option<VersionId>,
}

impl Conditions {
    /// Reads the conditions of a request.
    ///
    /// # Errors
    /// `VALIDATION_ERROR` for anything but `*` or a list of entity tags: a write must not go through because
    /// its condition was not understood.
    pub(super) fn read(headers: &HeaderMap) -> Result<Self, Refusal> {
        Ok(Self { if_match: tags(headers, &IF_MATCH)?, if_none_match: tags(headers, &IF_NONE_MATCH)? })
    }

    /// Returns true if the request has no condition.
    pub(super) fn is_empty(&self) -> bool {
        self.if_match.is_none() && self.if_none_match.is_none()
    }

    /// Returns true if `If-Match` permits reading a file of this version.
    pub(super) fn matches(&self, etag: VersionId) -> bool {
        match &self.if_match {
            None | Some(Tags::Any) => true,
            Some(tags @ Tags::Listed(_)) => tags.strong().contains(&etag),
        }
    }

    /// Returns true if the client has this version, as `If-None-Match` says.
    pub(super) fn knows(&self, etag: VersionId) -> bool {
        match &self.if_none_match {
            None => false,
            Some(Tags::Any) => true,
            Some(tags @ Tags::Listed(_)) => tags.all().contains(&etag),
        }
    }

    /// Returns why a write does not meet the conditions, with advice. Which of two it is, the commit does not
    /// tell.
    pub(super) fn unmet(&self) -> String {
        let if_match = self.if_match.as_ref().map(|tags| match tags {
            Tags::Any => "does not exist, and `If-Match: *` requires it",
            Tags::Listed(_) => "does not exist, or its `ETag` is none of those in `If-Match`",
        });
        let if_none_match = self.if_none_match.as_ref().map(|tags| match tags {
            Tags::Any => "exists, and `If-None-Match: *` requires that it does not",
            Tags::Listed(_) => "has an `ETag` that `If-None-Match` excludes",
        });
        let advice = match (&self.if_match, &self.if_none_match) {
            (Some(Tags::Any), None) => "leave the header out to create it",
            (None, Some(Tags::Any)) => "use another path, or leave the header out to replace it",
            _ => "read its current `ETag`, and try again",
        };
        let reasons: Vec<&str> = if_match.into_iter().chain(if_none_match).collect();
        format!("{}; {advice}", reasons.join("; or it "))
    }

    /// Returns the conditions of a write.
    pub(super) fn preconditions(&self) -> Vec<Precondition> {
        let if_match = self.if_match.as_ref().map(|tags| match tags {
            Tags::Any => Precondition::Exists,
            Tags::Listed(_) => Precondition::EtagIn(tags.strong()),
        });
        let if_none_match = self.if_none_match.as_ref().map(|tags| match tags {
            Tags::Any => Precondition::Absent,
            Tags::Listed(_) => Precondition::EtagIn(tags.all()).negated(),
        });
        if_match.into_iter().chain(if_none_match).collect()
    }
}

impl Tags {
    fn listed(&self) -> &[Tag] {
        match self {
            Self::Any => &[],
            Self::Listed(tags) => tags,
        }
    }

    /// Returns the versions of strong tags: a weak one equals no tag in `If-Match`.
    fn strong(&self) -> Vec<VersionId> {
        self.listed().iter().filter(|tag| !tag.is_weak).filter_map(|tag| tag.etag).collect()
    }

    /// Returns the versions of all tags: `If-None-Match` compares without `W/`.
    fn all(&self) -> Vec<VersionId> {
        self.listed().iter().filter_map(|tag| tag.etag).collect()
    }
}

fn tags(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Tags>, Refusal> {
    let malformed = || {
        let message =
            format!("`{name}` must be `*`, or entity tags such as \"ver_7-1\", quoted and joined by commas");
        Refusal::validation(message)
    };
    let (mut listed, mut is_any, mut values) = (Vec::new(), false, 0);
    for value in headers.get_all(name) {
        values += 1;
        let value = value.as_bytes().trim_ascii();
        if value == b"*" {
            is_any = true;
            continue;
        }
        add_tags(value, &mut listed).ok_or_else(malformed)?;
        if listed.len() > MAX_ETAGS {
            return Err(Refusal::validation(format!("`{name}` has at most {MAX_ETAGS} entity tags")));
        }
    }
    match (values, is_any, listed.is_empty()) {
        (0, ..) => Ok(None),
        (_, true, true) => Ok(Some(Tags::Any)),
        (_, false, false) => Ok(Some(Tags::Listed(listed))),
        // Neither, or both.
        _ => Err(malformed()),
    }
}

/// Adds the tags of a list; `None` if it is malformed.
fn add_tags(list: &[u8], tags: &mut Vec<Tag>) -> Option<()> {
    let is_between = |byte: &&u8| b" \t,".contains(byte);
    let mut rest = list;
    loop {
        rest = &rest[rest.iter().take_while(is_between).count()..];
        if rest.is_empty() {
            return Some(());
        }
        let (is_weak, tag) = match rest.strip_prefix(b"W/") {
            Some(tag) => (true, tag),
            None => (false, rest),
        };
        let tag = tag.strip_prefix(b"\"")?;
        let end = tag.iter().position(|byte| *byte == b'"')?;
        let etag = std::str::from_utf8(&tag[..end]).ok().and_then(|text| text.parse().ok());
        tags.push(Tag { is_weak, etag });
        rest = tag[end + 1..].trim_ascii_start();
        if !rest.is_empty() && !rest.starts_with(b",") {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn read(values: &[&str]) -> Result<Option<Tags>, String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IF_MATCH, HeaderValue::from_str(value).unwrap());
        }
        tags(&headers, &IF_MATCH).map_err(|refusal| refusal.message)
    }

    fn tag(text: &str) -> Tag {
        Tag { is_weak: false, etag: text.parse().ok() }
    }

    #[test]
    fn lists_of_tags_are_read() {
        let (one, two) = (tag("ver_1-2"), tag("ver_2-2"));
        let weak = Tag { is_weak: true, ..one };
        let foreign = Tag { is_weak: false, etag: None };
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[" * "]), Ok(Some(Tags::Any)));
        for (values, due) in [
            (&["\"ver_1-2\""][..], vec![one]),
            (&["W/\"ver_1-2\""][..], vec![weak]),
            (&["\"ver_1-2\" , ,W/\"ver_1-2\",\"ver_2-2\","][..], vec![one, weak, two]),
            (&["\"ver_1-2\"", "\"ver_2-2\""][..], vec![one, two]),
            // A comma may be part of a tag.
            (&["\"a,b\",\"\",\"VER_1-2\",\"ver_1-2 \""][..], vec![foreign; 4]),
        ] {
            assert_eq!(read(values), Ok(Some(Tags::Listed(due))), "{values:?}");
        }
    }

    #[test]
    fn rejects_malformed_lists() {
        for value in [
            "",
            ",",
            "ver_1-2",
            "\"ver_1-2",
            "\"a\"\"b\"",
            "\"a\" \"b\"",
            "*,\"a\"",
            "w/\"a\"",
            "W/",
            "\"a\"x",
        ] {
            assert!(read(&[value]).is_err(), "{value}");
        }
        assert!(read(&["*", "\"a\""]).is_err());
        let many = vec!["\"ver_1-2\""; MAX_ETAGS + 1].join(",");
        assert!(read(&[&many]).unwrap_err().contains("1000"));
    }
}
