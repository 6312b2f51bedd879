//! The statements of each call, as a program would send them by hand for the same rows: without rules,
//! without a plan, and in as few round trips as possible.

use std::time::Duration;

use garth_cloud::client::{Connection, Param, Pipe, param};
use garth_engine::Env;
use tokio_postgres::Config;
use tokio_postgres::types::Type;

use crate::jobs::{Job, bytes};
use crate::table::median;
use crate::{Outcome, Server};

const STAT: &str = "SELECT n.kind, v.* FROM garth.name n
    CROSS JOIN LATERAL (SELECT * FROM garth.node WHERE account = $1 AND ino = n.ino ORDER BY seq DESC LIMIT 1) v
    WHERE n.account = $1 AND n.dir = $2 AND n.name = $3";
const READ: &str = "SELECT v.*, e.off, e.len, e.skip, c.data FROM garth.name n
    CROSS JOIN LATERAL (SELECT * FROM garth.node WHERE account = $1 AND ino = n.ino ORDER BY seq DESC LIMIT 1) v
    JOIN garth.extent e ON e.account = $1 AND e.ino = n.ino
    JOIN garth.chunk c ON c.account = $1 AND c.id = e.chunk
    WHERE n.account = $1 AND n.dir = $2 AND n.name = $3 ORDER BY e.off";
const LIST: &str = "SELECT n.name, v.* FROM (SELECT * FROM garth.name
        WHERE account = $1 AND dir = $2 ORDER BY name LIMIT 101) n
    CROSS JOIN LATERAL (SELECT * FROM garth.node WHERE account = $1 AND ino = n.ino ORDER BY seq DESC LIMIT 1) v
    ORDER BY n.name";
const LOCK: &str = "SELECT seq FROM garth.head WHERE account = $1 FOR UPDATE";
const NAME: &str =
    "INSERT INTO garth.name (account, dir, name, ino, since, kind) VALUES ($1, $2, $3, $4, $5, 0)";
const NODE: &str =
    "INSERT INTO garth.node (account, ino, seq, kind, mode, uid, gid, rdev, nlink, size, mtime,
        ctime, birthtime, atime, target, attrs_seq, expires_at, content_seq)
    VALUES ($1, $2, $3, 0, 420, 0, 0, 0, 1, $4, 0, 0, 0, 0, NULL, 0, NULL, $3)";
const EXTENT: &str = "INSERT INTO garth.extent (account, ino, off, len, since, chunk, skip, older)
    VALUES ($1, $2, $3, $4, $5, $6, 0, 0)";
const ENDED: &str = "INSERT INTO garth.extent_past (account, ino, till, off, len, since, chunk, skip, older)
    SELECT account, ino, $3, off, len, since, chunk, skip, older FROM garth.extent WHERE account = $1 AND ino = $2";
const REPLACED: &str = "UPDATE garth.extent SET len = $3, since = $4, chunk = $5
    WHERE account = $1 AND ino = $2 AND off = 0";
const CHUNK: &str = "INSERT INTO garth.chunk (account, id, sum, len, data) VALUES ($1, $2, $3, $4, $5)";
const NAME_PAST: &str =
    "INSERT INTO garth.name_past (account, dir, name, till, ino, since, kind, fork, born, born_fork)
    SELECT account, dir, name, $4, ino, since, kind, garth.fork(since, $4), since, garth.fork(since, $4)
    FROM garth.name WHERE account = $1 AND dir = $2 AND name = $3";
const RENAMED: &str =
    "UPDATE garth.name SET name = $4, since = $5 WHERE account = $1 AND dir = $2 AND name = $3";
const LOG: &str = "INSERT INTO garth.log (account, seq, time, owner, overrides, changes)
    VALUES ($1, $2, $2, 0, false, $3)";
const HEAD: &str =
    "UPDATE garth.head SET seq = $2, time = $2, next_ino = $3, next_chunk = $3 WHERE account = $1";

/// Connection through the proxy, and the next free numbers of an account.
pub(crate) struct ByHand {
    conn: Connection,
    account: i64,
    /// Next commit, inode and chunk.
    next: i64,
    /// Inodes of the files that are written over, appended to and renamed, and the size of the second one.
    files: [i64; 3],
    size: i64,
}

impl ByHand {
    /// Connects, and creates the files that are changed.
    pub(crate) async fn new(server: &Server, url: &str) -> Outcome<Self> {
        let config: Config = url.parse()?;
        let conn = Connection::connect(&config, false).await?;
        let account = server.number("by-hand")?;
        // Above all numbers that the account has used.
        let mut this = Self { conn, account, next: 1_000_000, files: [0; 3], size: 0 };
        for (place, name) in ["over", "appended", "renamed-0"].into_iter().enumerate() {
            let number = this.next;
            this.files[place] = number;
            this.commit(|one, pipe, at| one.create(pipe, at, name, 8)).await?;
        }
        this.size = 8;
        Ok(this)
    }

