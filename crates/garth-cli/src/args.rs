//! Options that several verbs share, each defined once.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::LazyLock;

use clap::{Args, ValueEnum, ValueHint};

use crate::data_folder::DEFAULT_ACCOUNT;
use crate::size::parse_size;

/// Marks an argument as a path of the tree, or several, for completion.
pub(crate) const TREE_PATH: ValueHint = ValueHint::Other;

/// Agent that commands work for unless told otherwise.
pub(crate) const DEFAULT_AGENT: &str = "default";

// Read here, not by clap, which shows an option that a variable sets as one that must be given.
static ACCOUNT: LazyLock<String> = LazyLock::new(|| variable("GARTH_ACCOUNT", DEFAULT_ACCOUNT));
static AGENT: LazyLock<String> = LazyLock::new(|| variable("GARTH_AGENT", DEFAULT_AGENT));

fn variable(name: &str, default: &str) -> String {
    let value = std::env::var_os(name).filter(|value| !value.is_empty());
    value.map_or_else(|| default.to_owned(), |value| value.to_string_lossy().into_owned())
}

/// Options of every verb.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Data folder [env: GARTH_DATA] [default: the platform's, such as ~/.local/share/garth]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Account to work on [env: GARTH_ACCOUNT]
    #[arg(long, global = true, default_value = ACCOUNT.as_str(), value_name = "NAME")]
    pub(crate) account: String,
    /// Agent: author of commits and owner of key-value entries [env: GARTH_AGENT]
    #[arg(long, global = true, default_value = AGENT.as_str(), value_name = "NAME")]
    pub(crate) agent: String,
    /// Overlay to work in, of those that `garth overlay list` shows, instead of the account's tree
    #[arg(long, global = true, value_name = "ID", conflicts_with_all = ["raw", "chat"])]
    pub(crate) overlay: Option<String>,
    /// Work on all of the account, /.garth too, which garth keeps for itself: for administrators
    #[arg(long, global = true, conflicts_with = "override_rules")]
    pub(crate) raw: bool,
    /// Write what rules refuse; the log says so: for administrators
    #[arg(long, global = true, conflicts_with_all = ["overlay", "chat"])]
    pub(crate) override_rules: bool,
    /// Print JSON: one object, or JSON Lines where there may be several
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) chat: ChatArgs,
}

/// Whose tree to work on instead of the account's.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "The tree of an agent in a chat, in place of the account's")]
pub(crate) struct ChatArgs {
    /// User whom --agent serves; goes with --chat
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Chat in which it does; goes with --user
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) chat: Option<String>,
    /// Class of the session: any but `main` sees nothing of the agent's own memory [default: main]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) class: Option<String>,
    /// Session, for the author of commits; in a class other than `main` the only one that is there
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// Show a skill below /skills (may be repeated): its changes end with the command (`ephemeral`, the
    /// default), or go to the agent's copy (`override`); a folder of this machine takes the place of the
    /// account's skill
    #[arg(long = "skill", global = true, value_name = "NAME[=MODE[:FOLDER]]")]
    pub(crate) skills: Vec<SkillArg>,
    /// Most bytes that one write brings [default: 10M]
    #[arg(long, global = true, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) upload_limit: Option<u64>,
}

impl ChatArgs {
    /// Refuses what makes no sense together. A verb that is about what an agent keeps of a user takes the
    /// user, and a class, without a chat; one that is about what a session gets, the session as well.
    pub(crate) fn check(&self, raw: bool, of_user: bool, of_session: bool) -> Result<(), String> {
        for (at, skill) in self.skills.iter().enumerate() {
            if self.skills[..at].iter().any(|earlier| earlier.name == skill.name) {
                return Err(format!("--skill: {} is given twice", skill.name));
            }
        }
        match (&self.user, &self.chat) {
            (Some(_), None) if of_user => {}
            (Some(_), None) => return Err("--user goes with --chat: set both, or neither".into()),
            (None, Some(_)) => return Err("--chat goes with --user: set both, or neither".into()),
            (Some(_), Some(_)) if raw => return Err("--raw does not go with --user and --chat".into()),
            (Some(_), Some(_)) => return Ok(()),
            (None, None) => {}
        }
        let given = [
            ("--class", self.class.is_some() && !of_user),
            ("--session", self.session.is_some() && !of_session),
            ("--skill", !self.skills.is_empty()),
            ("--upload-limit", self.upload_limit.is_some()),
        ];
        match given.into_iter().find(|(_, given)| *given) {
            Some((name, _)) => Err(format!("{name} goes with --user and --chat")),
            None => Ok(()),
        }
    }
}

/// A skill of `--skill`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SkillArg {
    pub(crate) name: String,
    /// Whether changes go to the agent's copy.
    pub(crate) overrides: bool,
    pub(crate) folder: Option<PathBuf>,
}

impl FromStr for SkillArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, mode) = text.split_once('=').unwrap_or((text, "ephemeral"));
        let (mode, folder) = mode.split_once(':').map_or((mode, None), |(mode, folder)| (mode, Some(folder)));
        let overrides = match mode {
            "ephemeral" => false,
            "override" => true,
            _ => return Err("the mode of a skill is `ephemeral` or `override`".into()),
        };
        if folder == Some("") {
            return Err(format!(
                "no folder behind the `:`; write {name}={mode}:FOLDER, or leave the `:` out"
            ));
        }
        Ok(Self { name: name.into(), overrides, folder: folder.map(PathBuf::from) })
    }
}

/// `--at`, of every verb that reads.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Past {
    /// Read the past: a sequence (42), a snapshot, a version (ver_...), a date or RFC 3339 time (UTC unless
    /// it says otherwise), now, today (its start, UTC), yesterday (24 hours ago), `last week`, or an age
    /// (90s, 15m, 1h, 7d, 2w, 3d12h)
    #[arg(long, value_name = "SEQUENCE|TIME|NAME")]
    pub(crate) at: Option<String>,
}

/// `--layout`, of import and export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Layout {
    /// A bucket with agents/, skills/ and media/, the metadata of each file in FILE.metadata.json
    Gsv,
}

/// Reads permissions: three or four octal digits. For clap.
pub(crate) fn parse_mode(text: &str) -> Result<u32, String> {
    let octal = (3..=4).contains(&text.len()) && text.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    let mode = octal.then(|| u32::from_str_radix(text, 8).ok()).flatten();
    mode.ok_or_else(|| "write three or four octal digits, such as 644 or 0700".into())
}

/// Reads `UID` or `UID:GID`. For clap.
pub(crate) fn parse_owner(text: &str) -> Result<(u32, Option<u32>), String> {
    let wrong = |_| "write numbers: UID or UID:GID".to_owned();
    match text.split_once(':') {
        Some((uid, gid)) => Ok((uid.parse().map_err(wrong)?, Some(gid.parse().map_err(wrong)?))),
        None => Ok((text.parse().map_err(wrong)?, None)),
    }
}

/// `-m`, of every verb that writes.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct CommitArgs {
    /// Message kept with the commit
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
}

/// `--help` without `-h`, of verbs in which `-h` means what it does in the tool of that name.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct LongHelp {
    /// Print help
    #[arg(long, action = clap::ArgAction::HelpLong)]
    help: Option<bool>,
}
