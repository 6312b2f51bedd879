//! Postings in the index of passages: which passages contain a word.

use rusqlite::{Connection, OptionalExtension, Rows, params};

use crate::engine::search::local::{Lookups, Step};
use crate::engine::search::{ENDINGS, Passage, ROWS, Totals, Vocabulary, WordForm};
use crate::engine::sqlite::fulltext::background::varint;
use crate::engine::sqlite::fulltext::passages::{COLUMNS, old_until, passage};
use crate::sqlite::{DbError, DbResult, one};
use crate::text::meaning::share_in_english;
use crate::text::question::Term;
use crate::text::token::is_level;

/// Returns the full-text table of a vocabulary. Passages that are not indexed again yet are in that of format
/// 2, which makes its own tokens.
fn table_of(vocabulary: Vocabulary) -> &'static str {
    match vocabulary {
        Vocabulary::Tokens => "passage_word",
        Vocabulary::Words => "passage_text",
    }
}

/// Returns the table with the words of a vocabulary.
fn vocabulary_of(vocabulary: Vocabulary) -> &'static str {
    match vocabulary {
        Vocabulary::Tokens => "passage_vocabulary",
        Vocabulary::Words => "old_vocabulary",
    }
}

/// The index in the state of one transaction.
pub(crate) struct Index<'a> {
    conn: &'a Connection,
    totals: Totals,
    /// True if the index of format 2 is read, too.
    old: bool,
}

impl<'a> Index<'a> {
    pub(crate) fn new(conn: &'a Connection) -> DbResult<Self> {
        let newest: Option<i64> =
            conn.prepare_cached("SELECT max(id) FROM passage")?.query_row([], |r| r.get(0))?;
        let old = old_until(conn)?.is_some_and(|until| until > 0);
        let mut passages = rows_of(conn, Vocabulary::Tokens)?;
        if old {
            passages += rows_of(conn, Vocabulary::Words)?;
        }
        Ok(Self { conn, totals: Totals { passages, newest: newest.unwrap_or(0) }, old })
    }

    /// Returns true if `least` passages or more contain a form.
    fn are_at_least(&self, form: &WordForm, least: usize, step: Step<'_, DbError>) -> DbResult<bool> {
        step()?;
        let name = table_of(form.vocabulary);
        // Newest first, as in `newest`: older rows are more often of deleted passages, and cost time as well.
        let sql = format!("SELECT 1 FROM {name} WHERE {name} MATCH ?1 ORDER BY rowid DESC LIMIT 1 OFFSET ?2");
        let before = least.saturating_sub(1);
        Ok(one(self.conn, &sql, params![quoted(&form.word), before], |_| Ok(()))?.is_some())
    }
}

