//! Full-text search: the files that a query may return, and the content of a hit.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::engine::planner::NodeRow;
use crate::engine::sqlite::fulltext::index_writer::{readable, unindexed_files};
use crate::engine::sqlite::fulltext::judge::{Judge, Shown};
use crate::engine::sqlite::fulltext::line_counts;
use crate::engine::sqlite::fulltext::passage_search::{self, PassageHit, SearchParams};
use crate::engine::sqlite::fulltext::passages::Passage;
use crate::engine::sqlite::query::read_view::ReadView;
use crate::engine::sqlite::tables::names_of_node::{self, CommitSpan};
use crate::engine::sqlite::tables::{MAX, head, live_names, nodes};
use crate::fs::search_patterns::SearchPatterns;
use crate::model::{
    ByteRange, Hit, HitContext, Ino, MAX_CONTEXT_BYTES, ScoreParts, SearchAnswer, SearchMode, SearchQuery,
    Seq, Timestamp, VersionId, Within,
};
use crate::path::TreePath;
use crate::rule::Rules;
use crate::rule::Searchable;
use crate::sqlite::DbResult;
use crate::sqlite::patience::BYTES_PER_STEP;
use crate::text::context::{Piece, around, best_line};
use crate::text::passage::{self, Span};
use crate::text::question::Question;
use crate::text::secret::{CONTEXT, masked_pieces};
use crate::text::snippet::snippet;
use crate::text::withheld::blanked;

/// Limit on the files counted as missing.
const MISSING: u64 = 1000;

/// Bytes between two passages up to which they are read at once.
const APART: u64 = 4 << 10;

/// Names of a node that are read at a time.
const NAMES: usize = 16;

