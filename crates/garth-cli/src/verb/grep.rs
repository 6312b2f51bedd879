//! `garth grep`: finds lines by regular expression, in bounded memory.

use std::sync::Arc;

use clap::Args;
use garth_agent::files::{
    self, BinaryFiles, Files, GlobPattern, GrepFile, GrepLine, LineMatcher, Show, Whole,
};
use garth_engine::fs::resolve::Follow;
use garth_engine::{FileSystem, TreePath};
use serde_json::{Value, json};

use crate::app::{App, stat_path};
use crate::args::{LongHelp, Past, TREE_PATH};
use crate::escape::escaped;
use crate::fail::{Failure, Failures, Result, usage};
use crate::out::base64;
use crate::size::parse_count;

/// Print lines that match a regular expression
///
/// Searches files, and directories recursively without following links. Only the paths of matching binary
/// files are printed. Exit codes: 0 a line matched, 1 none did, above 1 an error. With --json, prints one
/// object per line (path, line, text, or base64 if it is not UTF-8; `context` on lines around a match), with
/// -c per file (path, count), with -l, -L and for binary files per file (path, binary).
#[derive(Args, Debug)]
#[command(
    disable_help_flag = true,
    override_usage = "garth grep [OPTIONS] PATTERN [PATH]...\n       \
                      garth grep [OPTIONS] -e PATTERN [PATH]...",
    after_help = "Example:\n  garth grep -n 'TODO|FIXME' /projects /notes"
)]
pub(crate) struct Grep {
    /// Expression (syntax of the Rust `regex` crate), unless -e gives it; then paths to search [default: /]
    #[arg(value_hint = TREE_PATH, value_name = "PATTERN", required_unless_present = "expressions")]
    args: Vec<String>,
    /// Expression to search for (repeatable: one of them is enough)
    #[arg(short = 'e', long = "regexp", value_name = "PATTERN", allow_hyphen_values = true)]
    expressions: Vec<String>,
    /// Search for the literal text, not for an expression
    #[arg(short = 'F', long)]
    fixed_strings: bool,
    /// Accepted and ignored: expressions are always extended
    #[arg(short = 'E', long, hide = true)]
    extended_regexp: bool,
    /// Accepted and ignored: expressions that the `regex` crate does not support are refused
    #[arg(short = 'P', long, hide = true)]
    perl_regexp: bool,
    /// Ignore case
    #[arg(short, long)]
    ignore_case: bool,
    /// Match whole words only
    #[arg(short, long)]
    word_regexp: bool,
    /// Match whole lines only
    #[arg(short = 'x', long)]
    line_regexp: bool,
    /// Select lines that do not match
    #[arg(short = 'v', long)]
    invert_match: bool,
    /// Print only the number of matching lines of each file
    #[arg(short, long)]
    count: bool,
    /// Print only the paths of files with a match
    #[arg(short = 'l', long)]
    files_with_matches: bool,
    /// Print only the paths of files without a match
    #[arg(short = 'L', long, conflicts_with = "files_with_matches")]
    files_without_match: bool,
    /// Print only the matching parts, each on its own line
    #[arg(short, long)]
    only_matching: bool,
    /// Print nothing; stop at the first match
    #[arg(short, long)]
    quiet: bool,
    /// Print line numbers
    #[arg(short = 'n', long)]
    line_number: bool,
    /// Print the path before each line [default: for directories and several paths]
    #[arg(short = 'H', long, overrides_with = "no_filename")]
    with_filename: bool,
    /// Print no paths before lines
    #[arg(short = 'h', long, overrides_with = "with_filename")]
    no_filename: bool,
    /// Print this many lines after each match
    #[arg(short = 'A', long, value_name = "LINES", value_parser = parse_count::<usize>)]
    after_context: Option<usize>,
    /// Print this many lines before each match
    #[arg(short = 'B', long, value_name = "LINES", value_parser = parse_count::<usize>)]
    before_context: Option<usize>,
    /// Print this many lines before and after each match
    #[arg(short = 'C', long, value_name = "LINES", default_value_t = 0, value_parser = parse_count::<usize>)]
    context: usize,
    /// Stop after this many matching lines of each file
    #[arg(short, long, value_name = "COUNT", value_parser = parse_count::<u64>)]
    max_count: Option<u64>,
    /// Search binary files as if they were text
    #[arg(short = 'a', long)]
    text: bool,
    /// Skip binary files
    #[arg(short = 'I', conflicts_with = "text")]
    skip_binary: bool,
    /// Search only files whose name, or with a `/` in the pattern whose path below PATH, matches it
    /// (repeatable: one of them is enough)
    #[arg(long, value_name = "GLOB")]
    include: Vec<String>,
    /// Skip files that match this pattern (repeatable)
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Accepted and ignored: directories are always searched recursively
    #[arg(short, long, short_alias = 'R', hide = true)]
    recursive: bool,
    #[command(flatten)]
    past: Past,
    #[command(flatten)]
    help: LongHelp,
}

