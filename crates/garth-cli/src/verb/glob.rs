//! `garth glob`: paths by pattern.

use clap::Args;
use garth_agent::files::Matches;
use garth_engine::model::Kind;

use crate::app::App;
use crate::args::Past;
use crate::escape::escaped;
use crate::fail::{Failures, Result, usage};
use crate::walk::report;

/// Find paths by pattern
///
/// `*` and `?` match within a name, `**` across directories; `[ab]` and `{a,b}` match alternatives; `\`
/// escapes the next character. A trailing `/` matches directories only. With --json, prints one object per
/// path: path, name, kind, size, mode, times, attributes, version.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth glob '/notes/**/*.md'")]
pub(crate) struct Glob {
    /// Pattern for the complete path; begins with `/`
    pattern: String,
    /// Only files, or only directories
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    kind: Option<OnlyKind>,
    #[command(flatten)]
    past: Past,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum OnlyKind {
    #[value(alias = "f")]
    File,
    #[value(alias = "d")]
    Dir,
}

impl Glob {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let fs = app.pinned(&self.past).await?;
        let mut matches = Matches::new(&*fs, &self.pattern).await.map_err(usage)?;
        let mut failures = Failures::default();
        loop {
            let found = matches.next().await?;
            for error in matches.take_failed() {
                report(app, &mut failures, error)?;
            }
            let Some((path, entry)) = found else { return failures.done() };
            let wanted = match self.kind {
                None => true,
                Some(OnlyKind::File) => entry.kind == Kind::File,
                Some(OnlyKind::Dir) => entry.kind == Kind::Directory,
            };
            if wanted {
                app.out.entry(&path, &entry, escaped(path.as_str()))?;
            }
        }
    }
}
