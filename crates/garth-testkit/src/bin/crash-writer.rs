//! The process that the crash tests kill: commits batches to an account through the engine, or
//! reads back what is there. `GARTH_FAULT` plants a
//! fault for the negative controls.

use std::path::Path;
use std::sync::Arc;

use futures::executor::block_on;
use garth_engine::{DataDir, Env, ErrorKind, FileSystem};
use garth_testkit::crash::{read_all, write_until_killed};

/// The account, which `garth` takes too unless told otherwise.
const ACCOUNT: &str = "default";

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [verb, data, seed, round] = arguments.as_slice() else {
        return Err("usage: crash-writer write|read DATA SEED ROUND".into());
    };
    let home = DataDir::open(Path::new(data), Env::system(), garth_engine::rule::sample::registry())?;
    match block_on(home.create_account(ACCOUNT)) {
        Err(error) if !error.is(ErrorKind::AlreadyExists) => return Err(error.into()),
        _ => {}
    }
    let tree: Arc<dyn FileSystem> = block_on(home.account(ACCOUNT))?;
    match verb.as_str() {
        "write" => write_until_killed(&tree, seed.parse()?, round.parse()?),
        "read" => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(read_all(tree.as_ref(), round.parse()?))
        }
        _ => Err("the verb is write or read".into()),
    }
}
