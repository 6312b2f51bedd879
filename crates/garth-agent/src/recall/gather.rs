//! Gathers the memories and files that may be shown for a question, and the parts of each.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::OnceLock;

use super::age::Ageing;
use super::budget::{Leftover, head_tokens};
use super::candidates::{FITS, READ, RankedCandidates, Reach, least_shown};
use super::read::{Answers, LayerHit, Wanted, of_level};
use super::recaller::Recaller;
use super::request::Recall;
use super::retracted::may_be_retracted;
use super::session::Times;
use super::unit::{Candidate, Parts};
use super::{read, session};
use crate::memory::{ABSTRACT, Level, META, OUTBOX, OVERVIEW, RELATIONS, Uri, text_of};
use crate::small_file::is_no_file;
use garth_engine::error::Result;
use garth_engine::fs::FileSystem;
use garth_engine::model::{Hit, MAX_PER_FILE, Timestamp};
use garth_engine::path::TreePath;
use garth_engine::text::question::Question;

/// Number of memories and files that are read together: they fit into one answer, and few are read in vain.
const AHEAD: usize = 16;
/// Number of sources in a row that find no room in the budget, after which no more are read.
const IN_VAIN: usize = 8;

const PAST: &str = "Searched the current text: memories deleted or changed since are not found.";
const UNINDEXED: &str = "Some text is not indexed yet; try again later.";

/// Hits in one memory or file.
struct Source {
    memory: Option<Uri>,
    /// Directory of the memory, or path of the file.
    path: TreePath,
    /// Rank and score of the best hits. What is shown of it can have lower ones.
    rank: f64,
    score: f64,
    /// Largest share of the question's words in a hit, and beside it.
    words: f64,
    hits: Vec<LayerHit>,
    /// Tokens of its line of the head, once they are counted.
    head: OnceLock<usize>,
}

