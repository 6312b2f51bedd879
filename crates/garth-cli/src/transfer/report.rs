//! Report of an import or export: counts for the summary, a list with `--verbose`, and failures as they
//! happen.

use std::fmt;

use indicatif::{HumanBytes, ProgressBar};
use serde::Serialize;
use serde_json::json;

use crate::escape::escaped;
use crate::fail::{Failure, Failures, Result};
use crate::out::{Out, counted};
use crate::progress::{self, Interrupt};
use crate::terminal;

/// Change of one entry of the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    New,
    Changed,
    Same,
    Removed,
}

impl Change {
    fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Changed => "changed",
            Self::Same => "same",
            Self::Removed => "removed",
        }
    }
}

/// Kind of an entry of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// File, with the bytes that were written.
    File(u64),
    Directory,
    Symlink,
    HardLink,
    /// Special file, which only another tree can contain.
    Special,
}

impl Item {
    /// Adds `bytes` to the bytes written for a file.
    pub(crate) fn with_more(self, bytes: u64) -> Self {
        match self {
            Self::File(written) => Self::File(written + bytes),
            other => other,
        }
    }
}

/// Counts of entries, by change and by kind.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Count {
    new: u64,
    changed: u64,
    same: u64,
    removed: u64,
    failed: u64,
    files: u64,
    directories: u64,
    symlinks: u64,
    hard_links: u64,
    /// Bytes of content written.
    bytes: u64,
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} new, {} changed, {} unchanged", self.new, self.changed, self.same)?;
        if self.removed > 0 {
            write!(f, ", {} removed", self.removed)?;
        }
        if self.failed > 0 {
            write!(f, ", {} failed", self.failed)?;
        }
        write!(f, " ({}", counted(self.files, "file", "files"))?;
        write!(f, ", {}", counted(self.directories, "directory", "directories"))?;
        if self.symlinks > 0 {
            write!(f, ", {}", counted(self.symlinks, "symbolic link", "symbolic links"))?;
        }
        if self.hard_links > 0 {
            write!(f, ", {}", counted(self.hard_links, "hard link", "hard links"))?;
        }
        write!(f, "; {} written)", HumanBytes(self.bytes))
    }
}

/// Form of the report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    /// List each entry that was changed.
    pub(crate) list: bool,
    /// Standard output is an archive, so the report goes to stderr.
    pub(crate) to_stderr: bool,
}

/// Report in progress, with its progress bar.
pub(crate) struct Report<'a> {
    out: &'a mut Out,
    bar: ProgressBar,
    style: Style,
    failures: Failures,
    count: Count,
    interrupt: Interrupt,
}

impl<'a> Report<'a> {
    /// Starts a report. `total` is the number of entries, if known.
    pub(crate) fn new(out: &'a mut Out, total: Option<u64>, style: Style, interrupt: Interrupt) -> Self {
        // The lines of a list show progress, too.
        let bar = if style.list { ProgressBar::hidden() } else { progress::entries(total) };
        Self { out, bar, style, failures: Failures::default(), count: Count::default(), interrupt }
    }

    /// Returns the flag of Ctrl-C.
    pub(crate) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// Counts an entry for the progress bar. Fails after Ctrl-C.
    pub(crate) fn step(&self, name: &str) -> Result {
        self.bar.inc(1);
        if !self.bar.is_hidden() {
            progress::show(&self.bar, name);
        }
        self.interrupt.check()
    }

    /// Reports the change of an entry of the source.
    pub(crate) fn done(&mut self, change: Change, item: Item, path: &str) -> Result {
        match item {
            Item::File(written) => {
                self.count.files += 1;
                self.count.bytes += written;
            }
            Item::Directory => self.count.directories += 1,
            Item::Symlink => self.count.symlinks += 1,
            Item::HardLink => self.count.hard_links += 1,
            Item::Special => {}
        }
        match change {
            Change::New => self.count.new += 1,
            Change::Changed => self.count.changed += 1,
            Change::Same => self.count.same += 1,
            Change::Removed => self.count.removed += 1,
        }
        self.list(change, path)
    }

    /// Reports the deletion of a path, with `below` entries below it.
    pub(crate) fn removed(&mut self, path: &str, below: u64) -> Result {
        self.count.removed += 1 + below;
        self.list(Change::Removed, path)
    }

    fn list(&mut self, change: Change, path: &str) -> Result {
        if change == Change::Same || !self.style.list {
            return Ok(());
        }
        let json = json!({"change": change.as_str(), "path": path});
        self.say(&json, &format!("{:<8} {}", change.as_str(), escaped(path)))
    }

    fn say(&mut self, json: &serde_json::Value, text: &str) -> Result {
        let (out, to_stderr) = (&mut *self.out, self.style.to_stderr);
        self.bar.suspend(|| {
            if !to_stderr {
                return out.item(json, text);
            }
            if out.is_json() {
                terminal::tell_json(json);
            } else {
                terminal::tell_line(text);
            }
            Ok(())
        })
    }

    /// Reports an entry that failed. The import continues.
    pub(crate) fn fail(&mut self, failure: Failure) -> Result {
        self.interrupt.check()?; // a read that Ctrl-C ended is not a failure
        let (failures, json) = (&mut self.failures, self.out.is_json());
        self.bar.suspend(|| failures.add(Err(failure), json))
    }

    /// Reports the failure that ended the import or export.
    pub(crate) fn stopped(&self, failure: &Failure) {
        self.bar.suspend(|| failure.report(self.out.is_json()));
    }

    /// Prints the summary: `verb` and `to` for people, and with `--json` all counts and `more`.
    pub(crate) fn summary(&mut self, verb: &str, to: &str, more: &serde_json::Value) -> Result {
        self.bar.finish_and_clear();
        self.count.failed = self.failures.count();
        let mut json = serde_json::to_value(&self.count).unwrap_or_default();
        for (key, value) in more.as_object().into_iter().flatten() {
            json[key] = value.clone();
        }
        let text = format!("{verb} {}: {}", escaped(to), self.count);
        self.say(&json, &text)?;
        self.out.flush()
    }

    /// Returns the outcome of all entries, with exit code 1 if any failed.
    pub(crate) fn outcome(&self) -> Result {
        self.first_failure().map_err(|_| Failure::Reported(1))
    }

    /// Returns the outcome of all entries, with the exit code of the first failure.
    pub(crate) fn first_failure(&self) -> Result {
        self.bar.finish_and_clear();
        self.failures.done()
    }
}
