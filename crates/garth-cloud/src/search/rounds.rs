//! Rounds of a search: each is one round trip, or two where the rows of the first decide which others count.

use std::future::Future;

use garth_engine::engine::search::{
    Answer, Candidates, FoundFile, Judge as _, JudgedFiles, Narrow, Narrowed, Newest, Passage, Place,
    Postings, QueryFilter, Shown, Start, Started, SubtreePassages, Totals, WordForm,
};
use garth_engine::model::{SearchAnswer, SearchQuery};
use garth_engine::text::question::Term;
use garth_engine::{Error, ErrorKind, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::fetch::{SentKeys, SentPassages, SentUnindexed};
use super::fetched::FetchedFiles;
use super::snapshot::Snapshot;
use super::subtrees::{self, Bound};
use super::words::WordIndex;
use crate::client::{Pipe, param, read_time};
use crate::values::columns::{column, number};

/// Size of the index, the time, and the version of the control data. The newest passage may have been
/// removed, so it is looked up.
const HEAD: &str = concat!(
    "SELECT passages, (SELECT max(id) FROM garth.passage WHERE account = $1),
        ",
    read_time!(),
    ", control FROM garth.head WHERE account = $1"
);
const NEWEST_PASSAGES: &str = "SELECT id FROM garth.passage WHERE account = $1 ORDER BY id DESC LIMIT $2";
/// Limit on the round trips that one piece of judging takes. Each fetches all rows that were missed before:
/// a node with very many names takes one for each 4,096 of them.
const MOST_FETCHES: usize = 64;

/// Files as a query filters them.
type Filter<'a> = QueryFilter<'a, FetchedFiles<'a>>;

/// Rounds of one search.
pub(super) struct PgPostings<'a> {
    snapshot: Snapshot<'a>,
    files: &'a FetchedFiles<'a>,
    filter: Filter<'a>,
    words: WordIndex,
    totals: Totals,
    /// Files whose text is not indexed yet.
    unindexed: Vec<u64>,
    /// True once the first round was taken.
    is_begun: bool,
}

/// Statements of the first round that every search sends.
struct SentHead {
    head: usize,
    unindexed: SentUnindexed,
}

impl SentHead {
    fn send(pipe: &mut Pipe<'_>, snapshot: &Snapshot<'_>, files: &FetchedFiles<'_>) -> Self {
        let head = pipe.query(HEAD, vec![snapshot.account()]);
        Self { head, unindexed: SentUnindexed::send(pipe, snapshot, files.sees_everything()) }
    }

    /// Returns the size of the index, and the files whose text is not indexed yet.
    fn put(self, files: &FetchedFiles<'_>, answers: &[Vec<Row>]) -> Result<(Totals, Vec<u64>)> {
        let deleted = || Error::new(ErrorKind::NotFound, "the account does not exist, or was deleted");
        let head = answers.get(self.head).and_then(|rows| rows.first()).ok_or_else(deleted)?;
        let mut state = files.state();
        (state.now, state.control) = (column(head, 2)?, number(head, 3)?);
        drop(state);
        let newest = column::<Option<i64>>(head, 1)?.unwrap_or(0);
        Ok((Totals { passages: number(head, 0)?, newest }, self.unindexed.put(files, answers)?))
    }
}

/// Returns the number of files in reach whose text is not indexed yet, of a query without words.
pub(super) async fn missing(mut snapshot: Snapshot<'_>, files: &FetchedFiles<'_>) -> Result<u64> {
    let mut pipe = snapshot.round();
    let head = SentHead::send(&mut pipe, &snapshot, files);
    let answers = pipe.run().await?;
    let (_, unindexed) = head.put(files, &answers)?;
    let count = count_missing(&mut snapshot, files, &unindexed).await?;
    let mut pipe = snapshot.round();
    pipe.simple("COMMIT");
    pipe.run().await?;
    Ok(count)
}

async fn count_missing(snapshot: &mut Snapshot<'_>, files: &FetchedFiles<'_>, inos: &[u64]) -> Result<u64> {
    if files.sees_everything() {
        return Ok(inos.len() as u64);
    }
    for _ in 0..MOST_FETCHES {
        let count = files.reached(inos);
        if !files.missed() {
            return count;
        }
        fetch(snapshot, files, false).await?;
    }
    Err(too_many())
}

