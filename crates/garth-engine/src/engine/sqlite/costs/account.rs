//! A small account to which a test adds data, and whose calls are compared.

use std::sync::Arc;

use bytes::Bytes;
use futures::executor::block_on;
use tempfile::TempDir;

use crate::engine::sqlite::SqliteFs;
use crate::env::Env;
use crate::fs::FileSystem;
use crate::model::{At, Batch, Commit, CommitId, Op, Seq, SetAttrs, StagedBody};
use crate::path::TreePath;

/// The commit before the data was added.
pub(super) const START: Seq = Seq(3);
/// Id of that commit.
pub(super) const STARTED: CommitId = CommitId(7);
/// Offset at which `/holes` has data again.
pub(super) const BEHIND_THE_HOLE: u64 = 500_000;

pub(super) struct Account {
    pub(super) fs: Arc<SqliteFs>,
    _folder: TempDir,
}

pub(super) fn path(path: &str) -> TreePath {
    TreePath::parse(path).expect("a canonical path")
}

pub(super) fn at(text: &str) -> At {
    At::Path(path(text))
}

impl Account {
    /// Creates a small tree, and adds what `grow` does, which may hold something open.
    pub(super) fn grown<T>(grow: impl FnOnce(&Self) -> T) -> (Self, T) {
        let folder = tempfile::tempdir().expect("a folder");
        let fs = SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry())
            .expect("an account");
        let account = Self { fs, _folder: folder };
        let files = (0..30).map(|n| Op::write(path(&format!("/d/sub/{n:02}")), "some text\n").with_parents());
        account.commit(files);
        account.commit([
            Op::write(path("/d/f"), "first\n"),
            Op::link(path("/d/f"), path("/hard")),
            Op::write(path("/big"), Bytes::from(vec![b'x'; 300_000])),
            Op::write(path("/other"), "other\n"),
            Op::write(path("/moving"), "moving\n"),
            Op::write(path("/holes"), "data"),
            Op::patch(path("/holes"), BEHIND_THE_HOLE, "data"),
            Op::write(path("/d/rare"), "quokka\n")
                .with_attrs(SetAttrs::new().tags(["rare"]).metadata("k", "v")),
            Op::snapshot("kept"),
        ]);
        account.batch(Batch::from(Op::append(path("/d/f"), "second\n")).id(STARTED)).expect("a commit");
        let held = grow(&account);
        // Background work on the index would be counted with the calls. Work that is left for an idle time,
        // up to 16 segments in each of which a search looks its words up, is done here.
        account.fs.inner.writer.stop_chores();
        account.fs.catch_up().expect("the index is merged");
        account.commit([Op::write(path("/last"), "last\n")]);
        (account, held)
    }

    pub(super) fn commit(&self, ops: impl IntoIterator<Item = Op>) {
        self.batch(Batch::new(ops)).expect("a commit");
    }

    pub(super) fn batch(&self, batch: Batch) -> crate::Result<Commit> {
        block_on(self.fs.commit(batch.visible()))
    }

    /// Uploads content.
    pub(super) fn stage(&self, bytes: Vec<u8>) -> crate::Result<StagedBody> {
        let mut upload = block_on(self.fs.stage(&at("/d")))?;
        block_on(upload.write(Bytes::from(bytes)))?;
        block_on(upload.finish())
    }
}
