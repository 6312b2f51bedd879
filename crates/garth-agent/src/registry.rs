//! Rules, projections and search exclusions that every tree of agents has, and the content limits that a new
//! one begins with, to be registered with the engine. The engine applies them in each commit, so that no
//! interface can bypass them.

mod content_limits;
pub mod fragments;
mod naming;
pub mod projections;
mod searchable;
pub mod session_lines;

use std::sync::LazyLock;

use self::projections::sessions::{check_message, check_retraction};
use crate::identity::MAX_SETTINGS;
use crate::settings::Settings;
use garth_engine::rule::{Constraint, Registry, Rule};

/// Version of the set. Increment it with each change of a rule, or of the keys that a projection derives. An
/// older garth then no longer writes to the account, and a newer one derives all keys again. A check that
/// only refuses more new lines, and changes no key, needs no increment: older lines are read as before.
const VERSION: u64 = 12;

/// Limit on the bytes of a value of the key-value interface: the largest request of the HTTP interface.
pub const MAX_VALUE: usize = 1 << 20;

/// Returns the rules and projections that every tree of agents has, for opening a data folder. Calls return
/// the same set.
pub fn registry() -> Registry {
    static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
        Registry::new(VERSION, rules(), projections::all(), searchable::searchable)
            .withholding(searchable::withheld)
            .deciding_by(searchable::deciding())
            .naming_by(naming::naming)
            .limiting_content(content_limits::content_limits())
    });
    REGISTRY.clone()
}

/// Reason for refusing an event that retracts messages.
const RETRACTION_REFUSED: &str = "has a line that retracts messages, which garth alone appends, in the commit \
     that removes what was derived from them";

/// Advice for who appends such an event.
const RETRACT: &str = "use `garth session retract` or POST /v1/sessions/retract";

/// Refuses an event that retracts messages: written as text, it would leave what was derived from them.
fn refuse_retraction(event: &[u8]) -> Result<(), String> {
    projections::sessions::retracted(event).map_or(Ok(()), |_| Err(RETRACTION_REFUSED.to_owned()))
}

/// Returns the built-in rules.
///
/// - Values of the key-value interface are JSON, and settings can be read.
/// - Instruction fragments, messages and events match their schemas.
/// - A message has keys that lead to it, and an event that retracts messages has keys that lead to all of
///   them.
/// - Messages, events and native lines are append-only.
/// - Only garth appends events that retract messages.
/// - Only garth writes the fields that decide who owns a session and what it belongs to.
/// - No session writes settings and shared skills.
fn rules() -> Vec<Rule> {
    // People set these; no session may change them.
    let (values, fragments) = ("/agents/*/kv/**", "/agents/*/fragments.jsonl");
    let settings = "/agents/*/settings.json";
    let of_people = [settings, "/skills", "/skills/**"];
    let only_grow = [session_lines::MESSAGES, session_lines::EVENTS, session_lines::NATIVE];
    let meta = session_lines::META;
    let rules = [
        Rule::built_in(meta, Constraint::OwnFields(session_lines::DECIDING.map(str::to_owned).to_vec())),
        Rule::built_in(values, Constraint::MaxSize(MAX_VALUE as u64)),
        Rule::built_in(values, Constraint::Json { schema: None, check: None }),
        Rule::built_in(settings, Constraint::MaxSize(MAX_SETTINGS as u64)),
        Rule::built_in(settings, Constraint::json_by(Settings::check)),
        Rule::built_in(fragments, Constraint::MaxSize(fragments::MAX_FRAGMENTS)),
        Rule::built_in(fragments, Constraint::lines(fragments::SCHEMA, Some(fragments::UNIQUE))),
        Rule::built_in(session_lines::MESSAGES, Constraint::lines_by(session_lines::MESSAGE, check_message)),
        Rule::built_in(session_lines::EVENTS, Constraint::lines_by(session_lines::EVENT, check_retraction)),
        Rule::built_in(session_lines::EVENTS, Constraint::own_lines(refuse_retraction, RETRACT)),
        Rule::built_in(
            session_lines::NATIVE,
            Constraint::JsonLines { schema: None, unique: None, check: None },
        ),
    ];
    let growing = only_grow.map(|class| Rule::built_in(class, Constraint::AppendOnly));
    let kept = of_people.map(|class| Rule::built_in(class, Constraint::NotInSessions));
    rules.into_iter().chain(growing).chain(kept).collect()
}