impl Recaller<'_> {
    /// Returns the sources that may be shown, with the ranks of the search.
    pub(super) async fn gather(
        &self,
        asked: &Recall,
        question: &Question,
        reach: Reach,
    ) -> Result<RankedCandidates> {
        let Some(query) = self.query(asked)? else { return Ok(RankedCandidates::default()) };
        let found = self.found(&query).await?;
        let mut gathered =
            RankedCandidates { more: found.more, missing: found.missing, ..RankedCandidates::default() };
        let past = match &asked.as_of {
            Some(moment) => Some(self.fs.as_of(moment).await?),
            None => None,
        };
        gathered.notes.extend(past.is_some().then_some(Cow::Borrowed(PAST)));
        gathered.notes.extend((found.missing > 0).then_some(Cow::Borrowed(UNINDEXED)));
        let fs = past.as_deref().unwrap_or(self.fs);
        gathered.now = match &past {
            Some(past) => past.head().await?.time,
            None => self.env.now(),
        };
        let time = asked.valid_at.unwrap_or(gathered.now);
        // Files have no time of validity, and their past is not searched.
        let memories_alone = asked.valid_at.is_some() || past.is_some() || asked.prefix.is_some();
        let times = Times { since: asked.since, until: asked.until };
        let fits_by = |words: f64| !question.asks_nothing() && words >= FITS;
        let is_fitting_found = found.hits.iter().any(|hit| fits_by(hit.parts.words + hit.parts.neighbours));
        let sources = self.sources(asked, found.hits).into_iter();
        let mut sources: VecDeque<Source> =
            sources.filter(|source| source.memory.is_some() || !memories_alone).collect();
        // The search does not say that it omitted further passages of a file.
        gathered.more |= sources.iter().any(Source::is_full);
        // Times and validity are judged after the search. If they leave out all hits that fit, others may fit
        // that had no place among them.
        gathered.may_fit = gathered.more && is_fitting_found;
        let ageing = Ageing { now: gathered.now, half_life: asked.half_life };
        let mut read = 0;
        loop {
            let least = least_shown(gathered.best, reach);
            // The others would not be shown with a larger limit either.
            sources.retain(|source| source.score >= least);
            gathered.omit(least, ageing);
            let Some(next) = sources.front() else { break };
            // What the limit leaves out decides whether anything fits, unless a candidate does.
            let fits = gathered.has_fitting(question);
            let is_decided = fits || !sources.iter().any(|source| fits_by(source.words));
            let most = if fits || !is_decided { reach.candidates } else { reach.near };
            // A source can rank lower than its best hit, which is not always shown. So a later one has its
            // place only if the limit is reached without those that rank lower.
            let aged = gathered.candidates.iter().filter_map(|one| ageing.best(&one.parts));
            let place = aged.filter(|aged| aged.rank >= next.rank).count();
            let is_full = place >= most;
            // Only one more candidate can tell that the limit leaves something out: the other sources may no
            // longer be valid, or exist.
            let is_limited = is_full && (!fits || gathered.candidates.len() > most);
            let is_over =
                || is_limited || (fits && reach.is_in_budget && is_spent(asked, &gathered, &sources));
            if read == READ || (is_decided && is_over()) {
                gathered.more = true;
                gathered.may_fit |= !is_decided;
                break;
            }
            // Sources are read in groups: one read of several costs less than one for each.
            let due = if is_full { AHEAD } else { AHEAD.min(most - place + 1) };
            let due = due.min(READ - read).min(sources.len());
            let group: Vec<Source> = sources.drain(..due).collect();
            read += due;
            let wanted: Vec<_> = group.iter().map(Source::wanted).collect();
            let answers = read::fetched(fs, &wanted).await?;
            let may_withhold = may_withhold(fs, &group).await?;
            for (source, answers) in group.into_iter().zip(answers) {
                if source.score < least_shown(gathered.best, reach) {
                    continue;
                }
                // The index may be older than the tree.
                let answers = (answers, may_withhold);
                let parts = gone(source.parts(fs, time, (question, times), answers).await)?;
                gathered.add(parts.and_then(|parts| source.candidate(parts)));
            }
        }
        Ok(gathered)
    }

    /// Groups hits by their memory or file, best first.
    fn sources(&self, asked: &Recall, hits: Vec<Hit>) -> Vec<Source> {
        let mut sources: Vec<Source> = Vec::new();
        let mut known: HashMap<TreePath, usize> = HashMap::new();
        for hit in hits {
            // Events repeat the text of memories.
            if hit.path.segments().any(|name| name == OUTBOX) || !self.is_evidence(asked, &hit.path) {
                continue;
            }
            let (dir, name) = (hit.path.parent().unwrap_or_default(), hit.path.name().unwrap_or_default());
            let memory = self.memory_at(&dir);
            let level = match &memory {
                Some(_) if name == META || name == RELATIONS => continue,
                Some(_) if name == ABSTRACT => Some(Level::Abstract),
                Some(_) if name == OVERVIEW => Some(Level::Overview),
                Some(uri) if name == text_of(uri) => Some(Level::Content),
                _ => None,
            };
            let (memory, path) = match level {
                Some(_) => (memory, dir),
                None => (None, hit.path.clone()),
            };
            let at = *known.entry(path.clone()).or_insert(sources.len());
            if at == sources.len() {
                let (hits, head) = (Vec::new(), OnceLock::new());
                sources.push(Source { memory, path, rank: 0.0, score: 0.0, words: 0.0, hits, head });
            }
            // Several layers of one text do not add up.
            sources[at].rank = sources[at].rank.max(hit.rank);
            sources[at].score = sources[at].score.max(hit.score);
            sources[at].words = sources[at].words.max(hit.parts.words + hit.parts.neighbours);
            sources[at].hits.push((level, hit));
        }
        // The search returns the best hits first, so the sources are in the order of their best hits.
        sources
    }
}

impl Source {
    /// Returns true if one of its files has as many hits as the search returns of a file.
    fn is_full(&self) -> bool {
        let of_level = |level| self.hits.iter().filter(|(own, _)| *own == level).count();
        of_level(Some(Level::Content)).max(of_level(None)) >= MAX_PER_FILE
    }

