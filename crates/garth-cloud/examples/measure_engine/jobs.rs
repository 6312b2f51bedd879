//! Calls that are measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use garth_engine::model::{At, Batch, ByteRange, Op, Page, SetAttrs};
use garth_engine::{Env, FileSystem, TreePath};

use crate::table::median;
use crate::{CONNECTIONS, Outcome};

/// Files that are read, and entries of the directory that is listed.
const FILES: usize = 1_000;
/// Number of the next file that is created.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// A call to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// Entry of a file.
    Stat,
    /// Content of a file of 4 KiB.
    Read,
    /// Names with their entries of a directory of 1,000, first 100.
    List,
    /// A new file of 4 KiB that no index reads.
    Create,
    /// Content of 4 KiB over that of a file.
    Overwrite,
    /// 200 bytes at the end of a file.
    Append,
    /// Another name for a file.
    Rename,
    /// Content of 2 KiB that 32 callers read at the same time.
    Get,
    /// 2 KiB of indexed text that 32 callers write at the same time, each into a file of its own.
    Put,
}

impl Job {
    /// All of them, in the order of the table.
    pub(crate) const ALL: [Self; 9] = [
        Self::Stat,
        Self::Read,
        Self::List,
        Self::Create,
        Self::Overwrite,
        Self::Append,
        Self::Rename,
        Self::Get,
        Self::Put,
    ];

    /// Returns the name of a job in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stat => "stat a file",
            Self::Read => "read a file of 4 KiB",
            Self::List => "list 100 entries of 1,000",
            Self::Create => "create a file of 4 KiB, not indexed",
            Self::Overwrite => "write over a file of 4 KiB, not indexed",
            Self::Append => "append 200 B to a file, not indexed",
            Self::Rename => "rename a file",
            Self::Get => "get 2 KiB, 32 callers: time for each",
            Self::Put => "put 2 KiB of text, indexed, 32 callers: time for each",
        }
    }

    /// Returns the median time of a call. For callers at the same time, that of their calls divided by their
    /// number.
    pub(crate) async fn median(self, fs: &Arc<dyn FileSystem>, calls: usize) -> Outcome<Duration> {
        let (env, callers) = (Env::system(), self.callers());
        let mut times = Vec::new();
        // Once before, so that directories and files exist.
        if self != Self::Rename {
            self.call(&**fs, 0).await?;
        }
        // An even number, after which a renamed file has its first name again.
        for number in 0..calls.div_ceil(callers).next_multiple_of(2) {
            let begun = env.instant();
            let together = (0..callers).map(|caller| {
                let fs = Arc::clone(fs);
                tokio::spawn(async move {
                    self.call(&*fs, number * callers + caller).await.map_err(|e| e.to_string())
                })
            });
            if callers == 1 {
                // Without a task, which takes a few microseconds.
                self.call(&**fs, number).await?;
            } else {
                for call in futures::future::join_all(together).await {
                    call??;
                }
            }
            times.push(begun.elapsed() / u32::try_from(callers)?);
        }
        Ok(median(times))
    }

    fn callers(self) -> usize {
        if matches!(self, Self::Get | Self::Put) { CONNECTIONS } else { 1 }
    }

    /// Makes a call.
    async fn call(self, fs: &dyn FileSystem, number: usize) -> garth_engine::Result<()> {
        // Every other file has 2 KiB.
        let file = 2 * (number % (FILES / 2)) + usize::from(self == Self::Get);
        let file = At::Path(path(&format!("/files/f{file}"))?);
        let plain = SetAttrs::new().searchable(false);
        let op = match self {
            Self::Stat => return fs.stat(&file).await.map(drop),
            Self::Read | Self::Get => return fs.read(&file, ByteRange::ALL).await.map(drop),
            Self::List => {
                let page = Page::default().limit(100).with_entries();
                return fs.list(&At::Path(path("/files")?), &page).await.map(drop);
            }
            Self::Create => {
                let number = NEXT.fetch_add(1, Ordering::Relaxed);
                Op::write(path(&format!("/new/f{number}"))?, bytes(number, 4096))
                    .with_parents()
                    .with_attrs(plain)
            }
            Self::Overwrite => {
                Op::write(path("/over/f")?, bytes(number, 4096)).with_parents().with_attrs(plain)
            }
            Self::Append => {
                Op::append(path("/appended/f")?, bytes(number, 200)).with_parents().with_attrs(plain)
            }
            Self::Rename => {
                let (one, other) = (path("/renamed/a")?, path("/renamed/b")?);
                if number.is_multiple_of(2) { Op::rename(one, other) } else { Op::rename(other, one) }
            }
            Self::Put => {
                let text = format!("{number} ").repeat(2048).chars().take(2048).collect::<String>();
                Op::write(path(&format!("/put/f{}", number % CONNECTIONS))?, text).with_parents()
            }
        };
        fs.commit(Batch::new([op])).await.map(drop)
    }
}

/// Creates the files that are read and renamed.
pub(crate) async fn fill(fs: &dyn FileSystem) -> Outcome<()> {
    let plain = SetAttrs::new().searchable(false);
    for first in (0..FILES).step_by(100) {
        let ops = (first..first + 100).map(|number| {
            let size = if number % 2 == 0 { 4096 } else { 2048 };
            let write = Op::write(path(&format!("/files/f{number}"))?, bytes(number, size));
            Ok(write.with_parents().with_attrs(plain.clone()))
        });
        fs.commit(Batch::new(ops.collect::<garth_engine::Result<Vec<_>>>()?)).await?;
    }
    fs.commit(Batch::new([Op::write(path("/renamed/a")?, "renamed").with_parents()])).await?;
    Ok(())
}

fn path(text: &str) -> garth_engine::Result<TreePath> {
    Ok(TreePath::parse(text)?)
}

/// Returns bytes that no other call writes.
pub(crate) fn bytes(number: usize, size: usize) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().repeat(size / 8 + 1);
    bytes.truncate(size);
    bytes
}
