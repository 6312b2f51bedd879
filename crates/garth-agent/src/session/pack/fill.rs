//! Chooses the messages of a window: long results are shown in part before messages are left out.
//!
//! A choice is made from the messages alone, so that the same session and budget give the same pack.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::long_result::LongResult;
use super::walk::{Entry, Walk};
use crate::session::content::swap::Chunked;
use crate::session::handle::Sessions;
use crate::session::render::Cut;
use garth_engine::error::Result;

/// Limit on the results that are shown in part in one pack.
const MAX_CUTS: usize = 1000;

/// Tokens of a result that is shown in part while messages are left out.
pub(super) const KEPT: u64 = 1000;

/// Tokens of results that are shown in part, tried one after the other until enough of the budget is used.
const LEVELS: [u64; 3] = [KEPT, 500, 250];

/// Bounds of a window, in tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Limit.
    pub(super) room: u64,
    /// Tokens to fill. The rest is for the messages that come next.
    pub(super) most: u64,
    /// Tokens that are enough: with fewer, results are shown shorter, or the limit counts.
    pub(super) enough: u64,
    /// Limit on all results that are shown in part.
    pub(super) cuts: u64,
    /// Lines before the window, and their tokens.
    pub(super) before: (LinesBefore, u64),
}

/// Lines that every pack contains, wherever its window starts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinesBefore {
    /// System messages at the beginning of the session: lines 1 to this; 0 if there are none.
    pub(super) lead: u64,
    /// Last message of the user.
    pub(super) kept: Option<u64>,
}

impl LinesBefore {
    fn has(self, line: u64) -> bool {
        line <= self.lead || self.kept == Some(line)
    }
}

/// A result that is shown in part.
#[derive(Debug)]
pub(super) struct Shrunk {
    pub(super) at: usize,
    pub(super) cut: Cut,
    pub(super) tokens: u64,
}

/// A window: how many messages from the end, and which of them are shown in part.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) taken: usize,
    pub(super) shrunk: Vec<Shrunk>,
    pub(super) tokens: u64,
}

impl Choice {
    fn cut_tokens(&self) -> u64 {
        self.shrunk.iter().map(|shrunk| shrunk.tokens).sum()
    }

    /// Returns the cuts in the order of the messages, and the swap entries that lead to the whole results.
    pub(super) fn cuts(
        &self,
        sessions: &Sessions<'_>,
        entries: &[Entry],
    ) -> Result<(Vec<Cut>, Vec<Chunked>)> {
        let mut shrunk: Vec<&Shrunk> = self.shrunk.iter().collect();
        shrunk.sort_by_key(|shrunk| shrunk.cut.line);
        let cuts = shrunk.iter().map(|shrunk| shrunk.cut.clone()).collect();
        let longs = shrunk.iter().filter_map(|shrunk| entries[shrunk.at].long.as_ref());
        let swaps = longs.map(|long| long.swap(sessions).cloned()).collect::<Result<_>>()?;
        Ok((cuts, swaps))
    }
}

/// Returns the tokens of an entry, if it is shown whole. The lines before the window count once.
fn whole(entry: &Entry, bounds: &Bounds) -> u64 {
    if bounds.before.0.has(entry.number) { 0 } else { entry.tokens }
}

/// Chooses the window of a pack. The first `due` entries are in every window. Returns `None` if they do not
/// fit, however short results are shown.
pub(super) async fn choose(
    sessions: &Sessions<'_>,
    walk: &mut Walk<'_>,
    due: usize,
    bounds: &Bounds,
) -> Result<Option<Choice>> {
    // All messages together may use the last quarter of the budget, too: no turn is lost, and nothing is cut.
    if let Some(all) = all_whole(walk, due, bounds).await? {
        return Ok(Some(all));
    }
    let mut best = choose_level(sessions, walk, due, bounds, None).await?;
    let is_short = best.as_ref().is_none_or(|best| best.tokens < bounds.enough && !walk.is_all(best.taken));
    if is_short {
        // A result that takes more than its share at its shortest would leave the budget unused.
        let wider = Bounds { cuts: bounds.room, ..*bounds };
        best = choose_level(sessions, walk, due, &wider, best).await?;
    }
    // Where no further message fits, or there is none, the results have all that is left.
    if let Some(choice) = best.as_mut().filter(|choice| choice.tokens < bounds.enough) {
        let limit = if walk.is_all(choice.taken) { u64::MAX } else { KEPT };
        grow(sessions, walk.entries(), choice, &Bounds { cuts: bounds.most, ..*bounds }, limit)?;
    }
    Ok(best)
}

