//! Conversations with questions, as JSON Lines.

use std::collections::HashMap;
use std::io::{BufRead, Read as _};

use serde_json::{Map, Value};

use crate::recall::MAX_QUESTION;
use crate::session::Role;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::rule::json;

/// Limit on the bytes of a line, 64 MiB.
pub const MAX_LINE: usize = 64 << 20;

/// UTF-8 of U+FEFF, with which some editors begin a file.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// One line: texts, and questions about them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Conversation {
    /// Name, for reports.
    pub name: String,
    /// Sessions, in the order in which they took place.
    pub sessions: Vec<Session>,
    /// Texts about users, without a session.
    pub memories: Vec<Memory>,
    /// Questions about the sessions, or about a user.
    pub questions: Vec<Question>,
}

/// Messages that were said together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Session {
    /// Title.
    pub name: String,
    /// Time at which it took place, RFC 3339.
    pub time: Option<String>,
    /// Messages, the oldest first.
    pub messages: Vec<Text>,
}

/// Message of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Text {
    /// Id, unique within the conversation.
    pub id: String,
    /// Role of the speaker.
    pub role: Role,
    /// Name of the speaker.
    pub name: Option<String>,
    /// Text.
    pub content: String,
}

/// Text about a user.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Memory {
    /// Id, unique within the conversation.
    pub id: String,
    /// User that it belongs to.
    pub user: String,
    /// Text.
    pub text: String,
}

/// Question whose evidence is known.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Question {
    /// Id, for reports.
    pub id: String,
    /// Question in plain words.
    pub question: String,
    /// Texts that answer it: messages of the sessions, or memories of the user. Empty if none does.
    pub evidence: Vec<String>,
    /// User whose memories are asked. Without one, the sessions of the conversation are asked.
    pub user: Option<String>,
    /// Kind, by which reports group questions.
    pub kind: Option<String>,
}

/// Reads conversations from JSON Lines, one at a time. Blank lines and a byte order mark are ignored.
///
/// # Errors
/// `InvalidArgument`, which names the line and the field; `TooLarge` for a line of more than [`MAX_LINE`]
/// bytes; `Io` from the reader.
#[derive(Debug)]
pub struct Conversations<R> {
    from: R,
    line: u64,
    /// True after an error: the rest of a long line would be read as a line of its own.
    is_done: bool,
}

impl<R: BufRead> Conversations<R> {
    /// Returns a reader of the lines of `from`.
    pub fn new(from: R) -> Self {
        Self { from, line: 0, is_done: false }
    }

    fn read(&mut self) -> Result<Option<Conversation>> {
        loop {
            self.line += 1;
            let (number, mut line) = (self.line, Vec::new());
            let fail = |kind, message: String| Error::new(kind, format!("line {number}: {message}"));
            let read = self.from.by_ref().take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line);
            if read.map_err(|error| fail(ErrorKind::Io, error.to_string()))? == 0 {
                return Ok(None);
            }
            if line.len() > MAX_LINE {
                let message = format!("more than {MAX_LINE} bytes; divide the conversation");
                return Err(fail(ErrorKind::TooLarge, message));
            }
            // A byte order mark at the start of the file belongs to no line.
            if number == 1 && line.starts_with(BYTE_ORDER_MARK) {
                line.drain(..BYTE_ORDER_MARK.len());
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            let parsed = parse(&line).map_err(|message| fail(ErrorKind::InvalidArgument, message))?;
            return Ok(Some(parsed));
        }
    }
}

impl<R: BufRead> Iterator for Conversations<R> {
    type Item = Result<Conversation>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let next = self.read().transpose();
        self.is_done = !matches!(next, Some(Ok(_)));
        next
    }
}

/// Errors of a line name the field.
type Parsed<T> = Result<T, String>;

fn parse(line: &[u8]) -> Parsed<Conversation> {
    // Also refuses a repeated key, of which only the last would count.
    json::read(line).map_err(|flaw| flaw.to_string())?;
    let value: Value = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let top = Object::of(&value, String::new(), &["name", "sessions", "memories", "questions"])?;
    let conversation = Conversation {
        name: top.text("name")?,
        sessions: top.each("sessions", &["name", "time", "messages"], session)?,
        memories: top.each("memories", &["id", "user", "text"], memory)?,
        questions: top.each("questions", &["id", "question", "evidence", "user", "kind"], question)?,
    };
    conversation.check()?;
    Ok(conversation)
}

fn session(object: &Object<'_>) -> Parsed<Session> {
    let time = object.optional("time")?;
    if let Some(time) = &time
        && time.parse::<jiff::Timestamp>().is_err()
    {
        return Err(object.wrong("time", "has to be a time such as 2026-01-12T07:48:00Z"));
    }
    let messages = object.each("messages", &["id", "role", "content", "name"], |message| {
        let role = match message.text("role")?.as_str() {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "system" => Role::System,
            _ => return Err(message.wrong("role", "has to be user, assistant or system")),
        };
        let (id, name, content) = (message.text("id")?, message.optional("name")?, message.text("content")?);
        Ok(Text { id, role, name, content })
    })?;
    Ok(Session { name: object.text("name")?, time, messages })
}

