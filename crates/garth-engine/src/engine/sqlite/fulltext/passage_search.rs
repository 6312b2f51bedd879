//! Search in the index: which passages hold the words of a question, and how much of it.
//!
//! A word that few passages hold is looked up whole; of a word that more hold than one search can look at,
//! the newest ones are. Where a rarer word is asked for too, only passages with that are candidates, and the
//! frequent one is looked for among them. So whatever the account holds, a search looks at a bounded number
//! of rows.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, params};

use crate::engine::sqlite::fulltext::background::varint;
use crate::engine::sqlite::fulltext::passages::{COLUMNS, Passage, old_until, passage};
use crate::engine::sqlite::fulltext::ranking::{Candidate, Ranked, add_neighbours, saturated};
use crate::model::Ino;
use crate::sqlite::{DbResult, one};
use crate::text::question::{Question, Term};
use crate::text::token::{LEVELS, at_level, is_level};

/// Rows of the index that one search reads, about: what 200 ms on a slow machine allow.
pub(crate) const ROWS: usize = 60_000;
/// Rows of a word that are read to tell whether it is rare: beside a rare word no more of a frequent one is.
const PROBE: usize = 4_096;
/// Rows that a quick one reads, about.
const QUICK_ROWS: usize = 384;
/// Words that a quick one looks for: the longest, which are seldom frequent. Each costs as much as a hundred
/// rows.
const QUICK_WORDS: usize = 6;
/// Names of a subtree that are looked at to search it instead of the matches.
const NAMES: usize = 20_000;
/// Fewer matches than these are always looked at one by one, whatever the size of the subtree.
const FEW: usize = 256;
/// Candidates whose length is read and compared at a time.
const CHUNK: usize = 1_024;
/// Files that are asked for whether the query may show them.
pub(crate) const JUDGED: usize = 10_000;
/// Words of the index by which the beginning of a word is read.
const ENDINGS: usize = 32;
/// What a word counts that was found by its beginning alone.
const BY_BEGINNING: f64 = 0.5;
/// Hits with a smaller score are left out: by chance a long question shares some word with any text.
pub(crate) const MIN_SCORE: f64 = 0.05;

/// What a search must know of files.
pub(crate) trait Judge {
    /// What it says of a file.
    type File: Clone;

    /// The file, if the query may show it. Asked once a file.
    fn allow(&mut self, ino: Ino) -> DbResult<Option<Self::File>>;

    /// Whether a passage of a file is shown: that of withheld lines alone is not.
    fn shows(&mut self, file: &Self::File, passage: &Passage) -> DbResult<bool>;

    /// The nodes below what the query is bounded by, at most `limit` of them and whether these are all;
    /// `None` if it is not bounded.
    fn below(&mut self, limit: usize) -> DbResult<Option<(Vec<u64>, bool)>>;

    /// Called for each row of the index that is read: ends a search that takes too long.
    fn step(&mut self) -> DbResult<()>;
}

/// How to find, and how much.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// Most passages in all.
    pub(crate) limit: usize,
    /// Most passages of one file.
    pub(crate) per_file: usize,
    /// Whether a passage gains from those beside it.
    pub(crate) neighbours: bool,
    /// Whether to look at little.
    pub(crate) quick: bool,
}

/// One of a file's best passages for a question, and what the judge said of the file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found<T> {
    /// The passage.
    pub(crate) passage: Passage,
    /// The share of the question's weight that it matches, 0 to 1.
    pub(crate) words: f64,
    /// What it gains from its neighbours; with `words` 1 at most.
    pub(crate) neighbours: f64,
    /// What `allow` answered.
    pub(crate) file: T,
}

/// What a search found, best first.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer<T> {
    pub(crate) found: Vec<Found<T>>,
    /// Whether there may be more: the limit was reached, or not all matches could be looked at.
    pub(crate) more: bool,
}

