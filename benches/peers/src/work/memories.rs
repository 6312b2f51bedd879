//! Cost of a memory, compared with plain files of the same bytes in one batch.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};
use garth_agent::memory::{Memories, Put, Uri};
use garth_engine::model::{Batch, Op, WalkPage};
use garth_engine::{FileSystemExt, TreePath};

use super::content::text;
use crate::figures::Figures;
use crate::side::garth::{Garth, path};
use crate::size::Size;

/// Memories of one repetition.
const MEMORIES: usize = 500;
/// Size of a memory's text, in bytes.
const TEXT: usize = 1024;

pub(crate) async fn memories(folder: &Path, size: Size, runs: usize) -> Result<Figures> {
    let data = garth::builder().open(folder)?;
    for account in ["memories", "files"] {
        data.create_account(account).await?;
    }
    let (account, plain) = (data.account("memories").await?, Garth(data.account("files").await?));
    let memories = Memories::new(&*account, "memories");
    let mut figures = Figures::default();
    let count = size.of(MEMORIES, 10);
    for run in 0..runs {
        let uris: Vec<Uri> = (0..count)
            .map(|n| format!("ctx://memories/users/u{}/memories/events/e-{run}-{n}", n % 10).parse())
            .collect::<Result<_, _>>()?;
        let content =
            |n: usize| String::from_utf8_lossy(&text((run * count + n) as u64)[..TEXT]).into_owned();
        let start = Instant::now();
        for (n, uri) in uris.iter().enumerate() {
            ensure!(memories.put(uri, &Put::new(content(n))).await?.created, "the memory is new");
        }
        figures.time("memory", start.elapsed(), count);
        let mut batches = Vec::new();
        for uri in &uris {
            // Prepared before the clock starts.
            batches.push(batch(&account_files(&*account, uri).await?, uri));
        }
        let start = Instant::now();
        for batch in batches {
            plain.0.commit(batch).await?;
        }
        figures.time("plain", start.elapsed(), count);
    }
    Ok(figures)
}

/// The files of a memory.
async fn account_files(
    fs: &dyn garth_engine::FileSystem,
    uri: &Uri,
) -> Result<Vec<(TreePath, bytes::Bytes)>> {
    let mut files = Vec::new();
    for item in fs.walk(&uri.dir().into(), &WalkPage::default()).await?.items {
        if item.kind == garth_engine::model::Kind::File {
            files.push((item.path.clone(), fs.read_file(&item.path).await?));
        }
    }
    Ok(files)
}

/// Returns a batch of the same bytes under paths that are not memories.
fn batch(files: &[(TreePath, bytes::Bytes)], uri: &Uri) -> Batch {
    let dir = uri.dir().as_str().replace("/memories/", "/notes/");
    let write = |(at, (_, bytes)): (usize, &(TreePath, bytes::Bytes))| {
        Op::write(path(&format!("{dir}/{at}.md")), bytes.clone()).with_parents()
    };
    Batch::new(files.iter().enumerate().map(write))
}
