//! Content of files: writes, appends, ranges, holes, large bodies.
#![allow(clippy::unwrap_used, reason = "a check panics where a promise does not hold")]

use bytes::Bytes;
use futures::TryStreamExt;
use garth_engine::ErrorKind::{AlreadyExists, InvalidArgument, IsADirectory, NotFound, TooLarge};
use garth_engine::model::{
    At, Batch, Body, ByteRange, Create, Entry, Kind, MAX_CUTS, MAX_FILE, MAX_INLINE_BODY, MAX_PAGE, MAX_READ,
    Op, SetAttrs, StagedBody,
};

use super::suite::checks;
use crate::data::random::Random;
use crate::subject::Subject;
use crate::tools::*;

checks! {
    write_creates_or_replaces_a_file
    write_honours_create_mode
    write_keeps_mode_and_attributes [attributes]
    append_adds_at_the_end
    patch_writes_range_and_leaves_holes
    truncate_cuts_and_extends_with_zeros
    file_has_a_maximum_size
    range_reads_stop_at_end_of_file
    read_returns_at_most_16_mib
    fetch_many_sees_one_state [nodes]
    fetch_many_stops_at_response_limit [attributes]
    edits_at_odd_sizes_match_a_vector
    small_appends_read_back_completely
    cut_points_change_no_byte
    rejects_invalid_cut_points
    staged_body_is_invisible_until_commit
    staged_body_survives_failed_batch [atomic]
    abandoned_upload_leaves_nothing
    rejects_bodies_beyond_inline_limit [nodes]
}

async fn range(fs: &Fs, path: &str, offset: u64, length: u64) -> Bytes {
    fs.read(&at(path), ByteRange { offset, length }).await.unwrap()
}

/// Returns `length` bytes that differ from place to place.
fn pattern(length: usize, salt: usize) -> Vec<u8> {
    (0..length).map(|index| u8::try_from((index * 31 + index / 251 + salt) % 256).unwrap()).collect()
}

async fn write_creates_or_replaces_a_file(subject: &Subject) {
    let fs = &*subject.fs;
    let (first, outcome) = apply(fs, write("/f", "one")).await;
    assert!(outcome.created && (!can(fs).nodes || outcome.ino == subject.ino(2)));
    let made = stat(fs, "/f").await;
    assert_eq!(
        (made.kind, made.mode, made.uid, made.gid, made.nlink, made.size),
        (Kind::File, 0o644, 0, 0, 1, 3)
    );
    assert_eq!([made.atime, made.mtime], [first.time; 2]);
    assert!(!can(fs).log || [made.ctime, made.birthtime] == [first.time; 2]);
    assert_eq!((made.target.clone(), made.expires_at, made.etag), (None, None, first.version(0)));
    subject.clock.advance(std::time::Duration::from_secs(1));
    let (second, outcome) = apply(fs, write("/f", "three")).await;
    assert!(!outcome.created && (!can(fs).nodes || outcome.ino == made.ino));
    let (time, version, now) = (second.time, second.version(0), stat(fs, "/f").await);
    let mut expected = Entry { size: 5, mtime: time, ctime: time, version, etag: version, ..made };
    // Without nodes, a write may put a new file in place of the old one.
    if !can(fs).nodes {
        expected.ino = outcome.ino;
    }
    if !can(fs).log {
        (expected.ctime, expected.birthtime) = (now.ctime, now.birthtime);
    }
    assert_eq!(now, expected);
    assert_eq!(text(fs, "/f").await, "three");
    given(fs, [write("/f", "")]).await;
    assert_eq!((stat(fs, "/f").await.size, text(fs, "/f").await.as_str()), (0, ""));
}

