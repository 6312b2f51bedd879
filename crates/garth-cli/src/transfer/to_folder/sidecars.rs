//! Sidecars of an export in the layout of a bucket. Each is created, kept or removed with its file.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use garth_agent::workspace::layout::{MAX_SIDECAR, SIDECAR, Sidecar, described};
use garth_engine::TreePath;
use garth_engine::error::OptionalExt as _;
use garth_engine::model::Entry;

use super::super::host::HostEntry;
use super::super::layout::{is_sidecar, sidecar_path};
use super::{Export, PERMISSIONS, settle};
use crate::fail::{Failure, Result};

impl Export<'_, '_> {
    /// Returns true for an entry of the folder that is a sidecar handled by this export, or the sidecar of an
    /// excluded file.
    pub(super) fn is_of_file(&mut self, there: &HostEntry) -> bool {
        let Some(file) = described(&there.path).filter(|_| self.policy.layout) else { return false };
        self.sidecars.has(&there.path)
            || self.sidecars.spared.contains(&there.path)
            || self.exclude.leaves_out_above(file, false) && is_sidecar(&there.source)
    }

    /// Exports the sidecar of a file. Returns the bytes written; `None` if it was unchanged. A file with the
    /// name of a sidecar gets a sidecar itself, so that an import does not take it for one.
    pub(super) async fn sidecar(
        &mut self,
        (relative, to): (&str, &Path),
        entry: &Entry,
    ) -> Result<Option<u64>> {
        let (sidecar, path) = (Sidecar::of(&entry.attributes), sidecar_path(to));
        let name = format!("{relative}{SIDECAR}");
        let there = match fs::symlink_metadata(&path) {
            Ok(meta) => Some(meta),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            // The name is too long for a file, so there is no sidecar.
            Err(error) if error.kind() == io::ErrorKind::InvalidFilename && sidecar.is_empty() => None,
            Err(error) => return Err(Failure::host(&path)(error)),
        };
        if sidecar.is_empty() && described(relative).is_none() {
            // The existing entry may be an object with this name.
            if there.is_none() || !is_sidecar(&path) || self.has_object(&name).await? {
                return Ok(None);
            }
            self.sidecars.names.insert(name);
            self.touch(&path);
            if !self.policy.dry_run {
                fs::remove_file(&path).map_err(Failure::host(&path))?;
            }
            return Ok(Some(0));
        }
        let second = format!("{name}{SIDECAR}");
        // A sidecar that has a sidecar itself would count as a file.
        if !self.policy.delete && is_sidecar(&sidecar_path(&path)) && !self.has_object(&second).await? {
            let message = "its own metadata make it a file (--delete removes them)";
            return Err(Failure::Host(path, io::Error::new(io::ErrorKind::AlreadyExists, message)));
        }
        self.sidecars.names.insert(name.clone());
        let json = sidecar.to_json()?;
        let same = there.as_ref().filter(|there| there.is_file() && there.len() == json.len() as u64);
        if same.is_some() && content(&path).map_err(Failure::host(&path))? == json.as_bytes() {
            return Ok(None);
        }
        let in_the_way = there.as_ref().filter(|there| !there.is_file() && !there.is_symlink());
        if let Some(meta) = in_the_way {
            self.clear(&name, &path, meta)?;
        }
        let there = there.as_ref().filter(|_| in_the_way.is_none());
        self.replace(&path, there, |temporary| {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(temporary)?;
            file.write_all(json.as_bytes())?;
            // A sidecar is not executable.
            settle(&file, Some(entry.mode & PERMISSIONS & 0o666), entry.mtime)
        })?;
        Ok(Some(json.len() as u64))
    }

    /// Returns true if the tree has an object with this name, which takes precedence.
    async fn has_object(&self, name: &str) -> Result<bool> {
        let path = TreePath::parse(&format!("/{name}"))?;
        Ok(self.fs.stat(&(&path).into()).await.optional()?.is_some())
    }
}

fn content(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    fs::File::open(path)?.take(MAX_SIDECAR as u64).read_to_end(&mut content)?;
    Ok(content)
}
