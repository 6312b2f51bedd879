//! Index of words: which passages contain a token. The newest passages are in no row of `posting` yet, and
//! have their tokens beside them. Why: `docs/decisions/postgres-postings.md`.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use garth_engine::Result;
use garth_engine::engine::search::{ENDINGS, Newest, WordForm};
use garth_engine::text::question::Term;
use garth_engine::text::token::is_level;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::blocks::{BlockSet, block_of};
use super::snapshot::Snapshot;
use crate::client::{Pipe, param};
use crate::values::columns::{column, int, place};
use crate::values::parameters::{list, texts};

/// New passages whose tokens are read, whatever the question. A merge leaves fewer.
const NEW: &str = "SELECT id, tokens FROM garth.passage
    WHERE account = $1 AND tokens IS NOT NULL ORDER BY id DESC LIMIT 256";
/// Older ones, which there are only while a merge is behind: the database looks for the tokens in question.
const OLDER: &str = "SELECT p.id, string_agg(t.token, ' ') FROM (SELECT id, tokens FROM garth.passage
        WHERE account = $1 AND tokens IS NOT NULL ORDER BY id DESC OFFSET 256) p
    CROSS JOIN LATERAL unnest(string_to_array(p.tokens, ' ')) t(token)
    WHERE t.token = ANY($2) GROUP BY p.id";
const REMOVED: &str = "SELECT id FROM garth.passage_gone WHERE account = $1";
/// Newest rows of tokens: block after block, until the passages that were not removed reach the limit. Each
/// step is one look-up, so the age of the account does not count. A window over the rows of a token would
/// read all of them.
const NEWEST: &str = "SELECT k.n, r.block, r.ids, r.gone
    FROM unnest($2::text[], $3::bigint[]) WITH ORDINALITY k(token, most, n)
    CROSS JOIN (SELECT count(*) AS removed FROM garth.passage_gone WHERE account = $1) q
    CROSS JOIN LATERAL (
        WITH RECURSIVE r(block, live, ids, gone) AS (
            SELECT 9223372036854775807, 0::bigint, NULL::bytea, NULL::bytea
            UNION ALL
            SELECT p.block, r.live + greatest(p.count - coalesce(g.count, 0), 0), p.ids, g.ids FROM r
            CROSS JOIN LATERAL (SELECT block, count, ids FROM garth.posting
                WHERE account = $1 AND token = k.token AND block < r.block ORDER BY block DESC LIMIT 1) p
            LEFT JOIN LATERAL (SELECT count, ids FROM garth.posting
                WHERE account = $1 AND token = '' AND block = p.block OFFSET 0) g ON true
            WHERE r.live < k.most + q.removed)
        SELECT block, ids, gone FROM r WHERE ids IS NOT NULL) r";
/// Rows of tokens in blocks.
const IN_BLOCKS: &str = "SELECT t.n, b.block, p.ids, g.ids
    FROM unnest($3::bigint[]) b(block) CROSS JOIN unnest($2::text[]) WITH ORDINALITY t(token, n)
    CROSS JOIN LATERAL (SELECT ids FROM garth.posting
        WHERE account = $1 AND token = t.token AND block = b.block OFFSET 0) p
    LEFT JOIN LATERAL (SELECT ids FROM garth.posting
        WHERE account = $1 AND token = '' AND block = b.block OFFSET 0) g ON true";
/// First tokens from each term on, each found by one look-up.
const BEGINNINGS: &str = "SELECT k.n, w.token FROM unnest($2::text[]) WITH ORDINALITY k(term, n)
    CROSS JOIN LATERAL (
        WITH RECURSIVE w(token, place) AS (
            (SELECT token, 1 FROM garth.posting WHERE account = $1 AND token >= k.term ORDER BY token LIMIT 1)
            UNION ALL
            SELECT p.token, w.place + 1 FROM w CROSS JOIN LATERAL (SELECT token FROM garth.posting
                WHERE account = $1 AND token > w.token ORDER BY token LIMIT 1) p
            WHERE w.place < $3 AND starts_with(w.token, k.term))
        SELECT token FROM w WHERE starts_with(token, k.term)) w";
/// Tokens of the new passages that [`NEW`] leaves out, from each term on.
const OLDER_BEGINNINGS: &str = "SELECT DISTINCT k.n, t.token FROM (SELECT tokens FROM garth.passage
        WHERE account = $1 AND tokens IS NOT NULL ORDER BY id DESC OFFSET 256) p
    CROSS JOIN LATERAL unnest(string_to_array(p.tokens, ' ')) t(token)
    JOIN unnest($2::text[]) WITH ORDINALITY k(term, n) ON starts_with(t.token, k.term)";

