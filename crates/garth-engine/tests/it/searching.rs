//! Search on both engines: equal trees give equal hits, to the last digit of a score, if a search reads all
//! matches.

use std::sync::Arc;
use std::time::Duration;

use garth_engine::engine::memory::MemoryFs;
use garth_engine::env::ManualClock;
use garth_engine::model::{
    Batch, Confinement, Moment, Op, Owner, Remove, SearchAnswer, SearchMode, SearchQuery, SetAttrs, Within,
};
use garth_engine::rule::sample::{WORDS, registry};
use garth_engine::rule::{Constraint, PathPattern, Policy, Rule, WithheldLines};
use garth_engine::{AccountStore, Env, ErrorKind, FileSystem, TreePath};
use garth_testkit::data::random::Random;
use garth_testkit::data::secrets::each;
use garth_testkit::subject::START;
use garth_testkit::tools::{
    append, link, mkdir_all, p, patch, remove, rename, set, truncate, write, write_with,
};

use super::stores::{self, Kept};

const WORDS_OF_TEXT: [&str; 24] = [
    "heron", "herons", "grey", "pond", "the", "train", "railway", "coffee", "beverage", "Crème", "garden",
    "rose", "flower", "deposit", "Lisbon", "paid", "東京", "invoice", "bill", "winter", "snow", "x9f",
    "running", "ran",
];
const DIRS: [&str; 7] = ["/a", "/a/b", "/notes", "/logs", "/words", "/hidden", "/nodes/n"];
const NAMES: [&str; 5] = ["one.md", "rose-9.md", "three", "rose-10.md", ".abstract.md"];

/// Both engines on equal clocks and rules.
struct Both {
    memory: MemoryFs,
    stored: Arc<dyn AccountStore>,
    clocks: [ManualClock; 2],
    _kept: Kept,
}

/// Withholds lines of a log that a file of the same name in `/words` names, as `line3`.
fn withheld(path: &TreePath) -> Option<WithheldLines> {
    let name = path.key().strip_prefix("/logs/")?;
    let file = TreePath::from_row("/words", name);
    let keys = |line| [format!("line{line}"), format!("row{line}")];
    Some(WithheldLines { file, projection: WORDS, any: "any", keys })
}

impl Both {
    async fn new() -> Self {
        let [(one, clock), (other, beside)] = [Env::manual(START), Env::manual(START)];
        let registry = registry().withholding(withheld);
        let (stored, kept) = stores::account_with((other, Some(&beside)), registry.clone());
        let memory = MemoryFs::new(one, registry);
        for (pattern, constraint) in
            [("/hidden/**", Constraint::NotSearchable), ("/notes/**", Constraint::Secrets(Policy::Allow))]
        {
            let rule = Rule::new(PathPattern::parse(pattern).unwrap(), constraint);
            memory.set_rules(memory.rules().with(rule.clone()).unwrap());
            stored.set_rule(rule, false).await.unwrap();
        }
        Self { memory, stored, clocks: [clock, beside], _kept: kept }
    }

    async fn commit(&self, ops: Vec<Op>) {
        let asked = format!("{ops:?}");
        let memory = self.memory.commit(Batch::new(ops.clone())).await;
        let stored = self.stored.commit(Batch::new(ops)).await;
        match (memory, stored) {
            (Ok(memory), Ok(stored)) => assert_eq!(memory.outcomes, stored.outcomes, "{asked}"),
            (Err(memory), Err(stored)) => assert_eq!(memory.kind(), stored.kind(), "{asked}"),
            (memory, stored) => panic!("{asked}\nmemory: {memory:?}\nstored: {stored:?}"),
        }
    }

    fn advance(&self, seconds: u64) {
        self.clocks.iter().for_each(|clock| clock.advance(Duration::from_secs(seconds)));
    }

    /// Returns the answer of both engines, which must be equal, to a caller who sees everything or a part.
    async fn search(&self, query: &SearchQuery, part: Option<&Within>) -> SearchAnswer {
        let (mut memory, mut stored): (Arc<dyn FileSystem>, Arc<dyn FileSystem>) =
            // With garth's own directory: a handle without it does not see everything.
            (Arc::new(self.memory.clone()), self.stored.raw());
        if let Some(part) = part {
            let to = Confinement::new(part.clone(), Owner::new("view").unwrap());
            memory = memory.confined(&to).await.unwrap();
            stored = stored.confined(&to).await.unwrap();
        }
        let (memory, stored) = (memory.search(query).await, stored.search(query).await);
        match (memory, stored) {
            (Ok(memory), Ok(stored)) => {
                assert_eq!(memory, stored, "memory and storage on {query:?} in {part:?}");
                memory
            }
            (memory, stored) => panic!("{query:?}\nmemory: {memory:?}\nstored: {stored:?}"),
        }
    }
}

