//! Parts of an account, or of a folder, that the tree of views shows or excludes, and their surroundings.

use std::sync::Arc;

use garth_engine::model::{At, Confinement, Ino, Owner, WalkPage, Within};
use garth_engine::view::Mount;
use garth_engine::{FileSystem, FileSystemExt, TreePath};

use crate::isolation::around::Hidden;
use crate::proof::{Proven, path};

/// Shown directories of the account, and the layers of its overlays.
pub(super) const SHOWN: [&str; 3] = ["/chats/a", "/agents/x", "/users/u/agents/x"];
pub(super) const UPPER: &str = "/uppers/a";
pub(super) const LOWER: [&str; 2] = ["/skills/s", "/skills/m"];
/// Excluded parts of the tree, and islands in them.
pub(super) const LEFT_OUT: [&str; 4] =
    ["/secret", "/.agent/private", "/skills/s/private", "/skills/m/private"];
pub(super) const ISLANDS: [&str; 2] = ["/secret/open", "/skills/s/private/open"];
/// Exclusions and islands, by their paths in the account.
pub(super) const LEFT_OUT_BELOW: [&str; 5] = [
    "/chats/a/secret",
    "/agents/x/private",
    "/skills/s/private",
    "/skills/m/private",
    "/uppers/a/tree/private",
];
pub(super) const ISLANDS_BELOW: [&str; 3] =
    ["/chats/a/secret/open", "/skills/s/private/open", "/uppers/a/tree/private/open"];

/// Directories of canaries: next to each part, by names that look like it, and in its exclusions.
pub(super) const BESIDE: [&str; 22] = [
    "/chats/a/secret",
    "/chats/ab",
    "/chats/a%",
    "/chats/_",
    "/chats/*",
    "/chats/a-",
    "/chats/A",
    // A Cyrillic letter that looks like `a`, and `a` with invisible and combining characters.
    "/chats/\u{430}",
    "/chats/a\u{200b}",
    "/chats/a\u{301}",
    "/secret",
    "/agents/xy",
    "/agents/_",
    "/agents/x%",
    "/agents/x/private",
    "/users/u",
    "/users/u/agents/xy",
    "/users/u2/agents/x",
    "/skills/s2",
    "/skills/s/private",
    "/skills/m/private",
    "/uppers/b",
];

/// Swapped pairs. The name of the first tells its kind: a directory (`d`) or a file (`f`).
pub(super) const SWAPPED: [[&str; 2]; 10] = [
    ["/chats/a/swap-d", "/chats/a/swap-dl"],
    ["/chats/a/swap-f", "/chats/a/swap-fl"],
    ["/agents/x/swap-d", "/agents/x/swap-dl"],
    ["/agents/x/memory/swap-f", "/agents/x/memory/swap-fl"],
    ["/users/u/agents/x/swap-d", "/users/u/agents/x/swap-dl"],
    ["/skills/s/swap-d", "/skills/s/swap-dl"],
    ["/skills/s/swap-f", "/skills/s/swap-fl"],
    ["/skills/m/swap-f", "/skills/m/swap-fl"],
    ["/uppers/a/tree/swap-ud", "/uppers/a/tree/swap-udl"],
    // A complete part.
    ["/agents/x", "/agents/swap-dl"],
];

pub(super) const PARTS: &[&str] = &[
    "..", "..", ".", "", "a", "ab", "a%", "_", "*", "\u{430}", "secret", "secret", "private", "open",
    "copied", "gone", "came", "shuttle", "linked", "dir", "f", "link", "memory", "swap-d", "swap-d",
    "swap-f", "swap-dl", "swap-fl", ".agent", "skills", "s", "a/../ab", "..%2fab", "ab\0", "hidden", "tree",
    "nodes", "made", "x1",
];
pub(super) const TOPS: &[&str] = &[
    "",
    "",
    "/.agent",
    "/.user",
    "/memory",
    "/skills/s",
    "/skills/m",
    "/secret/open",
    "/skills/s/private/open",
];
const KNOWN: &[&str] = &[
    "/swap-d",
    "/swap-d/f",
    "/swap-d/secret",
    "/swap-dl/secret",
    "/swap-f",
    "/swap-fl",
    "/.agent/f",
    "/.agent/swap-d",
    "/.agent/swap-d/secret",
    "/.agent/private/secret",
    "/.user/swap-d/f",
    "/.user/swap-d/secret",
    "/memory/swap-f",
    "/skills/s/swap-d/f",
    "/skills/s/swap-ud/f",
    "/skills/s/swap-udl/secret",
    "/skills/s/swap-d/secret",
    // Links, as long as nobody swaps them.
    "/skills/s/swap-dl/secret",
    "/skills/s/swap-dl/secret",
    "/skills/s/swap-dl/link",
    "/skills/m/swap-fl",
    "/skills/s/swap-f",
    "/skills/s/swap-fl",
    "/skills/s/private/secret",
    "/skills/s/private/copied",
    "/skills/s/private/open/f",
    "/skills/m/swap-f",
    "/skills/m/private/secret",
    "/secret/secret",
    "/secret/open/f",
    "/came",
    "/dir/f",
    "/linked",
    "/shuttle",
];
/// Targets of links.
const TARGETS: [&str; 7] = [
    "../ab/secret",
    "/chats/ab",
    "../xy",
    "/agents/xy/secret",
    "../../../secret",
    "../secret",
    "/secret/secret",
];

