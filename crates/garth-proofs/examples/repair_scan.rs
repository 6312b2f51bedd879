//! Time and memory of repair for a number of memories without damage, in an account and in a plain folder
//! with the same files.
//!
//! ```sh
//! cargo run --profile prove -p garth-proofs --example repair_scan -- make FOLDER 100000
//! cargo run --profile prove -p garth-proofs --example repair_scan -- account FOLDER
//! cargo run --profile prove -p garth-proofs --example repair_scan -- folder FOLDER
//! ```
#![allow(clippy::print_stdout, reason = "its purpose is to print figures")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::path::{Path, PathBuf};
use std::time::Instant;

use futures::TryStreamExt as _;
use garth_agent::memory::{Memories, Put, Repair, Uri};
use garth_agent::outbox::{Options, Worker};
use garth_engine::engine::host::{HostFs, Mode};
use garth_engine::model::Kind;
use garth_engine::{DataDir, Env, FileSystem, FileSystemExt};

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

const ACCOUNT: &str = "default";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["make", folder, count] => make(Path::new(folder), count.parse()?).await,
        ["account", folder] => {
            let data = DataDir::open(&data(folder), Env::system(), garth_agent::registry())?;
            scan(&*data.account(ACCOUNT).await?).await
        }
        ["folder", folder] => scan(&*HostFs::open(&plain(folder), Mode::ReadOnly, Env::system())?).await,
        _ => Err("make FOLDER COUNT, account FOLDER, or folder FOLDER".into()),
    }
}

fn data(folder: &str) -> PathBuf {
    Path::new(folder).join("data")
}

fn plain(folder: &str) -> PathBuf {
    Path::new(folder).join("plain")
}

/// Creates memories of ten users, with a text of 1 KiB each and without undelivered events.
async fn make(folder: &Path, count: usize) -> Result<()> {
    let name = folder.to_str().ok_or("the folder's name is UTF-8")?;
    let data = DataDir::open(&data(name), Env::system(), garth_agent::registry())?;
    data.create_account(ACCOUNT).await?;
    let fs = data.account(ACCOUNT).await?;
    let memories = Memories::new(&*fs, ACCOUNT);
    let begun = Instant::now();
    for n in 0..count {
        let uri: Uri = format!("ctx://{ACCOUNT}/users/u{}/memories/events/e{n}", n % 10).parse()?;
        let words = (0..128).map(|word| format!("{:07x} ", (n * 128 + word) * 2_654_435_761 % (1 << 28)));
        memories.put(&uri, &Put::new(words.collect::<String>())).await?;
    }
    Worker::new(Env::system(), ACCOUNT, Options::default()).run_out(&*fs, None).await?;
    println!("{count} memories, made in {:.0} s", begun.elapsed().as_secs_f64());
    let mut walk = fs.walk_all("/");
    while let Some(item) = walk.try_next().await? {
        let at = plain(name).join(item.path.as_str().trim_start_matches('/'));
        match item.kind {
            Kind::Directory => std::fs::create_dir_all(at)?,
            _ => std::fs::write(at, fs.read_file(&item.path).await?)?,
        }
    }
    Ok(())
}

async fn scan(fs: &dyn FileSystem) -> Result<()> {
    let begun = Instant::now();
    let repair = Repair::new(Memories::new(fs, ACCOUNT)).dry_run(true);
    let report = repair.scan(|_| ()).await?;
    let seconds = begun.elapsed().as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let most = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    println!("{} memories in {seconds:.1} s, sound: {}, {most}", report.memories, report.is_sound());
    Ok(())
}
