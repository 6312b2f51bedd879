//! Cost of each call, in steps of SQLite's virtual machine, with little and with much data that the call does
//! not ask for. `docs/semantics.md` has the table.

mod account;
mod calls;
mod change_feed;
mod confinement;
mod gates;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::executor::block_on;
use rusqlite::Connection;

use self::account::{Account, path};
use self::calls::Costs;
use crate::fs::AccountStore as _;
use crate::fs::FileSystem as _;
use crate::model::quota::{Limits, MAX_QUOTAS};
use crate::model::{
    At, Author, Batch, ByteRange, ChangesQuery, CommitId, FindQuery, HistoryPage, Idempotency, Moment, Op,
    SearchQuery, Seq, SetAttrs, Timestamp,
};
use crate::rule::retention::Retention;
use crate::rule::sample::{FIRST_WORD, WORDS};
use crate::rule::{Constraint, PathPattern, Rule};
use crate::sqlite::steps;

/// Small and large size of the data that a test adds.
const FEW: usize = 20;
const MANY: usize = 2000;

/// Steps that a call may take more with many: a lookup at each level of the tree of commits that is added.
/// log₂(2000/20) < 7, with some 40 steps each.
const MORE: u64 = 7 * 40;

/// Steps that a search may take more: it looks its words up in each segment of the index. There are up to
/// three of each size, with log₄(2000/20) < 4 sizes more, and a lookup takes some 50 steps.
const MORE_IN_SEARCH: u64 = 3 * 4 * 50;
/// Words near in meaning that a search looks up.
const NEAR: u64 = 128;

/// Compares the costs of all calls in a small account and after `grow`. The calls in `but` may cost more,
/// because they return the added data.
#[track_caller]
fn assert_same_cost<B: IntoIterator<Item = Batch>>(grow: impl Fn(usize) -> B, but: &[&str]) {
    let commit = |account: &Account, count| {
        for batch in grow(count) {
            account.batch(batch).expect("a commit");
        }
    };
    assert_same_cost_with(commit, but);
}

#[track_caller]
fn assert_same_cost_with<T>(grow: impl Fn(&Account, usize) -> T, but: &[&str]) {
    let [few, many] = [FEW, MANY].map(|count| {
        let (account, _held) = Account::grown(|account| grow(account, count));
        Costs::of(&account).0
    });
    assert_not_more_expensive(few, &many, but);
}

#[track_caller]
fn assert_not_more_expensive(few: BTreeMap<&str, u64>, many: &BTreeMap<&str, u64>, but: &[&str]) {
    let mut dearer = Vec::new();
    for (call, few) in few {
        let many = many[call];
        let more = match call {
            "search by meaning" => MORE_IN_SEARCH * NEAR,
            call if call.contains("search") => MORE_IN_SEARCH,
            _ => MORE,
        };
        if many > few + few / 4 + more && !but.contains(&call) {
            dearer.push(format!("{call}: {few} steps beside {FEW}, {many} beside {MANY}"));
        }
    }
    assert!(dearer.is_empty(), "{dearer:#?}");
}

fn each(count: usize, ops: impl Fn(usize) -> Vec<Op>) -> impl Iterator<Item = Batch> {
    (0..count).map(move |n| Batch::new(ops(n)))
}

#[test]
fn call_costs_ignore_versions_of_a_file() {
    assert_same_cost(|count| each(count, |n| vec![Op::write(path("/d/f"), format!("{n}\n"))]), &[]);
}

/// Returns a record of JSON Lines that search indexes alone, whatever is before it.
fn record(number: impl std::fmt::Display) -> String {
    format!("{:99}\n", format!("{{\"number\": {number}}}"))
}

#[test]
fn text_append_indexes_at_most_the_last_passage() {
    let [few, many] = [200, 20_000].map(|lines: u64| {
        let (account, ()) = Account::grown(|_| ());
        let text: String = (0..lines).map(|n| format!("line {n}\n")).collect();
        account.commit([Op::write(path("/d/text"), text)]);
        steps::of_call(|n| account.commit([Op::append(path("/d/text"), format!("line {n}\n"))]))
    });
    // The last passage has 1 to 3 KiB.
    assert!(many <= 4 * few, "{few} steps beside 200 lines, {many} beside 20,000");
}

