//! JSON Lines, judged line by line as the bytes come. After an append only the last line that had no end, and
//! those that follow, are judged, however long the file is.

use std::collections::BTreeMap;
use std::fmt;

use super::json::{self, Value};
use super::json_check::JsonCheck;
use super::schema::{Budget, Schema};

/// Largest line, in bytes.
pub const MAX_LINE: usize = 16 << 20;

/// Start of a line in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Bytes before the line.
    pub offset: u64,
    /// Number of the line, from 1.
    pub line: u64,
}

impl Place {
    /// Start of a file.
    pub const START: Self = Self { offset: 0, line: 1 };
}

/// Judge of lines, one after the other. Each has to be one JSON value; lines of spaces, tabs and carriage
/// returns alone are allowed.
#[derive(Debug)]
pub struct Lines<'a> {
    schema: Option<&'a Schema>,
    unique: Option<Unique<'a>>,
    check: Option<JsonCheck>,
    /// Start of the line whose bytes are held.
    place: Place,
    /// Bytes of that line so far.
    held: Vec<u8>,
}

/// Values of a field, which have to differ, and the lines that they are in.
#[derive(Debug)]
struct Unique<'a> {
    field: &'a str,
    seen: BTreeMap<Value, u64>,
}

/// Flaw of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongLine {
    /// Number of the line, from 1.
    pub line: u64,
    /// Description, with at most about 300 bytes of the line.
    pub what: String,
}

impl fmt::Display for WrongLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl<'a> Lines<'a> {
    /// Starts at a place that [`finish`](Self::finish) returned for the bytes before, or at the start. Values
    /// of the field `unique` have to differ among the lines that are judged; lines without the field do not
    /// matter.
    pub fn new(from: Place, schema: Option<&'a Schema>, unique: Option<&'a str>) -> Self {
        let unique = unique.map(|field| Unique { field, seen: BTreeMap::new() });
        Self { schema, unique, check: None, place: from, held: Vec::new() }
    }

    /// Sets a function that has to accept each line that is not blank, after the schema.
    pub(super) fn checked_by(self, check: Option<JsonCheck>) -> Self {
        Self { check, ..self }
    }

