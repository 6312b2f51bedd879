//! Search in the index: finds the passages that contain the words of a question, and ranks them.
//!
//! A word that few passages contain is looked up completely; of a word that more passages contain than one
//! search can examine, the newest ones are. If the question has a rarer word as well, only passages with that
//! are candidates, and the frequent word is looked up among them. A search therefore reads a bounded number
//! of rows, whatever the account holds.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, params};

use crate::engine::sqlite::fulltext::background::varint;
use crate::engine::sqlite::fulltext::passages::{COLUMNS, Passage, old_until, passage};
use crate::engine::sqlite::fulltext::ranking::{Candidate, Ranked, add_neighbour_scores, saturated};
use crate::model::Ino;
use crate::sqlite::{DbResult, one};
use crate::text::question::{Question, Term};
use crate::text::token::{LEVELS, at_level, is_level};

/// Rows of the index that one search reads, approximately: as many as 200 ms on a slow machine allow.
pub(crate) const ROWS: usize = 60_000;
/// Rows of a word that are read to find out whether it is rare. In a question with a rare word, no more rows
/// of a frequent one are read.
const PROBE: usize = 4_096;
/// Rows that a quick search reads, approximately.
const QUICK_ROWS: usize = 384;
/// Words that a quick search looks up: the longest, which are seldom frequent. Each costs as much as a
/// hundred rows.
const QUICK_WORDS: usize = 6;
/// Names of a subtree that may be examined to search it instead of the matches.
const NAMES: usize = 20_000;
/// Up to this number, matches are always examined one by one, whatever the size of the subtree.
const FEW: usize = 256;
/// Candidates whose length is read and compared at a time.
const CHUNK: usize = 1_024;
/// Most files of a search that are judged.
pub(crate) const JUDGED: usize = 10_000;
/// Words of the index that are read for the beginning of a word.
const ENDINGS: usize = 32;
/// Weight of a word that was found by its beginning alone.
const BY_BEGINNING: f64 = 0.5;
/// Hits with a smaller score are left out: a long question shares some word with any text by chance.
pub(crate) const MIN_SCORE: f64 = 0.05;

/// Decisions on files and passages that a search asks for.
pub(crate) trait Judge {
    /// Result for a file that may be shown.
    type File: Clone;

    /// Returns the file if the query may show it. Called once for each file.
    fn allow(&mut self, ino: Ino) -> DbResult<Option<Self::File>>;

    /// Returns true if a passage of a file may be shown. One that has only withheld lines may not.
    fn shows(&mut self, file: &Self::File, passage: &Passage) -> DbResult<bool>;

    /// Returns at most `limit` nodes in the subtrees of the query, and true if these are all; `None` if the
    /// query is not limited to subtrees.
    fn below(&mut self, limit: usize) -> DbResult<Option<(Vec<u64>, bool)>>;

    /// Called for each row of the index that is read. Fails to end a search that takes too long.
    fn step(&mut self) -> DbResult<()>;
}

/// Parameters of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchParams {
    /// Most passages in all.
    pub(crate) limit: usize,
    /// Most passages of one file.
    pub(crate) per_file: usize,
    /// True if a passage gains from its neighbours.
    pub(crate) neighbours: bool,
    /// True to read only a few rows.
    pub(crate) quick: bool,
}

/// One of the best passages of a file for a question, with the result of [`Judge::allow`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PassageHit<T> {
    pub(crate) passage: Passage,
    /// Share of the question's weight that it matches, 0 to 1.
    pub(crate) words: f64,
    /// Score that it gains from its neighbours; with `words` at most 1.
    pub(crate) neighbours: f64,
    /// Result of `allow`.
    pub(crate) file: T,
}

/// Result of a search, best first.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer<T> {
    pub(crate) found: Vec<PassageHit<T>>,
    /// True if there may be more: the limit was reached, or not all matches could be examined.
    pub(crate) more: bool,
}

/// Returns the best passages for `question`, best first. If the words of the question match no allowed
/// passage, words that begin like them are tried.
///
/// # Errors
/// Errors of SQLite or the judge. No question is an error.
pub(crate) fn search<J: Judge>(
    conn: &Connection,
    question: &Question,
    asked: SearchParams,
    judge: &mut J,
) -> DbResult<Answer<J::File>> {
    let index = Index::new(conn)?;
    let mut wanted: Vec<Vec<Form>> = question.terms().iter().map(|term| index.exactly(term)).collect();
    if asked.quick {
        // The first form of a term is the plain word.
        wanted.sort_by_key(|forms| {
            std::cmp::Reverse(forms.first().map_or(0, |form| form.word.chars().count()))
        });
        wanted.truncate(QUICK_WORDS);
        wanted.iter_mut().for_each(|forms| forms.retain(Form::is_plain));
    }
    let answer = Search::new(&index, wanted, judge, asked)?.run(1.0, asked)?;
    if !answer.found.is_empty() || answer.more || asked.quick {
        return Ok(answer);
    }
    let mut wanted = Vec::new();
    for term in question.terms() {
        wanted.push(index.by_beginning(term)?);
    }
    Search::new(&index, wanted, judge, asked)?.run(BY_BEGINNING, asked)
}

