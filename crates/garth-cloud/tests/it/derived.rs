//! Keys and passages of commits, against those of the SQLite engine for the same batches, and passages
//! against those of the bytes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::ops::Range;

use garth_cloud::commit::commit_keyed;
use garth_cloud::indexing::{Progress, accounts_to_index, index_next, make_ready, reindex_step};
use garth_engine::engine::search::{FileEdit, IndexedText, NewPassage, Passage, reindex};
use garth_engine::model::{Batch, Op, SetAttrs};
use garth_engine::rule::sample::registry;
use garth_engine::text::passage::Form;
use garth_engine::text::{Edit, MAX_TEXT, Tokenizer};
use garth_engine::{ErrorKind, FileSystem as _};
use garth_testkit::data::random::Random;
use garth_testkit::subject::Subject;
use garth_testkit::tools::in_memory;

use super::database::{Database, append, at, connect, write};

/// Keys with their lines, without the numbers of nodes.
const KEYS: &str = "SELECT p.projection, encode(p.key, 'hex'), n.dir, n.name, p.line, p.off, p.len
    FROM garth.projected p LEFT JOIN garth.name n ON n.account = p.account AND n.ino = p.ino
    ORDER BY p.projection, p.key, n.dir, n.name, p.line";
/// Passages, without their numbers.
const PASSAGES: &str =
    "SELECT n.dir || '/' || n.name, p.off, p.len, p.lines, p.newline, p.form, p.words, p.hash, p.tokens
    FROM garth.passage p LEFT JOIN garth.name n ON n.account = p.account AND n.ino = p.ino
    ORDER BY n.dir, n.name, p.off";
const LEFT: &str = "SELECT count(*), (SELECT unindexed FROM garth.head) FROM garth.unindexed";
const COUNTS: &str = "SELECT (SELECT passages FROM garth.head) = count(*) FROM garth.passage";
/// Blocks of lines that are missing or wrong.
const WRONG_LINES: &str = "WITH block AS (SELECT ino, off / 131072 AS block, sum(lines) AS lines
        FROM garth.passage p GROUP BY 1, 2),
    due AS (SELECT b.* FROM block b
        WHERE b.block < (SELECT max(o.block) FROM block o WHERE o.ino = b.ino))
    SELECT (SELECT count(*) FROM due d LEFT JOIN garth.passage_lines l ON l.ino = d.ino AND l.block = d.block
            WHERE l.lines IS DISTINCT FROM d.lines),
        (SELECT count(*) FROM garth.passage_lines) - (SELECT count(*) FROM due)";

/// Text that is not in an index yet.
struct Unindexed<'a>(&'a [u8]);

impl IndexedText for Unindexed<'_> {
    type Error = Infallible;

    fn passages(&mut self, _: u64, _: u64) -> Result<Vec<Passage>, Infallible> {
        Ok(Vec::new())
    }

    fn last_before(&mut self, _: u64) -> Result<Option<Passage>, Infallible> {
        Ok(None)
    }

    fn read(&mut self, bytes: Range<u64>) -> Result<Vec<u8>, Infallible> {
        let end = (bytes.end as usize).min(self.0.len());
        Ok(self.0[(bytes.start as usize).min(end)..end].to_vec())
    }
}

/// Returns the rows of [`PASSAGES`] for files with these bytes.
fn passages_of(files: &BTreeMap<String, String>) -> String {
    let mut rows = String::new();
    for (path, body) in files {
        let edit = Edit::write(0, body.len() as u64, 0);
        let file = FileEdit { searchable: true, content_type: None, edit, unindexed: None };
        let (mut text, mut room) = (Unindexed(body.as_bytes()), MAX_TEXT);
        let Ok(change) = reindex(&mut text, &file, &mut room, &mut Tokenizer::default());
        for NewPassage { span, line_feeds, form, hash, tokens, words } in change.added {
            let form = match form {
                Form::Text => 0,
                Form::Json => 1,
                Form::JsonLines => 2,
            };
            let newline = if span.newline { "t" } else { "f" };
            let (off, len, tokens) = (span.off, span.len, tokens.trim_end());
            writeln!(rows, "{path}|{off}|{len}|{line_feeds}|{newline}|{form}|{words}|{hash}|{tokens}")
                .unwrap();
        }
    }
    rows.trim_end().to_owned()
}