impl Lookups for Index<'_> {
    type Error = DbError;

    fn has_words(&self) -> bool {
        self.old
    }

    fn totals(&self) -> Totals {
        self.totals
    }

    fn newest(&self, form: &WordForm, most: usize, step: Step<'_, DbError>) -> DbResult<Vec<i64>> {
        let name = table_of(form.vocabulary);
        let sql = format!("SELECT rowid FROM {name} WHERE {name} MATCH ?1 ORDER BY rowid DESC LIMIT ?2");
        let mut statement = self.conn.prepare_cached(&sql)?;
        ids(statement.query(params![quoted(&form.word), most])?, step)
    }

    /// Returns the passages of a word if they are few. First asks whether a word of everyday English is in
    /// too many: SQLite skips rows in less time than it returns them.
    fn few_with(&self, form: &WordForm, most: usize, step: Step<'_, DbError>) -> DbResult<Option<Vec<i64>>> {
        let expected = share_in_english(&form.word).unwrap_or(0.0) * self.totals.passages as f64;
        if expected >= most as f64 && self.are_at_least(form, most, step)? {
            return Ok(None);
        }
        let ids = self.newest(form, most, step)?;
        Ok((ids.len() < most).then_some(ids))
    }

    /// Walks through the matches where they are close to each other, and looks up the next one where they are
    /// not.
    fn among(&self, form: &WordForm, ids: &[i64], step: Step<'_, DbError>) -> DbResult<Vec<i64>> {
        /// Matches skipped before the next one is looked up.
        const PASS: usize = 16;
        let name = table_of(form.vocabulary);
        let sql = format!(
            "SELECT rowid FROM {name} WHERE {name} MATCH ?1 AND rowid BETWEEN ?2 AND ?3 ORDER BY rowid DESC"
        );
        let mut statement = self.conn.prepare_cached(&sql)?;
        let mut found = Vec::new();
        let mut rest = ids;
        while let (Some(newest), Some(oldest)) = (rest.first(), rest.last()) {
            let mut rows = statement.query(params![quoted(&form.word), oldest, newest])?;
            let mut passed = 0;
            while passed < PASS
                && let Some(row) = rows.next()?
            {
                step()?;
                let id: i64 = row.get(0)?;
                let skip = rest.partition_point(|wanted| *wanted > id);
                rest = &rest[skip..];
                passed = if skip == 0 { passed + 1 } else { 0 };
                if rest.first() == Some(&id) {
                    found.push(id);
                    rest = &rest[1..];
                    passed = 0;
                }
            }
            if passed < PASS {
                break;
            }
        }
        Ok(found)
    }

    fn beside(&self, form: &WordForm, rare: &[&WordForm], step: Step<'_, DbError>) -> DbResult<Vec<i64>> {
        let name = table_of(form.vocabulary);
        let sql = format!("SELECT rowid FROM {name} WHERE {name} MATCH ?1");
        let rare: Vec<String> = rare.iter().map(|rare| quoted(&rare.word)).collect();
        let expression = format!("{} AND ({})", quoted(&form.word), rare.join(" OR "));
        let mut statement = self.conn.prepare_cached(&sql)?;
        ids(statement.query([expression])?, step)
    }

    fn few(&self, most: usize, step: Step<'_, DbError>) -> DbResult<Option<Vec<i64>>> {
        let mut statement = self.conn.prepare_cached("SELECT id FROM passage ORDER BY id DESC LIMIT ?1")?;
        let ids = ids(statement.query([most + 1])?, step)?;
        Ok((ids.len() <= most).then_some(ids))
    }

    fn few_passages_of(
        &self,
        inos: &[u64],
        most: usize,
        step: Step<'_, DbError>,
    ) -> DbResult<Option<Vec<i64>>> {
        let mut found: Vec<i64> = Vec::new();
        let mut statement = self.conn.prepare_cached("SELECT id FROM passage WHERE ino = ?1 LIMIT ?2")?;
        for ino in inos {
            found.extend(ids(statement.query(params![ino, most + 1 - found.len()])?, step)?);
            if found.len() > most {
                return Ok(None);
            }
        }
        found.sort_unstable_by(|a, b| b.cmp(a));
        Ok(Some(found))
    }

    fn passages_of(&self, inos: &[u64], most: usize, step: Step<'_, DbError>) -> DbResult<(Vec<i64>, bool)> {
        let mut found: Vec<i64> = Vec::new();
        let sql = "SELECT id FROM passage WHERE ino = ?1 ORDER BY off DESC LIMIT ?2";
        let mut statement = self.conn.prepare_cached(sql)?;
        for ino in inos {
            found.extend(ids(statement.query(params![ino, ROWS.saturating_sub(found.len())])?, step)?);
        }
        found.sort_unstable_by(|a, b| b.cmp(a));
        let whole = found.len() <= most;
        found.truncate(most);
        Ok((found, whole))
    }

    fn passages(&self, ids: &[i64], step: Step<'_, DbError>) -> DbResult<Vec<Passage>> {
        let sql = format!("SELECT {COLUMNS} FROM passage WHERE id = ?1");
        let mut statement = self.conn.prepare_cached(&sql)?;
        let mut found = Vec::with_capacity(ids.len());
        for id in ids {
            step()?;
            found.extend(statement.query_row([id], passage).optional()?);
        }
        Ok(found)
    }

    fn beginnings(&self, term: &Term) -> DbResult<Vec<WordForm>> {
        let mut forms = Vec::new();
        let both = [Vocabulary::Tokens, Vocabulary::Words];
        for vocabulary in both.into_iter().take(if self.old { 2 } else { 1 }) {
            let sql = format!("SELECT term FROM {} WHERE term >= ?1 LIMIT 1", vocabulary_of(vocabulary));
            let mut from = term.token.clone();
            for _ in 0..ENDINGS {
                let word: Option<String> = one(self.conn, &sql, [&from], |row| row.get(0))?;
                let Some(word) = word.filter(|word| word.starts_with(&term.token)) else { break };
                // The smallest text that is larger than the word.
                from = format!("{word}\0");
                if !is_level(&word) {
                    forms.push(WordForm { vocabulary, word, often: 1.0 });
                }
            }
        }
        Ok(forms)
    }
}

/// Returns the rows of a query whose only column is the id of a passage.
fn ids(mut rows: Rows<'_>, step: Step<'_, DbError>) -> DbResult<Vec<i64>> {
    let mut ids = Vec::new();
    while let Some(row) = rows.next()? {
        step()?;
        ids.push(row.get(0)?);
    }
    Ok(ids)
}

fn quoted(word: &str) -> String {
    format!("\"{word}\"")
}

/// Returns the number of rows of a full-text table, which FTS5 stores first in its record of averages.
fn rows_of(conn: &Connection, vocabulary: Vocabulary) -> DbResult<u64> {
    let sql = format!("SELECT block FROM {}_data WHERE id = 1", table_of(vocabulary));
    let block: Option<Vec<u8>> = one(conn, &sql, [], |row| row.get(0))?;
    Ok(block.and_then(|block| varint(&block).map(|(rows, _)| rows)).unwrap_or(0))
}
