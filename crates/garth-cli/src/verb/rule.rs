//! `garth rule`: constraints on the files of an account.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use garth_engine::fs::store::SetRuleResult;
use garth_engine::rule::schema::MAX_SCHEMA;
use garth_engine::rule::{Constraint, FileViolation, PathPattern, Rule as TreeRule};
use garth_engine::{AccountStore, Error, ErrorKind};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::app::App;
use crate::escape::escaped;
use crate::fail::{Failure, Result, json_error};
use crate::size::parse_size;

/// Set, list and remove rules: constraints on the files that match a pattern
///
/// In a pattern, `*` (any bytes) and `?` (one byte) stay inside a name, `**` crosses
/// directories. Every commit is checked, from every interface: one that violates a
/// rule is refused as a whole. Constraints:
///
///   json            the content is one JSON value, with --schema a valid one
///   json-lines      each line is one JSON value
///   append-only     a file only grows at its end, and cannot be removed
///   read-only       names and contents stay, except for the keys of --except
///   not-in-sessions read-only for commits of sessions
///   max-size        a file has at most --bytes
///   not-searchable  search does not show the file
///   secrets         --policy refuse: no text may look like a secret; allow: such
///                   text is shown as it is, without a mark in its place
///
/// With --json, prints one object per rule: pattern, rule, terms, built_in; of `set` also
/// set, and before it one object per path that violates the rule: path, reason.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "Examples:\n  garth rule set '/logs/**/*.jsonl' json-lines\n  garth rule set '/uploads/**' max-size --bytes 10M"
)]
pub(crate) struct Rule {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Set a rule, in force from the next commit
    ///
    /// Fails if existing files violate the rule, and lists the first 100 of them; --force sets it anyway.
    #[command(after_help = "Example:\n  garth rule set '/logs/**' append-only")]
    Set {
        /// Glob pattern, such as /logs/**
        #[arg(id = "paths", value_name = "PATTERN")]
        pattern: String,
        /// Constraint
        #[arg(value_name = "RULE", value_parser = Constraint::NAMES)]
        constraint: String,
        #[command(flatten)]
        terms: Terms,
        /// Set the rule even if existing files violate it; they stay until they are changed
        #[arg(long)]
        force: bool,
    },
    /// List the rules, including the built-in ones
    #[command(alias = "ls", after_help = "Example:\n  garth rule list")]
    List,
    /// Remove a rule
    #[command(alias = "delete", after_help = "Example:\n  garth rule rm '/logs/**' append-only")]
    Rm {
        /// Glob pattern, as listed
        #[arg(id = "paths", value_name = "PATTERN")]
        pattern: String,
        /// Constraint
        #[arg(value_name = "RULE", value_parser = Constraint::NAMES)]
        constraint: String,
    },
}

#[derive(Args, Debug)]
struct Terms {
    /// JSON Schema for json and json-lines
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Field whose values must be unique, for json-lines
    #[arg(long, value_name = "FIELD")]
    unique: Option<String>,
    /// Size limit, for max-size
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    bytes: Option<u64>,
    /// Id of a key that may still write, for read-only (repeatable)
    #[arg(long, value_name = "KEY")]
    except: Vec<String>,
    /// Policy for text that looks like a secret, for secrets: refuse or allow
    #[arg(long, value_name = "POLICY", value_parser = ["refuse", "allow"])]
    policy: Option<String>,
}

