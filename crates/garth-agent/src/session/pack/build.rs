//! Builds a pack: first its required messages, then files, then as many messages as fit.

use super::fill::{Bounds, Choice, KEPT, LinesBefore, choose, grow, shortest, shrink_all};
use super::layers::{Candidate, Part};
use super::manifest::{FORM, IMAGES, Item, Omitted, Pack, Prefix, Reserved, Window};
use super::options::{MAX_TOKENS, PackFiles, PackOptions, too_small};
use super::packed::Packed;
use super::walk::{Entry, Walk};
use super::window::{RenderedWindow, WindowSpec};
use crate::count::ENCODING;
use crate::registry::projections::sessions::{ASSISTANT, RETRACTED, USER};
use crate::session::content::swap::Chunked;
use crate::session::handle::Sessions;
use crate::session::log::draft::Role;
use crate::session::log::lines::{End, Line};
use crate::session::log::message::Message;
use crate::session::store::files::{Log, MESSAGES, PACK_TEXT};
use crate::small_file::sha256;
use garth_engine::error::Result;
use garth_engine::fs::FileSystemExt as _;
use garth_engine::text::secret::Judgement;

/// Limit on the system messages at the beginning of a session that every pack contains.
const MAX_LEAD: usize = 16;

/// Attempts to choose a window, until the tokens of all its messages are near enough.
const CHOICES: usize = 4;

/// Kind of the system messages at the beginning, where they are omitted.
const LEAD: &str = "system";

/// Swap entries of results that are shown in part, with their chunks.
pub(super) type Cuts = Vec<Chunked>;

/// Limits and state of the session that a pack is built by.
#[derive(Clone)]
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
    user: Option<u64>,
    /// System messages at the beginning of the session: lines 1 to this.
    lead: u64,
}