#[test]
fn call_costs_ignore_extents_of_a_file() {
    let grow = |count| each(1, move |_| (0..count).map(|n| Op::append(path("/big"), record(n))).collect());
    // A hole is looked for from extent to extent. Merging keeps them few.
    assert_same_cost(grow, &["next_hole of many extents"]);
}

#[test]
fn call_costs_ignore_other_commits() {
    assert_same_cost(|count| each(count, |n| vec![Op::write(path("/elsewhere"), format!("{n}\n"))]), &[]);
}

#[test]
fn call_costs_ignore_other_names() {
    let grow = |count| {
        each(1, move |_| {
            let beside = (0..count).map(|n| Op::write(path(&format!("/d/x{n}")), "x"));
            let before = (0..count).map(|n| Op::write(path(&format!("/a/x{n}/y")), "x").with_parents());
            before.chain(beside).collect()
        })
    };
    // Names that a directory got later are read over while they exist.
    assert_same_cost(grow, &["past list", "past walk"]);
}

#[test]
fn call_costs_ignore_removed_names() {
    // Two at a time, so that names of a few other commits are examined as well.
    let grow = |count| {
        each(count, |n| {
            let names = [0, 1].map(|m| path(&format!("/d/e{}-{m}", n / 2)));
            match n % 2 {
                0 => names.map(|name| Op::write(name, "x")).into(),
                _ => names.map(Op::remove).into(),
            }
        })
    };
    assert_same_cost(grow, &[]);
}

#[test]
fn call_costs_ignore_former_nodes_of_a_path() {
    let grow = |count| {
        each(count, |n| match n % 2 {
            0 => vec![Op::remove(path("/d/f"))],
            _ => vec![Op::write(path("/d/f"), "again")],
        })
    };
    assert_same_cost(grow, &[]);
}

#[test]
fn call_costs_ignore_nodes_moved_to_a_path() {
    let grow = |count| {
        each(count, |n| match n % 2 {
            0 => vec![Op::write(path("/d/tmp"), format!("{n}\n"))],
            _ => vec![Op::rename(path("/d/tmp"), path("/d/f"))],
        })
    };
    assert_same_cost(grow, &[]);
}

#[test]
fn call_costs_ignore_past_names_of_a_node() {
    let grow = |count| {
        each(count, |n| match n % 2 {
            0 => vec![
                Op::rename(path("/other"), path(&format!("/o{n}"))),
                Op::rename(path("/d/f"), path("/d/g")),
            ],
            _ => vec![
                Op::rename(path(&format!("/o{}", n - 1)), path("/other")),
                Op::rename(path("/d/g"), path("/d/f")),
            ],
        })
    };
    assert_same_cost(grow, &[]);
}

#[test]
fn call_costs_ignore_other_snapshots() {
    let grow = |count| each(1, move |_| (0..count).map(|n| Op::snapshot(format!("s{n}"))).collect());
    // Snapshots that were created later are read over while they exist.
    assert_same_cost(grow, &["past snapshots"]);
}