impl Grep {
    pub(crate) async fn run(mut self, app: &mut App) -> Result {
        if self.expressions.is_empty() {
            // Clap requires a first argument unless -e is given.
            self.expressions.push(self.args.remove(0));
        }
        let paths = if self.args.is_empty() { vec!["/".to_owned()] } else { std::mem::take(&mut self.args) };
        let mut search = Search::new(&self, app, paths.len() > 1).await?;
        let mut failures = Failures::default();
        for path in &paths {
            match search.path(app, path, &mut failures).await {
                Err(failure) => failures.add(Err(failure), app.global.json)?,
                // As grep does: with -q a match is a success even after an error.
                Ok(()) if self.quiet && search.selected => return Ok(()),
                Ok(()) => {}
            }
            app.out.flush()?;
        }
        match failures.done() {
            Ok(()) if search.selected => Ok(()),
            Ok(()) => Err(Failure::Reported(1)),
            // 1 means that nothing matched.
            Err(failure) => Err(Failure::Reported(failure.code().max(2))),
        }
    }

    /// Returns the search of a path that is still to be set.
    fn request(&self) -> files::Grep {
        let mut asked = files::Grep::new("");
        asked.expressions.clone_from(&self.expressions);
        (asked.fixed, asked.ignore_case) = (self.fixed_strings, self.ignore_case);
        asked.invert = self.invert_match;
        asked.whole = match (self.line_regexp, self.word_regexp) {
            (true, _) => Whole::Line,
            (false, true) => Whole::Word,
            (false, false) => Whole::Any,
        };
        (asked.include, asked.exclude) = (self.include.clone(), self.exclude.clone());
        asked.before = self.before_context.unwrap_or(self.context);
        asked.after = self.after_context.unwrap_or(self.context);
        asked.show = match self {
            Self { quiet: true, .. } | Self { files_with_matches: true, .. } => Show::Files,
            Self { files_without_match: true, .. } => Show::FilesWithout,
            Self { count: true, .. } => Show::Counts,
            _ => Show::Lines,
        };
        asked.binary = match (self.text, self.skip_binary) {
            (true, _) => BinaryFiles::Text,
            (false, true) => BinaryFiles::Skip,
            (false, false) => BinaryFiles::Name,
        };
        (asked.max_matches, asked.max_line) = (self.max_count, usize::MAX);
        if self.quiet {
            asked.limits.items = 1;
        }
        asked
    }
}

/// Search in progress.
struct Search<'a> {
    args: &'a Grep,
    fs: Arc<dyn FileSystem>,
    asked: files::Grep,
    matcher: LineMatcher,
    /// True if several paths are searched.
    several: bool,
    /// True if lines of the current path are printed with the path of their file.
    named: bool,
    /// True if any line was selected, also with -L, as in GNU grep 3.5.
    selected: bool,
    /// File that the next page may continue, and what was printed of it.
    begun: Option<Begun>,
}

/// Output of a file, of which there may be more on the next page.
struct Begun {
    path: TreePath,
    matches: u64,
    /// Number of the last line that was printed.
    last: u64,
}

impl<'a> Search<'a> {
    async fn new(args: &'a Grep, app: &App, several: bool) -> Result<Self> {
        for pattern in args.include.iter().chain(&args.exclude) {
            GlobPattern::parse(pattern).map_err(usage)?;
        }
        let asked = args.request();
        let matcher = asked
            .matcher()
            .map_err(|error| Failure::Usage(format!("{}; -F searches for it as text", error.message())))?;
        let fs = app.pinned(&args.past).await?;
        Ok(Self { args, fs, asked, matcher, several, named: several, selected: false, begun: None })
    }