/// Fetches all rows that are wanted, in one round trip.
async fn fetch(snapshot: &mut Snapshot<'_>, files: &FetchedFiles<'_>, attributes: bool) -> Result<()> {
    let wanted = files.take_wanted();
    if wanted.is_empty() {
        return Ok(());
    }
    let mut pipe = snapshot.round();
    let sent = SentKeys::send(&mut pipe, snapshot, wanted, attributes);
    let answers = pipe.run().await?;
    sent.put(files, &answers)
}

fn too_many() -> Error {
    Error::new(ErrorKind::TooLarge, "files have too many names to search them; narrow the query")
}

impl<'a> PgPostings<'a> {
    /// Returns the rounds of a search for what `filter` allows.
    pub(super) fn new(snapshot: Snapshot<'a>, files: &'a FetchedFiles<'a>, filter: Filter<'a>) -> Self {
        let (words, totals) = (WordIndex::default(), Totals::default());
        Self { snapshot, files, filter, words, totals, unindexed: Vec::new(), is_begun: false }
    }

    /// Returns the answer to the query, with the content of its hits, and ends the transaction.
    pub(super) async fn finish(mut self, found: Answer<FoundFile>) -> Result<SearchAnswer> {
        let Answer { found, more } = found;
        let query: &SearchQuery = self.filter.query();
        self.files.foresee_hits(&found, query);
        let missing = count_missing(&mut self.snapshot, self.files, &self.unindexed).await?;
        // Withheld lines lead to further rows. Other hits have all they need with what was foreseen.
        let is_last = found.iter().all(|hit| !hit.file.withholds);
        let wanted = self.files.take_wanted();
        let mut pipe = self.snapshot.round();
        let sent = SentKeys::send(&mut pipe, &self.snapshot, wanted, self.has_conditions());
        if is_last {
            pipe.simple("COMMIT");
        }
        let answers = pipe.run().await?;
        sent.put(self.files, &answers)?;
        let hits = if is_last {
            let hits = self.filter.hits(found)?;
            if self.files.missed() {
                let message = "rows of a hit were not foreseen; this is a bug, please report it";
                return Err(Error::new(ErrorKind::Io, message));
            }
            hits
        } else {
            let hits = self.settled(|filter| filter.hits(found.clone())).await?;
            let mut pipe = self.snapshot.round();
            pipe.simple("COMMIT");
            pipe.run().await?;
            hits
        };
        let mut answer = SearchAnswer::default();
        (answer.hits, answer.more, answer.missing) = (hits, more, missing);
        Ok(answer)
    }

    /// Returns true if the query has conditions on attributes.
    fn has_conditions(&self) -> bool {
        let query = self.filter.query();
        !query.tags_any.is_empty() || !query.metadata.is_empty()
    }

