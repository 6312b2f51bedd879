//! Secrets in texts: not in the index, masked in results, and rejected or shown where a rule says so.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use garth_agent::memory::{Event, Memories, Put, Repair, Uri};
use garth_agent::outbox::{Options, Sink, SinkError, Worker};
use garth_agent::recall::{Key, Recall, Recaller};
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{Batch, Op, SearchQuery};
use garth_engine::text::Tokenizer;
use garth_engine::text::secret::{Judgement, masked};
use garth_engine::{AccountStore, Env, FileSystem, FileSystemExt};
use garth_testkit::data::random::Random;
use garth_testkit::data::secrets::{Planted, each};
use garth_testkit::tools::p as path;

use super::rules_set::{Tree, at, rule};

const TEXTS: usize = 1_000;
const MEMORIES: usize = 400;
const WORDS: [&str; 12] = [
    "coffee", "harbour", "lantern", "meadow", "violin", "winter", "granite", "orchard", "pepper", "saddle",
    "thunder", "umbrella",
];

/// Text with a secret between words, and the same text with blanks in place of the secret.
struct Text {
    planted: Planted,
    with: String,
    without: String,
    /// Start of the secret.
    at: usize,
}

fn words(random: &mut Random, bytes: u64, line: u64) -> String {
    let mut text = String::new();
    while (text.len() as u64) < bytes {
        text.push_str(random.pick(&WORDS));
        text.push(if random.one_in(line) { '\n' } else { ' ' });
    }
    text
}

impl Text {
    /// Returns text number `n`. Some are long, and some of these one line, so that secrets lie at borders of
    /// passages.
    fn new(n: usize, random: &mut Random) -> Self {
        let secrets = each(random);
        let planted = secrets[n % secrets.len()].clone();
        let (long, line) = (random.pick(&[30, 30, 1_900, 2_100, 4_000, 6_000]), random.pick(&[8, 1_000_000]));
        let (front, back) = (words(random, long, line), words(random, random.clone().below(200), line));
        let text = |planted: String| match n % 4 {
            0 => serde_json::to_string(&format!("{front}{planted} {back}")).unwrap() + "\n",
            1 => format!("# subject{n}\r\n\r\n{front}subject{n} {planted}\r\n{back}\r\n"),
            2 => format!("{front}subject{n} {planted}\n\n{back}"),
            _ => format!("{front}`{planted}` subject{n} {back}"),
        };
        let with = text(planted.text());
        let blank = |line: &str| " ".repeat(line.len());
        let blanks: Vec<String> = planted.secret.split('\n').map(blank).collect();
        let without = text(format!("{}{}{}", planted.before, blanks.join("\n"), planted.behind));
        let first = planted.secret.split('\n').next().unwrap();
        let at = with.find(first).unwrap();
        Self { planted, with, without, at }
    }
}

/// Returns the words of the index, without the counts of words in passages, which depend on their borders.
fn vocabulary(folder: &Path) -> BTreeSet<String> {
    let conn = rusqlite::Connection::open(folder.join("tree.db")).unwrap();
    // Words of deleted text disappear when pieces of the index are merged.
    conn.execute_batch("INSERT INTO passage_word (passage_word) VALUES ('optimize')").unwrap();
    let mut statement = conn.prepare("SELECT term FROM passage_vocabulary").unwrap();
    let terms = statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap);
    terms.filter(|term: &String| !term.contains('^')).collect()
}

/// Returns true if half of a secret, or of a line of it, is in a text.
fn shows(text: &str, planted: &Planted) -> bool {
    let lines = planted.secret.split('\n').filter(|line| line.len() > 4 && !line.starts_with('-'));
    lines.flat_map(|line| [&line[..line.len() / 2], &line[line.len() / 2..]]).any(|half| text.contains(half))
}

