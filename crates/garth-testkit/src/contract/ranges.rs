//! Ranges that are punched or copied by reference, and their holes.
#![allow(clippy::unwrap_used, reason = "a check panics where a promise does not hold")]

use garth_engine::ErrorKind::{
    InvalidArgument, IsADirectory, NoSuchOffset, NotADirectory, NotFound, NotPermitted, TooLarge,
};
use garth_engine::OpenFile;
use garth_engine::model::{
    At, Batch, ByteRange, Entry, MAX_COPIED_PIECES, MAX_FILE, Moment, Op, Outcome, Remove,
};

use super::suite::checks;
use crate::data::random::Random;
use crate::subject::Subject;
use crate::tools::*;

checks! {
    punch_leaves_a_hole_and_keeps_size [holes]
    punch_of_hole_changes_nothing [holes]
    copy_range_keeps_holes [holes]
    range_operations_check_in_documented_order [holes links]
    range_operations_work_on_unlinked_file [holes nodes]
    holes_are_reported_exactly [holes]
    range_operations_match_a_plain_vector [holes]
    batch_copies_are_limited_in_pieces [holes]
}

fn punch(path: &str, offset: u64, length: u64) -> Op {
    Op::punch(at(path), offset, length)
}

fn copy_range(from: &str, from_offset: u64, length: u64, to: &str, to_offset: u64) -> Op {
    Op::copy_range(at(from), from_offset, length, at(to), to_offset)
}

/// Returns the offsets at which data and holes begin, alternately, in a file of `size` bytes.
async fn borders(file: &dyn OpenFile, size: u64) -> Vec<u64> {
    let (mut borders, mut offset) = (Vec::new(), 0);
    while offset < size {
        match file.next_data(offset).await {
            Ok(data) => borders.push(data),
            Err(error) => {
                assert_eq!(error.kind(), NoSuchOffset);
                break;
            }
        }
        offset = file.next_hole(borders[borders.len() - 1]).await.unwrap();
        borders.push(offset);
    }
    borders
}

async fn punch_leaves_a_hole_and_keeps_size(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [write("/f", "0123456789")]).await;
    let before = stat(fs, "/f").await;
    subject.clock.advance(std::time::Duration::from_secs(1));
    let (commit, outcome) = apply(fs, punch("/f", 2, 3)).await;
    assert_eq!(outcome, Outcome::changed(commit.version(0), 10));
    let (time, version) = (commit.time, commit.version(0));
    assert_eq!(
        stat(fs, "/f").await,
        Entry { mtime: time, ctime: time, version, etag: version, ..before.clone() }
    );
    assert_eq!(text(fs, "/f").await, "01\0\0\x0056789");
    // The length may exceed the file, and the sum may overflow.
    given(fs, [punch("/f", 8, u64::MAX)]).await;
    assert_eq!((text(fs, "/f").await.as_str(), stat(fs, "/f").await.size), ("01\0\0\x00567\0\0", 10));
    given(fs, [patch("/f", 3, "x"), punch("/f", 0, 10), append("/f", "!")]).await;
    assert_eq!(text(fs, "/f").await, "\0\0\0\0\0\0\0\0\0\0!");
    if can(fs).history {
        let first = fs.open_version(before.version).await.unwrap();
        assert_eq!(first.read_at(0, 20).await.unwrap(), "0123456789", "the past stays");
    }
}

async fn punch_of_hole_changes_nothing(subject: &Subject) {
    let fs = &*subject.fs;
    // A terabyte of holes, which must not be visited byte by byte.
    given(fs, [write("/f", "ab"), truncate("/f", 1 << 40), patch("/f", 1 << 30, "cd")]).await;
    let before = stat(fs, "/f").await;
    for op in [
        punch("/f", 0, 0),
        punch("/f", 2, (1 << 30) - 2),
        punch("/f", (1 << 30) + 2, u64::MAX),
        punch("/f", 1 << 40, 5),
        punch("/f", u64::MAX, u64::MAX),
    ] {
        let what = format!("{op:?}");
        assert_eq!(apply(fs, op).await.1, Outcome::unchanged(before.version, 1 << 40), "{what}");
    }
    assert_eq!(stat(fs, "/f").await, before);
    let batch = Batch::new([punch("/f", 0, 1), punch("/f", 0, 1), punch("/f", 0, 2)]);
    let changed = fs.commit(batch).await.unwrap().outcomes.iter().map(|it| it.changed).collect::<Vec<_>>();
    assert_eq!(changed, [true, false, true], "each on what the ones before it left");
}

