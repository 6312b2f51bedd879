//! Paths of the memory tool: the text that a model wrote, and the place in the tree. A text that could lead
//! out of `/memories` in any common spelling is refused, although the tree would take most of them as names.

use super::answer::Failure;
use garth_engine::error::Result;
use garth_engine::path::{MAX_PATH, TreePath};

/// Directory of the tool, as models name it.
pub(super) const TOP: &str = "/memories";
/// Directory of the tool in the tree of an agent.
const TOP_IN_TREE: &str = "/.user/memory";
/// Limit on the layers of percent escapes that are decoded. `%252e` has two.
const MAX_LAYERS: usize = 8;

/// Path in a command.
#[derive(Debug)]
pub(super) struct ToolPath {
    /// Path as the command has it, for answers.
    pub(super) text: String,
    /// Path in the tree.
    pub(super) at: TreePath,
}

impl ToolPath {
    /// Parses the path of a command. Empty segments, `.` and a final `/` are left out.
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        if text.len() > MAX_PATH {
            return Err(Failure::model(format!(
                "Error: The path is too long. A path has at most {MAX_PATH} bytes."
            )));
        }
        if text.chars().any(char::is_control) {
            return Err(Failure::model("Error: The path has control characters. Leave them out."));
        }
        let below = text.strip_prefix(TOP).filter(|below| below.is_empty() || below.starts_with('/'));
        let Some(below) = below.filter(|below| !climbs(below)) else { return Err(outside(text)) };
        let segments = below.split('/').filter(|segment| !segment.is_empty() && *segment != ".");
        let path = segments.fold(TOP_IN_TREE.to_owned(), |path, segment| path + "/" + segment);
        let at = TreePath::parse(&path)
            .map_err(|error| Failure::model(format!("Error: The path {text} is not valid: {error}.")))?;
        Ok(Self { text: text.to_owned(), at })
    }

    /// Returns true for `/memories` itself.
    pub(super) fn is_top(&self) -> bool {
        self.at.as_str() == TOP_IN_TREE
    }
}

/// Returns the path that a model uses for a path of the tree.
pub(super) fn shown(at: &TreePath) -> String {
    match at.as_str().strip_prefix(TOP_IN_TREE) {
        Some(below) => format!("{TOP}{below}"),
        // The directories above are none that a model can name.
        None => TOP.to_owned(),
    }
}

/// Returns the refusal of a path outside of `/memories`.
fn outside(text: &str) -> Failure {
    Failure::model(format!(
        "Error: The path {text} is outside {TOP}. Every path begins with {TOP} and has no `..`."
    ))
}

/// Returns true if some program would read a segment of a path as `..`: with backslashes, percent escapes in
/// layers, overlong UTF-8, or letters that look like dots and slashes.
fn climbs(path: &str) -> bool {
    let mut bytes = path.as_bytes().to_vec();
    for _ in 0..MAX_LAYERS {
        if has_parent_segment(&String::from_utf8_lossy(&bytes)) {
            return true;
        }
        let decoded = percent_decoded(&bytes);
        if decoded == bytes {
            return false;
        }
        bytes = decoded;
    }
    // Nobody escapes a name so often.
    true
}

fn has_parent_segment(path: &str) -> bool {
    let plain: String = path.chars().map(plain).collect();
    let is_ignored = |letter: char| letter.is_whitespace() || letter.is_control();
    // The two dot leader is one letter that some programs expand.
    plain.replace('\u{2025}', "..").split('/').any(|segment| segment.trim_matches(is_ignored) == "..")
}

/// Returns the ASCII letter that a letter may be read as.
const fn plain(letter: char) -> char {
    match letter {
        '\\' | '\u{2044}' | '\u{2215}' | '\u{2216}' | '\u{29f8}' | '\u{ff0f}' | '\u{ff3c}' | '\u{fe68}' => {
            '/'
        }
        '\u{2024}' | '\u{fe52}' | '\u{ff0e}' => '.',
        other => other,
    }
}

