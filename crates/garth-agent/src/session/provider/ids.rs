//! Ids of calls and names of tools, in the form that all providers accept.

use std::collections::{HashMap, HashSet};

use sha2::{Digest as _, Sha256};

/// Longest id.
const MAX_ID: usize = 40;
/// Longest name.
const MAX_NAME: usize = 64;
/// Hexadecimal digits of a generated id.
const DIGITS: usize = 24;

/// Ids of a list so far.
#[derive(Default)]
pub(super) struct Ids {
    used: HashSet<String>,
    seen: HashMap<String, u64>,
}

impl Ids {
    /// Returns the id of the next call: its own, or one derived from it and from the number of its
    /// occurrences.
    pub(super) fn of(&mut self, id: &str) -> String {
        let fits = (1..=MAX_ID).contains(&id.len()) && id.chars().all(is_plain);
        let ordinal = self.seen.entry(id.to_owned()).or_default();
        let mut made = id.to_owned();
        // Providers refuse an id twice in one list. A hash of the id is the same in each list, so that the
        // prefix of the list stays.
        if !fits || self.used.contains(id) {
            loop {
                made = hashed(id, *ordinal);
                *ordinal += 1;
                if !self.used.contains(&made) {
                    break;
                }
            }
        }
        self.used.insert(made.clone());
        made
    }
}

fn hashed(id: &str, ordinal: u64) -> String {
    let digest =
        Sha256::new().chain_update(id).chain_update([0]).chain_update(ordinal.to_string()).finalize();
    format!("call_{}", &garth_engine::model::hex(&digest)[..DIGITS])
}

/// Returns the name of a tool in the allowed form.
pub(super) fn name(name: &str) -> String {
    let plain = name.chars().take(MAX_NAME).map(|c| if is_plain(c) { c } else { '_' });
    Some(plain.collect::<String>()).filter(|name| !name.is_empty()).unwrap_or_else(|| "tool".to_owned())
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_valid_new_call_ids() {
        let mut ids = Ids::default();
        assert_eq!(ids.of("call_1"), "call_1");
        let again = ids.of("call_1");
        assert!(again != "call_1" && again.len() == 5 + DIGITS, "{again}");
        assert_ne!(ids.of("call_1"), again);
        let odd = ids.of("toolu/ä|x");
        assert!(odd.starts_with("call_") && odd.len() == 29, "{odd}");
        assert_eq!(Ids::default().of("toolu/ä|x"), odd);
        assert_ne!(ids.of(&"x".repeat(41)), "x".repeat(41));
        // A derived id differs from the given id of another call.
        let mut taken = Ids::default();
        assert_eq!(taken.of(&odd), odd);
        assert_ne!(taken.of("toolu/ä|x"), odd);
    }

    #[test]
    fn tool_names_have_plain_characters() {
        assert_eq!([name("fs.read"), name(""), name("a-b_C9")], ["fs_read", "tool", "a-b_C9"]);
        assert_eq!(name(&"é".repeat(80)), "_".repeat(64));
    }
}