/// A full-text table with its vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    Current,
    /// The index of format 2, for passages that are not indexed again yet. It makes its own tokens.
    Old,
}

impl Table {
    fn name(self) -> &'static str {
        match self {
            Self::Current => "passage_word",
            Self::Old => "passage_text",
        }
    }

    fn vocabulary(self) -> &'static str {
        match self {
            Self::Current => "passage_vocabulary",
            Self::Old => "old_vocabulary",
        }
    }
}

/// One way in which a passage can contain a term.
#[derive(Clone, Debug)]
struct Form {
    table: Table,
    /// A word of the index. It consists of letters, digits and a mark of its level, so it cannot close the
    /// quotes.
    word: String,
    /// Times that a passage contains it, approximately.
    often: f64,
}

impl Form {
    /// Returns true for the form that stands for the word itself, not for its frequency in a passage.
    fn is_plain(&self) -> bool {
        self.often <= 1.0
    }
}

/// The passages that contain one term.
#[derive(Debug, Default)]
struct Matches {
    /// Rows with the frequency of the term, newest first.
    rows: Vec<(i64, f64)>,
    /// True if these are all.
    complete: bool,
    /// Number of passages that contain it; an estimate if the rows are not complete.
    passages: f64,
}

/// The index in the state of one transaction.
struct Index<'a> {
    conn: &'a Connection,
    /// Number of passages.
    passages: f64,
    /// Id of the newest row.
    newest: i64,
    /// True if the index of format 2 is read, too.
    old: bool,
}

impl<'a> Index<'a> {
    fn new(conn: &'a Connection) -> DbResult<Self> {
        let newest: Option<i64> =
            conn.prepare_cached("SELECT max(id) FROM passage")?.query_row([], |r| r.get(0))?;
        let old = old_until(conn)?.is_some_and(|until| until > 0);
        let mut passages = rows_of(conn, Table::Current)?;
        if old {
            passages += rows_of(conn, Table::Old)?;
        }
        Ok(Self { conn, passages: passages.max(1) as f64, newest: newest.unwrap_or(0), old })
    }

    /// Returns the forms of a term as it is.
    fn exactly(&self, term: &Term) -> Vec<Form> {
        let current = |word, often| Form { table: Table::Current, word, often };
        let mut forms = vec![current(term.token.clone(), 1.0)];
        forms.extend(LEVELS.map(|(level, often)| current(at_level(&term.token, level), often)));
        if self.old {
            forms.push(Form { table: Table::Old, word: term.word.clone(), often: 1.0 });
        }
        forms
    }

    /// Returns the words of the index that begin like a term. A single Latin letter stays a word, because it
    /// would match almost everything.
    fn by_beginning(&self, term: &Term) -> DbResult<Vec<Form>> {
        if term.token.len() == 1 {
            return Ok(self.exactly(term));
        }
        let mut forms = Vec::new();
        let tables = if self.old { &[Table::Current, Table::Old][..] } else { &[Table::Current] };
        for table in tables.iter().copied() {
            let sql = format!("SELECT term FROM {} WHERE term >= ?1 LIMIT 1", table.vocabulary());
            let mut from = term.token.clone();
            for _ in 0..ENDINGS {
                let word: Option<String> = one(self.conn, &sql, [&from], |row| row.get(0))?;
                let Some(word) = word.filter(|word| word.starts_with(&term.token)) else { break };
                // The smallest text that is larger than the word.
                from = format!("{word}\0");
                if !is_level(&word) {
                    forms.push(Form { table, word, often: 1.0 });
                }
            }
        }
        Ok(forms)
    }

