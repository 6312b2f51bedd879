//! Search: its hits are those of the memory engine, before and after its index is merged, and its cost does
//! not grow with what it does not find.

mod texts;

use std::time::Duration;

use garth_cloud::client::{Connection, Pipe};
use garth_cloud::commit::commit_keyed;
use garth_cloud::search::merge::{Step, step};
use garth_cloud::search::{Scope, search};
use garth_engine::engine::memory::MemoryFs;
use garth_engine::engine::relational::confinement::Reach;
use garth_engine::model::{
    Batch, Confinement, Gate, Owner, SearchAnswer, SearchMode, SearchQuery, Seq, Within,
};
use garth_engine::rule::{Registry, Rules, sample};
use garth_engine::{Env, ErrorKind, FileSystem, Name};
use garth_testkit::proxy::{Direction, Proxy};

use super::database::{Database, at, connect, write};
use texts::Texts;

/// Files of a test, each with some passages.
const FILES: usize = 150;
/// Name of the server that merges.
const SERVER: &[u8] = b"one";

/// Account of the database, and one of the memory engine with the same files.
struct Both {
    database: Database,
    account: i64,
    memory: MemoryFs,
    registry: Registry,
    reach: Reach,
    texts: Texts,
}

impl Both {
    async fn new(registry: Registry) -> Self {
        let database = Database::new().await;
        let account = database.account("her").await;
        let memory = MemoryFs::new(Env::system(), registry.clone());
        Self { database, account, memory, registry, reach: Reach::everything(), texts: Texts::new() }
    }

    /// Commits batches to both.
    async fn commit(&self, batches: &[Batch]) {
        let Self { database, account, registry, .. } = self;
        let commits = commit_keyed(&database.conn, *account, registry, batches).await.unwrap();
        commits.into_iter().for_each(|commit| drop(commit.unwrap()));
        for batch in batches {
            self.memory.commit(batch.clone()).await.unwrap();
        }
    }

    /// Writes new texts to all files.
    async fn write_all(&mut self) {
        for first in (0..FILES).step_by(25) {
            let files = first..(first + 25).min(FILES);
            let batches: Vec<Batch> = files
                .map(|number| write(&format!("/d{}/f{number}.md", number % 4), self.texts.text(6_000)))
                .collect();
            self.commit(&batches).await;
        }
    }

    async fn search(&self, query: &SearchQuery) -> SearchAnswer {
        let Self { account, reach, registry, .. } = self;
        let scope = Scope { account: *account, reach, rules: &Rules::none(), registry };
        search(&self.database.conn, scope, query).await.unwrap()
    }

    /// Asks both the same random questions. Returns the number of hits.
    async fn compare(&mut self, questions: usize) -> usize {
        let mut hits = 0;
        for number in 0..questions {
            let mut query = SearchQuery::new(self.texts.question(number)).limit(12).per_file(1 + number % 3);
            if number % 2 == 0 {
                query = query.mode(SearchMode::Words);
            }
            if number % 3 == 0 {
                query = query.context(2);
            }
            if number % 5 == 0 {
                query = query.within(at("/d1")).within(at("/d2/f2.md"));
            }
            if number % 7 == 0 {
                query = query.pattern("/**/*3.md");
            }
            if number % 11 == 0 {
                query = query.quick();
            }
            let (ours, due) = (self.search(&query).await, self.memory.search(&query).await.unwrap());
            assert_eq!(ours, due, "{query:?}");
            hits += ours.hits.len();
        }
        hits
    }

    /// Merges until nothing is left. Returns the number of steps.
    async fn merge(&self) -> usize {
        let mut steps = 1;
        loop {
            match step(&self.database.conn, self.account, SERVER).await.unwrap() {
                Step::Merged => steps += 1,
                Step::Done => return steps,
                Step::Held => panic!("another server merges"),
            }
        }
    }

    fn count(&self, sql: &str) -> u64 {
        self.database.rows(self.account, sql).parse().unwrap()
    }
}

/// Number of passages that are not merged yet.
const NEW: &str = "SELECT count(*) FROM garth.passage WHERE tokens IS NOT NULL";
/// Number of the tokens that rows have, apart from those of removed passages.
const POSTINGS: &str = "SELECT coalesce(sum(count), 0) FROM garth.posting WHERE token <> ''";