fn path(random: &mut Random) -> String {
    if random.one_in(9) {
        return "/nodes/n/.status".to_owned();
    }
    format!("{}/{}", random.pick(&DIRS), random.pick(&NAMES))
}

/// Returns text of a few passages: sentences, headings, records or secrets. The passages of a tree are fewer
/// than a quick search reads, because the engines number them differently.
fn text(random: &mut Random) -> String {
    let records = random.one_in(4);
    let mut text = String::new();
    // Each record is a passage.
    for _ in 0..1 + random.below(if records { 5 } else { 40 }) {
        let words: Vec<&str> = (0..1 + random.below(12)).map(|_| random.pick(&WORDS_OF_TEXT)).collect();
        let sentence = words.join(" ");
        text.push_str(&match random.below(8) {
            _ if records => format!("{{\"role\": \"user\", \"content\": \"{sentence} caf\\u00e9\"}}\n"),
            0 => format!("# {sentence}\n\n"),
            1 => format!("password: {}{sentence}\n", random.pick(&["Zk3vQ9x7Lm2", "tr0ub4dor&3x"])),
            2 => format!("{} \n", "filler words ".repeat(60)),
            3 => sentence,
            _ => format!("{sentence}.\n"),
        });
    }
    text
}

/// Returns content for a path: keys of lines, a status, or text.
fn content(random: &mut Random, path: &str) -> String {
    if path.ends_with(".status") {
        return random.pick(&["ACTIVE", "PENDING"]).to_owned();
    }
    if path.starts_with("/words/") && !random.one_in(3) {
        let lines: Vec<String> = (0..random.below(6)).map(|_| format!("line{}", random.below(8))).collect();
        return format!("any {}\n", lines.join(" "));
    }
    text(random)
}

fn op(random: &mut Random) -> Op {
    let path = path(random);
    let content = content(random, &path);
    let attrs = SetAttrs::new();
    match random.below(16) {
        0 => append(&path, content),
        1 => append(&path, "a heron at the end"),
        2 => truncate(&path, random.below(3000)),
        3 => patch(&path, random.below(500), random.pick(&WORDS_OF_TEXT)),
        4 => remove(&path, Remove::File),
        5 => rename(&path, &self::path(random)),
        6 => link(&path, &self::path(random)),
        7 => set(&path, attrs.tags([random.pick(&["red", "blue"])])),
        8 => set(&path, attrs.metadata("topic", random.pick(&["birds", "trains"]))),
        9 => set(&path, attrs.searchable(!random.one_in(3))),
        10 => write_with(&path, content, attrs.content_type("image/png")),
        11 => write_with(&path, content, attrs.expires_at(START.plus_seconds(random.below(300) as i64))),
        _ => write(&path, content),
    }
}

fn query(random: &mut Random) -> SearchQuery {
    let words: Vec<&str> = (0..1 + random.below(6))
        .map(|_| match random.below(10) {
            0 => random.pick(&["her", "invo", "Zk3vQ9x7Lm2", "notes", "ca", "hot drink", "password"]),
            _ => random.pick(&WORDS_OF_TEXT),
        })
        .collect();
    // A statement and a short question are two parts.
    let text = match words.split_last() {
        Some((last, said)) if said.len() > 4 => format!("{}. {last}?", said.join(" ")),
        _ => words.join(" "),
    };
    let mut query = SearchQuery::new(text).limit(1 + random.below(12) as usize);
    if random.one_in(3) {
        query = query.within(p(random.pick(&DIRS)));
    }
    if random.one_in(5) {
        query = query.tag(random.pick(&["red", "blue"]));
    }
    if random.one_in(6) {
        query = query.metadata("topic", "birds");
    }
    if random.one_in(5) {
        query = query.pattern(random.pick(&["/**/*.md", "/a/**", "/*/three"]));
    }
    if random.one_in(6) {
        query = query.since(START.plus_seconds(random.below(200) as i64));
    }
    if random.one_in(6) {
        query = query.until(START.plus_seconds(random.below(200) as i64));
    }
    if random.one_in(3) {
        query = query.mode(SearchMode::Words);
    }
    if random.one_in(6) {
        query = query.quick();
    }
    let (per_file, context) = (1 + random.below(4) as usize, random.below(4) as usize);
    query.per_file(per_file).context(context).neighbours(!random.one_in(3)).layers(random.one_in(2))
}

