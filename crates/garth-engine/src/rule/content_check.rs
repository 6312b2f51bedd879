//! Check of one file's content against one constraint, fed piece by piece: the judge of commits and the
//! search for existing violations read files in different ways.

use super::json;
use super::json_check::JsonCheck;
use super::lines::{Lines, Place, WrongLine};
use super::lines_check::LinesCheck;
use super::schema::{Budget, SchemaText};
use super::secrets::Secrets;

/// Bytes of a hole.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Unfinished check of one file.
pub(super) enum ContentCheck<'a> {
    /// The content is one value.
    Whole {
        /// Content so far.
        text: Vec<u8>,
        schema: Option<&'a SchemaText>,
        check: Option<JsonCheck>,
    },
    /// Each line is a value.
    Lines(Lines<'a>),
    /// A function of the program accepts each line.
    EachLine(LinesCheck),
    /// No text looks like a secret.
    Secrets(Secrets),
}

impl ContentCheck<'_> {
    /// Takes the next piece of the content.
    ///
    /// # Errors
    /// The flaw, in words.
    pub(super) fn feed(&mut self, piece: &[u8], budget: &mut Budget) -> Result<(), String> {
        match self {
            Self::Whole { text, .. } => {
                // A value can only be judged as a whole; `Constraint::begin` has limited its size.
                text.extend_from_slice(piece);
                Ok(())
            }
            Self::Lines(lines) => lines.feed(piece, budget).map_err(|wrong| no_lines(&wrong)),
            Self::EachLine(lines) => lines.feed(piece),
            Self::Secrets(secrets) => secrets.feed(piece),
        }
    }

    /// Takes the next piece of the content, `length` zero bytes of a hole. Takes time in proportion to 16 MiB
    /// at most: values and lines are no longer, and a hole has no secret.
    ///
    /// # Errors
    /// The flaw, in words.
    pub(super) fn skip(&mut self, length: u64, budget: &mut Budget) -> Result<(), String> {
        if let Self::Secrets(secrets) = self {
            return secrets.skip(length);
        }
        let mut left = length;
        while left > 0 {
            let piece = ZEROS.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            self.feed(&ZEROS[..piece], budget)?;
            left -= piece as u64;
        }
        Ok(())
    }

    /// Ends the check. Returns the place from which to continue once the file has grown.
    ///
    /// # Errors
    /// The flaw, in words.
    pub(super) fn finish(self, budget: &mut Budget) -> Result<Option<Place>, String> {
        match self {
            Self::Whole { text, .. } if text.is_empty() => {
                Err("must be JSON by a rule, and would be empty".to_owned())
            }
            Self::Whole { text, schema, check } => {
                match schema {
                    // A schema reads the text itself, so the check for JSON is not needed as well.
                    Some(schema) => {
                        let judged = schema.schema().check_text(&text, budget);
                        judged.map_err(|wrong| format!("violates the schema for files there: {wrong}"))?;
                    }
                    None => json::skip(&text)
                        .map_err(|flaw| format!("has to be JSON, as all files there: {flaw}"))?,
                }
                check.map_or(Ok(()), |JsonCheck(check)| check(&text)).map(|()| None)
            }
            Self::Lines(lines) => lines.finish(budget).map(Some).map_err(|wrong| no_lines(&wrong)),
            Self::EachLine(lines) => lines.finish().map(|()| None),
            Self::Secrets(secrets) => secrets.finish().map(Some),
        }
    }
}

fn no_lines(wrong: &WrongLine) -> String {
    format!("violates the rule for lines of files there: {wrong}")
}
