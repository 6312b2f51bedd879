//! Number of rounds in which a batch is planned on a database that is a round trip away. [`Store`] checks
//! whenever it plans that the result is the same there.

use garth_testkit::data::random::Random;

use super::*;
use crate::model::CommitId;
use crate::path::Name;

fn rounds(store: &Store, batch: &Batch) -> usize {
    store.plan_in_rounds(batch).1
}

/// Returns the rounds of operations that are not refused.
fn rounds_of(store: &Store, ops: impl IntoIterator<Item = Op>) -> usize {
    let batch = Batch::new(ops);
    let (planned, rounds) = store.plan_in_rounds(&batch);
    assert!(planned.is_ok(), "{batch:?}");
    rounds
}

fn child(store: &Store, dir: &str, name: &str) -> At {
    At::Child(Ino(store.node_of(dir).ino), Name::parse(name).unwrap())
}

/// Creates `/d` with files `a` and `b` and a directory `sub` with a file and a link, an empty `/e`, `/f`
/// with attributes and several extents, `/g` as a second name of it, and `/h` like it with one name.
fn filled() -> Store {
    tree([
        Op::write(at("/d/a"), "a").with_parents(),
        Op::write(at("/d/b"), "b"),
        Op::write(at("/d/sub/c"), "c").with_parents(),
        Op::link(at("/d/sub/c"), at("/d/sub/link")),
        Op::mkdir(at("/e")),
        Op::write(at("/f"), vec![7; DEDUP_FROM]).with_attrs(SetAttrs::new().tags(["t"])),
        Op::patch(at("/f"), 10, "xyz"),
        Op::link(at("/f"), at("/g")),
        Op::write(at("/h"), vec![8; DEDUP_FROM]).with_attrs(SetAttrs::new().tags(["t"])),
        Op::patch(at("/h"), 10, "xyz"),
    ])
}

#[test]
fn batch_of_many_files_takes_two_rounds() {
    let mut store = Store::new();
    let path = |n: usize| at(&format!("/d/{}/{n}", n % 7));
    let new = || (0..5000).map(|n| Op::write(path(n), n.to_string()).with_parents());
    assert_eq!(rounds_of(&store, new()), 1, "nothing is there that its names could lead to, but the root");
    store.run([Op::mkdir(at("/d"))]);
    assert_eq!(rounds_of(&store, new()), 2);
    store.run(new());
    assert_eq!(rounds_of(&store, (0..5000).map(|n| Op::write(path(n), "over"))), 2);
    assert_eq!(rounds_of(&store, (0..5000).map(|n| Op::append(path(n), "more"))), 2);
    assert_eq!(rounds_of(&store, (0..5000).map(|n| Op::remove(path(n)))), 2);
    let ino = store.node_of("/d/0/0").ino;
    let numbers = (ino..ino + 500).map(|ino| At::Node(Ino(ino)));
    let files: Vec<At> =
        numbers.filter(|at| store.plan(&Batch::new([Op::append(at.clone(), "x")])).is_ok()).collect();
    assert!(files.len() > 400);
    assert_eq!(rounds_of(&store, files.into_iter().map(|at| Op::append(at, "x"))), 1);
}

#[test]
fn operations_by_path_take_two_rounds() {
    let store = filled();
    let body = vec![7; DEDUP_FROM];
    let etag = VersionId { seq: Seq(7), ino: Ino(store.node_of("/f").ino) };
    let ops = [
        Op::write(at("/d/new/x"), body.clone()).with_parents(),
        Op::write(at("/h"), body).with_attrs(SetAttrs::new().tags(["u"])),
        Op::append(at("/h"), "x"),
        Op::patch(at("/h"), 11, "y"),
        Op::truncate(at("/h"), 5),
        Op::punch(at("/h"), 0, 100),
        Op::copy_range(at("/f"), 0, 20, at("/d/a"), 3),
        Op::mkdir(at("/d/dir")),
        Op::symlink(at("/d/symlink"), "f"),
        Op::link(at("/f"), at("/d/link")),
        Op::remove(at("/f")),
        Op::rename(at("/f"), at("/d/a")),
        Op::exchange(at("/f"), at("/d/a")),
        Op::rename(at("/d"), at("/e/d")),
        Op::copy(at("/f"), at("/d/copy")),
        Op::copy(at("/f"), at("/d/a")).replace(),
        Op::set_attrs(at("/h"), SetAttrs::new().tags(["u"])),
        Op::check(at("/f"), Precondition::Etag(etag)),
        Op::snapshot("kept"),
    ];
    for op in ops.clone() {
        assert!(rounds_of(&store, [op.clone()]) <= 2, "{op:?}");
        let scoped =
            Batch { within: Some(Within::new([at("/d"), at("/e"), at("/f"), at("/h")])), ..Batch::new([op]) };
        assert!(rounds(&store, &scoped) <= 2, "{scoped:?}");
    }
    let refused = [
        Op::write(at("/f/x"), ""),
        Op::write(at("/no/x"), ""),
        Op::write(at("/d"), ""),
        Op::remove_file(at("/d")),
        Op::mkdir(at("/d")),
        Op::check(at("/no"), Precondition::Exists),
    ];
    for op in refused {
        store.refusal([op.clone()]);
        assert!(rounds(&store, &Batch::new([op.clone()])) <= 2, "{op:?}");
    }
    let replayed = Batch::new(ops).id(CommitId(7));
    assert!(rounds(&store, &replayed) >= 2);
}