/// Returns the costs of calls on an account whose log lost some `count` commits, each by another author than
/// the one before.
fn costs_after_fold(count: usize) -> BTreeMap<&'static str, u64> {
    let fold = |account: &Account| {
        for n in 0..count {
            let removed = path(&format!("/e{n}"));
            let ops = [Op::write(path("/elsewhere"), format!("{n}\n")), Op::write(removed.clone(), "x")];
            let author = Author::agent(if n % 2 == 0 { "scout" } else { "clerk" });
            account.batch(Batch { author, ..Batch::new(ops) }).expect("a commit");
            account.commit([Op::remove_file(removed)]);
        }
        account.commit([Op::drop_snapshot("kept"), Op::append(path("/d/f"), "third\n")]);
        let retention = Retention { commits: Some(1), ..Retention::default() };
        block_on(account.fs.set_retention(retention)).expect("a retention");
        for _ in 0..2 {
            block_on(account.fs.gc(Duration::ZERO)).expect("a collection");
        }
    };
    let (account, ()) = Account::grown(fold);
    let (fs, file) = (&account.fs, At::Path(path("/d/f")));
    let last = block_on(fs.head()).expect("a head").seq;
    let since = ChangesQuery::since(Seq(last.0 - 1)).limit(10);
    let page = HistoryPage::default();
    let mut costs = BTreeMap::new();
    let mut cost = |name, call: &dyn Fn(u32)| assert!(costs.insert(name, steps::of_call(call)).is_none());
    cost("stat", &|_| drop(block_on(fs.stat(&file)).expect("an entry")));
    cost("read", &|_| drop(block_on(fs.read(&file, ByteRange::ALL)).expect("bytes")));
    cost("as_of", &|_| drop(block_on(fs.as_of(&Moment::Seq(last))).expect("a past")));
    cost("changes", &|_| drop(block_on(fs.changes(&since)).expect("changes")));
    cost("blame", &|_| drop(block_on(fs.blame(&file, ByteRange::ALL, 10)).expect("commits")));
    cost("history", &|_| drop(block_on(fs.history(&file, &page)).expect("versions")));
    cost("write", &|n| account.commit([Op::write(path("/w"), format!("{n}"))]));
    cost("append", &|_| account.commit([Op::append(path("/d/f"), "more\n")]));
    cost("collect", &|_| assert!(block_on(fs.gc(Duration::ZERO)).is_ok()));
    costs
}

#[test]
fn call_costs_ignore_folded_history() {
    assert_not_more_expensive(costs_after_fold(FEW), &costs_after_fold(MANY), &[]);
}

#[test]
fn call_costs_ignore_overwrites_of_a_file() {
    assert_same_cost(|count| each(count, |n| vec![Op::patch(path("/big"), 10, format!("{n}\n"))]), &[]);
}

#[test]
fn call_costs_ignore_names_of_a_file() {
    let grow = |count| {
        each(1, move |_| {
            let link = |n: usize| {
                ["/d/f", "/other"]
                    .map(|from| Op::link(path(from), path(&format!("/links{from}-{n}"))).with_parents())
            };
            (0..count).flat_map(link).collect()
        })
    };
    // Names that a file got later are read over while it has them.
    let changes = ["changes", "changes of a subtree", "confined changes", "past changes"];
    assert_same_cost(grow, &[&changes[..], &["past names"]].concat());
}

#[test]
fn call_costs_ignore_files_that_expire() {
    let grow = |count| {
        let expires = SetAttrs::new().expires_at(Timestamp(i64::MAX - 1));
        each(1, move |_| {
            let write = |n| Op::write(path(&format!("/d/x{n}")), "x").with_attrs(expires.clone());
            (0..count).map(write).collect()
        })
    };
    // As with any names.
    assert_same_cost(grow, &["past list", "past walk"]);
}

#[test]
fn call_costs_ignore_ids_and_keys_of_commits() {
    let grow = |count| {
        (0..count).map(|n| {
            let record = Idempotency::new(format!("other-{n}"), [0; 32], Timestamp(i64::MAX));
            Batch::new([]).id(CommitId(1 << 64 | n as u128)).idempotency(record)
        })
    };
    assert_same_cost(grow, &[]);
}

#[test]
fn call_costs_ignore_waiting_uploads() {
    let grow = |account: &Account, count| {
        for n in 0..count {
            account.stage(format!("waiting {n}\n").into_bytes()).expect("an upload");
        }
    };
    assert_same_cost_with(grow, &[]);
}

#[test]
fn call_costs_ignore_unnamed_open_files() {
    let grow = |account: &Account, count| -> Vec<_> {
        let open = |n| {
            let name = path(&format!("/d/open-{n}"));
            account.commit([Op::write(&name, "open\n")]);
            let file = block_on(account.fs.open(&At::Path(name.clone()))).expect("a file");
            account.commit([Op::remove(&name)]);
            account.commit([Op::append(file.ino(), "and written\n").must_exist()]);
            file
        };
        (0..count).map(open).collect()
    };
    assert_same_cost_with(grow, &[]);
}

