//! Differences of two texts in the unified format.

use std::fmt::Write as _;
use std::ops::Range;

use super::changed_lines::{ChangedLines, changed_lines};
use garth_engine::compute::working;
use garth_engine::error::Result;

/// Text of a side.
#[derive(Default)]
pub(super) struct Text(String);

/// Lines of two texts, with their end, and where they differ.
pub(super) struct TextDifference<'a> {
    old: Vec<&'a str>,
    new: Vec<&'a str>,
    changes: Vec<ChangedLines>,
}

impl Text {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }
}

impl<'a> TextDifference<'a> {
    pub(super) fn of(old: &'a Text, new: &'a Text) -> Result<Self> {
        Self::between(&old.0, &new.0)
    }

    fn between(old: &'a str, new: &'a str) -> Result<Self> {
        working(old.len() + new.len());
        let (old, new): (Vec<&str>, Vec<&str>) =
            (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
        let changes = changed_lines(&old, &new)?;
        Ok(Self { old, new, changes })
    }

    /// Returns the numbers of added and removed lines.
    pub(super) fn counts(&self) -> (usize, usize) {
        self.changes
            .iter()
            .fold((0, 0), |(added, removed), change| (added + change.new.len(), removed + change.old.len()))
    }

    /// Returns the hunks, with this many equal lines around the changes.
    pub(super) fn hunks(&self, context: usize) -> String {
        let mut text = String::new();
        for hunk in self.changes.chunk_by(|before, after| {
            // Changes with more between them than the context of both are in hunks of their own.
            after.old.start - before.old.end <= context.saturating_mul(2)
        }) {
            self.hunk(hunk, context, &mut text);
        }
        text
    }

    fn hunk(&self, changes: &[ChangedLines], context: usize, text: &mut String) {
        let (Some(first), Some(last)) = (changes.first(), changes.last()) else { return };
        let before = context.min(first.old.start);
        let after = context.min(self.old.len() - last.old.end);
        let old = first.old.start - before..last.old.end + after;
        let new = first.new.start - before..last.new.end + after;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "@@ -{} +{} @@", numbers(&old), numbers(&new));
        let mut at = old.start;
        for change in changes {
            add(text, ' ', &self.old[at..change.old.start]);
            add(text, '-', &self.old[change.old.clone()]);
            add(text, '+', &self.new[change.new.clone()]);
            at = change.old.end;
        }
        add(text, ' ', &self.old[at..old.end]);
    }
}

/// Returns the hunks of the unified diff of two texts, with this many lines of context. The two header lines
/// of a file are left to the caller. Equal texts have no hunks.
///
/// The result is the shortest one, except where more than a thousand lines differ in one place.
///
/// ```
/// let hunks = garth_agent::files::unified("one\ntwo\n", "one\nthree", 3)?;
/// assert_eq!(hunks, "@@ -1,2 +1,2 @@\n one\n-two\n+three\n\\ No newline at end of file\n");
/// # Ok::<(), garth::Error>(())
/// ```
///
/// # Errors
/// `TimedOut` within [`Env::compute`](garth_engine::Env::compute), once the work has used up its steps.
pub fn unified(old: &str, new: &str, context: usize) -> Result<String> {
    Ok(TextDifference::between(old, new)?.hunks(context))
}

/// Returns a range of lines as a hunk's header has it.
fn numbers(lines: &Range<usize>) -> String {
    match lines.len() {
        1 => format!("{}", lines.start + 1),
        // Nothing is after the line with this number.
        0 => format!("{},0", lines.start),
        length => format!("{},{length}", lines.start + 1),
    }
}

fn add(text: &mut String, sign: char, lines: &[&str]) {
    for line in lines {
        text.push(sign);
        text.push_str(line);
        if !line.ends_with('\n') {
            text.push_str("\n\\ No newline at end of file\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hunks_have_the_unified_format() {
        let of = |old: &str, new: &str, context| unified(old, new, context).unwrap();
        assert_eq!(of("a\nb\n", "a\nb\n", 3), "");
        assert_eq!(of("", "a\n", 3), "@@ -0,0 +1 @@\n+a\n");
        assert_eq!(of("a\nb\n", "", 0), "@@ -1,2 +0,0 @@\n-a\n-b\n");
        assert_eq!(of("a\nb\nc\n", "a\nc\n", 0), "@@ -2 +1,0 @@\n-b\n");
        assert_eq!(of("a", "a\n", 3), "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
        assert_eq!(of("a\r\n", "a\n", 3), "@@ -1 +1 @@\n-a\r\n+a\n");
    }

    #[test]
    fn distant_changes_have_hunks_of_their_own() {
        let lines = |changed: &[usize]| -> String {
            (0..20).map(|n| format!("{n}{}\n", if changed.contains(&n) { "!" } else { "" })).collect()
        };
        let hunks = |changed: &[usize], context| {
            let text = unified(&lines(&[]), &lines(changed), context).unwrap();
            text.lines().filter(|line| line.starts_with("@@")).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(hunks(&[5, 12], 3), ["@@ -3,14 +3,14 @@"], "six lines between");
        assert_eq!(hunks(&[5, 13], 3), ["@@ -3,7 +3,7 @@", "@@ -11,7 +11,7 @@"]);
        assert_eq!(hunks(&[0, 19], usize::MAX), ["@@ -1,20 +1,20 @@"]);
        assert_eq!(hunks(&[5, 6], 0), ["@@ -6,2 +6,2 @@"]);
    }
}
