//! Names in the paths of files, which can say what a file is about, and which file follows it. They are not
//! indexed, so that a rename changes nothing in the index. They count for passages that are found.

use std::collections::HashMap;
use std::iter::repeat_n;

use super::passage::Passage;
use crate::path::TreePath;
use crate::rule::Naming;
use crate::text::token::{of_word, words};

/// Number of names that count: that of the file, and that of its directory.
const COUNTED: usize = 2;

/// File of a search, with a path that the query shows.
pub trait NamedFile: Clone {
    /// Returns the path; `None` if it does not count.
    fn named(&self) -> Option<Named<'_>>;
}

#[cfg(test)]
impl NamedFile for () {
    fn named(&self) -> Option<Named<'_>> {
        None
    }
}

/// Path of a file, the names in it that count, and the size of the file.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// Path that the query shows.
    pub path: &'a TreePath,
    /// Names that count.
    pub naming: Naming,
    /// Size in bytes.
    pub size: u64,
}

impl<'a> Named<'a> {
    /// Returns the names that count, that of the file first.
    pub(super) fn names(self) -> Vec<&'a str> {
        let mut names: Vec<&'a str> = self.path.segments().skip(self.naming.fixed).collect();
        let own = names.pop();
        if !self.naming.by_directory {
            names.extend(own.map(stem));
        }
        names.reverse();
        names.truncate(COUNTED);
        names
    }

    /// Splits the path into the part before its own name, this name without its extension, and the rest. The
    /// own name is that of the directory if the file is named by it. `None` if the name says nothing or is
    /// not shown.
    fn own(self) -> Option<(&'a str, &'a str, &'a str)> {
        let by_directory = self.naming.by_directory;
        let key = self.path.key();
        if self.path.segments().skip(self.naming.fixed).count() <= usize::from(by_directory) {
            return None;
        }
        let named = if by_directory { key.rsplit_once('/')?.0 } else { key };
        let (before, rest) = key.split_at_checked(named.rfind('/')? + 1)?;
        let name = named.get(before.len()..)?;
        // The name of a directory has no extension.
        let name = if by_directory { name } else { stem(name) };
        Some((before, name, rest.get(name.len()..)?))
    }

    /// Returns the key of the path; `None` if its own name says nothing or is not shown.
    pub(super) fn key(self) -> Option<&'a str> {
        self.own().map(|_| self.path.key())
    }

    /// Returns the key of the path of the next file: the last number of the own name is one larger there. It
    /// has as many zeros in front as keep its length.
    pub(super) fn key_after(self) -> Option<String> {
        let (directory, name, rest) = self.own()?;
        let end = name.rfind(|c: char| c.is_ascii_digit())? + 1;
        let (name, suffix) = name.split_at_checked(end)?;
        let width = name.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (prefix, number) = name.split_at_checked(end - width)?;
        let number = number.parse::<u64>().ok()?.checked_add(1)?;
        Some(format!("{directory}{prefix}{number:0width$}{suffix}{rest}"))
    }

    /// Returns the words of the name of the file, separated by spaces.
    fn title(self) -> String {
        let names = self.names();
        let Some(name) = names.first() else { return String::new() };
        pieces(name).collect::<Vec<&str>>().join(" ")
    }
}

/// Puts the title of each file before the texts of its passages.
pub(super) fn add_titles<F: NamedFile>(texts: &mut [String], files: &[(F, Vec<Passage>)]) {
    let titles = files.iter().flat_map(|(file, passages)| {
        let title = file.named().map_or_else(String::new, Named::title);
        repeat_n(title, passages.len())
    });
    for (text, title) in texts.iter_mut().zip(titles).filter(|(_, title)| !title.is_empty()) {
        *text = format!("{title} {text}");
    }
}

/// Returns the terms that a name contains: one bit for each. `known` has the terms of each word of the
/// question.
pub(super) fn terms_of(name: &str, known: &HashMap<&str, u128>) -> u128 {
    let tokens = pieces(name).flat_map(of_word);
    tokens.filter_map(|token| known.get(token.as_str())).fold(0, |all, terms| all | terms)
}

/// Returns the words of a name. Digits separate them too: numbers in names are dates, versions and counts.
fn pieces(name: &str) -> impl Iterator<Item = &str> {
    let pieces = words(name).flat_map(|(_, word)| word.split(|c: char| c.is_ascii_digit()));
    pieces.filter(|piece| !piece.is_empty())
}

