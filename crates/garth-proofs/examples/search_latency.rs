//! Time of a search and of a recall in accounts of given numbers of passages, and the wait of commits while
//! text that exceeded the limit of its own commit is indexed:
//! ```sh
//! cargo run --profile prove -p garth-proofs --example search_latency -- 1000 100000
//! cargo run --profile prove -p garth-proofs --example search_latency -- left
//! ```
#![allow(clippy::print_stdout, reason = "its purpose is to print figures")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use garth_agent::recall::{Key, Recall, Recaller};
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{Batch, Body, Op, SearchQuery};
use garth_engine::{Env, FileSystem, TreePath};
use garth_testkit::data::random::Random;

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// Number of different words. In English texts of this size about as many words occur more than once.
const WORDS: u64 = 100_000;
/// Texts whose words are the most frequent ones, in their order: about two thirds of all words. The others
/// are made up.
const TEXTS: [&str; 2] = [
    include_str!("../../garth-testkit/data/recall/paraphrases.jsonl"),
    include_str!("../../garth-testkit/data/recall/facts.jsonl"),
];
static ENGLISH: LazyLock<Vec<String>> = LazyLock::new(english);
/// Words of a passage, which has about 1,000 bytes then.
const LENGTH: usize = 150;
/// Passages of a file, one paragraph each.
const PER_FILE: u64 = 4;
/// Files of a commit.
const FILES: u64 = 250;
/// Searches that are timed, after as many that are not.
const SEARCHES: usize = 200;

/// Kind of query, and a function that draws one.
type Kind = (&'static str, fn(&mut Random) -> SearchQuery);

const KINDS: [Kind; 4] = [
    ("two rare words among four", |random| SearchQuery::new(question(random, 2, 2))),
    ("the same, neighbours off", |random| SearchQuery::new(question(random, 2, 2)).neighbours(false)),
    ("the same, per_file 5, context 3", |random| {
        SearchQuery::new(question(random, 2, 2)).per_file(5).context(3)
    }),
    ("four words as they come", |random| SearchQuery::new(question(random, 0, 4))),
];

fn main() -> Result<()> {
    for passages in std::env::args().skip(1) {
        if passages == "left" {
            left()?;
            continue;
        }
        let passages: u64 = passages.parse()?;
        let folder = tempfile::tempdir()?;
        let fs = SqliteFs::open(folder.path(), Env::system(), garth_agent::registry())?;
        let begun = Instant::now();
        fill(&*fs, passages)?;
        println!("{passages} passages, written in {:.0} s", begun.elapsed().as_secs_f64());
        for (kind, query) in KINDS {
            let mut random = Random::new(7);
            let queries: Vec<SearchQuery> = (0..SEARCHES).map(|_| query(&mut random)).collect();
            timed(&*fs, &queries)?;
            let (times, hits) = timed(&*fs, &queries)?;
            print(kind, times, hits);
        }
        let mut random = Random::new(7);
        let asked: Vec<Recall> = (0..SEARCHES).map(|_| Recall::new(question(&mut random, 2, 2))).collect();
        recalled(&*fs, &asked)?;
        let (times, hits) = recalled(&*fs, &asked)?;
        print("recall of two rare words among four, 2,000 tokens", times, hits);
    }
    Ok(())
}

/// Commits 32 MiB more than a commit indexes, and small files while the rest is indexed.
fn left() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let fs = SqliteFs::open(folder.path(), Env::system(), garth_agent::registry())?;
    let mut random = Random::new(1);
    let mut batch = Vec::new();
    for name in ["/one", "/two"] {
        let path = TreePath::parse(name)?;
        let mut upload = block_on(fs.stage(&path.clone().into()))?;
        for _ in 0..48 {
            let mut text = String::new();
            while text.len() < 1 << 20 {
                text.push_str(&paragraph(&mut random));
            }
            block_on(upload.write(text.into()))?;
        }
        batch.push(Op::write(path, Body::Staged(block_on(upload.finish())?)));
    }
    let begun = Instant::now();
    block_on(fs.commit(Batch::new(batch)))?;
    println!("two files of 48 MiB: committed in {:.1} s", begun.elapsed().as_secs_f64());
    let query = SearchQuery::new(question(&mut random, 2, 2));
    let (begun, mut times) = (Instant::now(), Vec::new());
    while block_on(fs.search(&query))?.missing > 0 {
        let commit = Instant::now();
        let small = Op::write(TreePath::parse("/small")?, "text");
        block_on(fs.commit(Batch::new([small]).visible()))?;
        times.push(commit.elapsed());
    }
    times.sort_unstable();
    let part = |share: usize| times.get(times.len() * share / 100).map_or(0.0, |it| it.as_secs_f64() * 1e3);
    let (median, late, all) = (part(50), part(99), begun.elapsed().as_secs_f64());
    println!(
        "  the rest after {all:.1} s, {} commits beside: p50 {median:.1} ms, p99 {late:.1} ms",
        times.len()
    );
    Ok(())
}

