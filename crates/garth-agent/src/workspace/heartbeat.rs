//! Check if a heartbeat file has content: only then it is part of the prompt.

use super::reading::Reading;

/// Returns true if a text has more than blank lines, headings without a body, comments and rules.
///
/// A comment is `<!--` to `-->`, also over several lines; an unterminated one is text. A heading is 1 to 6
/// `#` followed by a space or the end of the line. A rule is three or more of one of `-`, `*`, `_`, with or
/// without spaces between them. The lines that open and close a code fence have no content themselves; the
/// lines inside count as outside, because templates are often sent in fences.
///
/// ```
/// use garth_agent::workspace::says_anything;
///
/// assert!(!says_anything("# Heartbeats\n\n<!-- add tasks below -->\n---\n"));
/// assert!(!says_anything("```markdown\n# Add tasks below\n```\n"));
/// assert!(says_anything("# Heartbeats\n- check the inbox\n"));
/// ```
pub fn says_anything(text: &str) -> bool {
    says_anything_as(text, Reading::Now)
}

/// Returns the result of [`says_anything`], or for old prompts the one that it had then.
pub(super) fn says_anything_as(text: &str, reading: Reading) -> bool {
    // Prompts that were built before fences were recognised must be replayed as they were.
    let is_fence = |line: &str| reading != Reading::First && is_fence(line);
    let text = without_comments(text.strip_prefix('\u{feff}').unwrap_or(text));
    text.split(['\n', '\r'])
        .map(str::trim)
        .any(|line| !line.is_empty() && !is_heading(line) && !is_rule(line) && !is_fence(line))
}

/// Returns the text with each comment replaced by a space, so that the text around it is not joined.
fn without_comments(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::with_capacity(text.len());
    while let Some((before, behind)) = rest.split_once("<!--") {
        let Some((_, after)) = behind.split_once("-->") else { break };
        kept.push_str(before);
        kept.push(' ');
        rest = after;
    }
    kept + rest
}

fn is_heading(line: &str) -> bool {
    let behind = line.trim_start_matches('#');
    let level = line.len() - behind.len();
    (1..=6).contains(&level) && (behind.is_empty() || behind.starts_with([' ', '\t']))
}

/// Returns true for three or more backticks or tildes, followed by at most one word: the language.
fn is_fence(line: &str) -> bool {
    ['`', '~'].into_iter().any(|mark| {
        let language = line.trim_start_matches(mark);
        let language_is_word = !language.trim().contains([' ', '\t', '`', '~']);
        line.len() - language.len() >= 3 && language_is_word
    })
}

fn is_rule(line: &str) -> bool {
    let mut marks = line.chars().filter(|c| !c.is_whitespace());
    let Some(first) = marks.next().filter(|first| "-*_".contains(*first)) else { return false };
    let rest: Vec<char> = marks.collect();
    rest.len() >= 2 && rest.iter().all(|mark| *mark == first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeat_without_content_is_empty() {
        for empty in [
            "",
            " \n\t\r\n\u{a0}\n",
            "\u{feff}# Heartbeats\n",
            "# Heartbeats",
            "# A\n## B\n###### C",
            "#\n##\t\n",
            "  ## indented\n",
            "<!-- nothing yet -->",
            "<!-- over\nseveral\n\nlines -->\n",
            "<!-- a --><!-- b -->",
            "# A <!-- b -->\n<!---->",
            "---\n***\n___",
            "- - -\n* * * *\n_____",
            "# A\r\n\r\n---\r\n<!-- x -->\r\n",
            "# A\r---\r",
            "```\n```",
            "```markdown\n# Keep this file empty.\n\n# Add tasks below.\n```\n",
            "# A\n\n~~~\n<!-- one task a line -->\n~~~",
            "````md\n```\n---\n```\n````",
            "```\n# not closed",
        ] {
            assert!(!says_anything(empty), "{empty:?}");
        }
    }

    #[test]
    fn heartbeat_ignores_one_byte_order_mark() {
        assert!(!says_anything("\u{feff}"));
        assert!(says_anything("\u{feff}\u{feff}"));
    }

    #[test]
    fn comment_may_end_after_a_heading() {
        // The opening of a comment that looks like its end as well.
        let text = "# <!-->\n--><!--";
        assert!(!says_anything(text));
        assert!(says_anything(&format!("{text}\n{text}")));
    }

    #[test]
    fn heartbeat_with_any_content_counts() {
        for full in [
            "check the inbox",
            "# A\nbody",
            "- [ ] task",
            "#tag",
            "####### seven",
            "--",
            "-*-",
            "<!-- does not end",
            "<!-- a --> b",
            "--> left over",
            "```\n- check the inbox\n```",
            "```check the inbox```",
            "``` check the inbox",
            "``",
            "> quoted",
            "\u{200b}",
            "<!-- a --> <!-- b",
        ] {
            assert!(says_anything(full), "{full:?}");
        }
    }

    #[test]
    fn first_reading_counts_fences_as_content() {
        for text in ["```\n# A\n```", "~~~"] {
            assert!(says_anything_as(text, Reading::First) && !says_anything(text), "{text:?}");
        }
    }
}
