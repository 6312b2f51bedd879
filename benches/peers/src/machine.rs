//! Machine and software of a measurement, without which its ratios cannot be reproduced.

use std::fmt::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::size::Size;

/// Returns the command and the versions as lines of Markdown.
pub(crate) fn header(data: &Path, runs: usize, size: Size) -> Result<String> {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("?", |(_, it)| it);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut text = String::new();
    let arguments =
        std::env::args().skip(2).filter(|argument| !argument.contains('/')).collect::<Vec<_>>().join(" ");
    let _ = writeln!(text, "- command: `cargo xtask bench {arguments}`, medians of {runs} alternating runs");
    if size.percent < 100 {
        let _ = writeln!(
            text,
            "- **{}% of the sizes named in the table: the figures only show that the program runs**",
            size.percent
        );
    }
    let _ = writeln!(
        text,
        "- machine: {cpu}, {cores} cores, Linux {}, data on {}",
        kernel.trim(),
        file_system(data)
    );
    let _ = writeln!(
        text,
        "- garth {}, {}",
        said("git", &["describe", "--always", "--dirty"]),
        said("rustc", &["-V"])
    );
    let _ = writeln!(
        text,
        "- SQLite {} for garth and the plain rows, {}, {}",
        rusqlite::version(),
        first_line("cp"),
        first_line("rsync")
    );
    let (agentfs, turso) = (locked("agentfs-sdk"), locked("turso"));
    let _ = writeln!(text, "- the bare handler: axum {}", locked("axum"));
    let _ = writeln!(
        text,
        "- agentfs-sdk {agentfs} (turso {turso}), as shipped: it opens its database with `PRAGMA synchronous = OFF`, so \
         no write of its waits for the disk and an acknowledged one can be lost with power. garth's are durable.\n"
    );
    Ok(text)
}

fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or("?".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Returns the version of a tool, or that it is missing.
fn first_line(tool: &str) -> String {
    let said = said(tool, &["--version"]);
    said.lines().next().filter(|line| *line != "?").map_or_else(|| format!("no {tool}"), str::to_owned)
}

/// Returns the version of a package in the lock file of this build.
fn locked(package: &str) -> &'static str {
    let lock = include_str!("../Cargo.lock").split("[[package]]");
    let field = |block: &'static str, name: &str| {
        block.lines().find_map(|line| line.strip_prefix(&format!("{name} = \""))?.strip_suffix('"'))
    };
    lock.filter(|block| field(block, "name") == Some(package))
        .find_map(|block| field(block, "version"))
        .unwrap_or("?")
}

/// Returns the type of the filesystem of a folder.
fn file_system(folder: &Path) -> String {
    let Ok(folder) = folder.canonicalize() else { return "?".to_owned() };
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let on = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        let (point, kind) = (fields.next()?, fields.next()?);
        folder.starts_with(point).then(|| (point.len(), kind.to_owned()))
    };
    mounts.lines().filter_map(on).max_by_key(|(length, _)| *length).map_or("?".to_owned(), |(_, kind)| kind)
}

/// Returns the disk space of a folder with all its contents, in bytes.
pub(crate) fn disk_use(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let about = entry.metadata()?;
        sum += if about.is_dir() { disk_use(&entry.path())? } else { about.blocks() * 512 };
    }
    Ok(sum)
}
