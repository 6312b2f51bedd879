//! `garth skill`: skills of an agent.

mod folder;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use garth_agent::workspace::{Host, Inputs, Origin, SkillText};
use serde_json::{Value, json};

use super::agent::InputArgs;
use super::open::{open, open_existing};
use crate::app::App;
use crate::escape::{escaped, one_line};
use crate::fail::{Failure, Result};
use crate::out::counted;

/// List, show, check, install and publish the skills of an agent
///
/// A skill is a directory with a SKILL.md: in /agents/AGENT/skills for one agent, in /skills for every agent
/// of the account. An agent's skill hides the account's skill of the same name. A skill applies if the hosts
/// of --host meet its requirements.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        garth skill install ./pdf --global\n  \
        garth skill list --host '{\"id\":\"laptop\",\"os\":\"linux\",\"bins\":[\"pdftotext\"]}'\n  \
        garth skill show pdf")]
pub(crate) struct Skill {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// List the skills that apply, and with --all the others, with the reason
    ///
    /// A skill whose SKILL.md has mistakes is listed with them, unless they hide its requirements. With
    /// --json, prints one object per skill: name, directory, description, always, origin, read_path (in the
    /// tree that the options select), flaws (if any); for a skill that does not apply name, directory,
    /// origin, reason, detail.
    #[command(alias = "ls", after_help = "Example:\n  garth skill list --all")]
    List {
        /// List skills that do not apply, too
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        inputs: InputArgs,
    },
    /// Show a skill: description, path, requirements and text
    ///
    /// With --json, prints one object: the front matter, directory, origin, path, applies, why (if it does
    /// not apply), body.
    #[command(after_help = "Example:\n  garth skill show pdf")]
    Show {
        /// Name of the directory of the skill
        directory: String,
        #[command(flatten)]
        inputs: InputArgs,
    },
    /// Check a skill in a folder of this machine; exit with 1 if it has mistakes
    ///
    /// With --json, prints one object: the front matter, files, flaws.
    #[command(after_help = "Example:\n  garth skill check ./pdf")]
    Check {
        /// Folder of the skill, or its SKILL.md
        folder: PathBuf,
    },
    /// Install a folder of this machine as a skill of the agent, or of all agents
    ///
    /// One commit writes the files that differ. The exit code is 1 if its SKILL.md has mistakes, as
    /// with `garth skill check`. With --json, prints one object: path, written, same, flaws, seq.
    #[command(after_help = "Example:\n  garth skill install ./pdf --global")]
    Install {
        /// Folder of the skill, or its SKILL.md
        folder: PathBuf,
        /// Name of its directory [default: the name of the folder]
        #[arg(long = "as", value_name = "NAME")]
        name: Option<String>,
        /// Install it for every agent of the account
        #[arg(long)]
        global: bool,
    },
    /// Remove a skill of the agent, or of all agents; its history stays
    ///
    /// With --json, prints one object: path, seq.
    #[command(name = "rm", alias = "delete", after_help = "Example:\n  garth skill rm pdf --global")]
    Remove {
        /// Name of the directory of the skill
        directory: String,
        /// Remove the skill of every agent of the account
        #[arg(long)]
        global: bool,
    },
    /// Publish a skill of the agent as a memory
    ///
    /// SKILL.md is the text of the memory, content.md a link to it. With --json, prints one object, as
    /// `memory put`.
    #[command(after_help = "Example:\n  garth skill publish pdf --agent scout")]
    Publish {
        /// Name of the directory of the skill
        directory: String,
    },
}

impl Skill {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        match self.action {
            Action::List { all, inputs } => list(app, all, &inputs).await,
            Action::Show { directory, inputs } => show(app, &directory, &inputs).await,
            Action::Check { folder } => check(app, &folder),
            Action::Install { folder, name, global } => install(app, &folder, name, global).await,
            Action::Remove { directory, global } => remove(app, &directory, global).await,
            Action::Publish { directory } => publish(app, &directory).await,
        }
    }
}

fn hosts(inputs: &InputArgs) -> Result<Vec<Host>> {
    Ok(inputs.read()?.unwrap_or_else(Inputs::default).hosts)
}

async fn list(app: &mut App, all: bool, inputs: &InputArgs) -> Result {
    let hosts = hosts(inputs)?;
    let listing = open(app, false).await?.workspace()?.skills(&hosts).await?;
    for skill in &listing.shown {
        let always = if skill.always { "  always" } else { "" };
        let (name, description) = (one_line(&skill.name), one_line(&skill.description));
        let flaws: String = skill.flaws.iter().map(|flaw| format!("  (wrong: {})", one_line(flaw))).collect();
        let name = named(name, &skill.name, &skill.directory);
        let line = format!("{name:<20} {:<6}  {description}{always}{flaws}", skill.origin.as_str());
        app.out.item(&json!(skill), line)?;
    }
    for skill in listing.left_out.iter().filter(|_| all) {
        let detail =
            if skill.detail.is_empty() { String::new() } else { format!(": {}", one_line(&skill.detail)) };
        let (name, origin) = (one_line(&skill.name), skill.origin.as_str());
        let name = named(name, &skill.name, &skill.directory);
        let line = format!("{name:<20} {origin:<6}  left out, {}{detail}", skill.reason);
        app.out.item(&json!(skill), line)?;
    }
    if !all && !listing.left_out.is_empty() && !app.out.is_json() {
        let count = counted(listing.left_out.len() as u64, "skill does", "skills do");
        // The list comes before the warning.
        app.out.flush()?;
        app.out.warn(format_args!("{count} not apply; --all lists them with the reason"));
    }
    Ok(())
}

