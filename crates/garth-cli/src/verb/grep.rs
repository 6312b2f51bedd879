//! `garth grep`: finds lines by regular expression, in bounded memory.

use std::collections::VecDeque;
use std::sync::Arc;

use clap::Args;
use futures::TryStreamExt;
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{At, ByteRange, Entry, Kind};
use garth_engine::{Error, ErrorKind, FileSystem, TreePath};
use globset::GlobMatcher;
use regex::bytes::{Regex, RegexBuilder};
use serde_json::{Value, json};

use crate::app::App;
use crate::args::{LongHelp, Past, TREE_PATH};
use crate::escape::escaped;
use crate::fail::{Failure, Failures, Result};
use crate::lines::Lines;
use crate::out::base64;
use crate::pattern::matcher;
use crate::size::parse_count;
use crate::walk::Walker;

/// Limit in bytes on a line, and on the context that is held for a match, 16 MiB.
const MAX_LINE: usize = 16 << 20;

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
    /// Search only files whose name matches this pattern (repeatable: one of them is enough)
    #[arg(long, value_name = "GLOB")]
    include: Vec<String>,
    /// Skip files whose name matches this pattern (repeatable)
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

    /// Returns all expressions combined into one.
    fn regex(&self) -> Result<Regex> {
        let mut parts = Vec::new();
        for expression in &self.expressions {
            let part = if self.fixed_strings { regex::escape(expression) } else { expression.clone() };
            // Each is checked separately: `a)|(b` would be valid only inside the group below.
            build(&part, false).map_err(|reason| {
                let hint = "-F searches for it as text";
                Failure::Usage(format!("{expression}: not a regular expression: {reason}; {hint}"))
            })?;
            parts.push(format!("(?:{part})"));
        }
        let any = parts.join("|");
        let whole = match (self.line_regexp, self.word_regexp) {
            (true, _) => format!("^(?:{any})$"),
            // `\b` alone would refuse a match that begins or ends with a character that is not part of a
            // word.
            (false, true) => format!(r"\b{{start-half}}(?:{any})\b{{end-half}}"),
            (false, false) => any,
        };
        build(&whole, self.ignore_case).map_err(Failure::Usage)
    }

    fn names(patterns: &[String]) -> Result<Vec<GlobMatcher>> {
        patterns.iter().map(|pattern| matcher(pattern, false)).collect()
    }

    fn before(&self) -> usize {
        self.before_context.unwrap_or(self.context)
    }

    fn after(&self) -> usize {
        self.after_context.unwrap_or(self.context)
    }

    /// Returns true if the first selected line decides the result of a file.
    fn first_decides(&self) -> bool {
        self.quiet || self.files_with_matches || self.files_without_match
    }
}

/// Compiles an expression. An error is its reason, on one line.
fn build(expression: &str, ignore_case: bool) -> std::result::Result<Regex, String> {
    RegexBuilder::new(expression).case_insensitive(ignore_case).build().map_err(|error| {
        let text = error.to_string();
        // The lines before the last one repeat the expression.
        let reason = text.lines().next_back().unwrap_or_default();
        reason.trim_start_matches("error: ").trim_end_matches('.').to_owned()
    })
}

/// Search in progress.
struct Search<'a> {
    args: &'a Grep,
    fs: Arc<dyn FileSystem>,
    regex: Regex,
    include: Vec<GlobMatcher>,
    exclude: Vec<GlobMatcher>,
    /// True if several paths are searched.
    several: bool,
    /// True if lines of the current path are printed with the path of their file.
    named: bool,
    /// True if any line was selected, also with -L, as in GNU grep 3.5.
    selected: bool,
}

/// State of the output of one file.
#[derive(Default)]
struct FileOutput {
    matches: u64,
    /// Number of the last line that was printed.
    last: u64,
    /// Lines of context still to print.
    after: usize,
    /// Lines that wait for a match after them, and their total bytes.
    before: VecDeque<(u64, Vec<u8>)>,
    waiting: usize,
}

impl<'a> Search<'a> {
    async fn new(args: &'a Grep, app: &App, several: bool) -> Result<Self> {
        let (include, exclude) = (Grep::names(&args.include)?, Grep::names(&args.exclude)?);
        let regex = args.regex()?;
        let fs = app.pinned(&args.past).await?;
        Ok(Self { args, fs, regex, include, exclude, several, named: several, selected: false })
    }

    /// Searches a path and everything below it. Failures below it are reported, and the search continues.
    async fn path(&mut self, app: &mut App, path: &str, failures: &mut Failures) -> Result {
        let mut walker = Walker::new(Arc::clone(&self.fs), path, Follow::Yes, true).await?;
        let mut first = true;
        while let Some((path, entry)) = walker.next().await? {
            if std::mem::take(&mut first) {
                let many = self.several || entry.kind == Kind::Directory;
                self.named = !self.args.no_filename && (self.args.with_filename || many);
            }
            if entry.kind != Kind::File || !self.wants(&path) {
                continue;
            }
            let outcome = self.file(app, &path, &entry).await;
            failures.add(outcome, app.global.json)?;
            if self.args.quiet && self.selected {
                return Ok(());
            }
        }
        Ok(())
    }

    fn wants(&self, path: &TreePath) -> bool {
        let name = path.name().unwrap_or_default();
        (self.include.is_empty() || self.include.iter().any(|pattern| pattern.is_match(name)))
            && !self.exclude.iter().any(|pattern| pattern.is_match(name))
    }

