//! Batches: lines that are parsed alone or together, and commits of them.

use futures::executor::block_on;
use garth_agent::Once;
use garth_agent::files::{BatchLine, BatchLines, BatchRequest, BatchResult, ContentForm, LineContent};
use garth_engine::model::{Body, Idempotency, MAX_INLINE_BODY, MAX_OPS, Timestamp};
use garth_engine::{ErrorKind, FileSystemExt};

use super::*;

const NOW: Timestamp = Timestamp(1_769_472_000_000_000_000);

fn request(lines: &[&str]) -> BatchRequest {
    let parse = |line: &&str| BatchLine::parse(line.as_bytes(), ContentForm::Inline).unwrap();
    BatchRequest::new(lines.iter().map(parse), NOW)
}

/// Returns a line that is valid or almost valid.
fn random_line(random: &mut Random) -> Vec<u8> {
    let lines = [
        r#"{"op":"write","path":"/a","text":"é\u0000","create":"new","attrs":{"mode":"640","ttl":"7d"}}"#,
        r#"{"op":"write","path":"/b/../c","base64":"AP8=","parents":true,"attrs":{"tags":["t"],"metadata":{"k":null}}}"#,
        r#"{"op":"append","path":"/a","text":"","create":"never"}"#,
        r#"{"op":"append","path":"/a","staged":{"id":"00000000000000000000000000000001","size":7}}"#,
        r#"{ "op" : "mkdir" , "path" : "/d" , "parents" : true }"#,
        r#"{"op":"rm","path":"/a","recursive":true,"force":true}"#,
        r#"{"op":"mv","from":"/a","to":"/b","replace":false}"#,
        r#"{"op":"cp","from":"/a","to":"/b","recursive":true,"parents":true}"#,
        r#"{"op":"ln","from":"/a","to":"/b"}"#,
        r#"{"op":"symlink","path":"/l","target":"a"}"#,
        r#"{"op":"set","path":"/a","attrs":{"searchable":null,"ttl":null,"importance":0.5,"uid":7}}"#,
        r#"{"op":"check","path":"/a","that":{"not":{"etag_in":["ver_7-3"]}}}"#,
        r#"{"op":"check","path":"/a","that":"absent"}"#,
        "",
        " \t\r",
    ];
    let mut line = random.pick(&lines).as_bytes().to_vec();
    for _ in 0..random.below(3) {
        if line.is_empty() || random.one_in(2) {
            break;
        }
        let at = random.below(line.len() as u64) as usize;
        match random.below(3) {
            0 => {
                line.remove(at);
            }
            1 => line[at] = random.pick(&[b'"', b'{', b'}', b':', b',', b'x', b'0', 0xff]),
            _ => line.truncate(at),
        }
    }
    line
}

#[test]
fn batch_parses_as_its_lines_alone() {
    let (mut parsed, mut refused) = (0, 0);
    for seed in 0..3000 {
        let mut random = Random::new(seed);
        let texts: Vec<Vec<u8>> = (0..random.below(6)).map(|_| random_line(&mut random)).collect();
        let mut together = BatchLines::new(ContentForm::Staged);
        for (at, text) in texts.iter().enumerate() {
            let alone = BatchLine::parse(text, ContentForm::Staged);
            match together.parse(text) {
                Ok(None) => assert!(text.trim_ascii().is_empty(), "seed {seed}"),
                Ok(Some(line)) => {
                    assert_eq!(Ok(&line), alone.as_ref(), "seed {seed}");
                    let fs = memory();
                    let ops = [block_on(line.op(&*fs, NOW)), block_on(alone.unwrap().op(&*fs, NOW))];
                    let [one, other] = ops.map(|op| op.map_err(|error| error.to_string()));
                    assert_eq!(one, other, "seed {seed}");
                    parsed += 1;
                }
                Err(error) => {
                    assert_eq!(error.line, at as u64 + 1, "seed {seed}");
                    let reason: String = alone.unwrap_err().chars().take(500).collect();
                    assert_eq!(error.reason, reason, "seed {seed}");
                    refused += 1;
                }
            }
        }
    }
    assert!(parsed > 1000 && refused > 300, "{parsed} {refused}");
}