/// Chooses the window with the longest results in part by which enough of the budget is used, or else that
/// with the most tokens, unless `best` has more.
async fn choose_level(
    sessions: &Sessions<'_>,
    walk: &mut Walk<'_>,
    due: usize,
    bounds: &Bounds,
    mut best: Option<Choice>,
) -> Result<Option<Choice>> {
    for level in LEVELS {
        // In a small budget one result of `KEPT` tokens could be more than all results may take.
        let level = level.min(bounds.cuts);
        let taken = extent(sessions, walk, due, bounds, level).await?;
        let mut choice = shrink(sessions, walk.entries(), taken, bounds, level)?;
        // While messages are left out, tokens go to further messages: a model can ask for the whole of a
        // result that it sees in part, and does not know of a turn that it does not see.
        let limit = if walk.is_all(taken) { u64::MAX } else { KEPT.min(bounds.cuts) };
        grow(sessions, walk.entries(), &mut choice, bounds, limit)?;
        let is_enough = choice.tokens >= bounds.enough || walk.is_all(taken);
        let is_better = best.as_ref().is_none_or(|best| best.tokens < choice.tokens);
        // Until a level uses enough of the budget the fullest choice is kept: shorter results do not always
        // let in a further unit.
        if choice.tokens <= bounds.room && (is_enough || is_better) {
            best = Some(choice);
        }
        if is_enough && best.is_some() {
            break;
        }
    }
    Ok(best)
}

/// Returns all messages, if they fit as they are.
async fn all_whole(walk: &mut Walk<'_>, due: usize, bounds: &Bounds) -> Result<Option<Choice>> {
    let (mut taken, mut tokens) = (due, bounds.before.1);
    tokens += walk.entries()[..due].iter().map(|entry| whole(entry, bounds)).sum::<u64>();
    while tokens <= bounds.room {
        // The walk can also end at its limit of bytes: then these are not all messages.
        let Some(next) = walk.unit(taken).await? else {
            return Ok(walk.is_all(taken).then_some(Choice { taken, shrunk: Vec::new(), tokens }));
        };
        tokens += walk.entries()[taken..next].iter().map(|entry| whole(entry, bounds)).sum::<u64>();
        taken = next;
    }
    Ok(None)
}

/// Returns the number of messages that fit if long results are shown in at most `level` tokens each, the
/// longest first.
async fn extent(
    sessions: &Sessions<'_>,
    walk: &mut Walk<'_>,
    due: usize,
    bounds: &Bounds,
    level: u64,
) -> Result<usize> {
    let (mut tokens, mut cuts, mut count) = (bounds.before.1, 0, 0);
    let mut longs: BinaryHeap<(u64, usize)> = BinaryHeap::new();
    let (mut taken, mut next) = (0, due);
    loop {
        let before = tokens;
        for (at, entry) in walk.entries()[..next].iter().enumerate().skip(taken) {
            let own = whole(entry, bounds);
            tokens += own;
            if entry.long.is_some() && own > level {
                longs.push((own, at));
            }
        }
        // Results are cut only once the messages so far do not fit, the longest first, so that few are cut.
        while tokens > bounds.most
            && count < MAX_CUTS
            && let Some((own, at)) = longs.peek().copied()
            && let Some(long) = &walk.entries()[at].long
        {
            let (_, least) = long.cut_to(sessions, level)?;
            // No result that is left is longer, and in part each takes about as many tokens: none of them
            // makes room.
            if cuts + least > bounds.cuts || least >= own {
                break;
            }
            longs.pop();
            tokens = tokens - own + least;
            cuts += least;
            count += 1;
        }
        if tokens > bounds.most && next > due {
            // One more unit, where the budget would go unused without it.
            let is_taken = before < bounds.enough && tokens <= bounds.room;
            return Ok(if is_taken { next } else { taken });
        }
        taken = next;
        match walk.unit(taken).await? {
            Some(more) => next = more,
            None => return Ok(taken),
        }
    }
}

