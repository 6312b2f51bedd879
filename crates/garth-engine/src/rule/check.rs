//! Check of existing files when a rule is set, and report of those that violate it.

use super::Rule;
use super::content_check::ContentCheck;
use super::lines::Place;
use super::schema::{Budget, MAX_STEPS};
use crate::path::TreePath;

/// Existing entry that violates a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileViolation {
    /// Path of the entry.
    pub path: TreePath,
    /// Reason, in words that follow the path.
    pub reason: String,
}

/// Check of an existing file by a rule that is to be set.
pub struct Check<'a> {
    content: ContentCheck<'a>,
    budget: Budget,
}

impl<'a> Check<'a> {
    /// Starts the check of a file of `size` bytes. `None` if its content need not be read.
    ///
    /// # Errors
    /// The violation, in words that follow the path.
    pub fn begin(rule: &'a Rule, size: u64, expires: bool) -> Result<Option<Self>, String> {
        if let Some(reason) = rule.constraint().expiry_refused(expires) {
            return Err(reason);
        }
        let content = rule.constraint().begin(size, Place::START)?;
        Ok(content.map(|content| Self { content, budget: Budget::new(MAX_STEPS) }))
    }

    /// Takes the next piece of the content.
    ///
    /// # Errors
    /// As [`Check::begin`].
    pub fn feed(&mut self, piece: &[u8]) -> Result<(), String> {
        self.content.feed(piece, &mut self.budget)
    }

    /// Takes the next piece of the content, `length` zero bytes of a hole.
    ///
    /// # Errors
    /// As [`Check::begin`].
    pub fn skip(&mut self, length: u64) -> Result<(), String> {
        self.content.skip(length, &mut self.budget)
    }

    /// Ends the check. Returns the place from which to continue once the file has grown.
    ///
    /// # Errors
    /// As [`Check::begin`].
    pub fn finish(mut self) -> Result<Option<Place>, String> {
        self.content.finish(&mut self.budget)
    }
}

#[cfg(test)]
mod tests {
    use garth_testkit::data::random::Random;
    use garth_testkit::data::secrets::each;

    use super::*;
    use crate::rule::{Constraint, PathPattern};

    /// Returns the verdict on texts with a hole between them, which is skipped or fed.
    fn judged(rule: &Rule, texts: [&str; 2], hole: usize, skips: bool) -> Result<Option<Place>, String> {
        let size = texts[0].len() + hole + texts[1].len();
        let mut check = Check::begin(rule, size as u64, false)?.expect("its content is read");
        check.feed(texts[0].as_bytes())?;
        match skips {
            true => check.skip(hole as u64)?,
            false => vec![0; hole].chunks(1 << 20).try_for_each(|zeros| check.feed(zeros))?,
        }
        check.feed(texts[1].as_bytes())?;
        check.finish()
    }

    #[test]
    fn skipped_hole_is_judged_like_its_zeros() {
        let planted = &each(&mut Random::new(6))[3];
        let secret: &str = &format!("one\n{}\ntwo\n", planted.text());
        let rule = |name: &str, terms: &str| {
            Rule::new(PathPattern::parse("/**").unwrap(), Constraint::parse(name, terms).unwrap())
        };
        let rules = [rule("secrets", r#"{"policy":"refuse"}"#), rule("json-lines", "{}"), rule("json", "{}")];
        for rule in &rules {
            for texts in [["1\n", "2\n"], [secret, "end\n"], ["begin\n", secret], ["", ""]] {
                // The last one is longer than a line may be.
                let is_of_lines = matches!(rule.constraint(), Constraint::JsonLines { .. });
                for hole in
                    [0, 1, 5_000, 300_000, 1_000_000].into_iter().chain(is_of_lines.then_some(18 << 20))
                {
                    let [fed, skipped] = [false, true].map(|skips| judged(rule, texts, hole, skips));
                    assert_eq!(fed, skipped, "{texts:?} around {hole}");
                }
            }
        }
    }
}