#[test]
fn dependent_rows_take_one_more_round() {
    let mut store = filled();
    let past = store.head.seq;
    let hash = Precondition::Sha256(Sha256::digest("a").into());
    let (sub, file) = (Ino(store.node_of("/d/sub").ino), Ino(store.node_of("/f").ino));
    let cases = [
        (Op::write(child(&store, "/d/sub", "new"), "x"), 3),
        (Op::append(child(&store, "/d", "a"), "x"), 3),
        (Op::append(child(&store, "/d/sub", "c"), "x"), 4),
        (Op::append(at("/f"), "x"), 3),
        (Op::remove_tree(at("/d")), 3),
        (Op::remove_dir(at("/e")), 3),
        (Op::rename(at("/d"), at("/e")), 3),
        (Op::copy_tree(at("/d"), at("/new")), 3),
        (Op::copy(at("/f"), at("/new")).as_of(Seq(past)), 3),
        (Op::copy_tree(at("/d"), at("/new")).as_of(Seq(past)), 3),
        (Op::check(at("/d/a"), hash.clone()), 3),
        (Op::check(child(&store, "/d", "a"), hash), 4),
        (Op::remove_tree(child(&store, "/d", "sub")), 4),
        (Op::copy_tree(sub, at("/new")), 4),
        (Op::copy(file, at("/new")).as_of(Seq(past)), 3),
    ];
    for (op, most) in &cases {
        let rounds = rounds_of(&store, [op.clone()]);
        assert!(rounds <= *most, "{rounds} rounds: {op:?}");
    }
    let hashes = (0..100).map(|n| Op::write(at(&format!("/many/{n}")), n.to_string()).with_parents());
    store.run(hashes);
    let check = |n: usize| {
        let hash = Sha256::digest(n.to_string()).into();
        Op::check(at(&format!("/many/{n}")), Precondition::Sha256(hash))
    };
    assert_eq!(rounds_of(&store, (0..100).map(check)), 3, "all of them at once");
}

#[test]
fn entries_of_a_directory_take_no_round_for_their_names() {
    let store = filled();
    let remove = || Op::remove_dir(at("/d"));
    assert!(store.refusal([remove()]).is(ErrorKind::NotEmpty));
    // Its name, its entries, and their nodes.
    assert!(rounds(&store, &Batch::new([remove()])) <= 3);
}

#[test]
fn expired_entries_take_three_more_rounds() {
    let mut store = Store::new();
    store.run((0..100).flat_map(|n| {
        let [dir, links] = [format!("/d/{n}"), format!("/links/{n}")];
        [
            Op::write(at(&format!("{dir}/f")), "x").with_parents().with_attrs(expires(15)),
            Op::mkdir(at(&links)).with_parents(),
            Op::link(at(&format!("{dir}/f")), at(&format!("{links}/f"))),
        ]
    }));
    let all = |op: fn(TreePath) -> Op| (0..100).map(move |n| op(at(&format!("/d/{n}/f"))));
    assert!(rounds_of(&store, all(|path| Op::write(path, "new"))) <= 5);
    assert!(rounds_of(&store, [Op::remove_tree(at("/d"))]) <= 8);
    assert!(rounds_of(&store, [Op::copy_tree(at("/d"), at("/e"))]) <= 6);
    assert!(rounds_of(&store, (0..100).map(|n| Op::remove_dir(at(&format!("/d/{n}"))))) <= 7);
}

#[test]
fn independent_operations_share_rounds() {
    let mut store = Store::new();
    store.run((0..100).map(|n| Op::write(at(&format!("/a{n}/x/f")), "f").with_parents()));
    let moved = (0..100).flat_map(|n| {
        let [from, to] = ["a", "b"].map(|name| at(&format!("/{name}{n}")));
        [Op::rename(from, &to), Op::append(at(&format!("/b{n}/x/f")), "more")]
    });
    // Each append depends on the rename before it, but not on the others: two rounds more for all of them.
    assert!(rounds_of(&store, moved) <= 4);

    let deep = |levels: usize| {
        let names = (0..levels).map(|_| "/d").collect::<String>();
        let store = tree([Op::mkdir(at(&names)).with_parents()]);
        let first = Op::rename(at("/d"), at("/0"));
        let each = (1..levels).map(|n| Op::rename(at(&format!("/{}/d", n - 1)), at(&format!("/{n}"))));
        store.plan_fetched(&Batch::new([first].into_iter().chain(each)))
    };
    assert!(deep(10).1 <= 20);
    let (planned, rounds) = deep(2 * MAX_ROUNDS);
    assert_eq!((planned.err().map(|error| error.kind()), rounds), (Some(ErrorKind::TooLarge), MAX_ROUNDS));
}