async fn write_honours_create_mode(subject: &Subject) {
    let fs = &*subject.fs;
    refused(fs, write_as("/f", "x", Create::Never), NotFound, "/f").await;
    given(
        fs,
        [
            write_as("/f", "x", Create::New),
            write_as("/f", "y", Create::Never),
            mkdir("/d"),
            symlink("/l", "/f"),
        ],
    )
    .await;
    for path in ["/f", "/d", "/l", "/"] {
        refused(fs, write_as(path, "z", Create::New), AlreadyExists, path).await;
    }
    for path in ["/d", "/"] {
        refused(fs, write(path, "z"), IsADirectory, path).await;
        refused(fs, append(path, "z"), IsADirectory, path).await;
        refused(fs, patch(path, 0, "z"), IsADirectory, path).await;
        refused(fs, truncate(path, 0), IsADirectory, path).await;
    }
    assert_eq!(text(fs, "/f").await, "y");
    let op = Op::append(at("/g"), "x").must_exist();
    refused(fs, op, NotFound, "/g").await;
}

async fn write_keeps_mode_and_attributes(subject: &Subject) {
    let fs = &*subject.fs;
    let tags = |tag: &str| SetAttrs::new().tags([tag]);
    given(fs, [write_with("/f", "1", tags("a").mode(0o600)), write("/f", "2")]).await;
    let entry = stat(fs, "/f").await;
    assert_eq!((entry.mode, entry.attributes.tags), (0o600, vec!["a".to_owned()]));
    given(fs, [write_with("/f", "3", tags("b"))]).await;
    let entry = stat(fs, "/f").await;
    assert_eq!((entry.mode, entry.attributes.tags, entry.etag), (0o600, vec!["b".to_owned()], entry.version));
}

async fn append_adds_at_the_end(subject: &Subject) {
    let fs = &*subject.fs;
    let (_, made) = apply(fs, append("/f", "one\n")).await;
    assert!(made.created);
    for line in ["two\n", "three\n"] {
        let (commit, outcome) = apply(fs, append("/f", line)).await;
        assert_eq!((outcome.ino, outcome.created), (made.ino, false));
        assert_eq!(stat(fs, "/f").await.etag, commit.version(0));
    }
    assert_eq!(text(fs, "/f").await, "one\ntwo\nthree\n");
    let before = stat(fs, "/f").await;
    given(fs, [append("/f", "")]).await;
    assert_eq!(stat(fs, "/f").await, before, "nothing added is no change");
}

async fn patch_writes_range_and_leaves_holes(subject: &Subject) {
    let fs = &*subject.fs;
    given(
        fs,
        [write("/f", "0123456789"), patch("/f", 3, "abc"), patch("/f", 9, "XYZ"), patch("/f", 14, "!")],
    )
    .await;
    assert_eq!(text(fs, "/f").await, "012abc678XYZ\0\0!");
    let before = stat(fs, "/f").await;
    // An empty body must not extend the file either.
    given(fs, [patch("/f", 1000, "")]).await;
    assert_eq!(stat(fs, "/f").await, before, "an empty body changes nothing");
    given(fs, [write("/sparse", ""), patch("/sparse", 1 << 40, "end")]).await;
    assert_eq!(stat(fs, "/sparse").await.size, (1 << 40) + 3);
    assert_eq!(&range(fs, "/sparse", (1 << 40) - 4, 100).await[..], b"\0\0\0\0end");
    assert_eq!(&range(fs, "/sparse", 1 << 20, 4).await[..], [0; 4]);
}

async fn truncate_cuts_and_extends_with_zeros(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [write("/f", "0123456789"), truncate("/f", 4)]).await;
    assert_eq!(text(fs, "/f").await, "0123");
    // The chunk still has the cut bytes if the engine does not clear them.
    given(fs, [truncate("/f", 6), append("/f", "x")]).await;
    assert_eq!(text(fs, "/f").await, "0123\0\0x", "what was cut off does not come back");
    let (commit, _) = apply(fs, truncate("/f", 0)).await;
    let entry = stat(fs, "/f").await;
    assert_eq!((entry.size, entry.mtime, entry.etag), (0, commit.time, commit.version(0)));
    given(fs, [truncate("/f", MAX_FILE)]).await;
    assert_eq!(&range(fs, "/f", MAX_FILE - 2, 10).await[..], [0; 2]);
}

