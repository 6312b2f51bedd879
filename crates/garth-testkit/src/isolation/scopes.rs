//! Attempts of a scope to reach the rest of the same account, or its own exclusions: by path, inode, version,
//! sequence number, snapshot, commit id, idempotency key, staged body, link, search and copies from the past.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use garth_engine::model::{At, Batch, Confinement, Op, Owner, SetAttrs, Within};
use garth_engine::view::Scope;
use garth_engine::{FileSystem, FileSystemExt, TreePath};

use super::around::outside::{numbers, outside};
use super::around::{CANARY, Hidden, TAKEN, Tries, record};
use crate::data::random::Random;
use crate::fs::leaky::{Leak, Leaky};
use crate::proof::{About, Broken, Proof, Proven, Report, Setting, at, hold, path, run, sound, write};

/// Root of the scope.
const ROOT: &str = "/chats/a";
/// Excluded part of it.
const LEFT_OUT: &str = "/secret";
/// Attempts between two moves of a file: its history grows with each move, and many attempts read it.
const TRIES_A_MOVE: u64 = 20;
/// Directories of canaries.
const BESIDE: [&str; 8] =
    ["/chats/a/secret", "/chats/ab", "/chats/a%", "/chats/_", "/chats/*", "/secret", "/chats/a-", "/chats/A"];

/// Parts of paths.
const PARTS: &[&str] = &[
    "..", "..", ".", "", "a", "ab", "a%", "_", "*", "chats", "canary", "secret", "came", "shuttle", "linked",
    "dir", "link", "a/../ab", "..%2fab", "\\..", "ab\0", "~",
];

/// Attempts of a scope to reach the rest of its account.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scopes {
    /// Leak of the filesystem: a negative control.
    pub leak: Option<Leak>,
}

