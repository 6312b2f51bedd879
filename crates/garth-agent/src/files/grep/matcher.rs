//! Expressions of a search, compiled into one.

use regex::bytes::{Regex, RegexBuilder};

use super::line_steps::{LineSteps, StepCount};
use super::request::{Grep, Whole};
use garth_engine::error::{Error, Result};

/// Limit on the bytes of all expressions of a search, 64 KiB.
pub const MAX_EXPRESSIONS: usize = 64 << 10;
/// Limit on the number of expressions: each is compiled separately, too, however short it is.
const MAX_EXPRESSION_COUNT: usize = 1000;

/// Matcher of lines: the expressions of a [`Grep`], compiled into one.
#[derive(Clone, Debug)]
pub struct LineMatcher {
    regex: Regex,
    /// Limit on the steps of a line, if the request has one.
    limit: Option<LineSteps>,
}

impl LineMatcher {
    /// Returns true if a line, without its line end, matches.
    pub fn is_match(&self, line: &[u8]) -> bool {
        self.regex.is_match(line)
    }

    /// Returns true if a line matches, and `None` if that would take more steps than the request permits.
    pub(super) fn is_match_within(&self, line: &[u8], count: &mut StepCount) -> Option<bool> {
        match &self.limit {
            Some(limit) => limit.is_match(&self.regex, line, count),
            None => Some(self.regex.is_match(line)),
        }
    }

    /// Returns the parts of a line that match and are not empty.
    pub fn parts<'l>(&self, line: &'l [u8]) -> impl Iterator<Item = &'l [u8]> {
        self.regex.find_iter(line).filter(|found| !found.is_empty()).map(|found| found.as_bytes())
    }
}

impl Grep {
    /// Compiles the expressions.
    ///
    /// # Errors
    /// `InvalidArgument` if there is none or one is not a regular expression, or they are too many, or too
    /// long or too large together.
    pub fn matcher(&self) -> Result<LineMatcher> {
        if !(1..=MAX_EXPRESSION_COUNT).contains(&self.expressions.len()) {
            let message = format!("a search has 1 to {MAX_EXPRESSION_COUNT} expressions");
            return Err(Error::invalid(message));
        }
        if self.expressions.iter().map(String::len).sum::<usize>() > MAX_EXPRESSIONS {
            let message = format!("all expressions together have at most {MAX_EXPRESSIONS} bytes");
            return Err(Error::invalid(message));
        }
        let mut parts = Vec::new();
        for expression in &self.expressions {
            let part = if self.fixed { regex::escape(expression) } else { expression.clone() };
            // Each is checked separately: `a)|(b` would be valid only inside the group below.
            build(&part, false, self.max_compiled).map_err(|reason| {
                Error::invalid(format!("{expression}: not a regular expression: {reason}"))
            })?;
            parts.push(format!("(?:{part})"));
        }
        let any = parts.join("|");
        let whole = match self.whole {
            Whole::Line => format!("^(?:{any})$"),
            // `\b` alone would refuse a match that begins or ends with a character that is not part of a
            // word.
            Whole::Word => format!(r"\b{{start-half}}(?:{any})\b{{end-half}}"),
            Whole::Any => any,
        };
        let regex = build(&whole, self.ignore_case, self.max_compiled).map_err(Error::invalid)?;
        let limit = self.max_steps.map(|most| {
            LineSteps::compile(&whole, self.ignore_case, self.max_compiled, most).map_err(Error::invalid)
        });
        Ok(LineMatcher { regex, limit: limit.transpose()? })
    }
}

/// Compiles an expression, to at most `most` bytes. An error is its reason, on one line.
fn build(expression: &str, ignore_case: bool, most: usize) -> std::result::Result<Regex, String> {
    let mut builder = RegexBuilder::new(expression);
    builder.case_insensitive(ignore_case).size_limit(most).build().map_err(|error| {
        let text = error.to_string();
        // The lines before the last one repeat the expression.
        let reason = text.lines().next_back().unwrap_or_default();
        reason.trim_start_matches("error: ").trim_end_matches('.').to_owned()
    })
}