    /// Returns the newest `most` matches of each form.
    fn newest(&self, forms: &[Form], most: usize, judge: &mut impl Judge) -> DbResult<Matches> {
        let mut matches = Matches { complete: true, ..Matches::default() };
        // All matches from this row on are known.
        let mut known = 0;
        for form in forms {
            let name = form.table.name();
            let sql = format!("SELECT rowid FROM {name} WHERE {name} MATCH ?1 ORDER BY rowid DESC LIMIT ?2");
            let mut statement = self.conn.prepare_cached(&sql)?;
            let mut rows = statement.query(params![quoted(&form.word), most])?;
            let mut count = 0;
            while let Some(row) = rows.next()? {
                judge.step()?;
                count += 1;
                matches.rows.push((row.get(0)?, form.often));
            }
            if count == most {
                matches.complete = false;
                known = known.max(matches.rows.last().map_or(0, |row| row.0));
            }
        }
        matches.settle();
        // Assumes that the older rows contain it as often as the newer ones.
        let seen = (self.newest - known + 1).max(1) as f64 / self.newest.max(1) as f64;
        let newer = matches.rows.partition_point(|row| row.0 >= known) as f64;
        matches.passages = (newer / seen.min(1.0)).min(self.passages);
        Ok(matches)
    }

    /// Returns those of `ids`, newest first, that contain one of the forms. Walks through the matches where
    /// they are close to each other, and looks up the next one where they are not.
    fn among(&self, forms: &[&Form], ids: &[i64], judge: &mut impl Judge) -> DbResult<Vec<(i64, f64)>> {
        /// Matches skipped before the next one is looked up.
        const PASS: usize = 16;
        let mut found = Matches::default();
        for form in forms {
            let name = form.table.name();
            let sql = format!(
                "SELECT rowid FROM {name} WHERE {name} MATCH ?1 AND rowid BETWEEN ?2 AND ?3 ORDER BY rowid DESC"
            );
            let mut statement = self.conn.prepare_cached(&sql)?;
            let mut rest = ids;
            while let (Some(newest), Some(oldest)) = (rest.first(), rest.last()) {
                let mut rows = statement.query(params![quoted(&form.word), oldest, newest])?;
                let mut passed = 0;
                while passed < PASS
                    && let Some(row) = rows.next()?
                {
                    judge.step()?;
                    let id: i64 = row.get(0)?;
                    let skip = rest.partition_point(|wanted| *wanted > id);
                    rest = &rest[skip..];
                    passed = if skip == 0 { passed + 1 } else { 0 };
                    if rest.first() == Some(&id) {
                        found.rows.push((id, form.often));
                        rest = &rest[1..];
                        passed = 0;
                    }
                }
                if passed < PASS {
                    break;
                }
            }
        }
        found.settle();
        Ok(found.rows)
    }

    /// Returns the passages that contain one of `forms` and a word of `rare`, of which there are few.
    fn beside(&self, forms: &[Form], rare: &[&Form], judge: &mut impl Judge) -> DbResult<Vec<(i64, f64)>> {
        let mut found = Matches::default();
        for form in forms {
            let rare = rare.iter().filter(|rare| rare.table == form.table).map(|rare| quoted(&rare.word));
            let rare: Vec<String> = rare.collect();
            if rare.is_empty() {
                continue;
            }
            let name = form.table.name();
            let sql = format!("SELECT rowid FROM {name} WHERE {name} MATCH ?1");
            let expression = format!("{} AND ({})", quoted(&form.word), rare.join(" OR "));
            let mut statement = self.conn.prepare_cached(&sql)?;
            let mut rows = statement.query([expression])?;
            while let Some(row) = rows.next()? {
                judge.step()?;
                found.rows.push((row.get(0)?, form.often));
            }
        }
        found.settle();
        Ok(found.rows)
    }

    /// Returns the newest `most` passages of some files, newest first, and true if these are all.
    fn passages_of(&self, inos: &[u64], most: usize, judge: &mut impl Judge) -> DbResult<(Vec<i64>, bool)> {
        let mut ids: Vec<i64> = Vec::new();
        let sql = "SELECT id FROM passage WHERE ino = ?1 ORDER BY off DESC LIMIT ?2";
        let mut statement = self.conn.prepare_cached(sql)?;
        for ino in inos {
            let mut rows = statement.query(params![ino, ROWS.saturating_sub(ids.len())])?;
            while let Some(row) = rows.next()? {
                judge.step()?;
                ids.push(row.get(0)?);
            }
        }
        ids.sort_unstable_by(|a, b| b.cmp(a));
        let whole = ids.len() <= most;
        ids.truncate(most);
        Ok((ids, whole))
    }
}

impl Matches {
    /// Returns true if there are some, and all of them are known.
    fn are_rare(&self) -> bool {
        self.complete && !self.rows.is_empty()
    }

    /// Leaves each row once, newest first, with the highest frequency that is known of it.
    fn settle(&mut self) {
        self.rows.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)));
        self.rows.dedup_by_key(|row| row.0);
    }
}