async fn copy_range_keeps_holes(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [write("/f", "01234"), patch("/f", 8, "89"), write("/g", "abcdefghijkl")]).await;
    let (f, g) = (stat(fs, "/f").await, stat(fs, "/g").await);
    let (commit, outcome) = apply(fs, copy_range("/f", 3, 6, "/g", 1)).await;
    assert_eq!(outcome, Outcome::changed(commit.version(0), 12));
    assert_eq!(text(fs, "/g").await, "a34\0\0\08hijkl");
    let after = stat(fs, "/g").await;
    assert_eq!((after.ino, after.mtime, after.etag), (g.ino, commit.time, commit.version(0)));
    assert_eq!(stat(fs, "/f").await, f, "the source stays as it is");
    let file = fs.open(&at("/g")).await.unwrap();
    // The hole is copied as a hole, and not as zeros.
    assert_eq!(borders(&*file, 12).await, [0, 3, 6, 12]);
    // The copy refers to content, which must stay when the source changes.
    given(fs, [append("/f", "!"), write("/f", "new")]).await;
    assert_eq!(text(fs, "/g").await, "a34\0\0\08hijkl", "what it came from may change");
    // Longer than the source, after the end of the target, within one file.
    let (_, outcome) = apply(fs, copy_range("/g", 9, u64::MAX, "/g", 15)).await;
    assert_eq!((outcome.size, text(fs, "/g").await.as_str()), (18, "a34\0\0\08hijkl\0\0\0jkl"));
    let before = stat(fs, "/g").await;
    for op in [
        copy_range("/f", 3, 5, "/g", 0),
        copy_range("/f", u64::MAX, 5, "/g", 0),
        copy_range("/f", 0, 0, "/g", 99),
    ] {
        assert_eq!(apply(fs, op).await.1, Outcome::unchanged(before.version, 18));
    }
    assert_eq!(stat(fs, "/g").await, before, "behind the end of the source there is nothing to copy");
    let batch =
        Batch::new([write("/f", "now"), copy_range("/f", 1, 9, "/f", 3), copy_range("/f", 0, 5, "/g", 0)]);
    fs.commit(batch).await.unwrap();
    assert_eq!((text(fs, "/f").await.as_str(), &text(fs, "/g").await[..6]), ("nowow", "nowow\0"));
}

async fn range_operations_check_in_documented_order(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), symlink("/l", "/f"), write("/f", "0123456789"), write("/g", "x")]).await;
    refused(fs, punch("/no", 0, 1), NotFound, "/no").await;
    refused(fs, punch("/f/x", 0, 1), NotADirectory, "/f").await;
    refused(fs, punch("/d", 0, 1), IsADirectory, "/d").await;
    refused(fs, punch("/l", 0, 1), NotPermitted, "/l").await;
    // The source is judged before the target.
    refused(fs, copy_range("/no", 0, 1, "/d", 0), NotFound, "/no").await;
    refused(fs, copy_range("/l", 0, 1, "/no", 0), NotPermitted, "/l").await;
    refused(fs, copy_range("/d", 0, 0, "/no", 0), IsADirectory, "/d").await;
    refused(fs, copy_range("/f", 0, 1, "/no", 0), NotFound, "/no").await;
    refused(fs, copy_range("/f", 0, 0, "/d", 0), IsADirectory, "/d").await;
    refused(fs, copy_range("/f", 0, 1, "/g", MAX_FILE), TooLarge, "/g").await;
    refused(fs, copy_range("/f", 0, 1, "/g", u64::MAX), TooLarge, "/g").await;
    // Two names of one file: overlaps are found by node, and not by path.
    given(fs, [link("/f", "/h")]).await;
    for (start, length, place) in [(0, 10, 0), (0, 6, 5), (5, 9, 1), (2, u64::MAX, 9)] {
        refused(fs, copy_range("/f", start, length, "/h", place), InvalidArgument, "/h").await;
    }
    given(fs, [copy_range("/f", 0, 5, "/h", 5), copy_range("/h", 7, 100, "/f", 10)]).await;
    assert_eq!(text(fs, "/f").await, "0123401234234");
    given(fs, [copy_range("/f", 0, 1, "/g", MAX_FILE - 1)]).await;
    assert_eq!(stat(fs, "/g").await.size, MAX_FILE);
}

