//! Complete commands on a folder of many small files: `garth import`, compared with `cp` and `rsync`.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::figures::Figures;
use crate::options::Options;
use crate::work::content::text;

/// Files of one directory.
const WIDTH: usize = 100;
/// Size of a file, in bytes.
const LENGTH: usize = 1024;

/// Imports a folder and copies it, each to an empty target, and then both once more.
pub(crate) fn measure(options: &Options) -> Result<Figures> {
    let source = options.folder()?;
    let files = options.size.of(100_000, WIDTH);
    for dir in 0..files / WIDTH {
        let folder = source.path().join(dir.to_string());
        std::fs::create_dir(&folder)?;
        for file in 0..WIDTH {
            let content = text((dir * WIDTH + file) as u64).slice(..LENGTH);
            std::fs::write(folder.join(format!("{file}.md")), content)?;
        }
    }
    // The pages of the source are written now, not while something is measured.
    timed(Command::new("sync").arg("-f").arg(source.path()))?;
    let mut figures = Figures::default();
    for run in 1..=options.runs {
        eprintln!("  {run}/{}", options.runs);
        let (data, copies) = (options.folder()?, options.folder()?);
        for figure in ["new", "again"] {
            let mut import = options.garth()?;
            import.args(["import", "--json", "--data"]).arg(data.path()).arg(source.path());
            figures.time(figure, timed(&mut import)?, 1);
        }
        copy(source.path(), copies.path(), &mut figures)?;
    }
    Ok(figures)
}

fn copy(source: &Path, copies: &Path, figures: &mut Figures) -> Result<()> {
    let copied = timed(Command::new("cp").arg("-r").arg(source).arg(copies.join("cp")))?;
    // An import is durable when it ends, so the copy is made durable as well.
    let synced = timed(Command::new("sync").arg("-f").arg(copies))?;
    figures.time("cp new", copied + synced, 1);
    let mut rsync = Command::new("rsync");
    rsync.arg("-a").arg(source.join(".")).arg(copies.join("rsync"));
    // The first run copies the files with their times, which `cp -r` does not preserve and the second run
    // compares.
    if timed(&mut rsync).is_ok() {
        figures.time("rsync again", timed(&mut rsync)?, 1);
    }
    Ok(())
}

fn timed(command: &mut Command) -> Result<Duration> {
    let start = Instant::now();
    let status = command.stdout(Stdio::null()).status().with_context(|| format!("cannot run {command:?}"))?;
    let spent = start.elapsed();
    ensure!(status.success(), "{command:?} failed ({status})");
    Ok(spent)
}
