//! Files and passages that a query may show.

use super::files::{FileNode, Files, FoundFile};
use super::hits;
use super::judge::{Judge, Shown};
use super::passage::{Passage, readable};
use super::run::PassageHit;
use super::withheld::{has_key, withheld, withholds};
use crate::fs::search_patterns::SearchPatterns;
use crate::model::{ByteRange, Hit, HitContext, Ino, ScoreParts, SearchQuery, Within};
use crate::path::TreePath;
use crate::rule::{Naming, Rules, Searchable};
use crate::text::passage::Span;
use crate::text::question::Question;
use crate::text::snippet::snippet;
use crate::text::withheld::blanked;

/// Bytes between two passages up to which they are read at once.
const APART: u64 = 4 << 10;
/// Names of a node that are read at a time.
const NAMES: usize = 16;

/// Files and passages that one query may show.
pub struct QueryFilter<'a, F> {
    files: &'a F,
    query: &'a SearchQuery,
    question: Question,
    rules: &'a Rules,
    patterns: SearchPatterns,
    /// Subtrees to search.
    within: Within,
    /// Subtrees in which a rule may hide files; `None` if no rule does.
    hidden: Option<Within>,
}

impl<'a, F: Files> QueryFilter<'a, F> {
    /// Returns the filter of a query on the files that `reach` contains; `None` if the query has no word.
    ///
    /// # Errors
    /// `InvalidArgument` for a query that exceeds a limit or has a malformed pattern.
    pub fn new(
        files: &'a F,
        query: &'a SearchQuery,
        reach: &Within,
        rules: &'a Rules,
    ) -> Result<Option<Self>, F::Error> {
        query.check()?;
        let patterns = SearchPatterns::of(query)?;
        let Some(question) = Question::parse(&query.text) else { return Ok(None) };
        let mut within = reach.intersect(&patterns.places()?);
        if !query.within.is_empty() {
            // The caller can only narrow what the handle reaches.
            within = Within::new(query.within.iter().cloned()).intersect(&within);
        }
        // Without a rule that hides files from search, no name has to be looked up to apply one.
        let hidden = rules.unsearchable();
        Ok(Some(Self { files, query, question, rules, patterns, within, hidden }))
    }

