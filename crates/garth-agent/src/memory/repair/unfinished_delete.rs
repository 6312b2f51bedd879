//! Finishes deletes that were cut short: the directory was renamed, but possibly no event written.

use super::super::event::{Event, EventType, Payload};
use super::super::file_names::{META, OUTBOX, RELATIONS};
use super::super::remove::Incoming;
use super::super::state::read_all;
use super::super::uri::Uri;
use super::super::write_ops::{in_account_outbox, outlive, write_event_of_account};
use super::super::{Memories, edge};
use super::report::{Finding, FindingReport, Report};
use super::{Repair, is_race};
use garth_engine::error::{Error, ErrorKind, OptionalExt as _, Result};
use garth_engine::model::{At, Kind, Op, Page};
use garth_engine::path::TreePath;

/// Limit on the events of a memory in deletion that are read.
const MAX_EVENTS: usize = 1000;

impl Repair<'_> {
    /// Finishes the deletes that were cut short.
    pub(super) async fn unfinished(
        &self,
        report: &mut Report,
        told: &mut (impl FnMut(&FindingReport<'_>) + Send),
    ) -> Result<()> {
        let outbox = TreePath::from_row("", OUTBOX);
        let mut page = Page::default();
        loop {
            let Some(listing) = self.memories.fs.list(&At::from(&outbox), &page).await.optional()? else {
                return Ok(());
            };
            for item in &listing.items {
                let Some(id) = item.name.as_str().strip_suffix(".d") else { continue };
                if item.kind != Kind::Directory {
                    continue;
                }
                let dir = TreePath::from_row(outbox.key(), item.name.as_str());
                let done = match self.dry_run {
                    true => Ok(()),
                    false => self.memories.finish_delete(&dir, id).await,
                };
                match done {
                    Ok(()) => {
                        let finding = Finding::UnfinishedDelete;
                        *report.found.entry(finding.as_str()).or_default() += 1;
                        told(&FindingReport { memory: dir.as_str(), finding, until: None });
                    }
                    // The client that deletes it is still at work.
                    Err(error) if is_race(&error) => report.waiting += 1,
                    Err(error) => report.failed(dir.as_str(), &error),
                }
            }
            match listing.items.into_iter().next_back().filter(|_| listing.more) {
                Some(last) => page.after = Some(last.name),
                None => return Ok(()),
            }
        }
    }
}

impl Memories<'_> {
    async fn finish_delete(&self, dir: &TreePath, id: &str) -> Result<()> {
        let event_file = in_account_outbox(&format!("{id}.json"));
        let [event] = read_all(self.fs, std::array::from_ref(&event_file)).await?;
        let is_told = event.is_some();
        let event = event.and_then(|file| Event::parse(file.bytes.as_ref()?).ok());
        let (mut ops, mut conditions) = (Vec::new(), Vec::new());
        let (own, events) = self.was(dir).await?;
        let uri = event.map(|event| event.uri).or(own);
        let uri: Option<Uri> = uri.and_then(|uri| uri.parse().ok());
        match uri.filter(|uri| uri.account() == self.account) {
            Some(uri) => {
                // A new memory may have been put under this URI since.
                let is_there = self.exists(&uri).await?;
                if !is_there {
                    self.rewrite(&uri, &Incoming::Removed, &mut ops, &mut conditions).await?;
                }
                if !is_told && !is_there {
                    let new = Event::new(
                        &self.env,
                        EventType::DeleteContext,
                        &uri.to_string(),
                        Payload::default(),
                    )?;
                    ops.extend(outlive(&uri, events.iter().rev()));
                    ops.push(write_event_of_account(&Event { event_id: id.to_owned(), ..new })?);
                }
            }
            None if is_told => {}
            None => {
                let message = "nothing here says which memory this was; look at it and remove it";
                return Err(Error::at(ErrorKind::Corrupt, dir, message));
            }
        }
        ops.push(Op::remove_tree(dir.clone()));
        let message = "repair: unfinished_delete";
        self.fs.commit(self.batch(ops, conditions).message(message).visible()).await?;
        Ok(())
    }

    /// Returns the URI of the memory that a directory had, by the files left in it, and its events of moves.
    async fn was(&self, dir: &TreePath) -> Result<(Option<String>, Vec<(TreePath, Event)>)> {
        let file = |name: &str| TreePath::from_row(dir.key(), name);
        let [meta, relations] = read_all(self.fs, &[file(META), file(RELATIONS)]).await?;
        let of_meta = |bytes: &Vec<u8>| -> Option<String> {
            let meta: serde_json::Value = serde_json::from_slice(bytes).ok()?;
            Some(meta.get("uri")?.as_str()?.to_owned())
        };
        let meta = meta.and_then(|file| of_meta(file.bytes.as_ref()?));
        let edges = relations.and_then(|file| edge::parse(file.bytes.as_ref()?).ok()).unwrap_or_default();
        let outbox = file(OUTBOX);
        let page = Page::default().limit(MAX_EVENTS);
        let names = self.fs.list(&At::from(&outbox), &page).await.optional()?.unwrap_or_default().items;
        let mut events = Vec::new();
        for item in names.iter().rev().filter(|item| item.name.as_str().ends_with(".json")) {
            let path = TreePath::from_row(outbox.key(), item.name.as_str());
            let [file] = read_all(self.fs, std::array::from_ref(&path)).await?;
            let event = file.and_then(|file| Event::parse(file.bytes.as_ref()?).ok());
            events.extend(event.map(|event| (path, event)));
        }
        let newest = events.first().map(|(_, event)| event);
        let of_event = newest.map(|event| event.payload.new_uri.clone().unwrap_or_else(|| event.uri.clone()));
        let of_edges = edges.into_iter().next().map(|edge| edge.from_uri);
        Ok((meta.or(of_event).or(of_edges), events))
    }
}