async fn range_operations_work_on_unlinked_file(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [write("/f", "01234"), write("/g", "x")]).await;
    let file = fs.open(&at("/f")).await.unwrap();
    given(fs, [remove("/f", Remove::File)]).await;
    let node = At::Node(file.ino());
    given(fs, [Op::punch(node.clone(), 1, 2), Op::copy_range(node.clone(), 0, 4, at("/g"), 1)]).await;
    // A node without a name can also be the target.
    given(fs, [Op::copy_range(at("/g"), 0, 1, node, 5)]).await;
    assert_eq!(
        (text(fs, "/g").await.as_str(), &file.read_at(0, 9).await.unwrap()[..]),
        ("x0\0\x003", &b"0\0\x0034x"[..])
    );
}

async fn holes_are_reported_exactly(subject: &Subject) {
    let fs = &*subject.fs;
    given(
        fs,
        [write("/f", ""), write("/g", "\0\0"), patch("/f", 3, "34"), append("/f", "5"), truncate("/f", 9)],
    )
    .await;
    let file = fs.open(&at("/f")).await.unwrap();
    for (offset, data, hole) in
        [(0, Some(3), 0), (2, Some(3), 2), (3, Some(3), 6), (5, Some(5), 6), (6, None, 6), (8, None, 8)]
    {
        assert_eq!(file.next_data(offset).await.ok(), data, "data behind {offset}");
        assert_eq!(file.next_hole(offset).await.unwrap(), hole, "a hole behind {offset}");
    }
    assert_error(file.next_data(6).await, NoSuchOffset, None);
    for offset in [9, 10, u64::MAX] {
        assert_error(file.next_data(offset).await, NoSuchOffset, None);
        assert_error(file.next_hole(offset).await, NoSuchOffset, None);
    }
    let zeros = fs.open(&at("/g")).await.unwrap();
    assert_eq!(borders(&*zeros, 2).await, [0, 2], "zeros that were written are data");
    let then = stat(fs, "/f").await.version;
    given(fs, [write("/f", "0123456789"), punch("/f", 4, 2), copy("/f", "/copy")]).await;
    assert_eq!(borders(&*file, 10).await, [0, 4, 6, 10], "the handle sees it");
    assert_eq!(borders(&*fs.open(&at("/copy")).await.unwrap(), 10).await, [0, 4, 6, 10]);
    if can(fs).history {
        assert_eq!(borders(&*fs.open_version(then).await.unwrap(), 9).await, [3, 6]);
        let past = fs.as_of(&Moment::Seq(then.seq)).await.unwrap();
        assert_eq!(borders(&*past.open(&at("/f")).await.unwrap(), 9).await, [3, 6]);
    }
    given(fs, [truncate("/f", 1 << 42)]).await;
    assert_eq!(borders(&*file, 1 << 42).await, [0, 4, 6, 10], "a vast hole is skipped");
}

/// Expected file: each byte, `None` in a hole.
type Plain = Vec<Option<u8>>;

fn plain_borders(plain: &Plain) -> Vec<u64> {
    // A hole around the file, so that its first and last byte need no special case.
    let kinds = std::iter::once(false).chain(plain.iter().map(Option::is_some)).chain([false]);
    let kinds: Vec<bool> = kinds.collect();
    (0..=plain.len()).filter(|at| kinds[*at] != kinds[at + 1]).map(|at| at as u64).collect()
}

