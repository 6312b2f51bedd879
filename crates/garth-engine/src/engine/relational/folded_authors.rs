//! Authors of commits that are no longer in the log. Each has a number, except for the default author.

use crate::error::{Error, Result};
use crate::model::Author;

/// Number of the default author, who has no row.
pub const DEFAULT: u64 = 0;

/// Returns the author who gets a number, from the column of the log; `None` for the default one.
pub fn numbered(json: Option<&str>) -> Option<&str> {
    // An author that cannot be read shows as the default one while it is in the log, too.
    json.filter(|json| serde_json::from_str::<Author>(json).is_ok())
}

/// Returns the author of commit `seq` from the number of the author and the row of that number.
///
/// # Errors
/// `Corrupt` if the author is missing or cannot be read.
pub fn author_of(seq: u64, found: Option<(u64, Option<&str>)>) -> Result<Author> {
    let author = match found {
        Some((DEFAULT, _)) => Some(Author::default()),
        Some((_, Some(json))) => serde_json::from_str(json).ok(),
        _ => None,
    };
    author.ok_or_else(|| Error::damaged(format!("the author of commit {seq} is missing")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_author_becomes_the_default_one() {
        let scout = serde_json::to_string(&Author::agent("scout")).unwrap();
        assert_eq!([None, Some("{\"agent\": "), Some(&*scout)].map(numbered), [None, None, Some(&*scout)]);
    }

    #[test]
    fn missing_author_is_damage() {
        assert_eq!(author_of(3, Some((DEFAULT, None))).unwrap(), Author::default());
        for lost in [None, Some((7, None)), Some((7, Some("{")))] {
            assert!(author_of(3, lost).unwrap_err().message().contains("commit 3"));
        }
    }
}
