//! Tree of the attempts, and its surroundings: chats, agents, users and skills of one account, with canaries
//! in everything that is not shown, and links that lead there.

use std::sync::Arc;

use garth_engine::engine::memory::MemoryFs;
use garth_engine::model::{Batch, Ino, Op};
use garth_engine::view::{Overlay, Scope};
use garth_engine::{AccountStore, Env, FileSystem, FileSystemExt, TreePath};

use super::parts::{
    BESIDE, ISLANDS_BELOW, LOWER, SHOWN, SWAPPED, UPPER, guesses, is_shown, mark, mounted, numbers_in_memory,
};
use crate::fs::leaky::{Leak, Leaky};
use crate::isolation::around::outside::{SWAPPED as SWAP, numbers};
use crate::isolation::around::{CANARY, Hidden};
use crate::isolation::scopes::hide;
use crate::proof::{Proven, path};

/// Filesystem of the tree that leaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Filesystem of the directories.
    Base,
    /// Lower layer of the overlays.
    Lower,
    /// Upper layer of one overlay.
    Upper,
}

/// Tree of the attempts, and the data that it must hide.
pub(super) struct Made {
    pub(super) tree: Arc<dyn FileSystem>,
    pub(super) hidden: Hidden,
    /// Upper layer of an overlay in memory.
    pub(super) memory: Arc<MemoryFs>,
}

/// Creates the tree, with a leak in one of its filesystems if requested, and hides canaries around it.
pub(super) async fn made(
    fs: &Arc<dyn AccountStore>,
    other: &dyn FileSystem,
    leak: Option<(Place, Leak)>,
) -> Proven<Made> {
    let mut made = Vec::new();
    for dir in SHOWN.into_iter().chain(BESIDE).chain(ISLANDS_BELOW).chain([
        UPPER,
        "/agents/x/memory",
        "/skills/m/private/open",
    ]) {
        // The overlay requires an empty upper layer.
        if !dir.starts_with("/uppers/a/") {
            made.push(Op::mkdir_all(path(dir)?));
        }
    }
    fs.commit(Batch::new(made)).await?;
    hide(other, &BESIDE).await?;
    let mut hidden = hide(&**fs, &BESIDE).await?;
    fill(&**fs).await?;
    let engine = Leaky::new(fs.clone());
    let of = |place| -> Arc<dyn FileSystem> {
        match leak {
            Some((leaking, leak)) if leaking == place => Arc::new(engine.with(leak)),
            _ => Arc::new(engine.clone()),
        }
    };
    let memory = Arc::new(MemoryFs::new(Env::system(), garth_engine::rule::sample::registry()));
    let (lower, upper) = (of(Place::Lower), of(Place::Upper));
    let one = Overlay::open(
        Scope::open(&*lower, &path(LOWER[0])?).await?,
        Scope::open(&*upper, &path(UPPER)?).await?,
    );
    let one = one.await?;
    let two = Overlay::open(Scope::open(&*lower, &path(LOWER[1])?).await?, memory.clone()).await?;
    for overlay in [&one, &two] {
        copy_up(&**overlay).await?;
    }
    let [whole, tree] = mounted(&*of(Place::Base), [one, two]).await?;
    hidden.marks = vec![0];
    for marked in ["/memory", "/skills/s", "/skills/m"] {
        hidden.marks.push(mark(whole.entry(marked).await?.ino));
    }
    numbers(&**fs, &mut hidden, is_shown).await?;
    // A node may be asked for by its own inode and by that with any mark.
    let raw = std::mem::take(&mut hidden.nodes);
    let marked = |mark: &u64| raw.iter().map(|ino| Ino(mark | ino.0)).collect::<Vec<_>>();
    hidden.nodes = hidden.marks.iter().flat_map(marked).collect();
    numbers_in_memory(&*whole, "/skills/m", &*memory, &mut hidden).await?;
    (hidden.head, hidden.paths) = (fs.head().await?.seq, 40);
    Ok(Made { tree, hidden: guesses(hidden), memory })
}

/// Writes files that may be seen, and creates the swapped pairs.
async fn fill(fs: &dyn FileSystem) -> Proven<()> {
    let mut ops = Vec::new();
    for dir in SHOWN
        .into_iter()
        .chain(LOWER)
        .chain(ISLANDS_BELOW[..2].iter().copied())
        .chain(["/skills/m/private/open"])
    {
        ops.push(Op::write(path(&format!("{dir}/f"))?, "clean garden"));
        ops.push(Op::write(path(&format!("{dir}/link-file"))?, "clean"));
    }
    fs.commit(Batch::new(ops)).await?;
    for [one, other] in SWAPPED.into_iter().filter(|[one, _]| !one.starts_with(UPPER)) {
        remake(fs, &path(one)?, &path(other)?).await;
    }
    fs.commit(Op::symlink(path("/agents/swap-dl")?, "/agents/xy").into()).await?;
    Ok(())
}

/// Leaves canaries in the excluded part of the upper layer: copied up, new, and in the name of a whiteout.
pub(super) async fn copy_up(overlay: &dyn FileSystem) -> Proven<()> {
    let (secret, new) = (path("/private/secret")?, path("/private/copied")?);
    let gone = path(&format!("/private/{CANARY}"))?;
    let ops = [Op::append(secret, CANARY), Op::write(new, CANARY), Op::remove_tree(gone)];
    overlay.commit(Batch::new(ops)).await?;
    Ok(overlay.commit(Op::append(path("/private/open/f")?, " up").into()).await.map(drop)?)
}

/// Creates a swapped pair again: the node, and the link that takes its place.
pub(super) async fn remake(fs: &dyn FileSystem, one: &TreePath, other: &TreePath) {
    let (Some(name), Some(dir)) = (one.name(), one.parent()) else { return };
    let Some(kind) = name.strip_prefix(SWAP) else { return };
    let beside = match dir.as_str() {
        "/chats/a" => "../ab",
        "/agents/x" | "/users/u/agents/x" => "../xy",
        _ => "/chats/ab",
    };
    let mut ops = vec![Op::remove_tree(one).if_exists(), Op::remove_tree(other).if_exists()];
    if kind.ends_with('d') {
        ops.push(Op::mkdir(one));
        ops.extend(TreePath::parse(&format!("{one}/f")).map(|file| Op::write(file, "clean")));
        ops.push(Op::symlink(other, beside));
    } else {
        ops.push(Op::write(one, "clean"));
        ops.push(Op::symlink(other, format!("{beside}/secret")));
    }
    let _ = fs.commit(Batch::new(ops).visible()).await;
}
