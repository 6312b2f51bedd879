//! Recovers the readable messages from broken JSON, and names those that are lost.
//!
//! After a broken message, the next one is searched where the brackets of the broken one close, or else where
//! an object with a role begins with the same indentation. Text between messages ends at the next object,
//! and an array among them has its messages. Objects inside a message are never taken for one. The work is
//! bounded by the length of the text.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Deserializer;
use serde_json::value::RawValue;

use super::format::TranscriptFormat;
use super::placed::{LineCounter, Placed, RawMessage, conversation, no_json, system_field};
use garth_engine::error::Error;

/// Flaw of an array whose messages can nevertheless be distinguished.
const NO_COMMA: &str = "no comma is before it";
const COMMA_TOO_MUCH: &str = "a comma follows it, and no message";
/// Flaw of an object that can be read once its additional commas are removed.
const COMMAS_INSIDE: &str = "has an additional comma, which is removed";

/// Limit on the bytes that a search reads, for each byte of the text.
const READS: usize = 8;

/// Place after a broken message at which the array continues.
enum After {
    Message(usize),
    /// The bracket at its end.
    End(usize),
    Nothing,
}

/// Returns the elements of an array that starts in line `line`, and the position after the array; `None` if
/// the array does not end. Elements of arrays among them are elements, too.
pub(super) fn elements(text: &str, line: u64) -> (Vec<Placed<'_>>, Option<usize>) {
    elements_within(&mut Search::new(text), line)
}

fn elements_within<'a>(search: &mut Search<'a>, line: u64) -> (Vec<Placed<'a>>, Option<usize>) {
    let text = search.text;
    let (mut given, mut counter) = (Vec::new(), LineCounter::new(text, line));
    let mut at = search.skip(text.find('[').map_or(0, |at| at + 1));
    // Arrays that are open inside this one, and true after an element that may be the last of its array.
    let (mut depth, mut is_after) = (0_usize, text[at..].starts_with(']'));
    let mut flaw = None;
    loop {
        while is_after {
            match text.as_bytes().get(at) {
                Some(b']') if depth == 0 => return (given, Some(at + 1)),
                Some(b']') => (depth, at) = (depth - 1, search.skip(at + 1)),
                Some(b',') => {
                    at = search.skip(at + 1);
                    is_after = text[at..].starts_with(']');
                    if let Some(last) = given.last_mut().filter(|_| is_after) {
                        last.flaw = Some(COMMA_TOO_MUCH);
                    }
                }
                Some(_) => (flaw, is_after) = (Some(NO_COMMA), false),
                None => {
                    let error = Error::invalid("the array is cut off after the message before");
                    given.push(Placed::bad(counter.line_from(at), error));
                    return (given, None);
                }
            }
        }
        let line = counter.line_from(at);
        if text[at..].starts_with('[') {
            // One note for all that are open at the same time.
            if depth == 0 {
                given.push(Placed::bad(line, Error::invalid("is an array; its messages are read")));
            }
            (depth, at) = (depth + 1, search.skip(at + 1));
            is_after = text[at..].starts_with(']');
            continue;
        }
        let mut stream = Deserializer::from_str(&text[at..]).into_iter::<&RawValue>();
        let error = match stream.next() {
            Some(Ok(value)) => {
                let message = Ok(RawMessage::Native(Cow::Borrowed(value)));
                given.push(Placed { line, message, flaw: flaw.take() });
                (at, is_after) = (search.skip(at + stream.byte_offset()), true);
                continue;
            }
            Some(Err(error)) => error,
            None => {
                given.push(Placed::bad(line, Error::invalid("the array is cut off here")));
                return (given, None);
            }
        };
        flaw = None;
        if let Some(messages) = search.messages_of(at, &error) {
            // The array of the broken object is read as any other array among the messages.
            at = messages;
            continue;
        }
        if let Some((message, end)) = search.without_commas(at, &error) {
            given.push(Placed { line, message: Ok(message), flaw: Some(COMMAS_INSIDE) });
            (at, is_after) = (search.skip(end), true);
            continue;
        }
        let (flaw_found, next) = (no_json(&error), search.after(at, &error));
        let error = match next {
            After::Nothing if !error.is_eof() => {
                Error::invalid(format!("{}; no message is found after it", flaw_found.message()))
            }
            _ => flaw_found,
        };
        given.push(Placed::bad(line, error));
        match next {
            After::Message(next) => at = next,
            After::End(end) => (at, is_after) = (end, true),
            After::Nothing => return (given, None),
        }
    }
}

