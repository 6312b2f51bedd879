//! Rebuilds data that is derived from the files: the search index, the keys of projections, the counters of
//! quotas and of the bytes in pack files, and what collections and rules have noted to save work.

use std::sync::Arc;

use futures::executor::block_on;
use rusqlite::Connection;

use crate::engine::sqlite::control::check_version;
use crate::engine::sqlite::fulltext::background::{self, Progress};
use crate::engine::sqlite::fulltext::verify;
use crate::engine::sqlite::maintain::set_quota;
use crate::engine::sqlite::maintain::step::Turn;
use crate::engine::sqlite::tables::{head, judged_prefixes, quotas, retention};
use crate::engine::sqlite::{SqliteFs, projections};
use crate::error::Result;
use crate::sqlite::DbResult;
use crate::text::Tokenizer;

/// Nodes whose inodes are read at a time.
const NODES: usize = 256;

impl SqliteFs {
    /// Implements `AccountStore::reindex` on this thread: file by file, and a long file in pieces.
    pub(crate) fn rebuild_index(&self) -> Result<u64> {
        // An index with a damaged structure cannot be corrected file by file: it is emptied first.
        if self.inner.pool.read_on_new(verify::is_damaged)? {
            self.index_step(background::clear)?;
        }
        let mut at = Progress::default();
        while !at.done {
            let packs = Arc::clone(&self.inner.packs);
            at = self.index_step(move |conn| background::rebuild_files(conn, &packs, at))?;
        }
        // Index rows without a passage are left, which no walk over files and passages finds.
        loop {
            let strays = self.with_view(|view| background::strays(view.conn))?;
            if strays.is_empty() {
                break;
            }
            self.index_step(move |conn| background::remove_strays(conn, &strays))?;
        }
        self.catch_up()?;
        self.rebuild_keys()?;
        let quotas = self.with_view(|view| quotas::all_of(view.conn))?;
        for key in quotas.iter().map(|quota| quota.path.key().to_owned()) {
            self.index_step(move |conn| set_quota::recount(conn, &key))?;
        }
        self.index_step(head::recount_packed)?;
        self.forget_impossible_prefixes()?;
        self.index_step(|conn| {
            retention::search_lost_again(conn)?;
            head::search_all_nodes(conn)
        })?;
        // The steps were not durable. This write syncs them all.
        block_on(self.inner.writer.transact(true, head::touch))?;
        Ok(at.files)
    }

    /// Rebuilds the keys of projections, node by node.
    fn rebuild_keys(&self) -> Result<()> {
        let mut at = Some(0);
        while let Some(behind) = at {
            let (packs, env) = (Arc::clone(&self.inner.packs), self.inner.runtime.env().clone());
            let registry = self.inner.control.registry().clone();
            at = self.index_step(move |conn| {
                let mut turn = Turn::begin(&env);
                let nodes = projections::rebuild::nodes_behind(conn, behind, NODES)?;
                for ino in &nodes {
                    projections::rebuild::remake(conn, &packs, &registry, *ino)?;
                    if turn.is_over() {
                        return Ok(Some(*ino));
                    }
                }
                Ok(nodes.last().copied())
            })?;
        }
        let mut at = Some(0);
        while let Some(behind) = at {
            at = self.index_step(move |conn| {
                let stray = projections::rebuild::next_stray(conn, behind)?;
                stray.map(|ino| projections::forget(conn, ino)).transpose()?;
                Ok(stray)
            })?;
        }
        Ok(())
    }

    /// Forgets how far files satisfy rules, where that cannot be.
    fn forget_impossible_prefixes(&self) -> Result<()> {
        let mut at = Some((Vec::new(), 0));
        while let Some(after) = at {
            let found = self.with_view(|view| judged_prefixes::next(view.conn, &after, NODES))?;
            at = found.last().map(|(key, _)| key.clone());
            let wrong: Vec<_> = found.into_iter().filter(|(_, is_possible)| !is_possible).collect();
            if !wrong.is_empty() {
                // A commit may have replaced one meanwhile. Without it, the file is only judged again.
                self.index_step(move |conn| {
                    wrong.iter().try_for_each(|(key, _)| judged_prefixes::remove_one(conn, key))
                })?;
            }
        }
        Ok(())
    }

    /// Does all remaining work on the index, which a process that stays open does when no one writes.
    pub(crate) fn catch_up(&self) -> Result<()> {
        loop {
            let packs = Arc::clone(&self.inner.packs);
            if !self.index_step(move |conn| background::catch_up(conn, &packs, &mut Tokenizer::default()))? {
                return Ok(());
            }
        }
    }