#[test]
fn call_costs_below_a_quota_ignore_names() {
    let grow = |account: &Account, count| {
        for quota in ["/", "/d", "/d/sub"] {
            let limits = Limits::default().bytes(1 << 40).entries(1 << 40);
            block_on(account.fs.set_quota(&path(quota), limits)).expect("a quota");
        }
        account.commit((0..count).map(|n| Op::write(path(&format!("/d/x{n}")), "x")));
    };
    assert_same_cost_with(grow, &["past list", "past walk"]);
}

#[test]
fn call_costs_ignore_quotas_of_other_paths() {
    let [none, many] = [0, MAX_QUOTAS].map(|count| {
        let (account, ()) = Account::grown(|account| {
            for n in 0..count {
                let limits = Limits::default().bytes(1);
                block_on(account.fs.set_quota(&path(&format!("/quota/{n}")), limits)).expect("a quota");
            }
        });
        Costs::of(&account).0
    });
    // An upload is recorded in a transaction of its own, after which all rows are read again.
    assert_not_more_expensive(none, &many, &["stage and write"]);
}

#[test]
fn append_under_a_rule_ignores_earlier_lines() {
    // Search reads some KiB before an append, which are many appends in both cases.
    let [few, many] = [10 * FEW, MANY].map(|lines| {
        let (account, ()) = Account::grown(|_| ());
        let pattern = PathPattern::parse("/d/*.jsonl").expect("a pattern");
        let rule = Rule::new(pattern, Constraint::parse("json-lines", "{}").expect("a constraint"));
        assert!(block_on(account.fs.set_rule(rule, false)).expect("a rule").set);
        let log = path("/d/log.jsonl");
        // So long that no append is near the border of a segment, where search reads some KiB more.
        account.commit([Op::write(&log, (0..50).map(record).collect::<String>())]);
        for n in 0..lines {
            account.commit([Op::append(&log, record(n))]);
        }
        let bad = account.batch(Batch::new([Op::append(&log, "no\n")])).expect_err("no JSON");
        assert!(bad.message().contains(&format!("line {}: ", lines + 51)), "{bad}");
        // Also if it does not end a line, repeatedly.
        account.commit([Op::append(&log, "1")]);
        let unended = steps::of_call(|_| account.commit([Op::append(&log, "2")]));
        account.commit([Op::append(&log, "\n")]);
        unended.max(steps::of_call(|n| account.commit([Op::append(&log, format!("{n}\n"))])))
    });
    assert!(many <= few + MORE, "{few} steps beside few lines, {many} beside {MANY}");
}

#[test]
fn judged_prefixes_are_removed_with_file_and_rule() {
    let (account, ()) = Account::grown(|_| ());
    let known = || -> u64 {
        let pool = &account.fs.inner.pool;
        let count = |conn: &Connection| conn.query_row("SELECT count(*) FROM judged", [], |row| row.get(0));
        pool.with(|conn| Ok(count(conn)?)).expect("a count")
    };
    let names = ["/d/a.jsonl", "/d/b.jsonl"].map(path);
    account.commit(names.clone().map(|name| Op::write(name, "1234567\n".repeat(1 << 17))));
    let pattern = PathPattern::parse("/d/*.jsonl").expect("a pattern");
    let terms = r#"{"schema":{"type":"integer"}}"#;
    let rule = Rule::new(pattern.clone(), Constraint::parse("json-lines", terms).expect("a constraint"));
    assert!(block_on(account.fs.set_rule(rule, false)).expect("a rule").set);
    // Only long files are remembered.
    assert_eq!(known(), 2, "both are long");
    account.commit([Op::remove(&names[0])]);
    assert_eq!(known(), 1);
    assert!(block_on(account.fs.remove_rule(&pattern, "json-lines")).expect("no rule"));
    block_on(account.fs.gc(std::time::Duration::ZERO)).expect("a collection");
    assert_eq!(known(), 0);
}

