//! Paths, names and authors in arguments and answers of tools.

use std::borrow::Cow;

use garth_engine::TreePath;
use garth_engine::model::{Author, Entry, Kind};

pub(super) use crate::mcp::line::shown;
use crate::routes::call::Call;

/// Returns the complete path that an argument names. A relative one begins where the tree of the call begins;
/// `/` is that place, also for a key that reaches nothing above it.
pub(super) fn absolute<'p>(call: &'p Call<'_>, path: &'p str) -> Cow<'p, str> {
    let top = call.key.binding.prefix.as_ref();
    match path {
        "" | "." | "/" => Cow::Borrowed(top.map_or("/", TreePath::as_str)),
        _ if path.starts_with('/') => Cow::Borrowed(path),
        _ => Cow::Owned(format!("{}/{path}", top.map_or("", TreePath::key))),
    }
}

/// Returns the path of a node, with a slash at the end of a directory.
pub(super) fn path_of(path: &TreePath, entry: &Entry) -> String {
    let slash = if entry.is_dir() && path.as_str() != "/" { "/" } else { "" };
    format!("{path}{slash}")
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

/// Returns the author of a commit as far as it is recorded: `agent scout, user ann`.
pub(super) fn by(author: &Author) -> Option<String> {
    let word = |word: &str, name: &Option<String>| Some(format!("{word} {}", shown(name.as_deref()?)));
    let names = [word("agent", &author.agent), word("user", &author.user), word("session", &author.session)];
    let names: Vec<String> = names.into_iter().flatten().collect();
    if names.is_empty() { word("key", &author.key) } else { Some(names.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn author_is_named_by_what_is_recorded() {
        let author = Author::agent("scout").with_user("ann").with_session("s-1").with_key("k1");
        assert_eq!(by(&author).as_deref(), Some("agent scout, user ann, session s-1"));
        assert_eq!(by(&Author::key("k1")).as_deref(), Some("key k1"));
        assert_eq!(by(&Author::default()), None);
    }
}