#[tokio::test]
async fn memory_and_storage_give_equal_hits() {
    let mut hits = 0;
    for seed in 0..8 {
        let (both, mut random) = (Both::new().await, Random::new(seed));
        both.commit(DIRS.map(mkdir_all).into()).await;
        let parts = [
            Within::new([p("/a")]),
            Within::everything().without([p("/a/b"), p("/notes/one.md")]),
            Within::new([p("/logs"), p("/nodes"), p("/a")]).without([p("/a/one.md")]),
        ];
        for _ in 0..12 {
            for _ in 0..4 {
                let ops = (0..1 + random.below(2)).map(|_| op(&mut random)).collect();
                both.commit(ops).await;
                both.advance(random.below(8));
            }
            for _ in 0..6 {
                let part = if random.one_in(3) { Some(random.pick(&parts)) } else { None };
                hits += both.search(&query(&mut random), part.as_ref()).await.hits.len();
            }
        }
    }
    // Otherwise the questions would compare nothing.
    assert!(hits > 200, "{hits} hits");
}

#[tokio::test]
async fn equal_lines_far_down_and_words_withheld() {
    let both = Both::new().await;
    both.commit(DIRS.map(mkdir_all).into()).await;
    let far: String = (0..9_000).map(|line| format!("line number{line} of the journal\n")).collect();
    let log = "a quiet day\nthe heron came\nthe crane came\n";
    let ops = vec![
        write("/notes/one.md", far),
        write("/logs/two.md", log),
        write("/words/two.md", "any line2\n"),
        write("/a/one.md", "the heron again\n"),
        write("/nodes/n/three", "a heron in the node"),
        write("/hidden/one.md", "a hidden heron"),
    ];
    both.commit(ops).await;
    let found = async |text: &str| {
        let answer = both.search(&SearchQuery::new(text).per_file(3).context(2), None).await;
        answer.hits.into_iter().map(|hit| (hit.path.to_string(), hit.lines)).collect::<Vec<_>>()
    };
    let lines = found("number8990").await;
    assert!(lines[0].0 == "/notes/one.md" && lines[0].1.contains(&8_991), "{lines:?}");
    assert_eq!(found("heron").await, [("/a/one.md".to_owned(), 1..2)], "neither withheld nor hidden lines");
    assert_eq!(found("crane").await, [("/logs/two.md".to_owned(), 1..4)]);
    both.commit(vec![write("/nodes/n/.status", "ACTIVE"), write("/words/two.md", "")]).await;
    let mut paths: Vec<String> = found("heron").await.into_iter().map(|(path, _)| path).collect();
    paths.sort();
    assert_eq!(paths, ["/a/one.md", "/logs/two.md", "/nodes/n/three"]);
}

#[tokio::test]
async fn both_engines_leave_out_the_same_secrets() {
    let both = Both::new().await;
    both.commit(vec![mkdir_all("/a")]).await;
    let planted = each(&mut Random::new(5));
    for (n, planted) in (0..).zip(&planted) {
        // Its first border of passages is in the secret, or near it.
        let filler = "orchard lantern violin ".repeat(86 + n % 5);
        let text = format!("{filler}{} {filler}\n", planted.text());
        both.commit(vec![write(&format!("/a/{n}"), text)]).await;
        let query = SearchQuery::new(planted.secret.as_str()).context(2).per_file(5);
        both.search(&query, None).await;
    }
    let query = SearchQuery::new("orchard").context(2).limit(100).per_file(5);
    let found = both.search(&query, None).await;
    let texts = found.hits.iter().map(|hit| {
        let context = hit.context.as_ref().map_or("", |context| context.text.as_str());
        format!("{} {context}", hit.snippet)
    });
    let texts: Vec<String> = texts.collect();
    assert!(texts.iter().any(|text| text.contains("[secret: ")), "{} hits", texts.len());
    for planted in &planted {
        for line in planted.secret.split('\n').filter(|line| line.len() > 4 && !line.starts_with('-')) {
            assert!(texts.iter().all(|text| !text.contains(line)), "{}", planted.kind);
        }
    }
}