    /// Returns the query.
    pub fn query(&self) -> &'a SearchQuery {
        self.query
    }

    /// Returns the words of the query.
    pub fn question(&self) -> &Question {
        &self.question
    }

    /// Returns the subtrees to search.
    pub fn within(&self) -> &Within {
        &self.within
    }

    /// Returns all passages that were found, best first, as hits. Reads the text of those for which the query
    /// asks for it.
    ///
    /// # Errors
    /// Errors of the files.
    pub fn hits(&self, found: Vec<PassageHit<FoundFile>>) -> Result<Vec<Hit>, F::Error> {
        let found = found.into_iter().enumerate();
        found.map(|(place, found)| self.hit(found, place >= self.query.text_from)).collect()
    }

    fn hit(&self, found: PassageHit<FoundFile>, has_text: bool) -> Result<Hit, F::Error> {
        let PassageHit { passage, words, neighbours, meaning, rank, file } = found;
        let span = passage.span;
        let lines = self.files.lines(&passage)?;
        let (snippet, context) = match has_text {
            true => self.text(&file, &passage, lines.start)?,
            false => (String::new(), None),
        };
        let parts = ScoreParts { words, neighbours, meaning };
        Ok(Hit {
            path: file.path,
            ino: file.node.ino,
            version: file.node.version,
            score: parts.sum(),
            rank,
            parts,
            snippet,
            bytes: span.off..span.end(),
            lines,
            context,
        })
    }

    /// Returns the snippet of a passage, and the lines around its best line if the query asks for them.
    /// `first` is the number of the first line of the passage.
    fn text(
        &self,
        file: &FoundFile,
        passage: &Passage,
        first: u64,
    ) -> Result<(String, Option<HitContext>), F::Error> {
        let text = hits::shown_whole(self.files, self.rules, file, (passage.span, first))?;
        let snippet = snippet(&readable(&text, passage.form), &self.question);
        let context = match self.query.context {
            0 => None,
            most => {
                let (of, asked) = ((passage, first), (&self.question, most));
                Some(hits::context(self.files, self.rules, file, of, asked)?)
            }
        };
        Ok((snippet, context))
    }

    /// Returns true if a rule hides a node under one of its names, even if it has others.
    fn is_hidden(&self, ino: Ino) -> Result<bool, F::Error> {
        let Some(places) = &self.hidden else { return Ok(false) };
        let names = self.files.names(ino, places)?;
        let mut paths = names.iter().map(|(dir, name)| TreePath::from_row(dir, name));
        Ok(paths.any(|path| !self.rules.is_searchable(&path)))
    }

    /// Returns true if a node matches all conditions of the query except those on names.
    fn is_asked_for(&self, node: &FileNode) -> Result<bool, F::Error> {
        let SearchQuery { tags_any, metadata, since, until, .. } = self.query;
        let changed = node.changed;
        if since.is_some_and(|since| changed < since) || until.is_some_and(|until| changed >= until) {
            return Ok(false);
        }
        if tags_any.is_empty() && metadata.is_empty() {
            return Ok(true);
        }
        let own = self.files.attributes(node)?;
        Ok((tags_any.is_empty() || own.tags.iter().any(|tag| tags_any.contains(tag)))
            && metadata.iter().all(|(key, value)| own.metadata.get(key) == Some(value)))
    }

    /// Returns true if search may find the file at a path.
    fn is_found(&self, path: &TreePath) -> Result<bool, F::Error> {
        match self.files.registry().searchable(path) {
            Searchable::Yes => Ok(true),
            Searchable::While { file, projection, key, layer } if !layer || self.query.layers => {
                has_key(self.files, &file, projection, key)
            }
            Searchable::While { .. } | Searchable::No => Ok(false),
        }
    }

    /// Returns the first path of a node that may be shown.
    fn first_path(&self, ino: Ino) -> Result<Option<TreePath>, F::Error> {
        let mut behind = (String::new(), String::new());
        loop {
            let after = (behind.0.as_str(), behind.1.as_str());
            let names = self.files.names_behind(ino, &self.within, after, NAMES)?;
            for (dir, name) in &names {
                // A node may have very many names, none of which may be shown.
                self.files.step()?;
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

    fn file(&self, ino: Ino) -> Result<Option<FoundFile>, F::Error> {
        let Some(node) = self.files.node(ino)? else { return Ok(None) };
        // The cheap conditions first: names are looked up only for nodes that match.
        if !self.is_asked_for(&node)? || self.is_hidden(ino)? {
            return Ok(None);
        }
        let Some(path) = self.first_path(ino)? else { return Ok(None) };
        let withholds = withholds(self.files, &path)?;
        let naming = self.naming(&path);
        Ok(Some(FoundFile { node, path, withholds, naming }))
    }

    /// Returns the names of a path that count. Those of the subtrees that are searched do not: a view may
    /// show them under other names, or may not show them at all.
    fn naming(&self, path: &TreePath) -> Naming {
        let above = self.within.top_of(path).map_or(usize::MAX, |top| top.segments().count());
        let naming = self.files.registry().naming(path);
        Naming { fixed: naming.fixed.max(above), ..naming }
    }

    fn shown(&self, file: &FoundFile, passage: &Passage) -> Result<Shown, F::Error> {
        if !file.withholds {
            return Ok(Shown::All);
        }
        let lines = self.files.lines(passage)?;
        let withheld = withheld(self.files, &file.path, lines.clone())?;
        // Nothing is withheld, or all of it: the text is not needed to decide.
        if withheld.is_empty() {
            return Ok(Shown::All);
        }
        if lines.clone().all(|line| withheld.contains(&line)) {
            return Ok(Shown::Nothing);
        }
        let bytes = ByteRange { offset: passage.span.off, length: passage.span.len };
        let text = self.files.read(&file.node, bytes)?.to_vec();
        let text = blanked(text, lines.start, |line| withheld.contains(&line));
        Ok(Shown::Part(readable(&text, passage.form)))
    }

    fn texts_of(&self, file: &FoundFile, passages: &[Passage]) -> Result<Vec<String>, F::Error> {
        let mut texts = Vec::new();
        // Passages close to each other are read and searched for secrets at once.
        for near in passages.chunk_by(|one, next| next.span.off.saturating_sub(one.span.end()) <= APART) {
            let (Some(first), Some(last)) = (near.first(), near.last()) else { continue };
            let line = if file.withholds { self.files.lines(first)?.start } else { 0 };
            let off = first.span.off;
            let span = Span { off, len: last.span.end() - off, newline: false };
            let pieces = near.iter().map(|it| (it.span.off - off) as usize..(it.span.end() - off) as usize);
            let shown = hits::shown(self.files, self.rules, file, (span, line), pieces)?;
            texts.extend(near.iter().zip(&shown).map(|(it, text)| readable(text, it.form)));
        }
        Ok(texts)
    }
}

impl<F: Files> Judge for QueryFilter<'_, F> {
    type Error = F::Error;
    type File = FoundFile;

    fn allow(&mut self, inos: &[Ino]) -> Result<Vec<Option<FoundFile>>, F::Error> {
        inos.iter().map(|ino| self.file(*ino)).collect()
    }

    fn shows(&mut self, passages: &[(&FoundFile, &Passage)]) -> Result<Vec<Shown>, F::Error> {
        passages.iter().map(|(file, passage)| self.shown(file, passage)).collect()
    }

    fn texts(&mut self, files: &[(FoundFile, Vec<Passage>)]) -> Result<Vec<String>, F::Error> {
        let mut texts = Vec::new();
        for (file, passages) in files {
            texts.extend(self.texts_of(file, passages)?);
        }
        Ok(texts)
    }

    fn is_limited(&self) -> bool {
        !self.within.is_everything()
    }

    fn below(&mut self, limit: usize) -> Result<Option<(Vec<u64>, bool)>, F::Error> {
        if self.within.is_everything() {
            return Ok(None);
        }
        let mut inos = Vec::new();
        for top in self.within.tops() {
            // One more than the limit shows that there are too many.
            let most = limit.saturating_sub(inos.len()) + 1;
            inos.extend(self.files.nodes_within(&self.within, top, most)?);
        }
        let all = inos.len() <= limit;
        inos.truncate(limit);
        // A node with several names in the subtrees is in the list once for each.
        inos.sort_unstable();
        inos.dedup();
        Ok(Some((inos, all)))
    }

    fn step(&mut self) -> Result<(), F::Error> {
        self.files.step()
    }
}