    /// Judges the lines that end in these bytes, which follow those fed before.
    ///
    /// # Errors
    /// The flaw of the first line that has one.
    pub fn feed(&mut self, mut bytes: &[u8], budget: &mut Budget) -> Result<(), WrongLine> {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            let length = match self.held.is_empty() {
                // A line within one piece is judged without a copy.
                true => self.judge(line, budget).map(|()| line.len())?,
                false => {
                    self.hold(line)?;
                    let held = std::mem::take(&mut self.held);
                    self.judge(&held, budget)?;
                    held.len()
                }
            };
            self.place = Place { offset: self.place.offset + length as u64 + 1, line: self.place.line + 1 };
            bytes = rest;
        }
        self.hold(bytes)
    }

    /// Judges the last line, if no line feed ends it. Returns the place from which appended bytes have to be
    /// judged: the start of that line.
    ///
    /// # Errors
    /// The flaw of the line.
    pub fn finish(mut self, budget: &mut Budget) -> Result<Place, WrongLine> {
        let held = std::mem::take(&mut self.held);
        self.judge(&held, budget)?;
        Ok(self.place)
    }

    fn hold(&mut self, bytes: &[u8]) -> Result<(), WrongLine> {
        match self.held.len() + bytes.len() > MAX_LINE {
            // Before it is held, so that an endless line takes no more memory.
            true => Err(self.too_long()),
            false => {
                self.held.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    fn too_long(&self) -> WrongLine {
        self.wrong(format!("has more than {MAX_LINE} bytes, which is the most that a line may have"))
    }

    fn wrong(&self, what: String) -> WrongLine {
        WrongLine { line: self.place.line, what }
    }

    fn judge(&mut self, line: &[u8], budget: &mut Budget) -> Result<(), WrongLine> {
        if line.len() > MAX_LINE {
            return Err(self.too_long());
        }
        if line.iter().all(|byte| b" \t\r".contains(byte)) {
            return Ok(());
        }
        let no_json = |flaw: json::Flaw| {
            self.wrong(format!("has to be a JSON value: {} at column {}", flaw.what, flaw.column))
        };
        // Nothing looks at the value, so values that readers understand differently are allowed here.
        if self.schema.is_none() && self.unique.is_none() {
            json::skip(line).map_err(no_json)?;
            return self.passes(line);
        }
        let value = json::read(line).map_err(no_json)?;
        if let Some(schema) = self.schema {
            schema.check(&value, budget).map_err(|wrong| self.wrong(wrong.to_string()))?;
        }
        self.passes(line)?;
        self.differs(value)
    }

    /// Refuses a line that the function of the program refuses.
    fn passes(&self, line: &[u8]) -> Result<(), WrongLine> {
        let Some(JsonCheck(check)) = self.check else { return Ok(()) };
        check(line).map_err(|what| self.wrong(what))
    }

    /// Refuses a line whose value of the unique field was in a line before.
    fn differs(&mut self, value: Value) -> Result<(), WrongLine> {
        let line = self.place.line;
        let Some(unique) = &mut self.unique else { return Ok(()) };
        // Lines without the field are allowed any number of times.
        let Some(own) = value.take(unique.field) else { return Ok(()) };
        if let Some(before) = unique.seen.get(&own) {
            let what = format!("/{}: {} is in line {before}, too", unique.field, own.quoted());
            return Err(WrongLine { line, what });
        }
        unique.seen.insert(own, line);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rule::schema::MAX_STEPS;

    const SCHEMA: &str =
        r#"{"type": "object", "required": ["id"], "properties": {"n": {"type": "integer"}}}"#;

    /// Judges a text fed in pieces of `size` bytes.
    fn fed(lines: Lines<'_>, text: &[u8], size: usize) -> Result<Place, WrongLine> {
        let (mut lines, mut budget) = (lines, Budget::new(MAX_STEPS));
        text.chunks(size).try_for_each(|piece| lines.feed(piece, &mut budget))?;
        lines.finish(&mut budget)
    }

    fn judged(text: &[u8]) -> Result<Place, WrongLine> {
        fed(Lines::new(Place::START, None, None), text, usize::MAX)
    }

    #[test]
    fn lines_are_json_values_or_blank() {
        for (text, offset, line) in [
            (&b""[..], 0, 1),
            (b"\n", 1, 2),
            (b"\r\n\t \n1\n", 7, 4),
            (b"1", 0, 1),
            (b"1\n{}", 2, 2),
            (b"1\n \t", 2, 2),
            (b"[1,\t2]\r\n\"\\ud800\"\r\n", 18, 3),
            (b"1e400\n", 6, 2),
        ] {
            let shown = String::from_utf8_lossy(text);
            assert_eq!(judged(text), Ok(Place { offset, line }), "{shown}");
        }
        for (text, line, why) in [
            (&b"1\n\n{\"a\":\n1}\n"[..], 3, "EOF"),
            (b"1 2\n", 1, "trailing"),
            (b"1\n2\n3,", 3, "trailing"),
            (b"\xef\xbb\xbf1\n", 1, "expected value"),
            (b"1\n\x00\n", 2, "expected value"),
            (b"1\n\"\xff\"\n", 2, "UTF-8 at column 2"),
            (b"1\r2\n", 1, "trailing"),
            (b"\x0b\n", 1, "expected value"),
        ] {
            let wrong = judged(text).expect_err("no JSON Lines");
            assert_eq!(wrong.line, line, "{wrong}");
            assert!(wrong.to_string().contains(why), "{wrong}");
        }
    }

    /// Refuses lines of more than 8 bytes.
    fn short(line: &[u8]) -> Result<(), String> {
        if line.len() <= 8 { Ok(()) } else { Err("is too long for the program".to_owned()) }
    }

    #[test]
    fn function_of_the_program_accepts_each_line() {
        let schema = Schema::compile(SCHEMA).unwrap();
        for schema in [None, Some(&schema)] {
            let lines = || Lines::new(Place::START, schema, None).checked_by(Some(JsonCheck(short)));
            for size in [3, 100] {
                // Blank lines are not judged, however long they are.
                fed(lines(), b"{\"id\":1}\n            \n{\"id\":2}", size).unwrap();
                let wrong = fed(lines(), b"{\"id\":1}\n\n{\"id\": 1}", size).unwrap_err();
                assert_eq!(wrong.to_string(), "line 3: is too long for the program");
                let wrong = fed(lines(), b"{\"id\": 1}\n", size).unwrap_err();
                assert_eq!(wrong.to_string(), "line 1: is too long for the program");
            }
        }
    }

    #[test]
    fn lines_match_schema_and_unique_field() {
        let schema = Schema::compile(SCHEMA).unwrap();
        let judged =
            |text: &str| fed(Lines::new(Place::START, Some(&schema), Some("id")), text.as_bytes(), 7);
        judged("{\"id\": 1}\n{\"id\": \"1\", \"n\": 2}\n\n{\"id\": [1]}").unwrap();
        for (text, said) in [
            ("{\"id\": 1}\n{\"id\": 2, \"n\": \"3\"}\n", "line 2: /n: is a string, and has to be integer"),
            ("{\"id\": 1}\n\n3", "line 3: is an integer, and has to be object"),
            ("{\"id\": 1}\n{\"id\": 2}\n{\"id\": 1.0}", "line 3: /id: 1 is in line 1, too"),
            ("{\"id\": 1, \"id\": 2}", "line 1: has to be a JSON value: duplicate key \"id\""),
            ("{\"id\": \"\\ud800\"}", "line 1: has to be a JSON value: unexpected end of hex escape"),
            ("{\"id\": 1e400}", "line 1: has to be a JSON value: number out of range at column"),
        ] {
            let wrong = judged(text).expect_err(text).to_string();
            assert!(wrong.starts_with(said), "{wrong}");
        }
    }

    #[test]
    fn rejects_lines_over_16_mib_without_holding_them() {
        let mut longest = vec![b'1'; MAX_LINE];
        judged(&longest).unwrap();
        longest.extend(*b"\n1");
        fed(Lines::new(Place::START, None, None), &longest, 1 << 20).unwrap();
        longest.insert(0, b'1');
        for size in [usize::MAX, 1 << 20] {
            let wrong = fed(Lines::new(Place::START, None, None), &longest, size).unwrap_err();
            assert!(wrong.what.contains("16777216 bytes"), "{wrong}");
        }
        let mut lines = Lines::new(Place::START, None, None);
        let piece = vec![b' '; 1 << 20];
        let fed = (0..20).take_while(|_| lines.feed(&piece, &mut Budget::new(0)).is_ok()).count();
        assert_eq!((fed, lines.held.len()), (16, MAX_LINE));
    }

    /// Returns the first wrong line, by the plainest implementation.
    fn reference(text: &[u8], schema: &Schema) -> Option<u64> {
        let mut ids: Vec<serde_json::Value> = Vec::new();
        for (n, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
            if line.iter().all(|byte| b" \t\r".contains(byte)) {
                continue;
            }
            let Ok(value) = serde_json::from_slice::<serde_json::Value>(line) else { return Some(n) };
            let good = value.get("id").is_some_and(|id| !ids.contains(id))
                && value.get("n").is_none_or(serde_json::Value::is_i64)
                && schema.check_text(line, &mut Budget::new(1000)).is_ok();
            if !good {
                return Some(n);
            }
            ids.extend(value.get("id").cloned());
        }
        None
    }

    fn text() -> impl Strategy<Value = Vec<u8>> {
        let good = (0u8..30).prop_map(|id| format!("{{\"id\": {id}, \"n\": {id}}}").into_bytes());
        let odd = prop::sample::select(vec![
            &b""[..],
            b" \t",
            b"\r",
            b"{\"id\":\"\xff\"}",
            b"{\"id\":1",
            b"{\"n\":1}",
            b"{\"id\":[2],\"n\":\"x\"}",
            b"[]",
            b"7",
            b"\"\\n\"",
        ]);
        let line = prop_oneof![12 => good, 1 => odd.prop_map(<[u8]>::to_vec), 2 => Just(Vec::new())];
        (prop::collection::vec(line, 0..8), any::<bool>()).prop_map(|(lines, ended)| {
            let mut text = lines.join(&b'\n');
            text.extend(ended.then_some(b'\n'));
            text
        })
    }

    proptest! {
        #[test]
        fn piecewise_lines_match_reference_judgement(text in text(), size in 1usize..40) {
            let schema = Schema::compile(SCHEMA).unwrap();
            let lines = || Lines::new(Place::START, Some(&schema), Some("id"));
            let whole = fed(lines(), &text, usize::MAX);
            prop_assert_eq!(&fed(lines(), &text, size), &whole);
            prop_assert_eq!(whole.err().map(|wrong| wrong.line), reference(&text, &schema));
        }

        #[test]
        fn append_is_judged_from_the_previous_place(before in text(), after in text(), size in 1usize..40) {
            let schema = Schema::compile(SCHEMA).unwrap();
            let judged = |from, text: &[u8]| fed(Lines::new(from, Some(&schema), None), text, size);
            if let Ok(place) = judged(Place::START, &before) {
                let whole = [before, after].concat();
                let rest = judged(place, &whole[usize::try_from(place.offset).unwrap()..]);
                prop_assert_eq!(rest, judged(Place::START, &whole));
            }
        }
    }
}
