//! `garth daily`: the daily memory of an agent.

use std::str::FromStr;

use clap::{Args, Subcommand};
use garth_agent::Class;
use garth_agent::workspace::{Day, MAX_DAYS, MAX_FILE, Workspace, run_jobs};
use garth_engine::model::Timestamp;
use garth_engine::{Error, ErrorKind};
use garth_server::chat_model::ServedModel;
use serde_json::json;

use super::open::open;
use crate::app::App;
use crate::escape::escaped;
use crate::fail::{Failure, Result};
use crate::host_text::argument_or_stdin;
use crate::model_args::{ModelArgs, allowance};
use crate::size::parse_count;

/// Add to an agent's daily memory, and read it
///
/// A day is the file /agents/AGENT/memory/YYYY-MM-DD.md; --agent selects the agent. Days follow the time zone
/// in the agent's settings.json. Each section has the class of the session that wrote it: main, or the class
/// that --key, --user, --chat or --session determine. Sessions of the class `main` see all sections, other
/// sessions those of their class.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        garth daily add --agent scout 'Ann likes tea.'\n  \
        garth daily show --agent scout 2026-01-27")]
pub(crate) struct Daily {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Add a section to the memory of a day, under a header with the time
    ///
    /// With --json, prints one object: path, seq.
    #[command(after_help = "Examples:\n  \
            garth daily add 'Ann likes tea.'\n  \
            garth daily add --day 2026-01-26 --key agent:default:slack:channel:C1 - < notes.txt")]
    Add {
        /// Text; - or nothing reads standard input
        text: Option<String>,
        /// Day: a date, today or yesterday
        #[arg(long, value_name = "YYYY-MM-DD", default_value = "today")]
        day: NamedDay,
    },
    /// Print the memory of a day
    ///
    /// If several classes of sessions wrote it, a line before each part names the class. With --json, prints
    /// one object: day, parts (class, text).
    #[command(after_help = "Example:\n  garth daily show 2026-01-27 --key agent:default:slack:channel:C1")]
    Show {
        /// Day: a date, today or yesterday
        #[arg(value_name = "YYYY-MM-DD", default_value = "today")]
        day: NamedDay,
    },
    /// List the days that have a memory
    ///
    /// With --json, prints one object per day: day, bytes.
    #[command(alias = "ls", after_help = "Example:\n  garth daily list --after 2026-01-01 -n 31")]
    List {
        /// Start after this day
        #[arg(long, value_name = "YYYY-MM-DD")]
        after: Option<NamedDay>,
        /// Maximum number of days
        #[arg(short = 'n', long, value_name = "COUNT", value_parser = parse_count::<usize>)]
        limit: Option<usize>,
    },
    /// Run the jobs that wait for a model: memories of sessions that were archived without one
    ///
    /// `garth session archive` leaves a job in /.outbox/jobs if its model does not answer; `garth serve`
    /// with a model runs such jobs by itself. This command runs the due jobs of all agents of the account.
    /// With --json, prints one object: done, failed (moved to /.outbox/jobs/dlq), next (time of the next
    /// retry).
    #[command(after_help = "Example:\n  \
            garth daily jobs --model-endpoint http://localhost:11434/v1 --model llama3.2")]
    Jobs {
        #[command(flatten)]
        model: ModelArgs,
    },
}

impl Daily {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        match self.action {
            Action::Add { text, day } => {
                let text = argument_or_stdin(text, MAX_FILE, "text of a daily memory")?;
                let open = open(app, true).await?;
                let workspace = open.workspace()?;
                let day = match day {
                    // The day of the commit, which may be later than now.
                    NamedDay::Today => None,
                    other => Some(other.of(&workspace, app.env.now()).await?),
                };
                let done = workspace.add_daily(day, &text).await?;
                let json = json!({"path": done.path, "seq": done.seq});
                app.out.item(&json, format_args!("remembered  {}", escaped(done.path.as_str())))
            }
            Action::Show { day } => show(app, day).await,
            Action::List { after, limit } => days(app, after, limit.unwrap_or(usize::MAX)).await,
            Action::Jobs { model } => jobs(app, model).await,
        }
    }
}

/// Day as people name it.
#[derive(Clone, Copy, Debug)]
enum NamedDay {
    Today,
    Yesterday,
    Date(Day),
}

impl FromStr for NamedDay {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "today" => Ok(Self::Today),
            "yesterday" => Ok(Self::Yesterday),
            date => {
                let day = date.parse().map(Self::Date);
                day.map_err(|error: Error| format!("{}, today or yesterday", error.message()))
            }
        }
    }
}

impl NamedDay {
    /// Returns the date, in the time zone of the agent.
    async fn of(self, workspace: &Workspace<'_>, now: Timestamp) -> Result<Day> {
        Ok(match self {
            Self::Today => workspace.day_of(now).await?,
            Self::Yesterday => workspace.day_of(now).await?.before(),
            Self::Date(day) => day,
        })
    }
}

async fn show(app: &mut App, day: NamedDay) -> Result {
    let open = open(app, false).await?;
    let workspace = open.workspace()?;
    let day = day.of(&workspace, app.env.now()).await?;
    let Some(parts) = workspace.daily(day).await? else {
        let message = format!("{day}: no memory of this day; `garth daily list` lists the days");
        return Err(Failure::Tree(Error::new(ErrorKind::NotFound, message)));
    };
    if app.out.is_json() {
        let json: Vec<_> = parts.iter().map(|part| json!({"class": part.class, "text": part.text})).collect();
        return app.out.item(&json!({"day": day.to_string(), "parts": json}), "");
    }
    let mixed = parts.iter().any(|part| Some(&part.class) != parts.first().map(|first| &first.class));
    for part in &parts {
        if mixed {
            let class = part.class.map_or("unknown", Class::as_str);
            app.out.note(format_args!("<!-- class: {} -->", escaped(class)))?;
        }
        let end = if part.text.ends_with('\n') { "" } else { "\n" };
        app.out.bytes(format!("{}{end}", part.text).as_bytes())?;
    }
    Ok(())
}

async fn days(app: &mut App, after: Option<NamedDay>, mut left: usize) -> Result {
    let open = open(app, false).await?;
    let workspace = open.workspace()?;
    let mut after = match after {
        Some(day) => Some(day.of(&workspace, app.env.now()).await?),
        None => None,
    };
    while left > 0 {
        let (days, next) = workspace.list_daily(after, left.min(MAX_DAYS)).await?;
        for found in &days {
            let json = json!({"day": found.day.to_string(), "bytes": found.bytes});
            app.out.item(&json, format_args!("{}  {:>8}", found.day, found.bytes))?;
        }
        left -= days.len();
        if next.is_none() {
            break;
        }
        after = next;
    }
    Ok(())
}

async fn jobs(app: &mut App, model: ModelArgs) -> Result {
    app.only_account("daily jobs")?;
    let model = model.open(app)?;
    let allowance = allowance(app, model.as_ref()).await?;
    let Some(asking) = ServedModel::asking(model.as_ref(), allowance.as_ref()) else {
        let message = "a job needs a model: name one with --model-endpoint and --model";
        return Err(Failure::Usage(message.to_owned()));
    };
    let open = open(app, true).await?;
    let looked = run_jobs(open.fs(), &app.env, asking).await?;
    let next = looked.next.map(|at| at.to_rfc3339());
    let json = json!({"done": looked.done, "failed": looked.failed, "next": next});
    let next = next.map_or_else(String::new, |at| format!(", next retry at {at}"));
    app.out.item(&json, format_args!("done  {}, failed {}{next}", looked.done, looked.failed))
}