fn quoted(word: &str) -> String {
    format!("\"{word}\"")
}

/// Returns the number of rows of a full-text table, which FTS5 stores first in its record of averages.
fn rows_of(conn: &Connection, table: Table) -> DbResult<u64> {
    let sql = format!("SELECT block FROM {}_data WHERE id = 1", table.name());
    let block: Option<Vec<u8>> = one(conn, &sql, [], |row| row.get(0))?;
    Ok(block.and_then(|block| varint(&block).map(|(rows, _)| rows)).unwrap_or(0))
}

/// A term in one round of a search.
struct TermMatches {
    /// Ways in which a passage may contain it.
    forms: Vec<Form>,
    matches: Matches,
    /// Inverse document frequency.
    weight: f64,
}

/// One round of a search.
struct Search<'a, J: Judge> {
    index: &'a Index<'a>,
    judge: &'a mut J,
    wanted: Vec<TermMatches>,
    /// True if some matches are not examined.
    partial: bool,
}

impl<'a, J: Judge> Search<'a, J> {
    fn new(
        index: &'a Index<'a>,
        terms: Vec<Vec<Form>>,
        judge: &'a mut J,
        asked: SearchParams,
    ) -> DbResult<Self> {
        // All words share the rows that one search may read.
        let each = |rows: usize| rows / terms.len().max(1);
        let most = if asked.quick { each(QUICK_ROWS).max(1) } else { each(ROWS).max(FEW) };
        // A question of one word has no rarer one, so there is no need to find out.
        let first = if terms.len() > 1 { most.min(PROBE) } else { most };
        let mut matches = Vec::new();
        for forms in &terms {
            matches.push(index.newest(forms, first, judge)?);
        }
        // Without a rare word the candidates are the newest matches of all words, so more of them are read.
        if most > first && !matches.iter().any(Matches::are_rare) {
            for (forms, matches) in terms.iter().zip(&mut matches).filter(|(_, matches)| !matches.complete) {
                *matches = index.newest(forms, most, judge)?;
            }
        }
        let mut wanted = Vec::new();
        for (forms, matches) in terms.into_iter().zip(matches) {
            let weight = (1.0 + index.passages / matches.passages.max(0.5)).ln();
            wanted.push(TermMatches { forms, matches, weight });
        }
        Ok(Self { index, judge, wanted, partial: false })
    }

    /// Returns the best passages, where each term counts `by` of its weight.
    fn run(mut self, by: f64, asked: SearchParams) -> DbResult<Answer<J::File>> {
        let any_rare = self.wanted.iter().any(|term| term.is_rare());
        // Before the frequent words: it makes some of them complete.
        if !asked.quick {
            self.look_in_subtree(any_rare)?;
        }
        if any_rare {
            self.look_among_rare_matches()?;
        }
        self.partial |= self.wanted.iter().any(|term| !term.matches.complete);
        let total: f64 = self.wanted.iter().map(|term| term.weight).sum();
        let mut rest = self.candidates();
        rest.retain(|candidate| candidate.weight * by / total >= MIN_SCORE);
        // The file, and the number of its passages that may still be returned.
        let mut files: HashMap<Ino, (J::File, usize)> = HashMap::new();
        let mut judged = HashSet::new();
        let mut withheld = 0;
        let mut found = Vec::new();
        // In chunks, best first: mostly the first one fills the page, and the rest is never read.
        while !rest.is_empty() {
            for Ranked { passage, candidate } in self.best_of(&mut rest, asked.neighbours)? {
                if found.len() == asked.limit || judged.len() == JUDGED {
                    return Ok(Answer { found, more: true });
                }
                self.judge.step()?;
                if judged.insert(passage.ino)
                    && let Some(file) = self.judge.allow(passage.ino)?
                {
                    files.insert(passage.ino, (file, asked.per_file));
                }
                if let Some((file, wanted @ 1..)) = files.get_mut(&passage.ino) {
                    if !self.judge.shows(file, &passage)? {
                        withheld += 1;
                        // Without this bound a search over withheld lines alone would read all matches.
                        if withheld == JUDGED {
                            return Ok(Answer { found, more: true });
                        }
                        continue;
                    }
                    *wanted -= 1;
                    let words = (candidate.weight * by / total).min(1.0);
                    // The two parts of a score add up to at most 1.
                    let neighbours = (candidate.beside * by / total).min(1.0 - words);
                    found.push(PassageHit { passage, words, neighbours, file: file.clone() });
                }
            }
        }
        Ok(Answer { found, more: self.partial })
    }

