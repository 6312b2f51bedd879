//! `garth outbox`: waiting and failed events of memories.

pub(crate) mod sink;

use std::sync::Arc;

use clap::{Args, Subcommand};
use futures::future::{Either, select};
use garth_agent::memory::{Event, Prefix};
use garth_agent::outbox::{
    self, Count, Listed, Options, Progress, Retried, Sink, Worker, counters, drop_event, resend, retry,
};
use garth_engine::model::FindCursor;
use garth_engine::{Error, ErrorKind, FileSystem, TreePath};
use garth_server::Limits;
use garth_server::outbox::Courier;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use self::sink::SinkArgs;
use crate::app::App;
use crate::escape::escaped;
use crate::fail::{Failure, Result};
use crate::out::counted;

/// Deliver, list, retry and remove events of memories
///
/// Each change of a memory creates an event for external indexes. `garth serve` delivers the events of all
/// accounts; these commands do so without a server, and show waiting and failed events.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  garth outbox status\n  garth outbox run --once --sink https://example.com/events --sink-secret-file secret"
)]
pub(crate) struct Outbox {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Deliver events until stopped; without --sink they are removed undelivered
    ///
    /// With --json and --once one object: finished, superseded, put_off, given_up, next.
    #[command(
        after_help = "Example:\n  garth outbox run --once --sink https://example.com/events --sink-secret-file secret"
    )]
    Run {
        #[command(flatten)]
        sink: SinkArgs,
        /// Deliver the due events, then exit
        #[arg(long)]
        once: bool,
    },
    /// Count waiting and failed events, up to 10,000 each
    ///
    /// With --json, prints one object: waiting, waiting_more, oldest, failed, failed_more.
    #[command(after_help = "Example:\n  garth outbox status --json")]
    Status,
    /// List events: the failed ones, then the waiting ones by due time
    ///
    /// With --json, prints one object per event: path, failed and the event's fields without its payload, or
    /// error for a file that is not an event.
    #[command(alias = "ls", after_help = "Example:\n  garth outbox list --failed")]
    List {
        /// List only failed events
        #[arg(long)]
        failed: bool,
    },
    /// Retry an event that failed or waits for its next attempt
    ///
    /// If its memory has changed since, new events with its current state replace the event. With --json,
    /// prints one object per event: event_id, retried (`retried` or `recreated`).
    #[command(after_help = "Example:\n  garth outbox retry --all")]
    Retry {
        /// Id of the event
        #[arg(value_name = "ID", required_unless_present = "all")]
        id: Option<String>,
        /// Retry all failed events
        #[arg(long, conflicts_with = "id")]
        all: bool,
    },
    /// Create new events for every memory below a prefix, to fill an index
    ///
    /// With --json, prints one object: memories.
    #[command(after_help = "Example:\n  garth outbox resend ctx://default/users/alice")]
    Resend {
        /// Beginning of the URIs, in complete segments [default: all of the account]
        #[arg(value_name = "PREFIX-URI")]
        prefix: Option<String>,
    },
    /// Remove an event; it is not delivered
    #[command(
        alias = "delete",
        after_help = "Example:\n  garth outbox rm 0198c0de-5d2f-7e0a-9a51-2f4a3c1b7d10"
    )]
    Rm {
        /// Id of the event; for a file that is not an event, its name without .json
        #[arg(value_name = "ID")]
        id: String,
    },
}

impl Outbox {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        app.no_tree("outbox")?;
        let (account, env) = (app.global.account.clone(), app.env.clone());
        let tree = app.account_of(&*app.home().await?).await?;
        let fs: &dyn FileSystem = &*tree;
        match self.action {
            Action::Run { sink, once: true } => {
                let (sink, _) = sink.open(app)?;
                let mut worker = Worker::new(env, account, Options::default());
                let progress = worker.run_out(fs, sink.as_deref()).await?;
                show_progress(app, &progress)
            }
            Action::Run { sink, once: false } => run_on(app, sink).await,
            Action::Status => status(app, fs).await,
            Action::List { failed } => list(app, fs, failed).await,
            Action::Retry { id: Some(id), .. } => {
                let retried = retry(fs, &env, &account, &id).await?;
                show_retried(app, &id, retried)
            }
            Action::Retry { id: None, .. } => retry_all(app, fs).await,
            Action::Resend { prefix } => {
                let below = below(&account, prefix.as_deref())?;
                let (mut memories, mut after) = (0, None);
                loop {
                    let (told, next) = resend(fs, &env, &account, &below, after).await?;
                    memories += told;
                    after = next;
                    if after.is_none() {
                        let text = format!("{} sent again", counted(memories as u64, "memory", "memories"));
                        return app.out.item(&json!({"memories": memories}), text);
                    }
                }
            }
            Action::Rm { id } => Ok(drop_event(fs, &env, &account, &id).await?),
        }
    }
}

/// Returns the directory of a prefix.
fn below(account: &str, prefix: Option<&str>) -> Result<TreePath> {
    let Some(prefix) = prefix else { return Ok(TreePath::root()) };
    let (of, prefix) = Prefix::parse(prefix)?;
    if of != account {
        let message = format!("the prefix belongs to another account; this one is {}", escaped(account));
        return Err(Error::new(ErrorKind::AccessDenied, message).into());
    }
    Ok(match prefix {
        Prefix::Account => TreePath::root(),
        Prefix::Below(dir) => dir,
    })
}