#[tokio::test]
async fn index_and_snippets_contain_no_secrets() {
    let [planted, blank] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [fs, control] = [&planted, &blank]
        .map(|folder| SqliteFs::open(folder.path(), Env::system(), garth_agent::registry()).unwrap());
    let mut random = Random::new(12);
    let texts: Vec<Text> = (0..TEXTS).map(|n| Text::new(n, &mut random)).collect();
    let (mut first, mut second, mut whole) = (Vec::new(), Vec::new(), Vec::new());
    for (n, text) in texts.iter().enumerate() {
        let name = path(&format!("/{n}"));
        let cut = match n % 3 {
            0 => text.at + 1 + random.below(text.planted.secret.len() as u64 - 1) as usize,
            _ => text.with.len(),
        };
        let (one, two) = text.with.split_at(cut);
        first.push(Op::write(name.clone(), one.to_owned()));
        second.extend((!two.is_empty()).then(|| Op::append(name.clone(), two.to_owned())));
        whole.push(Op::write(name, text.without.clone()));
    }
    for ops in [first, second] {
        fs.commit(Batch::new(ops)).await.unwrap();
    }
    control.commit(Batch::new(whole)).await.unwrap();
    for (n, text) in texts.iter().enumerate() {
        let found = fs.search(&SearchQuery::new(format!("subject{n}"))).await.unwrap();
        for hit in &found.hits {
            assert!(!shows(&hit.snippet, &text.planted), "{}: {}", text.planted.kind, hit.snippet);
        }
        if n % 4 != 0 {
            assert_eq!(found.hits.len(), 1, "{n}");
        }
        let asked = SearchQuery::new(text.planted.secret.clone());
        for hit in fs.search(&asked).await.unwrap().hits {
            assert!(!shows(&hit.snippet, &text.planted), "{}: {}", text.planted.kind, hit.snippet);
        }
    }
    assert_eq!(fs.fsck().await.unwrap().findings, []);
    drop((fs, control));
    let (with, without) = (vocabulary(planted.path()), vocabulary(blank.path()));
    assert!(without.len() > 700, "{}", without.len());
    assert_eq!(with.difference(&without).collect::<Vec<_>>(), Vec::<&String>::new());
    assert_eq!(without.difference(&with).collect::<Vec<_>>(), Vec::<&String>::new());
}

/// Sink that stores the events it gets, as JSON.
#[derive(Debug, Default)]
struct Told(Mutex<Vec<String>>);

#[async_trait]
impl Sink for Told {
    fn timeout(&self) -> Duration {
        Duration::from_secs(10)
    }

    async fn deliver(&self, event: &Event) -> Result<(), SinkError> {
        self.0.lock().unwrap().push(event.to_json().unwrap());
        Ok(())
    }
}

#[tokio::test]
async fn recall_and_outbox_contain_no_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let fs = SqliteFs::open(folder.path(), Env::system(), garth_agent::registry()).unwrap();
    let memories = Memories::new(&*fs, "default");
    let mut random = Random::new(13);
    let texts: Vec<Text> = (0..MEMORIES).map(|n| Text::new(n, &mut random)).collect();
    let uri = |n: usize| format!("ctx://default/users/ann/memories/events/n{n}").parse::<Uri>().unwrap();
    for (n, text) in texts.iter().enumerate() {
        let cut = match n % 3 {
            0 => text.at + 1 + random.below(text.planted.secret.len() as u64 - 1) as usize,
            _ => text.with.len(),
        };
        let (one, two) = text.with.split_at(cut);
        memories.put(&uri(n), &Put::new(one)).await.unwrap();
        // As an editor does.
        if !two.is_empty() {
            fs.append(uri(n).file("content.md"), two.to_owned()).await.unwrap();
        }
    }
    let report = Repair::new(memories).at_once(true).scan(|_| ()).await.unwrap();
    assert!(report.is_whole() && report.repaired() >= MEMORIES as u64 / 4, "{report:?}");
    let (told, mut worker) = (Told::default(), Worker::new(Env::system(), "default", Options::default()));
    worker.run_out(&*fs, Some(&told)).await.unwrap();
    let told = told.0.into_inner().unwrap();
    assert!(told.len() >= MEMORIES, "{}", told.len());
    // Their JSON has escapes.
    let plain = |json: &str| json.replace("\\n", "\n").replace("\\\"", "\"").replace("\\\\", "\\");
    for json in &told {
        let uri = Event::parse(json.as_bytes()).unwrap().uri;
        let n: usize = uri.rsplit_once("/n").unwrap().1.parse().unwrap();
        let planted = &texts[n].planted;
        assert!(!shows(&plain(json), planted) && !shows(json, planted), "{}: {json}", planted.kind);
    }
    let recaller = Recaller::new(&*fs, "default");
    let mut answered = 0;
    for (n, text) in texts.iter().enumerate() {
        for question in [format!("subject{n}"), text.planted.secret.replace('\n', " ")] {
            let mut asked = Recall::new(question).budget(4_000);
            asked.within = vec![uri(n).dir()];
            let answer = recaller.recall(&asked, &Key::new([3; 32])).await.unwrap();
            answered += usize::from(!answer.items.is_empty());
            let json = answer.items.iter().map(|item| item.text.as_str()).collect::<String>() + &answer.text;
            assert!(!shows(&json, &text.planted), "{}: {json}", text.planted.kind);
        }
    }
    assert!(answered > MEMORIES / 2, "{answered}");
}

