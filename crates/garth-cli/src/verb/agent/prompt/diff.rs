//! `garth agent prompt diff`: the difference between two prompts.

use clap::Args;
use garth_agent::files::unified;
use garth_agent::workspace::{Changed, Inputs, Prompt};
use serde_json::{Value, json};

use super::super::named::name_agent;
use super::inputs::InputArgs;
use crate::app::App;
use crate::escape::escaped;
use crate::fail::Result;
use crate::verb::open::open;

/// Lines of context around differences.
const CONTEXT: usize = 3;

/// Compare the prompts of two times: added, removed and changed parts
///
/// The newer prompt is the current one, or that of --to. Options select the audience as for `garth agent
/// prompt`; no event is recorded. Inputs that are not given are those of the older prompt.
///
/// With --json, prints one object: from and to (seq, clock, sha256), added and removed (parts), changed
/// (from, to, diff), tokens, bytes, common_bytes (the prefix that a model's cache keeps).
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        garth agent prompt diff scout --from yesterday --user ann --session work\n  \
        garth agent prompt diff scout --from 120 --to 140 --clock 2026-01-27T09:30:00Z")]
pub(crate) struct Diff {
    /// Name of the agent [default: that of --agent]
    name: Option<String>,
    /// Time of the older prompt: a sequence, a snapshot, a time or an age
    #[arg(long, value_name = "SEQUENCE|TIME|NAME")]
    from: String,
    /// Time of the newer prompt [default: now]
    #[arg(long, value_name = "SEQUENCE|TIME|NAME")]
    to: Option<String>,
    #[command(flatten)]
    inputs: InputArgs,
}

impl Diff {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        name_agent(app, self.name)?;
        let open = open(app, false).await?;
        let workspace = open.workspace()?;
        let mut options = open.options().dry();
        options.inputs = self.inputs.read()?;
        let mut first = options.clone();
        first.at = Some(app.moment(open.fs(), &self.from).await?);
        let before = workspace.prompt(&first).await?;
        match &self.to {
            Some(text) => options.at = Some(app.moment(open.fs(), text).await?),
            // The inputs of the older prompt are used, except for the time.
            None if options.inputs.is_none() => options.inputs = Some(without_time(&before.inputs)),
            None => {}
        }
        let after = workspace.prompt(&options).await?;
        let difference = after.since(&before);
        let diff = |one: &Changed| -> Result<String> {
            let [old, new] = [0, 1].map(|of| format!("{}\n", one.texts[of]));
            let hunks = unified(&old, &new, CONTEXT)?;
            if hunks.is_empty() {
                return Ok(hunks);
            }
            let [from, to] = [&before, &after].map(|of| format!("{} at {}", one.to.name, of.seq));
            Ok(format!("--- {from}\n+++ {to}\n{hunks}"))
        };
        if app.out.is_json() {
            let parts = |of: &[Changed], first: bool| -> Vec<Value> {
                of.iter().map(|one| json!(if first { &one.from } else { &one.to })).collect()
            };
            let changed = difference
                .changed
                .iter()
                .map(|one| Ok(json!({"from": one.from, "to": one.to, "diff": diff(one)?})));
            let changed = changed.collect::<Result<Vec<Value>>>()?;
            let json = json!({
                "from": side(&before), "to": side(&after), "added": parts(&difference.added, false),
                "removed": parts(&difference.removed, true), "changed": changed, "tokens": difference.tokens,
                "bytes": difference.bytes, "common_bytes": difference.common_bytes,
            });
            return app.out.item(&json, "");
        }
        for one in &difference.added {
            app.out.note(line('+', one.to.name, &format!("{} tokens: {}", one.to.tokens, one.to.reason)))?;
        }
        for one in &difference.removed {
            app.out.note(line(
                '-',
                one.to.name,
                &format!("{} tokens: {}", one.from.tokens, one.to.reason),
            ))?;
        }
        for one in &difference.changed {
            let tokens = format!("{} to {} tokens", one.from.tokens, one.to.tokens);
            app.out.note(line('~', one.to.name, &tokens))?;
            app.out.bytes(diff(one)?.as_bytes())?;
        }
        let ([tokens, to_tokens], [bytes, to_bytes]) = (difference.tokens, difference.bytes);
        app.out.note(format_args!(
            "tokens {tokens} to {to_tokens}, bytes {bytes} to {to_bytes}, the first {} the same",
            difference.common_bytes
        ))
    }
}

fn without_time(inputs: &Inputs) -> Inputs {
    let mut inputs = inputs.clone();
    inputs.clock = None;
    inputs
}

fn side(prompt: &Prompt) -> Value {
    json!({"seq": prompt.seq, "clock": prompt.inputs.clock, "sha256": prompt.sha256})
}

fn line(sign: char, name: &str, what: &str) -> String {
    escaped(&format!("{sign} {name:<10} {what}")).into_owned()
}
