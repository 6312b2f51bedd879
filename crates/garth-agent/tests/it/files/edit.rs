//! Exact edits: one commit on the version that was read, and everything that refuses them.

use garth_agent::Once;
use garth_agent::files::{Edit, EditError, Edited, MAX_EDITED, MAX_OLD};
use garth_engine::model::{Author, ChangesQuery, Idempotency, Seq, SetAttrs, Timestamp, VersionId};
use garth_engine::view::Scope;
use garth_engine::{Error, ErrorKind, FileSystemExt};
use garth_testkit::fs::interfering::{Call, Interfering};

use super::*;

async fn edit(fs: &Fs, at: &str, edit: &Edit) -> Result<Edited, EditError> {
    Files::new(fs).edit(at, edit).await
}

async fn text(fs: &Fs, at: &str) -> String {
    fs.read_to_string(at).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn edit_is_one_commit_that_keeps_attributes() {
    each(async |fs: Fs| {
        let attrs =
            SetAttrs::new().mode(0o640).content_type("text/markdown").tags(["plan"]).metadata("k", "v");
        let first = Op::write(path("/d/plan.md"), "one\ntwo\nthree\n").with_parents().with_attrs(attrs);
        fs.commit(first.into()).await.unwrap();
        fs.apply(Op::symlink(path("/l"), "d/plan.md")).await.unwrap();
        let before = fs.entry("/d/plan.md").await.unwrap();
        let files = Files::new(&fs).author(Author::agent("scout")).message("count on");
        let edited = files.edit("/l", &Edit::replace("two\n", "2\n")).await.unwrap();
        let after = fs.entry("/d/plan.md").await.unwrap();
        assert_eq!((edited.path.as_str(), edited.version), ("/d/plan.md", after.version));
        assert_eq!((edited.changed, edited.count, edited.line), (true, 1, 2));
        assert_eq!(text(&fs, "/d/plan.md").await, "one\n2\nthree\n");
        assert_eq!((after.ino, after.mode, &after.attributes), (before.ino, before.mode, &before.attributes));
        let since = ChangesQuery::since(Seq(before.version.seq.0 + 1));
        let commits = fs.changes(&since).await.unwrap().commits;
        assert_eq!(commits.len(), 1);
        let commit = &commits[0].commit;
        assert_eq!((commit.author.agent.as_deref(), commit.message.as_str()), (Some("scout"), "count on"));
        files.edit("/l", &Edit::insert(3, "four")).await.unwrap();
        assert_eq!(text(&fs, "/d/plan.md").await, "one\n2\nthree\nfour\n");
    })
    .await;
}

#[tokio::test]
async fn edit_without_effect_makes_no_commit() {
    let fs = memory();
    write(&fs, &[("/a", "x y\n")]).await;
    let head = fs.head().await.unwrap();
    let edited = edit(&fs, "/a", &Edit::replace("x", "x")).await.unwrap();
    assert_eq!((edited.changed, edited.version.seq), (false, head.seq));
    assert_eq!(fs.head().await.unwrap(), head);
}

#[tokio::test]
async fn refused_edit_gives_its_reason() {
    let fs = memory();
    write(&fs, &[("/a", "x\ny x\n"), ("/d/f", "")]).await;
    fs.write("/latin", vec![b'x', 0xe9]).await.unwrap();
    fs.write("/long", vec![b'x'; MAX_EDITED + 1]).await.unwrap();
    fs.write("/full", vec![b'x'; MAX_EDITED]).await.unwrap();
    let head = fs.head().await.unwrap();
    let refused = async |at: &str, of: Edit| edit(&fs, at, &of).await.unwrap_err();
    assert!(matches!(refused("/a", Edit::replace("z", "")).await, EditError::NotFound { .. }));
    let several = refused("/a", Edit::replace("x", "")).await;
    assert!(
        matches!(&several, EditError::Several { count: 2, lines, .. } if lines == &[1, 2]),
        "{several:?}"
    );
    assert!(several.to_string().contains("2 times, in lines 1, 2"), "{several}");
    assert!(matches!(refused("/latin", Edit::replace("x", "")).await, EditError::NotText { .. }));
    assert!(matches!(refused("/long", Edit::replace("x", "")).await, EditError::TooLarge { .. }));
    assert!(matches!(refused("/full", Edit::insert(0, "x\n")).await, EditError::TooLarge { .. }));
    assert!(matches!(refused("/a", Edit::insert(3, "x")).await, EditError::NoSuchLine { lines: 2, .. }));
    for (at, of, kind) in [
        ("/none", Edit::replace("x", ""), ErrorKind::NotFound),
        ("/d", Edit::replace("x", ""), ErrorKind::IsADirectory),
        ("/a", Edit::replace("", "x"), ErrorKind::InvalidArgument),
        ("/a", Edit::insert(0, ""), ErrorKind::InvalidArgument),
        ("/a", Edit::replace("x".repeat(MAX_OLD + 1), ""), ErrorKind::TooLarge),
        ("/a", Edit::insert(9, "x"), ErrorKind::InvalidArgument),
        ("/latin", Edit::replace("x", ""), ErrorKind::InvalidArgument),
    ] {
        assert_eq!(Error::from(refused(at, of).await).kind(), kind, "{at}");
    }
    assert_eq!(fs.head().await.unwrap(), head);
}

#[tokio::test]
async fn edit_of_a_changed_file_is_a_conflict() {
    let fs = memory();
    write(&fs, &[("/a", "x\n")]).await;
    let other = vec![Op::append(path("/a"), "more\n")];
    let busy: Fs = Arc::new(Interfering::new(&fs, Call::Commit, 0, other));
    let error = edit(&busy, "/a", &Edit::replace("x", "y")).await.unwrap_err();
    let version = fs.entry("/a").await.unwrap().version;
    assert!(matches!(&error, EditError::Conflict { current, .. } if *current == Some(version)), "{error:?}");
    assert!(Error::from(error).is(ErrorKind::Conflict));
    assert_eq!(text(&fs, "/a").await, "x\nmore\n");
    edit(&busy, "/a", &Edit::replace("x", "y")).await.unwrap();
    let other = vec![Op::remove(path("/a"))];
    let busy: Fs = Arc::new(Interfering::new(&fs, Call::Commit, 0, other));
    let error = edit(&busy, "/a", &Edit::replace("y", "z")).await.unwrap_err();
    assert!(matches!(error, EditError::Conflict { current: None, .. }), "{error:?}");
}

#[tokio::test]
async fn edit_of_another_version_is_a_conflict() {
    let fs = memory();
    write(&fs, &[("/a", "x\n")]).await;
    let first = fs.entry("/a").await.unwrap();
    fs.apply(Op::set_attrs(path("/a"), SetAttrs::new().mode(0o600))).await.unwrap();
    let of = |from: &str, version: VersionId| Edit::replace(from, "y").if_version(version);
    let edited = edit(&fs, "/a", &of("x", first.version)).await.unwrap();
    let error = edit(&fs, "/a", &of("y", first.version)).await.unwrap_err();
    let current = Some(edited.version);
    assert!(matches!(&error, EditError::Conflict { current: found, .. } if *found == current), "{error:?}");
    assert_eq!(text(&fs, "/a").await, "y\n");
    assert!(!edit(&fs, "/a", &of("y", edited.version)).await.unwrap().changed);
}

#[tokio::test]
async fn edit_through_a_scope_stays_inside() {
    let fs = memory();
    write(&fs, &[("/d/a", "x\n"), ("/a", "x\n")]).await;
    fs.apply(Op::symlink(path("/d/l"), "/../a")).await.unwrap();
    let scope = Scope::open(&*fs, &path("/d")).await.unwrap();
    let edited = edit(&scope, "/l", &Edit::replace("x", "y")).await.unwrap();
    assert_eq!(edited.path.as_str(), "/a");
    assert_eq!((text(&fs, "/d/a").await, text(&fs, "/a").await), ("y\n".to_owned(), "x\n".to_owned()));
}

#[tokio::test]
async fn repeated_edit_runs_once() {
    let fs = memory();
    write(&fs, &[("/a", "x\n")]).await;
    let twice = Edit::replace("x", "xx");
    let mut outcomes = Vec::new();
    for _ in 0..2 {
        let record = Idempotency::new("k", [1; 32], Timestamp(i64::MAX));
        let once = Once::begin(Arc::clone(&fs), record).await.unwrap();
        outcomes.push(Files::new(&fs).once(once).edit("/a", &twice).await.unwrap());
    }
    assert_eq!(outcomes[0], outcomes[1]);
    assert_eq!(text(&fs, "/a").await, "xx\n");
}
