//! Options that several verbs share, each defined once.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::LazyLock;

use clap::{Args, ValueEnum, ValueHint};
use garth_agent::session::SessionKey;
use garth_agent::{Class, Request};
use garth_engine::model::SearchMode;

use crate::data_folder::DEFAULT_ACCOUNT;
use crate::location::DatabaseUrl;
use crate::size::parse_size;

/// Marks an argument as a path of the tree, or several, for completion.
pub(crate) const TREE_PATH: ValueHint = ValueHint::Other;

/// Commands that `--operator` can be used with.
const OPERATOR_VERBS: [&str; 10] = ["ls", "tree", "cat", "stat", "du", "find", "glob", "grep", "log", "key"];

/// Default agent of all commands.
pub(crate) const DEFAULT_AGENT: &str = "default";

// Read here, not by clap, which would show an option with a set variable as a required one.
static ACCOUNT: LazyLock<String> = LazyLock::new(|| variable("GARTH_ACCOUNT", DEFAULT_ACCOUNT));
static USER: LazyLock<Option<String>> = LazyLock::new(|| {
    let user = std::env::var_os("GARTH_USER").filter(|user| !user.is_empty());
    user.map(|user| user.to_string_lossy().into_owned())
});
static AGENT: LazyLock<String> = LazyLock::new(|| variable("GARTH_AGENT", DEFAULT_AGENT));

fn variable(name: &str, default: &str) -> String {
    let value = std::env::var_os(name).filter(|value| !value.is_empty());
    value.map_or_else(|| default.to_owned(), |value| value.to_string_lossy().into_owned())
}

/// Returns the user of the variable `GARTH_USER`, for verbs that work for a user if no option names one.
pub(crate) fn user_variable() -> Option<String> {
    USER.clone()
}

/// Options of every verb.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Data folder [env: GARTH_DATA] [default: depends on the platform, such as ~/.local/share/garth]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// PostgreSQL database in place of a data folder; its URL may have no password here [env: GARTH_POSTGRES]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) postgres: Option<DatabaseUrl>,
    /// File with the URL of the database, which may have a password [env: GARTH_POSTGRES_FILE]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) postgres_file: Option<PathBuf>,
    /// Account to work on [env: GARTH_ACCOUNT] [default: default]
    #[arg(long, global = true, default_value = ACCOUNT.as_str(), value_name = "NAME")]
    pub(crate) account: String,
    /// True if `--account` was given, in place of the variable or the default.
    #[arg(skip)]
    pub(crate) account_is_named: bool,
    /// Agent: author of commits, and owner of key-value entries and sessions [env: GARTH_AGENT] [default:
    /// default]
    #[arg(long, global = true, default_value = AGENT.as_str(), value_name = "NAME")]
    pub(crate) agent: String,
    /// True if `--agent` was given, in place of the variable or the default.
    #[arg(skip)]
    pub(crate) agent_is_named: bool,
    /// Work in this overlay (see `garth overlay list`) instead of the account's tree
    #[arg(long, global = true, value_name = "ID", conflicts_with_all = ["raw", "user", "session_key", "chat", "class", "session"])]
    pub(crate) overlay: Option<String>,
    /// Include /.garth, which is reserved for garth (administrators)
    #[arg(long, global = true, conflicts_with = "override_rules")]
    pub(crate) raw: bool,
    /// Write even where a rule refuses it; the log records the override (administrators)
    #[arg(long, global = true, conflicts_with_all = ["overlay", "chat"])]
    pub(crate) override_rules: bool,
    /// Read the files of all accounts, below /accounts; in key, work on the keys of the data folder
    /// (operators)
    #[arg(long, global = true)]
    pub(crate) operator: bool,
    /// Print JSON: one object, or one object a line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) chat: ChatArgs,
}

impl Global {
    /// Checks for options that exclude each other or the command.
    pub(crate) fn check(&self, verb: &str) -> Result<(), String> {
        if self.operator && !OPERATOR_VERBS.contains(&verb) {
            let verbs = OPERATOR_VERBS.join(", ");
            return Err(format!("{verb} works on one account: remove --operator, which is for {verbs}"));
        }
        // The parser does not compare options before the command with those after it.
        if let (true, Some(name)) = (self.operator, self.named_beside_operator()) {
            return Err(format!("{name} cannot be used with --operator"));
        }
        self.chat.check(self.raw)
    }

    /// Returns an option that was given and says which account or which tree of it to work on.
    fn named_beside_operator(&self) -> Option<&'static str> {
        let chat = &self.chat;
        let given = [
            ("--account", self.account_is_named),
            ("--agent", self.agent_is_named),
            ("--overlay", self.overlay.is_some()),
            ("--raw", self.raw),
            ("--override-rules", self.override_rules),
            ("--user", chat.user.is_some()),
            ("--key", chat.session_key.is_some()),
            ("--chat", chat.chat.is_some()),
            ("--class", chat.class.is_some()),
            ("--session", chat.session.is_some()),
            ("--skill", !chat.skills.is_empty()),
            ("--upload-limit", chat.upload_limit.is_some()),
        ];
        given.into_iter().find_map(|(name, is_given)| is_given.then_some(name))
    }
}

