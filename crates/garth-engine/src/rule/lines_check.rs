//! Check of the lines of a text by a function of the program.

use super::json_check::JsonCheck;
use super::lines::MAX_LINE;

/// Check of each line of a text by a function, fed piece by piece.
pub(super) struct LinesCheck {
    check: JsonCheck,
    /// Start of the line that the next piece continues.
    held: Vec<u8>,
}

impl LinesCheck {
    pub(super) fn new(check: JsonCheck) -> Self {
        Self { check, held: Vec::new() }
    }

    /// Takes the next piece, and judges the lines that end in it.
    ///
    /// # Errors
    /// The flaw of the first line that has one.
    pub(super) fn feed(&mut self, mut piece: &[u8]) -> Result<(), String> {
        while let Some(end) = piece.iter().position(|byte| *byte == b'\n') {
            self.hold(&piece[..end])?;
            self.judge()?;
            piece = &piece[end + 1..];
        }
        self.hold(piece)
    }

    /// Judges the last line, if no line feed ends it.
    ///
    /// # Errors
    /// The flaw of the line.
    pub(super) fn finish(mut self) -> Result<(), String> {
        self.judge()
    }

    fn hold(&mut self, bytes: &[u8]) -> Result<(), String> {
        // Before it is held, so that an endless line takes no more memory.
        if self.held.len() + bytes.len() > MAX_LINE {
            return Err(format!("has a line of more than {MAX_LINE} bytes, which no line may have"));
        }
        self.held.extend_from_slice(bytes);
        Ok(())
    }

    fn judge(&mut self) -> Result<(), String> {
        let JsonCheck(check) = self.check;
        let judged = check(&self.held);
        self.held.clear();
        judged
    }
}
