//! Tree of views over a host folder, while a second thread constantly swaps its directories and files for
//! links to a folder outside.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use garth_engine::engine::host::{HostFs, Mode};
use garth_engine::engine::memory::MemoryFs;
use garth_engine::model::{At, Owner, Within};
use garth_engine::view::{Overlay, Scope};
use garth_engine::{Env, FileSystem, TreePath};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::difference;
use super::parts::{
    BESIDE, ISLANDS_BELOW, LOWER, SHOWN, SWAPPED, guesses, is_inside, is_inside_memory, mounted,
    numbers_in_memory,
};
use super::stored_trees::copy_up;
use crate::data::random::Random;
use crate::fs::leaky::{Leak, Leaky};
use crate::isolation::around::outside::{SWAPPED as SWAP, outside};
use crate::isolation::around::{CANARY, Hidden, Tries};
use crate::proof::{About, Broken, Proof, Proven, Report, Setting, hold, path, run};

/// Attempts of a tree of views on a host folder, while a second thread swaps directories for links.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostViews {
    /// Leak of the folder: a negative control.
    pub leak: Option<Leak>,
}

impl Proof for HostViews {
    fn about(&self) -> About {
        About {
            name: "host-views",
            claim: "Nothing leads out of a tree of views on a folder while it is swapped for links.",
            full: 1_000_000,
            ci: 5_000,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        views_on_host(setting.folder, setting.size, setting.seed, self.leak)
    }
}

/// Makes `tries` attempts from a tree of views on a host folder, while a thread swaps directories.
///
/// # Errors
/// A canary or inode that was seen, or one that is missing afterwards; with the seed of the attempt.
fn views_on_host(folder: &Path, tries: u64, seed: u64, leak: Option<Leak>) -> Proven<Report> {
    let (root, away) = (folder.join("root"), folder.join("outside"));
    hide(&root, &away)?;
    let host = HostFs::open(&root, Mode::Writable, Env::system())?;
    run(async {
        let engine = Leaky::on_host(host.clone(), root.clone());
        let base: Arc<dyn FileSystem> = match leak {
            Some(leak) => Arc::new(engine.with(leak)),
            None => host.clone(),
        };
        let memories =
            [(); 2].map(|()| Arc::new(MemoryFs::new(Env::system(), garth_engine::rule::sample::registry())));
        let mut overlays = Vec::new();
        for (lower, memory) in LOWER.iter().zip(&memories) {
            let lower = Scope::open(&*base, &path(lower)?).await?;
            let overlay = Overlay::open(lower, memory.clone()).await?;
            copy_up(&*overlay).await?;
            overlays.push(overlay);
        }
        let [one, two] = [Arc::clone(&overlays[0]), Arc::clone(&overlays[1])];
        let [whole, tree] = mounted(&*base, [one, two]).await?;
        let mut hidden = Hidden { marks: vec![0], paths: 85, ..Hidden::default() };
        for (shown, memory) in ["/skills/s", "/skills/m"].into_iter().zip(&memories) {
            numbers_in_memory(&*whole, shown, &**memory, &mut hidden).await?;
        }
        stage(&*host, &mut hidden).await?;
        let away_text = away.to_string_lossy().into_owned();
        hidden.targets = vec![format!("{away_text}/secret"), away_text];
        let hidden = guesses(hidden);
        let before = state(&root, &away, &memories).await?;
        let stop = Arc::new(AtomicBool::new(false));
        let swapper = {
            let (root, away, stop) = (root.clone(), away.clone(), Arc::clone(&stop));
            std::thread::spawn(move || swapper(&root, &away, &stop))
        };
        let (mut report, mut outcome) = (Report::of(["tries", "answered", "swaps"]), Ok(()));
        for n in 0..tries {
            let seed = seed.wrapping_add(n);
            let mut tries = Tries { random: Random::new(seed), fs: &*tree, hidden: &hidden };
            match tries.one().await {
                Ok(answered) => report.add("answered", answered),
                Err(error) => {
                    outcome = Err(Broken::because(format!("seed {seed}: {error}")));
                    break;
                }
            }
            report.add("tries", 1);
        }
        stop.store(true, Ordering::Relaxed);
        let swaps = swapper.join().map_err(|_| Broken::because("the thread that swaps has panicked"))?;
        report.set("swaps", swaps);
        outcome?;
        let after = state(&root, &away, &memories).await?;
        hold(after == before, || format!("what lies outside was changed: {}", difference(&before, &after)))?;
        Ok(report)
    })
}

/// Puts canaries into the folder, at places that the tree does not show, and into a folder outside.
fn hide(root: &Path, away: &Path) -> Proven<()> {
    let below = |dir: &Path, path: &str| dir.join(path.trim_start_matches('/'));
    let canaries = |dir: &Path| -> Proven<()> {
        fs::create_dir_all(dir.join(CANARY))?;
        symlink(format!("/{CANARY}"), dir.join("link"))?;
        // Also under the names that a write through a link would use.
        for name in ["secret", "f", "copied", "x1", "swap-f"] {
            fs::write(dir.join(name), format!("secret garden {CANARY}\n"))?;
        }
        Ok(())
    };
    for dir in BESIDE {
        canaries(&below(root, dir))?;
    }
    for dir in ["", "dir", "a", "made"] {
        canaries(&away.join(dir))?;
    }
    let islands = ISLANDS_BELOW.into_iter().filter(|island| !island.starts_with("/uppers"));
    let more = ["/agents/x/memory", "/skills/m/private/open", "/chats/a/dir"];
    for dir in SHOWN.into_iter().chain(LOWER).chain(islands).chain(more) {
        fs::create_dir_all(below(root, dir))?;
        fs::write(below(root, dir).join("f"), "clean garden")?;
    }
    for [one, other] in swapped() {
        remake(&below(root, one), &below(root, other), away);
    }
    Ok(symlink(away, root.join("agents/swap-dl"))?)
}

/// Returns the swapped pairs of a folder, which has no upper layer. None is in a directory inside a part: an
/// attempt may replace that by a link, through which the second thread itself would reach the outside.
fn swapped() -> impl Iterator<Item = [&'static str; 2]> {
    let kept = |one: &str| !one.starts_with("/uppers") && !one.starts_with("/agents/x/memory");
    SWAPPED.into_iter().filter(move |[one, _]| kept(one))
}

/// Stages content under another owner.
async fn stage(host: &dyn FileSystem, hidden: &mut Hidden) -> Proven<()> {
    let owner = Owner::new("others")?;
    let others = host.confined(&garth_engine::model::Confinement::new(Within::everything(), owner)).await?;
    for fs in [host, &*others] {
        for size in [CANARY.len(), 2 << 20] {
            let mut upload = fs.stage(&At::Path(path("/secret")?)).await?;
            upload.write(CANARY.repeat(size / CANARY.len()).into()).await?;
            hidden.bodies.push(upload.finish().await?);
        }
    }
    Ok(())
}

/// Swaps constantly, back and forth. Returns the number of swaps.
fn swapper(root: &Path, away: &Path, stop: &AtomicBool) -> u64 {
    let below = |path: &str| root.join(path.trim_start_matches('/'));
    let pairs: Vec<_> = swapped().map(|[one, other]| [below(one), below(other)]).collect();
    let mut swaps = 0;
    while !stop.load(Ordering::Relaxed) {
        for [one, other] in &pairs {
            for _ in 0..2 {
                if renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).is_ok() {
                    swaps += 1;
                } else {
                    // An attempt has moved or removed one of them.
                    remake(one, other, away);
                }
                std::thread::yield_now();
            }
        }
    }
    swaps
}