#[tokio::test]
async fn neither_engine_searches_the_past() {
    let both = Both::new().await;
    both.commit(vec![write("/f", "a heron")]).await;
    for fs in [&both.memory as &dyn FileSystem, &*both.stored] {
        let past = fs.as_of(&Moment::Seq(fs.head().await.unwrap().seq)).await.unwrap();
        assert!(!past.capabilities(&TreePath::root()).search);
        let error = past.search(&SearchQuery::new("heron")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}

/// Returns the paths of an answer, each with the part of the score that the passage gains from around it.
fn gains(answer: SearchAnswer) -> Vec<(String, f64)> {
    answer.hits.into_iter().map(|hit| (hit.path.to_string(), hit.parts.neighbours)).collect()
}

#[tokio::test]
async fn word_of_file_name_counts_half() {
    let both = Both::new().await;
    both.commit(["/a", "/plans"].map(mkdir_all).into()).await;
    let [tea, other] = ["/plans/green-tea.md", "/plans/other.md"];
    let ops = vec![write(tea, "She drinks it every morning.\n"), write(other, "She drinks it at noon.\n")];
    both.commit(ops).await;
    let [by_name, by_directory] = ["drinks tea", "drinks plans"].map(SearchQuery::new);
    let answer = both.search(&by_name, None).await;
    let (first, last) = (&answer.hits[0], &answer.hits[1]);
    assert_eq!((first.path.to_string(), last.path.to_string()), (tea.to_owned(), other.to_owned()));
    assert!((first.parts.neighbours - 0.5 * (1.0 - first.parts.words)).abs() < 1e-9, "{answer:?}");
    assert_eq!((last.parts.neighbours, last.parts.words), (0.0, first.parts.words));
    // The name of the directory is that of all files in it.
    let answer = both.search(&by_directory, None).await;
    assert_eq!(answer.hits.len(), 2);
    for parts in answer.hits.iter().map(|hit| &hit.parts) {
        assert!((parts.neighbours - 0.2 * (1.0 - parts.words)).abs() < 1e-9, "{answer:?}");
    }
    let plans = Within::new([p("/plans")]);
    for (query, part) in [
        (by_name.clone().neighbours(false), None),
        (by_name.clone().within(p(tea)), None),
        (by_directory.clone().within(p("/plans")), None),
        (by_directory, Some(&plans)),
    ] {
        let found = gains(both.search(&query, part).await);
        assert!(!found.is_empty() && found.iter().all(|(_, gain)| *gain == 0.0), "{query:?}: {found:?}");
    }
    // The first name that the query allows counts, and no other one.
    both.commit(vec![link(tea, "/a/coffee.md")]).await;
    let gain = |answer: SearchAnswer, path: &str| {
        gains(answer).into_iter().find(|(at, _)| at == path).map(|(_, gain)| gain)
    };
    assert_eq!(gain(both.search(&by_name, None).await, "/a/coffee.md"), Some(0.0));
    let below = by_name.clone().within(p("/plans"));
    assert!(gain(both.search(&below, None).await, tea) > Some(0.0));
    both.commit(vec![rename(other, "/plans/tea.md")]).await;
    assert!(gain(both.search(&by_name, None).await, "/plans/tea.md") > Some(0.0));
}

#[tokio::test]
async fn text_without_any_word_is_found_by_name() {
    let both = Both::new().await;
    let ops = vec![
        mkdir_all("/plans"),
        write("/plans/green-tea.md", "She drinks it every morning.\n"),
        write("/plans/other.md", "The tide came in at noon.\n"),
    ];
    both.commit(ops).await;
    let query = SearchQuery::new("does she like green tea");
    let answer = both.search(&query, None).await;
    let first = &answer.hits[0];
    assert_eq!((first.path.to_string(), first.parts.words), ("/plans/green-tea.md".to_owned(), 0.0));
    assert!(first.parts.neighbours > 0.0, "{first:?}");
    let alone = gains(both.search(&query.neighbours(false), None).await);
    assert!(alone.iter().all(|(_, gain)| *gain == 0.0), "{alone:?}");
}

#[tokio::test]
async fn numbered_files_are_neighbours() {
    let both = Both::new().await;
    let turn = |path: &str, text: &str| write(path, format!(r#"{{"role": "user", "content": "{text}"}}"#));
    let ops = vec![
        mkdir_all("/chat"),
        mkdir_all("/other"),
        turn("/chat/turn-9.json", "the trip to Lisbon"),
        turn("/chat/turn-10.json", "yes, the deposit is paid"),
        turn("/chat/turn-12.json", "the deposit again"),
        turn("/other/turn-11.json", "the deposit once more"),
    ];
    both.commit(ops).await;
    let query = SearchQuery::new("deposit Lisbon");
    let answer = both.search(&query, None).await;
    assert_eq!(answer.hits.len(), 4);
    for hit in &answer.hits {
        let gains = ["/chat/turn-9.json", "/chat/turn-10.json"].contains(&hit.path.as_str());
        let due = if gains { 0.5 * (1.0 - hit.parts.words) } else { 0.0 };
        assert!((hit.parts.neighbours - due).abs() < 1e-9, "{answer:?}");
    }
    let two = query.clone().within(p("/chat/turn-9.json")).within(p("/chat/turn-10.json"));
    for alone in [query.clone().neighbours(false), two] {
        let found = gains(both.search(&alone, None).await);
        assert!(found.len() >= 2 && found.iter().all(|(_, gain)| *gain == 0.0), "{alone:?}: {found:?}");
    }
    both.commit(vec![rename("/chat/turn-10.json", "/chat/turn-11.json")]).await;
    let renamed = gains(both.search(&query, None).await);
    let gaining: Vec<&str> =
        renamed.iter().filter(|(_, gain)| *gain > 0.0).map(|(path, _)| path.as_str()).collect();
    assert_eq!(gaining, [""; 0], "both have the deposit");
}

#[tokio::test]
async fn hidden_names_raise_no_score() {
    let both = Both::new().await;
    let [tea, first, next] = ["/a/green-tea.md", "/notes/turn-1.md", "/notes/turn-2.md"];
    let ops = vec![
        write(tea, "She drinks it every morning.\n"),
        write("/notes/other.md", "She drinks it at noon.\n"),
        write(first, "the trip to Lisbon\n"),
        write(next, "yes, the deposit is paid\n"),
    ];
    both.commit(["/a", "/hidden", "/notes"].map(mkdir_all).into()).await;
    both.commit(ops).await;
    both.commit(vec![link(tea, "/notes/z.md")]).await;
    let gain = async |query: &SearchQuery, part: Option<&Within>, path: &str| {
        let found = gains(both.search(query, part).await);
        found.into_iter().find(|(at, _)| at == path).map(|(_, gain)| gain)
    };
    let [drinks, deposit] = ["drinks tea", "deposit Lisbon"].map(SearchQuery::new);
    assert!(gain(&drinks, None, tea).await > Some(0.0) && gain(&deposit, None, next).await > Some(0.0));
    // Names and files that a view excludes, or only one of them.
    for left_out in [["/a", first], [tea, first]] {
        let part = Within::everything().without(left_out.map(p));
        assert_eq!(gain(&drinks, Some(&part), "/notes/z.md").await, Some(0.0), "{left_out:?}");
        assert_eq!(gain(&deposit, Some(&part), next).await, Some(0.0), "{left_out:?}");
    }
    assert_eq!(gain(&drinks.pattern("/notes/*"), None, "/notes/z.md").await, Some(0.0), "the name in /a");
    // A file that a rule hides under another of its names.
    both.commit(vec![link(first, "/hidden/one.md")]).await;
    assert_eq!(gain(&deposit, None, first).await, None);
    assert_eq!(gain(&deposit, None, next).await, Some(0.0));
}

#[tokio::test]
async fn hidden_words_do_not_change_completions() {
    let both = Both::new().await;
    let (many, one, hidden) = ("/a/x/many.md", "/a/y/one.md", "/b/hidden.md");
    both.commit(["/a/x", "/a/y", "/b"].map(mkdir_all).into()).await;
    // With 31 words before it, the last one is the 32nd, unless another word is between them.
    let words: Vec<String> = (0..31).map(|n| format!("queta{n:02}")).collect();
    both.commit(vec![write(many, words.join(" ")), write(one, "quetazzzz\n")]).await;
    let part = Within::new([p("/a")]);
    let found = async |query: &SearchQuery, part: Option<&Within>| {
        let mut paths: Vec<String> =
            both.search(query, part).await.hits.iter().map(|hit| hit.path.to_string()).collect();
        paths.sort_unstable();
        paths
    };
    let query = SearchQuery::new("queta");
    let below = query.clone().within(p("/a/y"));
    assert_eq!(found(&query, None).await, [many, one]);
    for is_hidden in [false, true] {
        if is_hidden {
            both.commit(vec![write(hidden, "quetamx\n")]).await;
        }
        assert_eq!(found(&query, Some(&part)).await, [many, one], "{is_hidden}");
        for part in [None, Some(&part)] {
            assert_eq!(found(&below, part).await, [one], "{is_hidden}");
        }
    }
    // Who sees everything gets the first 32 of all words.
    assert_eq!(found(&query, None).await, [many, hidden]);
    // More passages than are read for the words in them.
    let more = (0..256).map(|n| write(&format!("/a/x/{n}.md"), format!("quiet{n}\n"))).collect();
    both.commit(more).await;
    assert_eq!(found(&query, Some(&part)).await, [""; 0]);
    assert_eq!(found(&SearchQuery::new("quetazzzz"), Some(&part)).await, [one]);
    assert_eq!(found(&below, Some(&part)).await, [one]);
    assert_eq!(found(&query, None).await, [many, hidden]);
}