impl Proof for Scopes {
    fn about(&self) -> About {
        About {
            name: "scopes",
            claim: "No path, link, number or id leads out of a scope.",
            full: 200_000,
            ci: 5_000,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        scopes(setting, self.leak)
    }
}

/// Makes attempts from a scope of an account to reach the rest of it, while a file moves in and out.
///
/// # Errors
/// A canary or inode that was seen, or one that is missing afterwards; with the seed of the attempt.
fn scopes(setting: &Setting<'_>, leak: Option<Leak>) -> Proven<Report> {
    let fs = setting.account("account")?;
    run(async {
        let mut hidden = hide(&*fs, &BESIDE).await?;
        numbers(&*fs, &mut hidden, is_inside).await?;
        let engine: Arc<dyn FileSystem> = fs.clone();
        let base: Arc<dyn FileSystem> = match leak {
            Some(leak) => Arc::new(Leaky::new(engine).with(leak)),
            None => engine,
        };
        let before = outside(&*fs, is_inside_or_above).await?;
        let scope = Scope::open(&*base, &path(ROOT)?).await?;
        let within = Within::everything().without([path(LEFT_OUT)?]);
        let scope = scope.confined(&Confinement::new(within, Owner::new("tries")?)).await?;
        let (stop, tried) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let shuttle = tokio::spawn(shuttle(fs.clone(), Arc::clone(&stop), Arc::clone(&tried)));
        let mut report = Report::of(["tries", "answered"]);
        let mut outcome = Ok(());
        for n in 0..setting.size {
            // A seed for each attempt, so that a failing one can be repeated alone.
            let seed = setting.seed.wrapping_add(n);
            let mut tries = Tries { random: Random::new(seed), fs: &*scope, hidden: &hidden };
            match tries.one().await {
                Ok(answered) => report.add("answered", answered),
                Err(error) => {
                    outcome = Err(Broken::because(format!("seed {seed}: {error}")));
                    break;
                }
            }
            report.add("tries", 1);
            tried.store(n + 1, Ordering::Relaxed);
        }
        stop.store(true, Ordering::Relaxed);
        shuttle.await??;
        outcome?;
        hold(outside(&*fs, is_inside_or_above).await? == before, || {
            "what lies outside was changed".to_owned()
        })?;
        sound(&*fs)?;
        Ok(report)
    })
}

/// Creates canaries outside, and moves some nodes from outside into the scope.
pub(super) async fn hide(fs: &dyn FileSystem, dirs: &[&str]) -> Proven<Hidden> {
    let targets = ["../ab/secret", "/chats/ab"].map(str::to_owned).to_vec();
    let mut hidden = Hidden { numbers: 120, parts: PARTS, targets, ..Hidden::default() };
    let attrs = SetAttrs::new().tags([CANARY]);
    let commit =
        |ops: Vec<Op>| async move { Ok::<_, Broken>(fs.commit(Batch::new(ops).message(CANARY)).await?) };
    // Messages of commits that change something inside are visible, so this commit must not have one.
    let left_out = left_out()?;
    fs.commit(Op::mkdir_all(left_out.clone()).into()).await?;
    let mut ops = Vec::new();
    for beside in dirs {
        ops.push(write(&format!("{beside}/secret"), format!("secret garden {CANARY}\n"))?);
        ops.push(Op::symlink(at(&format!("{beside}/link"))?, format!("/{CANARY}")).with_attrs(attrs.clone()));
        ops.push(Op::mkdir(at(&format!("{beside}/{CANARY}"))?));
    }
    ops.push(Op::snapshot(CANARY));
    commit(ops).await?;
    // Visible inside: a name, a file with a past, a directory with its entries, and a file that moves in and
    // out.
    commit(vec![write("/chats/came", CANARY)?, write("/chats/dir/f", CANARY)?]).await?;
    commit(vec![write("/chats/shuttle", CANARY)?, write("/chats/ab/linked", "linked")?]).await?;
    commit(vec![write("/chats/came", "clean")?, write("/chats/dir/f", "clean")?]).await?;
    fs.commit(Batch::new([
        Op::rename(path("/chats/came")?, path("/chats/a/came")?),
        Op::rename(path("/chats/dir")?, path("/chats/a/dir")?),
        Op::link(path("/chats/ab/linked")?, path("/chats/a/linked")?),
        Op::rename(path("/chats/ab/linked")?, path(&format!("/chats/ab/{CANARY}/linked"))?),
    ]))
    .await?;
    hidden.came = Some(fs.entry("/chats/a/came").await?.ino);
    hidden.shuttle = Some(fs.entry("/chats/shuttle").await?.ino);
    let taken = write("/secret/taken", CANARY)?;
    fs.commit(Batch::new([taken.clone()]).id(TAKEN)).await?;
    fs.commit(Batch::new([taken]).idempotency(record())).await?;
    let other = Scope::open(fs, &path("/chats/ab")?).await?;
    other
        .commit(Batch::new([Op::snapshot("theirs"), Op::append(path("/secret")?, CANARY)]).id(TAKEN))
        .await?;
    hidden.snapshots = vec![CANARY.to_owned(), "theirs".to_owned()];
    for fs in [fs, &*other] {
        // Bodies of less than one piece, and of several.
        for size in [CANARY.len(), 2 << 20] {
            let mut upload = fs.stage(&At::Path(path("/secret")?)).await?;
            upload.write(CANARY.repeat(size / CANARY.len()).into()).await?;
            hidden.bodies.push(upload.finish().await?);
        }
    }
    hidden.head = fs.head().await?.seq;
    Ok(hidden)
}

/// Returns the path of the exclusion in the tree.
fn left_out() -> Proven<TreePath> {
    path(&format!("{ROOT}{LEFT_OUT}"))
}

/// Moves a file in and out. It has clean content inside and a canary outside, changed in the same commit.
pub(super) async fn shuttle(
    fs: Arc<dyn FileSystem>,
    stop: Arc<AtomicBool>,
    tried: Arc<AtomicU64>,
) -> Proven<()> {
    let (outside, inside) = (path("/chats/shuttle")?, path("/chats/a/shuttle")?);
    let mut moved = 0;
    while !stop.load(Ordering::Relaxed) {
        // The content changes in the same commit as the place, so a canary inside is always a leak.
        let into = [Op::write(&outside, "clean"), Op::rename(&outside, &inside)];
        let out = [Op::rename(&inside, &outside), Op::write(&outside, CANARY)];
        for ops in [into, out] {
            // Attempts may have moved or removed it, or put something in its place.
            let _ = fs.commit(Batch::new(ops).visible()).await;
            moved += TRIES_A_MOVE;
            while tried.load(Ordering::Relaxed) < moved && !stop.load(Ordering::Relaxed) {
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
        }
    }
    Ok(())
}

/// Returns true if the scope shows a path.
fn is_inside(path: &TreePath) -> bool {
    let (Ok(root), Ok(left_out)) = (TreePath::parse(ROOT), left_out()) else { return false };
    path.is_within(&root) && !path.is_within(&left_out)
}

/// Returns true if the scope shows a path or something below it.
fn is_inside_or_above(path: &TreePath) -> bool {
    is_inside(path) || TreePath::parse(ROOT).is_ok_and(|root| root.is_within(path))
}
