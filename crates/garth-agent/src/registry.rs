//! Rules, projections and search exclusions that every tree of agents has, for registering with the engine.
//! The engine applies them in each commit, so that no interface gets past them.

pub mod fragments;
pub mod projections;
mod searchable;
pub mod session_lines;

use std::sync::LazyLock;

use crate::identity::MAX_SETTINGS;
use crate::settings::Settings;
use garth_engine::rule::{Constraint, Registry, Rule};

/// Version of the set. Count it up with each change of a rule, or of what a projection derives from anything:
/// an older garth then no longer writes to the account, and a newer one derives its keys again.
const VERSION: u64 = 9;

/// Largest value of the key-value interface, in bytes of its text: the largest request of the HTTP interface.
pub const MAX_VALUE: usize = 1 << 20;

/// Returns the rules and projections that every tree of agents has, for opening a data folder. Calls return
/// the same set.
pub fn registry() -> Registry {
    static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
        Registry::new(VERSION, rules(), projections::all(), searchable::searchable)
            .withholding(searchable::withheld)
    });
    REGISTRY.clone()
}

/// Values of the key-value interface are JSON, settings can be read, instruction fragments, messages and
/// events have a schema, what was said in a session only grows, garth alone writes whose a session is and
/// what it belongs to, and no session writes what people set and the skills of all.
fn rules() -> Vec<Rule> {
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
        Rule::built_in(session_lines::MESSAGES, Constraint::lines(session_lines::MESSAGE, None)),
        Rule::built_in(session_lines::EVENTS, Constraint::lines(session_lines::EVENT, None)),
        Rule::built_in(session_lines::NATIVE, Constraint::JsonLines { schema: None, unique: None }),
    ];
    let growing = only_grow.map(|class| Rule::built_in(class, Constraint::AppendOnly));
    let kept = of_people.map(|class| Rule::built_in(class, Constraint::NotInSessions));
    rules.into_iter().chain(growing).chain(kept).collect()
}
