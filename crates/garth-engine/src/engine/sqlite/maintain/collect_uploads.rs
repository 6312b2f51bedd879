//! Collection of uploads that no commit will use. It runs without an operator: content that was refused, and
//! uploads whose leases have ended, would fill the disk otherwise.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rusqlite::Connection;

use crate::engine::relational::upload_counts::DISCARDED;
use crate::engine::sqlite::filesystem::Inner;
use crate::engine::sqlite::maintain::step::{Times, Turn};
use crate::engine::sqlite::tables::staged::{self, Due};
use crate::engine::sqlite::tables::{chunk_refs, head, packs};
use crate::engine::sqlite::{SqliteFs, chunk_store};
use crate::error::Result;
use crate::fs::store::Collected;
use crate::runtime::ticker::Tick;

/// Time for which content that commits may have used stays in its file: reads of other processes, and
/// backups, may have begun before it was removed. The bytes of an upload that is given up take the room of
/// its owner for as long, whatever is removed, so that the room reveals nothing.
const GRACE: Duration = Duration::from_secs(DISCARDED.unsigned_abs());

impl SqliteFs {
    /// Gives up a finished upload of the owner of this handle, and removes what no other content shares, with
    /// its file. Its room stays taken for [`DISCARDED`] seconds.
    pub(crate) async fn give_up(&self, id: u128) -> Result<()> {
        let (owner, writer) = (self.reach.owner_key().to_owned(), Arc::clone(&self.inner.writer));
        let env = self.inner.runtime.env().clone();
        let now = env.now();
        let end = move |conn: &Connection| {
            let bytes = staged::end(conn, id, &owner)?;
            // Here, as the caller may drop the future.
            writer.uploads().discard(&owner, bytes.unwrap_or(0), now);
            if bytes.is_none() {
                return Ok(None);
            }
            head::next_epoch(conn)?;
            let mut turn = Turn::begin(&env);
            Ok(Some(chunk_store::discard_upload(conn, id, || turn.is_over())?))
        };
        // First its lease: if the rest is interrupted, a later collection removes the upload.
        let Some(mut whole) = self.inner.writer.transact(false, end).await? else { return Ok(()) };
        let fs = self.whole();
        let collect = move || {
            fs.runtime().in_account_of_caller(|| {
                while !whole {
                    whole =
                        fs.step(move |conn, turn| chunk_store::discard_upload(conn, id, || turn.is_over()))?;
                }
                fs.collect_uploads().map(drop)
            })
        };
        self.inner.runtime.upload(collect).await
    }

    /// Removes uploads whose leases have ended, content without a reference, and pack files whose grace
    /// period is over. Blocks.
    pub(crate) fn collect_uploads(&self) -> Result<Collected> {
        let now = self.inner.runtime.env().now();
        let (times, mut collected) = (Times::new(now, GRACE), Collected::default());
        // On a reader first: mostly nothing is due, and the writer is not needed.
        let (has_ended, has_chunks) = self.with_view(|view| {
            Ok((staged::any_ended(view.conn, now)?, chunk_refs::any_unused(view.conn)?.is_some()))
        })?;
        if has_ended {
            // Its clients were told how long an upload waits for its commit.
            self.forget_ended(Due::leases(now), &mut collected)?;
        }
        if has_ended || has_chunks {
            self.remove_chunks(now, &mut collected)?;
        }
        self.give_back(times, &mut collected)?;
        // Leases and grace periods end later, and an upload in progress may have no row yet.
        let is_left = self.inner.writer.uploads().any()
            || self.with_view(|view| {
                Ok(staged::any(view.conn)? || !packs::doomed(view.conn, i64::MAX, 1)?.is_empty())
            })?;
        if is_left {
            self.inner.has_uploads.store(true, Ordering::Relaxed);
        }
        Ok(collected)
    }
}

