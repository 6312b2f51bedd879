//! Every operation of a batch, compared with the executable specification.

use garth_engine::ErrorKind;
use garth_engine::model::quota::Limits;
use garth_engine::model::{
    Batch, CommitId, Idempotency, Op, Precondition, Seq, SetAttrs, Special, Timestamp,
};
use garth_engine::rule::{Constraint, PathPattern, Rule, Rules};

use super::both::Both;
use super::database::{append, at, write};

/// Long enough to be stored once, however many files have it.
const LONG: usize = 100_000;

/// Returns operations that write files, each with its own path as content.
fn files(paths: &[&str]) -> Batch {
    Batch::new(paths.iter().map(|path| Op::write(at(path), (*path).to_owned()).with_parents()))
}

/// Returns a batch of one operation.
fn one(op: Op) -> Batch {
    Batch::new([op])
}

#[tokio::test(flavor = "multi_thread")]
async fn single_names_are_moved_and_removed() {
    let both = Both::new().await;
    both.commit(files(&["/a", "/b", "/d/c", "/d/e"])).await.unwrap();
    for op in [
        Op::rename(at("/a"), at("/d/a")),
        Op::rename(at("/b"), at("/d/a")),
        Op::rename(at("/d/a"), at("/d/c")).no_replace(),
        Op::exchange(at("/d/a"), at("/d/c")),
        Op::link(at("/d/c"), at("/link")),
        Op::rename(at("/link"), at("/d/c")),
        Op::remove(at("/d/c")),
        Op::rename(at("/link"), at("/new/link")).with_parents(),
        Op::remove_file(at("/new/link")),
        Op::remove_dir(at("/new")),
        Op::remove_dir(at("/d")),
        Op::remove_file(at("/none")).if_exists(),
        Op::remove_file(at("/none")),
        Op::symlink(at("/s"), "d/e"),
        Op::mknod(at("/fifo"), Special::Fifo),
        Op::mkdir(at("/d")),
        Op::mkdir_all(at("/d")),
        Op::write(at("/s"), "x").create_new(),
        Op::write(at("/e"), "x").must_exist(),
    ] {
        drop(both.commit(one(op)).await);
    }
    // A name that a node leaves and gets again, in one group.
    both.group(&[
        write("/x", "x"),
        one(Op::rename(at("/x"), at("/y"))),
        one(Op::rename(at("/y"), at("/x"))),
        one(Op::rename(at("/x"), at("/y"))),
        one(Op::rename(at("/y"), at("/x"))),
    ])
    .await;
    let born = "SELECT name, since, till, born FROM garth.name_past WHERE name IN ('x', 'y') ORDER BY till";
    let rows = both.rows(born);
    let first: u64 = rows[0].split('|').nth(1).unwrap().parse().unwrap();
    let line = |name: &str, since: u64, born: u64| {
        format!("{name}|{}|{}|{}", first + since, first + since + 1, first + born)
    };
    // What was left is born when it was left: commit 1 ended `x`, commit 2 ended `y`.
    assert_eq!(rows, [line("x", 0, 0), line("y", 1, 0), line("x", 2, 1), line("y", 3, 2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn directories_move_with_all_below_them() {
    let both = Both::new().await;
    // Around `/d` in the order of bytes: names that begin like it are not in it.
    both.commit(files(&["/d\x01/f", "/d!/f", "/d-/f", "/d./f", "/d0/f", "/dd/f"])).await.unwrap();
    both.commit(files(&["/d/a", "/d/s/b", "/d/s/t/c", "/d/s\x01/b", "/d/s-/b", "/d/s0/b"])).await.unwrap();
    for op in [
        Op::rename(at("/d"), at("/e")),
        Op::rename(at("/e/s"), at("/e/longer-name")),
        Op::rename(at("/e/longer-name"), at("/s")),
        Op::rename(at("/e"), at("/s/e")),
        Op::rename(at("/s/e"), at("/d")),
        Op::exchange(at("/d"), at("/s")),
        Op::exchange(at("/s"), at("/d")),
        Op::exchange(at("/d/a"), at("/s")),
        Op::rename(at("/d"), at("/d/s0/x")),
        Op::mkdir(at("/empty")),
        Op::rename(at("/d"), at("/empty")),
        Op::rename(at("/empty"), at("/s\u{e9}\u{20ac}")),
        Op::rename(at("/s\u{e9}\u{20ac}"), at("/d")),
    ] {
        drop(both.commit(one(op)).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn moves_of_one_batch_see_each_other() {
    let both = Both::new().await;
    both.commit(files(&["/a/f", "/a/g", "/a/s/h", "/b/f", "/b/x", "/c/f"])).await.unwrap();
    let batches = [
        // Written into, taken from and moved on.
        Batch::new([
            Op::rename(at("/a"), at("/m")),
            Op::write(at("/m/new"), "new"),
            Op::append(at("/m/f"), "more"),
            Op::remove(at("/m/g")),
            Op::rename(at("/m/s"), at("/s")),
            Op::rename(at("/m"), at("/n")),
        ]),
        // A place that was emptied by name before something arrives there.
        Batch::new([
            Op::remove(at("/b/f")),
            Op::remove(at("/b/x")),
            Op::rename(at("/n"), at("/b")),
            Op::write(at("/b/x"), "again"),
        ]),
        // Three in a circle.
        Batch::new([
            Op::rename(at("/b"), at("/t")),
            Op::rename(at("/c"), at("/b")),
            Op::rename(at("/s"), at("/c")),
            Op::rename(at("/t"), at("/s")),
        ]),
        // There and back.
        Batch::new([Op::rename(at("/s"), at("/t")), Op::rename(at("/t"), at("/s"))]),
        Batch::new([
            Op::rename(at("/s"), at("/t")),
            Op::copy_tree(at("/t"), at("/s")),
            Op::remove_tree(at("/t")),
            Op::link(at("/s/f"), at("/kept")),
        ]),
    ];
    for batch in batches {
        both.commit(batch).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_trees_take_the_names_of_their_nodes() {
    let both = Both::new().await;
    both.commit(files(&["/d/a", "/d/s/b", "/d/s/c", "/e/x", "/d-/a"])).await.unwrap();
    both.commit(Batch::new([
        Op::link(at("/d/a"), at("/kept")),
        Op::link(at("/d/a"), at("/d/s/again")),
        Op::link(at("/d/s/b"), at("/e/b")),
        Op::link(at("/d/s/c"), at("/d/twice")),
        Op::set_attrs(at("/d/twice"), SetAttrs::new().mode(0o600)),
    ]))
    .await
    .unwrap();
    // The names of one node are taken by two operations, some of them after a move.
    both.commit(Batch::new([
        Op::rename(at("/d/s"), at("/s")),
        Op::remove_tree(at("/d")),
        Op::append(at("/s/b"), "more"),
        Op::remove_tree(at("/e")),
        Op::remove_tree(at("/s")),
    ]))
    .await
    .unwrap();
    assert_eq!(both.rows("SELECT dir, name FROM garth.name ORDER BY 1, 2"), ["|d-", "|kept", "/d-|a"]);
    // A node that keeps a name has changed; one that lost the last ended as it was.
    let changed = "SELECT DISTINCT ON (ino) nlink, ctime = (SELECT time FROM garth.log WHERE seq = node.seq)
        FROM garth.node WHERE kind = 0 AND ino IN (SELECT ino FROM garth.name_past WHERE name IN ('a', 'c'))
        ORDER BY ino, seq DESC";
    let mut changed = both.rows(changed);
    changed.sort_unstable();
    assert_eq!(changed.last().map(String::as_str), Some("1|t"));
    // Times of directories end with the row that ends them.
    assert_eq!(
        both.rows(
            "SELECT count(*) FROM garth.dir_time t JOIN garth.node v ON v.ino = t.ino WHERE v.nlink = 0"
        ),
        ["0"]
    );
    let unnoted = "SELECT count(*) FROM garth.node v WHERE nlink = 0
        AND NOT EXISTS (SELECT FROM garth.replaced r WHERE r.ino = v.ino AND r.seq = v.seq)";
    assert_eq!(both.rows(unnoted), ["0"]);

    both.commit(files(&["/t/a", "/t/b", "/t/c"])).await.unwrap();
    both.commit(one(Op::set_attrs(at("/t/a"), SetAttrs::new().expires_at(Timestamp(i64::MAX / 2)))))
        .await
        .unwrap();
    // Removed one by one, and the rest with the directory.
    both.commit(Batch::new([Op::remove(at("/t/b")), Op::write(at("/t/c"), "x"), Op::remove_tree(at("/t"))]))
        .await
        .unwrap();
    assert_eq!(both.rows("SELECT count(*) FROM garth.expiry"), ["0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn later_batches_of_a_group_see_moved_subtrees() {
    let both = Both::new().await;
    both.commit(files(&["/d/a", "/d/s/b", "/e/x"])).await.unwrap();
    let group = [
        write("/d/new", "new"),
        one(Op::rename(at("/d"), at("/m"))),
        append("/m/new", "more"),
        one(Op::remove(at("/d"))),
        one(Op::rename(at("/m/s"), at("/e/s"))),
        write("/e/s/b", "over"),
        one(Op::remove_tree(at("/e"))),
        write("/e/x", "again"),
        one(Op::exchange(at("/e"), at("/m"))),
        append("/e/new", "!"),
    ];
    let results = both.group(&group).await;
    let failed: Vec<usize> = (0..group.len()).filter(|place| results[*place].is_err()).collect();
    assert_eq!(failed, [3]);
    assert_eq!(both.database.content(both.account, "/e", "new"), "newmore!");
    // More than one transaction takes.
    let many: Vec<Batch> = (0..40)
        .flat_map(|number| {
            let (from, to) = if number % 2 == 0 { ("/e", "/f") } else { ("/f", "/e") };
            [one(Op::rename(at(from), at(to))), append(&format!("{to}/new"), "+")]
        })
        .collect();
    both.group(&many).await.into_iter().for_each(|result| drop(result.unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn content_is_edited_in_place() {
    let both = Both::new().await;
    let long = "0123456789".repeat(LONG / 10);
    both.commit(write("/long", long.as_str())).await.unwrap();
    both.commit(write("/f", "0123456789")).await.unwrap();
    for op in [
        Op::patch(at("/f"), 3, "abc"),
        Op::patch(at("/f"), 20, "far"),
        Op::truncate(at("/f"), 21),
        Op::truncate(at("/f"), 40),
        Op::punch(at("/f"), 2, 5),
        Op::punch(at("/f"), 0, 100),
        Op::append(at("/f"), "end"),
        Op::patch(at("/long"), 50_000, "in the middle"),
        Op::copy_range(at("/long"), 49_990, 40, at("/f"), 7),
        Op::copy_range(at("/f"), 0, 30, at("/f"), 30),
        Op::copy_range(at("/long"), 0, 1000, at("/none"), 0),
        Op::truncate(at("/long"), 10),
        Op::truncate(at("/f"), 0),
        Op::truncate(at("/"), 0),
        Op::write(at("/f"), ""),
    ] {
        drop(both.commit(one(op)).await);
    }
    both.commit(Batch::new([
        Op::write(at("/log"), "a\n"),
        Op::append(at("/log"), "b\nc\n").cut_at([2]),
        Op::patch(at("/log"), 1, "!"),
        Op::truncate(at("/log"), 3),
    ]))
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_share_content_with_their_source() {
    let both = Both::new().await;
    let long = "0123456789".repeat(LONG / 10);
    let first = both.commit(write("/d/long", long.as_str())).await.unwrap().seq;
    both.commit(files(&["/d/a", "/d/s/b", "/d\x01/a"])).await.unwrap();
    both.commit(Batch::new([Op::link(at("/d/a"), at("/d/s/link")), Op::symlink(at("/d/l"), "a")]))
        .await
        .unwrap();
    let before = both.commit(one(Op::patch(at("/d/long"), 5, "x"))).await.unwrap().seq;
    both.commit(Batch::new([Op::rename(at("/d/s"), at("/d/t")), Op::remove(at("/d/a"))])).await.unwrap();
    for op in [
        Op::copy(at("/d/long"), at("/copy")),
        Op::copy(at("/d"), at("/no")),
        Op::copy_tree(at("/d"), at("/e")),
        Op::copy_tree(at("/d"), at("/e")),
        Op::copy(at("/d/t/b"), at("/copy")).replace(),
        Op::copy_tree(at("/d"), at("/e")).replace(),
        Op::copy_tree(at("/d"), at("/then")).as_of(before),
        Op::copy(at("/d/long"), at("/first")).as_of(first),
        Op::copy(at("/d/a"), at("/a")).as_of(before),
        Op::copy(at("/d/a"), at("/none")).as_of(first),
        Op::copy(at("/d/a"), at("/none")).as_of(Seq(1000)),
        Op::copy_tree(at("/d/s"), at("/then/d/s")).as_of(before).with_parents(),
    ] {
        drop(both.commit(one(op)).await);
    }
    let [own, like] = both.node("/d").await;
    let ats = [own, like];
    both.pair(|of| one(Op::copy_tree(ats[of].clone(), at("/by-node")).as_of(before))).await.unwrap();
    assert_eq!(both.rows("SELECT count(*) FROM garth.chunk WHERE len > 50000"), ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_and_children_are_addressed_by_inode() {
    let both = Both::new().await;
    both.commit(files(&["/d/a", "/d/s/b"])).await.unwrap();
    let (file, dir) = (both.node("/d/a").await, both.node("/d").await);
    let (child, below) = (both.child("/d", "a").await, both.child("/d/s", "new").await);
    both.pair(|of| one(Op::append(file[of].clone(), "more"))).await.unwrap();
    both.pair(|of| one(Op::write(below[of].clone(), "new"))).await.unwrap();
    both.pair(|of| one(Op::rename(child[of].clone(), below[of].clone()))).await.unwrap();
    both.pair(|of| one(Op::set_attrs(dir[of].clone(), SetAttrs::new().mode(0o700)))).await.unwrap();
    both.pair(|of| one(Op::link(file[of].clone(), child[of].clone()))).await.unwrap();
    both.pair(|of| one(Op::check(below[of].clone(), Precondition::Exists))).await.unwrap();
    let refused =
        |of: usize| Batch::new([Op::mkdir(at("/x"))]).require(file[of].clone(), Precondition::Absent);
    assert_eq!(both.pair(refused).await.unwrap_err().kind(), ErrorKind::Conflict);
    let stale = |of: usize| {
        let assumptions =
            vec![(child[of].clone(), Precondition::Exists), (at("/none").into(), Precondition::Exists)];
        Batch { assumptions, ..Batch::new([Op::mkdir(at("/x"))]) }
    };
    assert_eq!(both.pair(stale).await.unwrap_err().kind(), ErrorKind::Stale);
    // A file with several names is moved by its directory, and removed by its inode's.
    both.pair(|of| Batch::new([Op::rename(at("/d/s"), at("/s")), Op::append(file[of].clone(), "!")]))
        .await
        .unwrap();
    both.pair(|of| one(Op::remove_tree(dir[of].clone()))).await.unwrap_err();
    both.commit(one(Op::remove_tree(at("/d")))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_are_checked_on_fetched_rows() {
    let both = Both::new().await;
    both.commit(write("/a", "content")).await.unwrap();
    let hash = |content: &str| {
        use sha2::Digest as _;
        Precondition::Sha256(sha2::Sha256::digest(content).into())
    };
    for that in
        [Precondition::Exists, Precondition::Absent, hash("content"), hash("other"), hash("other").negated()]
    {
        drop(both.commit(append("/a", "").require(at("/a"), that.clone())).await);
        drop(both.commit(Batch::new([Op::check(at("/none"), that), Op::mkdir_all(at("/d"))])).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_entries_end_as_expired() {
    let both = Both::new().await;
    let past = || SetAttrs::new().expires_at(Timestamp(1));
    both.commit(Batch::new([
        Op::write(at("/d/gone"), "x").with_parents().with_attrs(past()),
        Op::write(at("/d/s/gone"), "x").with_parents().with_attrs(past()),
        Op::write(at("/kept"), "x").with_attrs(SetAttrs::new().expires_at(Timestamp(i64::MAX / 2))),
    ]))
    .await
    .unwrap();
    for op in [
        Op::write(at("/d/gone"), "again").create_new(),
        Op::set_attrs(at("/kept"), SetAttrs::new().never_expires()),
        Op::remove_tree(at("/d")),
    ] {
        both.commit(one(op)).await.unwrap();
    }
    let expired = "SELECT count(*) FROM garth.log WHERE changes LIKE '%[\"x\"%'";
    assert_eq!(both.rows(expired), ["2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_are_named_once() {
    let both = Both::new().await;
    let long = "n".repeat(3000);
    for op in [
        Op::snapshot("one"),
        Op::snapshot("one"),
        Op::snapshot(&long),
        Op::snapshot(format!("{long}n")),
        Op::drop_snapshot("one"),
        Op::drop_snapshot("one"),
        Op::snapshot("one"),
    ] {
        drop(both.commit(one(op)).await);
    }
    let rows = "SELECT octet_length(name), octet_length(long), seq FROM garth.snapshot ORDER BY seq";
    assert_eq!(both.rows(rows), ["1040|3000|2", "1040|3001|3", "3||5"]);
    both.group(&[one(Op::snapshot("two")), one(Op::drop_snapshot("two")), one(Op::snapshot("two"))]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_batches_get_their_first_commit() {
    let both = Both::new().await;
    let named = |number: u128| append("/log", "line\n").id(CommitId(number));
    both.commit(named(1)).await.unwrap();
    assert!(both.commit(named(1)).await.unwrap().replayed);
    let results = both.group(&[named(2), named(2), named(3), named(1)]).await;
    let replayed: Vec<bool> = results.iter().map(|result| result.as_ref().unwrap().replayed).collect();
    assert_eq!(replayed, [false, true, false, true]);
    let until = Timestamp(i64::MAX / 2);
    let keyed = |key: &str, hash: u8, until: Timestamp| {
        let record = Idempotency::new(key, [hash; 32], until).note("a\0note");
        append("/log", "line\n").idempotency(record)
    };
    let long = "k".repeat(4000);
    for (key, hash) in [("k", 1), ("k", 1), ("k", 2), (long.as_str(), 1), (long.as_str(), 1)] {
        drop(both.commit(keyed(key, hash, until)).await);
    }
    // A record whose time has ended is replaced.
    for _ in 0..2 {
        assert!(!both.commit(keyed("old", 1, Timestamp(1))).await.unwrap().replayed);
    }
    both.group(&[keyed("group", 1, until), keyed("group", 1, until), keyed("group", 2, until)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_are_judged_on_fetched_rows() {
    let both = Both::new().await;
    both.commit(files(&["/r/a.json", "/o/b"])).await.unwrap();
    let rules = [
        ("/r/**", Constraint::MaxSize(20)),
        ("/j/**", Constraint::JsonLines { schema: None, unique: None, check: None }),
    ];
    let mut set = Rules::none();
    for (number, (pattern, constraint)) in rules.into_iter().enumerate() {
        let rule = Rule::new(PathPattern::parse(pattern).unwrap(), constraint);
        let sql = format!(
            "INSERT INTO garth.rule (account, key, class, demand, terms) VALUES ({}, '\\x0{number}', '{pattern}', '{}', '{}');
             UPDATE garth.head SET control = control + 1",
            both.account,
            rule.constraint().name(),
            rule.constraint().terms()
        );
        both.database.rows(both.account, &sql);
        set = set.with(rule).unwrap();
    }
    both.memory.set_rules(set);
    for batch in [
        write("/r/long", "more than twenty bytes of text"),
        write("/r/short", "short"),
        append("/r/short", "and then more than is allowed"),
        append("/j/log", "{}\n"),
        append("/j/log", "[1]\n"),
        append("/j/log", "no json\n"),
        write("/j/log", "{}\n"),
        one(Op::rename(at("/o"), at("/j/o"))),
        one(Op::rename(at("/j"), at("/k"))),
        one(Op::remove_tree(at("/k"))),
        write("/r/over", "more than twenty bytes of text").overriding_rules(),
    ] {
        drop(both.commit(batch).await);
    }
    assert_eq!(
        both.rows("SELECT count(*) FROM garth.judged j JOIN garth.node n ON n.ino = j.ino AND n.nlink = 0"),
        ["0"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_are_counted_in_the_commit() {
    let both = Both::new().await;
    both.commit(Batch::new([Op::mkdir(at("/q")), Op::mkdir(at("/o"))])).await.unwrap();
    let limits = Limits::default().bytes(30).entries(6);
    both.memory.set_quota(&at("/q"), limits).unwrap();
    let sql = format!(
        "INSERT INTO garth.quota (account, key, path, max_bytes, max_entries, bytes, entries)
             VALUES ({}, '/q', '/q', 30, 6, 0, 0);
         UPDATE garth.head SET control = 1",
        both.account
    );
    both.database.rows(both.account, &sql);
    let used = || both.rows("SELECT bytes, entries FROM garth.quota")[0].clone();
    for batch in [
        write("/q/a", "0123456789"),
        write("/q/d/b", "0123456789"),
        append("/q/a", "more than fits"),
        one(Op::link(at("/q/a"), at("/o/a"))),
        one(Op::rename(at("/q/d"), at("/o/d"))),
        write("/o/d/c", "0123456789"),
        one(Op::rename(at("/o/d"), at("/q/d"))),
        one(Op::copy_tree(at("/q/d"), at("/q/e"))),
        write("/q/1", ""),
        write("/q/2", ""),
        one(Op::remove_tree(at("/q/d"))),
        one(Op::remove_tree(at("/q"))),
    ] {
        drop(both.commit(batch).await);
        let counted = both.memory.quotas().unwrap()[0].used;
        assert_eq!(used(), format!("{}|{}", counted.bytes, counted.entries));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn full_account_takes_only_what_ends_something() {
    let both = Both::new().await;
    both.commit(write("/a", "x".repeat(1000))).await.unwrap();
    let sql = format!(
        "INSERT INTO garth.retention (account, stored) VALUES ({}, 20000); UPDATE garth.head SET control = 1",
        both.account
    );
    both.database.rows(both.account, &sql);
    let refused = |result: garth_engine::Result<garth_engine::model::Commit>| result.unwrap_err().kind();
    let results =
        both.database.commit(both.account, &[write("/b", "x".repeat(20_000)), write("/c", "x")]).await;
    let kinds: Vec<_> = results.into_iter().map(|result| result.map(drop).map_err(|e| e.kind())).collect();
    assert_eq!(kinds, [Err(ErrorKind::QuotaExceeded), Ok(())]);
    both.database
        .rows(both.account, "UPDATE garth.retention SET stored = 10; UPDATE garth.head SET control = 2");
    let mut results = both
        .database
        .commit(
            both.account,
            &[write("/d", "x"), one(Op::remove(at("/c"))), write("/d", "x").even_when_full()],
        )
        .await;
    results.pop().unwrap().unwrap();
    results.pop().unwrap().unwrap();
    assert_eq!(refused(results.remove(0)), ErrorKind::QuotaExceeded);
}
