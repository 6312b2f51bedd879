//! Violations by a write that need no content: of paths that stay as they are, and of limits on sizes.

use super::constraint::NOT_IN_SESSIONS;
use super::{Constraint, MAX_WHOLE, Rules};
use crate::error::{Error, ErrorKind, Result};
use crate::model::Author;
use crate::path::TreePath;

/// Refuses a write of a file that will have at least `size` bytes, as [`judge`](super::judge()) would after
/// it. What it admits may still violate a rule.
///
/// # Errors
/// `RuleViolation`.
pub fn foresee(rules: &Rules, path: &TreePath, size: u64, author: &Author) -> Result<()> {
    for rule in rules.of(path) {
        let constraint = rule.constraint();
        let reason = match constraint {
            _ if !constraint.binds(author.key.as_deref(), author.class.as_deref()) => continue,
            Constraint::NotInSessions => NOT_IN_SESSIONS.to_owned(),
            Constraint::ReadOnly { .. } => "is read-only by a rule".to_owned(),
            Constraint::MaxSize(most) if size > *most => {
                format!("may have at most {most} bytes by a rule; it would have {size} or more")
            }
            Constraint::Json { .. } | Constraint::JsonLines { unique: Some(_), .. } if size > MAX_WHOLE => {
                format!("may have at most {MAX_WHOLE} bytes, because a rule checks it as a whole")
            }
            _ => continue,
        };
        return Err(constraint.advised(Error::at(ErrorKind::RuleViolation, path, reason)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{PathPattern, Rule};

    #[test]
    fn paths_and_sizes_are_judged_without_content() {
        let rule = |pattern: &str, constraint| Rule::new(PathPattern::parse(pattern).unwrap(), constraint);
        let rules = Rules::none()
            .with(rule("/small/**", Constraint::MaxSize(10)))
            .and_then(|rules| {
                rules.with(rule("/fixed/**", Constraint::ReadOnly { except: vec!["k".into()] }))
            })
            .and_then(|rules| rules.with(rule("/skills/**", Constraint::NotInSessions)))
            .unwrap();
        let (nobody, key) = (Author::default(), Author { key: Some("k".into()), ..Author::default() });
        let class = Author { class: Some("main".into()), ..Author::default() };
        let admits = |path: &str, size, author: &Author| {
            foresee(&rules, &TreePath::parse(path).unwrap(), size, author).is_ok()
        };
        assert!(admits("/small/a", 10, &nobody) && !admits("/small/a", 11, &nobody));
        assert!(!admits("/fixed/a", 0, &nobody) && admits("/fixed/a", 0, &key));
        assert!(admits("/skills/a", 0, &nobody) && !admits("/skills/a", 0, &class));
        assert!(admits("/other", u64::MAX, &nobody));
    }
}
