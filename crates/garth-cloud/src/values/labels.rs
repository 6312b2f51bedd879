//! Labels as columns have them: hashed or shortened, because an entry of an index has at most 2,704 bytes,
//! and as bytes, because they may contain NUL.

use garth_engine::model::{Author, SessionOf};
use sha2::{Digest, Sha256};

/// Bytes of the hash of a label.
const HASH: usize = 16;
/// Most bytes of a label that is stored as it is where labels are listed in their order.
const MAX_ORDERED: usize = 1024;

/// Returns the hash of bytes.
fn hash(bytes: &[u8]) -> Vec<u8> {
    Sha256::digest(bytes)[..HASH].to_vec()
}

/// Returns the hash of the key of an owner; empty for the account itself, whose number is 0.
pub(crate) fn owner(key: &str) -> Vec<u8> {
    if key.is_empty() { Vec::new() } else { hash(key.as_bytes()) }
}

/// Returns an idempotency key as its column has it: the hash, because keys are never listed.
pub(crate) fn idempotency(key: &str) -> Vec<u8> {
    hash(key.as_bytes())
}

/// Returns the key of the rule of a pattern with a constraint: a hash, in which the pattern has its length
/// before it.
pub(crate) fn rule(pattern: &str, constraint: &str) -> Vec<u8> {
    hash(&[&(pattern.len() as u64).to_be_bytes(), pattern.as_bytes(), constraint.as_bytes()].concat())
}

/// Returns the key of the quota of a path.
pub(crate) fn quota(path: &str) -> Vec<u8> {
    hash(path.as_bytes())
}

/// Returns the name of a snapshot as the key of its table has it, and the complete name if it is not that.
/// Shortened names are in nearly the order of the complete ones.
pub(crate) fn snapshot(name: &str) -> (Vec<u8>, Option<Vec<u8>>) {
    let name = name.as_bytes();
    if name.len() <= MAX_ORDERED {
        return (name.to_vec(), None);
    }
    ([&name[..MAX_ORDERED], &hash(name)].concat(), Some(name.to_vec()))
}

/// Returns the session of an author as the log has it; `None` for an author without one.
pub(crate) fn session_of(author: &Author) -> Option<Vec<u8>> {
    let (user, agent, session) = (author.keeper()?, author.agent.clone()?, author.session.clone()?);
    Some(self::session(&SessionOf { user: user.to_owned(), agent, session }))
}

/// Returns a session as the log has it: a hash, in which each label has its length before it.
pub(crate) fn session(of: &SessionOf) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in [&of.user, &of.agent, &of.session] {
        bytes.extend_from_slice(&(label.len() as u64).to_be_bytes());
        bytes.extend_from_slice(label.as_bytes());
    }
    hash(&bytes)
}

/// Returns an id of 16 bytes as the text of a `uuid`.
pub(crate) fn uuid(id: u128) -> String {
    format!("{id:032x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_of_snapshots_are_shortened() {
        assert_eq!(snapshot("a"), (b"a".to_vec(), None));
        let names = ["x".repeat(MAX_ORDERED + 1), "x".repeat(MAX_ORDERED + 2)];
        let [first, second] = names.each_ref().map(|name| snapshot(name));
        assert_ne!(first.0, second.0);
        assert_eq!((first.0.len(), first.1), (MAX_ORDERED + HASH, Some(names[0].clone().into_bytes())));
        // Names are at least as long as their keys, so no short name has the key of a long one.
        assert!(second.0.len() > MAX_ORDERED);
    }

    #[test]
    fn rules_of_other_patterns_have_other_keys() {
        let keys = [("/a", "json"), ("/a", "json-lines"), ("/aj", "son"), ("/b", "json")];
        let keys = keys.map(|(pattern, constraint)| rule(pattern, constraint));
        for (place, key) in keys.iter().enumerate() {
            assert_eq!((key.len(), keys.iter().position(|other| other == key)), (HASH, Some(place)));
        }
    }

    #[test]
    fn owners_and_sessions_are_told_apart() {
        assert_eq!((owner("").len(), owner("a").len()), (0, HASH));
        let of = |user: &str, agent: &str| SessionOf {
            user: user.to_owned(),
            agent: agent.to_owned(),
            session: "s".to_owned(),
        };
        assert_ne!(session(&of("ab", "c")), session(&of("a", "bc")));
        let author = Author::agent("c").with_session("s");
        assert_eq!(session_of(&author), None);
        assert_eq!(session_of(&author.with_user("ab")), Some(session(&of("ab", "c"))));
    }
}
