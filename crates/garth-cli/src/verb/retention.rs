//! `garth retention`: how much of its past an account keeps, and how much it stores.

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use garth_engine::fs::store::{Hold, RetentionState};
use garth_engine::model::Timestamp;
use garth_engine::rule::PathPattern;
use garth_engine::rule::retention::{ContentLimit, Retention as Limits};
use garth_engine::{AccountStore, Error, ErrorKind, Home};
use serde_json::{Value, json};

use crate::app::App;
use crate::escape::escaped;
use crate::fail::{Failure, Result};
use crate::out::{counted, seconds};
use crate::size::{parse_count, parse_size, size_text};
use crate::when::parse_span_with_unit;

/// Age below which `set` asks for --force: what has begun to read the past needs it for a while.
const MIN_AGE: u64 = 600;
/// Number of commits below which it does, for the same reason.
const MIN_COMMITS: u64 = 1000;
/// Limit on the attempts of a change. In each one that fails another administrator succeeded.
const MAX_ATTEMPTS: usize = 8;
/// Stored bytes of an account without files, at most: a limit below them is always exceeded.
const EMPTY: u64 = 300_000;

/// Show and set how much of its past the account keeps, and how much it stores
///
/// Without limits, every version of every file stays. With them, `garth gc` removes older versions for good;
/// the oldest state that stays is complete. Snapshots and overlays keep the states that they show. A new
/// account begins with limits on the old content of outboxes and some files of sessions.
///
/// Prints the limits (age, commits, max stored), `oldest` (the first commit whose state is readable), `held
/// by` (the first snapshot, overlay or reader of the past that keeps it from going, if any), and a line
/// `content` for each path class: how long replaced content stays, or `off`, and the pattern.
///
/// With --json, prints one object: age_seconds, commits, max_stored (null if not limited), content (pattern
/// and keep_seconds of each path class), oldest (the first commit whose state is readable; 0 if all are),
/// oldest_time, folded (the commit up to which older versions are removed), held_by (kind and name of the
/// first thing that keeps these from rising, and owner of a snapshot of an agent, key or view; or null),
/// over_limit (stored bytes beyond max_stored), without_file (path classes that are one path at which no file
/// is, so that they match nothing now).
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  garth retention set --age 30d --max-stored 10G",
    args_conflicts_with_subcommands = true
)]
pub(crate) struct Retention {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Show the limits and their effect (the default)
    #[command(alias = "get", after_help = "Example:\n  garth retention show")]
    Show,
    /// Set limits; those that are not given stay
    ///
    /// The limit on the stored bytes holds from the next commit on. If more is stored, the output says how
    /// much. Older versions are removed by the next `garth gc`, and do not come back.
    #[command(after_help = "Examples:\n  garth retention set --age 30d --commits 1000000\n  \
                      garth retention set --max-stored none")]
    Set {
        /// Keep the commits of this time, such as 12h or 30d; `none` keeps all
        #[arg(long, value_name = "DURATION", value_parser = parse_age, allow_hyphen_values = true)]
        age: Option<Limit>,
        /// Keep this number of commits; `none` keeps all. With --age, the limit that keeps less counts
        #[arg(long, value_name = "COUNT", value_parser = parse_commits, allow_hyphen_values = true)]
        commits: Option<Limit>,
        /// Maximum of stored bytes, such as 10G; `none` for no limit
        #[arg(long, value_name = "SIZE", value_parser = parse_stored, allow_hyphen_values = true)]
        max_stored: Option<Limit>,
        /// Allow an age below 10m and fewer than 1,000 commits, which take the past from what reads it now
        #[arg(long)]
        force: bool,
    },
    /// Limit how long replaced content of the files of a path class stays readable
    ///
    /// Versions, names and attributes stay in the log; only the content ends. The next `garth gc` removes it,
    /// and it does not come back. Of several classes that match a path the strictest one counts; of several
    /// paths of a file, the most generous one.
    #[command(after_help = "Examples:\n  garth retention class '/logs/**' --keep 1d\n  \
                      garth retention class '/cache/**' --keep off")]
    Class {
        /// Glob pattern of paths, in quotes
        #[arg(id = "paths", value_name = "PATTERN")]
        pattern: String,
        /// Time after the replacement, such as 12h or 30d; `off` keeps no old content
        #[arg(long, value_name = "DURATION", value_parser = parse_keep, allow_hyphen_values = true)]
        keep: u64,
    },
    /// Remove the limit of a path class
    #[command(alias = "delete", after_help = "Example:\n  garth retention rm '/logs/**'")]
    Rm {
        /// Glob pattern, as shown
        #[arg(id = "paths", value_name = "PATTERN")]
        pattern: String,
    },
}