impl ReadView<'_> {
    pub(crate) fn search(&self, query: &SearchQuery) -> DbResult<SearchAnswer> {
        query.check()?;
        let patterns = SearchPatterns::of(query)?;
        let mut answer = SearchAnswer { missing: self.missing()?, ..SearchAnswer::default() };
        let Some(question) = Question::parse(&query.text) else { return Ok(answer) };
        let mut within = self.reach.within.intersect(&patterns.places()?);
        if !query.within.is_empty() {
            // The caller can only narrow what the handle reaches.
            within = Within::new(query.within.iter().cloned()).intersect(&within);
        }
        let rules = self.control.at(self.conn, head::get(self.conn)?.control)?.rules;
        // Without a rule that hides files from search, no name has to be looked up to apply one.
        let hidden = rules.unsearchable();
        let mut allowed = QueryFilter { view: self, query, patterns, within, rules, hidden };
        let SearchQuery { limit, per_file, neighbours, quick, .. } = *query;
        let meaning = query.mode == SearchMode::Meaning && !quick;
        let asked = SearchParams { text: &query.text, limit, per_file, neighbours, meaning, quick };
        let found = passage_search::search(self.conn, &question, asked, &mut allowed)?;
        answer.more = found.more;
        for found in found.found {
            answer.hits.push(self.hit(found, &question, query.context, &allowed.rules)?);
        }
        Ok(answer)
    }

    fn hit(
        &self,
        found: PassageHit<File>,
        question: &Question,
        context: usize,
        rules: &Rules,
    ) -> DbResult<Hit> {
        let PassageHit { passage, words, neighbours, meaning, file } = found;
        let File { node, path, .. } = file;
        let span = passage.span;
        let lines = line_counts::of(self.conn, &passage)?;
        let text = self.shown_whole((&node, &path), (span, lines.start), rules)?;
        let context = match context {
            0 => None,
            most => Some(self.context((&node, &path), (&passage, lines.start), question, most, rules)?),
        };
        Ok(Hit {
            path,
            ino: Ino(node.ino),
            version: VersionId { seq: Seq(node.seq), ino: Ino(node.ino) },
            score: words + neighbours + meaning,
            parts: ScoreParts { words, neighbours, meaning },
            snippet: snippet(&readable(&text, passage.form), question),
            bytes: span.off..span.end(),
            lines,
            context,
        })
    }

    /// Returns the best line of a passage, with up to `most` lines before and after it. `first` is the
    /// number of the first line of the passage.
    fn context(
        &self,
        (node, path): (&NodeRow, &TreePath),
        (passage, first): (&Passage, u64),
        question: &Question,
        most: usize,
        rules: &Rules,
    ) -> DbResult<HitContext> {
        let span = passage.span;
        let text = self.read(node.ino, node.size, ByteRange { offset: span.off, length: span.len })?;
        // Before the best line is chosen: that must not be a withheld line.
        let text = self.without_withheld(path, text.to_vec(), first)?;
        let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        let best = best_line(lines.iter().map(|line| readable(line, passage.form)), question);
        let off = passage.span.off + lines[..best].iter().map(|line| line.len() as u64).sum::<u64>();
        let end = off + lines.get(best).map_or(0, |line| line.len() as u64);
        // The best line may be as long as a passage, half of the context. A quarter is left on each side of
        // it.
        let side = (MAX_CONTEXT_BYTES - passage::MAX) as u64 / 2;
        let start = off.saturating_sub(side);
        let bytes = self.read(node.ino, node.size, (start..end.saturating_add(side)).into())?;
        let piece =
            Piece { bytes: &bytes, starts: start == 0, ends: start + bytes.len() as u64 >= node.size };
        let found = around(piece, (off - start) as usize..(end - start) as usize, most);
        let (best, at) = (first + best as u64, |byte: usize| start + byte as u64);
        let before = best - found.before as u64;
        let bytes = at(found.bytes.start)..at(found.bytes.end);
        let shown = Span { off: bytes.start, len: bytes.end - bytes.start, newline: false };
        let shown = self.shown_whole((node, path), (shown, before), rules)?;
        Ok(HitContext {
            text: String::from_utf8_lossy(&shown).into_owned(),
            best,
            lines: before..before + found.lines as u64,
            bytes,
        })
    }

    /// Returns pieces of a part of a file as shown: withheld lines are blanked, and secrets are masked
    /// unless a rule shows them. `first` is the number of the part's first line.
    fn shown(
        &self,
        (node, path): (&NodeRow, &TreePath),
        (span, first): (Span, u64),
        rules: &Rules,
        pieces: impl Iterator<Item = Range<usize>>,
    ) -> DbResult<Vec<Vec<u8>>> {
        // The bytes around a span decide if it is a secret.
        let from = span.off.saturating_sub(CONTEXT as u64);
        let length = span.end() + CONTEXT as u64 - from;
        let around = self.read(node.ino, node.size, ByteRange { offset: from, length })?;
        let (before, rest) = around.split_at(around.len().min((span.off - from) as usize));
        let (text, behind) = rest.split_at(rest.len().min(span.len as usize));
        let text = self.without_withheld(path, text.to_vec(), first)?;
        let pieces = pieces.map(|piece| piece.start.min(text.len())..piece.end.min(text.len()));
        Ok(match rules.shows_secrets(path) {
            true => pieces.map(|piece| text[piece].to_vec()).collect(),
            false => masked_pieces(before, &text, behind, pieces).into_iter().map(Cow::into_owned).collect(),
        })
    }

    /// Returns one part of a file as [`Self::shown`].
    fn shown_whole(&self, of: (&NodeRow, &TreePath), part: (Span, u64), rules: &Rules) -> DbResult<Vec<u8>> {
        let whole = 0..part.0.len as usize;
        Ok(self.shown(of, part, rules, std::iter::once(whole))?.pop().unwrap_or_default())
    }

    /// Returns the number of files in reach whose text is not indexed yet.
    fn missing(&self) -> DbResult<u64> {
        let inos = unindexed_files(self.conn, MISSING)?;
        let within = &self.reach.within;
        if within.is_everything() {
            return Ok(inos.len() as u64);
        }
        let mut missing = 0;
        for ino in inos {
            missing +=
                u64::from(!names_of_node::in_span(self.conn, ino, CommitSpan::NOW, within, 1)?.is_empty());
        }
        Ok(missing)
    }
}

/// A file that a query may return.
#[derive(Clone, Debug)]
struct File {
    node: NodeRow,
    /// The first of its paths that may be shown.
    path: TreePath,
    /// True if lines of it may be withheld.
    withholds: bool,
}

/// Files and passages that one query may return.
struct QueryFilter<'a> {
    view: &'a ReadView<'a>,
    query: &'a SearchQuery,
    patterns: SearchPatterns,
    /// Subtrees to search.
    within: Within,
    rules: Arc<Rules>,
    /// Subtrees in which a rule may hide files; `None` if no rule does.
    hidden: Option<Within>,
}

