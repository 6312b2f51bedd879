//! Range of a file that a request asks for (RFC 9110, 14).

use std::ops::Range;

use axum::http::Method;
use axum::http::header::{IF_RANGE, RANGE};
use axum::http::request::Parts;

/// Part of a file to return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it: the request has no range, or none that this server supports.
    Whole,
    /// These bytes.
    Range(Range<u64>),
    /// Range that begins beyond the end of the file.
    Beyond,
}

/// Returns the part that a request asks for of a file of `size` bytes. Several ranges, a range of another
/// version, and a range in a request other than `GET` are answered with the complete file.
pub(super) fn part(head: &Parts, etag: &str, size: u64) -> Part {
    if head.method != Method::GET {
        return Part::Whole;
    }
    let headers = &head.headers;
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    // Bytes of another version must not be appended to those that the client has.
    let is_same = headers.get(IF_RANGE).is_none_or(|known| known.as_bytes() == etag.as_bytes());
    match text(RANGE).filter(|_| is_same && headers.get_all(RANGE).iter().count() == 1) {
        Some(range) => asked(range, size),
        None => Part::Whole,
    }
}

fn asked(range: &str, size: u64) -> Part {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // Any number that does not fit is beyond the end of every file.
        digits.then(|| text.parse::<u64>().unwrap_or(u64::MAX))
    };
    let Some((unit, range)) = range.split_once('=') else { return Part::Whole };
    let Some((first, last)) = range.trim().split_once('-') else { return Part::Whole };
    if !unit.eq_ignore_ascii_case("bytes") {
        return Part::Whole;
    }
    let range = match (number(first), number(last)) {
        // Not a valid range; RFC 9110 permits ignoring it.
        (Some(first), Some(last)) if last < first => return Part::Whole,
        (Some(first), Some(last)) => first..size.min(last.saturating_add(1)),
        (Some(first), None) if last.is_empty() => first..size,
        (None, Some(length)) if first.is_empty() => {
            // The last zero bytes are no range.
            if length == 0 {
                return Part::Beyond;
            }
            size.saturating_sub(length)..size
        }
        _ => return Part::Whole,
    };
    if range.start >= size { Part::Beyond } else { Part::Range(range) }
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    #[test]
    fn reads_one_byte_range_and_ignores_others() {
        for (range, due) in [
            ("bytes=0-9", Part::Range(0..10)),
            ("bytes=5-", Part::Range(5..100)),
            ("Bytes=5-", Part::Range(5..100)),
            ("bytes=-10", Part::Range(90..100)),
            ("bytes=-1000", Part::Range(0..100)),
            ("bytes=90-1000", Part::Range(90..100)),
            ("bytes=0-99999999999999999999999", Part::Range(0..100)),
            ("bytes=100-", Part::Beyond),
            ("bytes=99999999999999999999999-", Part::Beyond),
            ("bytes=-0", Part::Beyond),
            ("bytes=9-5", Part::Whole),
            ("bytes=0-1,5-6", Part::Whole),
            ("bytes=-", Part::Whole),
            ("bytes=a-b", Part::Whole),
            ("bytes=+1-2", Part::Whole),
            ("lines=0-1", Part::Whole),
            ("", Part::Whole),
        ] {
            assert_eq!(asked(range, 100), due, "{range}");
        }
        assert_eq!(asked("bytes=0-", 0), Part::Beyond);
    }

    #[test]
    fn range_of_another_version_returns_complete_file() {
        let mut head = Request::new(()).into_parts().0;
        assert_eq!(part(&head, "\"a\"", 10), Part::Whole);
        head.headers.insert(RANGE, "bytes=0-1".parse().unwrap());
        assert_eq!(part(&head, "\"a\"", 10), Part::Range(0..2));
        head.headers.insert(IF_RANGE, "\"a\"".parse().unwrap());
        assert_eq!(part(&head, "\"a\"", 10), Part::Range(0..2));
        head.headers.insert(IF_RANGE, "\"b\"".parse().unwrap());
        assert_eq!(part(&head, "\"a\"", 10), Part::Whole);
    }
}
