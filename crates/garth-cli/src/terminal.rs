//! Standard output and standard error. All output of verbs passes through here. On a terminal, control
//! characters and invisible characters are escaped: a name, a content or an error cannot recolour the screen,
//! change the title of the window, or look like another text. Pipes and files get the exact bytes.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal as _, Stderr, Stdout, Write};

/// Form of an escaped character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spelling {
    /// `\u{202e}`.
    Text,
    /// `\u202e`, as in JSON strings, so that the value of the object is unchanged.
    Json,
}

/// Writer that escapes hidden characters if it writes to a terminal.
#[derive(Debug)]
pub(crate) struct Visible<W: Write> {
    to: W,
    /// Form of escapes; `None` for a pipe or file.
    spelling: Option<Spelling>,
    /// Incomplete character, or a carriage return: its meaning depends on the next bytes.
    held: Vec<u8>,
    last: char,
}

/// Returns standard output, for people or JSON.
#[expect(clippy::disallowed_methods, reason = "this is the one writer")]
pub(crate) fn stdout(json: bool) -> Visible<Stdout> {
    let to = io::stdout();
    let spelling = to.is_terminal().then_some(if json { Spelling::Json } else { Spelling::Text });
    Visible::new(to, spelling)
}

/// Returns standard error, for people.
pub(crate) fn stderr() -> Visible<Stderr> {
    errors(Spelling::Text)
}

#[expect(clippy::disallowed_methods, reason = "this is the one writer")]
fn errors(spelling: Spelling) -> Visible<Stderr> {
    let to = io::stderr();
    let spelling = to.is_terminal().then_some(spelling);
    Visible::new(to, spelling)
}

/// Returns true if a person may be watching standard error.
#[expect(clippy::disallowed_methods, reason = "this is the one writer")]
pub(crate) fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// Writes a message to standard error, after the name of the program.
pub(crate) fn tell(text: impl Display) {
    tell_line(format_args!("garth: {text}"));
}

/// Writes a line to standard error.
pub(crate) fn tell_line(text: impl Display) {
    // If stderr is closed, there is no other place to report this.
    let _ = stderr().write_all(format!("{text}\n").as_bytes());
}

/// Writes an object to standard error, as one line.
pub(crate) fn tell_json(json: &serde_json::Value) {
    let _ = errors(Spelling::Json).write_all(format!("{json}\n").as_bytes());
}

/// Asks a question on standard error. The answer follows on the same line.
pub(crate) fn ask(question: &str) -> io::Result<()> {
    let mut to = stderr();
    write!(to, "{question} ").and_then(|()| to.flush())
}

/// Returns `text` as one line with hidden characters escaped, for libraries that draw on the terminal
/// themselves.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    let is_plain = |letter: char| !letter.is_control() && !is_hidden(letter);
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_plain(letter) { line.push(letter) } else { line.extend(letter.escape_default()) }
    }
    Cow::Owned(line)
}

impl<W: Write> Visible<W> {
    fn new(to: W, spelling: Option<Spelling>) -> Self {
        Self { to, spelling, held: Vec::new(), last: '\n' }
    }

    /// Returns `bytes` with hidden characters escaped. An end whose meaning depends on the next bytes is held
    /// back.
    fn shown(&mut self, bytes: &[u8], spelling: Spelling) -> Vec<u8> {
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(bytes);
        self.held = all.split_off(all.len() - undecided(&all));
        self.spelled(&all, spelling)
    }

    fn spelled(&mut self, bytes: &[u8], spelling: Spelling) -> Vec<u8> {
        let mut shown = Vec::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            let mut letters = chunk.valid().chars().peekable();
            while let Some(letter) = letters.next() {
                let stays = match letter {
                    '\n' | '\t' => true,
                    // Alone, it would let the rest of the line overwrite its beginning.
                    '\r' => letters.peek() == Some(&'\n'),
                    _ => !is_hidden(letter) || joins(self.last, letter),
                };
                self.last = letter;
                match spelling {
                    _ if stays => {
                        shown.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                    }
                    Spelling::Text => shown.extend_from_slice(letter.escape_default().to_string().as_bytes()),
                    Spelling::Json => {
                        // JSON escapes UTF-16 units, and a character may have two.
                        for unit in letter.encode_utf16(&mut [0; 2]) {
                            shown.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
                        }
                    }
                }
            }
            for byte in chunk.invalid() {
                // A single byte may be a control character for a terminal that does not read UTF-8.
                shown.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
            }
        }
        shown
    }
}