#[test]
fn call_costs_ignore_other_keys() {
    let grow = |count| {
        let attrs =
            |n| SetAttrs::new().tags(["rare".to_owned(), format!("x{n}")]).metadata("k", format!("{n}"));
        let file = move |n| Op::write(path(&format!("/elsewhere-{n}")), "text").with_attrs(attrs(n));
        each(1, move |_| (0..count).map(file).collect())
    };
    // Other files have the same key. A test below bounds how many of these are examined.
    assert_same_cost(grow, &["confined find"]);
}

#[test]
fn call_costs_ignore_removed_keys() {
    let attrs = |n: usize| SetAttrs::new().tags([format!("x{}", n % 7), "rare".to_owned()]);
    let grow = |count| {
        each(count, move |n| match n % 3 {
            0 => vec![Op::write(path("/elsewhere"), "text").with_attrs(attrs(n))],
            1 => vec![Op::set_attrs(path("/elsewhere"), SetAttrs::new().tags(["no"]))],
            _ => vec![Op::remove(path("/elsewhere"))],
        })
    };
    assert_same_cost(grow, &[]);
}

/// Many nodes have the key, and few of them are in the requested subtrees.
#[test]
fn find_in_small_subtree_ignores_nodes_elsewhere() {
    let [few, many] = [10 * FEW, MANY].map(|count| {
        let (account, ()) = Account::grown(|account| {
            let tagged = || SetAttrs::new().tags(["rare"]);
            account.commit((0..count).map(|n| Op::write(path(&format!("/a{n}")), "").with_attrs(tagged())));
            account.commit([Op::write(path("/z"), "").with_attrs(tagged())]);
        });
        let query = FindQuery::tag("rare").within(path("/d")).within(path("/z"));
        let found = block_on(account.fs.find(&query)).expect("an answer");
        let paths: Vec<_> = found.items.iter().map(|item| item.path.as_str()).collect();
        assert_eq!((paths.as_slice(), found.next), (["/d/rare", "/z"].as_slice(), None));
        steps::of_call(|_| drop(block_on(account.fs.find(&query))))
    });
    assert!(many <= few + MORE, "{few} steps, and {many}");
}

#[test]
fn tagging_cost_ignores_other_tagged_nodes() {
    let [few, many] = [FEW, MANY].map(|count| {
        let tagged = || SetAttrs::new().tags(["rare"]);
        let (account, ()) = Account::grown(|account| {
            account.commit((0..count).map(|n| Op::write(path(&format!("/a{n}")), "").with_attrs(tagged())));
        });
        steps::of_call(|n| account.commit([Op::write(path(&format!("/b{n}")), "").with_attrs(tagged())]))
    });
    assert!(many <= few + MORE, "{few} steps, and {many}");
}

#[test]
fn append_projects_only_its_own_lines() {
    let [few, many] = [FEW, MANY].map(|count| {
        let (account, ()) = Account::grown(|account| {
            let text: String = (0..count).map(|n| format!("word{n} and {n}\n")).collect();
            account.commit([Op::write(path("/kv/lines"), text).with_parents()]);
        });
        let query = FindQuery::new(FIRST_WORD).equal("mine");
        let took = steps::of_call(|n| account.commit([Op::append(path("/kv/lines"), format!("mine {n}\n"))]));
        let lines: Vec<_> = block_on(account.fs.find(&query)).expect("an answer").items.into_iter().collect();
        let lines: Vec<_> = lines.into_iter().filter_map(|item| Some(item.line?.number)).collect();
        assert_eq!(lines, (1..=4).map(|n| n + count as u64).collect::<Vec<_>>());
        took
    });
    assert!(many <= few + MORE, "{few} steps, and {many}");
}