/// Limit, or none.
#[derive(Clone, Copy, Debug)]
enum Limit {
    None,
    At(u64),
}

impl Limit {
    fn number(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::At(number) => Some(number),
        }
    }

    fn parse(
        text: &str,
        parse: impl FnOnce(&str) -> std::result::Result<u64, String>,
    ) -> std::result::Result<Self, String> {
        if text.eq_ignore_ascii_case("none") {
            return Ok(Self::None);
        }
        let number = not_negative(text).and_then(parse);
        number.map(Self::At).map_err(|reason| format!("{reason}; `none` removes the limit"))
    }
}

/// Refuses a negative number in words of its own: those of the parsers name the forms of positive ones.
fn not_negative(text: &str) -> std::result::Result<&str, String> {
    match text.strip_prefix('-') {
        Some(number) if number.starts_with(|first: char| first.is_ascii_digit()) => {
            Err(format!("`{text}` is negative; write 0 or more"))
        }
        _ => Ok(text),
    }
}

fn parse_age(text: &str) -> std::result::Result<Limit, String> {
    Limit::parse(text, |text| Ok(parse_span_with_unit(text)?.unsigned_abs()))
}

fn parse_commits(text: &str) -> std::result::Result<Limit, String> {
    Limit::parse(text, parse_count::<u64>)
}

fn parse_stored(text: &str) -> std::result::Result<Limit, String> {
    Limit::parse(text, parse_size)
}

fn parse_keep(text: &str) -> std::result::Result<u64, String> {
    if text.eq_ignore_ascii_case("off") {
        return Ok(0);
    }
    let seconds = not_negative(text).and_then(parse_span_with_unit).map_err(|reason| {
        format!("{reason}; `off` keeps no old content, and `garth retention rm` removes the limit")
    })?;
    Ok(seconds.unsigned_abs())
}

impl Retention {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        app.no_tree("retention")?;
        let state = match self.action.unwrap_or(Action::Show) {
            Action::Show => account_of(app, &*app.home().await?).await?.retention().await?,
            Action::Set { age, commits, max_stored, force } => {
                check(age, commits, max_stored, force)?;
                let account = account_of(app, &*app.home_of_account().await?).await?;
                change(&*account, |limits| {
                    if let Some(age) = age {
                        limits.age = age.number().map(Duration::from_secs);
                    }
                    if let Some(commits) = commits {
                        limits.commits = commits.number();
                    }
                    if let Some(max_stored) = max_stored {
                        limits.stored = max_stored.number();
                    }
                    Ok(())
                })
                .await?
            }
            Action::Class { pattern, keep } => {
                let limit =
                    ContentLimit { pattern: PathPattern::parse(&pattern)?, keep: Duration::from_secs(keep) };
                // Before a data folder is created for it.
                Limits { content: vec![limit.clone()], ..Limits::default() }.check()?;
                let account = account_of(app, &*app.home_of_account().await?).await?;
                change(&*account, |limits| {
                    limits.content.retain(|other| other.pattern != limit.pattern);
                    limits.content.push(limit.clone());
                    Ok(())
                })
                .await?
            }
            Action::Rm { pattern } => {
                let account = account_of(app, &*app.home().await?).await?;
                let pattern = PathPattern::parse_stored(&pattern)?;
                change(&*account, |limits| {
                    let before = limits.content.len();
                    limits.content.retain(|limit| limit.pattern != pattern);
                    if limits.content.len() < before {
                        return Ok(());
                    }
                    let message = format!(
                        "{}: no limit is set for this path class; see `garth retention`",
                        pattern.as_str()
                    );
                    Err(Error::new(ErrorKind::NotFound, message).into())
                })
                .await?
            }
        };
        app.out.item(&to_json(&state), to_text(&state))
    }
}

/// Opens the chosen account, and warns if limits on age count from a wrong time.
async fn account_of(app: &App, home: &dyn Home) -> Result<Arc<dyn AccountStore>> {
    let account = app.account_of(home).await?;
    app.warn_of_clock(&app.global.account, &account.head().await?);
    Ok(account)
}

