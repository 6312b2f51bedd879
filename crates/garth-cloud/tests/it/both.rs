//! Tree of the engine beside one of the executable specification, which get the same batches.

use futures::TryStreamExt as _;
use garth_engine::engine::memory::MemoryFs;
use garth_engine::model::{At, Batch, Commit, Ino, Kind, Seq, WalkItem};
use garth_engine::rule::Registry;
use garth_engine::{Env, Error, FileSystem, FileSystemExt as _, Name, Result};

use super::database::{Database, at};

/// All names with their nodes that have not expired: path, kind, link count, size, mode and target.
const TREE: &str = "SELECT n.dir || '/' || n.name, n.kind, v.nlink, v.size, v.mode, coalesce(v.target, '')
    FROM garth.name n
    JOIN LATERAL (SELECT * FROM garth.node v WHERE v.account = n.account AND v.ino = n.ino
        ORDER BY seq DESC LIMIT 1) v ON true
    WHERE coalesce(v.expires_at, 9223372036854775807) > extract(epoch FROM now())::bigint * 1000000000
    ORDER BY n.dir, n.name";
/// Pieces of the content of all files: path, offset and bytes.
const CONTENT: &str =
    "SELECT n.dir || '/' || n.name, e.off, encode(substr(c.data, e.skip::int + 1, e.len::int), 'hex')
    FROM garth.name n
    JOIN garth.extent e ON e.account = n.account AND e.ino = n.ino
    JOIN garth.chunk c ON c.account = e.account AND c.id = e.chunk
    WHERE n.kind = 0 ORDER BY n.dir, n.name, e.off";
/// Rows that contradict each other, each as a sentence.
pub(crate) const CONTRADICTIONS: &str = "
    SELECT 'references of chunk ' || c.id FROM garth.chunk c
        LEFT JOIN garth.chunk_refs r ON r.account = c.account AND r.chunk = c.id
        WHERE coalesce(r.count, 1) <> (SELECT count(*) FROM garth.extent e WHERE e.chunk = c.id)
            + (SELECT count(*) FROM garth.extent_past p WHERE p.chunk = c.id)
    UNION ALL SELECT 'links of node ' || v.ino FROM (SELECT DISTINCT ON (ino) * FROM garth.node ORDER BY ino, seq DESC) v
        WHERE v.nlink <> (CASE WHEN v.kind <> 1 THEN (SELECT count(*) FROM garth.name n WHERE n.ino = v.ino)
            WHEN v.ino <> 1 AND NOT EXISTS (SELECT FROM garth.name n WHERE n.ino = v.ino) THEN 0
            ELSE 2 + (SELECT count(*) FROM garth.name n WHERE n.kind = 1 AND n.dir = coalesce(
                (SELECT own.dir || '/' || own.name FROM garth.name own WHERE own.ino = v.ino), '')) END)
    UNION ALL SELECT 'directory of ' || n.dir || '/' || n.name FROM garth.name n WHERE n.dir <> ''
        AND NOT EXISTS (SELECT FROM garth.name d WHERE d.dir || '/' || d.name = n.dir AND d.kind = 1)
    UNION ALL SELECT 'span of ' || p.dir || '/' || p.name FROM garth.name_past p
        WHERE p.since >= p.till OR p.born > p.since OR p.fork <> garth.fork(p.since, p.till)
            OR p.born_fork <> garth.fork(p.born, p.till)
    UNION ALL SELECT 'times of directory ' || t.ino FROM garth.dir_time t
        WHERE t.seq <= (SELECT max(v.seq) FROM garth.node v WHERE v.ino = t.ino)
    UNION ALL SELECT 'extents of file ' || e.ino FROM garth.extent e JOIN garth.extent o ON o.ino = e.ino
        WHERE o.off > e.off AND o.off < e.off + e.len
    UNION ALL SELECT 'expiry of node ' || x.ino FROM garth.expiry x
        WHERE NOT EXISTS (SELECT FROM garth.name n WHERE n.ino = x.ino)
    UNION ALL SELECT 'stored bytes ' || h.stored || ' for ' || s.bytes FROM garth.head h
        CROSS JOIN LATERAL (SELECT
            (SELECT coalesce(sum(160 + 2 * octet_length(dir || name)), 0) FROM garth.name)
            + (SELECT coalesce(sum(160 + 2 * octet_length(dir || name)), 0) FROM garth.name_past)
            + (SELECT coalesce(sum(160 + octet_length(coalesce(target, ''))), 0) FROM garth.node)
            + (SELECT coalesce(sum(160 + octet_length(json)), 0) FROM garth.attribute)
            + (SELECT 160 * count(*) FROM garth.extent) + (SELECT 160 * count(*) FROM garth.extent_past)
            + (SELECT coalesce(sum(len), 0) FROM garth.chunk)
            + (SELECT coalesce(sum(160 + octet_length(changes) + octet_length(coalesce(author, ''))
                + coalesce(octet_length(message), 0) + octet_length(coalesce(answer, ''))), 0) FROM garth.log)
            + (SELECT coalesce(sum(160 + octet_length(changes)), 0) FROM garth.log_more)
            + (SELECT coalesce(sum(160 + octet_length(note)), 0) FROM garth.idempotency) AS bytes) s
        WHERE h.stored <> s.bytes";

