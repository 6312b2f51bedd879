//! Damage to a closed account, done without the engine: `fsck` finds each kind, and no read returns wrong
//! bytes.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::executor::block_on;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{Batch, Body, ByteRange, Idempotency, Op, SetAttrs};
use garth_engine::{AccountStore, Env, ErrorKind, FileSystem};
use rusqlite::Connection;

use super::{
    About, Broken, Proof, Proven, Report, Setting, account, append, at, closed, hold, remove, run, sound,
    write,
};
use crate::reference::file_content::content;

/// A kind of damage.
struct Damage {
    name: &'static str,
    /// Kind of finding that `fsck` must report.
    finding: &'static str,
    /// File whose content is damaged.
    hits: Option<&'static str>,
    /// File that becomes unreadable because other rows are damaged. All other files read as before.
    loses: Option<&'static str>,
    inflict: fn(&Path) -> Proven<()>,
}

const INLINE: &str = "/docs/inline.bin";
const PACKED: &str = "/docs/packed.bin";
const NOTE: &str = "/docs/note.md";
/// Another name of the note.
const SECOND: &str = "/second";

const DAMAGES: [Damage; 26] = [
    Damage {
        name: "a flipped bit in the database",
        finding: "content",
        hits: Some(INLINE),
        loses: None,
        inflict: flip_inline,
    },
    Damage {
        name: "a flipped bit in a pack file",
        finding: "content",
        hits: Some(PACKED),
        loses: None,
        inflict: flip_packed,
    },
    Damage {
        name: "a flipped bit in a page's head",
        finding: "database",
        hits: None,
        loses: None,
        inflict: flip_page,
    },
    Damage {
        name: "content missing in the database",
        finding: "missing_content",
        hits: Some(INLINE),
        loses: None,
        inflict: |folder| sql(folder, "DELETE FROM chunk WHERE length(data) = 70000"),
    },
    Damage {
        name: "a pack file missing",
        finding: "missing_content",
        hits: Some(PACKED),
        loses: None,
        inflict: |folder| Ok(fs::remove_file(pack(folder)?)?),
    },
    Damage {
        name: "a pack file cut off",
        finding: "missing_content",
        hits: Some(PACKED),
        loses: None,
        inflict: |folder| {
            let file = OpenOptions::new().write(true).open(pack(folder)?)?;
            Ok(file.set_len(1000)?)
        },
    },
    Damage {
        name: "content of nothing",
        finding: "references",
        hits: None,
        loses: None,
        inflict: |folder| {
            sql(
                folder,
                "INSERT INTO chunk (id, sum, data, len) SELECT next_chunk, x'00', x'00', 1 FROM head;
             UPDATE head SET next_chunk = next_chunk + 1",
            )
        },
    },
    Damage {
        name: "a reference too many counted",
        finding: "references",
        hits: None,
        loses: None,
        inflict: |folder| sql(folder, "INSERT INTO chunk_refs SELECT max(id), 2 FROM chunk"),
    },
    Damage {
        name: "references of shared content not counted",
        finding: "references",
        hits: None,
        loses: None,
        inflict: |folder| sql(folder, "DELETE FROM chunk_refs"),
    },
    Damage {
        name: "references to nothing counted",
        finding: "references",
        hits: None,
        loses: None,
        inflict: |folder| sql(folder, "INSERT INTO chunk_refs VALUES (1000000, 3)"),
    },
    Damage {
        name: "bytes of a pack file about to go that are needed",
        finding: "references",
        hits: None,
        loses: None,
        inflict: |folder| sql(folder, "INSERT INTO hole SELECT id, 5, 5, 0 FROM pack"),
    },
    Damage {
        name: "a pack file of nothing",
        finding: "orphan_content",
        hits: None,
        loses: None,
        inflict: |folder| Ok(fs::write(folder.join("packs").join("0123.pack"), "x")?),
    },
    Damage {
        name: "a wrong link count",
        finding: "link_count",
        hits: None,
        loses: None,
        inflict: |folder| {
            sql(
                folder,
                "UPDATE node SET nlink = nlink + 1 WHERE ino = (SELECT ino FROM name WHERE name = 'note.md')",
            )
        },
    },
    Damage {
        name: "another time of a directory than its commit's",
        finding: "times",
        hits: None,
        loses: None,
        inflict: |folder| sql(folder, "UPDATE dir_time SET time = time + 1"),
    },
    Damage {
        name: "another time of a directory in the past",
        finding: "times",
        hits: None,
        loses: None,
        inflict: |folder| sql(folder, "UPDATE dir_time_past SET time = time + 1"),
    },
    Damage {
        name: "the newest times of directories missing",
        finding: "times",
        hits: None,
        loses: None,
        inflict: |folder| sql(folder, "DELETE FROM dir_time"),
    },
    Damage {
        name: "the past times of directories missing",
        finding: "times",
        hits: None,
        loses: None,
        inflict: |folder| sql(folder, "DELETE FROM dir_time_past"),
    },
    Damage {
        name: "a stale index",
        finding: "index",
        hits: None,
        loses: None,
        inflict: |folder| sql(folder, "UPDATE passage SET hash = hash + 1"),
    },
    Damage {
        name: "passages missing in the index",
        finding: "index",
        hits: None,
        loses: None,
        inflict: |folder| sql(folder, "DELETE FROM passage"),
    },
    Damage {
        name: "a name in no directory",
        finding: "name",
        hits: None,
        loses: None,
        inflict: |folder| sql(folder, "UPDATE name SET dir = '/nowhere' WHERE name = 'note.md'"),
    },
    Damage {
        name: "a name of no node",
        finding: "name",
        hits: None,
        loses: Some(SECOND),
        inflict: |folder| {
            sql(folder, "DELETE FROM node WHERE ino = (SELECT ino FROM name WHERE name = 'note.md')")
        },
    },
    Damage {
        name: "a damaged row of the log",
        finding: "log",
        hits: None,
        loses: None,
        inflict: |folder| sql(folder, "UPDATE log SET changes = substr(changes, 2) WHERE seq = 2"),
    },
    Damage {
        name: "changes of a commit missing",
        finding: "log",
        hits: None,
        loses: None,
        inflict: |folder| sql(folder, "DELETE FROM log_more WHERE first = (SELECT max(first) FROM log_more)"),
    },
    Damage {
        name: "an answer that a retry needs missing",
        finding: "log",
        hits: None,
        loses: None,
        inflict: |folder| sql(folder, "UPDATE log SET answer = NULL WHERE answer IS NOT NULL"),
    },
    Damage {
        name: "a commit missing in the log",
        finding: "head",
        hits: None,
        loses: None,
        inflict: |folder| sql(folder, "DELETE FROM log WHERE seq = 2"),
    },
    Damage {
        name: "a stale list of expiries",
        finding: "expiry",
        hits: None,
        loses: None,
        inflict: |folder| sql(folder, "UPDATE expiry SET at = at + 1"),
    },
];

