//! Large numbers from callers: a read finds nothing, or reports the number as invalid, and never fails as if
//! the storage were broken.

use garth_engine::engine::memory::MemoryFs;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{
    At, Batch, ByteRange, ChangesQuery, FindQuery, HistoryPage, Ino, LogPosition, Moment, NamesPage, Op,
    Page, Precondition, Projection, Seq, Timestamp, VersionId,
};
use garth_engine::{Env, Error, ErrorKind, FileSystem, Result};
use garth_testkit::tools::{given, p, write};

/// The largest number, and those around the largest that SQLite stores.
const LARGE: [u64; 4] = [i64::MAX as u64 - 1, i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX];

fn check<T>(call: &str, number: u64, answer: Result<T>) -> Option<Error> {
    let error = answer.err()?;
    let is_fault = [ErrorKind::Io, ErrorKind::Corrupt, ErrorKind::Poisoned, ErrorKind::Unavailable];
    assert!(!is_fault.iter().any(|kind| error.is(*kind)), "{call} with {number}: {error:?}");
    Some(error)
}

async fn ask(fs: &dyn FileSystem, projection: Projection) {
    let files = [write("/d/f", "text"), write("/words/f", "user said\n")];
    given(fs, files.map(Op::with_parents)).await;
    let file = At::from(&p("/d/f"));
    for number in LARGE {
        let (seq, ino) = (Seq(number), Ino(number));
        let version = VersionId { seq, ino };
        let bytes = [(number, 1), (0, number), (number, number), (1, number)];
        for (offset, length) in bytes {
            let range = ByteRange { offset, length };
            check("fetch", number, fs.fetch(&file, range).await);
            check("fetch_many", number, fs.fetch_many(&[(file.clone(), range)]).await);
            check("blame", number, fs.blame(&file, range, 10).await);
        }
        check("stat", number, fs.stat(&At::Node(ino)).await);
        check("list", number, fs.list(&At::Node(ino), &Page::default()).await);
        check("names", number, fs.names(&At::Node(ino), &NamesPage::default()).await);
        check("open", number, fs.open(&At::Node(ino)).await);
        check("open_version", number, fs.open_version(version).await);
        check("history", number, fs.history(&file, &HistoryPage::default().before(version)).await);
        check(
            "history of a commit",
            number,
            fs.history(&file, &HistoryPage::default().before_commit(seq)).await,
        );
        let changes = |changes| ChangesQuery::since(LogPosition { seq, changes });
        check("changes", number, fs.changes(&changes(0)).await);
        check("changes within", number, fs.changes(&changes(number)).await);
        check("as_of", number, fs.as_of(&Moment::Seq(seq)).await);
        let time = Timestamp(i64::try_from(number).unwrap_or(i64::MIN));
        check("as_of a time", number, fs.as_of(&Moment::Time(time)).await);
        check("find", number, fs.find(&FindQuery::new(projection).equal("user").lines_from(number)).await);
        let of_file = FindQuery::new(projection).equal("user").lines_from(number).within(p("/words/f"));
        check("find in a file", number, fs.find(&of_file).await);
        let opened = fs.open(&file).await.unwrap();
        check("read_at", number, opened.read_at(number, 10).await);
        check("next_data", number, opened.next_data(number).await);
        check("next_hole", number, opened.next_hole(number).await);
        for that in [Precondition::Version(version), Precondition::Etag(version)] {
            let batch = Batch::new([write("/d/f", "other")]).require(p("/d/f"), that);
            assert!(check("commit", number, fs.commit(batch).await).is_some(), "no such version");
        }
        let truncate = Batch::new([Op::Truncate { at: file.clone(), size: number }]);
        assert!(check("truncate", number, fs.commit(truncate).await).is_some(), "longer than any file");
    }
}

#[tokio::test]
async fn largest_numbers_break_no_read() {
    let folder = tempfile::tempdir().unwrap();
    let sqlite =
        SqliteFs::open(folder.path(), Env::system(), garth_engine::rule::sample::registry()).unwrap();
    let projection = garth_engine::rule::sample::WORDS;
    ask(&*sqlite, projection).await;
    ask(&MemoryFs::new(Env::system(), garth_engine::rule::sample::registry()), projection).await;
}