/// Delivers events until a signal arrives.
async fn run_on(app: &App, sink: SinkArgs) -> Result {
    let (sink, limits): (Option<Arc<dyn Sink>>, Limits) = sink.open(app)?;
    // Registered before the courier starts, so that a signal during its start stops it, too.
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::stdio)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::stdio)?;
    let (stop, stopping) = watch::channel(false);
    let courier = Courier::new(app.home().await?, sink).limits(&limits).only(&app.global.account);
    let running = tokio::spawn(courier.run(stopping));
    let (interrupt, terminate) = (std::pin::pin!(interrupt.recv()), std::pin::pin!(terminate.recv()));
    match select(interrupt, terminate).await {
        Either::Left(_) | Either::Right(_) => stop.send_replace(true),
    };
    // It does not panic. If it did, its leases would end after a minute.
    let _ = running.await;
    Ok(())
}

fn show_progress(app: &mut App, progress: &Progress) -> Result {
    let next = progress.next.map(garth_engine::model::Timestamp::to_rfc3339);
    let Progress { finished, superseded, put_off, given_up, .. } = *progress;
    let json = json!({
        "finished": finished, "superseded": superseded, "put_off": put_off, "given_up": given_up,
        "next": next,
    });
    let rest = next.map(|next| format!("; the next is due at {next}")).unwrap_or_default();
    let text =
        format!("{finished} finished, {superseded} superseded, {put_off} put off, {given_up} given up{rest}");
    app.out.item(&json, text)
}

async fn status(app: &mut App, fs: &dyn FileSystem) -> Result {
    let count = counters(fs).await?;
    let oldest = count.oldest.map(garth_engine::model::Timestamp::to_rfc3339);
    let json = json!({
        "waiting": count.waiting.events, "waiting_more": count.waiting.more, "oldest": oldest,
        "failed": count.failed.events, "failed_more": count.failed.more,
    });
    let shown = |count: Count| format!("{}{}", count.events, if count.more { " or more" } else { "" });
    let oldest = oldest.map(|oldest| format!(", the oldest from {oldest}")).unwrap_or_default();
    let text = format!("waiting  {}{oldest}\nfailed   {}", shown(count.waiting), shown(count.failed));
    app.out.item(&json, text)
}

async fn list(app: &mut App, fs: &dyn FileSystem, failed: bool) -> Result {
    let (account, mut after): (String, Option<FindCursor>) = (app.global.account.clone(), None);
    loop {
        let page = outbox::list(fs, &account, failed, after).await?;
        for listed in &page.items {
            app.out.item(&listed_json(listed), listed_text(listed))?;
        }
        after = page.next;
        if after.is_none() {
            return Ok(());
        }
    }
}

fn listed_json(listed: &Listed) -> Value {
    let mut json = match &listed.event {
        Ok(event) => serde_json::to_value(event).unwrap_or_default(),
        Err(why) => json!({"error": why}),
    };
    if let Some(fields) = json.as_object_mut() {
        fields.remove("payload");
        fields.insert("path".to_owned(), listed.path.as_str().into());
        fields.insert("failed".to_owned(), listed.is_failed.into());
    }
    json
}

fn listed_text(listed: &Listed) -> String {
    let kind = |event: &Event| {
        let json = serde_json::to_value(event.event_type).unwrap_or_default();
        json.as_str().unwrap_or_default().to_owned()
    };
    let state = if listed.is_failed { "failed " } else { "waiting" };
    match &listed.event {
        Ok(event) => {
            let tries = counted(event.retry_count.into(), "failure", "failures");
            let why = event.last_error.as_deref().map(|why| format!("  {}", escaped(why)));
            let why = why.unwrap_or_default();
            format!("{state}  {}  {:<15}  {}  {tries}{why}", event.event_id, kind(event), escaped(&event.uri))
        }
        // A file that is not an event has no id, so its path names it.
        Err(why) => format!("{state}  {}  {}", escaped(listed.path.as_str()), escaped(why)),
    }
}

fn show_retried(app: &mut App, id: &str, retried: Retried) -> Result {
    let (word, text) = match retried {
        Retried::Again => ("retried", "waits again"),
        Retried::Anew => ("recreated", "replaced: new events have the current state"),
    };
    app.out.item(&json!({"event_id": id, "retried": word}), format!("{id}  {text}"))
}

/// Retries all failed events. A file that is not an event is left for removal or repair by hand.
async fn retry_all(app: &mut App, fs: &dyn FileSystem) -> Result {
    let (account, env, mut after) = (app.global.account.clone(), app.env.clone(), None);
    loop {
        let page = outbox::list(fs, &account, true, after).await?;
        for event in page.items.into_iter().filter_map(|listed| listed.event.ok()) {
            match retry(fs, &env, &account, &event.event_id).await {
                Ok(retried) => show_retried(app, &event.event_id, retried)?,
                // Another process has finished or changed the event.
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
        after = page.next;
        if after.is_none() {
            return Ok(());
        }
    }
}
