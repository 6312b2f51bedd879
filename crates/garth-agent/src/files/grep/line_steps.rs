//! Search of one line in a limited number of steps. A step is one state of the compiled expressions at one
//! byte. A search that follows all states at once, the slowest one, takes about 20 nanoseconds for it.

use garth_engine::compute::working;
use regex::bytes::Regex;
use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Builder, Cache, Config, DFA};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::util::{start, syntax};

/// Bytes of a line that take the time of one step where each of them is one lookup in a table.
const BYTES_PER_STEP: usize = 8;

/// Limit on the steps of one line.
#[derive(Clone, Debug)]
pub(super) struct LineSteps {
    /// Automaton of the expressions. Its table of states is computed as far as a line needs it.
    automaton: DFA,
    /// Number of states of the expressions. To compute one entry of the table takes as many steps at most.
    states: usize,
    most: u64,
}

/// Steps that were made, and the table as far as it was computed.
#[derive(Debug, Default)]
pub(super) struct StepCount {
    pub(super) steps: u64,
    table: Option<Cache>,
}

impl LineSteps {
    /// Compiles an expression in the syntax of [`regex::bytes`]. Takes at most `most_bytes` of memory for it,
    /// and at most `most` steps for each line.
    pub(super) fn compile(
        expression: &str,
        ignore_case: bool,
        most_bytes: usize,
        most: u64,
    ) -> Result<Self, String> {
        let syntax = syntax::Config::new().utf8(false).case_insensitive(ignore_case);
        // With captures, it has all states of the automaton that the slowest search follows.
        let config = thompson::Config::new()
            .utf8(false)
            .nfa_size_limit(Some(most_bytes))
            .which_captures(WhichCaptures::All);
        let compiled = thompson::Compiler::new().syntax(syntax).configure(config).build(expression);
        let compiled = compiled.map_err(|error| error.to_string())?;
        let states = compiled.states().len();
        // Of word boundaries in Unicode the table knows those in ASCII; other bytes end the search.
        let config = Config::new().unicode_word_boundary(true).skip_cache_capacity_check(true);
        let automaton = Builder::new().configure(config).build_from_nfa(compiled);
        let automaton = automaton.map_err(|error| error.to_string())?;
        Ok(Self { automaton, states, most })
    }

    /// Returns true if a line matches, and `None` if that would take too many steps. `regex` is the same
    /// expression.
    pub(super) fn is_match(&self, regex: &Regex, line: &[u8], count: &mut StepCount) -> Option<bool> {
        // The end of the line is a step, too.
        let all = (self.states as u64).saturating_mul(line.len() as u64 + 1);
        if all <= self.most {
            count.steps = count.steps.saturating_add(all);
            return Some(regex.is_match(line));
        }
        let before = count.steps;
        let found = self.is_match_by_table(line, count);
        working(usize::try_from(count.steps - before).unwrap_or(usize::MAX));
        found
    }

    /// Searches with the table. An entry is computed when the line first needs it; each further byte that
    /// needs it is one lookup, however many states are active.
    fn is_match_by_table(&self, line: &[u8], count: &mut StepCount) -> Option<bool> {
        let StepCount { steps, table } = count;
        let table = table.get_or_insert_with(|| self.automaton.create_cache());
        let one_entry = self.states as u64;
        let mut left = self.most.checked_sub((line.len() / BYTES_PER_STEP) as u64)?;
        *steps += self.most - left;
        let mut state = self.automaton.start_state(table, &start::Config::new()).ok()?;
        for byte in line {
            if state.is_tagged() {
                return ended(state);
            }
            let known = self.automaton.next_state_untagged(table, state, *byte);
            state = match known.is_unknown() {
                true => {
                    left = left.checked_sub(one_entry)?;
                    *steps += one_entry;
                    self.automaton.next_state(table, state, *byte).ok()?
                }
                false => known,
            };
        }
        if state.is_tagged() {
            return ended(state);
        }
        // The table knows a match one byte late, so a match at the end of the line is known only here.
        left.checked_sub(one_entry)?;
        *steps += one_entry;
        Some(self.automaton.next_eoi_state(table, state).ok()?.is_match())
    }
}

/// Returns the result of a search that ends in a state: of a match, of no match any more, or unknown.
fn ended(state: LazyStateID) -> Option<bool> {
    match (state.is_match(), state.is_dead()) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use regex::bytes::RegexBuilder;

    use super::*;

    /// Limit of these tests, that of the server.
    const MOST: u64 = 4 << 20;
    const MIB: usize = 1 << 20;

    fn compiled(expression: &str) -> (LineSteps, Regex) {
        let regex = RegexBuilder::new(expression).size_limit(MIB).build().unwrap();
        (LineSteps::compile(expression, false, MIB, MOST).unwrap(), regex)
    }

    /// Returns text of `bytes` bytes with nothing to skip.
    fn random(letters: &[u8], bytes: usize) -> Vec<u8> {
        let mut seed = 7_u32;
        let mut next = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            letters[(seed >> 16) as usize % letters.len()]
        };
        (0..bytes).map(|_| next()).collect()
    }

    #[test]
    fn simple_expressions_search_long_lines() {
        let noise = random(b"abcdefghijklmnopqrstuvwxyz 0123456789.,;", MIB - 20);
        for (expression, found) in [
            ("error|warn", "some error here"),
            (r"\w+@\w+", " ann@example "),
            (r"^[a-z0-9 .,;]+\{$", "{"),
            (r"(?i)TIMEOUT after \d+", "Timeout after 30"),
        ] {
            let (steps, regex) = compiled(expression);
            let mut count = StepCount::default();
            assert_eq!(steps.is_match(&regex, &noise, &mut count), Some(false), "{expression}");
            let line = [&noise[..], found.as_bytes()].concat();
            assert_eq!(steps.is_match(&regex, &line, &mut count), Some(true), "{expression}");
            assert!(count.steps <= 2 * MOST, "{expression}: {}", count.steps);
        }
    }

    #[test]
    fn expression_with_many_active_states_is_given_up() {
        // Each of the last 9000 bytes can have begun a match, so that almost every byte needs an entry.
        let (steps, regex) = compiled("[ab]*a[ab]{9000}[cd]");
        let line = random(b"ab", MIB);
        let mut count = StepCount::default();
        assert_eq!(steps.is_match(&regex, &line, &mut count), None);
        assert!(count.steps <= MOST, "{}", count.steps);
        assert_eq!(steps.is_match(&regex, b"a line", &mut count), Some(false));
        assert!(count.steps <= 2 * MOST, "{}", count.steps);
    }

    #[test]
    fn table_and_expression_agree() {
        for expression in
            ["a.c", "^b|c$", r"\bab\b", "(?:a|ab)(?:c|bcd)", "x*", "", r"[^a]\z", "(?-u:\\xFF)a"]
        {
            let (steps, regex) = compiled(expression);
            for length in 0..60 {
                let line = random(b"abcd x\xff", length);
                let line = line.get(length / 3..).unwrap_or_default();
                let mut count = StepCount::default();
                let found = steps.is_match_by_table(line, &mut count);
                // Word boundaries next to other bytes than ASCII are unknown to the table.
                if found.is_some() || !expression.contains(r"\b") {
                    assert_eq!(found, Some(regex.is_match(line)), "{expression:?} in {line:?}");
                }
            }
        }
    }
}