/// Bits of an inode without its mark.
const BITS: u32 = 38;

/// Returns the tree over `base` with two overlays: complete, and with the exclusions.
pub(super) async fn mounted(
    base: &dyn FileSystem,
    overlays: [Arc<dyn FileSystem>; 2],
) -> Proven<[Arc<dyn FileSystem>; 2]> {
    let owner = Owner::new("tries")?;
    let [one, two] = overlays;
    let whole = Mount::builder(base, &path(SHOWN[0])?, owner.clone())
        .directory(path("/.agent")?, path(SHOWN[1])?)
        .directory(path("/.user")?, path(SHOWN[2])?)
        .directory(path("/memory")?, path("/agents/x/memory")?)
        .mount(path("/skills/s")?, one)
        .mount(path("/skills/m")?, two)
        .open()
        .await?;
    let paths = |texts: &[&str]| texts.iter().map(|text| path(text)).collect::<Proven<Vec<_>>>();
    let within = Within::everything().without(paths(&LEFT_OUT)?).with(paths(&ISLANDS)?);
    let part = whole.confined(&Confinement::new(within, owner)).await?;
    Ok([whole, part])
}

/// Adds the inodes of nodes of an upper layer in memory that the tree does not show. `shown` is the path of
/// the overlay in the tree.
pub(super) async fn numbers_in_memory(
    tree: &dyn FileSystem,
    shown: &str,
    memory: &dyn FileSystem,
    hidden: &mut Hidden,
) -> Proven<()> {
    // A new file has an inode of the upper layer, which reveals the mark of the overlay.
    let fresh = format!("{shown}/fresh");
    tree.write(fresh.as_str(), "clean").await?;
    let mark = mark(tree.entry(fresh.as_str()).await?.ino);
    let all = memory.walk(&At::Path(TreePath::root()), &WalkPage::default().limit(10_000)).await?;
    let (mut seen, mut not_seen) = (Vec::new(), Vec::new());
    for item in all.items {
        let list = if is_seen_in_upper(&item.path) { &mut seen } else { &mut not_seen };
        list.push(Ino(mark | item.ino.0));
    }
    not_seen.retain(|ino| !seen.contains(ino));
    hidden.nodes.extend(not_seen);
    hidden.marks.push(mark);
    Ok(())
}

/// Returns the mark of an inode.
pub(super) fn mark(ino: Ino) -> u64 {
    ino.0 >> BITS << BITS
}

/// Adds the parts of paths, and targets of links.
pub(super) fn guesses(hidden: Hidden) -> Hidden {
    let targets = TARGETS.map(str::to_owned).into_iter().chain(hidden.targets).collect();
    Hidden { numbers: 400, parts: PARTS, tops: TOPS, known: KNOWN, targets, ..hidden }
}

pub(super) fn is_within(path: &TreePath, tops: &[&str]) -> bool {
    tops.iter().any(|top| TreePath::parse(top).is_ok_and(|top| path.is_within(&top)))
}

pub(super) fn is_left_out(path: &TreePath) -> bool {
    is_within(path, &LEFT_OUT_BELOW) && !is_within(path, &ISLANDS_BELOW)
}

/// Returns true if the tree shows the node at a path of the account.
pub(super) fn is_shown(path: &TreePath) -> bool {
    let shown = is_within(path, &SHOWN) || is_within(path, &LOWER) || is_within(path, &["/uppers/a/tree"]);
    shown && !is_left_out(path)
}

/// Returns true if the node at a path of the account may be changed through the tree.
pub(super) fn is_inside(path: &TreePath) -> bool {
    let upper = TreePath::parse(UPPER).unwrap_or_default();
    match path.rebase(&upper, &TreePath::root()) {
        Some(Ok(below)) => is_inside_memory(&below),
        // Swapping changes the directories of the pair.
        _ if ["/agents", "/chats"].iter().chain(&LOWER).any(|dir| path.as_str() == *dir) => true,
        _ => is_within(path, &SHOWN) && !is_left_out(path),
    }
}

pub(super) fn is_seen_in_upper(path: &TreePath) -> bool {
    is_within(path, &["/tree"])
        && (!is_within(path, &["/tree/private"]) || is_within(path, &["/tree/private/open"]))
}

/// Returns true if the node at a path of an upper layer may be changed through the tree.
pub(super) fn is_inside_memory(path: &TreePath) -> bool {
    let kept = |top: &str| {
        !is_within(path, &[&format!("{top}/private")]) || is_within(path, &[&format!("{top}/private/open")])
    };
    is_within(path, &["/nodes"]) || (kept("/tree") && kept("/hidden"))
}
