//! Postings in the index of passages: which passages contain a word.

use rusqlite::{Connection, params};

use crate::engine::sqlite::fulltext::background::varint;
use crate::engine::sqlite::fulltext::judge::Judge;
use crate::engine::sqlite::fulltext::passages::old_until;
use crate::sqlite::{DbResult, one};
use crate::text::question::Term;
use crate::text::token::{LEVELS, at_level, is_level};

/// Rows of the index that one search reads, approximately: as many as 200 ms on a slow machine allow.
pub(crate) const ROWS: usize = 60_000;
/// Words of the index that are read for the beginning of a word.
const ENDINGS: usize = 32;

/// A full-text table with its vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
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
pub(super) struct Form {
    pub(super) table: Table,
    /// A word of the index. It consists of letters, digits and a mark of its level, so it cannot close the
    /// quotes.
    pub(super) word: String,
    /// Times that a passage contains it, approximately.
    pub(super) often: f64,
}

impl Form {
    /// Returns the form of a word itself.
    pub(super) fn plain(word: String) -> Self {
        Self { table: Table::Current, word, often: 1.0 }
    }

    /// Returns true for the form that stands for the word itself, not for its frequency in a passage.
    pub(super) fn is_plain(&self) -> bool {
        self.often <= 1.0
    }
}

/// The passages that contain one term.
#[derive(Debug, Default)]
pub(super) struct Matches {
    /// Rows with the frequency of the term, newest first.
    pub(super) rows: Vec<(i64, f64)>,
    /// True if these are all.
    pub(super) complete: bool,
    /// Number of passages that contain it; an estimate if the rows are not complete.
    pub(super) passages: f64,
}

/// The index in the state of one transaction.
pub(super) struct Index<'a> {
    pub(super) conn: &'a Connection,
    /// Number of passages.
    pub(super) passages: f64,
    /// Id of the newest row.
    pub(super) newest: i64,
    /// True if the index of format 2 is read, too.
    pub(super) old: bool,
}

impl<'a> Index<'a> {
    pub(super) fn new(conn: &'a Connection) -> DbResult<Self> {
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
    pub(super) fn exactly(&self, term: &Term) -> Vec<Form> {
        let mut forms = vec![Form::plain(term.token.clone())];
        let levels = LEVELS.map(|(level, often)| (at_level(&term.token, level), often));
        forms.extend(levels.map(|(word, often)| Form { often, ..Form::plain(word) }));
        if self.old {
            forms.push(Form { table: Table::Old, word: term.word.clone(), often: 1.0 });
        }
        forms
    }

    /// Returns the words of the index that begin like a term. A single Latin letter stays a word, because it
    /// would match almost everything.
    pub(super) fn by_beginning(&self, term: &Term) -> DbResult<Vec<Form>> {
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
    pub(super) fn newest(&self, forms: &[Form], most: usize, judge: &mut impl Judge) -> DbResult<Matches> {
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
    pub(super) fn among(
        &self,
        forms: &[&Form],
        ids: &[i64],
        judge: &mut impl Judge,
    ) -> DbResult<Vec<(i64, f64)>> {
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
    pub(super) fn beside(
        &self,
        forms: &[Form],
        rare: &[&Form],
        judge: &mut impl Judge,
    ) -> DbResult<Vec<(i64, f64)>> {
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

    /// Returns all passages, newest first; `None` if they are more than `most`.
    pub(super) fn few(&self, most: usize, judge: &mut impl Judge) -> DbResult<Option<Vec<i64>>> {
        let mut statement = self.conn.prepare_cached("SELECT id FROM passage ORDER BY id DESC LIMIT ?1")?;
        let mut rows = statement.query([most + 1])?;
        let mut ids = Vec::new();
        while let Some(row) = rows.next()? {
            judge.step()?;
            ids.push(row.get(0)?);
        }
        Ok((ids.len() <= most).then_some(ids))
    }

    /// Returns all passages of some files, newest first; `None` if they are more than `most`.
    pub(super) fn few_passages_of(
        &self,
        inos: &[u64],
        most: usize,
        judge: &mut impl Judge,
    ) -> DbResult<Option<Vec<i64>>> {
        let mut ids: Vec<i64> = Vec::new();
        let mut statement = self.conn.prepare_cached("SELECT id FROM passage WHERE ino = ?1 LIMIT ?2")?;
        for ino in inos {
            let mut rows = statement.query(params![ino, most + 1 - ids.len()])?;
            while let Some(row) = rows.next()? {
                judge.step()?;
                ids.push(row.get(0)?);
            }
            if ids.len() > most {
                return Ok(None);
            }
        }
        ids.sort_unstable_by(|a, b| b.cmp(a));
        Ok(Some(ids))
    }

    /// Returns the newest `most` passages of some files, newest first, and true if these are all.
    pub(super) fn passages_of(
        &self,
        inos: &[u64],
        most: usize,
        judge: &mut impl Judge,
    ) -> DbResult<(Vec<i64>, bool)> {
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
    pub(super) fn are_rare(&self) -> bool {
        self.complete && !self.rows.is_empty()
    }

    /// Leaves the rows that are among `ids`, which are given newest first.
    pub(super) fn keep(&mut self, ids: &[i64]) {
        self.rows.retain(|(id, _)| ids.binary_search_by(|it| id.cmp(it)).is_ok());
    }

    /// Leaves each row once, newest first, with the highest frequency that is known of it.
    pub(super) fn settle(&mut self) {
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