#[test]
fn content_has_one_of_the_permitted_forms() {
    let parse = |line: &str, form| BatchLine::parse(line.as_bytes(), form);
    let staged = r#"{"op":"write","path":"/a","staged":{"id":"0000000000000000000000000000000a","size":7}}"#;
    let line = parse(staged, ContentForm::Staged).unwrap();
    assert!(matches!(line.content(), Some(LineContent::Body(Body::Staged(body))) if body.size == 7));
    let file = r#"{"op":"append","path":"/a","file":"host.txt"}"#;
    let line = parse(file, ContentForm::Named("file")).unwrap();
    assert_eq!(line.content(), Some(&LineContent::Named("host.txt".to_owned())));
    let unread = block_on(line.op(&*memory(), NOW)).unwrap_err();
    assert!(unread.is(ErrorKind::InvalidArgument), "{unread}");
    for (line, form, why) in [
        (file, ContentForm::Inline, "one of text and base64"),
        (file, ContentForm::Staged, "one of text, base64 and staged"),
        (staged, ContentForm::Named("file"), "one of text, base64 and file"),
        (
            r#"{"op":"write","path":"/a","text":"x","file":"y"}"#,
            ContentForm::Staged,
            r#"unknown field "file""#,
        ),
        (
            r#"{"op":"write","path":"/a","staged":{"id":"a","size":7}}"#,
            ContentForm::Staged,
            "32 hexadecimal digits",
        ),
    ] {
        let refused = parse(line, form).unwrap_err();
        assert!(refused.contains(why), "{line}: {refused}");
    }
}

