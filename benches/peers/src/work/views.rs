//! Cost of views, compared with the tree that they show.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use garth_agent::{Access, Caller, Class, Request, Skill};
use garth_engine::engine::memory::MemoryFs;
use garth_engine::model::{At, Batch, Op, Owner};
use garth_engine::view::{Mount, Overlay, Scope};
use garth_engine::{Env, FileSystem, FileSystemExt as _};

use super::content::{SMALL, text};
use crate::figures::Figures;
use crate::side::garth::{Garth, path};
use crate::size::Size;

/// Skills of the agent whose tree is opened.
const SKILLS: usize = 50;
/// Number of times the tree is opened.
const OPENS: usize = 200;
/// Files that are looked up.
const FILES: usize = 1_000;

pub(crate) async fn views(folder: &Path, size: Size) -> Result<Figures> {
    // opened by its data folder, as whatever keeps something in `/.garth` is
    let data = garth::builder().open(&folder.join("data"))?;
    data.create_account("default").await?;
    let garth = &Garth(data.account("default").await?);
    let mut figures = Figures::default();
    looked_up(garth, size, &mut figures).await?;
    opened(garth, &mut figures).await?;
    renamed(garth, size, &mut figures).await?;
    Ok(figures)
}

/// Measures stat of the same files in the tree, and through one view of each kind.
async fn looked_up(garth: &Garth, size: Size, figures: &mut Figures) -> Result<()> {
    let store: &dyn FileSystem = &*garth.0;
    store.mkdir_all("/chats/one/notes").await?;
    store.mkdir_all("/upper").await?;
    for first in (0..FILES).step_by(100) {
        let write = |i| Op::write(path(&format!("/chats/one/notes/note-{i:05}.md")), text(i as u64));
        store.commit(Batch::new((first..first + 100).map(write))).await?;
    }
    let root = path("/chats/one");
    let scope = Scope::open(store, &root).await?;
    let other: Arc<dyn FileSystem> = Arc::new(MemoryFs::new(Env::system(), garth_agent::registry()));
    let mount = Mount::builder(store, &path("/upper"), Owner::new("bench")?);
    let mount = mount.directory(path("/.agent"), root.clone()).mount(path("/skills/s"), other).open().await?;
    let over = async |dir: &str| {
        let (lower, upper) = (Scope::open(store, &root).await?, Scope::open(store, &path(dir)).await?);
        anyhow::Ok(Overlay::open(lower, upper).await?)
    };
    store.mkdir_all("/upper2").await?;
    let (below, above) = (over("/upper").await?, over("/upper2").await?);
    for first in (0..FILES).step_by(100) {
        let touch = |i| Op::append(path(&format!("/notes/note-{i:05}.md")), "!");
        above.commit(Batch::new((first..first + 100).map(touch))).await?;
    }
    let sides: [(&str, &dyn FileSystem, &str); 5] = [
        ("stat", store, "/chats/one/notes"),
        ("scope stat", &*scope, "/notes"),
        ("mount stat", &*mount, "/.agent/notes"),
        ("lower stat", &*below, "/notes"),
        ("upper stat", &*above, "/notes"),
    ];
    let stats = size.of(20_000, FILES);
    // The sides alternate, so that noise affects all of them alike.
    for round in 0..6 {
        for (figure, fs, dir) in sides {
            let paths: Vec<At> =
                (0..FILES).map(|i| At::Path(path(&format!("{dir}/note-{i:05}.md")))).collect();
            let start = Instant::now();
            for i in 0..stats / 5 {
                ensure!(fs.stat(&paths[i * 389 % FILES]).await?.size >= SMALL as u64, "stat tells the size");
            }
            // The first round is a warm-up.
            if round > 0 {
                figures.time(figure, start.elapsed(), stats / 5);
            }
        }
    }
    Ok(())
}

/// Opens an agent's tree with many skills, of each kind.
async fn opened(garth: &Garth, figures: &mut Figures) -> Result<()> {
    for n in 0..SKILLS {
        let skill = Op::write(path(&format!("/skills/skill-{n}/SKILL.md")), text(n as u64)).with_parents();
        garth.0.commit(skill.into()).await?;
    }
    let request = Request::new("scout").user("ann").chat("one").class(Class::Main);
    let access = Access::open(&garth.0, &Env::system(), Caller::Holder, &request).await?;
    let scratch: Arc<dyn FileSystem> = Arc::new(MemoryFs::new(Env::system(), garth_agent::registry()));
    for (figure, keeps) in [("open override", true), ("open ephemeral", false)] {
        let skills = (0..SKILLS).map(|n| match keeps {
            true => Skill::overriding(&format!("skill-{n}")),
            false => Skill::ephemeral(&format!("skill-{n}"), Arc::clone(&scratch)),
        });
        let skills = skills.collect::<garth_engine::Result<Vec<_>>>()?;
        let open = || access.tree().skills(skills.clone()).open();
        open().await?;
        let start = Instant::now();
        for _ in 0..OPENS {
            ensure!(open().await?.exists("/skills/skill-7/SKILL.md").await?, "the skill is there");
        }
        figures.time(figure, start.elapsed(), OPENS);
    }
    Ok(())
}

/// Renames a directory with many files within one part of a mounted tree and between two parts.
async fn renamed(garth: &Garth, size: Size, figures: &mut Figures) -> Result<()> {
    let store: &dyn FileSystem = &*garth.0;
    let files = size.of(10_000, 100);
    store.mkdir_all("/chats/two/many").await?;
    store.mkdir_all("/agents/a").await?;
    for first in (0..files).step_by(100) {
        let write = |i| Op::write(path(&format!("/chats/two/many/note-{i:05}.md")), "x");
        store.commit(Batch::new((first..first + 100).map(write))).await?;
    }
    let tree = Mount::builder(store, &path("/chats/two"), Owner::new("bench")?);
    let tree = tree.directory(path("/.agent"), path("/agents/a")).open().await?;
    let mut rename = async |figure: &str, fs: &dyn FileSystem, from: &str, to: &str| {
        let start = Instant::now();
        fs.rename(from, to).await?;
        figures.time(figure, start.elapsed(), 1);
        anyhow::Ok(())
    };
    for _ in 0..3 {
        rename("rename", store, "/chats/two/many", "/chats/two/more").await?;
        rename("mount rename", &*tree, "/more", "/.agent/many").await?;
        rename("rename", store, "/agents/a/many", "/agents/a/more").await?;
        rename("mount rename", &*tree, "/.agent/more", "/many").await?;
    }
    Ok(())
}
