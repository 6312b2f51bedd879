//! Keeps JSON values under keys: those that `POST /v1/put` and `garth kv` show. They are files of the tree.
//!
//! ```sh
//! cargo run -p garth --example kv
//! ```

#![allow(clippy::print_stdout)] // that is what an example does

use garth::FileSystemExt;
use garth::kv::{Kv, PageRequest, Put};
use serde_json::value::to_raw_value;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let data = garth::open(folder.path())?;
    data.dir().create_account("acme").await?;
    let fs = data.dir().account("acme").await?;
    let kv = Kv::new(&fs, "scout")?;

    let coffee = to_raw_value(&serde_json::json!({ "drinks": "coffee", "sugar": 0 }))?;
    kv.put(&Put::new("/people/alice", &coffee), None).await?;

    let found = kv.get("/people/alice").await?.ok_or("the value that was just put")?;
    println!("/people/alice = {}", found.value);
    for key in kv.list("/people", PageRequest::first(100)).await?.items {
        println!("listed: {}", key.path);
    }
    println!("file:   {}", fs.read_to_string("/agents/scout/kv/people/alice.json").await?);
    Ok(())
}