/// Changes the limits, again if another administrator was faster.
async fn change(account: &dyn AccountStore, edit: impl Fn(&mut Limits) -> Result) -> Result<RetentionState> {
    let mut attempts = 0;
    loop {
        let before = account.retention().await?.set;
        let mut limits = before.clone();
        edit(&mut limits)?;
        attempts += 1;
        match account.replace_retention(before, limits).await {
            Err(error) if error.is(ErrorKind::Conflict) && attempts < MAX_ATTEMPTS => {}
            done => return Ok(done?),
        }
    }
}

/// Fails without a limit and for limits that cannot be stored, before a data folder is created for them, and
/// unless they are forced, for those that take the past from what reads it now.
fn check(age: Option<Limit>, commits: Option<Limit>, max_stored: Option<Limit>, force: bool) -> Result {
    if age.is_none() && commits.is_none() && max_stored.is_none() {
        let message = "give a limit: --age, --commits or --max-stored; `garth retention class` limits the old \
                       content of a path class";
        return Err(Failure::Usage(message.to_owned()));
    }
    let number = |limit: Option<Limit>| limit.and_then(Limit::number);
    let is_below = |limit, least| number(limit).is_some_and(|number: u64| number < least);
    if !force && (is_below(age, MIN_AGE) || is_below(commits, MIN_COMMITS)) {
        let message =
            "less than 10m or 1,000 commits take the past from what reads it now; --force sets them anyway";
        return Err(Failure::Usage(message.to_owned()));
    }
    let limits = Limits {
        age: number(age).map(Duration::from_secs),
        commits: number(commits),
        stored: number(max_stored),
        ..Limits::default()
    };
    Ok(limits.check()?)
}

fn to_json(state: &RetentionState) -> Value {
    let Limits { age, commits, stored, content } = &state.set;
    let held_by = state.held_by.as_ref().map(|hold| {
        let (kind, name, owner) = hold_parts(hold);
        json!({"kind": kind, "name": name, "owner": owner})
    });
    let without_file: Vec<&str> = state.without_file.iter().map(PathPattern::as_str).collect();
    json!({
        "age_seconds": age.map(|age| age.as_secs()), "commits": commits, "max_stored": stored,
        "content": classes(content), "oldest": state.oldest,
        "oldest_time": state.oldest_time.map(Timestamp::to_rfc3339),
        "folded": state.folded, "held_by": held_by, "over_limit": state.over_limit(),
        "without_file": without_file,
    })
}

fn classes(limits: &[ContentLimit]) -> Vec<Value> {
    let class = |limit: &ContentLimit| {
        let (pattern, seconds) = (limit.pattern.as_str(), limit.keep.as_secs());
        json!({"pattern": pattern, "keep_seconds": seconds})
    };
    limits.iter().map(class).collect()
}

/// Returns the kind of a hold, its name, and the owner of a snapshot unless that is the account.
fn hold_parts(hold: &Hold) -> (&'static str, Option<&str>, Option<String>) {
    match hold {
        Hold::Snapshot { owner, name } => ("snapshot", Some(name), owner.as_ref().map(ToString::to_string)),
        Hold::Fork { id } => ("overlay", Some(id), None),
        Hold::Reader => ("reader", None, None),
    }
}

/// Returns the text of a hold.
fn hold_text(hold: &Hold) -> String {
    let (kind, name, owner) = hold_parts(hold);
    let name = name.map_or_else(String::new, |name| format!(" {}", escaped(name)));
    let owner = owner.map_or_else(String::new, |owner| format!(" of {}", escaped(&owner)));
    format!("{kind}{name}{owner}")
}