async fn file_has_a_maximum_size(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [write("/f", "x")]).await;
    refused(fs, truncate("/f", MAX_FILE + 1), TooLarge, "/f").await;
    refused(fs, patch("/f", MAX_FILE, "x"), TooLarge, "/f").await;
    refused(fs, patch("/f", u64::MAX, "x"), TooLarge, "/f").await;
    given(fs, [patch("/f", MAX_FILE - 1, "x")]).await;
    refused(fs, append("/f", "x"), TooLarge, "/f").await;
    assert_eq!(stat(fs, "/f").await.size, MAX_FILE);
}

async fn range_reads_stop_at_end_of_file(subject: &Subject) {
    let fs = &*subject.fs;
    let content = pattern(200_000, 1);
    put(fs, "/f", content.clone()).await;
    // Ranges across page and chunk borders, past the end, and with a length that overflows.
    for (offset, length) in [(0, 1), (0, 200_000), (4095, 2), (65_535, 4_097), (199_999, 10), (100, u64::MAX)]
    {
        let start = usize::try_from(offset).unwrap();
        let end = content.len().min(start.saturating_add(usize::try_from(length).unwrap_or(usize::MAX)));
        assert_eq!(range(fs, "/f", offset, length).await, content[start..end]);
    }
    for offset in [200_000, 200_001, u64::MAX] {
        assert!(range(fs, "/f", offset, 10).await.is_empty(), "behind the end is nothing, not an error");
    }
    assert!(range(fs, "/f", 5, 0).await.is_empty());
    given(fs, [mkdir("/d")]).await;
    assert_error(fs.read(&at("/d"), ByteRange::ALL).await, IsADirectory, Some("/d"));
    assert_error(fs.open(&at("/d")).await, IsADirectory, Some("/d"));
}

async fn read_returns_at_most_16_mib(subject: &Subject) {
    let fs = &*subject.fs;
    let size = MAX_READ as u64 + 1;
    given(fs, [write("/f", ""), truncate("/f", size)]).await;
    assert_error(fs.read(&at("/f"), ByteRange::ALL).await, TooLarge, Some("/f"));
    assert_eq!(range(fs, "/f", 1, u64::MAX).await.len(), MAX_READ);
    assert_eq!(range(fs, "/f", 0, MAX_READ as u64).await.len(), MAX_READ);
}

async fn fetch_many_sees_one_state(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), write("/d/f", "content"), symlink("/l", "/d/f"), write("/empty", "")]).await;
    let (dir, file) = (stat(fs, "/d").await.ino, stat(fs, "/d/f").await);
    let items = [
        (at("/d/f"), ByteRange::ALL),
        (at("/no"), ByteRange::ALL),
        (At::Node(file.ino), ByteRange::from(3..5)),
        (at("/d"), ByteRange::ALL),
        (At::Child(dir, name("f")), ByteRange::from(100..)),
        (at("/l"), ByteRange::ALL),
        (at("/d/f/x"), ByteRange::ALL),
        (at("/empty"), ByteRange::ALL),
        (at("/d/f"), ByteRange::ALL),
    ];
    let fetched = fs.fetch_many(&items).await.unwrap();
    assert_eq!((fetched.seq, fetched.items.len()), (Some(fs.head().await.unwrap().seq), items.len()));
    for ((place, range), answer) in items.iter().zip(fetched.items) {
        match (fs.fetch(place, *range).await, answer) {
            (Ok(alone), Ok(together)) => assert_eq!(together, alone, "{place:?}"),
            (alone, together) => {
                let [alone, together] = [alone, together].map(|answer| answer.unwrap_err());
                assert_eq!((together.kind(), together.path()), (alone.kind(), alone.path()), "{place:?}");
            }
        }
    }
    assert!(fs.fetch_many(&[]).await.unwrap().items.is_empty());
    // Missing files count towards the limit, too.
    let many = vec![(at("/no"), ByteRange::ALL); MAX_PAGE + 1];
    assert_error(fs.fetch_many(&many).await, InvalidArgument, None);
    assert_eq!(fs.fetch_many(&many[1..]).await.unwrap().items.len(), MAX_PAGE);

    // Two files are written in one commit each time, so a mixed state would show two rounds.
    let writer = {
        let fs = subject.fs.clone();
        tokio::spawn(async move {
            for round in 0..200 {
                let both = [write("/one", format!("{round}")), write("/two", format!("{round}"))];
                fs.commit(Batch::new(both).visible()).await.unwrap();
            }
        })
    };
    while !writer.is_finished() {
        let both =
            fs.fetch_many(&[(at("/one"), ByteRange::ALL), (at("/two"), ByteRange::ALL)]).await.unwrap();
        let texts: Vec<_> = both.items.into_iter().map(|item| item.ok().map(|(_, bytes)| bytes)).collect();
        assert_eq!(texts[0], texts[1], "both are of one moment");
        tokio::task::yield_now().await;
    }
    writer.await.unwrap();
}