/// Creates a swapped pair again: the node, and the link that takes its place. Concurrent attempts may
/// interfere.
fn remake(one: &Path, other: &Path, away: &Path) {
    let Some(kind) = one.file_name().and_then(|name| name.to_str()?.strip_prefix(SWAP)) else { return };
    for path in [one, other] {
        let is_dir = fs::symlink_metadata(path).is_ok_and(|data| data.is_dir());
        let _ = if is_dir { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }
    // A new file is never created through a link.
    let _ = match kind {
        "d" => fs::create_dir(one)
            .and_then(|()| fs::File::create_new(one.join("f")).map(drop))
            .and_then(|()| symlink(away, other)),
        _ => fs::File::create_new(one).and_then(|_| symlink(away.join("secret"), other)),
    };
}

/// Returns lines of everything that attempts must not change.
async fn state(root: &Path, away: &Path, memories: &[Arc<MemoryFs>]) -> Proven<Vec<String>> {
    let mut lines = lines(root, |path| {
        let swapped = path.segments().any(|segment| segment.starts_with(SWAP) || segment == ".garth-tmp");
        swapped || is_inside(path)
    })?;
    lines.extend(self::lines(away, |_| false)?);
    for memory in memories {
        lines.extend(outside(&**memory, is_inside_memory).await?);
    }
    Ok(lines)
}

fn lines(folder: &Path, skip: impl Fn(&TreePath) -> bool) -> Proven<Vec<String>> {
    let (mut lines, mut todo) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(dir)? {
            let (below, data) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)))?;
            let content = if data.is_file() { fs::read(&below)? } else { Vec::new() };
            let target = fs::read_link(&below).unwrap_or_else(|_| PathBuf::new());
            let path = path(&format!("/{}", below.strip_prefix(folder).unwrap_or(&below).display()))?;
            if !skip(&path) {
                let (mode, text) = (data.permissions().mode(), String::from_utf8_lossy(&content));
                lines.push(format!("{path} {mode:o} {} {text}", target.display()));
            }
            if data.is_dir() {
                todo.push(below);
            }
        }
    }
    lines.sort();
    Ok(lines)
}