    /// Runs a step of work on the index alone. It changes no rows that readers cache, so `head.epoch` stays.
    fn index_step<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> DbResult<T> + Send + 'static,
    ) -> Result<T> {
        let _permit = self.inner.runtime.maintenance().acquire();
        let registry = self.inner.control.registry().clone();
        block_on(self.inner.writer.transact(false, move |conn| {
            check_version(head::get(conn)?.projections, &registry)?;
            work(conn)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Env;
    use crate::fs::FileSystem;
    use crate::model::{At, Batch, Op, SearchQuery};
    use crate::path::TreePath;

    fn at(path: &str) -> At {
        At::Path(TreePath::parse(path).unwrap())
    }

    fn found(fs: &SqliteFs, words: &str) -> usize {
        block_on(fs.search(&SearchQuery::new(words))).unwrap().hits.len()
    }

    #[test]
    fn reindex_of_long_file_keeps_it_searchable() {
        let folder = tempfile::tempdir().unwrap();
        let fs = SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
        let long: String = (0..60_000).map(|line| format!("this is line number{line} of it\n")).collect();
        let pieces = long.len() / (256 << 10);
        block_on(fs.commit(Batch::new([Op::write(at("/long"), long), Op::write(at("/short"), "heron")])))
            .unwrap();
        let (mut progress, mut steps) = (Progress::default(), 0);
        while !progress.done {
            for word in ["number7", "number30000", "number59999", "heron"] {
                assert_eq!(found(&fs, word), 1, "{word} after {steps} steps");
            }
            let packs = Arc::clone(&fs.inner.packs);
            progress = fs.index_step(move |conn| background::rebuild_files(conn, &packs, progress)).unwrap();
            steps += 1;
        }
        // A step ends with a segment, so it may index a little more.
        assert!(steps >= pieces, "{steps} steps");
        assert_eq!(progress.files, 2);
        assert_eq!(fs.check().unwrap().findings, []);
    }

    #[test]
    fn unindexed_text_is_reported_and_indexed_later() {
        let folder = tempfile::tempdir().unwrap();
        let fs = SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
        let long: String = (0..60_000).map(|line| format!("this is line number{line} of it\n")).collect();
        let outcome = block_on(fs.commit(Batch::new([Op::write(at("/long"), long)]))).unwrap();
        let ino = outcome.outcomes[0].ino.0;
        let leave = "DELETE FROM passage_word WHERE rowid IN (SELECT id FROM passage WHERE off >= 300000);
             DELETE FROM passage WHERE off >= 300000; DELETE FROM passage_lines WHERE block > 1;";
        fs.index_step(move |conn| {
            conn.execute_batch(leave)?;
            let end: u64 = conn.query_row("SELECT max(off + len) FROM passage", [], |row| row.get(0))?;
            conn.execute("INSERT INTO unindexed VALUES (?1, ?2)", [ino, end])?;
            Ok(())
        })
        .unwrap();
        let missing = || block_on(fs.search(&SearchQuery::new("number59999"))).unwrap().missing;
        // The writer continues by itself.
        while missing() > 0 {
            std::thread::yield_now();
        }
        assert_eq!(found(&fs, "number59999"), 1);
        assert_eq!(fs.check().unwrap().findings, []);
    }

    #[test]
    fn reindex_repairs_any_damage() {
        for damage in [
            "DELETE FROM passage",
            "UPDATE passage SET hash = 0, json = 1",
            "DELETE FROM passage_word WHERE rowid = 1",
            "INSERT INTO passage VALUES (77, 4711, 0, 5, 0, 0, 0, 0, 0)",
            "UPDATE passage_word_data SET block = zeroblob(length(block)) WHERE id > 10",
        ] {
            let folder = tempfile::tempdir().unwrap();
            let fs = SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
            for name in ["/a", "/b"] {
                block_on(fs.commit(Batch::new([Op::write(at(name), "the grey heron")]))).unwrap();
            }
            fs.index_step(move |conn| Ok(conn.execute_batch(damage)?)).unwrap();
            assert_ne!(fs.check().unwrap().findings, [], "{damage}");
            assert_eq!(fs.rebuild_index().unwrap(), 2);
            assert_eq!(fs.check().unwrap().findings, [], "{damage}");
            assert_eq!(found(&fs, "heron"), 2, "{damage}");
        }
    }
}
