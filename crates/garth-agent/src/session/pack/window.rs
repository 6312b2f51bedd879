//! The context window of a pack: the line at which its messages start, and their rendering.

use std::ops::RangeInclusive;

use sha2::{Digest as _, Sha256};

use super::manifest::{Item, Omitted};
use crate::retry::yield_now;
use crate::session::handle::Sessions;
use crate::session::log::lines::Line;
use crate::session::log::message::Message;
use crate::session::render::{Cut, HiddenReason, Known, RenderRules, Renderer, is_beyond};
use crate::session::store::files::{Log, MESSAGES};
use crate::session::store::swap_index::Swapped;
use garth_engine::error::Result;
use garth_engine::text::secret::Judgement;

/// Tokens counted without a pause: some milliseconds.
const BREATH: u64 = 4000;

/// Run of retracted lines from which on they are stepped over, and not read.
const LONG_RUN: u64 = 256;

/// Messages as a pack contains them.
#[derive(Debug, Default)]
pub(super) struct RenderedWindow {
    pub(super) items: Vec<Item>,
    pub(super) omitted: Vec<Omitted>,
    pub(super) text: String,
    pub(super) messages: Vec<Message>,
    pub(super) tokens: u64,
    /// Tokens of the results that are shown in part.
    pub(super) cut_tokens: u64,
    pub(super) estimated: bool,
}

/// Messages to render, with all that their rendering depends on: the same spec gives the same bytes for ever.
#[derive(Clone, Debug)]
pub(super) struct WindowSpec {
    /// Lines 1 to this come first: the system messages at the beginning, if the window starts after them.
    pub(super) lead: u64,
    /// Line before the others: the last message of the user, if the window starts after it.
    pub(super) kept: Option<u64>,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) cuts: Vec<Cut>,
    pub(super) swapped: Vec<Swapped>,
    /// Number of events that can retract messages; later ones do not.
    pub(super) events: u64,
    /// Judgement under which secrets are marked.
    pub(super) judgement: Judgement,
}

impl WindowSpec {
    /// Returns true if neither a swap entry nor a cut shortens a line.
    pub(super) fn is_whole(&self, line: u64) -> bool {
        !self.swapped.iter().any(|entry| entry.hides(line)) && !self.cuts.iter().any(|cut| cut.line == line)
    }
}

impl Sessions<'_> {
    /// Renders the messages, or returns `None` if they have more than `most` tokens. The cost grows with
    /// `most`, not with the number of messages. Messages in `known` are masked
    /// and counted already, under the current judgement.
    pub(super) async fn render_window(
        &self,
        session: &str,
        spec: &WindowSpec,
        most: u64,
        known: Option<&Known>,
    ) -> Result<Option<RenderedWindow>> {
        let mut rendered = RenderedWindow::default();
        // Only the events that the pack records count: a replay shows messages that were retracted after the
        // pack was built.
        let mut retracted = self.retracted_by(session, spec.from..=spec.to, spec.events).await?;
        let lead = (spec.lead > 0).then_some(1..=spec.lead);
        let before = lead.into_iter().chain(spec.kept.map(|kept| kept..=kept));
        for lines in before.clone() {
            retracted.extend(self.retracted_by(session, lines, spec.events).await?);
        }
        // The lines before the window are a few single ones: only the window can have long runs.
        let window = around_long_runs(spec.from..=spec.to, &retracted);
        let rules = RenderRules { swapped: spec.swapped.clone(), cuts: spec.cuts.clone(), retracted };
        let mut show = Renderer::new(rules, &self.tokens, known);
        for (lines, is_read) in before.map(|lines| (lines, true)).chain(window) {
            if !is_read {
                rendered.hide(lines, HiddenReason::Retracted);
            } else if !self.render_lines(session, spec, lines, most, (&mut show, &mut rendered)).await? {
                return Ok(None);
            }
        }
        Ok(Some(rendered))
    }

    /// Renders consecutive lines. Returns false if the pack has more than `most` tokens by then.
    async fn render_lines(
        &self,
        session: &str,
        spec: &WindowSpec,
        lines: RangeInclusive<u64>,
        most: u64,
        (show, rendered): (&mut Renderer<'_>, &mut RenderedWindow),
    ) -> Result<bool> {
        let (mut next, mut hash) = (*lines.start(), Hash::default());
        let before = rendered.tokens;
        let mut breathed = before;
        let (mut bytes, mut last) = ([u64::MAX, 0], 0);
        while next <= *lines.end() {
            let page = self.raw_lines(session, Log::Messages, next..=*lines.end(), 256).await?;
            next = page.next.unwrap_or(u64::MAX);
            for line in page.items {
                // Hash and range are those of the source: hidden and invalid lines count, too.
                hash.line(&line);
                bytes = [bytes[0].min(line.bytes.start), line.bytes.end];
                last = line.number;
                // Rules can be overridden: one invalid line must not end all later packs of the session.
                let Ok(message) = Message::parse(&line.text) else { continue };
                // Masking and counting megabytes that cannot fit would take longer than the rest of the pack.
                // Swapped, cut, retracted and repeated messages may fit, however long they are.
                let long = is_beyond(message.shown_bytes(), most.saturating_sub(rendered.tokens));
                if long && spec.is_whole(line.number) && !show.is_short(line.number, &message) {
                    return Ok(false);
                }
                // Not under the current judgement: a replay has to mask the spans that the pack masked.
                match spec.judgement.during(|| show.next((line.number, &line.text), message)) {
                    Ok(shown) => {
                        rendered.tokens += shown.tokens;
                        if spec.cuts.iter().any(|cut| cut.line == line.number) {
                            rendered.cut_tokens += shown.tokens;
                        }
                        rendered.estimated |= shown.estimated;
                        rendered.text.push_str(&shown.text);
                        rendered.messages.push(shown.message);
                    }
                    Err(hidden) => rendered.hide(line.number..=line.number, hidden),
                }
                if rendered.tokens > most {
                    return Ok(false);
                }
                // Counting tokens holds the thread of the caller: other tasks get their turn.
                if rendered.tokens - breathed > BREATH {
                    breathed = rendered.tokens;
                    yield_now().await;
                }
            }
        }
        // Without messages the window is empty, and there is no source to name.
        if last > 0 {
            rendered.items.push(Item {
                kind: "recent_messages".to_owned(),
                source: MESSAGES.to_owned(),
                range: Some(format!("{}-{last}", lines.start())),
                tokens: rendered.tokens - before,
                version: None,
                sha256: hash.end(),
                bytes,
                entry: None,
            });
        }
        Ok(true)
    }
}

