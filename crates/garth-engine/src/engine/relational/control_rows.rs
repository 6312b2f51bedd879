//! Control data of an account from its rows: the rules in force, and the set of projections that its keys
//! belong to.

use crate::error::{Error, ErrorKind, Result};
use crate::rule::{Constraint, PathPattern, Registry, Rule, Rules};

/// Returns the rules in force: those of the registry, and those that operators have set. Each row has the
/// pattern, the name of the constraint, and its terms.
///
/// # Errors
/// `Corrupt` for a row that cannot be read: a write without its rule could violate it.
pub fn rules(registry: &Registry, rows: impl IntoIterator<Item = (String, String, String)>) -> Result<Rules> {
    let mut rules = registry.rules().clone();
    for (pattern, constraint, terms) in rows {
        let unreadable = |error: Error| {
            let message =
                format!("the rule `{constraint}` for {pattern} cannot be read; use the garth that set it");
            Error::new(ErrorKind::Corrupt, message).with_source(error)
        };
        let rule = PathPattern::parse_stored(&pattern)
            .and_then(|pattern| Ok(Rule::new(pattern, Constraint::parse(&constraint, &terms)?)))
            .map_err(unreadable)?;
        rules = rules.with(rule).map_err(unreadable)?;
    }
    Ok(rules)
}

/// Checks that this process knows all keys that the account stores. `version` is that of the head row.
///
/// # Errors
/// `Format` if another process stores keys that this one does not know.
pub fn check_version(version: u64, registry: &Registry) -> Result<()> {
    let known = registry.version();
    // Keys of an older set were derived again when this process opened the account.
    if version <= known {
        return Ok(());
    }
    let message = format!(
        "a newer garth derives more keys for this account (set {version}; this garth has set {known}), so this one \
         can only read it; use a newer garth to write"
    );
    Err(Error::new(ErrorKind::Format, message))
}