/// Account with the registry of tests.
struct Account {
    database: Database,
    account: i64,
}

impl Account {
    async fn new() -> Self {
        let database = Database::new().await;
        let account = database.account("her").await;
        make_ready(&database.conn, account, &registry()).await.unwrap();
        Self { database, account }
    }

    async fn group(&self, batches: &[Batch]) -> Vec<garth_engine::Result<garth_engine::model::Commit>> {
        commit_keyed(&self.database.conn, self.account, &registry(), batches).await.unwrap()
    }

    async fn commit(&self, batch: Batch) {
        self.group(&[batch]).await.remove(0).unwrap();
    }

    fn rows(&self, sql: &str) -> String {
        self.database.rows(self.account, sql)
    }

    /// Checks that all text is indexed, as its bytes tell.
    fn check_passages(&self, files: &BTreeMap<String, String>) {
        assert_eq!(self.rows(PASSAGES), passages_of(files));
        assert_eq!(self.rows(COUNTS), "t");
        assert_eq!(self.rows(WRONG_LINES), "0|0");
    }
}

fn lines(numbers: Range<usize>) -> String {
    numbers.map(|n| format!("line {n:05} about cranes in the harbour\n")).collect()
}

fn record(number: usize) -> String {
    format!("{{\"id\": \"r{number}\", \"text\": \"number {number} about cranes in the harbour\"}}\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn passages_do_not_depend_on_how_text_arrives() {
    let bodies = [
        ("lines", lines(0..6_000)),
        ("words", "one line without an end ".repeat(6_000)),
        ("records", (0..1_200).map(record).collect()),
        ("short", "a heron\n".to_owned()),
    ];
    let account = Account::new().await;
    let mut files = BTreeMap::new();
    for (name, body) in &bodies {
        account.commit(write(&format!("/at-once/{name}"), body.as_str())).await;
        // Pieces end in the middle of lines, and several of them are in a group.
        let (mut rest, mut sizes) = (body.as_str(), [1, 300, 9_000, 70_000].into_iter().cycle());
        while let Some(size) = sizes.next().filter(|_| !rest.is_empty()) {
            let (own, more) = rest.split_at(rest.len().min(size));
            let (first, last) = own.split_at(own.len() / 2);
            let path = format!("/pieces/{name}");
            for result in account.group(&[append(&path, first), append(&path, last)]).await {
                result.unwrap();
            }
            rest = more;
        }
        let path = format!("/rewritten/{name}");
        for old in [lines(3..9_000), body[..body.len() / 2].to_owned(), String::new(), body.clone()] {
            account.commit(write(&path, old)).await;
        }
        for dir in ["at-once", "pieces", "rewritten"] {
            files.insert(format!("/{dir}/{name}"), body.clone());
        }
    }
    assert_eq!(account.rows(LEFT), "0|0");
    account.check_passages(&files);
}

#[tokio::test(flavor = "multi_thread")]
async fn edits_in_the_middle_leave_passages_of_the_bytes() {
    let account = Account::new().await;
    let mut body = lines(0..8_000).into_bytes();
    account.commit(write("/text", String::from_utf8(body.clone()).unwrap())).await;
    for place in [5, 65_530, 131_072, 200_000, body.len() - 3] {
        let new = b"quokka\nand\n".repeat(300);
        let pipes = account.database.conn.trips();
        account.commit(Batch::new([Op::patch(at("/text"), place as u64, new.clone())])).await;
        // One for the names, one for the extents of the place, one for passages and bytes, one to write.
        let pipes = account.database.conn.trips() - pipes;
        assert!(pipes <= 4, "{pipes} at {place}");
        body.resize(body.len().max(place + new.len()), 0);
        body[place..place + new.len()].copy_from_slice(&new);
    }
    let text = String::from_utf8(body).unwrap();
    account.check_passages(&BTreeMap::from([("/text".to_owned(), text)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn hidden_and_binary_files_have_no_passages() {
    let account = Account::new().await;
    let hidden = Op::write(at("/hidden"), lines(0..100)).with_attrs(SetAttrs::new().searchable(false));
    account.commit(Batch::new([hidden, Op::write(at("/binary"), vec![0_u8; 20_000])])).await;
    account.commit(append("/binary", lines(0..10))).await;
    assert_eq!((account.rows(PASSAGES), account.rows(LEFT)), (String::new(), "0|0".to_owned()));
    let shown = SetAttrs::new().searchable(true);
    account.commit(Batch::new([Op::set_attrs(at("/hidden"), shown)])).await;
    account.check_passages(&BTreeMap::from([("/hidden".to_owned(), lines(0..100))]));
}

/// Returns a random operation on a few files.
fn any_op(random: &mut Random) -> Op {
    let paths = ["/kv/a", "/kv/b", "/words/a", "/nodes/a/.status", "/nodes/a/b", "/text/a", "/text/b"];
    let (one, two) = (at(random.pick(&paths)), at(random.pick(&paths)));
    let count = if random.one_in(3) { 300 } else { random.below(4) as usize };
    let from = random.below(50) as usize;
    let text: String = (from..from + count).map(record).collect();
    let place = if random.one_in(2) { random.below(200) } else { random.below(30_000) };
    match random.below(14) {
        0..=1 => Op::write(one, text).with_parents(),
        2..=5 => Op::append(one, text),
        6 => Op::patch(one, place, text),
        7 => Op::truncate(one, place),
        8 => Op::punch(one, place, random.below(2_000)),
        9 => Op::copy_range(one, 0, random.below(5_000), two, place),
        10 => Op::remove(one),
        11 => Op::rename(one, two),
        12 => Op::link(one, two),
        _ => {
            let attrs = SetAttrs::new().tags([random.pick(&["t", "u"])]);
            Op::set_attrs(one, if random.one_in(2) { attrs } else { attrs.searchable(random.one_in(2)) })
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_groups_leave_the_rows_of_single_commits() {
    let (grouped, single) = (Account::new().await, Account::new().await);
    for seed in 0..4 {
        let mut random = Random::new(seed);
        for _ in 0..25 {
            let count = 1 + random.below(6);
            let group: Vec<Batch> = (0..count).map(|_| Batch::new([any_op(&mut random)])).collect();
            let results = grouped.group(&group).await;
            for (batch, result) in group.into_iter().zip(results) {
                // What this engine does not write yet changes nothing on either side.
                let other = single.group(&[batch]).await.remove(0);
                let kind = |result: &garth_engine::Result<_>| result.as_ref().map(drop).map_err(|e| e.kind());
                assert_eq!(kind(&result.map(drop)), kind(&other.map(drop)));
            }
        }
        for sql in [KEYS, PASSAGES, LEFT, COUNTS, WRONG_LINES] {
            assert_eq!(grouped.rows(sql), single.rows(sql), "{sql}");
        }
        assert_eq!((grouped.rows(COUNTS), grouped.rows(WRONG_LINES)), ("t".to_owned(), "0|0".to_owned()));
    }
    assert_ne!(grouped.rows("SELECT count(*) FROM garth.projected"), "0");
    assert_ne!(grouped.rows("SELECT count(*) FROM garth.passage"), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_are_derived_again_are_the_same() {
    let account = Account::new().await;
    let sqlite = Subject::sqlite(&in_memory());
    let mut random = Random::new(7);
    for _ in 0..60 {
        let batch = Batch::new([any_op(&mut random)]);
        let here = account.group(std::slice::from_ref(&batch)).await.remove(0);
        if here.as_ref().is_err_and(|error| error.is(ErrorKind::Unsupported)) {
            continue;
        }
        let there = sqlite.fs.commit(batch).await;
        assert_eq!(here.map(drop).map_err(|e| e.kind()), there.map(drop).map_err(|e| e.kind()));
    }
    let before = [KEYS, PASSAGES].map(|sql| account.rows(sql));
    // Rows that are missing, wrong, or of no node.
    let her = account.account;
    account.rows(&format!(
        "DELETE FROM garth.projected WHERE line > 1; UPDATE garth.passage SET hash = 0;
         INSERT INTO garth.projected VALUES ({her}, 1, 'stray', 4711, 0, 0, 0);
         INSERT INTO garth.passage VALUES ({her}, 100000, 4711, 0, 5, 0, false, 0, 1, 0, 'stray');
         UPDATE garth.head SET next_passage = 100001, passages = passages + 1;
         DELETE FROM garth.passage_lines"
    ));
    let mut at = Progress::default();
    while !at.is_done() {
        at = reindex_step(&account.database.conn, her, &registry(), at).await.unwrap();
    }
    assert_eq!([KEYS, PASSAGES].map(|sql| account.rows(sql)), before);
    assert_eq!((account.rows(COUNTS), account.rows(WRONG_LINES)), ("t".to_owned(), "0|0".to_owned()));
    assert_eq!(at.unread, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn long_text_is_indexed_in_steps_by_several_servers() {
    let account = Account::new().await;
    let (long, her) = (lines(0..160_000), account.account);
    let files = BTreeMap::from([("/long".to_owned(), long.clone()), ("/short".to_owned(), lines(0..50))]);
    account.commit(write("/long", long)).await;
    account.commit(write("/short", lines(0..50))).await;
    assert_eq!(account.rows(LEFT), "1|1");
    // What was indexed at once is found meanwhile.
    assert_ne!(account.rows("SELECT count(*) > 1000 FROM garth.passage"), "f");
    let other = connect(&account.database.cluster.tcp_url()).await;
    let (own, all) = (&account.database.conn, registry());
    assert_eq!(accounts_to_index(own, 0, 10).await.unwrap(), [her]);
    for _ in 0..200 {
        let (one, two) = futures::join!(index_next(own, her, &all), index_next(&other, her, &all));
        if !one.unwrap() && !two.unwrap() && account.rows(LEFT).starts_with("0|") {
            break;
        }
    }
    while index_next(own, her, &registry()).await.unwrap() {}
    assert_eq!(account.rows(LEFT), "0|0");
    assert_eq!(accounts_to_index(own, 0, 10).await.unwrap(), Vec::<i64>::new());
    account.check_passages(&files);
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_text_keeps_no_commit_from_its_end() {
    let account = Account::new().await;
    let first = lines(0..100);
    account.commit(write("/a", first.as_str())).await;
    account.rows("UPDATE garth.chunk SET data = NULL");
    account.commit(append("/a", "more\n")).await;
    assert_eq!(account.rows(LEFT), "1|1");
    let (conn, her) = (&account.database.conn, account.account);
    assert!(index_next(conn, her, &registry()).await.unwrap());
    // It is not tried again at once.
    assert!(!index_next(conn, her, &registry()).await.unwrap());
    assert_eq!(account.rows(LEFT), "1|1");
    account.rows(&format!(
        "UPDATE garth.chunk SET data = convert_to('{first}', 'UTF8') WHERE data IS NULL;
         UPDATE garth.unindexed SET until = 0"
    ));
    while index_next(conn, her, &registry()).await.unwrap() {}
    account.check_passages(&BTreeMap::from([("/a".to_owned(), format!("{first}more\n"))]));
    assert_eq!(account.rows(LEFT), "0|0");
}

#[tokio::test(flavor = "multi_thread")]
async fn group_derives_the_rows_of_sqlite() {
    let account = Account::new().await;
    let sqlite = Subject::sqlite(&in_memory());
    let tagged = |path: &str, tag: &str| {
        let attrs = SetAttrs::new().tags([tag, "all"]).metadata("due", tag);
        Batch::new([Op::write(at(path), record(1)).with_parents().with_attrs(attrs)])
    };
    let long = "k".repeat(3000);
    let batches = [
        tagged("/a", "x"),
        tagged("/b", &long),
        write("/kv/log", "one 1\ntwo 2\nthr"),
        append("/kv/log", "ee 3\n\nfour"),
        write("/nodes/n/.status", "ACTIVE"),
        tagged("/a", "y"),
        write("/kv/log", "five\nsix\n"),
        append("/kv/log", "seven 7"),
        write("/words/w", "a b c\nd\n"),
    ];
    for (batch, result) in batches.iter().zip(account.group(&batches).await) {
        let there = sqlite.fs.commit(batch.clone()).await;
        assert_eq!(result.map(drop).map_err(|e| e.kind()), there.map(drop).map_err(|e| e.kind()));
    }
    super::find::assert_equal_answers(&account.database, account.account, &*sqlite.fs).await;
    let longest = "SELECT max(octet_length(key)) BETWEEN 1024 AND 1100 FROM garth.projected";
    assert_eq!(account.rows(longest), "t");
}