#[tokio::test]
async fn snippets_mask_secrets_unless_allowed() {
    let [_, tree] = Tree::all().await;
    let planted = &each(&mut Random::new(2))[1];
    let line = format!("The harbour master has {} in his drawer.\n", planted.secret);
    tree.given([Op::write(at("/a/x.md"), line.clone()).with_parents()]).await;
    let snippet =
        async || tree.fs().search(&SearchQuery::new("harbour master")).await.unwrap().hits[0].snippet.clone();
    assert_eq!(snippet().await, "The harbour master has [secret: GitHub token] in his drawer.");
    tree.set(rule("/a/**", "secrets", r#"{"policy": "allow"}"#)).await;
    assert_eq!(snippet().await, line.trim());
    tree.set(rule("/a/**", "secrets", r#"{"policy": "refuse"}"#)).await;
    assert_eq!(snippet().await, "The harbour master has [secret: GitHub token] in his drawer.");
}

#[tokio::test]
async fn refuse_policy_blocks_secrets_however_they_arrive() {
    for tree in Tree::all().await {
        tree.set(rule("/safe/**", "secrets", r#"{"policy": "refuse"}"#)).await;
        tree.given([Op::mkdir(at("/safe")), Op::write(at("/safe/log"), "one\ntwo\n")]).await;
        for (n, planted) in each(&mut Random::new(5)).into_iter().enumerate() {
            let text = format!("three {} four\n", planted.text());
            tree.given([Op::write(at("/other"), text.clone())]).await;
            let name = format!("/safe/{n}");
            // In two parts, each of which contains no secret.
            let from = text.find(&planted.secret).unwrap();
            let (one, two) = text.split_at(from + 1);
            tree.given([Op::write(at(&name), one.to_owned())]).await;
            for (op, line) in [
                (Op::write(at("/safe/new"), text.clone()), 1),
                (Op::append(at("/safe/log"), text.clone()), 3),
                (Op::patch(at("/safe/log"), 4, text.clone()), 2),
                (Op::append(at(&name), two.to_owned()), 1),
                (Op::rename(at("/other"), at("/safe/other")), 1),
                (Op::link(at("/other"), at("/safe/link")), 1),
            ] {
                let error = tree.refusal(vec![op]).await;
                let said = format!("line {line} has what looks like one: {}", planted.kind);
                assert!(error.message().contains(&said), "{error}, not {said}");
                assert!(!shows(error.message(), &planted), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn secret_check_reads_only_appended_bytes() {
    let [_, tree] = Tree::all().await;
    tree.set(rule("/safe/**", "secrets", r#"{"policy": "refuse"}"#)).await;
    let mut random = Random::new(9);
    tree.given([Op::write(at("/safe/long"), "").with_parents()]).await;
    let part = words(&mut random, 16_000_000, 9);
    let lines = part.matches('\n').count();
    // 272 MB: a commit that read all of it would be rejected.
    for _ in 0..17 {
        tree.given([Op::append(at("/safe/long"), part.clone())]).await;
    }
    tree.given([Op::append(at("/safe/long"), "\ngh")]).await;
    let planted = &each(&mut random)[1];
    let error = tree.refusal(vec![Op::append(at("/safe/long"), planted.secret[2..].to_owned())]).await;
    assert!(error.message().contains(&format!("line {} has", 17 * lines + 2)), "{error}");
}

#[tokio::test]
async fn secret_rule_requires_files_without_secrets() {
    let [_, tree] = Tree::all().await;
    let Tree::Stored(fs, _) = &tree else { unreachable!() };
    let planted = &each(&mut Random::new(6))[3];
    tree.given([Op::write(at("/safe/x"), format!("one\n{}\n", planted.secret)).with_parents()]).await;
    let asked = rule("/safe/**", "secrets", r#"{"policy": "refuse"}"#);
    let answer = fs.set_rule(asked.clone(), false).await.unwrap();
    assert!(!answer.set && answer.violations[0].reason.contains("line 2 has"), "{answer:?}");
    assert!(!answer.violations[0].reason.contains(&planted.secret));
    fs.remove("/safe/x").await.unwrap();
    assert!(fs.set_rule(asked, false).await.unwrap().set);
}

/// Link to a document, in a form that people paste.
const LINK: &str = "https://docs.example.org/document/d/1aBcD3fGhIjKlMnOpQrStUvWxYz0123456789AbCdEf/edit";

#[tokio::test]
async fn rejects_appends_that_reveal_a_secret() {
    for tree in Tree::all().await {
        tree.set(rule("/safe/**", "secrets", r#"{"policy": "refuse"}"#)).await;
        let word = each(&mut Random::new(4)).into_iter().find(|it| it.kind == "token").unwrap().secret;
        tree.given([
            Op::mkdir(at("/safe")),
            Op::write(at("/safe/x"), format!("{LINK}\nUse {word}")),
            Op::write(at("/safe/y"), "one\nthe token for staging:\n"),
        ])
        .await;
        for (path, more) in [("/safe/x", " as the API key.\n".to_owned()), ("/safe/y", format!("{word}\n"))] {
            let error = tree.refusal(vec![Op::append(at(path), more)]).await;
            assert!(error.message().contains("looks like one: token"), "{error}");
            assert!(
                !error.message().contains(&word[..16]) && !error.message().contains(&word[16..]),
                "{error}"
            );
        }
        tree.given([Op::append(at("/safe/x"), " as the id of the document.\n")]).await;
    }
}

#[tokio::test]
async fn reindex_applies_current_secret_detection() {
    let folder = tempfile::tempdir().unwrap();
    let open = || SqliteFs::open(folder.path(), Env::system(), garth_agent::registry()).unwrap();
    let fs = open();
    let text = format!("Minutes of the harbour board: {LINK}\n");
    fs.commit(Batch::new([Op::write(path("/notes.md"), text.clone())])).await.unwrap();
    let asked = SearchQuery::new("1aBcD3fGhIjKlMnOpQrStUvWxYz0123456789AbCdEf");
    assert_eq!(fs.search(&asked).await.unwrap().hits.len(), 1);
    drop(fs);
    // The index as the first version of the detection built it.
    let marked = Judgement::First.during(|| masked(&text).replace("[secret: random word]", ""));
    assert!(marked.len() < text.len(), "{marked}");
    let conn = rusqlite::Connection::open(folder.path().join("tree.db")).unwrap();
    let id: i64 = conn.query_row("SELECT id FROM passage", [], |row| row.get(0)).unwrap();
    conn.execute("DELETE FROM passage_word WHERE rowid = ?1", [id]).unwrap();
    conn.execute(
        "INSERT INTO passage_word (rowid, tokens) VALUES (?1, ?2)",
        rusqlite::params![id, Tokenizer::default().tokens(&marked).0],
    )
    .unwrap();
    drop(conn);
    let fs = open();
    assert!(fs.search(&asked).await.unwrap().hits.is_empty());
    // Text that was not left out is found, and shown as now.
    let harbour = fs.search(&SearchQuery::new("harbour board")).await.unwrap();
    assert!(harbour.hits[0].snippet.contains(LINK), "{harbour:?}");
    fs.reindex().await.unwrap();
    assert_eq!(fs.search(&asked).await.unwrap().hits[0].snippet, text.trim());
    assert_eq!(fs.fsck().await.unwrap().findings, []);
}