/// Search for the next message after a broken one.
struct Search<'a> {
    text: &'a str,
    /// Bytes that may still be read.
    left: usize,
}

impl<'a> Search<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, left: text.len().saturating_mul(READS).saturating_add(1 << 12) }
    }

    /// Returns the position of the first character at or after `at` that is not white space.
    fn skip(&self, at: usize) -> usize {
        self.text.len() - self.text[at..].trim_start().len()
    }

    fn spend(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
    }

    fn after(&mut self, at: usize, error: &serde_json::Error) -> After {
        let failed = at + offset_of(&self.text[at..], error);
        self.spend(failed - at);
        // A message that is cut off does not close its brackets.
        if !error.is_eof()
            && let Some(after) = self.closing(at)
        {
            return after;
        }
        // Text between messages opens no object: the next one is a message of the array.
        if !self.text[at..].starts_with('{') {
            return self.after_junk(at);
        }
        let own_lead = lead(self.text, at).rsplit_once('\n').map(|(_, indent)| indent);
        let mut from = match error.is_eof() {
            true => at + 1,
            false => self.text[at..failed].rfind(',').map_or(at, |comma| at + comma),
        };
        while let Some(next) = self.text[from..].find('{') {
            let place = from + next;
            self.spend(next + 1);
            if self.left == 0 {
                break;
            }
            let its_lead = lead(self.text, place);
            let is_due = match own_lead {
                // If messages start on new lines, all have the same indentation, and objects inside them a
                // deeper one.
                Some(indent) => its_lead.rsplit_once('\n').is_some_and(|(_, its)| its == indent),
                // In text that is cut off, an object with a role may be part of the broken message.
                None => !error.is_eof() && self.text[..place - its_lead.len()].ends_with(','),
            };
            if is_due && place > at && self.is_message(place) {
                return After::Message(place);
            }
            from = place + 1;
        }
        After::Nothing
    }

    /// Returns the position of the array of messages in a broken object that has one, and no role before it.
    fn messages_of(&mut self, at: usize, error: &serde_json::Error) -> Option<usize> {
        let text = self.text;
        if self.left == 0 || !text[at..].starts_with('{') {
            return None;
        }
        let mut place = at;
        loop {
            place = self.skip(place + 1);
            while text[place..].starts_with(',') {
                place = self.skip(place + 1);
            }
            let (name, length) = value(&text[place..])?;
            let name: String = serde_json::from_str(name.get()).ok()?;
            place = self.skip(place + length);
            if name == "role" || !text[place..].starts_with(':') {
                return None;
            }
            place = self.skip(place + 1);
            if name == "messages" && text[place..].starts_with('[') {
                // The array may have broken objects of the same kind, which read the same text again.
                self.spend(offset_of(&text[at..], error));
                return Some(place);
            }
            place = self.skip(place + value(&text[place..])?.1);
            if !text[place..].starts_with(',') {
                return None;
            }
        }
    }

    /// Returns a broken object without its additional commas, and the position after it. `None` if it has
    /// another flaw.
    fn without_commas(&mut self, at: usize, error: &serde_json::Error) -> Option<(RawMessage<'a>, usize)> {
        let text = self.text;
        // The parser stops at a comma, or at the bracket after it.
        let failed = at + offset_of(&text[at..], error);
        let mut last = text[at..failed].bytes().rev().filter(|byte| !byte.is_ascii_whitespace()).take(2);
        if !text[at..].starts_with('{') || !last.any(|byte| byte == b',') {
            return None;
        }
        let end = text.len().min(at.saturating_add(self.left));
        let (mut kept, mut open, mut before) = (Vec::<u8>::new(), Vec::<u8>::new(), b'{');
        let (mut in_string, mut escaped) = (false, false);
        let (mut found, mut read) = (None, 0);
        for (place, byte) in (at..end).zip(&text.as_bytes()[at..end]) {
            read += 1;
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_string => escaped = true,
                b'"' => in_string = !in_string,
                // Each of these shows another flaw. To read on would cost the searches after it.
                b'\n' if in_string => break,
                _ if in_string => {}
                b'{' | b'[' if open.last() == Some(&b'{') && before != b':' => break,
                b',' if b"{[,".contains(&before) => continue,
                b'{' | b'[' => open.push(*byte),
                b'}' | b']' => {
                    if open.pop() != Some(if *byte == b'}' { b'{' } else { b'[' }) {
                        break;
                    }
                    // Only white space follows such a comma in `kept`.
                    if before == b','
                        && let Some(comma) = kept.iter().rposition(|byte| *byte == b',')
                    {
                        kept.remove(comma);
                    }
                }
                _ => {}
            }
            kept.push(*byte);
            if !byte.is_ascii_whitespace() {
                before = *byte;
            }
            if open.is_empty() {
                found = Some(place + 1);
                break;
            }
        }
        self.spend(read);
        let raw = RawValue::from_string(String::from_utf8(kept).ok()?).ok()?;
        Some((RawMessage::Native(Cow::Owned(raw)), found?))
    }

    /// Returns the next element after text that is none, or the end of the array.
    fn after_junk(&mut self, at: usize) -> After {
        let rest = &self.text[at..];
        for (offset, found) in rest.match_indices(['{', '[', ']']) {
            let place = at + offset;
            if found != "]" {
                self.spend(offset);
                return After::Message(place);
            }
            let then = self.text[place + 1..].trim_start();
            // A bracket within the text is part of it.
            if then.is_empty() || then.starts_with(',') {
                self.spend(offset);
                return After::End(place);
            }
        }
        self.spend(rest.len());
        After::Nothing
    }

    /// Returns the end of a broken object, if its brackets and quotes show it before `end`. An array in it
    /// may be left open.
    fn object_end(&mut self, at: usize, end: usize) -> Option<usize> {
        let (mut open, mut in_string, mut escaped) = (Vec::new(), false, false);
        let end = end.min(at.saturating_add(self.left));
        for (place, byte) in (at..end).zip(&self.text.as_bytes()[at..end]) {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_string => escaped = true,
                b'"' => in_string = !in_string,
                _ if in_string => {}
                b'{' | b'[' => open.push(*byte),
                b']' if open.last() != Some(&b'[') => break,
                b']' => drop(open.pop()),
                b'}' => {
                    while open.pop() == Some(b'[') {}
                    if open.is_empty() {
                        self.spend(place - at);
                        return Some(place + 1);
                    }
                }
                b' ' | b'\t' | b'\r' | b':' | b',' | b'+' | b'-' | b'.' | b'0'..=b'9' => {}
                byte if b"truefalsnE".contains(byte) => {}
                // A text outside quotes means that a quote is missing.
                _ => break,
            }
        }
        self.spend(end.saturating_sub(at));
        None
    }

    /// Returns the end of an element, if its brackets and quotes are balanced.
    fn closing(&mut self, at: usize) -> Option<After> {
        let bytes = self.text.as_bytes();
        let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
        let rest = &bytes[at..bytes.len().min(at.saturating_add(self.left))];
        let mut found = None;
        let mut read = 0;
        for (place, byte) in (at..).zip(rest) {
            read += 1;
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_string => escaped = true,
                b'"' => in_string = !in_string,
                _ if in_string => {}
                b'{' | b'[' => depth += 1,
                b']' if depth == 0 => {
                    let then = self.text[place + 1..].trim_start();
                    let is_end = then.is_empty() || then.starts_with([',', '}']);
                    found = is_end.then_some(After::End(place));
                    break;
                }
                b'}' | b']' => match depth.checked_sub(1) {
                    Some(less) => depth = less,
                    None => break,
                },
                b',' if depth == 0 => {
                    let next = self.skip(place + 1);
                    found = (bytes.get(next) == Some(&b'{')).then_some(After::Message(next));
                    break;
                }
                b' ' | b'\t' | b'\n' | b'\r' | b':' | b',' | b'+' | b'-' | b'.' | b'0'..=b'9' => {}
                byte if b"truefalsnE".contains(byte) => {}
                // A text outside quotes means that a quote is missing.
                _ => break,
            }
        }
        self.spend(read);
        found
    }

    /// Returns true if a complete message begins at `at`.
    fn is_message(&mut self, at: usize) -> bool {
        #[derive(Deserialize)]
        struct RoleOnly<'a> {
            #[serde(rename = "role", borrow)]
            _role: Cow<'a, str>,
        }
        let mut stream = Deserializer::from_str(&self.text[at..]).into_iter::<&RawValue>();
        match stream.next() {
            Some(Ok(value)) => {
                self.spend(value.get().len());
                let then = self.text[at + stream.byte_offset()..].trim_start();
                let has_end = then.is_empty() || then.starts_with([',', ']', '{']);
                has_end && serde_json::from_str::<RoleOnly<'_>>(value.get()).is_ok()
            }
            Some(Err(error)) => {
                self.spend(offset_of(&self.text[at..], &error));
                false
            }
            None => false,
        }
    }
}

