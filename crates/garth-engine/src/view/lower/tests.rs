//! Lowering by a small view that needs all of it: files of `/below` show until they are changed, which copies
//! them to `/above` first.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::executor::block_on;

use super::*;
use crate::engine::memory::MemoryFs;
use crate::env::Env;
use crate::fs::FileSystem;
use crate::fs::lower::{StoreId, StoreLowering};
use crate::model::{ByteRange, Idempotency, Ino, Timestamp, VersionId};

#[derive(Clone, Debug)]
struct CopyUp {
    store: MemoryFs,
    /// Its store, and that of `/other`.
    stores: [Store; 2],
    /// Number of times that others still change what a lowering has read.
    overtaken: Arc<AtomicUsize>,
    lowered: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Session {
    view: CopyUp,
    copied: HashSet<TreePath>,
}

fn path(text: &str) -> TreePath {
    TreePath::parse(text).expect("a canonical path")
}

fn at(text: &str) -> At {
    At::Path(path(text))
}

fn store_of(fs: &MemoryFs) -> Store {
    let LoweredAddress { store, .. } =
        block_on(fs.view_base().lowering().lower(&at("/"), Access::Read)).expect("a store is itself");
    store
}

#[async_trait]
impl Lowering for Session {
    fn home(&self) -> Store {
        self.view.stores[0].clone()
    }

    async fn lower(&mut self, at: &At, access: Access) -> Result<LoweredAddress> {
        let At::Path(asked) = at else { return Err(Error::invalid("by path only")) };
        if asked.is_within(&path("/other")) {
            return StoreLowering(self.view.stores[1].clone()).lower(at, access).await;
        }
        let [above, below] = ["/above", "/below"].map(|top| path(top).append(asked));
        let (above, below) = (above?, below?);
        let (mut lowered, fs) =
            (StoreLowering(self.view.stores[0].clone()).lower(at, access).await?, &self.view.store);
        lowered.at = At::Path(above.clone());
        let top = fs.stat(&lowered.at).await;
        let bottom = fs.stat(&At::Path(below.clone())).await;
        if let (Err(_), Ok(entry)) = (top, bottom)
            && !self.copied.contains(asked)
        {
            lowered.assumptions = vec![
                (At::Path(above.clone()), Precondition::Absent),
                (At::Path(below.clone()), Precondition::Version(entry.version)),
            ];
            if !access.changes() {
                lowered.at = At::Path(below);
            } else {
                self.copied.insert(asked.clone());
                lowered.before = vec![Op::copy_tree(below.clone(), above).with_parents()];
                let hides = Op::mkdir_all(path("/hidden").append(asked)?);
                lowered.after =
                    Vec::from_iter(matches!(access, Access::Remove | Access::RemoveTree).then_some(hides));
                if self.view.overtaken.load(Ordering::Relaxed) > 0 {
                    self.view.overtaken.fetch_sub(1, Ordering::Relaxed);
                    // Another client changes the file after it was read.
                    fs.commit(Op::append(below, "!").into()).await?;
                }
            }
        }
        Ok(lowered)
    }

    async fn number(&mut self, ino: Ino) -> Result<Ino> {
        Ok(if ino == Ino(70) { Ino(3) } else { ino })
    }

    async fn tops(&mut self, top: &TreePath) -> Result<Vec<(StoreId, TreePath)>> {
        Ok(vec![(self.view.stores[0].id, path("/above").append(top)?)])
    }

    fn raise(&self, store: StoreId, at: &TreePath) -> Option<TreePath> {
        let tops = [path("/above"), path("/below")];
        let own = store == self.view.stores[0].id;
        tops.iter().filter(|_| own).find_map(|top| at.rebase(top, &TreePath::root())?.ok())
    }
}

/// `/below/f` is node 3.
fn view(overtaken: usize) -> CopyUp {
    let store = MemoryFs::new(Env::system(), crate::rule::sample::registry());
    let ops = [Op::mkdir(path("/below")), Op::write(path("/below/f"), "one"), Op::mkdir(path("/above"))];
    block_on(store.commit(Batch::new(ops))).expect("an empty tree takes names");
    let other = MemoryFs::new(Env::system(), crate::rule::sample::registry());
    block_on(other.commit(Op::mkdir(path("/other")).into())).expect("an empty tree takes a name");
    let stores = [store_of(&store), store_of(&other)];
    CopyUp { store, stores, overtaken: Arc::new(AtomicUsize::new(overtaken)), lowered: Arc::default() }
}

impl CopyUp {
    fn commit(&self, batch: Batch) -> Result<Commit> {
        let begin = || {
            self.lowered.fetch_add(1, Ordering::Relaxed);
            Box::new(Session { view: self.clone(), copied: HashSet::new() }) as Box<dyn Lowering>
        };
        block_on(async move { commit(&begin, &batch).await })
    }

