//! Carries out a verdict: runs the operations in the order in which memories are written, on the condition
//! that the files have not changed.

use super::super::event::{Event, EventType, Payload};
use super::super::file_names::{ABSTRACT, CONTENT, META, OUTBOX, OVERVIEW, RELATIONS, SKILL};
use super::super::remove::Incoming;
use super::super::uri::Uri;
use super::super::write_ops::{link_of, upsert, upsert_relation, write_event};
use super::super::{Memories, edge};
use super::inspect::{Around, Found};
use super::judge::{self, JudgeOptions, Mend, Verdict};
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::model::{At, Op, Precondition};
use garth_engine::path::TreePath;

/// Limit on the names that are tried for a file that has to move away.
const MAX_NAMES: usize = 100;

impl Memories<'_> {
    /// Reads a memory and judges it.
    pub(super) async fn judged(&self, uri: &Uri, asked: &JudgeOptions) -> Result<(Found, Around, Verdict)> {
        let mut one = None;
        self.read_found(std::slice::from_ref(uri), |_, found| one = Some(found)).await?;
        let mut found = one.ok_or_else(|| Error::new(ErrorKind::Io, "the storage returned no answer"))??;
        if let Some(verdict) = judge::at_first_sight(&found, asked) {
            return Ok((found, Around::default(), verdict));
        }
        let said = judge::said(&found, asked.now);
        let around = self.around_found(&mut found, said.as_deref()).await?;
        let verdict = judge::judge(&found, &around, asked);
        Ok((found, around, verdict))
    }

    /// Carries out a verdict, in one commit.
    pub(super) async fn mend(&self, found: &Found, around: &Around, mend: &Mend) -> Result<()> {
        if let Some(ended) = around.ended.as_ref().filter(|_| mend.tell_end) {
            return self.tell_ended(ended).await;
        }
        let uri = &found.state.uri;
        let mut conditions = found.state.unchanged();
        // An object that is not a file was read as missing, so a condition that the file is missing would
        // fail.
        let in_the_way: Vec<At> = found.in_the_way.iter().map(|name| uri.file(name).into()).collect();
        conditions.retain(|(at, _)| !in_the_way.contains(at));
        if let Some((file, _)) = &found.own_content {
            conditions.push((uri.file(CONTENT).into(), Precondition::Etag(file.etag)));
        }
        let mut ops = Vec::new();
        self.completion(found, around, mend, &mut ops, &mut conditions).await?;
        let message = format!("repair {uri}: {}", mend.finding.as_str());
        // Visible is enough: if power is lost, the next run repeats the repair.
        self.fs.commit(self.batch(ops, conditions).message(message).visible()).await?;
        Ok(())
    }

    async fn completion(
        &self,
        found: &Found,
        around: &Around,
        mend: &Mend,
        ops: &mut Vec<Op>,
        conditions: &mut Vec<(At, Precondition)>,
    ) -> Result<()> {
        let uri = &found.state.uri;
        for name in &mend.aside {
            ops.push(Op::rename(uri.file(name), aside(uri, name, around)?).no_replace());
        }
        if mend.adopt {
            ops.push(Op::rename(uri.file(CONTENT), uri.file(SKILL)).no_replace());
        }
        ops.extend(link_of(uri).filter(|_| mend.link));
        // `.done` and events of another memory must not count for this one.
        if mend.forget {
            ops.push(Op::remove_tree(uri.file(OUTBOX)).if_exists());
        }
        let texts = [(ABSTRACT, &mend.brief), (OVERVIEW, &mend.overview)];
        if let Some(edges) = &mend.edges {
            ops.push(Op::write(uri.file(RELATIONS), edge::to_json(edges)?));
        }
        for (name, text) in texts {
            ops.extend(text.as_ref().map(|text| Op::write(uri.file(name), format!("{text}\n"))));
        }
        // The event of the move precedes the new meta, which no longer names the old URI. If the batch is cut
        // short, the next run still finds one of them.
        if let Some(old) = &mend.moved_from {
            let payload = Payload { new_uri: Some(uri.to_string()), ..Payload::default() };
            ops.push(write_event(uri, &Event::new(&self.env, EventType::MoveContext, old, payload)?)?);
        }
        if let Some(meta) = &mend.meta {
            ops.push(Op::write(uri.file(META), meta.to_json()?));
        }
        let known = mend.meta.clone().or_else(|| found.state.known());
        if let (Some([brief, overview, content]), Some(meta)) = (&mend.upsert, known) {
            let event = upsert(&self.env, uri, &meta, [brief, overview, content])?;
            ops.push(write_event(uri, &event)?);
        }
        if let Some(edges) = &mend.tell_edges {
            ops.push(write_event(uri, &upsert_relation(&self.env, uri, edges)?)?);
        }
        let to = uri.to_string();
        for old in &mend.dangling {
            let old: Uri = old.parse()?;
            self.rewrite(&old, &Incoming::To(&to), ops, conditions).await?;
        }
        Ok(())
    }
}

/// Returns a free name for a file that is renamed.
fn aside(uri: &Uri, name: &str, around: &Around) -> Result<TreePath> {
    let taken = around.names.as_deref().unwrap_or_default();
    let first = format!("{name}.broken");
    let names = std::iter::once(first).chain((2..MAX_NAMES).map(|n| format!("{name}.broken.{n}")));
    let mut free = names.filter(|name| !taken.contains(name));
    let name = free.next().ok_or_else(|| {
        Error::new(ErrorKind::TooLarge, format!("{uri}: has {MAX_NAMES} broken {name}; remove some"))
    })?;
    Ok(uri.file(&name))
}
