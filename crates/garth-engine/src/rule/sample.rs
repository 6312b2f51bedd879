//! A registry for tests of the engine: one rule of each kind, a projection by line and one of whole files.

use super::projection::{ContentProjection, Keys};
use super::registry::{DecidingKey, Registry, Searchable};
use super::{Constraint, Rule};
use crate::model::Projection;
use crate::path::TreePath;

/// The first word of each line of a file in `/kv`.
pub const FIRST_WORD: Projection = Projection::new(1000);
/// Each word of each line of a file in `/words`.
pub const WORDS: Projection = Projection::new(1002);
/// The text of a file called `.status` anywhere below `/nodes`.
pub const STATUS: Projection = Projection::new(1001);

/// Returns the registry of tests, of version 1.
pub fn registry() -> Registry {
    let values = "/agents/*/kv/**";
    let rules = vec![
        Rule::built_in(values, Constraint::MaxSize(1 << 20)),
        Rule::built_in(values, Constraint::Json { schema: None, check: None }),
        Rule::built_in("/users/*/agents/*/session/*/messages.jsonl", Constraint::AppendOnly),
        Rule::built_in(
            "/users/*/agents/*/session/*/messages.jsonl",
            Constraint::lines(r#"{"type": "object"}"#, None),
        ),
        Rule::built_in("/agents/*/settings.json", Constraint::NotInSessions),
        Rule::built_in("/skills/**", Constraint::NotInSessions),
    ];
    let deciding = vec![DecidingKey { name: ".status", projection: STATUS, key: "ACTIVE" }];
    Registry::new(1, rules, vec![first_word(), words(), status()], searchable).deciding_by(deciding)
}

/// Returns the projection of [`FIRST_WORD`].
pub fn first_word() -> ContentProjection {
    let words = |_, line: &[u8]| {
        let word = line.split(u8::is_ascii_whitespace).find(|word| !word.is_empty());
        word.map(|word| String::from_utf8_lossy(word).into_owned()).into_iter().collect()
    };
    ContentProjection::new(FIRST_WORD, &["/kv/**"], |_| true, Keys::OfLines(words))
}

fn words() -> ContentProjection {
    let words = |_, line: &[u8]| {
        let words = line.split(u8::is_ascii_whitespace);
        words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
    };
    ContentProjection::new(WORDS, &["/words/**"], |_| true, Keys::OfLines(words))
}

fn status() -> ContentProjection {
    let text = |content: &[u8]| vec![String::from_utf8_lossy(content).into_owned()];
    ContentProjection::new(STATUS, &["/nodes/**/.status"], |name| name == ".status", Keys::OfFile(text))
}

/// Returns true to search for a file below `/nodes` while the file `.status` next to it holds `ACTIVE`.
fn searchable(path: &TreePath) -> Searchable {
    match path.parent() {
        Some(dir) if dir.key().starts_with("/nodes/") && path.name() != Some(".status") => {
            Searchable::While {
                file: TreePath::from_row(dir.key(), ".status"),
                projection: STATUS,
                key: "ACTIVE",
                layer: path.name() == Some(".abstract.md"),
            }
        }
        _ => Searchable::Yes,
    }
}