/// The best passages for `question`, best first. If the words of the question find nothing allowed, words
/// that begin like them are tried.
///
/// # Errors
/// What SQLite or the judge says; no question is an error.
pub(crate) fn search<J: Judge>(
    conn: &Connection,
    question: &Question,
    asked: Asked,
    judge: &mut J,
) -> DbResult<Answer<J::File>> {
    let index = Index::new(conn)?;
    let mut wanted: Vec<Vec<Form>> = question.terms().iter().map(|term| index.exactly(term)).collect();
    if asked.quick {
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

/// A full-text table, and the table of its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    Current,
    /// That of format 2, for passages that were not made anew yet. It makes its own tokens.
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

/// One way in which a passage can hold what is wanted.
#[derive(Clone, Debug)]
struct Form {
    table: Table,
    /// A word of the index: letters, digits and a mark of its level, so a quote cannot be closed from inside.
    word: String,
    /// How often a passage has it, about.
    often: f64,
}

impl Form {
    /// Whether it says that a passage has the word at all, not only that it has it often.
    fn is_plain(&self) -> bool {
        self.often <= 1.0
    }
}

/// The passages that hold one term.
#[derive(Debug, Default)]
struct Matches {
    /// Rows with how often they have it, newest first.
    rows: Vec<(i64, f64)>,
    /// Whether these are all.
    complete: bool,
    /// How many passages hold it; estimated if these are not all.
    passages: f64,
}

/// The index as one transaction sees it.
struct Index<'a> {
    conn: &'a Connection,
    /// Passages in all.
    passages: f64,
    /// The newest row.
    newest: i64,
    /// Whether the index of format 2 is read, too.
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

    /// The forms of a term as it is.
    fn exactly(&self, term: &Term) -> Vec<Form> {
        let current = |word, often| Form { table: Table::Current, word, often };
        let mut forms = vec![current(term.token.clone(), 1.0)];
        forms.extend(LEVELS.map(|(level, often)| current(at_level(&term.token, level), often)));
        if self.old {
            forms.push(Form { table: Table::Old, word: term.word.clone(), often: 1.0 });
        }
        forms
    }

    /// The words of the index that begin like a term. A single Latin letter stays a word: it would match
    /// almost everything.
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
                from = format!("{word}\0");
                if !is_level(&word) {
                    forms.push(Form { table, word, often: 1.0 });
                }
            }
        }
        Ok(forms)
    }

    /// The newest `most` matches of each form.
    fn newest(&self, forms: &[Form], most: usize, judge: &mut impl Judge) -> DbResult<Matches> {
        let mut matches = Matches { complete: true, ..Matches::default() };
        // all matches from this row on are known
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
        // as if they were as dense among the older ones
        let seen = (self.newest - known + 1).max(1) as f64 / self.newest.max(1) as f64;
        let newer = matches.rows.partition_point(|row| row.0 >= known) as f64;
        matches.passages = (newer / seen.min(1.0)).min(self.passages);
        Ok(matches)
    }

    /// Those of `ids`, newest first, that hold one of the forms. Goes through the matches where they lie
    /// close, and looks the next one up where they do not.
    fn among(&self, forms: &[&Form], ids: &[i64], judge: &mut impl Judge) -> DbResult<Vec<(i64, f64)>> {
        /// Matches passed over before the next one is looked up.
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

    /// The passages that hold one of `forms` and a word of `rare`, of which there are few.
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

    /// The newest `most` passages of some files, newest first, and whether these are all.
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
    /// Whether there are some and all of them are known.
    fn are_rare(&self) -> bool {
        self.complete && !self.rows.is_empty()
    }

    /// Each row once, newest first, with the most often that is known of it.
    fn settle(&mut self) {
        self.rows.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)));
        self.rows.dedup_by_key(|row| row.0);
    }
}

fn quoted(word: &str) -> String {
    format!("\"{word}\"")
}

/// The rows of a full-text table: FTS5 keeps their number first in its record of averages.
fn rows_of(conn: &Connection, table: Table) -> DbResult<u64> {
    let sql = format!("SELECT block FROM {}_data WHERE id = 1", table.name());
    let block: Option<Vec<u8>> = one(conn, &sql, [], |row| row.get(0))?;
    Ok(block.and_then(|block| varint(&block).map(|(rows, _)| rows)).unwrap_or(0))
}

/// A term in one round of a search.
struct Wanted {
    /// How a passage may hold it.
    forms: Vec<Form>,
    matches: Matches,
    /// Its inverse document frequency: what it says about a passage that this term is in it.
    weight: f64,
}

/// One round of a search.
struct Search<'a, J: Judge> {
    index: &'a Index<'a>,
    judge: &'a mut J,
    wanted: Vec<Wanted>,
    /// Whether some matches are not looked at.
    partial: bool,
}

impl<'a, J: Judge> Search<'a, J> {
    fn new(index: &'a Index<'a>, terms: Vec<Vec<Form>>, judge: &'a mut J, asked: Asked) -> DbResult<Self> {
        let each = |rows: usize| rows / terms.len().max(1);
        let most = if asked.quick { each(QUICK_ROWS).max(1) } else { each(ROWS).max(FEW) };
        // of a word alone it does not matter
        let first = if terms.len() > 1 { most.min(PROBE) } else { most };
        let mut matches = Vec::new();
        for forms in &terms {
            matches.push(index.newest(forms, first, judge)?);
        }
        if most > first && !matches.iter().any(Matches::are_rare) {
            for (forms, matches) in terms.iter().zip(&mut matches).filter(|(_, matches)| !matches.complete) {
                *matches = index.newest(forms, most, judge)?;
            }
        }
        let mut wanted = Vec::new();
        for (forms, matches) in terms.into_iter().zip(matches) {
            let weight = (1.0 + index.passages / matches.passages.max(0.5)).ln();
            wanted.push(Wanted { forms, matches, weight });
        }
        Ok(Self { index, judge, wanted, partial: false })
    }

