//! Upgrade of attributes `garth.*`, which clients could set in earlier versions: those of garth are removed
//! where a client may have set them, and derived again.

use super::record::{Upgrade, commit};
use super::sessions::Known;
use crate::identity::session_key::with_plain_capitals;
use crate::media::{MEDIA, is_place, media_attrs};
use crate::workspace::{archive_attrs, archived_session};
use garth_engine::error::{OptionalExt as _, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{At, FindQuery, Kind, MAX_PAGE, Op, Page, Projection, SetAttrs};
use garth_engine::path::TreePath;

/// Marks that garth checks before it acts on them.
const MARKS: [&str; 2] = ["garth.reset_at", "garth.collect_at"];

/// Derives the attributes of media, archives and marks.
pub(super) async fn derive(fs: &dyn FileSystem, known: &Known, upgrade: &mut Upgrade) -> Result<()> {
    // First of all, so that no forged attribute survives where nothing is derived.
    forget(fs, upgrade).await?;
    let media = TreePath::from_row("", MEDIA);
    for key in children(fs, &media, Kind::Directory).await? {
        if let Some(session) = owner_of(known, &key) {
            attribute(fs, &TreePath::from_row(media.key(), &key), &session).await?;
        }
    }
    let agents = TreePath::from_row("", "agents");
    for agent in children(fs, &agents, Kind::Directory).await? {
        let archives = TreePath::from_row(TreePath::from_row(agents.key(), &agent).key(), "sessions");
        for session in children(fs, &archives, Kind::Directory).await? {
            let moved = TreePath::from_row(TreePath::from_row(archives.key(), &session).key(), MEDIA);
            attribute(fs, &moved, &session).await?;
        }
        let mut ops = Vec::new();
        for name in children(fs, &archives, Kind::File).await? {
            let of = archived_session(&name).and_then(|id| known.by_id.get(id));
            // The archive of a session that no longer exists keeps no owner: then only main sessions see it.
            let Some((audience, class)) = of else { continue };
            ops.push(Op::set_attrs(
                TreePath::from_row(archives.key(), &name),
                archive_attrs(audience, *class),
            ));
        }
        in_parts(fs, ops, "say whose archives are").await?;
    }
    Ok(())
}

/// Assigns the media in a directory to a session.
async fn attribute(fs: &dyn FileSystem, dir: &TreePath, session: &str) -> Result<()> {
    let names = children(fs, dir, Kind::File).await?;
    let ops = names.iter().filter_map(|name| {
        let (id, _) = name.split_once('.')?;
        Some(Op::set_attrs(TreePath::from_row(dir.key(), name), media_attrs(session, id)))
    });
    in_parts(fs, ops.collect(), "say whose media are").await
}

/// Commits many operations, some thousands at a time.
async fn in_parts(fs: &dyn FileSystem, ops: Vec<Op>, what: &str) -> Result<()> {
    for some in ops.chunks(MAX_PAGE) {
        commit(fs, some.to_vec(), what).await?;
    }
    Ok(())
}

/// Returns the names of one kind in a directory.
async fn children(fs: &dyn FileSystem, dir: &TreePath, kind: Kind) -> Result<Vec<String>> {
    let (mut names, mut page) = (Vec::new(), Page::default().limit(MAX_PAGE));
    loop {
        let Some(listing) = fs.list(&At::from(dir), &page).await.optional()? else { return Ok(names) };
        let of_kind = listing.items.iter().filter(|item| item.kind == kind);
        names.extend(of_kind.map(|item| item.name.as_str().to_owned()));
        match listing.items.into_iter().next_back().filter(|_| listing.more) {
            Some(last) => page = page.after(Some(last.name)),
            None => return Ok(names),
        }
    }
}

/// Returns the UUID of the session that a key of media names.
fn owner_of(known: &Known, key: &str) -> Option<String> {
    if known.by_id.contains_key(key) {
        return Some(key.to_owned());
    }
    let ids = known.by_key.get(&with_plain_capitals(key))?;
    let audience = |id: &String| known.by_id.get(id).map(|(audience, _)| audience.clone());
    let first = ids.first().and_then(audience);
    // If a key led to sessions of several audiences, the owner of its files is unknown.
    ids.iter().all(|id| audience(id) == first).then(|| ids.last().cloned())?
}

/// Removes attributes that only garth may set, where a client may have set them.
async fn forget(fs: &dyn FileSystem, upgrade: &mut Upgrade) -> Result<()> {
    let mut query = FindQuery::new(Projection::METADATA).from("garth.").to("garth/").limit(MAX_PAGE);
    loop {
        let answer = fs.find(&query).await?;
        let mut ops = Vec::new();
        for item in answer.items {
            let Some((name, _)) = item.key.split_once('\0') else { continue };
            if !is_right(name, &item.path) {
                upgrade.note(format!("{}: its attribute {name} was taken away", item.path));
                ops.push(Op::set_attrs(At::from(item.ino), SetAttrs::new().remove_metadata(name)));
            }
        }
        commit(fs, ops, "take away attributes").await?;
        match answer.next {
            Some(next) => query = query.after(next),
            None => return Ok(()),
        }
    }
}

/// Returns true if a forged attribute of this name is harmless at this path, where garth sets it itself.
fn is_right(name: &str, path: &TreePath) -> bool {
    let is_of_session =
        matches!(*path.segments().collect::<Vec<_>>(), ["users", _, "agents", _, "session", _, ..]);
    match name {
        "garth.media" => is_place(path),
        _ => MARKS.contains(&name) && is_of_session,
    }
}