    /// In a query limited to subtrees, uses the nodes of the subtrees if they are fewer than the matches, or
    /// if not all matches can be examined. Then only passages of the subtrees count as matches.
    fn look_in_subtree(&mut self, any_rare: bool) -> DbResult<()> {
        let rare = self.wanted.iter().filter(|term| term.is_rare()).map(|term| term.matches.rows.len());
        let few = if any_rare { rare.sum() } else { NAMES };
        if few < FEW || self.wanted.iter().all(|term| term.matches.rows.is_empty()) {
            return Ok(());
        }
        let Some((inos, all)) = self.judge.below(few.min(NAMES))? else { return Ok(()) };
        if !all && any_rare {
            return Ok(());
        }
        let (ids, whole) = self.index.passages_of(&inos, NAMES / self.wanted.len(), self.judge)?;
        for term in &mut self.wanted {
            if term.matches.complete {
                // All passages of the subtree are known: matches outside need not be judged one by one.
                let inside = |id: &i64| ids.binary_search_by(|it| id.cmp(it)).is_ok();
                term.matches.rows.retain(|(id, _)| !all || !whole || inside(id));
                continue;
            }
            // The frequency is looked up only where it costs little.
            let counted = ids.len() < FEW;
            let forms: Vec<&Form> = term.forms.iter().filter(|form| counted || form.is_plain()).collect();
            let rows = self.index.among(&forms, &ids, self.judge)?;
            if all {
                term.matches.rows = rows;
                term.matches.complete = true;
            } else {
                // Both are large: uses the newest matches, and those in a part of the subtree.
                term.matches.rows.extend(rows);
                term.matches.settle();
            }
        }
        self.partial |= !whole;
        Ok(())
    }

    /// If the question has a rare term, looks for the frequent ones only in its passages.
    fn look_among_rare_matches(&mut self) -> DbResult<()> {
        let (rare, frequent): (Vec<_>, Vec<_>) =
            self.wanted.iter_mut().partition(|term| term.matches.complete);
        let rare = rare.iter().filter(|term| term.is_rare()).flat_map(|term| &term.forms);
        let rare: Vec<&Form> = rare.filter(|form| form.is_plain()).collect();
        for term in frequent {
            term.matches.rows = self.index.beside(&term.forms, &rare, self.judge)?;
            term.matches.complete = true;
        }
        Ok(())
    }

    /// Returns all passages that contain a term, in no order.
    fn candidates(&self) -> Vec<Candidate> {
        let mut candidates: HashMap<i64, Candidate> = HashMap::new();
        for (place, term) in self.wanted.iter().enumerate() {
            for (id, often) in &term.matches.rows {
                let candidate = candidates.entry(*id).or_default();
                candidate.id = *id;
                candidate.terms |= 1 << place;
                candidate.weight += term.weight;
                candidate.rank += term.weight * saturated(*often, 1.0);
            }
        }
        candidates.into_values().collect()
    }

    /// Takes the best of `rest`, best first, ranked by their length and their neighbours as well.
    fn best_of(&self, rest: &mut Vec<Candidate>, neighbours: bool) -> DbResult<Vec<Ranked>> {
        let from = rest.len().saturating_sub(CHUNK);
        if from > 0 {
            rest.select_nth_unstable_by(from, Candidate::order);
        }
        let sql = format!("SELECT {COLUMNS} FROM passage WHERE id = ?1");
        let mut best = Vec::new();
        for candidate in rest.drain(from..) {
            // A row of the index of format 2 may belong to a passage that was deleted.
            let passage = one(self.index.conn, &sql, [candidate.id], passage)?;
            // Computed again below, now with the length of the passage.
            let candidate = Candidate { rank: 0.0, ..candidate };
            best.extend(passage.map(|passage| Ranked { passage, candidate }));
        }
        let words: f64 = best.iter().map(|it| it.passage.length()).sum();
        let average = words / best.len().max(1) as f64;
        let places: HashMap<i64, usize> = best.iter().map(|it| it.passage.id).zip(0..).collect();
        for term in &self.wanted {
            for (id, often) in &term.matches.rows {
                if let Some(place) = places.get(id) {
                    let Ranked { passage, candidate } = &mut best[*place];
                    candidate.rank += term.weight * saturated(*often, passage.length() / average);
                }
            }
        }
        if neighbours {
            let weights: Vec<f64> = self.wanted.iter().map(|term| term.weight).collect();
            add_neighbour_scores(&mut best, &weights);
        }
        best.sort_unstable_by(|a, b| b.order(a));
        Ok(best)
    }
}

impl TermMatches {
    /// Returns true if few passages contain it.
    fn is_rare(&self) -> bool {
        self.matches.are_rare()
    }
}
