//! Overlays compared with overlayfs of the kernel: the same operations on both, and the same trees after
//! them. Operations on which only one of them makes a promise are not drawn.

mod kernel_mount;
mod random_steps;
mod shown_tree;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use garth_engine::engine::host::{HostFs, Mode};
use garth_engine::engine::memory::MemoryFs;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{At, Batch, Op, SetAttrs, Timestamp, WalkPage};
use garth_engine::view::{Overlay, Scope};
use garth_engine::{Env, ErrorKind, FileSystem, FileSystemExt, TreePath};
use rustix::io::Errno;

use self::kernel_mount::Union;
use self::random_steps::Step;
use self::shown_tree::{Tree, difference, of_folder, of_overlay, of_tree};
use super::{Failure, ModelConfig};
use crate::data::random::Random;
use crate::tools::p;

/// Lower layer of an overlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lower {
    /// Directory of the store of the upper layer: in memory and on SQLite, alternately.
    SameStore,
    /// Another store.
    OtherStore,
    /// A folder of the host.
    Folder,
}

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Fresh trees.
    pub episodes: u64,
    /// Operations on both.
    pub ops: u64,
    /// Operations that both rejected.
    pub refused: u64,
    /// Renames of directories that the overlay rejected, because it cannot copy them up from another store.
    pub crossed: u64,
    /// Comparisons of complete trees.
    pub compared: u64,
}

/// Steps of one episode, and operations that fill its lower layer.
const STEPS: usize = 120;
const BELOW: usize = 40;
/// Steps between two comparisons of the trees.
const EVERY: usize = 4;
/// Limit on the replays that shrink a failure.
const MAX_REPLAYS: usize = 400;

/// One drawn episode.
#[derive(Clone)]
struct Episode {
    lower: Lower,
    sqlite: bool,
    below: Vec<Op>,
    steps: Vec<Step>,
}

/// Plays random operations until `config.ops` were applied to both.
///
/// # Errors
/// The first difference, with a short list of steps that reproduces it.
///
/// # Panics
/// If nothing can be mounted, with a remedy; if called inside an async runtime.
pub fn run(config: ModelConfig, lower: Lower) -> Result<Stats, Failure> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    let mut stats = Stats::default();
    while stats.ops < config.ops {
        let mut rng = Random::new(config.seed.wrapping_mul(0x9E37_79B9) ^ stats.episodes);
        let below = random_steps::lower(&mut rng, BELOW);
        let steps = random_steps::steps(&mut rng, STEPS);
        let episode = Episode { lower, sqlite: stats.episodes % 2 == 1, below, steps };
        match runtime.block_on(play(&episode)) {
            Ok(more) => stats.add(&more),
            Err(message) => {
                let (episode, message) = runtime.block_on(shrink(episode, message));
                let below = episode.below.iter().map(|op| format!("below: {}", brief(op)));
                let steps = below.chain(episode.steps.iter().map(brief)).collect();
                return Err(Failure { seed: config.seed, episode: stats.episodes, message, steps });
            }
        }
    }
    Ok(stats)
}

fn brief<T: std::fmt::Debug>(step: &T) -> String {
    format!("{step:?}").replace(&format!("{:?}", SetAttrs::default()), "-")
}

impl Stats {
    fn add(&mut self, more: &Self) {
        self.episodes += 1;
        self.ops += more.ops;
        self.refused += more.refused;
        self.crossed += more.crossed;
        self.compared += more.compared;
    }
}

/// Removes runs of operations that the failure does not need, halving their length.
async fn shrink(mut episode: Episode, mut message: String) -> (Episode, String) {
    let mut length = STEPS / 2;
    let mut replays = 0;
    while length > 0 && replays < MAX_REPLAYS {
        let mut start = 0;
        while start < episode.steps.len() + episode.below.len() && replays < MAX_REPLAYS {
            let mut fewer = episode.clone();
            match start.checked_sub(episode.below.len()) {
                None => drop(fewer.below.drain(start..(start + length).min(episode.below.len()))),
                Some(at) => drop(fewer.steps.drain(at..(at + length).min(episode.steps.len()))),
            }
            replays += 1;
            match play(&fewer).await {
                Err(why) => (episode, message) = (fewer, why),
                Ok(_) => start += length,
            }
        }
        length /= 2;
    }
    (episode, message)
}

/// Both sides of an episode.
struct Both {
    union: Union,
    below: Arc<dyn FileSystem>,
    above: Arc<dyn FileSystem>,
    ours: Arc<dyn FileSystem>,
    stats: Stats,
    /// A copy of the lower layer of the kernel, and the folder of the account.
    _folders: [tempfile::TempDir; 2],
}