/// Index of words as one search has read it.
#[derive(Default)]
pub(super) struct WordIndex {
    /// Newest passages with their tokens, newest first; `None` before the first round.
    new: Option<Vec<(i64, String)>>,
    /// Merged passages that were removed, as far as no row has them.
    removed: HashSet<i64>,
    /// Passages of the tokens that were asked for.
    lists: HashMap<String, TokenList>,
}

/// Passages of a token, newest first.
#[derive(Default)]
struct TokenList {
    /// Passages that are not merged yet.
    new: Vec<i64>,
    /// The newest of all.
    ids: Vec<i64>,
}

/// Question for passages of tokens that was sent, with the places of its statements.
pub(super) struct SentTokens {
    tokens: BTreeMap<String, usize>,
    new: Option<(usize, usize)>,
    older: usize,
    newest: usize,
}

impl WordIndex {
    /// Adds the statements that read the newest passages of tokens, as many of each as its limit says.
    pub(super) fn send(
        &self,
        pipe: &mut Pipe<'_>,
        snapshot: &Snapshot<'_>,
        asked: impl Iterator<Item = (String, usize)>,
    ) -> SentTokens {
        let mut tokens: BTreeMap<String, usize> = BTreeMap::new();
        for (token, most) in asked {
            tokens.entry(token).and_modify(|known| *known = most.max(*known)).or_insert(most);
        }
        let account = || snapshot.account();
        let new = self.new.is_none();
        let new = new.then(|| (pipe.query(NEW, vec![account()]), pipe.query(REMOVED, vec![account()])));
        let words = || texts(tokens.keys().cloned());
        let older = pipe.query(OLDER, vec![account(), words()]);
        let limits = list(tokens.values().map(|most| int(*most as u64)), Type::INT8_ARRAY);
        let newest = pipe.query(NEWEST, vec![account(), words(), limits]);
        SentTokens { tokens, new, older, newest }
    }

    /// Takes the answers to [`send`](Self::send).
    pub(super) fn take(&mut self, sent: SentTokens, answers: &[Vec<Row>]) -> Result<()> {
        let SentTokens { tokens, new, older, newest } = sent;
        if let Some((new, removed)) = new {
            let texts = rows(answers, new).iter().map(|row| Ok((column(row, 0)?, column(row, 1)?)));
            self.new = Some(texts.collect::<Result<_>>()?);
            let removed = rows(answers, removed).iter().map(|row| column(row, 0));
            self.removed = removed.collect::<Result<_>>()?;
        }
        let mut found: HashMap<&str, TokenList> =
            tokens.keys().map(|token| (token.as_str(), TokenList::default())).collect();
        for (id, text) in self.new.iter().flatten() {
            add_new(&mut found, *id, text);
        }
        for row in rows(answers, older) {
            add_new(&mut found, column(row, 0)?, column(row, 1)?);
        }
        let merged = merged(rows(answers, newest), tokens.len(), &self.removed)?;
        for (token, merged) in tokens.keys().zip(merged) {
            if let Some(list) = found.get_mut(token.as_str()) {
                list.ids = [list.new.as_slice(), &merged].concat();
                // A row that a commit held has been merged after newer ones.
                list.ids.sort_unstable_by(|a, b| b.cmp(a));
            }
        }
        self.lists.extend(found.into_iter().map(|(token, list)| (token.to_owned(), list)));
        Ok(())
    }

    /// Returns the newest passages of a token that was asked for with this limit, or a larger one.
    pub(super) fn newest(&self, token: &str, most: usize) -> Newest {
        let Some(list) = self.lists.get(token) else { return Newest::default() };
        let ids = list.ids.iter().copied().take(most).collect();
        Newest { complete: list.ids.len() < most, ids }
    }

    /// Returns all passages that contain one of some tokens, all of whose passages were read, newest first.
    pub(super) fn union(&self, forms: &[WordForm]) -> Vec<i64> {
        let lists = forms.iter().filter_map(|form| self.lists.get(&form.word));
        let ids: BTreeSet<i64> = lists.flat_map(|list| list.ids.iter().copied()).collect();
        ids.into_iter().rev().collect()
    }

