//! Builds a pack: first what it has to contain, then files, then as many messages as fit.

use super::layers::{Candidate, Part};
use super::manifest::{FORM, IMAGES, Item, Omitted, Pack, Prefix, Reserved, Window};
use super::options::{MAX_TOKENS, PackFiles, PackOptions, too_small};
use super::packed::Packed;
use super::window::{RenderedWindow, WindowSpec};
use crate::count::ENCODING;
use crate::registry::projections::sessions::{ASSISTANT, USER};
use crate::session::handle::Sessions;
use crate::session::log::lines::{End, Line};
use crate::session::log::message::Message;
use crate::session::render::Cut;
use crate::session::store::files::{Log, MESSAGES};
use crate::session::store::swap_index::Swapped;
use crate::small_file::sha256;
use garth_engine::error::Result;

/// Limit on the results that are cut in one pack.
const MAX_CUTS: usize = 1000;
/// Minimum of bytes shown of a cut result. Three quarters of what is shown are its head.
const LEAST_SHOWN: u64 = 600;
/// Limit on the halvings of the share of cut results, until all fits.
const HALVINGS: usize = 12;

/// Swap entries of cut results, with their chunks.
pub(super) type Cuts = Vec<(Swapped, Vec<u8>)>;

/// Limits and state of the session that a pack is built by.
struct BuildContext<'a> {
    session: &'a str,
    /// Tokens for the pack itself.
    room: u64,
    /// Tokens reserved beside the pack.
    reserved: u64,
    end: End,
    /// First line that the pack may contain.
    first: u64,
    spec: WindowSpec,
    /// Line at which the unfinished step starts; the line after the end if there is none.
    step: u64,
    /// Byte at which that line starts.
    step_at: u64,
    user: Option<u64>,
}

/// A pack in parts.
struct Plan {
    front: Vec<Part>,
    omitted: Vec<Omitted>,
    spec: WindowSpec,
    rendered: RenderedWindow,
}

impl Plan {
    fn tokens(&self) -> u64 {
        self.front.iter().map(|part| part.item.tokens).sum::<u64>() + self.rendered.tokens
    }
}

