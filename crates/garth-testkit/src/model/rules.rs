//! Rules in a model run.

use garth_engine::Error;
use garth_engine::engine::memory::MemoryFs;
use garth_engine::fs::store::{MAX_VIOLATIONS, SetRuleResult};
use garth_engine::fs::violation_search::{ViolationSearch, look};
use garth_engine::rule::{Constraint, PathPattern, Rule};

use super::comparisons::{Checked, same};
use crate::subject::Store;

/// Rules to draw from: for most names, for few, for deep paths, and one of each constraint.
const RULES: [(&str, &str, &str); 10] = [
    ("/**", "max-size", r#"{"bytes":100000}"#),
    ("/*", "json", "{}"),
    ("/d/**/b", "json-lines", "{}"),
    ("/**/[ab]", "json-lines", r#"{"schema":{"type":"number","minimum":2}}"#),
    ("/d/**", "append-only", "{}"),
    ("/*/?", "append-only", "{}"),
    ("/kv/*", "read-only", "{}"),
    ("/**/d_", "read-only", "{}"),
    ("/**/kv/**/d*", "read-only", "{}"),
    ("/agents/**", "max-size", r#"{"bytes":10}"#),
];

/// Number of rules to draw from.
pub(super) const DRAWN: u64 = RULES.len() as u64;

fn rule(number: usize) -> Result<Rule, Error> {
    let (pattern, constraint, terms) = RULES[number];
    Ok(Rule::new(PathPattern::parse(pattern)?, Constraint::parse(constraint, terms)?))
}

/// Sets a rule if nothing violates it or `force` is set. Without a number, removes all rules. Returns false
/// if the subject has no account that checks and sets rules.
pub(super) async fn play(
    store: &Store,
    model: &MemoryFs,
    number: Option<usize>,
    force: bool,
) -> Checked<bool> {
    let subject = match store {
        Store::Account(account) => account,
        Store::Memory(_) | Store::Absent => return Ok(false),
    };
    let Some(number) = number else {
        for rule in model.rules().all().filter(|rule| !rule.is_built_in()) {
            let removed = subject.remove_rule(rule.pattern(), rule.constraint().name()).await;
            same("the removal of a rule", removed, Ok(true))?;
            let left = model.rules().without(rule.pattern(), rule.constraint().name());
            model.set_rules(left.map_err(|error| error.to_string())?);
        }
        return Ok(true);
    };
    let rule = rule(number).map_err(|error| error.to_string())?;
    // The model has no call that sets a rule after a check, so the check is made here.
    let found = look(model, &rule, MAX_VIOLATIONS).await.map(|looked| {
        let ViolationSearch { violations, more, .. } = looked;
        SetRuleResult { set: force || violations.is_empty(), violations, more }
    });
    let set = same("setting a rule", subject.set_rule(rule.clone(), force).await, found)?;
    if set.is_some_and(|found| found.set) {
        model.set_rules(model.rules().with(rule).map_err(|error| error.to_string())?);
    }
    let of = |rules: Vec<Rule>| -> Vec<String> {
        let mut told: Vec<_> =
            rules.iter().map(|rule| format!("{:?}", (rule.pattern(), rule.constraint()))).collect();
        // The two sides may keep rules in different orders.
        told.sort();
        told
    };
    let known = of(model.rules().all().cloned().collect());
    same("the rules", subject.rules().await.map(of), Ok(known)).map(|_| true)
}
