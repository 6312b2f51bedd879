//! Random batches, compared with the executable specification.

use garth_engine::TreePath;
use garth_engine::model::{Batch, Op, Precondition, Seq, SetAttrs};
use garth_testkit::data::random::Random;

use super::both::Both;
use super::database::at;

/// Returns a path of a few names, among them some that are next to others in the order of bytes.
fn path(random: &mut Random) -> TreePath {
    let depth = 1 + random.below(3);
    at(&(0..depth).map(|_| random.pick(&["/a", "/b", "/c", "/a\x01", "/a-"])).collect::<String>())
}

fn body(random: &mut Random) -> Vec<u8> {
    let length = if random.one_in(10) { 70_000 } else { random.below(30) as usize };
    vec![b'a' + random.below(3) as u8; length]
}

fn op(random: &mut Random, head: u64) -> Op {
    let (one, two) = (path(random), path(random));
    match random.below(20) {
        0..=4 => Op::write(one, body(random)).with_parents(),
        5 => Op::append(one, body(random)),
        6 => Op::patch(one, random.below(40), body(random)),
        7 => Op::truncate(one, random.below(40)),
        8 => Op::punch(one, random.below(30), random.below(30)),
        9 => Op::copy_range(one, random.below(9), 20, two, random.below(40)),
        10 => Op::mkdir(one).with_parents(),
        11 => Op::link(one, two),
        12 => Op::remove(one),
        13 => Op::remove_tree(one),
        14 | 15 => Op::rename(one, two),
        16 => Op::exchange(one, two),
        17 => Op::copy_tree(one, two).replace(),
        18 => Op::copy_tree(one, two).as_of(Seq(random.below(head + 1))),
        _ => Op::set_attrs(one, SetAttrs::new().mode(0o600 + random.below(8) as u32)),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_batches_match_the_specification() {
    for seed in 0..3 {
        let both = Both::new().await;
        let mut random = Random::new(seed);
        let (mut head, mut committed) = (0, 0);
        for _ in 0..50 {
            let count = 1 + random.below(4);
            let group: Vec<Batch> = (0..count)
                .map(|_| {
                    let ops = if random.one_in(2) { 1 } else { 1 + random.below(4) };
                    let batch = Batch::new((0..ops).map(|_| op(&mut random, head)));
                    let guarded = random.one_in(8);
                    let guard = path(&mut random);
                    if guarded { batch.require(guard, Precondition::Absent) } else { batch }
                })
                .collect();
            for commit in both.group(&group).await.into_iter().flatten() {
                head = commit.seq.0;
                committed += 1;
            }
        }
        // Most random operations are refused.
        assert!(committed > 10, "{committed}");
    }
}