impl Sessions<'_> {
    pub(super) async fn build(
        &self,
        session: &str,
        options: &PackOptions,
        budget: u64,
        files: &PackFiles,
    ) -> Result<(Packed, Cuts)> {
        let context = self.context(session, options, budget, files).await?;
        let pinned = self.pinned_files(session).await?;
        // a budget that has grown is made use of
        let has_grown =
            |before: &Pack| before.budget_tokens > 0 && (budget == 0 || budget > before.budget_tokens);
        let known = files.before.as_ref().filter(|before| !has_grown(before));
        let before = known.filter(|_| !options.fresh);
        let stays = match before {
            Some(before) => self.as_before(&context, before, &pinned).await?,
            None => None,
        };
        let (plan, cuts) = match stays {
            Some(plan) => (plan, Vec::new()),
            None => self.anew(&context, &pinned, known.is_some()).await?,
        };
        let mut left = context.room - plan.tokens();
        let (mut behind, mut omitted) = (Vec::new(), plan.omitted.clone());
        let mut late = self.child_results(session).await?;
        late.extend(self.expanded(session, &options.expand).await?);
        for candidate in &late {
            let (part, out) = candidate.fit(left);
            left -= part.as_ref().map_or(0, |part| part.item.tokens);
            behind.extend(part);
            omitted.extend(out);
        }
        let swapped = files.swap_file.as_ref().map(|file| file.etag).filter(|_| !files.swapped.is_empty());
        let window = Window {
            from: plan.spec.from,
            to: plan.spec.to,
            kept: plan.spec.kept,
            cuts: plan.spec.cuts.clone(),
            events: plan.spec.events,
            swapped,
        };
        omitted.extend(plan.rendered.omitted.iter().cloned());
        let items = plan.front.iter().map(|part| part.item.clone());
        let items = items.chain(plan.rendered.items.iter().cloned());
        let items: Vec<Item> = items.chain(behind.iter().map(|part| part.item.clone())).collect();
        let (prefix_tokens, estimated) = (plan.tokens(), plan.rendered.estimated);
        let (stays, _, mut packed) = Packed::of(&plan.front, plan.rendered, &behind);
        packed.pack = Pack {
            session: session.to_owned(),
            agent: self.agent.clone(),
            budget_tokens: budget,
            tokens: items.iter().map(|item| item.tokens).sum(),
            items,
            tokenizer: ENCODING.to_owned(),
            estimated,
            reserved: options.reserved,
            omitted,
            window,
            prefix: Prefix {
                bytes: stays.len() as u64,
                tokens: prefix_tokens,
                sha256: sha256(stays.as_bytes()),
            },
            forms: packed.forms(),
            form: FORM,
            images: IMAGES,
            built_at: self.env.now().to_rfc3339(),
        };
        Ok((packed, cuts))
    }

    async fn context<'g>(
        &self,
        session: &'g str,
        options: &PackOptions,
        budget: u64,
        files: &PackFiles,
    ) -> Result<BuildContext<'g>> {
        // events first: what is withdrawn by them is there
        let events = self.end(session, Log::Events).await?.lines;
        let end = self.end(session, Log::Messages).await?;
        let user = self.latest(session, USER, u64::MAX).await?;
        let assistant = self.latest(session, ASSISTANT, u64::MAX).await?;
        let has_calls =
            |line: &&Line| Message::parse(&line.text).is_ok_and(|message| message.calls().next().is_some());
        // nobody has answered to the results of the last calls
        let step = assistant.as_ref().filter(has_calls);
        let said_since = |user: &&Line| assistant.as_ref().is_none_or(|said| said.number < user.number);
        let step = step.or_else(|| user.as_ref().filter(said_since));
        let (step, step_at) = step.map_or((end.lines + 1, end.bytes), |line| (line.number, line.bytes.start));
        let reserved = options.reserved.all();
        let all = if budget == 0 { MAX_TOKENS.saturating_add(reserved) } else { budget };
        let spec = WindowSpec {
            kept: None,
            from: 1,
            to: end.lines,
            cuts: Vec::new(),
            swapped: files.swapped.clone(),
            events,
        };
        let user = user.map(|user| user.number);
        Ok(BuildContext {
            session,
            room: all.saturating_sub(reserved).min(MAX_TOKENS),
            reserved,
            end,
            first: files.first.min(step),
            spec,
            step,
            step_at,
            user,
        })
    }

    /// Extends the previous pack by new messages, if these fit and nothing else changed, so that the prompt
    /// cache of the model keeps working.
    async fn as_before(
        &self,
        context: &BuildContext<'_>,
        before: &Pack,
        pinned: &[Candidate],
    ) -> Result<Option<Plan>> {
        let Window { from, kept, cuts, .. } = &before.window;
        if !(context.first..=context.step).contains(from) || before.window.to > context.end.lines {
            return Ok(None);
        }
        let mut left = context.room;
        let (mut front, mut omitted) = (Vec::new(), Vec::new());
        for candidate in pinned {
            let (part, out) = candidate.fit(left);
            left -= part.as_ref().map_or(0, |part| part.item.tokens);
            front.extend(part);
            omitted.extend(out);
        }
        let is_pinned = |item: &&Item| matches!(item.kind.as_str(), "system" | "pinned");
        let was = before.items.iter().filter(is_pinned);
        if !was.eq(front.iter().map(|part| &part.item)) {
            return Ok(None);
        }
        for item in before.items.iter().filter(|item| is_layer(item)) {
            // what is beyond retention is taken as it is now
            let Ok(part) = self.rebuilt(context.session, item).await else { return Ok(None) };
            if part.item.tokens > left {
                return Ok(None);
            }
            left -= part.item.tokens;
            front.push(part);
        }
        // lines that are kept apart lie before the others
        let kept = kept.filter(|kept| kept < from).or(context.user.filter(|user| user < from));
        let spec = WindowSpec { kept, from: *from, cuts: cuts.clone(), ..context.spec.clone() };
        let Some(rendered) = self.render_window(context.session, &spec, left).await? else { return Ok(None) };
        let is_of_files = |out: &&Omitted| out.kind != "recent_messages" && out.kind != "child_result";
        let layers = before
            .omitted
            .iter()
            .filter(is_of_files)
            .filter(|out| !matches!(out.kind.as_str(), "system" | "pinned" | "expanded"));
        omitted.extend(layers.cloned());
        omitted.extend(older(&spec));
        Ok(Some(Plan { front, omitted, spec, rendered }))
    }

    /// Builds a pack with all files as they are now.
    async fn anew(
        &self,
        context: &BuildContext<'_>,
        pinned: &[Candidate],
        moves: bool,
    ) -> Result<(Plan, Cuts)> {
        let least = WindowSpec {
            kept: context.user.filter(|user| *user < context.step),
            from: context.step,
            ..context.spec.clone()
        };
        let (due, cuts) = match self.render_window(context.session, &least, context.room).await? {
            Some(rendered) => ((least, rendered), Vec::new()),
            None => self.cut_to_fit(context, least).await?,
        };
        let due_tokens = due.1.tokens;
        let mut left = context.room - due_tokens;
        let (mut front, mut omitted) = (Vec::new(), Vec::new());
        let mut take = |candidate: &Candidate, most: u64| {
            let (part, out) = candidate.fit(most);
            let tokens = part.as_ref().map_or(0, |part| part.item.tokens);
            front.extend(part);
            omitted.extend(out);
            tokens
        };
        for candidate in pinned {
            left -= take(candidate, left);
        }
        // the other half is for messages
        let mut for_layers = left / 2;
        for candidate in &self.derived_files(context.session).await? {
            let tokens = take(candidate, for_layers);
            (left, for_layers) = (left - tokens, for_layers - tokens);
        }
        let (spec, rendered) = self.with_older(context, due, left, moves).await?;
        omitted.extend(older(&spec));
        Ok((Plan { front, omitted, spec, rendered }, cuts))
    }

    /// Adds older messages: all of them if they fit, else as many as leave half of the room free.
    async fn with_older(
        &self,
        context: &BuildContext<'_>,
        (due, rendered): (WindowSpec, RenderedWindow),
        left: u64,
        moves: bool,
    ) -> Result<(WindowSpec, RenderedWindow)> {
        let before = End { lines: context.step - 1, bytes: context.step_at, open: false };
        let half = left.saturating_sub(context.room / 2);
        let wide = if moves { half } else { left };
        for most in [wide, half, half / 2] {
            let from = self.reach_back(context.session, &due, before, most).await?.max(context.first);
            if from > context.first && most > half {
                continue;
            }
            let spec = WindowSpec { from, kept: due.kept.filter(|kept| *kept < from), ..due.clone() };
            if let Some(rendered) = self.render_window(context.session, &spec, left + rendered.tokens).await?
            {
                return Ok((spec, rendered));
            }
        }
        Ok((due, rendered))
    }

    /// Cuts results in what the pack has to contain until it fits: the longest first, and no more than
    /// necessary.
    async fn cut_to_fit(
        &self,
        context: &BuildContext<'_>,
        due: WindowSpec,
    ) -> Result<((WindowSpec, RenderedWindow), Cuts)> {
        let results = self.results_in(context.session, due.from..=due.to, MAX_CUTS).await?;
        let is_long = |(_, text): &&(Line, String)| text.len() as u64 > 2 * LEAST_SHOWN;
        let results: Vec<_> =
            results.iter().filter(is_long).filter(|(line, _)| due.is_whole(line.number)).collect();
        let swaps = results.iter().map(|(line, text)| self.swap_of_cut(line, summary_of(line, text)));
        let swaps = swaps.collect::<Result<Cuts>>()?;
        let cut = |at: usize, shown: u64| Cut {
            line: results[at].0.number,
            swap: swaps[at].0.id.clone(),
            head: shown / 4 * 3,
            tail: shown / 4,
        };
        let with = |cuts: Vec<Cut>| WindowSpec { cuts, ..due.clone() };
        let all = |shown: u64| (0..results.len()).map(|at| cut(at, shown)).collect::<Vec<_>>();
        let least = with(all(LEAST_SHOWN));
        let Some(rendered) = self.render_window(context.session, &least, context.room).await? else {
            let rendered = self.render_window(context.session, &least, u64::MAX / 2).await?;
            let tokens = rendered.map_or(context.room, |rendered| rendered.tokens);
            return Err(too_small(context.session, tokens.saturating_add(context.reserved)));
        };
        // four bytes a token, until a count says more
        let mut spare = (context.room - rendered.tokens).saturating_mul(4);
        let mut best = ((least, rendered), results.len());
        for _ in 0..HALVINGS {
            let mut bytes = spare;
            let mut cuts = Vec::new();
            // the shortest come first: what they leave is for the longer ones
            for (rank, at) in (0..results.len()).rev().enumerate() {
                let share = bytes / (results.len() - rank) as u64;
                let length = results[at].1.len() as u64;
                if length <= share.saturating_add(LEAST_SHOWN) {
                    bytes -= length.saturating_sub(LEAST_SHOWN);
                    continue;
                }
                cuts.push(cut(at, LEAST_SHOWN + share));
                bytes -= share;
            }
            let spec = with(cuts);
            let count = spec.cuts.len();
            if let Some(rendered) = self.render_window(context.session, &spec, context.room).await? {
                best = ((spec, rendered), count);
                break;
            }
            spare /= 2;
        }
        let (found, _) = best;
        let is_cut = |(at, _): &(usize, (Swapped, Vec<u8>))| {
            found.0.cuts.iter().any(|cut| cut.line == results[*at].0.number)
        };
        let new = swaps.into_iter().enumerate().filter(is_cut).map(|(_, swap)| swap).collect();
        Ok((found, new))
    }
}

