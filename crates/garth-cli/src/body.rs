//! Content on its way into the tree: short bodies in the commit, long ones staged a step at a time.

use std::io::Read;
use std::path::Path;

use bytes::Bytes;
use garth::FileSystem;
use garth::model::Body;

use crate::fail::{Failure, Result};

/// Longest body that goes with the commit; also a step of a longer one. 1 MiB, the largest extent.
const STEP: usize = 1 << 20;

/// Reads `from` to its end. `name` is what it is called in errors.
pub(crate) async fn read_body(fs: &dyn FileSystem, from: &mut dyn Read, name: &Path) -> Result<Body> {
    let first = step(from, name)?;
    if first.len() < STEP {
        return Ok(Body::Bytes(first));
    }
    let mut upload = fs.stage().await?;
    let mut bytes = first;
    loop {
        let last = bytes.len() < STEP;
        upload.write(bytes).await?;
        if last {
            return Ok(Body::Staged(upload.finish().await?));
        }
        bytes = step(from, name)?;
    }
}

fn step(from: &mut dyn Read, name: &Path) -> Result<Bytes> {
    let mut bytes = Vec::new();
    from.take(STEP as u64).read_to_end(&mut bytes).map_err(Failure::host(name))?;
    Ok(Bytes::from(bytes))
}

/// Standard input as a body.
pub(crate) async fn stdin_body(fs: &dyn FileSystem) -> Result<Body> {
    read_body(fs, &mut std::io::stdin().lock(), Path::new("-")).await
}