/// Addresses of a node, in the engine and in the specification: their inodes may differ.
pub(crate) type Addresses = [At; 2];

/// Both trees.
pub(crate) struct Both {
    pub(crate) database: Database,
    pub(crate) account: i64,
    pub(crate) memory: MemoryFs,
}

impl Both {
    /// Creates two empty trees.
    pub(crate) async fn new() -> Self {
        let database = Database::new().await;
        let account = database.account("her").await;
        Self { database, account, memory: MemoryFs::new(Env::system(), Registry::empty()) }
    }

    /// Commits a group of batches to both trees. Results and trees have to be the same.
    pub(crate) async fn group(&self, batches: &[Batch]) -> Vec<Result<Commit>> {
        let pairs: Vec<[Batch; 2]> = batches.iter().map(|batch| [batch.clone(), batch.clone()]).collect();
        self.pairs(&pairs).await
    }

    /// Commits a batch to both trees.
    pub(crate) async fn commit(&self, batch: impl Into<Batch>) -> Result<Commit> {
        self.group(&[batch.into()]).await.remove(0)
    }

    /// Commits a batch to both trees that is made for the inodes of each.
    pub(crate) async fn pair(&self, batch: impl Fn(usize) -> Batch) -> Result<Commit> {
        self.pairs(&[[batch(0), batch(1)]]).await.remove(0)
    }

    /// Commits batches that are to mean the same: the first of each to the engine.
    async fn pairs(&self, pairs: &[[Batch; 2]]) -> Vec<Result<Commit>> {
        let own: Vec<Batch> = pairs.iter().map(|pair| pair[0].clone()).collect();
        let results = self.database.commit(self.account, &own).await;
        for ([batch, like], result) in pairs.iter().zip(&results) {
            let expected = self.memory.commit(like.clone()).await;
            assert_eq!(described(result), described(&expected), "{batch:?}");
        }
        self.compare().await;
        results
    }

    /// Compares both trees, now and in the past.
    pub(crate) async fn compare(&self) {
        let items: Vec<WalkItem> = self.memory.walk_all(at("/")).try_collect().await.unwrap();
        let mut expected = Vec::new();
        for WalkItem { path, entry, .. } in &items {
            let entry = entry.as_ref().unwrap();
            let (kind, target) = (kind_number(entry.kind), entry.target.clone().unwrap_or_default());
            expected.push(format!("{path}|{kind}|{}|{}|{}|{target}", entry.nlink, entry.size, entry.mode));
        }
        assert_eq!(self.rows(TREE), expected);
        self.compare_content(&items).await;
        assert_eq!(self.rows(CONTRADICTIONS), [""; 0]);
        let last = self.memory.head().await.unwrap().seq.0;
        self.compare_past(last).await;
    }

