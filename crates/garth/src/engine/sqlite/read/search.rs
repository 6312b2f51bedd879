//! Lexical search: which files a query may show, and what a hit says.

use crate::engine::sqlite::index::fts;
use crate::engine::sqlite::read::rows;
use crate::engine::sqlite::read::view::ReadView;
use crate::error::Error;
use crate::model::{ByteRange, Hit, Ino, MAX_HITS, SearchQuery, Seq, VersionId};
use crate::path::TreePath;
use crate::sqlite::DbResult;
use crate::text::question::Question;
use crate::text::snippet::snippet;

impl ReadView<'_> {
    pub(crate) fn search(&self, query: &SearchQuery) -> DbResult<Vec<Hit>> {
        if !(1..=MAX_HITS).contains(&query.limit) {
            return Err(Error::invalid(format!("the limit of a search is 1 to {MAX_HITS}")).into());
        }
        let Some(question) = Question::parse(&query.text) else { return Ok(Vec::new()) };
        let found = fts::search(self.conn, &question, query.limit, &mut |ino| self.allow(query, ino))?;
        let hits = found.into_iter().map(|found| {
            let (node, path) = found.file;
            let span = found.passage.span;
            let text = self.read(node.ino, node.size, ByteRange { offset: span.off, length: span.len })?;
            Ok(Hit {
                path,
                ino: Ino(node.ino),
                version: VersionId { seq: Seq(node.seq), ino: Ino(node.ino) },
                score: found.score,
                snippet: snippet(&String::from_utf8_lossy(&text), &question),
                bytes: span.off..span.end(),
                lines: fts::lines_of(self.conn, &found.passage)?,
            })
        });
        hits.collect()
    }

    /// The file and the first of its paths that the query may show.
    fn allow(
        &self,
        query: &SearchQuery,
        ino: Ino,
    ) -> DbResult<Option<(crate::engine::planner::NodeRow, TreePath)>> {
        let Some(node) = rows::node(self.conn, ino.0, rows::MAX)? else { return Ok(None) };
        if node.nlink == 0 || node.expired(self.time) {
            return Ok(None);
        }
        if !query.tags_any.is_empty() {
            let tags = self.attributes(&node)?.tags;
            if !tags.iter().any(|tag| query.tags_any.contains(tag)) {
                return Ok(None);
            }
        }
        let within =
            |path: &TreePath| query.within.is_empty() || query.within.iter().any(|top| path.is_within(top));
        let path = self.names(&node)?.into_iter().find(within);
        Ok(path.map(|path| (node, path)))
    }
}