impl BuildContext<'_> {
    /// Returns the system messages of a window that starts at a line, if it starts after them.
    fn lead_before(&self, from: u64) -> u64 {
        if self.lead < from { self.lead } else { 0 }
    }

    /// Returns the messages that every pack has to contain.
    fn due_spec(&self) -> WindowSpec {
        let kept = self.user.filter(|user| *user < self.step);
        WindowSpec { kept, from: self.step, ..self.spec.clone() }
    }
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
        // A window that fits the old budget would leave the new part of a larger one unused until it moves.
        let has_grown =
            |before: &Pack| before.budget_tokens > 0 && (budget == 0 || budget > before.budget_tokens);
        let before = files.before.as_ref().filter(|before| !has_grown(before) && !options.fresh);
        let stays = match before {
            Some(before) => self.as_before(&context, before, &pinned).await?,
            None => None,
        };
        let (plan, cuts) = match stays {
            Some(plan) => plan,
            None => self.anew(&context, &pinned).await?,
        };
        let mut left = context.room - plan.tokens();
        // Results of children and expanded references differ from call to call. After the messages, they
        // leave the prefix in the prompt cache of the model unchanged.
        let (mut behind, mut omitted) = (Vec::new(), plan.omitted.clone());
        let mut late = self.child_results(session).await?;
        late.extend(self.expanded(session, &options.expand).await?);
        for candidate in &late {
            let (part, out) = candidate.fit(left);
            left -= part.as_ref().map_or(0, |part| part.item.tokens);
            behind.extend(part);
            omitted.extend(out);
        }
        // The version of an empty index would make the description differ although the pack is the same.
        let swapped = files.swap_file.as_ref().map(|file| file.etag).filter(|_| !files.swapped.is_empty());
        let window = Window {
            from: plan.spec.from,
            to: plan.spec.to,
            lead: plan.spec.lead,
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
            secrets: Some(Judgement::CURRENT.number()),
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
        // Events before messages: messages that these events retract are then among those that are read.
        let events = self.end(session, Log::Events).await?.lines;
        let end = self.end(session, Log::Messages).await?;
        let user = self.latest(session, USER, u64::MAX).await?;
        let assistant = self.latest(session, ASSISTANT, u64::MAX).await?;
        let has_calls =
            |line: &&Line| Message::parse(&line.text).is_ok_and(|message| message.calls().next().is_some());
        // The last calls of the model are an unfinished step: the model has not answered to their results.
        let step = assistant.as_ref().filter(has_calls);
        let said_since = |user: &&Line| assistant.as_ref().is_none_or(|said| said.number < user.number);
        // Otherwise it is the last message of the user, if the model has not answered it.
        let step = step.or_else(|| user.as_ref().filter(said_since));
        let step = step.map_or(end.lines + 1, |line| line.number);
        let reserved = options.reserved.all();
        let all = if budget == 0 { MAX_TOKENS.saturating_add(reserved) } else { budget };
        let spec = WindowSpec {
            lead: 0,
            kept: None,
            from: 1,
            to: end.lines,
            cuts: Vec::new(),
            swapped: files.swapped.clone(),
            events,
            judgement: Judgement::CURRENT,
        };
        let user = user.map(|user| user.number);
        let lead = self.leading_system_messages(session, &spec).await?;
        Ok(BuildContext {
            session,
            room: all.saturating_sub(reserved).min(MAX_TOKENS),
            reserved,
            end,
            // Every pack has the unfinished step, whatever was compacted.
            first: files.first.min(step),
            spec,
            step,
            user,
            lead,
        })
    }

    /// Extends the previous pack by new messages, if these fit and nothing else changed, so that the prompt
    /// cache of the model keeps working.
    async fn as_before(
        &self,
        context: &BuildContext<'_>,
        before: &Pack,
        pinned: &[Candidate],
    ) -> Result<Option<(Plan, Cuts)>> {
        // The new messages would be masked otherwise than the ones before them.
        if before.judgement() != Some(Judgement::CURRENT) {
            return Ok(None);
        }
        let Window { from, kept, cuts, to, lead, .. } = &before.window;
        // A compaction can have moved the first line beyond the window, and a collection can have removed
        // messages.
        if !(context.first..=context.step).contains(from) || before.window.to > context.end.lines {
            return Ok(None);
        }
        // System messages without room stay out until the window moves: in front, they would change the
        // prefix.
        let had_no_room = |out: &Omitted| out.kind == LEAD && out.reason == "budget";
        let (mut front, mut omitted) = (Vec::new(), Vec::new());
        match before.omitted.iter().find(|out| had_no_room(out)) {
            Some(out) => omitted.push(out.clone()),
            None if *lead != context.lead_before(*from) => return Ok(None),
            None => {}
        }
        let mut left = context.room;
        for candidate in pinned {
            let (part, out) = candidate.fit(left);
            left -= part.as_ref().map_or(0, |part| part.item.tokens);
            front.extend(part);
            omitted.extend(out);
        }
        // Pinned files are always current. They are the beginning of the pack, so that a change of one ends
        // the prefix anyway.
        let is_pinned = |item: &&Item| matches!(item.kind.as_str(), "system" | "pinned");
        let was = before.items.iter().filter(is_pinned);
        if !was.eq(front.iter().map(|part| &part.item)) {
            return Ok(None);
        }
        if self.has_lost_layers(context.session, before).await? {
            return Ok(None);
        }
        for item in before.items.iter().filter(|item| is_layer(item)) {
            // Derived files stay in the version of the pack before. One beyond retention is taken as it is
            // now.
            let Ok(part) = self.rebuilt(context.session, item, Judgement::CURRENT).await else {
                return Ok(None);
            };
            if part.item.tokens > left {
                return Ok(None);
            }
            left -= part.item.tokens;
            front.push(part);
        }
        // A kept line is a part of the prefix, and stays even if the user has said more. It precedes the
        // window.
        let kept = kept.filter(|kept| kept < from).or(context.user.filter(|user| user < from));
        let (lead, cuts) = (*lead, cuts.clone());
        let spec = WindowSpec { lead, kept, from: *from, cuts, ..context.spec.clone() };
        let Some((spec, rendered, new)) = self.extended(context, spec, *to, left).await? else {
            return Ok(None);
        };
        // The derived files are those of the previous pack, with the same omissions. The rest is found again.
        let is_of_files = |out: &&Omitted| out.kind != "recent_messages" && out.kind != "child_result";
        let layers = before
            .omitted
            .iter()
            .filter(is_of_files)
            .filter(|out| !matches!(out.kind.as_str(), LEAD | "pinned" | "expanded"));
        omitted.extend(layers.cloned());
        omitted.extend(older(&spec, context.lead));
        Ok(Some((Plan { front, omitted, spec, rendered }, new)))
    }

    /// Returns true if derived files of a pack have changed and messages were retracted since it was built:
    /// the next pack must not show entries derived from these.
    async fn has_lost_layers(&self, session: &str, before: &Pack) -> Result<bool> {
        let next = before.window.events + 1;
        // Without a retraction an older version may be shown, and no other file has to be looked up.
        if self.keyed(session, Log::Events, RETRACTED, next, 1).await?.is_empty() {
            // A retraction in another session that removes entries of this one empties the text of the pack.
            let text = self.fs.lookup(&self.file(session, PACK_TEXT)?).await?;
            if text.is_none_or(|entry| entry.size > 0) {
                return Ok(false);
            }
        }
        for item in before.items.iter().filter(|item| is_layer(item)) {
            let entry = self.fs.lookup(&self.file(session, &item.source)?).await?;
            if entry.map(|entry| entry.etag) != item.version {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Builds a pack with all files as they are now.
    async fn anew(&self, context: &BuildContext<'_>, pinned: &[Candidate]) -> Result<(Plan, Cuts)> {
        let (first, room) = (context.first, context.room);
        let (mut context, mut omitted) = (context.clone(), Vec::new());
        let mut walk = Walk::new(self, context.session, &context.spec, context.end, (first, room))?;
        let due = walk.reach_line(context.step).await?;
        let (kept, kept_tokens) = self.kept_line(&context).await?;
        let least = self.least(&context, &walk.entries()[..due], kept_tokens).await?;
        let mut left = room - least;
        let lead_tokens = match self.lead_tokens(&context, left).await? {
            Some(tokens) => tokens,
            None => {
                omitted.push(without_lead(context.lead));
                context.lead = 0;
                0
            }
        };
        left -= lead_tokens;
        let context = &context;
        let mut front = Vec::new();
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
        // Derived files get at most half, or long ones would leave no room for messages.
        let mut for_layers = left / 2;
        for candidate in &self.derived_files(context.session).await? {
            let tokens = take(candidate, for_layers);
            (left, for_layers) = (left - tokens, for_layers - tokens);
        }
        let files: u64 = front.iter().map(|part| part.item.tokens).sum();
        let bounds = Bounds {
            // A quarter of the budget stays free, so that the next turns fit after these messages. Files
            // count as well: they are in front of the window, and stay.
            room: room - files,
            most: (room / 4 * 3).saturating_sub(files),
            enough: (room / 10 * 7).saturating_sub(files),
            cuts: room / 5 * 2,
            before: (LinesBefore { lead: context.lead, kept }, lead_tokens + kept_tokens),
        };
        let (spec, rendered, cuts) = self.fill_window(context, &mut walk, due, bounds).await?;
        omitted.extend(older(&spec, context.lead));
        Ok((Plan { front, omitted, spec, rendered }, cuts))
    }

    /// Returns the last of the system messages with which a session begins; 0 if there are none, or if all of
    /// them are retracted, as by a transcript with another system prompt.
    async fn leading_system_messages(&self, session: &str, spec: &WindowSpec) -> Result<u64> {
        let mut lead = 0;
        while (lead as usize) < MAX_LEAD && lead < spec.to {
            let page = self.raw_lines(session, Log::Messages, lead + 1..=lead + 1, 1).await?;
            let message = page.items.first().and_then(|line| Message::parse(&line.text).ok());
            if message.is_none_or(|message| message.role != Role::System) {
                break;
            }
            lead += 1;
        }
        if lead == 0 {
            return Ok(0);
        }
        // A transcript with another system prompt retracts these messages; its text is in
        // `context/system.md`.
        let retracted = self.retracted_by(session, 1..=lead, spec.events).await?;
        let is_shown = |line| !retracted.iter().any(|lines| lines.contains(&line));
        Ok((1..=lead).rev().find(|line| is_shown(*line)).unwrap_or(0))
    }

    /// Returns the tokens of the system messages at the beginning, or `None` if they have more than `most`.
    async fn lead_tokens(&self, context: &BuildContext<'_>, most: u64) -> Result<Option<u64>> {
        if context.lead == 0 {
            return Ok(Some(0));
        }
        let spec = WindowSpec { from: 1, to: context.lead, ..context.spec.clone() };
        let rendered = self.render_window(context.session, &spec, most, None).await?;
        Ok(rendered.map(|rendered| rendered.tokens))
    }

    /// Returns the last line of the user, if the unfinished step starts after it, with its tokens.
    async fn kept_line(&self, context: &BuildContext<'_>) -> Result<(Option<u64>, u64)> {
        let Some(user) = context.user.filter(|user| *user < context.step) else { return Ok((None, 0)) };
        let spec = WindowSpec { from: user, to: user, ..context.spec.clone() };
        let rendered = self.render_window(context.session, &spec, context.room, None).await?;
        // Beyond the budget the exact number does not matter here: `least` counts it for the error.
        Ok((Some(user), rendered.map_or(context.room.saturating_add(1), |rendered| rendered.tokens)))
    }

    /// Returns the tokens to reserve for the messages that every pack has to contain, with long results in
    /// part.
    async fn least(&self, context: &BuildContext<'_>, due: &[Entry], kept: u64) -> Result<u64> {
        // A bound from above: output that is repeated counts each time. Messages are rendered where it does
        // not fit.
        let in_part = |entry: &Entry| match entry.long {
            Some(_) => entry.tokens.min(KEPT),
            None => entry.tokens,
        };
        let tokens = kept + due.iter().map(in_part).sum::<u64>();
        if tokens <= context.room {
            return Ok(tokens);
        }
        let spec = context.due_spec();
        if let Some(rendered) = self.render_window(context.session, &spec, context.room, None).await? {
            return Ok(rendered.tokens);
        }
        let (cuts, _) = shortest(self, due)?.cuts(self, due)?;
        let spec = WindowSpec { cuts, ..spec };
        if let Some(rendered) = self.render_window(context.session, &spec, context.room, None).await? {
            return Ok(rendered.tokens);
        }
        // Not even the shortest parts fit: the error names the least budget, so that it has to be exact.
        let rendered = self.render_window(context.session, &spec, u64::MAX / 2, None).await?;
        let tokens = rendered.map_or(context.room, |rendered| rendered.tokens);
        Err(too_small(context.session, tokens, context.reserved))
    }

    /// Renders the last messages, as many as the bounds allow. The choice adds up the tokens of each message
    /// by itself; if the rendered messages have others, it is made again.
    async fn fill_window(
        &self,
        context: &BuildContext<'_>,
        walk: &mut Walk<'_>,
        due: usize,
        bounds: Bounds,
    ) -> Result<(WindowSpec, RenderedWindow, Cuts)> {
        let mut best: Option<(WindowSpec, RenderedWindow, Cuts)> = None;
        let mut asked = bounds;
        for _ in 0..CHOICES {
            let Some(choice) = choose(self, walk, due, &asked).await? else { break };
            let from = match choice.taken {
                0 => context.step,
                taken => walk.entries()[taken - 1].number,
            };
            let (cuts, swaps) = choice.cuts(self, walk.entries())?;
            let kept = context.user.filter(|user| *user < from);
            let lead = context.lead_before(from);
            let spec = WindowSpec { lead, from, kept, cuts, ..context.spec.clone() };
            let known = Some(&walk.known);
            let Some(rendered) = self.render_window(context.session, &spec, bounds.room, known).await? else {
                // Together they have more tokens than the sum that was chosen by, which estimates long texts.
                asked.most = asked.most / 8 * 7;
                asked.room = asked.most;
                continue;
            };
            let tokens = rendered.tokens;
            if best.as_ref().is_none_or(|(_, best, _)| best.tokens < tokens) {
                best = Some((spec, rendered, swaps));
            }
            // Output that is repeated is shown once, and was chosen as if it were shown each time. So the
            // next choice may take more than the bounds, by as much as this one left.
            if tokens >= bounds.enough || walk.is_all(choice.taken) {
                break;
            }
            let spare = bounds.most - tokens;
            asked = Bounds { room: asked.room + spare, most: asked.most + spare, ..asked };
            asked.enough += spare;
        }
        if let Some(best) = best {
            return Ok(best);
        }
        // No choice fits, or none was rendered within the bounds. The mandatory parts of a pack are rendered
        // as it is, else with the shortest parts.
        let (cuts, swaps) = shortest(self, &walk.entries()[..due])?.cuts(self, walk.entries())?;
        for (cuts, swaps) in [(Vec::new(), Vec::new()), (cuts, swaps)] {
            let spec = WindowSpec { cuts, ..context.due_spec() };
            let known = Some(&walk.known);
            if let Some(rendered) = self.render_window(context.session, &spec, bounds.room, known).await? {
                return Ok((spec, rendered, swaps));
            }
        }
        Err(too_small(context.session, context.room.saturating_add(1), context.reserved))
    }

    /// Renders the window of a pack with the messages since. Results that came since are shown in part if
    /// the window has no room for all of them. `None` if it has none for that either.
    async fn extended(
        &self,
        context: &BuildContext<'_>,
        spec: WindowSpec,
        since: u64,
        room: u64,
    ) -> Result<Option<(WindowSpec, RenderedWindow, Cuts)>> {
        if let Some(rendered) = self.render_window(context.session, &spec, room, None).await? {
            return Ok(Some((spec, rendered, Vec::new())));
        }
        let most = context.room / 5 * 2;
        let first = (context.first, context.room);
        let mut walk = Walk::new(self, context.session, &spec, context.end, first)?;
        // Only new results may be shown in part here: a cut of an older one would change the prefix.
        let new = walk.reach_line(since.max(spec.from).saturating_add(1)).await?;
        let mut choice = shrink_all(self, &walk.entries()[..new], KEPT.min(most))?;
        // No new result is long, so that only a move of the window makes room.
        if choice.shrunk.is_empty() {
            return Ok(None);
        }
        let with = |choice: &Choice, walk: &Walk<'_>| -> Result<(WindowSpec, Cuts)> {
            let (new, swaps) = choice.cuts(self, walk.entries())?;
            let cuts = spec.cuts.iter().cloned().chain(new).collect();
            Ok((WindowSpec { cuts, ..spec.clone() }, swaps))
        };
        let (least, swaps) = with(&choice, &walk)?;
        let Some(rendered) = self.render_window(context.session, &least, room, None).await? else {
            return Ok(None);
        };
        // Results in part would take more than two fifths. A new window chooses all of them again.
        if rendered.cut_tokens > most {
            return Ok(None);
        }
        // Half of the remaining budget is reserved for the next messages. Otherwise each of them would move
        // the window.
        let tokens = rendered.tokens;
        let bounds = Bounds {
            room,
            most: tokens + (room - tokens) / 2,
            enough: 0,
            cuts: most.saturating_sub(rendered.cut_tokens.saturating_sub(choice.tokens)),
            before: (LinesBefore::default(), 0),
        };
        choice.tokens = tokens;
        // As in `choose`: a result grows beyond `KEPT` only where no message is left out.
        let limit = if spec.from > context.first { KEPT } else { u64::MAX };
        grow(self, walk.entries(), &mut choice, &bounds, limit)?;
        let (grown, more) = with(&choice, &walk)?;
        let rendered_grown = self.render_window(context.session, &grown, room, Some(&walk.known)).await?;
        Ok(Some(match rendered_grown {
            Some(rendered) if rendered.cut_tokens <= most => (grown, rendered, more),
            _ => (least, rendered, swaps),
        }))
    }
}

/// Returns true for an item of a derived file.
fn is_layer(item: &Item) -> bool {
    matches!(item.kind.as_str(), "summary" | "facts" | "decisions" | "todo" | "refs")
}

/// Returns the omitted messages between those at the beginning and the window.
fn older(spec: &WindowSpec, lead: u64) -> Option<Omitted> {
    let first = lead + 1;
    (spec.from > first).then(|| Omitted {
        kind: "recent_messages".to_owned(),
        source: MESSAGES.to_owned(),
        range: Some(format!("{first}-{}", spec.from - 1)),
        reason: "older".to_owned(),
    })
}

/// Returns the system messages at the beginning, for which the budget has no room.
fn without_lead(lead: u64) -> Omitted {
    Omitted {
        kind: LEAD.to_owned(),
        source: MESSAGES.to_owned(),
        range: Some(format!("1-{lead}")),
        reason: "budget".to_owned(),
    }
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
            secrets: Some(Judgement::CURRENT.number()),
            built_at: String::new(),
        }
    }

    /// Returns the judgement of secrets under which it was built.
    pub(super) fn judgement(&self) -> Option<Judgement> {
        Judgement::numbered(self.secrets)
    }

    /// Returns true if both are equal except for the time at which they were built.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Self { built_at: other.built_at.clone(), ..self.clone() } == *other
    }
}