async fn fetch_many_stops_at_response_limit(subject: &Subject) {
    let fs = &*subject.fs;
    let third = MAX_READ as u64 / 3 + 1;
    for path in ["/a", "/b", "/c"] {
        given(fs, [write(path, ""), truncate(path, third)]).await;
    }
    given(fs, [write("/large", ""), truncate("/large", MAX_READ as u64 + 1), write("/small", "x")]).await;
    let whole = |paths: &[&str]| paths.iter().map(|path| (at(path), ByteRange::ALL)).collect::<Vec<_>>();
    let answered = async |paths: &[&str]| {
        let items = fs.fetch_many(&whole(paths)).await.unwrap().items;
        items.into_iter().map(|item| item.ok().map(|(_, bytes)| bytes.len() as u64)).collect::<Vec<_>>()
    };
    assert_eq!(answered(&["/a", "/b", "/c", "/small"]).await, [Some(third), Some(third)], "in their order");
    assert_eq!(answered(&["/c", "/small"]).await, [Some(third), Some(1)], "the rest is asked for again");
    // Items that fail take no room.
    assert_eq!(answered(&["/a", "/large", "/no", "/b", "/c"]).await, [Some(third), None, None, Some(third)]);
    assert_error(fs.fetch_many(&whole(&["/large"])).await.unwrap().items.remove(0), TooLarge, Some("/large"));
    given(fs, [truncate("/a", MAX_READ as u64)]).await;
    assert_eq!(answered(&["/a", "/small"]).await, [Some(MAX_READ as u64)], "the first is always answered");

    let long =
        SetAttrs { metadata: [("k".to_owned(), Some("v".repeat(200_000)))].into(), ..SetAttrs::default() };
    given(fs, [set("/small", long)]).await;
    let many = ["/small"; 200];
    let shown = answered(&many).await.len();
    assert!((1..MAX_READ / 200_000 + 1).contains(&shown), "attributes take room, too: {shown}");
}

async fn edits_at_odd_sizes_match_a_vector(subject: &Subject) {
    let fs = &*subject.fs;
    put(fs, "/f", "").await;
    let mut plain: Vec<u8> = Vec::new();
    // Sizes next to those of pages, chunks and pieces.
    let edges = [4095, 4096, 4097, 65_535, 65_536, 65_537, 131_072, (1 << 20) - 1, 1 << 20, (1 << 20) + 1];
    for (step, edge) in edges.into_iter().enumerate() {
        let bytes = pattern(edge / 2 + 1, step);
        plain.extend_from_slice(&bytes);
        apply(fs, append("/f", bytes)).await;
        let bytes = pattern(4096 + step, step + 7);
        let end = edge + bytes.len();
        if plain.len() < end {
            plain.resize(end, 0);
        }
        plain[edge..end].copy_from_slice(&bytes);
        apply(fs, patch("/f", edge as u64, bytes)).await;
        if step % 3 == 2 {
            plain.truncate(edge - 1);
            apply(fs, truncate("/f", edge as u64 - 1)).await;
        }
        assert!(fs.read(&at("/f"), ByteRange::ALL).await.unwrap() == plain, "content after edge {edge}");
    }
}