/// Returns the space before a place.
fn lead(text: &str, at: usize) -> &str {
    &text[text[..at].trim_end().len()..at]
}

/// Returns the place of an error in a text.
fn offset_of(text: &str, error: &serde_json::Error) -> usize {
    let before: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    let mut at = (before + error.column()).min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Returns the messages of an object that is broken or followed by other text. `None` for an object without
/// messages.
pub(super) fn object(format: TranscriptFormat, text: &str) -> Option<Vec<Placed<'_>>> {
    let (system_field, mut system) = (system_field(format)?, None);
    let (mut messages, mut end): (Option<Vec<Placed<'_>>>, _) = (None, None);
    let mut counter = LineCounter::new(text, 1);
    let skip = |at: usize| text.len() - text[at..].trim_start().len();
    let start = skip(0);
    let first = counter.line_from(start);
    if !text[start..].starts_with('{') {
        return None;
    }
    let (mut at, mut has_commas, mut is_cut) = (start, false, false);
    loop {
        at = skip(at + 1);
        while text[at..].starts_with(',') {
            (at, has_commas) = (skip(at + 1), true);
        }
        let Some((name, length)) = value(&text[at..]) else { break };
        let name: String = serde_json::from_str(name.get()).ok()?;
        at = skip(at + length);
        if !text[at..].starts_with(':') {
            break;
        }
        at = skip(at + 1);
        if name == "messages" && text[at..].starts_with('[') {
            if messages.is_some() {
                let error = Error::invalid("has its messages twice");
                return Some(vec![Placed::bad(first, error)]);
            }
            let (given, length) = elements(&text[at..], counter.line_from(at));
            messages = Some(given);
            is_cut = length.is_none();
            let Some(length) = length else { break };
            at += length;
        } else {
            let Some((found, length)) = value(&text[at..]) else { break };
            match &*name {
                "role" => return None,
                name if Some(name) == system_field => system = Some(found),
                _ => {}
            }
            at += length;
        }
        at = skip(at);
        match text.as_bytes().get(at) {
            Some(b',') => {}
            Some(b'}') => {
                end = Some(skip(at + 1));
                break;
            }
            _ => break,
        }
    }
    let mut messages = messages?;
    if has_commas {
        messages.push(Placed::bad(first, Error::invalid("has an additional comma before a field")));
    }
    if end.is_none() {
        if messages.last().is_none_or(|last| last.message.is_ok()) {
            let error = Error::invalid("the object with the messages is broken behind them");
            messages.push(Placed::bad(counter.line_from(at), error));
        }
        // Other objects may follow a broken one. An array that does not end has them among its messages.
        let closed = if is_cut { None } else { Search::new(text).object_end(start, text.len()) };
        end = closed.filter(|closed| *closed >= at).map(skip);
    }
    if let Some(end) = end.filter(|end| *end < text.len()) {
        let (line, error) =
            (counter.line_from(end), Error::invalid("something follows the object with the messages"));
        messages.push(Placed::bad(line, error));
        messages.extend(values(&text[end..], line));
    }
    Some(conversation(system, messages))
}

/// Returns the value at the beginning of a text, and its length.
fn value(text: &str) -> Option<(&RawValue, usize)> {
    let mut stream = Deserializer::from_str(text).into_iter::<&RawValue>();
    let value = stream.next()?.ok()?;
    Some((value, stream.byte_offset()))
}

/// Takes the elements of the array at a position. Returns the position of what follows it; `None` if it
/// does not end.
fn take_array<'a>(
    search: &mut Search<'a>,
    (at, line): (usize, u64),
    given: &mut Vec<Placed<'a>>,
) -> Option<usize> {
    let mut inside = Search { text: &search.text[at..], left: search.left };
    let (elements, end) = elements_within(&mut inside, line);
    search.left = inside.left;
    given.extend(elements);
    Some(search.skip(at + end?))
}