fn fill(fs: &dyn FileSystem, passages: u64) -> Result<()> {
    let mut random = Random::new(1);
    let files = passages.div_ceil(PER_FILE);
    for first in (0..files).step_by(FILES as usize) {
        let mut batch = Vec::new();
        for file in first..(first + FILES).min(files) {
            let text: Vec<String> = (0..PER_FILE).map(|_| paragraph(&mut random)).collect();
            let path = TreePath::parse(&format!("/{}/{file}.md", file % 100))?;
            batch.push(Op::write(path, text.concat()).with_parents());
        }
        block_on(fs.commit(Batch::new(batch)))?;
    }
    Ok(())
}

/// Returns a paragraph with a heading of its own, which makes it a passage.
fn paragraph(random: &mut Random) -> String {
    let words: Vec<String> = (0..LENGTH).map(|_| word(random, 0)).collect();
    format!("# {}\n{}\n", word(random, 0), words.join(" "))
}

/// Returns a word by Zipf's law, of those with this rank or a higher one.
fn word(random: &mut Random, from: u64) -> String {
    // Ranks are distributed evenly on a logarithmic scale.
    let share = random.below(1 << 53) as f64 / (1_u64 << 53) as f64;
    let rank = ((WORDS as f64).powf(share) as u64).max(from);
    if let Some(word) = ENGLISH.get(rank as usize - 1) {
        return word.clone();
    }
    // Not a word of English, and none that a stemmer would shorten.
    let mut rest = rank * 7_919 + 26;
    let mut word = String::from("z");
    while rest > 0 {
        word.push(char::from(b"bcdfghklmnpqrtvwxz"[(rest % 18) as usize]));
        word.push(char::from(b"aou"[(rest / 18 % 3) as usize]));
        rest /= 54;
    }
    word
}

/// Returns the words of [`TEXTS`], the most frequent first.
fn english() -> Vec<String> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for text in TEXTS {
        for word in text.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty()) {
            *counts.entry(word.to_ascii_lowercase()).or_default() += 1;
        }
    }
    let mut words: Vec<(String, usize)> = counts.into_iter().collect();
    words.sort_by(|one, other| (other.1, &one.0).cmp(&(one.1, &other.0)));
    words.into_iter().map(|(word, _)| word).collect()
}

/// Returns `rare` words that few passages have, and `any` words by their frequency.
fn question(random: &mut Random, rare: u64, any: u64) -> String {
    let rare: Vec<String> = (0..rare).map(|_| word(random, 2_000 + random.clone().below(50_000))).collect();
    let any: Vec<String> = (0..any).map(|_| word(random, 0)).collect();
    [rare, any].concat().join(" ")
}

fn print(kind: &str, mut times: Vec<Duration>, hits: usize) {
    times.sort_unstable();
    let part = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1e3;
    println!("  {kind}: p50 {:.2} ms, p95 {:.2} ms, {hits} hits", part(50), part(95));
}

/// Returns the durations of the calls, and the total number of sources.
fn recalled(fs: &dyn FileSystem, asked: &[Recall]) -> Result<(Vec<Duration>, usize)> {
    let recaller = Recaller::new(fs, "default");
    let (mut times, mut hits) = (Vec::new(), 0);
    for asked in asked {
        let begun = Instant::now();
        hits += block_on(recaller.recall(asked, &Key::new([1; 32])))?.items.len();
        times.push(begun.elapsed());
    }
    Ok((times, hits))
}

/// Returns the durations of the calls, and the total number of hits.
fn timed(fs: &dyn FileSystem, queries: &[SearchQuery]) -> Result<(Vec<Duration>, usize)> {
    let (mut times, mut hits) = (Vec::new(), 0);
    for query in queries {
        let begun = Instant::now();
        hits += block_on(fs.search(query))?.hits.len();
        times.push(begun.elapsed());
    }
    Ok((times, hits))
}