async fn small_appends_read_back_completely(subject: &Subject) {
    let fs = &*subject.fs;
    let mut plain = String::new();
    for number in 0..300 {
        let line = format!("line {number}\n");
        apply(fs, append("/f", line.clone())).await;
        plain.push_str(&line);
    }
    assert_eq!(text(fs, "/f").await, plain);
}

async fn cut_points_change_no_byte(subject: &Subject) {
    let fs = &*subject.fs;
    let mut random = Random::new(5);
    let pieces = [65_535, 65_536, 100_000, (1 << 20) + 70_000].map(|size| pattern(size, size));
    put(fs, "/f", "short").await;
    let mut plain = b"short".to_vec();
    for step in 0..24_u8 {
        // Repeated pieces, short ones between them, and cuts that match none.
        let (mut body, mut cuts) = (Vec::new(), vec![0]);
        for _ in 0..random.below(6) {
            if random.one_in(2) {
                body.extend_from_slice(&random.pick(&pieces));
            } else {
                body.resize(body.len() + random.below(300) as usize, step);
            }
            cuts.push(body.len() as u64);
        }
        cuts.extend((0..random.below(9)).map(|_| random.below(body.len() as u64 + 1)));
        cuts.sort_unstable();
        cuts.dedup();
        plain.extend_from_slice(&body);
        let (_, outcome) = apply(fs, append("/f", body).cut_at(cuts)).await;
        assert_eq!(outcome.size, plain.len() as u64);
        if random.one_in(3) {
            let (at, bytes) = (random.below(plain.len() as u64), pattern(random.below(200_000) as usize, 1));
            let end = at as usize + bytes.len();
            plain.resize(plain.len().max(end), 0);
            plain[at as usize..end].copy_from_slice(&bytes);
            apply(fs, patch("/f", at, bytes)).await;
        }
        // Keeps the file small enough for the test.
        if plain.len() > 8 << 20 {
            plain.truncate(random.below(4 << 20) as usize);
            apply(fs, truncate("/f", plain.len() as u64)).await;
        }
        assert!(fs.read(&at("/f"), ByteRange::ALL).await.unwrap() == plain, "content after step {step}");
        let from = random.below(plain.len() as u64 + 1);
        let length = random.below(300_000).min(plain.len() as u64 - from);
        let expected = &plain[from as usize..(from + length) as usize];
        assert!(range(fs, "/f", from, length).await == expected, "a range after step {step}");
    }
}

async fn rejects_invalid_cut_points(subject: &Subject) {
    let fs = &*subject.fs;
    put(fs, "/f", "").await;
    let invalid: [&[u64]; 6] = [&[1, 1], &[2, 1], &[0, 0], &[4], &[1, u64::MAX], &[u64::MAX, 0]];
    for cuts in invalid {
        refused_outright(fs, append("/f", "abc").cut_at(cuts.to_vec()), InvalidArgument).await;
    }
    refused_outright(fs, append("/f", "").cut_at([1]), InvalidArgument).await;
    refused_outright(fs, append("/no/f", "abc").cut_at([4]), InvalidArgument).await;
    let body = vec![b'x'; MAX_CUTS + 1];
    refused_outright(fs, append("/f", body.clone()).cut_at(0..=MAX_CUTS as u64), TooLarge).await;
    let (before, outcome) = (stat(fs, "/f").await, apply(fs, append("/f", "").cut_at([0])).await.1);
    assert_eq!((outcome.changed, stat(fs, "/f").await), (false, before), "nothing was added");
    given(fs, [append("/f", "abc").cut_at([0, 1, 2, 3]), append("/f", "def").cut_at([])]).await;
    given(fs, [append("/f", body).cut_at(1..=MAX_CUTS as u64)]).await;
    assert_eq!(text(fs, "/f").await, format!("abcdef{}", "x".repeat(MAX_CUTS + 1)));

    let mut upload = fs.stage(&at("/f")).await.unwrap();
    upload.write("staged".into()).await.unwrap();
    let body = Body::Staged(upload.finish().await.unwrap());
    refused_outright(fs, append("/g", body.clone()).cut_at([3]), InvalidArgument).await;
    given(fs, [append("/g", body).cut_at([])]).await;
    assert_eq!(text(fs, "/g").await, "staged");
}

