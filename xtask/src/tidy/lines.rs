//! Rules for the lines of text files: their length, and no references to documents outside the repository.

use super::finding::Finding;

/// Longest comment line in Rust, in characters: the width to which rustfmt formats code.
const MAX_COMMENT: usize = 110;
/// Longest code line in Rust, in characters. rustfmt leaves a line longer only because of a string.
const MAX_CODE: usize = 140;
/// Longest line of Markdown, in characters.
const MAX_LINE: usize = 120;

/// Words that refer to documents outside the repository if a number follows.
const NUMBERED: [&str; 3] = ["seed", "issue", "review"];
/// Such a word that needs no number. In two parts, so that this file does not violate its own rule.
const UNNUMBERED: [&str; 2] = ["DES", "IGN"];

/// Finds lines that are too long, and references to documents outside the repository.
pub(super) fn check(path: &str, content: &str) -> Vec<Finding> {
    let limit: fn(&str) -> usize = match path.rsplit_once('.') {
        Some((_, "rs")) => |line| if line.trim_start().starts_with("//") { MAX_COMMENT } else { MAX_CODE },
        Some((_, "md")) => |_| MAX_LINE,
        _ => |_| usize::MAX,
    };
    let mut findings = Vec::new();
    // True inside a code block of a document, whose commands are copied as they are.
    let mut is_code = false;
    for (index, line) in content.lines().enumerate() {
        is_code ^= path.ends_with(".md") && line.trim_start().starts_with("```");
        let mut found = |message: String| findings.push(Finding::new(path, index + 1, message));
        let length = length(line);
        if length > limit(line) && !is_code {
            found(format!("has {length} characters, {} at most: break the line", limit(line)));
        }
        if let Some(document) = absent(line) {
            found(format!(
                "refers to `{document}`, which is not in the repository: explain it in place or in docs/specs"
            ));
        }
    }
    findings
}

/// Returns the length of a line that counts: 0 for table rows, which cannot be broken, and no link targets.
fn length(line: &str) -> usize {
    if line.trim_start_matches([' ', '/', '!']).starts_with('|') || line.contains("://") {
        return 0;
    }
    let (mut length, mut rest) = (0, line);
    while let Some((before, target)) = rest.split_once("](") {
        length += before.chars().count();
        rest = target.split_once(')').map_or("", |(_, after)| after);
    }
    length + rest.chars().count()
}

/// Returns a reference to a document outside the repository.
fn absent(line: &str) -> Option<String> {
    let mut before = "";
    line.split(|c: char| !c.is_alphanumeric() && c != '_').find_map(|word| {
        let is_number = word.starts_with(|c: char| c.is_ascii_digit());
        let numbered = is_number && NUMBERED.iter().any(|name| before.eq_ignore_ascii_case(name));
        let found = if numbered { Some(format!("{before} {word}")) } else { None };
        before = word;
        found.or_else(|| (word == UNNUMBERED.concat()).then(|| word.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, content: &str) -> Vec<usize> {
        check(path, content).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn limits_line_width_by_kind() {
        let of = |length: usize| "é".repeat(length);
        let comment = |length| format!("fn f() {{\n    // {}\n}}\n", of(length - 7));
        assert_eq!(lines("a.rs", &comment(MAX_COMMENT)), [0; 0]);
        assert_eq!(lines("a.rs", &comment(MAX_COMMENT + 1)), [2]);
        assert_eq!(lines("a.rs", &format!("\"{}\"", of(MAX_CODE - 2))), [0; 0]);
        assert_eq!(lines("a.rs", &format!("\"{}\"", of(MAX_CODE))), [1]);
        assert_eq!(lines("a.md", &of(MAX_LINE)), [0; 0]);
        assert_eq!(lines("a.md", &of(MAX_LINE + 1)), [1]);
        assert_eq!(lines("Cargo.lock", &of(MAX_LINE + 1)), [0; 0]);
    }

    #[test]
    fn accepts_long_unbreakable_lines() {
        let long = "x".repeat(MAX_LINE);
        assert_eq!(lines("a.md", &format!("| a | {long} |\n[a]({long}) b\nhttps://{long}\n")), [0; 0]);
        assert_eq!(lines("a.md", &format!("```sh\n{long}y\n```\n{long}y\n")), [4]);
        assert_eq!(lines("a.md", &format!("[{long}](a)\n")), [1]);
    }

    #[test]
    fn finds_references_to_missing_documents() {
        let absent = [["DES", "IGN 7"], ["Se", "ed 4"], ["(iss", "ue 2, item 7)"], ["rev", "iew 1"]];
        for words in absent {
            assert_eq!(lines("a.toml", &format!("fine\n# as {} says\n", words.concat())), [2], "{words:?}");
        }
        let fine = "the design; a seed of 4; seeds 4; `issue`, an issue; review the change; 4 issues";
        assert_eq!(lines("a.md", fine), [0; 0]);
    }
}
