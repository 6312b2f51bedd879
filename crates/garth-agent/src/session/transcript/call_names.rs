//! Names of tools in results. Some formats name the tool in the call alone; others need it in the result too.

use std::collections::HashMap;

use crate::session::handle::Sessions;
use crate::session::log::message::{Block, Message};
use crate::session::store::files::Log;
use garth_engine::error::Result;

/// Lines before a page that are searched for the calls of its results.
const LOOK_BACK: u64 = 1000;
/// Lines that are read at once.
const LINES: u64 = 50;

impl Sessions<'_> {
    /// Gives results that name no tool the name in their call: the nearest one before them with their id.
    pub(super) async fn name_results(&self, session: &str, messages: &mut [(u64, Message)]) -> Result<()> {
        let mut missing: HashMap<String, Option<String>> = HashMap::new();
        let mut calls: HashMap<String, String> = HashMap::new();
        for (_, message) in messages.iter() {
            calls_of(message, &mut |id, name| drop(calls.insert(id.to_owned(), name.to_owned())));
            for id in message.content.iter().filter_map(unnamed).filter(|id| !calls.contains_key(*id)) {
                missing.insert(id.to_owned(), None);
            }
        }
        let first = messages.first().map_or(0, |(line, _)| *line);
        let mut before = first;
        // Calls are mostly right before their results: the search goes back in small steps, and not without
        // end.
        while before > 1 && first - before < LOOK_BACK && missing.values().any(Option::is_none) {
            let lines = before.saturating_sub(LINES).max(1)..=before - 1;
            before = *lines.start();
            let mut next = Some(before);
            let mut found = HashMap::new();
            while let Some(start) = next {
                let page = self.raw_lines(session, Log::Messages, start..=*lines.end(), 1000).await?;
                next = page.next.filter(|next| next <= lines.end());
                for message in page.items.iter().filter_map(|line| Message::parse(&line.text).ok()) {
                    calls_of(&message, &mut |id, name| drop(found.insert(id.to_owned(), name.to_owned())));
                }
            }
            for (id, name) in missing.iter_mut().filter(|(_, name)| name.is_none()) {
                *name = found.remove(id);
            }
        }
        let mut known: HashMap<String, String> =
            missing.into_iter().filter_map(|(id, name)| Some((id, name?))).collect();
        for (_, message) in messages {
            // In the order of messages, so that of several calls with one id the nearest before a result
            // counts.
            calls_of(message, &mut |id, name| drop(known.insert(id.to_owned(), name.to_owned())));
            for block in &mut message.content {
                let name = unnamed(block).and_then(|id| known.get(id)).cloned();
                if let (Block::ToolResult { name: to, .. }, Some(name)) = (block, name) {
                    *to = Some(name);
                }
            }
        }
        Ok(())
    }
}

fn calls_of(message: &Message, call: &mut impl FnMut(&str, &str)) {
    for block in &message.content {
        if let Block::ToolCall { id, name, .. } = block {
            call(id, name);
        }
    }
}

/// Returns the id of the call of a result that names no tool.
fn unnamed(block: &Block) -> Option<&str> {
    match block {
        Block::ToolResult { call_id, name, .. } if name.as_deref().is_none_or(str::is_empty) => Some(call_id),
        _ => None,
    }
}