#[test]
fn find_in_a_file_ignores_other_keys() {
    let file = |name: &str| path(&format!("/words/{name}"));
    let line = |n: usize| format!("msg-{n} user\n");
    let [few, many] = [FEW, MANY].map(|count| {
        let (account, ()) = Account::grown(|account| {
            for other in 0..count {
                account.commit([Op::write(file(&other.to_string()), line(7)).with_parents()]);
            }
            let lines: String = (0..count).map(line).collect();
            account.commit([Op::write(file("long"), lines).with_parents()]);
        });
        let found = |query: FindQuery| {
            let query = query.within(file("long"));
            let items = block_on(account.fs.find(&query)).expect("an answer").items;
            items.into_iter().filter_map(|item| Some(item.line?.number)).collect::<Vec<_>>()
        };
        let id = || FindQuery::new(WORDS).equal("msg-7");
        let ends = || FindQuery::ends(WORDS);
        let users = || FindQuery::new(WORDS).equal("user").lines_from(count as u64 - 1);
        assert_eq!(found(id()), [8]);
        assert_eq!(found(ends()), [count as u64 + 1]);
        assert_eq!(found(users()), [count as u64 - 1, count as u64]);
        steps::of_call(|_| drop([found(id()), found(ends()), found(users())]))
    });
    assert!(many <= few + MORE, "{few} steps, and {many}");
}

#[test]
fn search_without_snippets_reads_no_text() {
    let saved = |count: usize| {
        let text = "The quokka sleeps in the shade.\n".repeat(20);
        let (account, ()) = Account::grown(|account| {
            account.commit((0..count).map(|n| Op::write(path(&format!("/d/zoo-{n}")), text.clone())));
        });
        let query = SearchQuery::new("quokka").limit(count);
        let found = |query: &SearchQuery| block_on(account.fs.search(query)).expect("an answer").hits;
        let (all, bare) = (query.clone(), query.without_text());
        let mut hits = found(&all);
        assert!(hits.len() == count && hits.iter().all(|hit| hit.snippet.contains("quokka")), "{hits:?}");
        hits.iter_mut().for_each(|hit| hit.snippet.clear());
        assert_eq!(found(&bare), hits);
        let [with, without] = [&all, &bare].map(|query| steps::of_call(|_| drop(found(query))));
        with.saturating_sub(without)
    };
    let [few, many] = [FEW, 10 * FEW].map(saved);
    // At least one row of each hit.
    assert!(few >= FEW as u64 && many >= 9 * few, "{few} steps of {FEW} hits, {many} of ten times as many");
}

#[test]
fn search_reads_no_text_of_skipped_hits() {
    let text = "The quokka sleeps in the shade.\n".repeat(20);
    let (account, ()) = Account::grown(|account| {
        account.commit((0..10 * FEW).map(|n| Op::write(path(&format!("/d/zoo-{n}")), text.clone())));
    });
    // Steps for the text of a page of hits, of a search up to the end of the page.
    let [first, tenth] = [1, 10].map(|page| {
        let end = page * FEW;
        let query = |from| SearchQuery::new("quokka").limit(end).context(1).text_from(from);
        let found = |from| block_on(account.fs.search(&query(from))).expect("an answer").hits;
        let hits = found(end - FEW);
        let has_text = |place: usize| !hits[place].snippet.is_empty() && hits[place].context.is_some();
        assert!((0..end).all(|place| has_text(place) == (place >= end - FEW)), "{hits:?}");
        let [with, without] = [end - FEW, end].map(|from| steps::of_call(|_| drop(found(from))));
        with.saturating_sub(without)
    });
    // The text of the pages before would be nine times as much.
    assert!(first >= FEW as u64 && tenth <= first + first / 10, "{first} steps of page 1, {tenth} of 10");
}

#[test]
fn batch_writes_times_of_a_directory_once() {
    for names in [FEW, MANY] {
        let (account, ()) = Account::grown(|_| ());
        let rows = || -> [usize; 2] {
            let pool = &account.fs.inner.pool;
            let count = |conn: &Connection, sql| conn.query_row(sql, [], |row| row.get(0));
            let nodes = "SELECT count(*) FROM node WHERE kind = 1";
            let times = "SELECT count(*) FROM dir_time_past";
            pool.with(|conn| Ok([count(conn, nodes)?, count(conn, times)?])).expect("two counts")
        };
        let [nodes, times] = rows();
        let made = (0..names).map(|n| Op::write(path(&format!("/d/new-{n}")), "text"));
        account.commit(made);
        assert_eq!(rows(), [nodes, times + 1], "{names} names: its times alone");
    }
}