impl Rule {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        app.no_tree("rule")?;
        match self.action {
            Action::Set { pattern, constraint, terms, force } => {
                let rule = TreeRule::new(PathPattern::parse(&pattern)?, constraint_of(&constraint, &terms)?);
                let account = app.account_of(&*app.home_of_account().await?).await?;
                set(app, &*account, rule, force).await
            }
            Action::List => {
                let account = app.account_of(&*app.home().await?).await?;
                let mut rules = account.rules().await?;
                rules.sort_by(|one, other| one.pattern().as_str().cmp(other.pattern().as_str()));
                rules.iter().try_for_each(|rule| app.out.item(&rule_json(rule), rule_text(rule)))
            }
            Action::Rm { pattern, constraint } => {
                let account = app.account_of(&*app.home().await?).await?;
                let pattern = PathPattern::parse_stored(&pattern)?;
                if account.remove_rule(&pattern, &constraint).await? {
                    return Ok(());
                }
                let message = format!(
                    "{}: there is no rule `{constraint}` for it; see `garth rule list`",
                    pattern.as_str()
                );
                Err(Error::new(ErrorKind::NotFound, message).into())
            }
        }
    }
}

/// Terms as they are given: the text of a schema is kept.
#[derive(Serialize)]
struct RuleTerms<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unique: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    except: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'a str>,
}

fn constraint_of(constraint: &str, terms: &Terms) -> Result<Constraint> {
    let text = terms.schema.as_deref().map(schema_text).transpose()?;
    let schema = match (&text, &terms.schema) {
        (Some(text), Some(file)) => Some(serde_json::from_str(text).map_err(|error| {
            Failure::Usage(format!("{}: not valid JSON: {}", file.display(), json_error(&error)))
        })?),
        _ => None,
    };
    let Terms { unique, bytes, except, policy, .. } = terms;
    let given =
        RuleTerms { schema, unique: unique.as_deref(), bytes: *bytes, except, policy: policy.as_deref() };
    let given = serde_json::to_string(&given).map_err(|error| Failure::Usage(error.to_string()))?;
    Ok(Constraint::parse(constraint, &given)?)
}

/// Reads a schema, but not more of a file than a schema may have.
fn schema_text(file: &Path) -> Result<String> {
    let mut text = String::new();
    let opened = File::open(file).map_err(Failure::host(file))?;
    // One more byte shows that the schema is too long.
    opened.take(MAX_SCHEMA as u64 + 1).read_to_string(&mut text).map_err(Failure::host(file))?;
    if text.len() > MAX_SCHEMA {
        let message = format!("{}: a schema may have at most {MAX_SCHEMA} bytes", file.display());
        return Err(Failure::Usage(message));
    }
    Ok(text)
}

async fn set(app: &mut App, account: &dyn AccountStore, rule: TreeRule, force: bool) -> Result {
    let SetRuleResult { set, violations, more } = account.set_rule(rule.clone(), force).await?;
    for FileViolation { path, reason } in &violations {
        let text = format!("{}: {}", escaped(path.as_str()), escaped(reason));
        app.out.item(&json!({"path": path.as_str(), "reason": reason}), text)?;
    }
    let mut json = rule_json(&rule);
    json["set"] = set.into();
    if set {
        return app.out.item(&json, rule_text(&rule));
    }
    let count = if more { "more than these".to_owned() } else { violations.len().to_string() };
    let message = format!(
        "{}: not set: paths that violate the rule `{}`: {count}; repair them, or set the rule with --force",
        rule.pattern().as_str(),
        rule.constraint().name()
    );
    Err(Error::new(ErrorKind::RuleViolation, message).into())
}

fn rule_json(rule: &TreeRule) -> Value {
    let terms: Value = serde_json::from_str(&rule.constraint().terms()).unwrap_or_default();
    let (pattern, constraint) = (rule.pattern().as_str(), rule.constraint().name());
    json!({"pattern": pattern, "rule": constraint, "terms": terms, "built_in": rule.is_built_in()})
}

fn rule_text(rule: &TreeRule) -> String {
    const MOST: usize = 100;
    let terms = match rule.constraint().terms() {
        none if none == "{}" => String::new(),
        long if long.len() > MOST => "  (terms: see --json)".to_owned(),
        short => format!("  {}", escaped(&short)),
    };
    let mark = if rule.is_built_in() { "  (built in)" } else { "" };
    format!("{}  {}{terms}{mark}", escaped(rule.pattern().as_str()), rule.constraint().name())
}