async fn staged_body_is_invisible_until_commit(subject: &Subject) {
    let fs = &*subject.fs;
    let content = pattern(5 << 20, 3);
    let mut upload = fs.stage(&at("/f")).await.unwrap();
    for piece in content.chunks(700_001) {
        upload.write(Bytes::copy_from_slice(piece)).await.unwrap();
    }
    let staged = upload.finish().await.unwrap();
    assert_eq!(staged.size, content.len() as u64);
    assert!(names_in(fs, "/").await.is_empty());
    assert_eq!(fs.head().await.unwrap().seq, subject.seq(0));
    put(fs, "/f", "head").await;
    // A body with a wrong size may be forged, and must not be used.
    for size in [staged.size - 1, staged.size + 1] {
        let body = Body::Staged(StagedBody { size, ..staged.clone() });
        refused_outright(fs, Op::patch(at("/f"), 0, body), NotFound).await;
    }
    let body = Body::Staged(staged.clone());
    apply(fs, Op::append(at("/f"), body.clone()).must_exist()).await;
    let file = fs.open(&at("/f")).await.unwrap();
    let pieces: Vec<Bytes> = file.stream(ByteRange::ALL).try_collect().await.unwrap();
    assert!(pieces.concat() == [b"head", &content[..]].concat(), "the content staged");
    // A staged body is used up by the commit that uses it.
    let op = Op::patch(at("/f"), 0, body);
    refused_outright(fs, op, NotFound).await;
    let unknown = Body::Staged(StagedBody { id: u128::MAX, size: 1 });
    refused_outright(fs, Op::patch(at("/f"), 0, unknown), NotFound).await;
}

async fn staged_body_survives_failed_batch(subject: &Subject) {
    let fs = &*subject.fs;
    let mut upload = fs.stage(&at("/f")).await.unwrap();
    upload.write("kept".into()).await.unwrap();
    let body = Body::Staged(upload.finish().await.unwrap());
    let put = Op::write(at("/f"), body).create_new();
    batch_refused(fs, Batch::new([put.clone(), mkdir("/no/d")]), NotFound, Some("/no/d")).await;
    // One body cannot be used twice in a batch, and stays if that is tried.
    batch_refused(fs, Batch::new([put.clone(), rename_op(&put, "/g")]), NotFound, None).await;
    given(fs, [put]).await;
    assert_eq!(text(fs, "/f").await, "kept");
}

/// Returns the write with another path.
fn rename_op(op: &Op, path: &str) -> Op {
    match op {
        Op::Write { body, create, parents, attrs, .. } => Op::Write {
            at: at(path),
            body: body.clone(),
            create: *create,
            parents: *parents,
            attrs: attrs.clone(),
        },
        _ => op.clone(),
    }
}

async fn abandoned_upload_leaves_nothing(subject: &Subject) {
    let fs = &*subject.fs;
    let mut upload = fs.stage(&at("/f")).await.unwrap();
    upload.write(Bytes::from(vec![1; 1 << 20])).await.unwrap();
    drop(upload);
    assert!(names_in(fs, "/").await.is_empty());
    put(fs, "/f", "x").await;
    assert_eq!(text(fs, "/f").await, "x");
}

async fn rejects_bodies_beyond_inline_limit(subject: &Subject) {
    let fs = &*subject.fs;
    // The limit covers all bodies of a batch together.
    let half = Bytes::from(vec![0; MAX_INLINE_BODY / 2 + 1]);
    let batch = Batch::new([write("/a", half.clone()), write("/b", half)]);
    batch_refused(fs, batch, TooLarge, None).await;
    put(fs, "/c", vec![1; MAX_INLINE_BODY]).await;
    assert_eq!(stat(fs, "/c").await.size, MAX_INLINE_BODY as u64);
    let node = At::Node(stat(fs, "/c").await.ino);
    assert_eq!(fs.read(&node, ByteRange { offset: 7, length: 3 }).await.unwrap()[..], [1; 3]);
}
