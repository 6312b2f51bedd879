//! Rules for the English of comments and documents, as far as a program can judge it: doc comments open with
//! a verb or a noun, and words that readers stumble over do not occur.

use super::finding::Finding;

/// Openings of doc comments after which the subject has to be guessed.
const OPENINGS: [&str; 8] = ["What", "Whether", "Which", "Whose", "Those", "How", "Of", "The same"];

/// Finds odd English in the comments of a Rust source.
pub(super) fn check_comments(path: &str, content: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut before = None;
    for (index, line) in content.lines().enumerate() {
        let comment = comment(line);
        let Some((marker, text)) = comment else {
            before = None;
            continue;
        };
        // A comment of several lines opens once. Its other lines may begin with any word.
        if marker != "//"
            && before != Some(marker)
            && let Some(opening) = OPENINGS.iter().find(|opening| opens(text, opening))
        {
            let message = format!(
                "opens with `{opening}`: open with a verb (a function: `Returns`, `Reads`) or a noun (data)"
            );
            findings.push(Finding::new(path, index + 1, message));
        }
        findings.extend(odd(path, index + 1, text));
        before = Some(marker);
    }
    findings
}

/// Finds odd English in a document, outside its blocks of code.
pub(super) fn check_document(path: &str, content: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut code = false;
    for (index, line) in content.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            code = !code;
        } else if !code {
            findings.extend(odd(path, index + 1, line));
        }
    }
    findings
}

/// Returns the marker and the text of a line that is a comment.
fn comment(line: &str) -> Option<(&'static str, &str)> {
    let line = line.trim_start();
    let markers = ["///", "//!", "//"].into_iter();
    let mut comments = markers.filter_map(|marker| Some((marker, line.strip_prefix(marker)?)));
    comments.next().map(|(marker, text)| (marker, text.trim_start()))
}

fn opens(text: &str, opening: &str) -> bool {
    text.strip_prefix(opening).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', ',', ':']))
}

/// Finds words with a plainer one. They are composed here, so that this file does not violate its own rule.
fn odd(path: &str, line: usize, text: &str) -> Vec<Finding> {
    let odd = [(["so", "many"].join(" "), "name the number"), (["a", "new"].concat(), "write `again`")];
    let odd = odd.into_iter().filter(|(word, _)| has_word(text, word));
    odd.map(|(word, remedy)| Finding::new(path, line, format!("says `{word}`: {remedy}"))).collect()
}

fn has_word(text: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || "_`\"".contains(c);
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        !before.ends_with(part_of_word) && !after.starts_with(part_of_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(findings: Vec<Finding>) -> Vec<usize> {
        findings.into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn finds_odd_openings_of_doc_comments() {
        let odd =
            "/// What it is.\nstruct A;\n//! Whether to.\n    /// Of, so to speak.\n/// The same again.\n";
        assert_eq!(lines(check_comments("f.rs", odd)), [1, 3, 4]);
        let fine =
            "/// Whatever is left.\nstruct A;\n/// Returns\n/// What is left.\n// What follows is code.\n";
        assert_eq!(lines(check_comments("f.rs", fine)), [0; 0]);
    }

    #[test]
    fn finds_odd_words_in_comments_and_documents() {
        let word = ["a", "new"].concat();
        let source = format!(
            "// built {word}\nlet {word} = 1;\n/// {}\n/// {word}s\n",
            ["So", "so", "many."].join(" ")
        );
        assert_eq!(lines(check_comments("f.rs", &source)), [1, 3]);
        let document = format!("Built {word}.\n\n```sh\nbuild {word}\n```\nsee `{word}`\n");
        assert_eq!(lines(check_document("f.md", &document)), [1]);
    }
}