async fn play(episode: &Episode) -> Result<Stats, String> {
    let mut both = Both::new(episode).await?;
    // Compared again at the end: an overlay must never write to its lower layer.
    let lower = of_tree(&*both.below).await?;
    for (index, step) in episode.steps.iter().enumerate() {
        let outcome = match step {
            Step::Batch(ops) => both.batch(ops).await,
            Step::Again => both.again().await,
        };
        outcome.map_err(|why| format!("{step:?}: {why}"))?;
        if index % EVERY == 0 || matches!(step, Step::Again) {
            both.compare().await?;
        }
    }
    both.compare().await?;
    match difference(&of_tree(&*both.below).await?, &lower) {
        None => Ok(both.stats),
        Some(differs) => Err(format!("the lower layer has changed at {differs}")),
    }
}

impl Both {
    async fn new(episode: &Episode) -> Result<Self, String> {
        let mut union = Union::new().unwrap_or_else(|error| panic!("{error}"));
        // In memory, because each episode creates and removes many files.
        let folders = [(); 2].map(|()| tempfile::tempdir_in("/dev/shm").expect("a temporary folder"));
        let copy = folders[0].path();
        // Temporary folders have mode 0700, which the root of the tree would show.
        fs::set_permissions(copy, fs::Permissions::from_mode(0o755)).expect("its owner may do that");
        let account: Arc<dyn FileSystem> = match episode.sqlite {
            true => SqliteFs::open(folders[1].path(), Env::system(), garth_engine::rule::sample::registry())
                .map_err(|error| error.to_string())?,
            false => Arc::new(MemoryFs::new(Env::system(), garth_engine::rule::sample::registry())),
        };
        let given = Batch::new(["/below", "/above"].map(|dir| Op::mkdir(p(dir))));
        account.commit(given).await.map_err(|error| error.to_string())?;
        let scope = async |dir| Scope::open(&*account, &p(dir)).await.expect("a scope");
        let below: Arc<dyn FileSystem> = match episode.lower {
            Lower::SameStore => scope("/below").await,
            Lower::OtherStore => {
                Arc::new(MemoryFs::new(Env::system(), garth_engine::rule::sample::registry()))
            }
            Lower::Folder => HostFs::open(copy, Mode::ReadOnly, Env::system()).expect("the folder is there"),
        };
        fill(&union, &*below, copy, episode).await?;
        union.mount().unwrap_or_else(|error| panic!("{error}"));
        let above = scope("/above").await;
        let ours = Overlay::open(Arc::clone(&below), Arc::clone(&above)).await;
        let ours = ours.map_err(|error| error.to_string())?;
        let mut both = Self { union, below, above, ours, stats: Stats::default(), _folders: folders };
        both.compare().await?;
        Ok(both)
    }

    fn root(&self) -> std::path::PathBuf {
        self.union.folder("merged")
    }

    /// Opens both sides again.
    async fn again(&mut self) -> Result<(), String> {
        self.union.mount_again().unwrap_or_else(|error| panic!("{error}"));
        let ours = Overlay::open(Arc::clone(&self.below), Arc::clone(&self.above)).await;
        self.ours = ours.map_err(|error| error.to_string())?;
        Ok(())
    }

    async fn compare(&mut self) -> Result<(), String> {
        self.stats.compared += 1;
        let kernel = of_folder(&self.root()).map_err(|error| format!("the mount cannot be read: {error}"))?;
        match difference(&of_overlay(&*self.ours, &*self.below).await?, &kernel) {
            None => Ok(()),
            Some(differs) => Err(format!("the trees differ at {differs}")),
        }
    }

    /// Commits a batch to the overlay and applies its operations to the kernel. A rejected batch is repeated
    /// as single operations: the first one that fails must have the same reason.
    async fn batch(&mut self, ops: &[Op]) -> Result<(), String> {
        if ops.iter().any(|op| kernel_mount::is_mode_of_link(&self.root(), op)) {
            return Ok(());
        }
        // Directories that are copied up after it get the time of the batch.
        if ops.len() > 1 && ops.iter().any(|op| kernel_mount::is_rename_of_nothing(&self.root(), op)) {
            return Ok(());
        }
        if ops.len() == 1 {
            return self.one(&ops[0]).await.map(drop);
        }
        match self.ours.commit(Batch::new(ops.to_vec()).visible()).await {
            Ok(_) => {
                self.stats.ops += ops.len() as u64;
                let done = ops.iter().try_for_each(|op| kernel_mount::apply(&self.root(), op));
                done.map_err(|errno| format!("the overlay does it, the kernel answers {errno}"))
            }
            Err(error) => {
                let mut first = None;
                for op in ops {
                    // All operations are applied, so that both sides have the same state for the next step.
                    first = first.or(self.one(op).await.map_err(|why| format!("{op:?}: {why}"))?);
                }
                match first {
                    // A view rejects this before the store has judged the operations before it.
                    _ if error.is(ErrorKind::CrossesMounts) => Ok(()),
                    Some(kind) if kind.errno() == error.kind().errno() => Ok(()),
                    first => Err(format!("refused with {error:?}, one by one with {first:?}")),
                }
            }
        }
    }