/// Shows as few of the longest results in part as it takes to fit, each in at most `level` tokens.
fn shrink(
    sessions: &Sessions<'_>,
    entries: &[Entry],
    taken: usize,
    bounds: &Bounds,
    level: u64,
) -> Result<Choice> {
    let entries = &entries[..taken];
    let mut choice = Choice { taken, shrunk: Vec::new(), tokens: bounds.before.1 };
    choice.tokens += entries.iter().map(|entry| whole(entry, bounds)).sum::<u64>();
    let mut longs: Vec<(u64, usize, &LongResult)> = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        longs.extend(entry.long.as_ref().map(|long| (whole(entry, bounds), at, long)));
    }
    longs.retain(|(own, ..)| *own > level);
    // Of two that are equally long the older one.
    longs.sort_by_key(|(own, at, _)| Reverse((*own, *at)));
    let mut cuts = 0;
    for (own, at, long) in longs.into_iter().take(MAX_CUTS) {
        if choice.tokens <= bounds.most {
            break;
        }
        let (cut, tokens) = long.cut_to(sessions, level)?;
        if cuts + tokens > bounds.cuts || tokens >= own {
            break;
        }
        cuts += tokens;
        choice.tokens = choice.tokens - own + tokens;
        choice.shrunk.push(Shrunk { at, cut, tokens });
    }
    Ok(choice)
}

/// Shows more of results, each in at most `limit` tokens, until the bounds are reached: the shortest come
/// first, and leave the rest to the longer ones.
pub(super) fn grow(
    sessions: &Sessions<'_>,
    entries: &[Entry],
    choice: &mut Choice,
    bounds: &Bounds,
    limit: u64,
) -> Result<()> {
    // Entries are stored from the last message back: of two that are equally long the older one is first.
    choice.shrunk.sort_by_key(|shrunk| (entries[shrunk.at].tokens, Reverse(shrunk.at)));
    let mut spare = bounds.most.saturating_sub(choice.tokens);
    let mut of_cuts = bounds.cuts.saturating_sub(choice.cut_tokens());
    let mut left = choice.shrunk.len() as u64;
    let mut grown = Vec::with_capacity(choice.shrunk.len());
    for shrunk in std::mem::take(&mut choice.shrunk) {
        let entry = &entries[shrunk.at];
        let more = entry.tokens.saturating_sub(shrunk.tokens);
        let share = spare / left.max(1);
        left = left.saturating_sub(1);
        // A result that is shown completely no longer counts as cut: its tokens are free for the others.
        if more <= share && entry.tokens <= limit {
            spare -= more;
            of_cuts += shrunk.tokens;
            choice.tokens += more;
            continue;
        }
        let share = share.min(of_cuts / (left + 1));
        let most = (shrunk.tokens + share).min(limit);
        let (cut, tokens) = match &entry.long {
            Some(long) if most > shrunk.tokens => long.cut_to(sessions, most)?,
            _ => (shrunk.cut.clone(), shrunk.tokens),
        };
        // Where none fits, `cut_to` returns the shortest cut, which can have more than `most` tokens.
        if tokens > shrunk.tokens && tokens <= most {
            let more = tokens - shrunk.tokens;
            (spare, of_cuts) = (spare - more, of_cuts - more);
            choice.tokens += more;
            grown.push(Shrunk { at: shrunk.at, cut, tokens });
        } else {
            grown.push(shrunk);
        }
    }
    choice.shrunk = grown;
    Ok(())
}

/// Shows all long results in at most `level` tokens. The tokens of the choice are those of the results.
pub(super) fn shrink_all(sessions: &Sessions<'_>, entries: &[Entry], level: u64) -> Result<Choice> {
    each(entries, level, |long| long.cut_to(sessions, level))
}

/// Shows all long results as short as they can be shown.
pub(super) fn shortest(sessions: &Sessions<'_>, entries: &[Entry]) -> Result<Choice> {
    each(entries, 0, |long| long.shortest(sessions))
}

fn each(entries: &[Entry], above: u64, cut: impl Fn(&LongResult) -> Result<(Cut, u64)>) -> Result<Choice> {
    let longs =
        entries.iter().enumerate().filter_map(|(at, entry)| Some((entry.tokens, at, entry.long.as_ref()?)));
    let mut longs: Vec<_> = longs.filter(|(own, ..)| *own > above).collect();
    longs.sort_by_key(|(own, at, _)| Reverse((*own, *at)));
    let mut choice = Choice { taken: entries.len(), shrunk: Vec::new(), tokens: 0 };
    for (own, at, long) in longs.into_iter().take(MAX_CUTS) {
        let (cut, tokens) = cut(long)?;
        // The note that names the swap entry can make a short result longer than it is.
        if tokens < own {
            choice.tokens += tokens;
            choice.shrunk.push(Shrunk { at, cut, tokens });
        }
    }
    Ok(choice)
}
