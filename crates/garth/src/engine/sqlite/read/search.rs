//! Lexical search: which files a query may show, and what a hit says.

use std::sync::Arc;

use crate::engine::planner::NodeRow;
use crate::engine::sqlite::index::find::{self, Judge};
use crate::engine::sqlite::index::fts::readable;
use crate::engine::sqlite::index::lines;
use crate::engine::sqlite::read::rows;
use crate::engine::sqlite::read::view::ReadView;
use crate::model::{ByteRange, Hit, Ino, SearchAnswer, SearchQuery, Seq, VersionId, Within};
use crate::path::TreePath;
use crate::rule::Rules;
use crate::sqlite::patience::BYTES_PER_STEP;
use crate::sqlite::{DbResult, all};
use crate::text::question::Question;
use crate::text::snippet::snippet;

/// Files counted as missing; more are not counted.
const MISSING: u64 = 1000;

impl ReadView<'_> {
    pub(crate) fn search(&self, query: &SearchQuery) -> DbResult<SearchAnswer> {
        query.check()?;
        let mut answer = SearchAnswer { missing: self.missing()?, ..SearchAnswer::default() };
        let Some(question) = Question::parse(&query.text) else { return Ok(answer) };
        let within = match query.within.is_empty() {
            true => self.reach.within.clone(),
            false => Within::new(query.within.iter().cloned()).intersect(&self.reach.within),
        };
        let rules = self.control.at(self.conn, rows::head(self.conn)?.control)?.rules;
        let hidden = rules.unsearchable();
        let mut allowed = Allowed { view: self, query, within, rules, hidden };
        let found = find::search(self.conn, &question, query.limit, &mut allowed)?;
        answer.more = found.more;
        for found in found.found {
            let (node, path) = found.file;
            let span = found.passage.span;
            let text = self.read(node.ino, node.size, ByteRange { offset: span.off, length: span.len })?;
            answer.hits.push(Hit {
                path,
                ino: Ino(node.ino),
                version: VersionId { seq: Seq(node.seq), ino: Ino(node.ino) },
                score: found.score,
                snippet: snippet(&readable(&text, found.passage.json), &question),
                bytes: span.off..span.end(),
                lines: lines::of(self.conn, &found.passage)?,
            });
        }
        Ok(answer)
    }

    /// How many files in reach have text that is not indexed yet.
    fn missing(&self) -> DbResult<u64> {
        let inos: Vec<u64> =
            all(self.conn, "SELECT ino FROM unindexed LIMIT ?1", [MISSING], |row| row.get(0))?;
        let within = &self.reach.within;
        if within.is_everything() {
            return Ok(inos.len() as u64);
        }
        let mut missing = 0;
        for ino in inos {
            missing += u64::from(!rows::names_of(self.conn, ino, rows::Span::NOW, within, 1)?.is_empty());
        }
        Ok(missing)
    }
}

/// What one query may show.
struct Allowed<'a> {
    view: &'a ReadView<'a>,
    query: &'a SearchQuery,
    /// The subtrees in which to search.
    within: Within,
    rules: Arc<Rules>,
    /// Where rules may hide something.
    hidden: Option<Within>,
}

impl Allowed<'_> {
    /// Whether a rule hides a node under one of its names, also if it has others.
    fn is_hidden(&self, ino: Ino) -> DbResult<bool> {
        let Some(places) = &self.hidden else { return Ok(false) };
        let names = rows::names_of(self.view.conn, ino.0, rows::Span::NOW, places, usize::MAX)?;
        let mut paths = names.iter().map(|(dir, name)| TreePath::from_row(dir, name));
        Ok(paths.any(|path| !self.rules.is_searchable(&path)))
    }
}

impl Judge for Allowed<'_> {
    type File = (NodeRow, TreePath);

    /// The file and the first of its paths that the query may show.
    fn allow(&mut self, ino: Ino) -> DbResult<Option<Self::File>> {
        let view = self.view;
        let Some(node) = rows::node(view.conn, ino.0, rows::MAX)? else { return Ok(None) };
        if node.nlink == 0 || node.expired(view.time) {
            return Ok(None);
        }
        if !self.query.tags_any.is_empty() {
            let tags = view.attributes(&node)?.tags;
            if !tags.iter().any(|tag| self.query.tags_any.contains(tag)) {
                return Ok(None);
            }
        }
        if self.is_hidden(ino)? {
            return Ok(None);
        }
        let first = rows::names_behind(view.conn, ino.0, &self.within, ("", ""), 1)?.pop();
        Ok(first.map(|(dir, name)| (node, TreePath::from_row(&dir, &name))))
    }

    fn below(&mut self, limit: usize) -> DbResult<Option<(Vec<u64>, bool)>> {
        if self.within.is_everything() {
            return Ok(None);
        }
        let mut inos = Vec::new();
        for top in self.within.tops() {
            let most = limit.saturating_sub(inos.len()) + 1;
            inos.extend(rows::nodes_within(self.view.conn, &self.within, top, most)?);
        }
        let all = inos.len() <= limit;
        inos.truncate(limit);
        inos.sort_unstable();
        inos.dedup();
        Ok(Some((inos, all)))
    }

    fn step(&mut self) -> DbResult<()> {
        // FTS5 works beside the steps that SQLite counts
        self.view.patience.map_or(Ok(()), |patience| patience.spend_on(BYTES_PER_STEP))
    }
}