fn to_text(state: &RetentionState) -> String {
    let Limits { age, commits, stored, content } = &state.set;
    let none = || "no limit".to_owned();
    let class = |limit: &ContentLimit| {
        let keep = if limit.keep.is_zero() { "off".to_owned() } else { span_text(limit.keep) };
        let pattern = escaped(limit.pattern.as_str());
        let warning = match state.without_file.contains(&limit.pattern) {
            true => format!("  (no file has this path; for files in a directory, write {pattern}/**)"),
            false => String::new(),
        };
        format!("\ncontent     {keep}  {pattern}{warning}")
    };
    let classes: String = content.iter().map(class).collect();
    let oldest = match state.oldest_time {
        Some(time) => format!("commit {} of {}", state.oldest, seconds(time)),
        None => "all commits are readable".to_owned(),
    };
    let held =
        state.held_by.as_ref().map_or_else(String::new, |hold| format!("\nheld by     {}", hold_text(hold)));
    let over = over_text(state);
    format!(
        "age         {}\ncommits     {}\nmax stored  {}\noldest      {oldest}{held}{classes}{over}",
        age.map_or_else(none, span_text),
        commits.map_or_else(none, |commits| commits.to_string()),
        stored.map_or_else(none, |stored| size_text(stored, true)),
    )
}

/// Returns lines on an account that stores more than its limit, and how to make room.
fn over_text(state: &RetentionState) -> String {
    let over = match state.over_limit() {
        0 => return String::new(),
        over => counted(over, "byte", "bytes"),
    };
    let empty = match state.set.stored {
        Some(limit) if limit < EMPTY => "\nAn account without files takes up to 300 KB: set a higher limit.",
        _ => "",
    };
    format!(
        "\nThe account stores {over} more than its limit: commits that add something fail. Remove what is not \
         needed,\nset an age or number, and run `garth gc` until it is gone; or raise --max-stored.{empty}"
    )
}

/// Returns a time in its largest unit that is exact: `30d`, `90m`.
pub(super) fn span_text(span: Duration) -> String {
    let seconds = span.as_secs();
    let units = [(86_400, "d"), (3600, "h"), (60, "m")];
    let exact = units.into_iter().find(|(unit, _)| seconds > 0 && seconds.is_multiple_of(*unit));
    exact.map_or_else(|| format!("{seconds}s"), |(unit, name)| format!("{}{name}", seconds / unit))
}

#[cfg(test)]
mod tests {
    use garth_engine::model::Seq;

    use super::*;

    #[test]
    fn account_over_its_limit_is_told_how_to_make_room() {
        let state = |limit: u64, over: u64| RetentionState {
            set: Limits { stored: Some(limit), ..Limits::default() },
            oldest: Seq(0),
            oldest_time: None,
            folded: Seq(0),
            stored: limit + over,
            full: true,
            held_by: None,
            without_file: Vec::new(),
        };
        assert_eq!(over_text(&state(EMPTY, 0)), "");
        let said = over_text(&state(EMPTY, 1));
        assert!(said.contains("stores 1 byte more than its limit") && !said.contains("300 KB"), "{said}");
        assert!(over_text(&state(0, 5)).contains("takes up to 300 KB"));
        assert!(to_text(&state(0, 5)).contains("\nThe account stores 5 bytes more"));
        assert_eq!(to_json(&state(0, 5))["over_limit"], 5);
    }

    #[test]
    fn refused_values_name_the_accepted_words() {
        for off in ["off", "Off", "OFF", "0", "0d"] {
            assert_eq!(parse_keep(off), Ok(0), "{off}");
        }
        assert_eq!(parse_keep("7d"), Ok(604_800));
        for wrong in ["none", "7", "-7d", "soon", ""] {
            let said = parse_keep(wrong).unwrap_err();
            assert!(said.contains("`off`") && said.contains("`garth retention rm`"), "{wrong}: {said}");
        }
        assert!(parse_keep("7").unwrap_err().starts_with("`7` has no unit; write 7s, 7m, 7h or 7d"));
        for parse in [parse_age, parse_commits, parse_stored] {
            for none in ["none", "None", "NONE"] {
                assert_eq!(parse(none).unwrap().number(), None);
            }
            assert_eq!(parse("0").unwrap().number(), Some(0));
            for wrong in ["off", "-1", ""] {
                let said = parse(wrong).unwrap_err();
                assert!(said.contains("`none`"), "{wrong}: {said}");
            }
            assert!(parse("-1").unwrap_err().starts_with("`-1` is negative"));
        }
        assert!(parse_age("7").unwrap_err().contains("write 7s, 7m, 7h or 7d"));
    }

    #[test]
    fn spans_are_shown_in_their_largest_exact_unit() {
        let shown = |seconds| span_text(Duration::from_secs(seconds));
        assert_eq!([0, 59, 5400, 7200, 2_592_000].map(shown), ["0s", "59s", "90m", "2h", "30d"]);
    }
}
