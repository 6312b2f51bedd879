//! Client of a stream of server-sent events.

use serde_json::Value;

use super::harness::{Connection, Reply, Server, request};

/// Event, or comment, of a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    pub(crate) data: Value,
    /// Text of a comment.
    pub(crate) comment: Option<String>,
}

/// Stream of changes.
pub(crate) struct Events {
    connection: Connection,
    /// Bytes whose chunk is not complete.
    raw: Vec<u8>,
    /// Bytes of the stream that belong to no complete event.
    text: Vec<u8>,
    is_over: bool,
}

impl Events {
    /// Opens a stream. Returns the refusal if it is refused.
    pub(crate) fn open(server: &Server, key: &str, query: &str, last: Option<&str>) -> Result<Self, Reply> {
        let mut connection = Connection::open(server.address);
        let last = last.map_or_else(String::new, |id| format!("last-event-id: {id}\r\n"));
        let headers = format!("authorization: Bearer {key}\r\n{last}");
        connection.send(&request("GET", &format!("/v1/tree/changes/stream{query}"), &headers, b""));
        let mut reply = connection.reply_to(true);
        if reply.status == 200 {
            assert_eq!(reply.header("content-type"), Some("text/event-stream"));
            return Ok(Self { connection, raw: Vec::new(), text: Vec::new(), is_over: false });
        }
        let length = reply.header("content-length").unwrap().parse().unwrap();
        while reply.body.len() < length {
            reply.body.extend(connection.bytes().unwrap());
        }
        Err(reply)
    }

    /// Returns all that a stream sends until it waits, as one answer.
    pub(crate) fn reply(server: &Server, key: &str, query: &str) -> Reply {
        match Self::open(server, key, query, None) {
            Ok(mut events) => {
                let data: Vec<Value> = events.until_waiting().into_iter().map(|event| event.data).collect();
                Reply { status: 200, headers: Vec::new(), body: Value::from(data).to_string().into_bytes() }
            }
            Err(reply) => reply,
        }
    }

    /// Returns the next event or comment; `None` at the end of the stream.
    pub(crate) fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.complete() {
                return Some(event);
            }
            if !self.read() {
                assert!(self.text.is_empty(), "the stream ends within an event");
                return None;
            }
        }
    }

    /// Returns the next event with data.
    pub(crate) fn data(&mut self) -> Event {
        loop {
            let event = self.next().expect("the stream goes on");
            if !event.data.is_null() {
                return event;
            }
        }
    }

    /// Returns the events with data before the stream waits.
    pub(crate) fn until_waiting(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            let event = self.next().expect("the stream goes on");
            if event.comment.is_some() {
                return events;
            }
            if !event.data.is_null() {
                events.push(event);
            }
        }
    }

    /// Receives `most` bytes, or what comes before the stream waits, and returns the complete events of them
    /// with an id: those that a client has handled when it is killed.
    pub(crate) fn killed_after(mut self, most: usize) -> Vec<Event> {
        let waits = |text: &[u8]| text.windows(9).any(|part| part == b": waiting");
        while self.text.len() < most && !waits(&self.text) && self.read() {}
        self.text.truncate(most);
        let events = std::iter::from_fn(|| self.complete());
        events.filter(|event| event.id.is_some()).collect()
    }

    /// Takes the first complete event.
    fn complete(&mut self) -> Option<Event> {
        let end = self.text.windows(2).position(|pair| pair == b"\n\n")?;
        let text = String::from_utf8(self.text.drain(..end + 2).collect()).unwrap();
        let mut event = Event::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            match line.split_once(": ").unwrap() {
                ("", comment) => event.comment = Some(comment.to_owned()),
                ("id", id) => event.id = Some(id.to_owned()),
                ("event", name) => event.name = name.to_owned(),
                ("data", data) => event.data = serde_json::from_str(data).unwrap(),
                ("retry", wait) => assert_eq!(wait, "1000"),
                other => panic!("{other:?} is no field of an event"),
            }
        }
        Some(event)
    }

    /// Reads more of the stream. Returns false at its end.
    fn read(&mut self) -> bool {
        while !self.is_over {
            // A chunk is its size in hexadecimal, its bytes, and a line break after each.
            if let Some(end) = self.raw.windows(2).position(|pair| pair == b"\r\n") {
                let size = usize::from_str_radix(std::str::from_utf8(&self.raw[..end]).unwrap(), 16).unwrap();
                if self.raw.len() >= end + 2 + size + 2 {
                    self.is_over = size == 0;
                    self.text.extend_from_slice(&self.raw[end + 2..end + 2 + size]);
                    self.raw.drain(..end + 2 + size + 2);
                    return !self.is_over;
                }
            }
            match self.connection.bytes() {
                Some(bytes) => self.raw.extend(bytes),
                None => panic!("the connection breaks off within a stream"),
            }
        }
        false
    }
}