    /// The best passages, where each term counts `by` of its weight.
    fn run(mut self, by: f64, asked: Asked) -> DbResult<Answer<J::File>> {
        let any_rare = self.wanted.iter().any(|term| term.is_rare());
        if !asked.quick {
            self.look_in_subtree(any_rare)?;
        }
        if any_rare {
            self.look_beside_rare()?;
        }
        self.partial |= self.wanted.iter().any(|term| !term.matches.complete);
        let total: f64 = self.wanted.iter().map(|term| term.weight).sum();
        let mut rest = self.candidates();
        rest.retain(|candidate| candidate.weight * by / total >= MIN_SCORE);
        // what was said of each file, and how many of its passages are still wanted
        let mut files: HashMap<Ino, (J::File, usize)> = HashMap::new();
        let mut judged = HashSet::new();
        let mut withheld = 0;
        let mut found = Vec::new();
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
                        if withheld == JUDGED {
                            return Ok(Answer { found, more: true });
                        }
                        continue;
                    }
                    *wanted -= 1;
                    let words = (candidate.weight * by / total).min(1.0);
                    let neighbours = (candidate.beside * by / total).min(1.0 - words);
                    found.push(Found { passage, words, neighbours, file: file.clone() });
                }
            }
        }
        Ok(Answer { found, more: self.partial })
    }

    /// In a bounded query, goes by the subtree where that is smaller than the matches, or where not all
    /// matches can be looked at: then only passages of the subtree count as matches.
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
                // known whole: those outside need not be judged one by one
                let inside = |id: &i64| ids.binary_search_by(|it| id.cmp(it)).is_ok();
                term.matches.rows.retain(|(id, _)| !all || !whole || inside(id));
                continue;
            }
            // how often counts only where it costs little
            let counted = ids.len() < FEW;
            let forms: Vec<&Form> = term.forms.iter().filter(|form| counted || form.is_plain()).collect();
            let rows = self.index.among(&forms, &ids, self.judge)?;
            if all {
                term.matches.rows = rows;
                term.matches.complete = true;
            } else {
                // neither is small: the newest matches, and those in a part of the subtree
                term.matches.rows.extend(rows);
                term.matches.settle();
            }
        }
        self.partial |= !whole;
        Ok(())
    }

    /// Where a rare term is asked for, too, looks for the frequent ones beside it alone.
    fn look_beside_rare(&mut self) -> DbResult<()> {
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

    /// All passages that hold something, in no order.
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

    /// Takes the best of `rest`, best first, ranked by their length, too, and by their neighbours.
    fn best_of(&self, rest: &mut Vec<Candidate>, neighbours: bool) -> DbResult<Vec<Ranked>> {
        let from = rest.len().saturating_sub(CHUNK);
        if from > 0 {
            rest.select_nth_unstable_by(from, Candidate::order);
        }
        let sql = format!("SELECT {COLUMNS} FROM passage WHERE id = ?1");
        let mut best = Vec::new();
        for candidate in rest.drain(from..) {
            // a row of the index of format 2 may be of a passage that has gone
            let passage = one(self.index.conn, &sql, [candidate.id], passage)?;
            let candidate = Candidate { rank: 0.0, ..candidate };
            best.extend(passage.map(|passage| Ranked { passage, candidate }));
        }
        let bytes: u64 = best.iter().map(|it| it.passage.span.len).sum();
        let average = bytes as f64 / best.len().max(1) as f64;
        let places: HashMap<i64, usize> = best.iter().map(|it| it.passage.id).zip(0..).collect();
        for term in &self.wanted {
            for (id, often) in &term.matches.rows {
                if let Some(place) = places.get(id) {
                    let Ranked { passage, candidate } = &mut best[*place];
                    candidate.rank += term.weight * saturated(*often, passage.span.len as f64 / average);
                }
            }
        }
        if neighbours {
            let weights: Vec<f64> = self.wanted.iter().map(|term| term.weight).collect();
            add_neighbours(&mut best, &weights);
        }
        best.sort_unstable_by(|a, b| b.candidate.order(&a.candidate));
        Ok(best)
    }
}

impl Wanted {
    /// Whether few passages hold it.
    fn is_rare(&self) -> bool {
        self.matches.are_rare()
    }
}