/// Returns lines in parts: long runs of retracted lines, which are not read, and those between them.
fn around_long_runs(
    lines: RangeInclusive<u64>,
    retracted: &[RangeInclusive<u64>],
) -> Vec<(RangeInclusive<u64>, bool)> {
    let (mut next, end) = lines.into_inner();
    let mut parts = Vec::new();
    for run in retracted {
        let (first, last) = (*run.start().max(&next), *run.end().min(&end));
        // The list ends with runs of the lines before the window: these are skipped here. A short run is read
        // and hidden: each range would be an item of its own in the pack.
        if last < first || last - first < LONG_RUN {
            continue;
        }
        if next < first {
            parts.push((next..=first - 1, true));
        }
        parts.push((first..=last, false));
        next = last + 1;
    }
    parts.extend((next <= end).then_some((next..=end, true)));
    parts
}

impl RenderedWindow {
    fn hide(&mut self, lines: RangeInclusive<u64>, why: HiddenReason) {
        let (line, to) = lines.into_inner();
        let reason = match why {
            HiddenReason::Retracted => "retracted",
            HiddenReason::Swapped => "swapped",
            HiddenReason::NoCall => "no_call",
        };
        // One entry for consecutive lines: a pack can omit thousands.
        if let Some(last) = self.omitted.last_mut().filter(|last| last.reason == reason)
            && let Some((first, end)) = last.range.as_deref().and_then(|range| range.split_once('-'))
            && end.parse::<u64>().is_ok_and(|end| end.checked_add(1) == Some(line))
        {
            last.range = Some(format!("{first}-{to}"));
            return;
        }
        self.omitted.push(Omitted {
            kind: "recent_messages".to_owned(),
            source: MESSAGES.to_owned(),
            range: Some(format!("{line}-{to}")),
            reason: reason.to_owned(),
        });
    }
}

/// SHA-256 of lines as the file has them, without the last line feed.
#[derive(Default)]
struct Hash(Option<Sha256>);

impl Hash {
    fn line(&mut self, line: &Line) {
        let mut hash = self.0.take().map_or_else(Sha256::new, |hash| hash.chain_update(b"\n"));
        hash.update(line.text.as_bytes());
        self.0 = Some(hash);
    }

    fn end(self) -> String {
        garth_engine::model::hex(&self.0.unwrap_or_default().finalize())
    }
}