/// Returns true for an item of a derived file.
fn is_layer(item: &Item) -> bool {
    matches!(item.kind.as_str(), "summary" | "facts" | "decisions" | "todo" | "refs")
}

/// Returns the omitted messages before the window.
fn older(spec: &WindowSpec) -> Option<Omitted> {
    (spec.from > 1).then(|| Omitted {
        kind: "recent_messages".to_owned(),
        source: MESSAGES.to_owned(),
        range: Some(format!("1-{}", spec.from - 1)),
        reason: "older".to_owned(),
    })
}

/// Returns the summary of a result in the swap index.
fn summary_of(line: &Line, text: &str) -> String {
    format!("result of a tool in messages:{}, {} bytes", line.number, text.len())
}

impl Pack {
    /// Returns a pack without content.
    pub(super) fn empty() -> Self {
        Self {
            session: String::new(),
            agent: String::new(),
            budget_tokens: 0,
            items: Vec::new(),
            tokens: 0,
            tokenizer: ENCODING.to_owned(),
            estimated: false,
            reserved: Reserved::default(),
            omitted: Vec::new(),
            window: Window::default(),
            prefix: Prefix::default(),
            forms: std::collections::BTreeMap::new(),
            form: FORM,
            images: IMAGES,
            built_at: String::new(),
        }
    }

    /// Returns true if both are equal except for the time at which they were built.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Self { built_at: other.built_at.clone(), ..self.clone() } == *other
    }
}