/// Returns the name of a file without its extension.
fn stem(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Ino;
    use crate::text::passage::{Form, Span};

    fn names(path: &str, fixed: usize, by_directory: bool) -> Vec<String> {
        let path = TreePath::parse(path).unwrap();
        let named = Named { path: &path, naming: Naming { fixed, by_directory }, size: 0 };
        named.names().into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn file_and_directory_count() {
        assert_eq!(names("/notes/plans/green-tea.md", 0, false), ["green-tea", "plans"]);
        assert_eq!(names("/notes/plans/green-tea.md", 2, false), ["green-tea"]);
        assert_eq!(names("/green.tea.md", 0, false), ["green.tea"]);
        assert_eq!(names("/.env", 0, false), [".env"]);
        assert_eq!(names("/notes/plans/green-tea.md", 3, false), [""; 0]);
        assert_eq!(names("/notes/plans/green-tea.md", usize::MAX, false), [""; 0]);
        let memory = "/users/ann/memories/preferences/tea/content.md";
        assert_eq!(names(memory, 3, true), ["tea", "preferences"]);
        assert_eq!(names("/users/ann/memories/profile/content.md", 3, true), ["profile"]);
        assert_eq!(names("/users/ann/content.md", 3, true), [""; 0]);
    }

    #[test]
    fn names_are_split_at_digits_and_stemmed() {
        let words = |name: &str| pieces(name).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words("likes_green-tea2go"), ["likes", "green", "tea", "go"]);
        assert_eq!(words("2026-01-27"), [""; 0]);
        assert_eq!(words("Caf\u{e9} 7"), ["Caf\u{e9}"]);
        let known = HashMap::from([("like", 1), ("tea", 2), ("cafe", 4), ("27", 8)]);
        assert_eq!(terms_of("likes-green-tea", &known), 3);
        assert_eq!(terms_of("Caf\u{e9}", &known), 4);
        assert_eq!(terms_of("2026-01-27", &known), 0);
    }

    fn key_after(path: &str, fixed: usize, by_directory: bool) -> Option<String> {
        let path = TreePath::parse(path).unwrap();
        Named { path: &path, naming: Naming { fixed, by_directory }, size: 0 }.key_after()
    }

    #[test]
    fn last_number_of_a_name_counts_up() {
        let after = |path: &str, fixed| key_after(path, fixed, false);
        for (path, next) in [
            ("/chat/1", "/chat/2"),
            ("/chat/9.json", "/chat/10.json"),
            ("/chat/turn-0009.json", "/chat/turn-0010.json"),
            ("/chat/turn-99-bob.mp3", "/chat/turn-100-bob.mp3"),
            ("/chat/0999", "/chat/1000"),
            ("/chat/000000000000000000000007", "/chat/000000000000000000000008"),
            ("/chat/18446744073709551614", "/chat/18446744073709551615"),
            ("/days/2026-01-31.md", "/days/2026-01-32.md"),
            ("/\u{e9}7\u{e9}", "/\u{e9}8\u{e9}"),
        ] {
            assert_eq!(after(path, 0).as_deref(), Some(next));
        }
        for path in ["/7/notes.md", "/notes.mp3", "/18446744073709551615", "/123456789012345678901", "/"] {
            assert_eq!(after(path, 0), None, "{path}");
        }
        assert_eq!(after("/chat/1", 2), None, "a name that is not shown");
    }

    #[test]
    fn number_of_a_memory_is_in_its_directory() {
        let dir = "/users/ann/memories/events";
        for (own, next) in [("5-7", "5-8"), ("turn-09", "turn-10"), ("7.x", "8.x"), ("v1.2", "v1.3")] {
            let due = format!("{dir}/{next}/content.md");
            assert_eq!(key_after(&format!("{dir}/{own}/content.md"), 3, true), Some(due));
        }
        let path = format!("{dir}/5-7/content.md");
        for (path, fixed) in [(format!("{dir}/trip/v2.md"), 3), (path.clone(), 5), (path, usize::MAX)] {
            assert_eq!(key_after(&path, fixed, true), None, "{path} below {fixed}");
        }
        assert_eq!(key_after("/content.md", 0, true), None);
    }

    #[test]
    fn title_precedes_each_text_of_its_file() {
        #[derive(Clone)]
        struct File(TreePath);
        impl NamedFile for File {
            fn named(&self) -> Option<Named<'_>> {
                Some(Named { path: &self.0, naming: Naming::default(), size: 0 })
            }
        }
        let span = Span { off: 0, len: 1, newline: false };
        let passage = Passage { id: 1, ino: Ino(1), span, line_feeds: 0, form: Form::Text, words: 1 };
        let file = |path: &str, passages| (File(TreePath::parse(path).unwrap()), vec![passage; passages]);
        let mut texts = ["one", "two", "three"].map(str::to_owned);
        add_titles(&mut texts, &[file("/a/green-tea.md", 2), file("/a/7", 1)]);
        assert_eq!(texts, ["green tea one", "green tea two", "three"]);
    }
}