    async fn file(&mut self, app: &mut App, path: &TreePath, entry: &Entry) -> Result {
        let mut shown = FileOutput::default();
        let mut lines = Lines::default();
        if entry.size > 0 {
            self.lines(app, path, &mut lines, &mut shown).await?;
        }
        let matches = shown.matches > 0;
        self.selected |= matches;
        if self.args.quiet {
            return Ok(());
        }
        if self.args.files_with_matches || self.args.files_without_match {
            if matches == self.args.files_with_matches {
                let json = json!({"path": path.as_str(), "binary": lines.binary});
                app.out.item(&json, escaped(path.as_str()))?;
            }
        } else if self.args.count {
            let name = if self.named { format!("{}:", escaped(path.as_str())) } else { String::new() };
            let json = json!({"path": path.as_str(), "count": shown.matches});
            app.out.item(&json, format_args!("{name}{}", shown.matches))?;
        }
        Ok(())
    }

    /// Processes the lines of a file, as far as needed.
    async fn lines(
        &self,
        app: &mut App,
        path: &TreePath,
        lines: &mut Lines,
        shown: &mut FileOutput,
    ) -> Result {
        let file = self.fs.open(&At::from(path)).await?;
        let mut chunks = std::pin::pin!(file.stream(ByteRange::ALL));
        loop {
            let chunk = chunks.try_next().await?;
            let end = chunk.is_none();
            lines.add(chunk.as_deref().unwrap_or_default());
            // A NUL marks the file as binary; -a overrides that.
            if self.args.text {
                lines.binary = false;
            }
            while let Some(line) = lines.next(end) {
                let go_on = self.line(app, path, line.number, lines.text(&line), lines.binary, shown)?;
                if !go_on {
                    return Ok(());
                }
            }
            if end {
                return Ok(());
            }
            if lines.waiting() > MAX_LINE || shown.waiting > MAX_LINE {
                let what = if lines.waiting() > MAX_LINE { "a line has" } else { "lines of context have" };
                let message = format!("{what} more than {MAX_LINE} bytes; the rest is not searched");
                return Err(Error::at(ErrorKind::TooLarge, path, message).into());
            }
        }
    }

    /// Processes the next line. Returns true if more lines are needed.
    fn line(
        &self,
        app: &mut App,
        path: &TreePath,
        number: u64,
        text: &[u8],
        binary: bool,
        shown: &mut FileOutput,
    ) -> Result<bool> {
        // After the last match, only its context is printed.
        let full = self.args.max_count.is_some_and(|most| shown.matches >= most);
        if full || self.regex.is_match(text) == self.args.invert_match {
            if shown.after > 0 {
                shown.after -= 1;
                self.show(app, path, number, text, true, shown)?;
            } else if !full && self.args.before() > 0 {
                shown.wait(number, text, self.args.before());
            }
            return Ok(!full || shown.after > 0);
        }
        // With -I a binary file counts as one without a match.
        if binary && self.args.skip_binary {
            return Ok(false);
        }
        shown.matches += 1;
        // One match decides the output of the file, so the rest is not read.
        if self.args.first_decides() {
            return Ok(false);
        }
        if self.args.count {
            return Ok(true);
        }
        if binary {
            let json = json!({"path": path.as_str(), "binary": true});
            app.out.item(&json, format_args!("binary file matches: {}", escaped(path.as_str())))?;
            return Ok(false);
        }
        for (number, text) in shown.take_before() {
            self.show(app, path, number, &text, true, shown)?;
        }
        if !self.args.only_matching {
            self.show(app, path, number, text, false, shown)?;
        } else if !self.args.invert_match {
            // As grep does: empty matches are not printed.
            for found in self.regex.find_iter(text).filter(|found| !found.is_empty()) {
                self.show(app, path, number, found.as_bytes(), false, shown)?;
            }
        }
        shown.after = self.args.after();
        Ok(true)
    }

    /// Prints one line, or one match of it.
    fn show(
        &self,
        app: &mut App,
        path: &TreePath,
        number: u64,
        text: &[u8],
        context: bool,
        shown: &mut FileOutput,
    ) -> Result {
        // As grep does: `--` separates groups of lines that are not adjacent.
        let grouped = self.args.before() + self.args.after() > 0;
        if grouped && shown.last > 0 && number > shown.last + 1 {
            app.out.note("--")?;
        }
        shown.last = number;
        if app.out.is_json() {
            return app.out.item(&line_json(path, number, text, context), "");
        }
        let mark = if context { '-' } else { ':' };
        let name = if self.named { format!("{}{mark}", escaped(path.as_str())) } else { String::new() };
        let number = if self.args.line_number { format!("{number}{mark}") } else { String::new() };
        app.out.note(format_args!("{name}{number}{}", plain(&String::from_utf8_lossy(text))))
    }
}

impl FileOutput {
    /// Holds a line as context for a match after it; only the last `most` lines are held.
    fn wait(&mut self, number: u64, text: &[u8], most: usize) {
        self.waiting += text.len();
        self.before.push_back((number, text.to_vec()));
        while self.before.len() > most {
            self.waiting -= self.before.pop_front().map_or(0, |(_, text)| text.len());
        }
    }

    fn take_before(&mut self) -> VecDeque<(u64, Vec<u8>)> {
        self.waiting = 0;
        std::mem::take(&mut self.before)
    }
}

fn line_json(path: &TreePath, number: u64, text: &[u8], context: bool) -> Value {
    let mut json = match std::str::from_utf8(text) {
        Ok(text) => json!({"path": path.as_str(), "line": number, "text": text}),
        Err(_) => json!({"path": path.as_str(), "line": number, "base64": base64(text)}),
    };
    if context {
        json["context"] = Value::Bool(true);
    }
    json
}

/// Returns a line with control characters escaped, except for tabs.
fn plain(text: &str) -> String {
    let parts: Vec<_> = text.split('\t').map(escaped).collect();
    parts.join("\t")
}
