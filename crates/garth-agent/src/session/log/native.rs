//! Native messages, `native/{format}.jsonl`: messages as an SDK stored them. They are appended in the same
//! commit as the messages derived from them, and read by their line numbers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::value::RawValue;

use super::draft::Draft;
use super::lines::MAX_PAGE_BYTES;
use super::message::Native;
use crate::session::handle::Sessions;
use garth_engine::error::{OptionalExt as _, Result};
use garth_engine::model::{At, Op, Precondition};
use garth_engine::path::TreePath;

/// Lines read ahead.
const AHEAD: usize = 256;

/// Native messages to append.
#[derive(Clone, Debug, Default)]
pub(crate) struct Natives {
    /// Name of the file, without its extension.
    pub(crate) format: String,
    /// The native messages. Drafts name them by their index.
    pub(crate) lines: Vec<Box<RawValue>>,
}

impl Sessions<'_> {
    fn native_file(&self, session: &str, format: &str) -> Result<TreePath> {
        self.file(session, &format!("native/{format}.jsonl"))
    }

    /// Returns the append of the native lines of new messages, and its condition. The messages get the number
    /// of their line.
    pub(crate) async fn with_native(
        &self,
        session: &str,
        native: &Natives,
        new: &mut [Draft],
    ) -> Result<(Op, (At, Precondition))> {
        let file = self.native_file(session, &native.format)?;
        let (end, condition) = match self.fs.stat(&At::from(&file)).await.optional()? {
            // The messages name these lines by number: no other append may come in between.
            Some(entry) => (self.end_of(&file).await?, Precondition::Etag(entry.etag)),
            None => (super::lines::End::default(), Precondition::Absent),
        };
        // Several messages can come from one native message, which is appended once. Native forms of skipped
        // messages exist already.
        let used: BTreeSet<usize> = new.iter().filter_map(Draft::native).collect();
        let numbers: BTreeMap<usize, u64> = used.iter().copied().zip(end.lines + 1..).collect();
        for draft in &mut *new {
            let line = draft.native().and_then(|at| numbers.get(&at));
            if let Some(line) = line {
                let place = Native { format: native.format.clone(), line: *line };
                *draft = draft.clone().with("native", &place);
            }
        }
        let mut body = String::from(if end.open { "\n" } else { "" });
        for line in used.iter().filter_map(|at| native.lines.get(*at)) {
            body.push_str(line.get());
            body.push('\n');
        }
        let cuts = super::draft::cuts(&body, 0);
        let at = At::from(&file);
        Ok((Op::append(file, body).with_parents().cut_at(cuts), (at, condition)))
    }
}

/// Reads native messages one by one, with read-ahead.
pub(crate) struct Reader<'a> {
    sessions: &'a Sessions<'a>,
    file: TreePath,
    ahead: BTreeMap<u64, String>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(sessions: &'a Sessions<'_>, session: &str, format: &str) -> Result<Self> {
        Ok(Self { sessions, file: sessions.native_file(session, format)?, ahead: BTreeMap::new() })
    }

    /// Returns a line; `None` if it does not exist.
    pub(crate) async fn line(&mut self, number: u64) -> Result<Option<&str>> {
        if !self.ahead.contains_key(&number) {
            // Messages that follow each other mostly have native lines that do so, too.
            let last = number.saturating_add(AHEAD as u64);
            let Some(page) = self
                .sessions
                .lines_of(&self.file, number..=last, (AHEAD, MAX_PAGE_BYTES))
                .await
                .optional()?
            else {
                return Ok(None);
            };
            self.ahead = page.items.into_iter().map(|line| (line.number, line.text)).collect();
        }
        Ok(self.ahead.get(&number).map(String::as_str))
    }
}