    fn text(&self, at: &str) -> String {
        let bytes = block_on(self.store.read(&At::Path(path(at)), ByteRange::ALL)).expect("a file");
        String::from_utf8(bytes.to_vec()).expect("text")
    }

    fn lowered(&self) -> usize {
        self.lowered.load(Ordering::Relaxed)
    }
}

#[test]
fn added_operations_share_commit_without_outcomes() {
    let view = view(0);
    let ops = [
        Op::append(path("/f"), " two"),
        Op::append(path("/f"), " three"),
        Op::check(at("/f"), Precondition::Exists),
    ];
    let commit = view.commit(Batch::new(ops)).expect("a batch is lowered");
    assert_eq!((view.text("/above/f"), view.text("/below/f")), ("one two three".into(), "one".into()));
    assert_eq!((commit.seq.0, commit.outcomes.len()), (2, 3), "one commit, one outcome an operation");
    assert!(commit.outcomes.iter().all(|outcome| !outcome.created));
    assert_eq!(commit.outcomes[1].size, 13);
    view.commit(Op::remove(at("/f")).into()).expect("it is above now");
    let removed = view.commit(Op::remove(at("/f")).into()).expect("it shows from below again");
    assert_eq!(removed.outcomes.len(), 1);
    assert!(block_on(view.store.stat(&at("/hidden/f"))).is_ok(), "and is hidden in the same commit");
}

#[test]
fn retry_returns_first_outcome_despite_other_lowering() {
    let view = view(0);
    let record = Idempotency::new("k", [1; 32], Timestamp(i64::MAX));
    let batch = Batch::new([Op::append(path("/f"), " two")]).idempotency(record);
    let first = view.commit(batch.clone()).expect("a batch is lowered");
    let again = view.commit(batch).expect("a retry is answered");
    assert_eq!((again.outcomes, again.seq, again.replayed), (first.outcomes, first.seq, true));
    assert_eq!(view.text("/above/f"), "one two");
}

#[test]
fn overtaken_batch_is_lowered_again_then_fails() {
    let some = view(2);
    some.commit(Op::append(path("/f"), " two").into()).expect("the third time nobody came in between");
    assert_eq!((some.lowered(), some.text("/above/f")), (3, "one!! two".into()));
    // Others change the file during each attempt.
    let always = view(usize::MAX);
    let error = always.commit(Op::append(path("/f"), " two").into()).expect_err("it never gets through");
    assert_eq!((error.kind(), always.lowered()), (ErrorKind::WouldBlock, ATTEMPTS));
}

#[test]
fn batch_across_two_stores_is_rejected() {
    let view = view(0);
    let across = Op::rename(path("/f"), path("/other/f"));
    assert_eq!(view.commit(across.into()).expect_err("two stores").kind(), ErrorKind::CrossesMounts);
    let seen = Batch::new([Op::append(path("/f"), "x")]).require(at("/other"), Precondition::Exists);
    assert_eq!(view.commit(seen).expect_err("two stores").kind(), ErrorKind::CrossesMounts);
    view.commit(Op::write(path("/other/f"), "x").into()).expect("all in the other store");
    assert_eq!(view.text("/below/f"), "one");
}

#[test]
fn errors_and_versions_use_the_view_terms() {
    let view = view(0);
    let error = view.commit(Op::mkdir(path("/f/x")).into()).expect_err("a file is in the way");
    assert_eq!((error.kind(), error.path()), (ErrorKind::NotFound, Some(&path("/f/x"))));
    let entry = block_on(view.store.stat(&at("/below/f"))).expect("a file");
    let shown = VersionId { ino: Ino(70), ..entry.etag };
    let ops = [Op::check(at("/f"), Precondition::EtagIn(vec![shown])), Op::append(path("/f"), "!")];
    view.commit(Batch::new(ops).require(at("/f"), Precondition::Etag(shown)))
        .expect("its version by its number");
    let inside =
        Batch { within: Some(Within::new([path("/g")])), ..Batch::new([Op::append(path("/f"), "!")]) };
    assert_eq!(view.commit(inside).expect_err("not within").kind(), ErrorKind::NotFound);
}