#[tokio::test(flavor = "multi_thread")]
async fn hits_equal_those_of_memory() {
    let mut both = Both::new(Registry::empty()).await;
    both.write_all().await;
    // The index of words reads the newest 256 whole, and the others by token.
    assert!(both.count(NEW) > 300, "{}", both.count(NEW));
    assert!(both.compare(60).await > 100);
    assert!(both.merge().await > 1);
    let (new, postings) = (both.count(NEW), both.count(POSTINGS));
    assert!((128..256).contains(&new) && postings > 10_000, "{new}, {postings}");
    assert!(both.compare(60).await > 100);
    // Some merged passages are removed, some new ones, and there are newer ones.
    let batches: Vec<Batch> = (0..60)
        .map(|number| write(&format!("/d{}/f{number}.md", number % 4), both.texts.text(3_000)))
        .collect();
    both.commit(&batches).await;
    assert!(both.count("SELECT count(*) FROM garth.passage_gone") > 0);
    assert!(both.compare(60).await > 100);
    both.merge().await;
    assert!(both.compare(60).await > 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn small_account_is_searched_as_a_whole() {
    let mut both = Both::new(Registry::empty()).await;
    let batches: Vec<Batch> = (0..20)
        .map(|number| write(&format!("/d{}/f{number}.md", number % 4), both.texts.text(900)))
        .collect();
    both.commit(&batches).await;
    both.commit(&[write("/data.json", r#"{"role":"user","text":"green tea in the garden"}"#)]).await;
    assert!(both.compare(60).await > 100);
    // Words by their beginning, a question without words, and one that finds nothing.
    for text in ["gard", "gre te", "?!", "zzzz qqqq", "what does the green tea in the garden cost?"] {
        for query in [SearchQuery::new(text), SearchQuery::new(text).within(at("/d1"))] {
            assert_eq!(both.search(&query).await, both.memory.search(&query).await.unwrap(), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_passages_are_swept() {
    let mut both = Both::new(Registry::empty()).await;
    let (mut swept, mut before) = (false, 0);
    for _ in 0..8 {
        both.write_all().await;
        both.merge().await;
        let removed = both.count("SELECT coalesce(sum(count), 0) FROM garth.posting WHERE token = ''");
        swept |= removed < before;
        before = removed;
        assert!(both.compare(8).await > 10);
    }
    assert!(swept);
    // A row has no passage that does not exist, apart from those that are known to be removed.
    let unknown = "SELECT count(*) FROM garth.posting p
        CROSS JOIN LATERAL (SELECT (p.block << 12) + get_byte(p.ids, 2 * n) * 256 + get_byte(p.ids, 2 * n + 1) AS id
            FROM generate_series(0, p.count - 1) n) i
        WHERE p.token <> '' AND NOT EXISTS (SELECT 1 FROM garth.passage a WHERE a.id = i.id)
            AND NOT EXISTS (SELECT 1 FROM garth.passage_gone g WHERE g.id = i.id)
            AND NOT EXISTS (SELECT 1 FROM garth.posting g
                CROSS JOIN LATERAL generate_series(0, g.count - 1) n
                WHERE g.token = '' AND g.block = i.id >> 12
                    AND get_byte(g.ids, 2 * n) * 256 + get_byte(g.ids, 2 * n + 1) = i.id & 4095)";
    assert_eq!(both.count(unknown), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_judged_by_other_files() {
    let mut both = Both::new(sample::registry()).await;
    both.commit(&[
        write("/nodes/a/content.md", "green tea of the garden"),
        write("/nodes/b/content.md", "green tea of the river"),
        write("/gated/a/text.md", "green tea of the market"),
        write("/gated/b/text.md", "green tea of the mountain"),
        write("/other.md", "green tea"),
        write("/gated/a/.status", "ACTIVE"),
        write("/gated/b/.status", "GONE"),
    ])
    .await;
    let file = async |dir: &str, status: &str| {
        both.commit(&[write(&format!("{dir}/.status"), status)]).await;
    };
    file("/nodes/a", "ACTIVE").await;
    file("/nodes/b", "GONE").await;
    let paths = |answer: SearchAnswer| {
        let mut paths: Vec<String> = answer.hits.iter().map(|hit| hit.path.to_string()).collect();
        paths.sort();
        paths
    };
    let query = SearchQuery::new("green tea").mode(SearchMode::Words);
    let due = both.memory.search(&query).await.unwrap();
    assert_eq!(both.search(&query).await, due);
    assert_eq!(paths(due), ["/gated/a/text.md", "/gated/b/text.md", "/nodes/a/content.md", "/other.md"]);

    let within = Within::new([at("/gated"), at("/other.md")]);
    let mut confinement = Confinement::new(within, Owner::new("view").unwrap());
    both.reach = Reach::everything().confined(&confinement).unwrap();
    assert_eq!(paths(both.search(&query).await), ["/gated/a/text.md", "/gated/b/text.md", "/other.md"]);
    confinement.gates.push(Gate {
        dir: at("/gated"),
        file: Name::parse(".status").unwrap(),
        projection: sample::STATUS,
        keys: vec!["ACTIVE".to_owned()],
        since: Seq(0),
    });
    both.reach = Reach::everything().confined(&confinement).unwrap();
    assert_eq!(paths(both.search(&query).await), ["/gated/a/text.md", "/other.md"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn search_takes_few_round_trips() {
    let mut both = Both::new(Registry::empty()).await;
    both.write_all().await;
    both.merge().await;
    let trips = async |query: SearchQuery| {
        let before = both.database.conn.trips();
        assert!(!both.search(&query).await.hits.is_empty());
        both.database.conn.trips() - before
    };
    // The newest passages of words, the best passages with their files, and the text of hits.
    let query = SearchQuery::new("green tea garden").context(3);
    assert_eq!(trips(query.clone().mode(SearchMode::Words)).await, 3);
    // The texts of the best, to compare their meaning.
    assert_eq!(trips(query.clone()).await, 4);
    // The passages of the subtrees, which are fewer than the matches.
    assert_eq!(trips(query.clone().mode(SearchMode::Words).within(at("/d1"))).await, 4);
    // A frequent word, which is looked up in the passages of the rare one.
    both.database.rows(both.account, &frequent("tea", 20_000, 26_000, both.account));
    both.commit(&[write("/d1/rare.md", "raretoken tea")]).await;
    assert_eq!(trips(SearchQuery::new("raretoken tea").mode(SearchMode::Words)).await, 4);
    assert_eq!(trips(SearchQuery::new("the raretoken and tea")).await, 5);
}

/// Returns statements that add passages which only have one token, merged, from number `first` up to `last`.
fn frequent(token: &str, first: u64, last: u64, account: i64) -> String {
    format!(
        "INSERT INTO garth.passage (account, id, ino, off, len, lines, newline, form, words, hash)
         SELECT {account}, id, 1000000, id * 10, 10, 0, false, 0, 1, 0 FROM generate_series({first}, {last} - 1) id;
         INSERT INTO garth.posting AS p (account, token, block, count, ids)
         SELECT {account}, '{token}', id >> 12, count(*),
             string_agg(decode(lpad(to_hex(id & 4095), 4, '0'), 'hex'), '' ORDER BY id)
         FROM generate_series({first}::bigint, {last} - 1) id GROUP BY id >> 12
         ON CONFLICT (account, token, block) DO UPDATE SET count = p.count + excluded.count, ids = p.ids || excluded.ids;
         UPDATE garth.head SET next_passage = {last}"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn other_accounts_cost_nothing() {
    let mut both = Both::new(Registry::empty()).await;
    let his = both.database.account("him").await;
    both.write_all().await;
    both.merge().await;
    let queries = [
        SearchQuery::new("green tea garden").mode(SearchMode::Words),
        SearchQuery::new("where is the river behind the market?"),
        SearchQuery::new("mountain coffee").within(at("/d1")),
    ];
    // Its processes read the tables, too.
    let admin = both.database.cluster.admin_url();
    for sql in ["ALTER SYSTEM SET autovacuum = off", "SELECT pg_reload_conf()"] {
        both.database.cluster.psql(&admin, sql).unwrap();
    }
    let read = async || {
        let conn = connect(&both.database.cluster.socket_url()).await;
        both.database.rows(0, "ANALYZE");
        let before = rows_read(&both.database, &conn).await;
        let scope = Scope {
            account: both.account,
            reach: &both.reach,
            rules: &Rules::none(),
            registry: &both.registry,
        };
        for query in &queries {
            search(&conn, scope, query).await.unwrap();
        }
        rows_read(&both.database, &conn).await - before
    };
    let alone = read().await;
    let mut others = Texts::new();
    for _ in 0..10 {
        let batches: Vec<Batch> = (0..FILES)
            .map(|number| {
                write(&format!("/d{}/f{number}-{}.md", number % 4, others.number()), others.text(6_000))
            })
            .collect();
        for result in commit_keyed(&both.database.conn, his, &Registry::empty(), &batches).await.unwrap() {
            result.unwrap();
        }
    }
    while step(&both.database.conn, his, SERVER).await.unwrap() == Step::Merged {}
    let beside = read().await;
    // Rows of the tables of all accounts are read by their key, or all of a few.
    assert!(
        alone > 500 && beside <= alone + alone / 10,
        "{alone} rows alone, {beside} beside another account"
    );
}

/// Returns the number of rows that were read from the tables of the engine. `conn` is the only connection to
/// the database besides its own.
async fn rows_read(database: &Database, conn: &Connection) -> u64 {
    // A process of the server reports its counts when it ends, or when it is asked to.
    let others = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    until(database, others, "2").await;
    for conn in [&database.conn, conn] {
        execute(conn, "SELECT pg_stat_force_next_flush()").await;
    }
    let sql = "SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint
        FROM pg_stat_user_tables WHERE schemaname = 'garth'";
    database.rows(0, sql).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_server_merges_an_account_at_a_time() {
    let mut both = Both::new(Registry::empty()).await;
    both.write_all().await;
    let (conn, account) = (&both.database.conn, both.account);
    assert_eq!(step(conn, account, SERVER).await.unwrap(), Step::Merged);
    assert_eq!(step(conn, account, b"other").await.unwrap(), Step::Held);
    // The server has vanished, and its lease has ended.
    both.database.rows(account, "UPDATE garth.merging SET until = 1");
    while step(conn, account, b"other").await.unwrap() == Step::Merged {
        assert_eq!(step(conn, account, SERVER).await.unwrap(), Step::Held);
    }
    // A server that has nothing left to merge lets go.
    assert_eq!(step(conn, account, SERVER).await.unwrap(), Step::Done);
}

/// Runs statements without rows.
async fn execute(conn: &Connection, sql: &str) {
    let mut pipe = Pipe::new(conn);
    pipe.simple(sql);
    pipe.run().await.unwrap();
}

/// Waits until a query has a result.
async fn until(database: &Database, sql: &str, due: &str) {
    for _ in 0..3000 {
        if database.rows(0, sql) == due {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{sql} never gave {due}");
}

/// Runs a step whose connection is lost when it sends its second trip. Returns false if the first one was
/// cut.
async fn is_cut_between_trips(both: &Both) -> bool {
    let (database, account) = (&both.database, both.account);
    let proxy = Proxy::to(database.cluster.address()).unwrap();
    let conn = connect(&database.cluster.tcp_url_through(proxy.address())).await;
    // The first trip waits until the cut is prepared.
    execute(&database.conn, "BEGIN; LOCK TABLE garth.merging IN EXCLUSIVE MODE").await;
    let prepare = async {
        until(database, "SELECT count(*) FROM pg_locks WHERE NOT granted", "1").await;
        proxy.cut_after(Direction::ToServer, 0);
        execute(&database.conn, "ROLLBACK").await;
    };
    let trips = conn.trips();
    let (cut, ()) = futures::join!(step(&conn, account, SERVER), prepare);
    assert_eq!(cut.unwrap_err().kind(), ErrorKind::Unavailable);
    // The last one is the attempt to roll back.
    conn.trips() - trips == 3
}

#[tokio::test(flavor = "multi_thread")]
async fn step_that_is_cut_changes_nothing() {
    let mut both = Both::new(Registry::empty()).await;
    both.write_all().await;
    let state = "SELECT (SELECT count(*) FROM garth.passage WHERE tokens IS NOT NULL),
        (SELECT coalesce(sum(count), 0) FROM garth.posting), (SELECT count(*) FROM garth.merging)";
    let before = both.database.rows(both.account, state);
    let mut tries = 0;
    while !is_cut_between_trips(&both).await {
        assert_eq!(both.database.rows(both.account, state), before);
        tries += 1;
        assert!(tries < 20, "each time the first trip was cut");
    }
    assert_eq!(both.database.rows(both.account, state), before);
    // A statement fails after others have written their rows.
    both.database
        .rows(both.account, "ALTER TABLE garth.passage ADD CONSTRAINT refused CHECK (tokens IS NOT NULL)");
    assert!(step(&both.database.conn, both.account, SERVER).await.is_err());
    assert_eq!(both.database.rows(both.account, state), before);
    both.database.rows(both.account, "ALTER TABLE garth.passage DROP CONSTRAINT refused");

    assert!(both.merge().await > 1);
    assert!(both.compare(10).await > 10);
}