    /// Runs a piece of judging on the rows that were fetched, and again once those that it missed have been
    /// fetched as well.
    async fn settled<T>(&mut self, mut run: impl FnMut(&mut Filter<'a>) -> Result<T> + Send) -> Result<T>
    where
        T: Send,
    {
        let attributes = self.has_conditions();
        for _ in 0..MOST_FETCHES {
            let result = run(&mut self.filter);
            if !self.files.missed() {
                return result;
            }
            drop(result);
            fetch(&mut self.snapshot, self.files, attributes).await?;
        }
        Err(too_many())
    }

    async fn started(&mut self, asked: &Start) -> Result<Started> {
        let mut pipe = self.snapshot.round();
        let head = (!self.is_begun).then(|| SentHead::send(&mut pipe, &self.snapshot, self.files));
        let words = asked.words.iter().zip(&asked.limits);
        let words =
            words.flat_map(|(forms, limits)| forms.iter().map(move |form| (&form.word, limits.probe)));
        let near = asked.near.iter().map(|form| (&form.word, asked.near_most));
        let tokens = words.chain(near).map(|(token, most)| (token.clone(), most));
        let tokens = self.words.send(&mut pipe, &self.snapshot, tokens);
        let bound =
            asked.reach.map(|reach| Bound { nodes: reach.nodes, must_fit: true, passages: reach.passages });
        let reach = bound.map(|bound| (bound, self.send_reach(&mut pipe, bound)));
        let answers = pipe.run().await?;
        if let Some(head) = head {
            (self.totals, self.unindexed) = head.put(self.files, &answers)?;
            self.is_begun = true;
        }
        self.words.take(tokens, &answers)?;
        let reach = match reach {
            Some((bound, place)) => self.reach(answers.get(place).map_or(&[], Vec::as_slice), bound)?,
            None => None,
        };
        let probed = |place: usize| asked.limits.get(place).map_or(0, |limits| limits.probe);
        let mut words = self.newest(asked, &probed);
        let has_rare = words.iter().any(|word| {
            word.iter().all(|form| form.complete) && word.iter().any(|form| !form.ids.is_empty())
        });
        if !has_rare && reach.is_none() && self.read_more(asked, &words).await? {
            words = self.newest(asked, &|place| asked.limits.get(place).map_or(0, |limits| limits.most));
        }
        let near = asked.near.iter().map(|form| self.words.newest(&form.word, asked.near_most)).collect();
        Ok(Started { totals: self.totals, reach, words, near })
    }

    /// Returns the newest passages of each form of each word, up to the limit of the word at a place.
    fn newest(&self, asked: &Start, most: &dyn Fn(usize) -> usize) -> Vec<Vec<Newest>> {
        let of_word = |(place, forms): (usize, &Vec<WordForm>)| {
            forms.iter().map(|form| self.words.newest(&form.word, most(place))).collect()
        };
        asked.words.iter().enumerate().map(of_word).collect()
    }

    /// Reads more passages of the forms of which not all are known: the candidates of a question without a
    /// rare word. Returns false if there is nothing to read.
    async fn read_more(&mut self, asked: &Start, found: &[Vec<Newest>]) -> Result<bool> {
        let mut tokens = Vec::new();
        for ((forms, limits), found) in asked.words.iter().zip(&asked.limits).zip(found) {
            let frequent = forms.iter().zip(found).filter(|(_, found)| !found.complete);
            tokens.extend(frequent.map(|(form, _)| (form.word.clone(), limits.most)));
        }
        let has_more = asked.limits.iter().any(|limits| limits.most > limits.probe);
        if tokens.is_empty() || !has_more {
            return Ok(false);
        }
        let mut pipe = self.snapshot.round();
        let tokens = self.words.send(&mut pipe, &self.snapshot, tokens.into_iter());
        let answers = pipe.run().await?;
        self.words.take(tokens, &answers)?;
        Ok(true)
    }

    fn send_reach(&self, pipe: &mut Pipe<'_>, bound: Bound) -> usize {
        if self.filter.is_limited() {
            return subtrees::send(pipe, &self.snapshot, self.filter.within(), bound);
        }
        let most = param(bound.passages as i64 + 1, Type::INT8);
        pipe.query(NEWEST_PASSAGES, vec![self.snapshot.account(), most])
    }

    /// Returns the passages that the query can reach, if they are few.
    fn reach(&self, rows: &[Row], bound: Bound) -> Result<Option<Vec<i64>>> {
        if self.filter.is_limited() {
            let found = subtrees::found(rows, bound)?;
            return Ok((found.all_nodes && found.all_passages).then_some(found.ids));
        }
        let ids = rows.iter().map(|row| column(row, 0)).collect::<Result<Vec<i64>>>()?;
        Ok((ids.len() <= bound.passages).then_some(ids))
    }

    async fn narrowed(&mut self, asked: &Narrow) -> Result<Narrowed> {
        let Narrow { place, words } = asked;
        let (subtree, rare) = match place {
            Place::Passages(ids) => {
                return Ok(Narrowed { subtree: None, words: self.among(words, ids).await? });
            }
            Place::Matches { subtree, rare } => (subtree, rare),
        };
        if let Some(bound) = subtree {
            let bound = Bound { nodes: bound.nodes, must_fit: bound.must_fit, passages: bound.passages };
            if let Some(found) = self.in_subtrees(bound, words).await? {
                return Ok(found);
            }
        }
        if rare.is_empty() {
            return Ok(Narrowed::default());
        }
        let beside = self.words.union(rare);
        Ok(Narrowed { subtree: None, words: self.among(words, &beside).await? })
    }

    /// Looks words up in the passages of the subtrees of the query. Returns `None` if these must fit into the
    /// bound, and do not.
    async fn in_subtrees(&mut self, bound: Bound, words: &[Vec<WordForm>]) -> Result<Option<Narrowed>> {
        let mut pipe = self.snapshot.round();
        let within = self.filter.within();
        let place = subtrees::send(&mut pipe, &self.snapshot, within, bound);
        let tokens = subtrees::send_words(&mut pipe, &self.snapshot, within, (bound, words));
        let answers = pipe.run().await?;
        let rows = |at: usize| answers.get(at).map_or(&[][..], Vec::as_slice);
        let found = subtrees::found(rows(place), bound)?;
        if bound.must_fit && !found.all_nodes {
            return Ok(None);
        }
        let words = self.words.among(rows(tokens), words, &found.ids)?;
        let subtrees::Found { ids, all_nodes, all_passages } = found;
        Ok(Some(Narrowed { subtree: Some(SubtreePassages { ids, all_nodes, all_passages }), words }))
    }

    /// Returns those of some passages, newest first, that contain each form of each word.
    async fn among(&mut self, words: &[Vec<WordForm>], ids: &[i64]) -> Result<Vec<Vec<Vec<i64>>>> {
        let mut pipe = self.snapshot.round();
        let place = WordIndex::send_among(&mut pipe, &self.snapshot, words, ids);
        let answers = pipe.run().await?;
        self.words.among(answers.get(place).map_or(&[], Vec::as_slice), words, ids)
    }

    async fn judged(&mut self, ids: &[i64], files: &mut JudgedFiles<FoundFile>) -> Result<Candidates> {
        let attributes = self.has_conditions();
        let mut pipe = self.snapshot.round();
        let sent = SentPassages::send(&mut pipe, &self.snapshot, ids, (self.files, attributes));
        let answers = pipe.run().await?;
        let mut found = Candidates::default();
        let (mut passages, mut new) = (Vec::new(), Vec::new());
        for passage in sent.put(self.files, &answers)? {
            if !files.is_judged(passage.ino) && !new.contains(&passage.ino) {
                if new.len() == files.room() {
                    found.is_limited = true;
                    break;
                }
                new.push(passage.ino);
            }
            passages.push(passage);
        }
        self.files.foresee_deciders(&passages, self.filter.within());
        fetch(&mut self.snapshot, self.files, attributes).await?;
        let allowed = self.settled(|filter| filter.allow(&new)).await?;
        for (ino, file) in new.into_iter().zip(allowed) {
            files.insert(ino, file);
        }
        let allowed: Vec<(&FoundFile, &Passage)> =
            passages.iter().filter_map(|passage| Some((files.get(passage.ino)?, passage))).collect();
        let mut shown = self.settled(|filter| filter.shows(&allowed)).await?.into_iter();
        found.passages.extend(passages.iter().map(|passage| {
            let shown = files.get(passage.ino).and_then(|_| shown.next());
            (*passage, shown.unwrap_or(Shown::Nothing))
        }));
        Ok(found)
    }

    async fn begun(&mut self, terms: &[Term]) -> Result<Vec<Vec<WordForm>>> {
        let mut pipe = self.snapshot.round();
        let (merged, older) = WordIndex::send_beginnings(&mut pipe, &self.snapshot, terms);
        let answers = pipe.run().await?;
        let rows = |at: usize| answers.get(at).map_or(&[][..], Vec::as_slice);
        self.words.beginnings(terms, [rows(merged), rows(older)])
    }
}

impl Postings for PgPostings<'_> {
    type Error = Error;
    type File = FoundFile;

    fn is_limited(&self) -> bool {
        self.filter.is_limited()
    }

    fn start(&mut self, asked: &Start) -> impl Future<Output = Result<Started>> + Send {
        self.started(asked)
    }

    fn narrow(&mut self, asked: &Narrow) -> impl Future<Output = Result<Narrowed>> + Send {
        self.narrowed(asked)
    }

    fn candidates(
        &mut self,
        ids: &[i64],
        files: &mut JudgedFiles<FoundFile>,
    ) -> impl Future<Output = Result<Candidates>> + Send {
        self.judged(ids, files)
    }

    fn texts(
        &mut self,
        asked: &[(FoundFile, Vec<Passage>)],
    ) -> impl Future<Output = Result<Vec<String>>> + Send {
        self.settled(move |filter| filter.texts(asked))
    }

    fn beginnings(&mut self, terms: &[Term]) -> impl Future<Output = Result<Vec<Vec<WordForm>>>> + Send {
        self.begun(terms)
    }
}
