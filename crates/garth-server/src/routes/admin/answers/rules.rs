//! Answers of the calls on rules and quotas.

use garth_engine::model::quota::Quota;
use garth_engine::rule::FileViolation;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

/// Rule.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct RuleItem {
    /// Glob pattern of paths.
    pub(crate) pattern: String,
    /// Name of the constraint.
    pub(crate) rule: &'static str,
    /// Terms of the constraint, an object; empty if it has none.
    #[schemars(with = "serde_json::Value")]
    pub(crate) terms: Box<RawValue>,
    /// True for a rule that every account has.
    pub(crate) built_in: bool,
}

/// Page of rules.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct RulesPage {
    /// Rules of the page, ordered by pattern and constraint.
    pub(crate) items: Vec<RuleItem>,
    /// True if more rules follow. Missing on the last page.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) has_more: bool,
    /// Cursor of the next page, to be sent as `cursor`. Missing on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_cursor: Option<String>,
}

/// Result of setting a rule.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct RuleSet {
    /// Always true, also if the rule is not set.
    pub(crate) ok: bool,
    /// True if the rule is set, false if existing files violate it.
    pub(crate) set: bool,
    /// Existing files that violate the rule, the first 100 of them.
    pub(crate) violations: Vec<RuleViolation>,
    /// True if more files violate the rule.
    pub(crate) has_more: bool,
}

/// File that violates a rule.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct RuleViolation {
    /// Path of the file.
    path: String,
    /// Reason, in words that follow the path.
    reason: String,
}

impl RuleViolation {
    /// Returns the answer for a violation.
    pub(crate) fn of(violation: FileViolation) -> Self {
        Self { path: violation.path.to_string(), reason: violation.reason }
    }
}

/// Result of the removal of a rule.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct RuleRemoved {
    /// Always true.
    pub(crate) ok: bool,
    /// Always true.
    pub(crate) removed: bool,
}

/// Quota with its use.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct QuotaItem {
    /// Path; `/` is the complete account.
    path: String,
    /// Limit on the bytes below the path; `null` for none.
    max_bytes: Option<u64>,
    /// Limit on the entries below the path; `null` for none.
    max_entries: Option<u64>,
    /// Bytes below the path, each file once.
    bytes: u64,
    /// Entries below the path.
    entries: u64,
}

impl QuotaItem {
    /// Returns the answer for a quota.
    pub(crate) fn of(quota: &Quota) -> Self {
        Self {
            path: quota.path.to_string(),
            max_bytes: quota.limits.bytes,
            max_entries: quota.limits.entries,
            bytes: quota.used.bytes,
            entries: quota.used.entries,
        }
    }
}

/// Quota that was set.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct QuotaSet {
    /// Always true.
    pub(crate) ok: bool,
    /// The quota.
    #[serde(flatten)]
    pub(crate) quota: QuotaItem,
}

/// Result of the removal of a quota.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct QuotaRemoved {
    /// Always true.
    pub(crate) ok: bool,
    /// Path of the quota.
    pub(crate) path: String,
    /// Always true.
    pub(crate) removed: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::respond::{raw, text};

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn rules_are_answered_with_terms_as_stored() {
        let page = |next_cursor: Option<String>| {
            let terms = RawValue::from_string(r#"{"n":1.10}"#.to_owned()).unwrap();
            let (pattern, built_in) = ("/a/**".to_owned(), false);
            let items = vec![RuleItem { pattern, rule: "schema", terms, built_in }];
            raw(&RulesPage { items, has_more: next_cursor.is_some(), next_cursor }).unwrap()
        };
        let item = r#"{"pattern":"/a/**","rule":"schema","terms":{"n":1.10},"built_in":false}"#;
        let next = format!(r#"{{"items":[{item}],"has_more":true,"next_cursor":"c"}}"#);
        assert_eq!(page(some("c")).get(), next);
        assert_eq!(page(None).get(), format!(r#"{{"items":[{item}]}}"#));
        assert_eq!(text(&RuleRemoved { ok: true, removed: true }), r#"{"ok":true,"removed":true}"#);
    }

    #[test]
    fn rules_that_are_not_set_name_violations() {
        let set = |violations: Vec<RuleViolation>| {
            let set = violations.is_empty();
            text(&RuleSet { ok: true, set, violations, has_more: !set })
        };
        assert_eq!(set(Vec::new()), r#"{"has_more":false,"ok":true,"set":true,"violations":[]}"#);
        let violation = RuleViolation { path: "/a".to_owned(), reason: "is long".to_owned() };
        assert_eq!(
            set(vec![violation]),
            concat!(
                r#"{"has_more":true,"ok":true,"set":false,"#,
                r#""violations":[{"path":"/a","reason":"is long"}]}"#
            )
        );
    }

    #[test]
    fn quotas_are_answered_with_limits_and_use() {
        let quota = |limit| {
            let (path, max_bytes, max_entries) = ("/d".to_owned(), limit, limit);
            QuotaItem { path, max_bytes, max_entries, bytes: 1, entries: 2 }
        };
        assert_eq!(
            text(&QuotaSet { ok: true, quota: quota(Some(9)) }),
            r#"{"bytes":1,"entries":2,"max_bytes":9,"max_entries":9,"ok":true,"path":"/d"}"#
        );
        assert_eq!(
            text(&quota(None)),
            r#"{"bytes":1,"entries":2,"max_bytes":null,"max_entries":null,"path":"/d"}"#
        );
        let removed = QuotaRemoved { ok: true, path: "/d".to_owned(), removed: true };
        assert_eq!(text(&removed), r#"{"ok":true,"path":"/d","removed":true}"#);
    }
}