/// Returns the name of a skill, followed by the name of its directory if that differs: other verbs take the
/// latter.
fn named(shown: String, name: &str, directory: &str) -> String {
    if name == directory { shown } else { format!("{shown} ({})", one_line(directory)) }
}

async fn show(app: &mut App, directory: &str, inputs: &InputArgs) -> Result {
    let hosts = hosts(inputs)?;
    let (text, origin, path, why) = open(app, false).await?.workspace()?.skill(directory, &hosts).await?;
    let mut json = said(&text);
    (json["directory"], json["origin"]) = (json!(directory), json!(origin));
    (json["path"], json["applies"]) = (json!(path.as_str()), json!(why.is_none()));
    json["body"] = json!(text.body);
    if let Some((reason, detail)) = &why {
        json["why"] = json!({"reason": reason, "detail": detail});
    }
    let applies = match &why {
        None => "yes".to_owned(),
        Some((reason, detail)) if detail.is_empty() => format!("no: a skill {reason}"),
        Some((reason, detail)) => format!("no: a skill {reason}: {detail}"),
    };
    let lines = [
        ("name", text.name.clone().unwrap_or_else(|| directory.to_owned())),
        ("description", text.description.clone()),
        ("origin", origin.as_str().to_owned()),
        ("path", path.to_string()),
        ("applies", applies),
    ];
    let lines = lines.map(|(name, value)| format!("{name:<12} {}", one_line(&value))).join("\n");
    let requires = match text.requires.is_none() {
        true => String::new(),
        false => format!("\nrequires     {}", one_line(&json["requires"].to_string())),
    };
    let flaws: String = text.all_flaws().map(|flaw| format!("\nwrong        {}", one_line(flaw))).collect();
    app.out.item(&json, format_args!("{lines}{requires}{flaws}\n\n{}", text.body.trim_end()))
}

fn check(app: &mut App, folder: &std::path::Path) -> Result {
    let folder = &folder::of(folder)?;
    let files = folder::read(folder)?;
    let text = folder::skill_text(folder, &files)?;
    let flaws: Vec<&String> = text.all_flaws().collect();
    let mut json = said(&text);
    (json["files"], json["flaws"]) = (json!(files.len()), json!(flaws));
    let told = match flaws.len() {
        0 => format!("no mistakes found in {}", counted(files.len() as u64, "file", "files")),
        _ => flaws.iter().map(|flaw| format!("wrong  {}", one_line(flaw))).collect::<Vec<_>>().join("\n"),
    };
    app.out.item(&json, told)?;
    app.out.flush()?;
    if flaws.is_empty() { Ok(()) } else { Err(Failure::Reported(1)) }
}

async fn install(app: &mut App, folder: &std::path::Path, name: Option<String>, global: bool) -> Result {
    let folder = &folder::of(folder)?;
    let files = folder::read(folder)?;
    // The folder was read before the data is opened: an unusable one must not leave a new data folder behind.
    let name = match name {
        Some(name) => name,
        None => folder::name(folder)?,
    };
    let origin = if global { Origin::Global } else { Origin::Agent };
    let done = open_existing(app).await?.workspace()?.install_skill(&name, origin, &files).await?;
    let json = json!({
        "path": done.path.as_str(), "written": done.written, "same": done.same, "flaws": done.flaws,
        "seq": done.seq.map(|seq| seq.0),
    });
    let flaws: String = done.flaws.iter().map(|flaw| format!("\nwrong  {}", one_line(flaw))).collect();
    let (path, written) = (escaped(done.path.as_str()), done.written.len());
    app.out
        .item(&json, format_args!("installed  {path}: {written} written, {} unchanged{flaws}", done.same))?;
    app.out.flush()?;
    if done.flaws.is_empty() { Ok(()) } else { Err(Failure::Reported(1)) }
}

async fn remove(app: &mut App, directory: &str, global: bool) -> Result {
    let (account, origin) = (app.global.account.clone(), if global { Origin::Global } else { Origin::Agent });
    let removed = open_existing(app).await?.workspace()?.remove_skill(&account, directory, origin).await?;
    let (path, seq) = removed;
    let json = json!({"path": path.as_str(), "seq": seq.0});
    app.out.item(&json, format_args!("removed  {}", escaped(path.as_str())))
}

async fn publish(app: &mut App, directory: &str) -> Result {
    let account = app.global.account.clone();
    let done = open_existing(app).await?.workspace()?.publish_skill(&account, directory).await?;
    let line = format!("published  {}  version {}", done.meta.uri, done.meta.version);
    app.out.item(&Value::Object(done.to_json()), escaped(&line))
}

/// Returns the front matter as JSON.
fn said(text: &SkillText) -> Value {
    json!(text)
}