    /// Returns its URI, or the path of a file.
    fn name(&self) -> String {
        self.memory.as_ref().map_or_else(|| self.path.to_string(), Uri::to_string)
    }

    /// Returns the tokens of its line of the head, with the version of what was found first.
    fn head(&self) -> usize {
        let version = || self.hits.first().map(|(_, hit)| hit.version.to_string()).unwrap_or_default();
        *self.head.get_or_init(|| head_tokens(&self.name(), &version()))
    }

    /// Returns its path if it is the messages of a session.
    fn log(&self) -> Option<&TreePath> {
        (self.memory.is_none() && session::is_log(&self.path)).then_some(&self.path)
    }

    /// Returns the parts of its files that are read to show it.
    fn wanted(&self) -> Wanted {
        let hits = of_level(&self.hits, None);
        match &self.memory {
            Some(uri) => read::wanted_of_memory(uri, &self.path, &self.hits),
            None if self.log().is_some() => session::wanted(&self.path, &hits),
            None => read::wanted_of_file(&self.path, &hits),
        }
    }

    /// Returns what may be shown of it; `None` if nothing.
    async fn parts(
        &self,
        fs: &dyn FileSystem,
        time: Timestamp,
        (question, times): (&Question, Times),
        (answers, may_withhold): (Answers, bool),
    ) -> Result<Option<Parts>> {
        let hits = of_level(&self.hits, None);
        let parts = match &self.memory {
            Some(uri) => read::memory((uri, &self.path), time, (&self.hits, question), answers)?,
            None if self.log().is_some() => {
                let answers = (answers, may_withhold);
                return session::session(fs, &self.path, &hits, (question, times), answers).await;
            }
            None => read::file(&self.path, (&hits, question), answers)?,
        };
        Ok(parts.filter(|parts| parts.files.first().is_some_and(|file| times.contain(file.time))))
    }

    /// Returns the candidate with these parts; `None` if nothing that was found is among them. Its rank is
    /// that of its best part: filters and limits can leave out the best hit.
    fn candidate(&self, parts: Parts) -> Option<Candidate> {
        let best = parts.best(0.0)?;
        let (rank, score_parts) = (best.rank, best.score_parts);
        let found_in = match &self.memory {
            Some(_) => self.found_in(),
            None => vec![(self.path.name().unwrap_or_default().to_owned(), score_parts.sum())],
        };
        Some(Candidate { source: self.name(), rank, score_parts, found_in, parts })
    }

    /// Returns the files of a memory that contain words of the question, each with its best score.
    fn found_in(&self) -> Vec<(String, f64)> {
        let mut found_in: Vec<(String, f64)> = Vec::new();
        for (_, hit) in &self.hits {
            let name = hit.path.name().unwrap_or_default();
            match found_in.iter_mut().find(|(known, _)| known == name) {
                Some((_, score)) => *score = score.max(hit.score),
                None => found_in.push((name.to_owned(), hit.score)),
            }
        }
        found_in
    }
}

/// Returns true if messages of one of these sources may be retracted. To be asked after they were read: they
/// may have been retracted after the search.
async fn may_withhold(fs: &dyn FileSystem, group: &[Source]) -> Result<bool> {
    let logs: Vec<&TreePath> = group.iter().filter_map(Source::log).collect();
    may_be_retracted(fs, &logs).await
}

/// Returns true if these sources need not be read, because the candidates leave too few tokens of the budget
/// for them.
fn is_spent(asked: &Recall, gathered: &RankedCandidates, sources: &VecDeque<Source>) -> bool {
    let Some(next) = sources.front() else { return false };
    let left = Leftover::after(next.rank, asked, gathered);
    let has_room = |source: &Source| left.has_room_for(source.head());
    // If the candidates are shown completely, only another source can tell whether there is more.
    left.is_partial && (left.in_vain >= IN_VAIN || !sources.iter().any(has_room))
}

/// Maps the error of a source that no longer exists, or did not exist at that time, to `None`.
fn gone<T>(read: Result<Option<T>>) -> Result<Option<T>> {
    match read {
        Err(error) if is_no_file(&error) => Ok(None),
        read => read,
    }
}