fn memory(object: &Object<'_>) -> Parsed<Memory> {
    Ok(Memory { id: object.text("id")?, user: object.text("user")?, text: object.text("text")? })
}

fn question(object: &Object<'_>) -> Parsed<Question> {
    let question = object.text("question")?;
    if question.len() > MAX_QUESTION {
        return Err(object.wrong("question", &format!("has more than {MAX_QUESTION} bytes")));
    }
    let (id, user, kind) = (object.text("id")?, object.optional("user")?, object.optional("kind")?);
    // Without the field, a forgotten list would count as a question that nothing answers.
    let list = object.fields.get("evidence").and_then(Value::as_array);
    let ids = list.map(|ids| ids.iter().map(|id| id.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>());
    let Some(evidence) = ids.flatten() else {
        return Err(
            object.wrong("evidence", "has to be a list of ids, empty if nothing answers the question")
        );
    };
    Ok(Question { id, question, evidence, user, kind })
}

impl Conversation {
    /// Returns the text that a question names as evidence.
    pub fn evidence(&self, question: &Question, id: &str) -> Option<&str> {
        let mut messages = self.sessions.iter().flat_map(|session| &session.messages);
        match &question.user {
            Some(user) => {
                self.memories.iter().find(|text| text.id == id && text.user == *user).map(|text| &*text.text)
            }
            None => messages.find(|text| text.id == id).map(|text| &*text.content),
        }
    }

    /// Checks that ids are unique, and that evidence is among the texts that its question is asked of.
    fn check(&self) -> Parsed<()> {
        let mut known = HashMap::new();
        for (at, session) in self.sessions.iter().enumerate() {
            for (place, message) in session.messages.iter().enumerate() {
                let path = format!("sessions[{at}].messages[{place}].id");
                if known.insert(&*message.id, None).is_some() {
                    return Err(format!("{path}: {} is the id of another text", message.id));
                }
            }
        }
        for (at, memory) in self.memories.iter().enumerate() {
            if known.insert(&*memory.id, Some(&*memory.user)).is_some() {
                return Err(format!("memories[{at}].id: {} is the id of another text", memory.id));
            }
        }
        for (at, question) in self.questions.iter().enumerate() {
            for (place, id) in question.evidence.iter().enumerate() {
                let why = match (known.get(&**id), &question.user) {
                    (None, _) => "is the id of no text of this line".to_owned(),
                    (Some(None), Some(user)) => {
                        format!("is a message, and the question asks memories of {user}")
                    }
                    (Some(Some(owner)), user) if user.as_deref() != Some(owner) => {
                        format!("is a memory of {owner}, and the question does not name this user")
                    }
                    _ => continue,
                };
                return Err(format!("questions[{at}].evidence[{place}]: {id} {why}"));
            }
        }
        Ok(())
    }
}

/// Object of a line, with its path in the line for errors.
struct Object<'v> {
    fields: &'v Map<String, Value>,
    path: String,
}

impl<'v> Object<'v> {
    /// Returns an object that has no fields but `names`.
    fn of(value: &'v Value, path: String, names: &[&str]) -> Parsed<Self> {
        let Some(fields) = value.as_object() else {
            let before = if path.is_empty() { String::new() } else { format!("{path}: ") };
            return Err(format!("{before}has to be a JSON object"));
        };
        let object = Self { fields, path };
        match fields.keys().find(|name| !names.contains(&name.as_str())) {
            Some(name) => {
                Err(object.wrong(name, &format!("unknown field; the fields are {}", names.join(", "))))
            }
            None => Ok(object),
        }
    }

    fn wrong(&self, name: &str, why: &str) -> String {
        let dot = if self.path.is_empty() { "" } else { "." };
        format!("{}{dot}{name}: {why}", self.path)
    }

    /// Returns a field that has to be text with other characters than white space.
    fn text(&self, name: &str) -> Parsed<String> {
        let text = self.optional(name)?.filter(|text| !text.trim().is_empty());
        text.ok_or_else(|| self.wrong(name, "has to be a text that is not empty"))
    }

    fn optional(&self, name: &str) -> Parsed<Option<String>> {
        match self.fields.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(self.wrong(name, "has to be a text")),
        }
    }

    /// Reads each object of a list; a missing list is empty.
    fn each<T>(&self, name: &str, names: &[&str], read: impl Fn(&Object<'_>) -> Parsed<T>) -> Parsed<Vec<T>> {
        let list = match self.fields.get(name) {
            None => return Ok(Vec::new()),
            Some(Value::Array(list)) => list,
            Some(_) => return Err(self.wrong(name, "has to be a list")),
        };
        let path = |at| self.wrong(name, "").trim_end_matches(": ").to_owned() + &format!("[{at}]");
        list.iter().enumerate().map(|(at, value)| read(&Object::of(value, path(at), names)?)).collect()
    }
}