    /// Applies an operation to both sides. Returns the kind of error if both rejected it.
    async fn one(&mut self, op: &Op) -> Result<Option<ErrorKind>, String> {
        self.stats.ops += 1;
        let ours = self.ours.commit(Batch::new([op.clone()]).visible()).await;
        if let Err(error) = &ours
            && error.is(ErrorKind::CrossesMounts)
        {
            self.stats.crossed += 1;
            return self.crosses(op).await.map(|()| Some(error.kind()));
        }
        match (ours, kernel_mount::apply(&self.root(), op)) {
            (Ok(_), Ok(())) => Ok(None),
            (Err(error), Err(errno)) if error.kind().errno() == errno.raw_os_error() => {
                self.stats.refused += 1;
                Ok(Some(error.kind()))
            }
            (ours, kernel) => {
                let ours = ours.map(drop);
                Err(format!("the answers differ\n  overlay: {ours:?}\n  kernel:  {kernel:?}"))
            }
        }
    }

    /// Checks that a rename across stores was rejected for a reason: a directory with entries of another
    /// store cannot be renamed. The kernel could do it.
    async fn crosses(&self, op: &Op) -> Result<(), String> {
        let crosses = match op {
            Op::Rename { from, to, mode, .. } => {
                let exchange = *mode == garth_engine::model::RenameMode::Exchange;
                self.has_some_of_lower(from).await || (exchange && self.has_some_of_lower(to).await)
            }
            _ => false,
        };
        match crosses {
            true => Ok(()),
            false => Err("the overlay says that it crosses stores, but all of it was copied up".to_owned()),
        }
    }

    /// Returns true if the overlay has not copied up everything in a directory. The kernel may have, for an
    /// operation that then failed.
    async fn has_some_of_lower(&self, dir: &At) -> bool {
        let Ok(walk) = self.ours.walk(dir, &WalkPage::default()).await else { return false };
        for item in walk.items {
            // The upper layer stores copies below `/tree`.
            let copy = p(&format!("/tree{}", item.path));
            if self.above.stat(&At::Path(copy)).await.is_err() {
                return true;
            }
        }
        false
    }
}

/// Fills both lower layers, and sets times of all nodes that no clock shows.
async fn fill(union: &Union, below: &dyn FileSystem, copy: &Path, episode: &Episode) -> Result<(), String> {
    let root = union.folder("lower");
    let of_host = episode.lower == Lower::Folder;
    for op in &episode.below {
        let kernel = kernel_mount::apply(&root, op);
        let ours = match of_host {
            true => kernel_mount::apply(copy, op),
            false => match below.commit(Batch::new([op.clone()]).visible()).await {
                Ok(_) => Ok(()),
                Err(error) => Err(Errno::from_raw_os_error(error.kind().errno())),
            },
        };
        if ours != kernel {
            return Err(format!("below: {op:?}: {ours:?}, but {kernel:?} of the kernel"));
        }
    }
    let tree: Tree = of_folder(&root).map_err(|error| error.to_string())?;
    let mut rng = Random::new(1);
    // From the deepest path up. Of a node with several names the last time stays, on both sides alike.
    for path in tree.keys().rev() {
        let seconds = random_steps::time(&mut rng).0 / 1_000_000_000;
        set_time(&root, path, seconds)?;
        match of_host {
            true => set_time(copy, path, seconds)?,
            false => {
                let time = SetAttrs::new().mtime(Timestamp(seconds * 1_000_000_000));
                below.apply(Op::set_attrs(path, time)).await.map_err(|error| error.to_string())?;
            }
        }
        if path.is_root() {
            set_time(&union.folder("upper"), path, seconds)?;
        }
    }
    Ok(())
}

fn set_time(root: &Path, path: &TreePath, seconds: i64) -> Result<(), String> {
    kernel_mount::set_time(&kernel_mount::host(root, path), seconds).map_err(|errno| errno.to_string())
}