    /// Searches a path and everything below it. Failures below it are reported, and the search continues.
    async fn path(&mut self, app: &mut App, path: &str, failures: &mut Failures) -> Result {
        let (_, entry) = stat_path(&*self.fs, path, Follow::Yes).await?;
        let many = self.several || entry.is_dir();
        self.named = !self.args.no_filename && (self.args.with_filename || many);
        self.begun = None;
        let mut asked = self.asked.clone().below(path);
        loop {
            let page = Files::new(&*self.fs).grep(&asked).await?;
            self.selected |= page.matches > 0;
            for file in &page.files {
                let outcome = self.file(app, file);
                failures.add(outcome, app.global.json)?;
            }
            if page.next.is_none() || (self.args.quiet && self.selected) {
                return Ok(());
            }
            asked.cursor = page.next;
        }
    }

    /// Prints a file, or a part of one.
    fn file(&mut self, app: &mut App, file: &GrepFile) -> Result {
        let begun = self.begun.take().filter(|begun| begun.path == file.path);
        let mut begun = begun.unwrap_or_else(|| Begun { path: file.path.clone(), matches: 0, last: 0 });
        begun.matches += file.matches;
        for line in &file.lines {
            self.line(app, line, &mut begun)?;
        }
        if let Some(error) = &file.error {
            return Err(error.clone().into());
        }
        let path = escaped(file.path.as_str());
        match self.asked.show {
            _ if self.args.quiet || file.more => {}
            Show::Files | Show::FilesWithout => {
                let json = json!({"path": file.path.as_str(), "binary": file.binary});
                app.out.item(&json, path)?;
            }
            Show::Counts => {
                let name = if self.named { format!("{path}:") } else { String::new() };
                let json = json!({"path": file.path.as_str(), "count": begun.matches});
                app.out.item(&json, format_args!("{name}{}", begun.matches))?;
            }
            Show::Lines if file.binary => {
                let json = json!({"path": file.path.as_str(), "binary": true});
                app.out.item(&json, format_args!("binary file matches: {path}"))?;
            }
            Show::Lines => {}
        }
        self.begun = file.more.then_some(begun);
        Ok(())
    }

    fn line(&self, app: &mut App, line: &GrepLine, begun: &mut Begun) -> Result {
        if line.context || !self.args.only_matching {
            return self.show(app, line, &line.text, begun);
        }
        if !self.args.invert_match {
            for part in self.matcher.parts(&line.text) {
                self.show(app, line, part, begun)?;
            }
        }
        Ok(())
    }

    /// Prints one line, or one match of it.
    fn show(&self, app: &mut App, line: &GrepLine, text: &[u8], begun: &mut Begun) -> Result {
        // As grep does: `--` separates groups of lines that are not adjacent.
        let grouped = self.asked.before > 0 || self.asked.after > 0;
        if grouped && begun.last > 0 && line.number > begun.last + 1 {
            app.out.note("--")?;
        }
        begun.last = line.number;
        if app.out.is_json() {
            return app.out.item(&line_json(&begun.path, line, text), "");
        }
        let mark = if line.context { '-' } else { ':' };
        let name = if self.named { format!("{}{mark}", escaped(begun.path.as_str())) } else { String::new() };
        let number = if self.args.line_number { format!("{}{mark}", line.number) } else { String::new() };
        app.out.note(format_args!("{name}{number}{}", plain(&String::from_utf8_lossy(text))))
    }
}

fn line_json(path: &TreePath, line: &GrepLine, text: &[u8]) -> Value {
    let mut json = match std::str::from_utf8(text) {
        Ok(text) => json!({"path": path.as_str(), "line": line.number, "text": text}),
        Err(_) => json!({"path": path.as_str(), "line": line.number, "base64": base64(text)}),
    };
    if line.context {
        json["context"] = Value::Bool(true);
    }
    json
}

/// Returns a line with control characters escaped, except for tabs.
fn plain(text: &str) -> String {
    let parts: Vec<_> = text.split('\t').map(escaped).collect();
    parts.join("\t")
}