#[test]
fn batch_is_bounded() {
    let mut lines = BatchLines::new(ContentForm::Inline);
    for _ in 0..MAX_OPS {
        lines.parse(br#"{"op":"rm","path":"/a"}"#).unwrap();
    }
    let error = lines.parse(br#"{"op":"rm","path":"/a"}"#).unwrap_err();
    assert_eq!(error.line, MAX_OPS as u64 + 1);
    assert!(error.reason.contains("at most 100000 operations"), "{error}");
    let name = "x".repeat(10_000);
    let mut lines = BatchLines::new(ContentForm::Inline);
    let error = lines.parse(format!(r#"{{"op":"rm","path":"/a","{name}":1}}"#).as_bytes()).unwrap_err();
    assert!(error.reason.len() < 1000);
    let half = "x".repeat(MAX_INLINE_BODY / 2 + 1);
    let fs = memory();
    let line = |path: &str| {
        let line = BatchLine::parse(
            format!(r#"{{"op":"write","path":"{path}","text":""}}"#).as_bytes(),
            ContentForm::Inline,
        );
        line.unwrap().with_body(Body::from(half.clone()))
    };
    let refused =
        block_on(Files::new(&fs).batch(&BatchRequest::new([line("/a"), line("/b")], NOW))).unwrap_err();
    assert!(refused.is(ErrorKind::TooLarge), "{refused}");
    let none = block_on(Files::new(&fs).batch(&BatchRequest::new([], NOW))).unwrap_err();
    assert!(none.is(ErrorKind::InvalidArgument), "{none}");
    assert_eq!(block_on(fs.head()).unwrap().seq.0, 0);
}

#[test]
fn attributes_of_lines_are_bounded_while_they_are_read() {
    let line = |tags: usize| {
        let tags = vec!["\"\""; tags].join(",");
        format!(r#"{{"op":"set","path":"/a","attrs":{{"tags":[{tags}]}}}}"#)
    };
    let error = BatchLine::parse(line(1_000_000).as_bytes(), ContentForm::Inline).unwrap_err();
    assert_eq!(error, "has more than 250000 values");
    // Each tag counts as 64 bytes. Eleven lines have less than 64 MiB.
    let (mut lines, line) = (BatchLines::new(ContentForm::Inline), line(90_000));
    let error = (0..20).find_map(|_| lines.parse(line.as_bytes()).err()).unwrap();
    assert!(error.line == 12 && error.reason.contains("at most 67108864 bytes"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_applies_all_operations_or_none() {
    each(async |fs: Fs| {
        write(&fs, &[("/old", "old")]).await;
        let before = fs.head().await.unwrap().seq;
        let version = fs.entry("/old").await.unwrap().version;
        let batch = request(&[
            r#"{"op":"check","path":"/old","that":"exists"}"#,
            r#"{"op":"write","path":"/d/a","text":"one","parents":true}"#,
            r#"{"op":"append","path":"/d/a","text":"two"}"#,
            r#"{"op":"mv","from":"/old","to":"/new"}"#,
            r#"{"op":"rm","path":"/none","force":true}"#,
        ])
        .if_version("/old", version);
        let done = Files::new(&fs).message("all").batch(&batch).await.unwrap();
        assert_eq!(done.commit.seq.0, before.0 + 1);
        let made = fs.entry("/d/a").await.unwrap().version;
        let moved = fs.entry("/new").await.unwrap().version;
        assert_eq!(
            done.results(&batch),
            [
                BatchResult::Change { path: "/d/a", version: made, created: true },
                BatchResult::Change { path: "/d/a", version: made, created: false },
                BatchResult::Change { path: "/new", version: moved, created: false },
                BatchResult::Removal { path: "/none", removed: false },
            ]
        );
        assert_eq!(fs.read_to_string("/d/a").await.unwrap(), "onetwo");
        let head = fs.head().await.unwrap();
        let fails = request(&[r#"{"op":"write","path":"/x","text":"x"}"#, r#"{"op":"rm","path":"/none"}"#]);
        let refused = Files::new(&fs).batch(&fails).await.unwrap_err();
        assert!(refused.is(ErrorKind::NotFound), "{refused}");
        let stale = request(&[r#"{"op":"write","path":"/x","text":"x"}"#]).if_version("/d/a", version);
        let refused = Files::new(&fs).batch(&stale).await.unwrap_err();
        assert!(refused.is(ErrorKind::Conflict), "{refused}");
        assert!(refused.message().contains(&format!("the current version is {made}")), "{refused}");
        assert_eq!(fs.head().await.unwrap(), head);
    })
    .await;
}

#[tokio::test]
async fn repeated_batch_returns_the_first_commit() {
    let fs = memory();
    let begin = async || {
        let record = Idempotency::new("k", [1; 32], Timestamp(i64::MAX));
        Once::begin(Arc::clone(&fs), record).await.unwrap()
    };
    let batch = request(&[r#"{"op":"write","path":"/a","text":"x","create":"new"}"#]);
    let first = Files::new(&fs).once(begin().await).batch(&batch).await.unwrap();
    fs.apply(Op::remove(path("/a"))).await.unwrap();
    let head = fs.head().await.unwrap();
    let again = Files::new(&fs).once(begin().await).batch(&batch).await.unwrap();
    assert_eq!((again.commit.seq, again.commit.time), (first.commit.seq, first.commit.time));
    assert_eq!(again.results(&batch), first.results(&batch));
    assert_eq!(fs.head().await.unwrap(), head);
}

#[tokio::test]
async fn links_are_followed_as_before_the_batch() {
    let fs = memory();
    write(&fs, &[("/a", "a")]).await;
    fs.apply(Op::symlink(path("/l"), "a")).await.unwrap();
    let batch = request(&[
        r#"{"op":"symlink","path":"/m","target":"a"}"#,
        r#"{"op":"append","path":"/l","text":"b"}"#,
    ]);
    let done = Files::new(&fs).batch(&batch).await.unwrap();
    assert!(matches!(done.results(&batch)[1], BatchResult::Change { path: "/l", created: false, .. }));
    assert_eq!(fs.read_to_string("/a").await.unwrap(), "ab");
    let through_new = request(&[
        r#"{"op":"symlink","path":"/n","target":"a"}"#,
        r#"{"op":"write","path":"/n","text":"x"}"#,
    ]);
    assert!(Files::new(&fs).batch(&through_new).await.is_err());
}