/// Identity that the agent serves. With one of these options, verbs on files work in the tree that the agent
/// then sees.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "The tree of an agent, instead of the account's")]
pub(crate) struct ChatArgs {
    /// User that the agent serves [env: GARTH_USER, in agent, context, daily, media, memory, session and
    /// skill] [default: the owner of the agent]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Session key, such as agent:scout:slack:channel:C1: determines the audience, and whose memory is used
    #[arg(long = "key", global = true, value_name = "KEY")]
    pub(crate) session_key: Option<SessionKey>,
    /// Chat whose files are shown at / [default: the chat of the audience]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) chat: Option<String>,
    /// Class of the session: main (for the owner), dm (for one other person) or group [default: by --key and
    /// --user]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) class: Option<String>,
    /// Session, recorded as author of commits
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// Show this skill below /skills (repeatable). MODE decides what happens to changes: `ephemeral` drops
    /// them when the command ends, `override` saves them to the agent's copy. FOLDER, on this machine,
    /// replaces the account's skill [default MODE: ephemeral]
    #[arg(long = "skill", global = true, value_name = "NAME[=MODE[:FOLDER]]")]
    pub(crate) skills: Vec<SkillArg>,
    /// Maximum size of one write [default: 10M]
    #[arg(long, global = true, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) upload_limit: Option<u64>,
}

impl ChatArgs {
    /// Returns true if the tree of an agent is meant, in place of the account's.
    pub(crate) fn names_somebody(&self) -> bool {
        let names = [&self.user, &self.chat, &self.class, &self.session];
        self.session_key.is_some() || names.into_iter().any(Option::is_some)
    }

    /// Returns the identity that the options name, to be judged.
    pub(crate) fn request(&self, agent: &str) -> Request {
        let mut request = Request::new(agent);
        // A session key already names the user.
        let variable = if self.session_key.is_none() { user_variable() } else { None };
        (request.user, request.chat) = (self.user.clone().or(variable), self.chat.clone());
        (request.session, request.key) = (self.session.clone(), self.session_key.clone());
        request.class = self.class.as_deref().map(Class::named);
        request
    }

    /// Checks for options that exclude each other.
    fn check(&self, raw: bool) -> Result<(), String> {
        for (at, skill) in self.skills.iter().enumerate() {
            // Two modes of one skill would contradict each other.
            if self.skills[..at].iter().any(|earlier| earlier.name == skill.name) {
                return Err(format!("--skill: {} occurs twice", skill.name));
            }
        }
        if self.names_somebody() {
            return match raw {
                true => Err("--raw cannot be used with --user, --key, --chat, --class or --session".into()),
                false => Ok(()),
            };
        }
        let given = [("--skill", !self.skills.is_empty()), ("--upload-limit", self.upload_limit.is_some())];
        match given.into_iter().find(|(_, given)| *given) {
            Some((name, _)) => Err(format!("{name} requires --user, --key or --chat")),
            None => Ok(()),
        }
    }
}

/// Skill of `--skill`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SkillArg {
    pub(crate) name: String,
    /// True if changes are saved to the agent's copy.
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
            _ => return Err("the mode of a skill must be `ephemeral` or `override`".into()),
        };
        if folder == Some("") {
            return Err(format!("no folder after the `:`; write {name}={mode}:FOLDER, or remove the `:`"));
        }
        Ok(Self { name: name.into(), overrides, folder: folder.map(PathBuf::from) })
    }
}

/// `--at` of verbs that read.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Past {
    /// Read the past: a sequence (42), a snapshot, a version (ver_...), a date or RFC 3339 time (UTC unless
    /// it has another offset), now, today or yesterday (the start of that day, UTC), `last week` (7d), or an
    /// age (90s, 15m, 1h, 7d, 2w, 3d12h)
    #[arg(long, value_name = "SEQUENCE|TIME|NAME")]
    pub(crate) at: Option<String>,
}

/// Options of import and export.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TransferArgs {
    /// Report what would be done, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// List each entry that is new, changed or removed; with --json one object (change, path) each
    #[arg(short, long)]
    verbose: bool,
    /// Leave out names that match, at any depth; a pattern with `/` in it is matched from the top, one with
    /// `/` at its end matches directories only. Repeatable. --delete spares excluded names
    #[arg(long, value_name = "GLOB")]
    pub(crate) exclude: Vec<String>,
}

impl TransferArgs {
    /// Returns true if changed entries are listed. A dry run lists them as well, except as JSON.
    pub(crate) fn lists_changes(&self, is_json: bool) -> bool {
        self.verbose || self.dry_run && !is_json
    }
}

/// `--layout` of import and export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Layout {
    /// A bucket with agents/, skills/ and media/, the metadata of each file in FILE.metadata.json
    Gsv,
}

/// Parses `UID` or `UID:GID`.
pub(crate) fn parse_owner(text: &str) -> Result<(u32, Option<u32>), String> {
    let wrong = |_| "write numbers: UID or UID:GID".to_owned();
    match text.split_once(':') {
        Some((uid, gid)) => Ok((uid.parse().map_err(wrong)?, Some(gid.parse().map_err(wrong)?))),
        None => Ok((text.parse().map_err(wrong)?, None)),
    }
}

/// `-m` of verbs that write.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct CommitArgs {
    /// Message of the commit
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
}

/// `--help` without `-h`, for verbs in which `-h` has the meaning of the Unix tool of that name.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct LongHelp {
    /// Print help
    #[arg(long, action = clap::ArgAction::HelpLong)]
    help: Option<bool>,
}

/// Features by which a search compares texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// The words of the question
    Words,
    /// Words, and meaning: also finds answers in other words (English)
    #[default]
    Meaning,
}

impl From<Mode> for SearchMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Words => Self::Words,
            Mode::Meaning => Self::Meaning,
        }
    }
}
