//! Paths, names and authors in arguments and answers of tools.

use std::borrow::Cow;

use garth_agent::memory::{Uri, text_of};
use garth_engine::model::{Author, Entry, Kind};
use garth_engine::path::MAX_PATH;
use garth_engine::{Error, ErrorKind, TreePath};

use crate::errors::Refusal;
pub(super) use crate::mcp::line::shown;
use crate::routes::call::Call;
use crate::routes::open::reach;
use crate::routes::tree::Tree;

/// Beginning of the URI of a memory.
const URI: &str = "ctx://";

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

/// Refuses a path with `..`, as the calls over HTTP do. `/../a` would be read as `/a`, which a caller that
/// expects something above the top does not mean.
pub(super) fn refuse_parents(call: &Call<'_>, name: &str, path: &str) -> Result<(), Refusal> {
    let path = absolute(call, path);
    // A longer path is refused for its length.
    if path.len() > MAX_PATH || !path.split('/').any(|segment| segment == "..") {
        return Ok(());
    }
    let meant = shown(&plain(&path)).into_owned();
    Err(Refusal::validation(format!("\"{name}\" must not contain `..`; if you mean {meant}, write that")))
}

/// Refuses the path of a new name that ends as that of a directory does, because the end would be ignored.
pub(super) fn refuse_slash(name: &str, path: &str) -> Result<(), Refusal> {
    let plain = plain(path);
    let is_directory = path.ends_with('/') || path.ends_with("/.");
    if path.len() > MAX_PATH || !is_directory || plain == "/" {
        return Ok(());
    }
    let plain = shown(&plain);
    let message = format!(
        "\"{name}\" is written as a directory; write {plain} for this name itself, or {plain}/NAME for a name \
         in it"
    );
    Err(Refusal::validation(message))
}

/// Returns a path without empty segments, `.` and `..`, as if it had no links.
fn plain(path: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    format!("/{}", names.join("/"))
}

/// Returns the complete path that an argument names: as a path, or as the URI of a memory. `part` returns the
/// path of the memory in its account.
///
/// # Errors
/// `ACCESS_DENIED` for the URI of another account, and `NOT_FOUND` for one that the tree does not show.
pub(super) async fn place<'p>(
    call: &'p Call<'_>,
    path: &'p str,
    part: fn(&Uri) -> TreePath,
) -> Result<Cow<'p, str>, Refusal> {
    if !path.starts_with(URI) {
        return Ok(absolute(call, path));
    }
    let uri: Uri = path.parse()?;
    uri.check_account(call.key.share())?;
    match reach(call, Tree::Files).await?.shown(&part(&uri)) {
        Some(path) => Ok(Cow::Owned(path.to_string())),
        None => Err(Error::new(ErrorKind::NotFound, format!("{uri}: no such memory")).into()),
    }
}

/// Returns the path of the text of a memory in its account.
pub(super) fn text_path(uri: &Uri) -> TreePath {
    uri.file(text_of(uri))
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
    fn name_that_is_written_as_a_directory_is_refused() {
        for fine in ["/", "/.", "/a", "/a/b.md", "/a."] {
            assert!(refuse_slash("path", fine).is_ok(), "{fine}");
        }
        for wrong in ["/dir/", "/dir//", "/dir/.", "/./dir/./"] {
            let message = refuse_slash("path", wrong).unwrap_err().message;
            let due = "; write /dir for this name itself, or /dir/NAME for a name in it";
            assert!(message.ends_with(due), "{wrong}: {message}");
        }
    }

    #[test]
    fn plain_path_stays_below_the_top() {
        for (path, due) in [("/../x", "/x"), ("/a/../b/./c/", "/b/c"), ("/a/../..", "/"), ("/", "/")] {
            assert_eq!(plain(path), due);
        }
    }

    #[test]
    fn author_is_named_by_what_is_recorded() {
        let author = Author::agent("scout").with_user("ann").with_session("s-1").with_key("k1");
        assert_eq!(by(&author).as_deref(), Some("agent scout, user ann, session s-1"));
        assert_eq!(by(&Author::key("k1")).as_deref(), Some("key k1"));
        assert_eq!(by(&Author::default()), None);
    }
}
