//! Layers that are derived from a memory's content without a model: abstract and overview.

use std::fmt::Write as _;

/// Limit on the characters (Unicode scalar values) of an abstract.
pub const MAX_ABSTRACT: usize = 100;

/// Limit on the characters of a derived overview.
pub const MAX_OVERVIEW: usize = 4000;

/// Limit on the bytes of a given overview.
pub const MAX_GIVEN_OVERVIEW: usize = 64 << 10;

/// Returns the abstract of a text: its first sentence without front matter, headings and markup, cut at a
/// word.
pub fn brief(text: &str) -> String {
    let lines = plain_lines(text);
    // A text of headings alone is described by the first of them.
    let first = lines.iter().position(|line| line.heading.is_none()).unwrap_or(0);
    let sentence = first_sentence(&paragraph(&lines[first..]));
    cut_at_word(&sentence, MAX_ABSTRACT)
}

/// Returns the overview of a text: an outline of its headings, each with its first sentence.
pub fn overview(text: &str) -> String {
    let lines = plain_lines(text);
    // A text may begin without a heading.
    let (mut outline, mut wants_sentence) = (String::new(), true);
    for (at, line) in lines.iter().enumerate() {
        match line.heading {
            Some(level) => {
                let _ = writeln!(outline, "{} {}", "#".repeat(level), line.text);
                wants_sentence = true;
            }
            None if wants_sentence => {
                let _ = writeln!(outline, "{}", first_sentence(&paragraph(&lines[at..])));
                wants_sentence = false;
            }
            None => {}
        }
        // A character has at most four bytes, so this is more than enough for the limit below.
        if outline.len() > MAX_OVERVIEW * 4 {
            break;
        }
    }
    let mut kept = String::new();
    let mut left = MAX_OVERVIEW;
    for line in outline.lines() {
        let length = line.chars().count() + 1;
        if length > left {
            kept.push_str(&cut_at_word(line, left.saturating_sub(1)));
            break;
        }
        left -= length;
        kept.push_str(line);
        kept.push('\n');
    }
    kept.trim_end().to_owned()
}

/// Line of text without markup.
struct Line {
    number: usize,
    /// Level of a heading; `None` for text.
    heading: Option<usize>,
    text: String,
}

/// Returns the lines that contain words.
fn plain_lines(text: &str) -> Vec<Line> {
    let (mut lines, mut fenced) = (Vec::new(), false);
    for (number, line) in without_front_matter(text).lines().enumerate() {
        let line = line.trim();
        // A `#` in a code fence is a comment, not a heading.
        if line.starts_with("```") || line.starts_with("~~~") {
            fenced = !fenced;
            continue;
        }
        let hashes = line.bytes().take_while(|byte| *byte == b'#').count();
        let is_heading = !fenced && (1..=6).contains(&hashes) && line[hashes..].starts_with([' ', '\t']);
        let rest = if is_heading { line[hashes..].trim_end_matches('#') } else { line };
        let words = without_markup(rest);
        if words.chars().any(char::is_alphanumeric) {
            lines.push(Line { number, heading: is_heading.then_some(hashes), text: words });
        }
    }
    lines
}

/// Returns the text after the front matter, which is between two lines `---` at the start.
fn without_front_matter(text: &str) -> &str {
    // Editors may add a byte order mark, after which front matter would not be recognised.
    let text = text.trim_start_matches('\u{feff}');
    let Some(rest) = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n")) else { return text };
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        at += line.len();
        if matches!(line.trim_end(), "---" | "...") {
            return &rest[at..];
        }
    }
    text
}