/// Every kind of damage to an account. It has no size.
#[derive(Clone, Copy, Debug)]
pub struct EveryDamage;

impl Proof for EveryDamage {
    fn about(&self) -> About {
        About {
            name: "fsck",
            claim: "`fsck` finds every kind of damage, and no read returns wrong bytes.",
            full: 1,
            ci: 1,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        damage(setting.folder)
    }
}

/// Damages an account below `folder` in each way and runs `fsck`.
///
/// # Errors
/// Damage that was not found, a finding in a sound account, or wrong bytes.
fn damage(folder: &Path) -> Proven<Report> {
    let original = folder.join("sound");
    let fs = account(&original, Env::system())?;
    run(fill(&fs))?;
    sound(&*fs)?;
    // Without a connection the log of the database is merged into it, and a copy of the files is complete.
    closed(fs, &original)?;
    let mut report = Report::of(["kinds of damage found"]);
    for (n, damage) in DAMAGES.iter().enumerate() {
        // Each kind of damage has its own copy, so that findings of another kind cannot hide its own.
        let copy = folder.join(n.to_string());
        copy_folder(&original, &copy)?;
        let inflicted = (damage.inflict)(&copy);
        inflicted.map_err(|error| Broken::because(format!("{}: {error}", damage.name)))?;
        let fs = account(&copy, Env::system())?;
        let check = block_on(fs.fsck())
            .map_err(|error| Broken::because(format!("{}: fsck: {error}", damage.name)))?;
        let mut kinds: Vec<&'static str> = check.findings.iter().map(|finding| finding.kind).collect();
        kinds.dedup();
        hold(kinds.contains(&damage.finding), || {
            format!("{}: fsck finds {:?} and not `{}`", damage.name, check.findings, damage.finding)
        })?;
        run(reads(&fs, damage)).map_err(|error| Broken::because(format!("{}: {error}", damage.name)))?;
        report.add("kinds of damage found", 1);
        report.note(format!("{}: {}", damage.name, kinds.join(", ")));
    }
    Ok(report)
}

/// Writes content of every kind: in the database and in a pack, indexed, patched, linked, removed, expiring.
async fn fill(fs: &SqliteFs) -> Proven<()> {
    let mut upload = fs.stage(&at(PACKED)?).await?;
    for step in 0..30 {
        upload.write(Bytes::from(content(1, step * 100_000, 100_000))).await?;
    }
    let staged = Body::Staged(upload.finish().await?);
    fs.commit(Batch::new([write(PACKED, staged)?])).await?;
    fs.commit(Batch::new([write(INLINE, content(2, 0, 70_000))?])).await?;
    for name in ["/kept/one", "/kept/two", "/kept/three"] {
        fs.commit(Batch::new([write(name, name)?])).await?;
    }
    fs.commit(Batch::new([write(NOTE, "# Garden\n\nalpha beta gamma\n")?, write("/gone", "was here")?]))
        .await?;
    fs.commit(Batch::new([append(NOTE, "delta\n")?, remove("/gone")?])).await?;
    fs.commit(Batch::new([Op::copy(at(INLINE)?, at("/copy")?)])).await?;
    let link = Op::link(at(NOTE)?, at(SECOND)?);
    let expires_at = Some(Some(Env::system().now().plus_seconds(3600)));
    let expiring = SetAttrs { expires_at, ..SetAttrs::default() };
    fs.commit(Batch::new([link, write("/short-lived", "x")?])).await?;
    fs.commit(Batch::new([Op::set_attrs(at("/short-lived")?, expiring)])).await?;
    // More changes than one row of the log holds.
    let many = std::iter::repeat_n(Op::set_attrs(at("/")?, SetAttrs::default()), 5000);
    let keep_until = Env::system().now().plus_seconds(3600);
    let record = Idempotency::new("key", [1; 32], keep_until);
    fs.commit(Batch::new(many).idempotency(record)).await?;
    Ok(())
}

/// Checks that damaged content fails with `Corrupt`, lost content with an error, and that everything else is
/// unchanged.
async fn reads(fs: &SqliteFs, damage: &Damage) -> Proven<()> {
    let expected: [(&str, Vec<u8>); 3] = [
        (INLINE, content(2, 0, 70_000)),
        (PACKED, content(1, 0, 3_000_000)),
        (SECOND, b"# Garden\n\nalpha beta gamma\ndelta\n".to_vec()),
    ];
    for (file, bytes) in expected {
        match fs.read(&at(file)?, ByteRange::ALL).await {
            Ok(read) => {
                let lost = [damage.hits, damage.loses].contains(&Some(file));
                hold(!lost, || format!("{file} is read though it is damaged"))?;
                hold(read == bytes, || format!("{file} is read as other bytes"))?;
            }
            Err(error) if damage.hits == Some(file) => {
                hold(error.is(ErrorKind::Corrupt), || {
                    format!("{file} is refused as {:?}: {error}", error.kind())
                })?;
            }
            Err(error) if damage.loses == Some(file) => {
                let told = error.is(ErrorKind::Corrupt) || error.is(ErrorKind::NotFound);
                hold(told, || format!("{file} is refused as {:?}: {error}", error.kind()))?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    // Damage must not prevent other writes.
    if damage.hits.is_some() {
        let hit = fs.commit(Batch::new([append(NOTE, "more\n")?]));
        let (beside, hit) = futures::join!(fs.commit(Batch::new([write("/new", "new")?])), hit);
        beside?;
        hit?;
    }
    Ok(())
}

fn sql(folder: &Path, sql: &str) -> Proven<()> {
    let conn = Connection::open(folder.join("tree.db"))?;
    conn.execute_batch(sql)?;
    // A statement that matches no row would leave the account sound, and prove nothing.
    hold(conn.changes() > 0, || "nothing was changed".to_owned())
}

fn flip(file: &Path, offset: u64) -> Proven<()> {
    let file = OpenOptions::new().read(true).write(true).open(file)?;
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset)?;
    Ok(file.write_all_at(&[byte[0] ^ 0x10], offset)?)
}

fn flip_inline(folder: &Path) -> Proven<()> {
    let database = folder.join("tree.db");
    let bytes = fs::read(&database)?;
    // The position of the content in the database is not known, but its bytes are.
    let part = content(2, 40_000, 64);
    let found = bytes.windows(part.len()).position(|window| window == part);
    let offset = found.ok_or_else(|| Broken::because("the content is not in the database"))?;
    flip(&database, offset as u64)
}

fn flip_packed(folder: &Path) -> Proven<()> {
    flip(&pack(folder)?, 1_500_000)
}

/// Damages the root page of a table: its first byte is the type of the page.
fn flip_page(folder: &Path) -> Proven<()> {
    let conn = Connection::open(folder.join("tree.db"))?;
    let page: u64 =
        conn.query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'idempotency'", [], |row| {
            row.get(0)
        })?;
    let size: u64 = conn.query_row("PRAGMA page_size", [], |row| row.get(0))?;
    drop(conn);
    flip(&folder.join("tree.db"), (page - 1) * size)
}

fn pack(folder: &Path) -> Proven<PathBuf> {
    let entry = fs::read_dir(folder.join("packs"))?.next();
    Ok(entry.ok_or_else(|| Broken::because("there is no pack file"))??.path())
}

fn copy_folder(from: &Path, to: &Path) -> Proven<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.metadata()?.is_dir() {
            copy_folder(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}