impl QueryFilter<'_> {
    /// Returns true if a rule hides a node under one of its names, even if it has others.
    fn is_hidden(&self, ino: Ino) -> DbResult<bool> {
        let Some(places) = &self.hidden else { return Ok(false) };
        let names = names_of_node::in_span(self.view.conn, ino.0, CommitSpan::NOW, places, usize::MAX)?;
        let mut paths = names.iter().map(|(dir, name)| TreePath::from_row(dir, name));
        Ok(paths.any(|path| !self.rules.is_searchable(&path)))
    }

    /// Returns true if a node matches all conditions of the query except those on names.
    fn is_asked_for(&self, node: &NodeRow) -> DbResult<bool> {
        let SearchQuery { tags_any, metadata, since, until, .. } = self.query;
        let changed = Timestamp(node.mtime);
        if since.is_some_and(|since| changed < since) || until.is_some_and(|until| changed >= until) {
            return Ok(false);
        }
        if tags_any.is_empty() && metadata.is_empty() {
            return Ok(true);
        }
        let own = self.view.attributes(node)?;
        Ok((tags_any.is_empty() || own.tags.iter().any(|tag| tags_any.contains(tag)))
            && metadata.iter().all(|(key, value)| own.metadata.get(key) == Some(value)))
    }

    /// Returns true if search may find the file at a path.
    fn is_found(&self, path: &TreePath) -> DbResult<bool> {
        match self.view.control.registry().searchable(path) {
            Searchable::Yes => Ok(true),
            Searchable::While { file, projection, key, layer } if !layer || self.query.layers => {
                self.view.has_key(&file, projection, key)
            }
            Searchable::While { .. } | Searchable::No => Ok(false),
        }
    }

    /// Returns the first path of a node that may be shown.
    fn first_path(&mut self, ino: Ino) -> DbResult<Option<TreePath>> {
        let mut behind = (String::new(), String::new());
        loop {
            let after = (behind.0.as_str(), behind.1.as_str());
            let names = names_of_node::behind(self.view.conn, ino.0, &self.within, after, NAMES)?;
            for (dir, name) in &names {
                // A node may have very many names, none of which may be shown.
                self.step()?;
                let path = TreePath::from_row(dir, name);
                if self.patterns.have(&path) && self.is_found(&path)? {
                    return Ok(Some(path));
                }
            }
            match names.into_iter().nth(NAMES - 1) {
                Some(last) => behind = last,
                None => return Ok(None),
            }
        }
    }
}

impl Judge for QueryFilter<'_> {
    type File = File;

    fn allow(&mut self, ino: Ino) -> DbResult<Option<File>> {
        let view = self.view;
        let Some(node) = nodes::version(view.conn, ino.0, MAX)? else { return Ok(None) };
        // The cheap conditions first: names are looked up only for nodes that match.
        if node.nlink == 0 || node.expired(view.time) || !self.is_asked_for(&node)? || self.is_hidden(ino)? {
            return Ok(None);
        }
        let Some(path) = self.first_path(ino)? else { return Ok(None) };
        let withholds = view.withholds(&path)?;
        Ok(Some(File { node, path, withholds }))
    }

    fn shows(&mut self, file: &File, passage: &Passage) -> DbResult<Shown> {
        if !file.withholds {
            return Ok(Shown::All);
        }
        let lines = line_counts::of(self.view.conn, passage)?;
        let withheld = self.view.withheld(&file.path, lines.clone())?;
        // Nothing is withheld, or all of it: the text is not needed to decide.
        if withheld.is_empty() {
            return Ok(Shown::All);
        }
        if lines.clone().all(|line| withheld.contains(&line)) {
            return Ok(Shown::Nothing);
        }
        let bytes = ByteRange { offset: passage.span.off, length: passage.span.len };
        let text = self.view.read(file.node.ino, file.node.size, bytes)?.to_vec();
        let text = blanked(text, lines.start, |line| withheld.contains(&line));
        Ok(Shown::Part(readable(&text, passage.form)))
    }

    fn texts(&mut self, file: &File, passages: &[Passage]) -> DbResult<Vec<String>> {
        let mut texts = Vec::new();
        // Passages close to each other are read and searched for secrets at once.
        for near in passages.chunk_by(|one, next| next.span.off.saturating_sub(one.span.end()) <= APART) {
            let (Some(first), Some(last)) = (near.first(), near.last()) else { continue };
            let line = if file.withholds { line_counts::of(self.view.conn, first)?.start } else { 0 };
            let off = first.span.off;
            let span = Span { off, len: last.span.end() - off, newline: false };
            let pieces = near.iter().map(|it| (it.span.off - off) as usize..(it.span.end() - off) as usize);
            let shown = self.view.shown((&file.node, &file.path), (span, line), &self.rules, pieces)?;
            texts.extend(near.iter().zip(&shown).map(|(it, text)| readable(text, it.form)));
        }
        Ok(texts)
    }

    fn below(&mut self, limit: usize) -> DbResult<Option<(Vec<u64>, bool)>> {
        if self.within.is_everything() {
            return Ok(None);
        }
        let mut inos = Vec::new();
        for top in self.within.tops() {
            // One more than the limit shows that there are too many.
            let most = limit.saturating_sub(inos.len()) + 1;
            inos.extend(live_names::nodes_within(self.view.conn, &self.within, top, most)?);
        }
        let all = inos.len() <= limit;
        inos.truncate(limit);
        // A node with several names in the subtrees is in the list once for each.
        inos.sort_unstable();
        inos.dedup();
        Ok(Some((inos, all)))
    }

    fn step(&mut self) -> DbResult<()> {
        // FTS5 works outside of the steps that SQLite counts.
        self.view.patience.map_or(Ok(()), |patience| patience.spend_on(BYTES_PER_STEP))
    }
}
