//! Process that the crash tests kill. It commits batches to an account through the engine, reads the data
//! back, sets a quota or checks the account. `GARTH_FAULT` plants a fault for the negative controls.

use std::path::Path;
use std::sync::Arc;

use futures::executor::block_on;
use garth_engine::model::quota::Limits;
use garth_engine::{DataDir, Env, ErrorKind, FileSystem, TreePath};
use garth_testkit::crash::{read_all, write_until_killed};

/// Account, which is also the default of `garth`.
const ACCOUNT: &str = "default";

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [verb, data, seed, round] = arguments.as_slice() else {
        return Err("usage: crash-writer write|read|quota|fsck DATA SEED|PATH ROUND".into());
    };
    let home = DataDir::open(Path::new(data), Env::system(), garth_engine::rule::sample::registry())?;
    match block_on(home.create_account(ACCOUNT)) {
        Err(error) if !error.is(ErrorKind::AlreadyExists) => return Err(error.into()),
        _ => {}
    }
    let store = block_on(home.account(ACCOUNT))?;
    let tree: Arc<dyn FileSystem> = Arc::clone(&store) as _;
    match verb.as_str() {
        "quota" => {
            let limits = Limits { bytes: Some(1 << 40), entries: None };
            block_on(store.set_quota(&TreePath::parse(seed)?, limits))?;
            Ok(())
        }
        "fsck" => match block_on(store.fsck())?.findings {
            findings if findings.is_empty() => Ok(()),
            findings => Err(format!("{findings:?}").into()),
        },
        "write" => write_until_killed(&tree, seed.parse()?, round.parse()?),
        "read" => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(read_all(tree.as_ref(), round.parse()?))
        }
        _ => Err("the verb is write, read, quota or fsck".into()),
    }
}
