//! Paths and names in arguments and answers of tools.

use std::borrow::Cow;

use garth_engine::model::{Entry, Kind};

use crate::routes::call::Call;

/// Returns the path that an argument names; without one, the path at which the tree of the call begins.
pub(super) fn path_or_top<'c>(call: &'c Call<'_>, path: Option<&'c str>) -> &'c str {
    let top = || call.key.binding.prefix.as_ref().map_or("/", |top| top.as_str());
    path.unwrap_or_else(top)
}

/// Returns a path or name as a text of one line. One with control characters is quoted, so that it cannot
/// look like another line of the answer.
pub(super) fn shown(name: &str) -> Cow<'_, str> {
    match name.chars().any(is_unsafe) {
        true => Cow::Owned(format!("{name:?}")),
        false => Cow::Borrowed(name),
    }
}

/// Returns true for characters that end a line or change the order of others.
fn is_unsafe(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns the word for the kind of a node.
pub(super) const fn kind(entry: &Entry) -> &'static str {
    match entry.kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "link",
        Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice | Kind::Whiteout => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_on_one_line() {
        assert_eq!(shown("/notes/é \"a\".md"), "/notes/é \"a\".md");
        assert_eq!(shown("/a\n/b"), "\"/a\\n/b\"");
        assert_eq!(shown("a\u{202e}b"), "\"a\\u{202e}b\"");
    }
}