impl<W: Write> Write for Visible<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(spelling) = self.spelling else { return self.to.write(bytes) };
        let shown = self.shown(bytes, spelling);
        self.to.write_all(&shown)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        // At a flush, the held bytes cannot wait for the next ones.
        if let Some(spelling) = self.spelling {
            let held = std::mem::take(&mut self.held);
            let shown = self.spelled(&held, spelling);
            self.to.write_all(&shown)?;
        }
        self.to.flush()
    }
}

/// Returns the number of bytes at the end whose meaning depends on the next ones: an incomplete character or
/// a carriage return.
fn undecided(bytes: &[u8]) -> usize {
    if bytes.ends_with(b"\r") {
        return 1;
    }
    // A character has at most four bytes, so an incomplete one has at most three.
    let cut = (1..=bytes.len().min(3)).rev().find(|length| {
        let end = &bytes[bytes.len() - length..];
        std::str::from_utf8(end).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
    });
    cut.unwrap_or(0)
}

/// Returns true if `letter` joins or modifies letters of other scripts or emoji. Persian, Hindi and families
/// of emoji cannot be written without it.
fn joins(before: char, letter: char) -> bool {
    matches!(letter, '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}')
        && (!before.is_ascii() || before.is_ascii_digit())
        && (!is_hidden(before) || before == '\u{fe0f}')
}

/// Returns true for control characters and invisible ones: line and paragraph separators, marks that change
/// the direction of text, and `Default_Ignorable_Code_Point` of Unicode (zero-width characters, tags,
/// fillers, variation selectors).
#[rustfmt::skip]
fn is_hidden(letter: char) -> bool {
    matches!(letter,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &[u8], spelling: Spelling, piece: usize) -> String {
        let mut writer = Visible::new(Vec::new(), Some(spelling));
        for piece in text.chunks(piece) {
            writer.write_all(piece).unwrap();
        }
        writer.flush().unwrap();
        String::from_utf8(writer.to).unwrap()
    }

    #[test]
    fn escapes_do_not_depend_on_chunks() {
        let text = "a\u{1b}]0;t\u{7}\u{9b}2J\r\nb\rc\u{202e}\u{2028}é\u{e0041}\tz".as_bytes();
        let text = [text, b"\x9b\xf0\x9f"].concat();
        let wanted = "a\\u{1b}]0;t\\u{7}\\u{9b}2J\r\nb\\rc\\u{202e}\\u{2028}é\\u{e0041}\tz\\x9b\\xf0\\x9f";
        for piece in 1..text.len() {
            assert_eq!(shown(&text, Spelling::Text, piece), wanted, "in pieces of {piece}");
        }
    }

    #[test]
    fn escaped_json_keeps_its_value() {
        let value = serde_json::json!({"name": "a\u{202e}\u{9b}\u{e0041}\u{7f}é"});
        let line = shown(value.to_string().as_bytes(), Spelling::Json, 3);
        assert!(!line.chars().any(is_hidden), "{line}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&line).unwrap(), value);
    }

    #[test]
    fn keeps_joiners_of_scripts_and_emoji() {
        for text in ["می‌خواهم", "क्‍ष", "👩‍👩‍👧", "1️⃣", "❤️‍🔥"] {
            assert_eq!(shown(text.as_bytes(), Spelling::Text, 1), text);
        }
        assert_eq!(shown("pay\u{200d}pal".as_bytes(), Spelling::Text, 1), "pay\\u{200d}pal");
        assert_eq!(shown("é\u{200d}\u{200d}".as_bytes(), Spelling::Text, 9), "é\u{200d}\\u{200d}");
    }

    #[test]
    fn pipes_get_unchanged_bytes() {
        let mut writer = Visible::new(Vec::new(), None);
        writer.write_all(b"\x1b\xe2\x80\xae\x9b").unwrap();
        assert_eq!(writer.to, b"\x1b\xe2\x80\xae\x9b");
    }

    #[test]
    fn hidden_characters_follow_unicode() {
        // Format characters with a visible form, such as the Arabic number sign.
        let printing =
            r"[\u{600}-\u{605}\u{6DD}\u{70F}\u{890}\u{891}\u{8E2}\u{110BD}\u{110CD}\u{13430}-\u{1343F}]";
        let class =
            format!(r"^[[\p{{Cc}}\p{{Cf}}\p{{Zl}}\p{{Zp}}\p{{Default_Ignorable_Code_Point}}]--{printing}]$");
        let hidden = regex::Regex::new(&class).unwrap();
        for letter in '\0'..=char::MAX {
            let by_unicode = hidden.is_match(letter.encode_utf8(&mut [0; 4]));
            assert_eq!(is_hidden(letter), by_unicode, "U+{:04X}", letter as u32);
        }
    }
}