async fn range_operations_match_a_plain_vector(subject: &Subject) {
    let fs = &*subject.fs;
    let mut random = Random::new(3);
    let mut files: [Plain; 2] = [Vec::new(), Vec::new()];
    let paths = ["/a", "/b"];
    given(fs, paths.map(|path| write(path, ""))).await;
    for step in 0..150_usize {
        let (one, other) = (step % 2, random.below(2) as usize);
        let (offset, length, place) = (random.below(400), random.below(120), random.below(400));
        let plain = &mut files[one];
        let range =
            |plain: &Plain| (offset as usize).min(plain.len())..((offset + length) as usize).min(plain.len());
        let op = match step % 5 {
            0 | 1 => {
                let end = (offset + length) as usize;
                let byte = u8::try_from(step).unwrap();
                if length > 0 {
                    plain.resize(plain.len().max(end), None);
                    plain[offset as usize..end].fill(Some(byte));
                }
                patch(paths[one], offset, vec![byte; length as usize])
            }
            2 => {
                let range = range(plain);
                plain[range].fill(None);
                punch(paths[one], offset, length)
            }
            3 => {
                plain.resize(place as usize, None);
                truncate(paths[one], place)
            }
            _ => {
                let bytes = plain[range(plain)].to_vec();
                let target = &mut files[other];
                // Overlapping ranges within one file are rejected.
                if one == other && (offset.abs_diff(place) as usize) < bytes.len() {
                    let op = copy_range(paths[one], offset, length, paths[other], place);
                    refused(fs, op, InvalidArgument, paths[other]).await;
                    continue;
                }
                let (start, end) = (place as usize, place as usize + bytes.len());
                if !bytes.is_empty() {
                    target.resize(target.len().max(end), None);
                    target[start..end].copy_from_slice(&bytes);
                }
                copy_range(paths[one], offset, length, paths[other], place)
            }
        };
        let what = format!("step {step}: {op:?}");
        apply(fs, op).await;
        for (path, plain) in paths.iter().zip(&files) {
            let bytes: Vec<u8> = plain.iter().map(|byte| byte.unwrap_or_default()).collect();
            assert_eq!(fs.read(&at(path), ByteRange::ALL).await.unwrap(), bytes, "{path} after {what}");
            let file = fs.open(&at(path)).await.unwrap();
            assert_eq!(
                borders(&*file, plain.len() as u64).await,
                plain_borders(plain),
                "holes of {path} after {what}"
            );
        }
    }
}

async fn batch_copies_are_limited_in_pieces(subject: &Subject) {
    let fs = &*subject.fs;
    let large = vec![7; (2 << 20) + 1];
    given(fs, [mkdir("/d"), write("/d/f", "x"), write("/g", ""), write("/large", large)]).await;
    given(fs, [write("/hole", ""), truncate("/hole", 1 << 30)]).await;
    // A file of one byte is copied after its end again and again: every byte is a piece of its own.
    let (mut ops, mut size, mut room) = (Vec::new(), 1, MAX_COPIED_PIECES as u64);
    while size <= room {
        ops.push(copy_range("/d/f", 0, size, "/d/f", size));
        (room, size) = (room - size, 2 * size);
    }
    // Content of one operation is one piece for each MiB, and holes are none.
    ops.extend([copy_range("/d/f", 0, room - 3, "/g", 0), copy("/large", "/l"), copy("/hole", "/h")]);
    ops.push(copy_range("/hole", 0, 1 << 30, "/g", 0));
    for (op, path) in [(copy_range("/large", 0, 1, "/g", 5), "/g"), (copy("/d", "/over"), "/over")] {
        let batch = Batch::new(ops.iter().cloned().chain([op]));
        batch_refused(fs, batch, TooLarge, Some(path)).await;
    }
    assert_eq!((stat(fs, "/d/f").await.size, stat(fs, "/g").await.size), (1, 0));
}