    /// Adds the statement that looks tokens up in the blocks of some passages. Returns its place.
    pub(super) fn send_among(
        pipe: &mut Pipe<'_>,
        snapshot: &Snapshot<'_>,
        words: &[Vec<WordForm>],
        ids: &[i64],
    ) -> usize {
        let blocks: BTreeSet<i64> = ids.iter().map(|id| block_of(*id)).collect();
        let tokens = texts(words.iter().flatten().map(|form| form.word.clone()));
        pipe.query(IN_BLOCKS, vec![snapshot.account(), tokens, list(blocks.into_iter(), Type::INT8_ARRAY)])
    }

    /// Returns those of `ids`, newest first, that contain each form of each word. `found` has the rows of the
    /// tokens in all of their blocks.
    pub(super) fn among(
        &self,
        found: &[Row],
        words: &[Vec<WordForm>],
        ids: &[i64],
    ) -> Result<Vec<Vec<Vec<i64>>>> {
        let is_asked = |id: &i64| ids.binary_search_by(|it| id.cmp(it)).is_ok();
        let count = words.iter().map(Vec::len).sum();
        let mut merged = merged(found, count, &self.removed)?.into_iter();
        let mut of_form = |form: &WordForm| {
            let mut found = merged.next().unwrap_or_default();
            found.extend(self.lists.get(&form.word).iter().flat_map(|list| &list.new));
            found.retain(is_asked);
            found
        };
        Ok(words.iter().map(|forms| forms.iter().map(&mut of_form).collect()).collect())
    }

    /// Adds the statements that read words by their beginnings. Returns their places.
    pub(super) fn send_beginnings(
        pipe: &mut Pipe<'_>,
        snapshot: &Snapshot<'_>,
        terms: &[Term],
    ) -> (usize, usize) {
        let words = || texts(terms.iter().map(|term| term.token.clone()));
        let most = param(i32::try_from(ENDINGS).unwrap_or(i32::MAX), Type::INT4);
        let merged = pipe.query(BEGINNINGS, vec![snapshot.account(), words(), most]);
        (merged, pipe.query(OLDER_BEGINNINGS, vec![snapshot.account(), words()]))
    }

    /// Returns the first words that begin like each term.
    pub(super) fn beginnings(&self, terms: &[Term], found: [&[Row]; 2]) -> Result<Vec<Vec<WordForm>>> {
        let mut words: Vec<BTreeSet<&str>> = vec![BTreeSet::new(); terms.len()];
        for row in found.into_iter().flatten() {
            if let Some(words) = words.get_mut(place(row, 0)?) {
                words.insert(column(row, 1)?);
            }
        }
        let new: BTreeSet<&str> = self.new.iter().flatten().flat_map(|(_, text)| text.split(' ')).collect();
        for (term, words) in terms.iter().zip(&mut words) {
            let from = new.range(term.token.as_str()..);
            words.extend(from.take_while(|word| word.starts_with(&term.token)).take(ENDINGS));
        }
        // The levels of a word take places among the first, too.
        let forms = |words: BTreeSet<&str>| {
            let first = words.into_iter().take(ENDINGS).filter(|word| !is_level(word));
            first.map(|word| WordForm::plain(word.to_owned())).collect()
        };
        Ok(words.into_iter().map(forms).collect())
    }
}

/// Adds a new passage to the lists of its tokens.
fn add_new(found: &mut HashMap<&str, TokenList>, id: i64, tokens: &str) {
    for token in tokens.split(' ') {
        if let Some(list) = found.get_mut(token) {
            list.new.push(id);
        }
    }
}

/// Returns the merged passages of `count` tokens: from rows with the place of the token, the block, its
/// passages, and those of them that were removed.
fn merged(rows: &[Row], count: usize, removed: &HashSet<i64>) -> Result<Vec<Vec<i64>>> {
    let mut lists = vec![Vec::new(); count];
    for row in rows {
        let Some(ids) = lists.get_mut(place(row, 0)?) else { continue };
        let gone = column::<Option<&[u8]>>(row, 3)?.unwrap_or_default();
        BlockSet::of(column(row, 2)?).without(gone).add_to(column(row, 1)?, ids);
    }
    if !removed.is_empty() {
        lists.iter_mut().for_each(|ids| ids.retain(|id| !removed.contains(id)));
    }
    Ok(lists)
}

/// Returns the rows of a statement.
fn rows(answers: &[Vec<Row>], place: usize) -> &[Row] {
    answers.get(place).map_or(&[], Vec::as_slice)
}