/// Decodes one layer of percent escapes, and the overlong forms of `.`, `/` and `\` in UTF-8.
fn percent_decoded(path: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((first, after)) = rest.split_first() {
        let byte = match (first, after) {
            (b'%', [high, low, ..]) => hex(*high).zip(hex(*low)).map(|(high, low)| (high << 4) | low),
            _ => None,
        };
        rest = if byte.is_some() { after.get(2..).unwrap_or_default() } else { after };
        decoded.push(byte.unwrap_or(*first));
        let overlong = match decoded.as_slice() {
            [.., 0xc0, 0xae] => Some(b'.'),
            [.., 0xc0, 0xaf] => Some(b'/'),
            [.., 0xc1, 0x9c] => Some(b'\\'),
            _ => None,
        };
        if let Some(letter) = overlong {
            decoded.truncate(decoded.len() - 2);
            decoded.push(letter);
        }
    }
    decoded
}

const fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_below_memories_are_places_of_the_tree() {
        for (text, at) in [
            ("/memories", "/.user/memory"),
            ("/memories/", "/.user/memory"),
            ("/memories/a.md", "/.user/memory/a.md"),
            ("/memories//d/./a.md/", "/.user/memory/d/a.md"),
            ("/memories/...", "/.user/memory/..."),
            ("/memories/a..b", "/.user/memory/a..b"),
            ("/memories/100%.md", "/.user/memory/100%.md"),
            ("/memories/a%2fb", "/.user/memory/a%2fb"),
            ("/memories/a\\b", "/.user/memory/a\\b"),
            ("/memories/Käse\u{2025}", "/.user/memory/Käse\u{2025}"),
        ] {
            let path = ToolPath::parse(text).unwrap();
            assert_eq!((path.at.as_str(), path.text.as_str()), (at, text));
        }
        assert!(ToolPath::parse("/memories//.").unwrap().is_top());
    }

    #[test]
    fn paths_out_of_memories_are_refused() {
        for text in [
            "",
            "/",
            "memories/a",
            "/Memories/a",
            "/memories.md",
            "/memoriesx/a",
            "//memories/a",
            "/./memories/a",
            "/etc/passwd",
            "%2fmemories/a",
            "\\memories\\a",
            "/memories\\..\\a",
            "/memories/..",
            "/memories/../a",
            "/memories/a/../../b",
            "/memories/a/../b",
            "/memories/..\\a",
            "/memories/a\\..\\..\\b",
            "/memories/%2e%2e/a",
            "/memories/%2E./a",
            "/memories/.%2e%2fa",
            "/memories/..%2fa",
            "/memories/..%5ca",
            "/memories/%2e%2e%2fa",
            "/memories/%252e%252e%252fa",
            "/memories/%25252e%25252e/a",
            "/memories/%c0%ae%c0%ae%c0%afa",
            "/memories/%c0%ae%c0%ae%c1%9ca",
            "/memories/\u{ff0e}\u{ff0e}/a",
            "/memories/\u{ff0e}\u{ff0e}\u{ff0f}a",
            "/memories/\u{2025}/a",
            "/memories/\u{2024}\u{2024}/a",
            "/memories/..\u{2215}a",
            "/memories/.. /a",
            "/memories/..%00/a",
            "/memories/%25252525252525252525252525a",
        ] {
            let Err(Failure::Model(refusal)) = ToolPath::parse(text) else { panic!("{text} is a path") };
            assert!(
                refusal.starts_with("Error: ") && refusal.contains("outside /memories"),
                "{text}: {refusal}"
            );
        }
    }

    #[test]
    fn invalid_paths_are_refused() {
        let long = format!("/memories/{}", "a".repeat(MAX_PATH));
        let long_name = format!("/memories/{}", "a".repeat(300));
        for text in ["/memories/a\0b", "/memories/a\nb", &long, &long_name] {
            assert!(matches!(ToolPath::parse(text), Err(Failure::Model(_))), "{text:?}");
        }
    }
}