    async fn compare_content(&self, items: &[WalkItem]) {
        let pieces = self.rows(CONTENT);
        for item in items.iter().filter(|item| item.kind == Kind::File) {
            let expected = self.memory.read_file(&item.path).await.unwrap();
            let mut content = vec![0; expected.len()];
            let prefix = format!("{}|", item.path);
            for piece in pieces.iter().filter_map(|piece| piece.strip_prefix(&prefix)) {
                let (off, hex) = piece.split_once('|').unwrap();
                let off: usize = off.parse().unwrap();
                for (number, digits) in hex.as_bytes().chunks(2).enumerate() {
                    let digits = str::from_utf8(digits).unwrap();
                    content[off + number] = u8::from_str_radix(digits, 16).unwrap();
                }
            }
            assert_eq!(content, expected, "content of {}", item.path);
        }
    }

    /// Compares the names of each state, with the sizes and link counts of their nodes.
    async fn compare_past(&self, last: u64) {
        let mut expected = Vec::new();
        for seq in last.saturating_sub(6).max(1)..=last {
            let then = self.memory.as_of(&Seq(seq).into()).await.unwrap();
            let items: Vec<WalkItem> = then.walk_all(at("/")).try_collect().await.unwrap();
            for WalkItem { path, entry, .. } in items {
                let entry = entry.unwrap();
                if entry.expires_at.is_none() {
                    expected.push(format!("{seq}|{path}|{}|{}", entry.nlink, entry.size));
                }
            }
        }
        let first = last.saturating_sub(6).max(1);
        let names = format!(
            "SELECT s.seq, n.dir || '/' || n.name, v.nlink, v.size FROM generate_series({first}, {last}) s(seq)
            JOIN (SELECT dir, name, ino, since, 9223372036854775807 AS till FROM garth.name
                UNION ALL SELECT dir, name, ino, since, till FROM garth.name_past) n
                ON n.since <= s.seq AND n.till > s.seq
            JOIN LATERAL (SELECT nlink, size, expires_at FROM garth.node v
                WHERE v.ino = n.ino AND v.seq <= s.seq ORDER BY v.seq DESC LIMIT 1) v ON true
            WHERE v.expires_at IS NULL ORDER BY s.seq, n.dir, n.name"
        );
        assert_eq!(self.rows(&names), expected);
    }

    /// Returns the rows of a query of the account.
    pub(crate) fn rows(&self, sql: &str) -> Vec<String> {
        let rows = self.database.rows(self.account, sql);
        rows.lines().map(str::to_owned).collect()
    }

    /// Returns the addresses of the node at a path, by its inodes.
    pub(crate) async fn node(&self, path: &str) -> Addresses {
        let (dir, name) = path.rsplit_once('/').unwrap();
        let sql = format!("SELECT ino FROM garth.name WHERE dir = '{dir}' AND name = '{name}'");
        let own = self.database.rows(self.account, &sql).parse::<u64>().unwrap();
        let like = self.memory.entry(&at(path)).await.unwrap().ino;
        [At::Node(Ino(own)), At::Node(like)]
    }

    /// Returns the addresses of a name in the directory at a path, by the inodes of the directory.
    pub(crate) async fn child(&self, dir: &str, name: &str) -> Addresses {
        let name = Name::parse(name).unwrap();
        self.node(dir).await.map(|dir| match dir {
            At::Node(ino) => At::Child(ino, name.clone()),
            other => other,
        })
    }
}

/// Describes a result, without what may differ: inodes, times and the words of errors.
fn described(result: &Result<Commit>) -> String {
    let failed = |error: &Error| format!("{:?} {:?}", error.kind(), error.path());
    match result {
        Err(error) => failed(error),
        Ok(commit) => {
            let outcomes = commit.outcomes.iter();
            let outcomes: Vec<_> =
                outcomes.map(|it| (it.created, it.changed, it.size, it.version.seq.0)).collect();
            format!("{} {} {:?} {outcomes:?}", commit.seq.0, commit.replayed, commit.note)
        }
    }
}

fn kind_number(kind: Kind) -> u8 {
    match kind {
        Kind::File => 0,
        Kind::Directory => 1,
        Kind::Symlink => 2,
        Kind::Fifo => 3,
        Kind::Socket => 4,
        Kind::CharDevice => 5,
        Kind::BlockDevice => 6,
        Kind::Whiteout => 7,
    }
}