    /// Returns the median time of a call; `None` for one that has no statements here.
    pub(crate) async fn median(&mut self, job: Job, calls: usize) -> Outcome<Option<Duration>> {
        if matches!(job, Job::Get | Job::Put) {
            return Ok(None);
        }
        let env = Env::system();
        let mut times = Vec::new();
        for number in 0..calls.next_multiple_of(2) {
            let begun = env.instant();
            self.call(job, number).await?;
            times.push(begun.elapsed());
        }
        Ok(Some(median(times)))
    }

    async fn call(&mut self, job: Job, number: usize) -> Outcome<()> {
        let file = format!("f{}", 2 * (number % 500));
        match job {
            Job::Stat => self.query(STAT, &["/files", &file]).await,
            Job::Read => self.query(READ, &["/files", &file]).await,
            Job::List => self.query(LIST, &["/files"]).await,
            Job::Create => {
                let name = format!("f{}", self.next);
                self.commit(|one, pipe, at| one.create(pipe, at, &name, 4096)).await
            }
            Job::Overwrite => {
                self.commit(|one, pipe, at| {
                    let ino = one.files[0];
                    one.add(pipe, ENDED, vec![int(ino), int(at)]);
                    one.add(pipe, REPLACED, vec![int(ino), int(4096), int(at), int(at)]);
                    one.content(pipe, (ino, at), 4096, 4096);
                })
                .await
            }
            Job::Append => {
                let (size, grown) = (self.size, self.size + 200);
                self.size = grown;
                self.commit(|one, pipe, at| {
                    let ino = one.files[1];
                    one.add(pipe, EXTENT, vec![int(ino), int(size), int(200), int(at), int(at)]);
                    one.content(pipe, (ino, at), 200, grown);
                })
                .await
            }
            Job::Rename => {
                let (from, to) = (format!("renamed-{}", number % 2), format!("renamed-{}", (number + 1) % 2));
                self.commit(|one, pipe, at| {
                    one.add(pipe, NAME_PAST, vec![text("/by-hand"), text(&from), int(at)]);
                    one.add(pipe, RENAMED, vec![text("/by-hand"), text(&from), text(&to), int(at)]);
                    one.add(pipe, NODE, vec![int(one.files[2]), int(at), int(8)]);
                })
                .await
            }
            Job::Get | Job::Put => Ok(()),
        }
    }

    /// Runs one statement that reads, in a transaction of its own.
    async fn query(&self, sql: &'static str, texts: &[&str]) -> Outcome<()> {
        let mut pipe = Pipe::new(&self.conn);
        pipe.simple(begin("READ ONLY", self.account));
        self.add(&mut pipe, sql, texts.iter().map(|one| text(one)).collect());
        pipe.simple("COMMIT");
        pipe.run().await?;
        Ok(())
    }

    /// Makes a commit in two round trips: the lock, whose answer a program needs, and the changes.
    async fn commit(&mut self, changes: impl FnOnce(&Self, &mut Pipe<'_>, i64)) -> Outcome<()> {
        let at = self.next;
        self.next += 1;
        let mut pipe = Pipe::new(&self.conn);
        pipe.simple(begin("READ WRITE", self.account));
        self.add(&mut pipe, LOCK, Vec::new());
        pipe.run().await?;
        let mut pipe = Pipe::new(&self.conn);
        changes(self, &mut pipe, at);
        self.add(&mut pipe, LOG, vec![int(at), text("[]")]);
        self.add(&mut pipe, HEAD, vec![int(at), int(at + 1)]);
        pipe.simple("COMMIT");
        pipe.run().await?;
        Ok(())
    }

    /// Adds the rows of a new file.
    fn create(&self, pipe: &mut Pipe<'_>, at: i64, name: &str, size: i64) {
        self.add(pipe, NAME, vec![text("/by-hand"), text(name), int(at), int(at)]);
        self.add(pipe, EXTENT, vec![int(at), int(0), int(size), int(at), int(at)]);
        self.content(pipe, (at, at), size, size);
    }

    /// Adds the version of a file of this size, and the chunk of its new content, which has the number of the
    /// commit.
    fn content(&self, pipe: &mut Pipe<'_>, (ino, at): (i64, i64), length: i64, size: i64) {
        self.add(pipe, NODE, vec![int(ino), int(at), int(size)]);
        let data = bytes(at as usize, length as usize);
        let sum = param(at.to_be_bytes().to_vec(), Type::BYTEA);
        self.add(pipe, CHUNK, vec![int(at), sum, int(length), param(data, Type::BYTEA)]);
    }

    /// Adds a statement, whose first parameter is the account.
    fn add(&self, pipe: &mut Pipe<'_>, sql: &'static str, params: Vec<Param>) {
        pipe.query(sql, [int(self.account)].into_iter().chain(params).collect());
    }
}

fn begin(mode: &str, account: i64) -> String {
    format!("BEGIN {mode}; SELECT set_config('garth.account', '{account}', true)")
}

fn int(number: i64) -> Param {
    param(number, Type::INT8)
}

fn text(text: &str) -> Param {
    param(text.to_owned(), Type::TEXT)
}
