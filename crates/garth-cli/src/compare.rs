//! Prints differences between two states of a path, or between two paths: as text, by name, or as counts.

use clap::Args;
use garth_agent::files::{Change, ContentDifference, DiffForm, Difference, Differences, Side};
use garth_engine::model::Seq;
use serde_json::{Value, json};

use crate::app::App;
use crate::escape::escaped;
use crate::fail::Result;
use crate::out::kind_word;
use crate::size::parse_count;

/// Form in which differences are shown.
#[derive(Args, Clone, Debug)]
pub(crate) struct Form {
    /// Show only the paths, each with A (added), D (removed) or M (changed)
    #[arg(long, conflicts_with = "stat")]
    pub(crate) name_status: bool,
    /// Show only the numbers of lines added and removed
    #[arg(long)]
    pub(crate) stat: bool,
    /// Show this many lines of context
    #[arg(short = 'U', long = "unified", value_name = "LINES", default_value_t = 3, value_parser = parse_count::<usize>)]
    pub(crate) context: usize,
}

impl Form {
    fn parts(&self) -> DiffForm {
        match (self.name_status, self.stat) {
            (true, _) => DiffForm::Names,
            (false, true) => DiffForm::Counts,
            (false, false) => DiffForm::Hunks(self.context),
        }
    }
}

/// Prints the differences, including those below directories. Returns true if there are any.
pub(crate) async fn show_trees(app: &mut App, form: &Form, from: Side<'_>, to: Side<'_>) -> Result<bool> {
    let seqs = [from.seq(), to.seq()];
    let mut differences = Differences::new(from, to, form.parts());
    let mut differ = false;
    while let Some(difference) = differences.next().await? {
        print(app, form, &difference, seqs)?;
        differ = true;
    }
    Ok(differ)
}

/// Prints the difference of two entries, without those below them.
pub(crate) async fn show(app: &mut App, form: &Form, from: &Side<'_>, to: &Side<'_>) -> Result {
    match from.difference(to, form.parts()).await? {
        Some(difference) => print(app, form, &difference, [from.seq(), to.seq()]),
        None => Ok(()),
    }
}

fn print(app: &mut App, form: &Form, difference: &Difference, [from, to]: [Seq; 2]) -> Result {
    let path = escaped(difference.path.as_str());
    let (change, sign) = words(difference.change);
    let mut json = json!({"path": difference.path.as_str(), "change": change});
    if let Some(from_path) = &difference.from_path {
        json["from_path"] = from_path.as_str().into();
    }
    if form.name_status {
        return app.out.item(&json, format_args!("{sign}  {path}"));
    }
    json["from"] = json!(from);
    json["to"] = json!(to);
    json["attributes"] = json!(difference.attributes);
    let Some(content) = &difference.content else {
        return app.out.item(&json, format_args!("{}: {path}", without_lines(difference)));
    };
    // A unified diff has no form for changes of attributes.
    if !difference.attributes.is_empty() && !form.stat {
        app.out.note(format_args!("{} changed: {path}", difference.attributes.join(", ")))?;
    }
    print_content(app, form, (difference, content), [from, to], json)
}

fn words(change: Change) -> (&'static str, char) {
    match change {
        Change::Added => ("added", 'A'),
        Change::Removed => ("removed", 'D'),
        Change::Changed => ("changed", 'M'),
    }
}

/// Returns the description of a difference that is not one of lines.
fn without_lines(difference: &Difference) -> String {
    let change = words(difference.change).0;
    match difference.kinds {
        [Some(old), Some(new)] if old != new => format!("{} became {}", kind_word(old), kind_word(new)),
        [Some(_), Some(_)] => format!("{} changed", difference.attributes.join(", ")),
        [Some(kind), None] | [None, Some(kind)] => format!("{} {change}", kind_word(kind)),
        [None, None] => change.to_owned(),
    }
}

fn print_content(
    app: &mut App,
    form: &Form,
    (difference, content): (&Difference, &ContentDifference),
    seqs: [Seq; 2],
    mut json: Value,
) -> Result {
    let path = escaped(difference.path.as_str());
    let ContentDifference::Lines { added, removed, hunks, .. } = content else {
        let binary = *content == ContentDifference::Binary;
        json["binary"] = binary.into();
        json["diff"] = Value::Null;
        let what = match content {
            ContentDifference::Binary => "binary files differ",
            ContentDifference::Gone => "files differ, and the content of one is no longer stored",
            _ => "files too long to compare by line differ",
        };
        return app.out.item(&json, format_args!("{what}: {path}"));
    };
    json["binary"] = false.into();
    if form.stat {
        json["added"] = (*added).into();
        json["removed"] = (*removed).into();
        return app.out.item(&json, format_args!("{added:>6} + {removed:>6} -  {path}"));
    }
    let text = if hunks.is_empty() { String::new() } else { format!("{}{hunks}", headers(difference, seqs)) };
    if app.out.is_json() {
        json["diff"] = text.into();
        return app.out.item(&json, "");
    }
    if text.is_empty() {
        // An empty file and a missing one have the same lines.
        return app.out.note(format_args!("empty file {}: {path}", words(difference.change).0));
    }
    app.out.bytes(text.as_bytes())
}

/// Returns the two lines before the hunks.
fn headers(difference: &Difference, [from, to]: [Seq; 2]) -> String {
    let of = |path: &str, seq: Seq, is_there: bool| {
        if is_there { format!("{} at {seq}", escaped(path)) } else { "/dev/null".to_owned() }
    };
    let path = &difference.path;
    let old = difference.from_path.as_ref().unwrap_or(path);
    let old = of(old.as_str(), from, difference.change != Change::Added);
    let new = of(path.as_str(), to, difference.change != Change::Removed);
    format!("--- {old}\n+++ {new}\n")
}