/// Generator of random operations on a few names.
pub(super) struct Operations {
    pub(super) random: Random,
}

impl Operations {
    pub(super) fn path(&mut self) -> TreePath {
        let depth = 1 + self.random.below(3);
        let names = (0..depth).map(|_| self.random.pick(&["/a", "/b", "/c", "/dd"]));
        at(&names.collect::<String>())
    }

    fn at(&mut self, store: &Store) -> At {
        let ino = Ino(1 + self.random.below(store.head.next_ino + 1));
        match self.random.below(8) {
            0 => At::Node(ino),
            1 => At::Child(ino, Name::parse(self.random.pick(&["a", "b"])).unwrap()),
            _ => At::Path(self.path()),
        }
    }

    fn body(&mut self) -> Vec<u8> {
        let long = self.random.one_in(8);
        let length = if long { DEDUP_FROM as u64 } else { self.random.below(30) };
        vec![self.random.below(3) as u8; length as usize]
    }

    fn attrs(&mut self, store: &Store) -> SetAttrs {
        match self.random.below(4) {
            0 => SetAttrs::new().tags([self.random.pick(&["t", "u"])]),
            1 => expires(store.head.time + 10 * self.random.below(5).cast_signed()),
            _ => SetAttrs::new(),
        }
    }

    pub(super) fn op(&mut self, store: &Store) -> Op {
        let (one, two) = (self.at(store), self.at(store));
        let seq = Seq(self.random.below(store.head.seq + 1));
        match self.random.below(22) {
            0..=3 => Op::write(one, self.body()).with_parents().with_attrs(self.attrs(store)),
            4 => Op::write(one, self.body()),
            5 => Op::append(one, self.body()),
            6 => Op::Patch { at: one, offset: self.random.below(40), body: self.body().into() },
            7 => Op::truncate(one, self.random.below(40)),
            8 => Op::punch(one, self.random.below(30), self.random.below(30)),
            9 => Op::copy_range(one, self.random.below(9), 20, two, self.random.below(40)),
            10 => Op::mkdir(one).with_parents(),
            11 => Op::link(one, two),
            12 => Op::remove(one),
            13 => Op::remove_tree(one),
            14 => Op::rename(one, two),
            15 => Op::exchange(one, two),
            16 => Op::copy_tree(one, two).replace(),
            17 => Op::copy_tree(one, two).as_of(seq),
            18 => Op::set_attrs(one, self.attrs(store)),
            19 => Op::symlink(one, "a"),
            20 => Op::write(one, self.body()).create_new(),
            _ => {
                let hash = Precondition::Sha256(Sha256::digest(self.body()).into());
                Op::check(one, self.random.pick(&[Precondition::Exists, hash.clone(), hash.negated()]))
            }
        }
    }
}

#[test]
fn random_batches_plan_the_same_in_few_rounds() {
    let mut most = [0; 4];
    let mut planned = 0;
    for seed in 0..25 {
        let mut operations = Operations { random: Random::new(seed) };
        let mut store = Store::new();
        for _ in 0..60 {
            let several = operations.random.one_in(2);
            let count = if several { 1 + operations.random.below(4) as usize } else { 1 };
            let mut batch = Batch::new((0..count).map(|_| operations.op(&store)));
            if operations.random.one_in(4) {
                batch.within = Some(Within::new([operations.path(), operations.path()]));
            }
            if operations.random.one_in(8) {
                batch = batch.require(operations.path(), Precondition::Absent);
            }
            if operations.random.one_in(10) {
                let open = store.head.next_ino - 1;
                store.open.insert(open);
            }
            let rounds = rounds(&store, &batch);
            most[count - 1] = rounds.max(most[count - 1]);
            if matches!(store.plan(&batch), Ok(Planned::Apply { .. })) {
                planned += 1;
                store.commit(&batch);
            }
        }
    }
    // Most random operations are refused. Enough of them must pass for the tree to fill.
    assert!(planned > 150, "{planned}");
    assert!(most.iter().all(|rounds| *rounds <= 6), "{most:?}");
}

#[test]
fn rules_read_moved_trees_level_by_level() {
    let files = (0..200).map(|n| Op::write(at(&format!("/t/{}/{n}", n % 20)), n.to_string()).with_parents());
    let deep = (0..10).map(|n| Op::write(at(&format!("/t/0{}/f", "/d".repeat(n))), "[1").with_parents());
    let deep = deep.chain((0..10).map(|n| Op::append(at(&format!("/t/0{}/f", "/d".repeat(n))), "]")));
    let mut store = tree(files.chain(deep));
    store.run([Op::mkdir_all(at("/agents/a"))]);
    // The place where it was, each level, then nodes, extents and chunks.
    let rounds = rounds_of(&store, [Op::rename(at("/t"), at("/agents/a/kv"))]);
    assert!(rounds <= 2 + 1 + 11 + 3, "{rounds} rounds");
    store.run([Op::rename(at("/t"), at("/agents/a/kv"))]);
    assert_eq!(rounds_of(&store, [Op::rename(at("/agents/a"), at("/agents/b"))]), 3, "of its own class");
}