/// Returns a line without the markup of lists, quotes, emphasis, code and links.
fn without_markup(line: &str) -> String {
    let mut line = line.trim();
    loop {
        let digits = line.bytes().take_while(u8::is_ascii_digit).count();
        let numbered = (1..=3).contains(&digits).then(|| &line[digits..]);
        let numbered = numbered.and_then(|rest| rest.strip_prefix(". ").or_else(|| rest.strip_prefix(") ")));
        let shorter = ["- ", "* ", "+ ", ">", "[ ] ", "[x] "].iter().find_map(|sign| line.strip_prefix(sign));
        match shorter.or(numbered) {
            Some(rest) => line = rest.trim_start(),
            None => break,
        }
    }
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(sign) = rest.chars().next() {
        let image = rest.strip_prefix('!').filter(|rest| rest.starts_with('['));
        if let Some((shown, behind)) = link(image.unwrap_or(rest)) {
            plain.push_str(shown);
            rest = behind;
            continue;
        }
        rest = &rest[sign.len_utf8()..];
        if !matches!(sign, '*' | '`') {
            plain.push(sign);
        }
    }
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Limit on the bytes of a link's target. It bounds the search for the end of a link, which would be
/// quadratic for a text of many brackets.
const MAX_TARGET: usize = 1000;

/// Returns the text of a link at the start, and the rest after it.
fn link(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('[')?;
    let (shown, target) = text.split_at(text.find(['[', ']'])?);
    let target = target.strip_prefix("](")?;
    let within = &target.as_bytes()[..target.len().min(MAX_TARGET)];
    let end = within.iter().position(|byte| *byte == b')')?;
    (!target[..end].contains(char::is_whitespace)).then_some((shown, &target[end + 1..]))
}

/// Joins the first line and those that follow it without a gap.
fn paragraph(lines: &[Line]) -> String {
    /// Longer than any sentence that is used.
    const ENOUGH: usize = 4 * 4000;
    let Some(first) = lines.first() else { return String::new() };
    let mut text = first.text.clone();
    for pair in lines.windows(2) {
        let follows = pair[1].number == pair[0].number + 1 && pair[1].heading == pair[0].heading;
        // A heading is a sentence of its own, and a paragraph ends at a gap.
        if !follows || first.heading.is_some() || text.len() > ENOUGH {
            break;
        }
        text.push(' ');
        text.push_str(&pair[1].text);
    }
    text
}

/// Returns the text up to the end of the first sentence.
fn first_sentence(text: &str) -> String {
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let end = at + letter.len_utf8();
        // Full stops of other scripts are not followed by a space.
        let ends = match letter {
            '。' | '！' | '？' | '।' | '۔' => true,
            '.' | '!' | '?' | '…' => {
                letters.peek().is_none_or(|(_, next)| next.is_whitespace()) && !is_short(&text[..at])
            }
            _ => false,
        };
        if ends {
            return text[..end].to_owned();
        }
    }
    text.to_owned()
}

/// Returns true if a dot after this text is part of an abbreviation, as in `Dr.` or `e.g.`.
fn is_short(before: &str) -> bool {
    let word = before.rsplit(char::is_whitespace).next().unwrap_or(before).trim_start_matches(['(', '"']);
    let is_initial = word.chars().count() == 1 && word.chars().all(char::is_uppercase);
    is_initial
        || word.contains('.')
        || matches!(word, "Dr" | "Mr" | "Mrs" | "Ms" | "St" | "Prof" | "vs" | "etc" | "No")
}

/// Returns the first `most` characters of a text, cut at a word. A single long word is cut inside.
pub(super) fn cut_at_word(text: &str, most: usize) -> String {
    let Some((end, next)) = text.char_indices().nth(most) else { return text.to_owned() };
    let whole = match next.is_whitespace() {
        true => &text[..end],
        false => text[..end].rsplit_once(char::is_whitespace).map_or(&text[..end], |(whole, _)| whole),
    };
    whole.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn abstract_is_the_first_sentence_without_markup() {
        for (text, due) in [
            ("Alice likes her coffee black. She drinks two.", "Alice likes her coffee black."),
            ("---\ntitle: x\n---\n# Coffee\n\nAlice *likes* it\n**black**. More", "Alice likes it black."),
            ("# Only a heading", "Only a heading"),
            ("- [x] buy [milk](http://x/y) now\n- more", "buy milk now more"),
            ("> Dr. Smith e.g. came. Later", "Dr. Smith e.g. came."),
            ("爱丽丝喜欢咖啡。她每天喝两杯。", "爱丽丝喜欢咖啡。"),
            ("snake_case_name stays", "snake_case_name stays"),
            ("```\nlet x = 1;\n```", "let x = 1;"),
            ("", ""),
            ("***\n\n", ""),
            ("---\nno end", "no end"),
        ] {
            assert_eq!(brief(text), due, "{text:?}");
        }
        for sign in ["[", "[a](", "![", "[a](b"] {
            // If it were quadratic, it would take minutes.
            assert!(brief(&format!("{} Tea.", sign.repeat(250_000))).len() <= MAX_ABSTRACT);
        }
        let long = "word ".repeat(60);
        assert_eq!(brief(&long), "word ".repeat(20).trim_end());
        assert_eq!(brief(&"語".repeat(300)).chars().count(), 100);
    }

    #[test]
    fn overview_lists_headings_with_first_sentences() {
        let text =
            "---\na: b\n---\nIntro one. Two.\n\n# Taste\nBlack. No milk.\n## When\n- at eight\n# Empty\n";
        assert_eq!(overview(text), "Intro one.\n# Taste\nBlack.\n## When\nat eight\n# Empty");
        let long: String = (0..2000).map(|n| format!("# Heading {n}\nText {n}.\n")).collect();
        let made = overview(&long);
        assert!(made.chars().count() <= MAX_OVERVIEW && made.chars().count() > MAX_OVERVIEW - 40);
    }

    proptest! {
        #[test]
        fn layers_of_any_text_are_bounded(text in "\\PC{0,300}|[#*>\\- a.\\n`\\[\\]()]{0,200}") {
            let made = brief(&text);
            prop_assert!(made.chars().count() <= MAX_ABSTRACT && !made.contains('\n'));
            prop_assert!(overview(&text).chars().count() <= MAX_OVERVIEW);
        }
    }
}