/// Collects once a minute: uploads, as long as the account has some that are not committed, and what else is
/// due.
impl Tick for Inner {
    fn tick(self: Arc<Self>) -> bool {
        if self.has_uploads.swap(false, Ordering::Relaxed) {
            let fs = SqliteFs::over(Arc::clone(&self));
            let runtime = fs.runtime().clone();
            // Not on the thread of the timer, which serves all accounts.
            runtime.maintainers().run_later(move || {
                fs.runtime().in_account(|| {
                    if let Err(error) = fs.collect_uploads() {
                        tracing::warn!(%error, "uploads could not be collected");
                    }
                });
            });
        }
        self.collect_later();
        true
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;
    use crate::engine::planner::Staged;
    use crate::env::{Env, ManualClock};
    use crate::error::ErrorKind;
    use crate::fs::{FileSystem, Incoming, MAX_UPLOADS};
    use crate::model::quota::Limits;
    use crate::model::{At, Batch, Body, ByteRange, Confinement, Op, Owner, StagedBody, Timestamp, Within};
    use crate::path::TreePath;
    use crate::rule::retention::Retention;

    /// Longer than a chunk, so that it goes to a pack file.
    const LONG: usize = 3 << 20;

    struct Account {
        fs: Arc<SqliteFs>,
        clock: ManualClock,
        _folder: tempfile::TempDir,
    }

    fn account() -> Account {
        let folder = tempfile::tempdir().unwrap();
        let (env, clock) = Env::manual(Timestamp(1_700_000_000_000_000_000));
        let fs = SqliteFs::open(folder.path(), env, crate::rule::sample::registry()).unwrap();
        Account { fs, clock, _folder: folder }
    }

    fn at(path: &str) -> At {
        At::Path(TreePath::parse(path).unwrap())
    }

    fn upload_to(fs: &dyn FileSystem, byte: u8) -> StagedBody {
        let mut upload = block_on(fs.stage(&at("/a"))).unwrap();
        block_on(upload.write(vec![byte; LONG].into())).unwrap();
        block_on(upload.finish()).unwrap()
    }

    impl Account {
        fn upload(&self, byte: u8) -> StagedBody {
            upload_to(&*self.fs, byte)
        }

        fn admit(&self, path: &str, content: Incoming) -> Result<()> {
            block_on(self.fs.admit(&at(path), &content))
        }
    }

    #[test]
    fn discarded_upload_is_removed_but_for_shared_bytes() {
        let account = account();
        let used = account.upload(1);
        block_on(account.fs.commit(Batch::new([Op::write(at("/a"), Body::Staged(used.clone()))]))).unwrap();
        let (same, other) = (account.upload(1), account.upload(2));
        for body in [&same, &other, &used] {
            block_on(account.fs.discard(&at("/a"), body)).unwrap();
            let commit = account.fs.commit(Batch::new([Op::write(at("/b"), Body::Staged(body.clone()))]));
            assert!(block_on(commit).unwrap_err().is(ErrorKind::NotFound));
        }
        assert_eq!(account.fs.pack_files().unwrap(), [staged::pack_name(used.id)]);
        let left = block_on(crate::fs::store::AccountStore::gc_dry_run(&*account.fs, GRACE)).unwrap();
        assert_eq!((left.staged, left.chunks), (0, 0));
        assert_eq!(account.fs.check().unwrap().findings, []);
    }

    #[test]
    fn content_stored_before_leaves_no_file() {
        let account = account();
        let commit = |path: &str, body: &StagedBody| {
            block_on(account.fs.commit(Batch::new([Op::write(at(path), Body::Staged(body.clone()))])))
                .unwrap()
        };
        let first = account.upload(1);
        let (waiting, used) = (account.upload(1), account.upload(1));
        commit("/a", &first);
        commit("/b", &used);
        // No row has referred to the files of the others: they need no grace period.
        account.fs.collect_uploads().unwrap();
        assert_eq!(account.fs.pack_files().unwrap(), [staged::pack_name(first.id)]);
        commit("/c", &waiting);
        for path in ["/a", "/b", "/c"] {
            assert!(block_on(account.fs.read(&at(path), ByteRange::ALL)).unwrap() == vec![1; LONG], "{path}");
        }
        assert_eq!(account.fs.check().unwrap().findings, []);
    }

    #[test]
    fn discarded_uploads_of_the_same_content_leave_no_file() {
        for order in [[0, 1], [1, 0]] {
            let account = account();
            let bodies = [(); 2].map(|()| account.upload(1));
            for (upload, files) in order.into_iter().zip([1, 0]) {
                block_on(account.fs.discard(&at("/a"), &bodies[upload])).unwrap();
                assert_eq!(account.fs.pack_files().unwrap().len(), files, "{order:?}");
            }
            assert_eq!(account.fs.check().unwrap().findings, []);
        }
    }

    #[test]
    fn discarded_bytes_that_a_commit_has_used_stay_for_the_grace() {
        let account = account();
        let (first, same) = (account.upload(1), account.upload(1));
        let keeping_nothing = Retention { commits: Some(0), ..Retention::default() };
        block_on(crate::fs::store::AccountStore::set_retention(&*account.fs, keeping_nothing)).unwrap();
        for op in [
            Op::write(at("/b"), Body::Staged(same)),
            Op::remove(at("/b")),
            Op::write(at("/other"), "the past before it goes"),
        ] {
            block_on(account.fs.commit(Batch::new([op]))).unwrap();
        }
        // The past goes, and the upload alone keeps the bytes.
        for _ in 0..3 {
            account.fs.collect(Duration::ZERO).unwrap();
        }
        let extents = "SELECT count(*) FROM extent";
        let extents =
            account.fs.with_view(|view| Ok(view.conn.query_row(extents, [], |row| row.get::<_, u64>(0))?));
        assert_eq!(extents.unwrap(), 1, "that of /other");
        block_on(account.fs.discard(&at("/a"), &first)).unwrap();
        // A read or a backup that began before /b was removed may need the file.
        assert_eq!(account.fs.pack_files().unwrap(), [staged::pack_name(first.id)]);
        account.clock.advance(GRACE);
        account.fs.collect_uploads().unwrap();
        assert_eq!(account.fs.pack_files().unwrap(), [""; 0]);
        assert_eq!(account.fs.check().unwrap().findings, []);
    }

    #[test]
    fn upload_that_has_just_begun_is_collected_later() {
        let account = account();
        let upload = block_on(account.fs.stage(&at("/a"))).unwrap();
        let stays_due = || {
            account.fs.inner.has_uploads.store(false, Ordering::Relaxed);
            account.fs.collect_uploads().unwrap();
            account.fs.inner.has_uploads.load(Ordering::Relaxed)
        };
        assert!(stays_due(), "it has no row yet");
        drop(upload);
        assert!(!stays_due());
    }

    #[test]
    fn uploads_are_collected_after_their_lease() {
        let account = account();
        let _waiting = account.upload(1);
        assert_eq!(account.fs.collect_uploads().unwrap().staged, 0);
        account.clock.advance(Duration::from_secs(25 * 3600));
        assert_eq!(account.fs.collect_uploads().unwrap().staged, 1);
        account.clock.advance(GRACE);
        assert_eq!(account.fs.collect_uploads().unwrap().packs, 1);
        assert_eq!(account.fs.pack_files().unwrap(), [""; 0]);
    }

    #[test]
    fn unused_uploads_take_a_bounded_room() {
        let account = account();
        let room = LONG as u64;
        let content = Incoming { room, ..Incoming::default() };
        account.admit("/a", content).unwrap();
        let first = account.upload(1);
        account.admit("/a", content).unwrap();
        let mut arriving = block_on(account.fs.stage(&at("/a"))).unwrap();
        block_on(arriving.write(vec![2; LONG].into())).unwrap();
        let refused = account.admit("/a", content).unwrap_err();
        assert!(refused.is(ErrorKind::QuotaExceeded), "{refused}");
        drop(arriving);
        account.admit("/a", content).unwrap();
        block_on(account.fs.commit(Batch::new([Op::write(at("/a"), Body::Staged(first))]))).unwrap();
        account.admit("/a", Incoming { room: 0, ..content }).unwrap();
        let lease = account.fs.runtime().env().now().plus_seconds(60);
        let many = account.fs.inner.writer.transact(false, move |conn| {
            for id in 1..=u128::from(MAX_UPLOADS) {
                staged::finish(conn, id, "", &Staged(Vec::new()), lease, false)?;
            }
            Ok(())
        });
        block_on(many).unwrap();
        assert!(account.admit("/a", content).unwrap_err().is(ErrorKind::QuotaExceeded));
        block_on(account.fs.discard(&at("/a"), &StagedBody { id: 1, size: 0 })).unwrap();
        account.admit("/a", content).unwrap();
    }

    #[test]
    fn discarded_uploads_take_room_for_an_hour() {
        let account = account();
        let content = Incoming { room: LONG as u64, arrives: 1, ..Incoming::default() };
        let upload = account.upload(1);
        // A repeat counts nothing.
        for _ in 0..2 {
            block_on(account.fs.discard(&at("/a"), &upload)).unwrap();
        }
        account.admit("/a", Incoming { arrives: 0, ..content }).unwrap();
        account.clock.advance(GRACE);
        let refused = account.admit("/a", content).unwrap_err();
        assert!(refused.is(ErrorKind::QuotaExceeded), "{refused}");
        account.clock.advance(Duration::from_secs(60));
        let free = account.fs.runtime().env().now().0.div_euclid(60_000_000_000) * 60_000_000_000;
        let free = Timestamp(free).to_rfc3339();
        assert!(refused.message().ends_with(&format!("enough of it is free at {free}")), "{refused}");
        account.admit("/a", content).unwrap();
        account.fs.collect_uploads().unwrap();
        assert_eq!(account.fs.pack_files().unwrap(), [""; 0]);
    }

    #[test]
    fn refusal_says_when_discarded_uploads_free_their_room() {
        let account = account();
        let refusal = |arrives: usize| {
            let content = Incoming { room: LONG as u64, arrives: arrives as u64, ..Incoming::default() };
            account.admit("/a", content).unwrap_err().message().to_owned()
        };
        assert!(!refusal(LONG + 1).contains("free at"));
        let [discarded, waiting] = [1, 2].map(|byte| account.upload(byte));
        block_on(account.fs.discard(&at("/a"), &discarded)).unwrap();
        assert!(refusal(0).contains("enough of it is free at"), "the waiting upload takes the rest");
        let both = refusal(1);
        assert!(both.contains("all of it is free at") && both.contains("commit"), "{both}");
        block_on(account.fs.discard(&at("/a"), &waiting)).unwrap();
        assert!(refusal(LONG).contains("enough of it is free at"));
    }

    #[test]
    fn room_of_uploads_reveals_nothing_of_other_content() {
        let account = account();
        let to = Confinement::new(Within::everything(), Owner::new("other").unwrap());
        let other = block_on(account.fs.confined(&to)).unwrap();
        block_on(other.discard(&at("/a"), &upload_to(&*other, 1))).unwrap();
        let stored = Body::Staged(upload_to(&*other, 2));
        block_on(other.commit(Batch::new([Op::write(at("/stored"), stored)]))).unwrap();
        let admits = |arrives: usize| {
            let content = Incoming { room: 2 * LONG as u64, arrives: arrives as u64, ..Incoming::default() };
            account.admit("/a", content).is_ok()
        };
        assert!(admits(2 * LONG));
        for byte in [2, 3] {
            let upload = account.upload(byte);
            assert!(admits(LONG) && !admits(LONG + 1), "{byte}");
            // The file of an upload whose content was stored before is removed now.
            account.clock.advance(2 * GRACE);
            account.fs.collect_uploads().unwrap();
            assert!(admits(LONG) && !admits(LONG + 1), "{byte}");
            block_on(account.fs.discard(&at("/a"), &upload)).unwrap();
            assert!(admits(LONG) && !admits(LONG + 1), "{byte}");
            account.clock.advance(2 * GRACE);
            assert!(admits(2 * LONG), "{byte}");
        }
    }

    #[test]
    fn uploads_that_arrive_count_as_they_are_expected() {
        let account = account();
        let room = LONG as u64;
        let content = |arrives| Incoming { room, arrives, ..Incoming::default() };
        let own = Incoming { has_begun: true, ..content(0) };
        let admits = |content| match account.admit("/a", content) {
            Ok(()) => true,
            Err(error) => {
                assert!(error.is(ErrorKind::QuotaExceeded), "{error}");
                assert!(error.message().contains(&room.to_string()), "{error}");
                false
            }
        };
        assert!(admits(content(room)) && !admits(content(room + 1)));
        let mut arriving = block_on(account.fs.stage(&at("/a"))).unwrap();
        arriving.expects(room - 1);
        assert!(admits(content(1)) && admits(own) && !admits(content(2)));
        // Bytes that were expected count once, and those beyond as well.
        block_on(arriving.write(vec![2; LONG].into())).unwrap();
        assert!(admits(content(1)) && !admits(content(2)));
        block_on(arriving.finish()).unwrap();
        assert!(admits(content(0)) && !admits(content(1)));
        let mut others: Vec<_> =
            (1..MAX_UPLOADS).map(|_| block_on(account.fs.stage(&at("/a"))).unwrap()).collect();
        assert!(admits(own) && !admits(content(0)), "one is finished");
        others.pop();
        assert!(admits(content(0)));
        let mut larger = others.pop().unwrap();
        larger.expects(u64::MAX);
        assert!(!admits(content(0)));
        drop((larger, others));
        assert!(admits(content(0)));
    }

    #[test]
    fn quota_refuses_growth_before_content() {
        let account = account();
        let limits = Limits { bytes: Some(100), entries: None };
        let path = TreePath::parse("/q").unwrap();
        block_on(crate::fs::store::AccountStore::set_quota(&*account.fs, &path, limits)).unwrap();
        let content =
            |growth| Incoming { length: growth, size: growth, growth, room: u64::MAX, ..Incoming::default() };
        account.admit("/q/a", content(100)).unwrap();
        account.admit("/other", content(101)).unwrap();
        assert!(account.admit("/q/a", content(101)).unwrap_err().is(ErrorKind::QuotaExceeded));
        let larger = Incoming { growth: 0, ..content(101) };
        assert!(account.admit("/q/a", larger).unwrap_err().is(ErrorKind::QuotaExceeded));
    }
}