/// Returns consecutive values from line `line` on, including broken ones and the elements of arrays. A broken
/// object ends where its brackets close in its line, or else with the line. If its first line opens a value
/// of several lines, it ends before the next line that cannot continue a value. Text between messages ends
/// where the next one begins.
pub(super) fn values(text: &str, line: u64) -> Vec<Placed<'_>> {
    let (mut given, mut counter, mut search) = (Vec::new(), LineCounter::new(text, line), Search::new(text));
    let (mut at, mut line_end) = (search.skip(0), 0);
    while at < text.len() {
        let line = counter.line_from(at);
        // Searched once a line: a line may have many values.
        if at >= line_end {
            line_end = text[at..].find('\n').map_or(text.len(), |length| at + length);
        }
        if text[at..].starts_with('[') {
            given.push(Placed::bad(line, Error::invalid("is an array; its messages are read")));
            let Some(end) = take_array(&mut search, (at, line), &mut given) else { return given };
            at = end;
            continue;
        }
        let end = if search.left > 0 { text.len() } else { line_end };
        let mut stream = Deserializer::from_str(&text[at..end]).into_iter::<&RawValue>();
        match stream.next() {
            Some(Ok(value)) => {
                let message = Ok(RawMessage::Native(Cow::Borrowed(value)));
                given.push(Placed { line, message, flaw: None });
                at = search.skip(at + stream.byte_offset());
                continue;
            }
            Some(Err(error)) => {
                search.spend(offset_of(&text[at..end], &error));
                let messages = search.messages_of(at, &error);
                if messages.is_none()
                    && let Some((message, end)) = search.without_commas(at, &error)
                {
                    given.push(Placed { line, message: Ok(message), flaw: Some(COMMAS_INSIDE) });
                    at = search.skip(end);
                    continue;
                }
                // The error of the line alone is more helpful than an error about the next line.
                let alone = serde_json::from_str::<&RawValue>(&text[at..line_end]).err();
                given.push(Placed::bad(line, no_json(alone.as_ref().unwrap_or(&error))));
                if let Some(messages) = messages {
                    let line = counter.line_from(messages);
                    let Some(end) = take_array(&mut search, (messages, line), &mut given) else {
                        return given;
                    };
                    let mut tail = end;
                    while text[tail..].starts_with(',') {
                        tail = search.skip(tail + 1);
                    }
                    at = if text[tail..].starts_with('}') { search.skip(tail + 1) } else { end };
                    continue;
                }
            }
            None => return given,
        }
        let rest = &text[at..line_end];
        let next = match rest.starts_with('{') {
            true => search.object_end(at, line_end),
            // After a comma between values, the next line never continues one.
            false if rest.trim_start_matches([',', ' ', '\t', '\r']).is_empty() => Some(line_end),
            false => rest.find(['{', '[']).map(|next| at + next),
        };
        if let Some(next) = next {
            at = search.skip(next);
            continue;
        }
        let opens = rest.trim_end().ends_with(['{', '[', ',', ':']);
        at = line_end;
        for next in text[line_end..].split_inclusive('\n').skip(1) {
            let start = at + 1;
            let goes_on = opens && next.starts_with([' ', '\t', '}', ']', '"', '\r', '\n']);
            if !goes_on {
                break;
            }
            at = start + next.trim_end_matches('\n').len();
        }
        at = search.skip(at);
    }
    given
}
