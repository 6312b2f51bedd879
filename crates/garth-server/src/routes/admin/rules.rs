//! Rules of an account over HTTP.

use std::borrow::Cow;
use std::sync::Arc;

use garth_agent::kv::MAX_PAGE_VALUES;
use garth_engine::fs::store::SetRuleResult;
use garth_engine::rule::{Constraint, PathPattern, Rule};
use garth_engine::{AccountStore, Error};
use serde_json::Value;
use serde_json::value::RawValue;

use super::answers::{RuleItem, RuleRemoved, RuleSet, RuleViolation, RulesPage};
use super::commits::batch;
use crate::errors::{Code, Refusal};
use crate::fields::{Kind, Page, fields, flag, json, string_of, words};
use crate::routes::call::Call;
use crate::routes::respond::{Json, raw};

/// Limit on the rules of a page.
const MAX_LISTED: usize = 1000;

/// Names of constraints.
const CONSTRAINTS: Kind = words(&Constraint::NAMES);

fields! {
    /// Lists the rules of the account, ordered by pattern and constraint.
    pub(crate) struct ListFields<'a> {
        /// `false` leaves out the rules that every account has.
        built_in: bool = flag(), or true;
        ..page: Page<MAX_LISTED, MAX_LISTED>;
    }
}

/// Position of a rule in the list.
fn position(rule: &Rule) -> (&str, &'static str) {
    (rule.pattern().as_str(), rule.constraint().name())
}

pub(in crate::routes) async fn list(
    account: &Arc<dyn AccountStore>,
    call: &Call<'_>,
    fields: ListFields<'_>,
) -> Result<Box<RawValue>, Refusal> {
    let mut rules = account.rules().await?;
    rules.retain(|rule| fields.built_in || !rule.is_built_in());
    rules.sort_by(|one, other| position(one).cmp(&position(other)));
    // The name of a constraint has no space; a pattern may have some.
    let after = fields.page.cursor.as_deref().and_then(|cursor| cursor.split_once(' '));
    let rest =
        rules.iter().filter(|rule| after.is_none_or(|(name, pattern)| position(rule) > (pattern, name)));
    let (mut items, mut bytes, mut last) = (Vec::new(), 0, None);
    let mut next_cursor = None;
    for rule in rest {
        let terms = rule.constraint().terms();
        bytes += terms.len() + rule.pattern().as_str().len();
        if items.len() == fields.page.limit || (bytes > MAX_PAGE_VALUES && !items.is_empty()) {
            next_cursor = last.map(|(pattern, name)| call.fields.cursor_of(&format!("{name} {pattern}")));
            break;
        }
        let (pattern, name) = position(rule);
        let terms = RawValue::from_string(terms)
            .map_err(|error| Refusal::internal().because(format!("terms of a rule: {error}")))?;
        let built_in = rule.is_built_in();
        items.push(RuleItem { pattern: pattern.to_owned(), rule: name, terms, built_in });
        last = Some((pattern, name));
    }
    raw(&RulesPage { items, has_more: next_cursor.is_some(), next_cursor })
}

fields! {
    /// Sets a rule, in force from the next commit. It replaces the rule with the same pattern and constraint.
    pub(crate) struct SetFields<'a> {
        /// Glob pattern of paths, such as `/logs/**`.
        pattern: Cow<'a, str> = string_of("path pattern");
        /// Constraint on the paths.
        constraint: Cow<'a, str> = CONSTRAINTS;
        /// Terms of the constraint, an object. Default: none.
        terms: Option<&'a RawValue> = json();
        /// `true` sets the rule even if existing files violate it; they stay until they are changed.
        force: bool = flag(), or false;
    }
}

/// Reason why a rule is not set.
enum NotSet {
    /// Existing files violate it. Holds the answer, which is not recorded: the files may be repaired.
    Violated(Value),
    Failed(Refusal),
}

impl From<Error> for NotSet {
    fn from(error: Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<Refusal> for NotSet {
    fn from(refusal: Refusal) -> Self {
        Self::Failed(refusal)
    }
}

pub(in crate::routes) async fn set(
    account: &Arc<dyn AccountStore>,
    call: &Call<'_>,
    fields: SetFields<'_>,
) -> Result<Json<RuleSet>, Refusal> {
    let terms = fields.terms.map_or("{}", RawValue::get);
    // serde would also read the terms from an array.
    if !terms.starts_with('{') {
        return Err(Refusal::validation("\"terms\" must be an object"));
    }
    let constraint = Constraint::parse(&fields.constraint, terms)?;
    let rule = Rule::new(PathPattern::parse(&fields.pattern)?, constraint);
    let record = batch(call, &format!("set a rule `{}`", fields.constraint));
    let setting = async {
        // All files of the pattern are read.
        let setting = account.set_rule(rule.clone(), fields.force);
        let set = call.stopping.unless_stopped(setting, "look whether the rule is set, and set it again");
        let SetRuleResult { set, violations, more } = set.await?;
        let violations = violations.into_iter().map(RuleViolation::of).collect();
        let answer = Json::of(&RuleSet { ok: true, set, violations, has_more: more })?.into_value();
        if set { Ok(answer) } else { Err(NotSet::Violated(answer)) }
    };
    match call.once.answer_after(&**account, record, setting).await {
        Ok(answer) | Err(NotSet::Violated(answer)) => Ok(Json::recorded(answer)),
        Err(NotSet::Failed(refusal)) => Err(refusal),
    }
}

fields! {
    /// Removes a rule.
    pub(crate) struct RemoveFields<'a> {
        /// Glob pattern, as listed.
        pattern: Cow<'a, str> = string_of("path pattern");
        /// Constraint of the rule.
        constraint: Cow<'a, str> = CONSTRAINTS;
    }
}

pub(in crate::routes) async fn remove(
    account: &Arc<dyn AccountStore>,
    call: &Call<'_>,
    fields: RemoveFields<'_>,
) -> Result<Json<RuleRemoved>, Refusal> {
    let (pattern, constraint) = (PathPattern::parse_stored(&fields.pattern)?, &*fields.constraint);
    let record = batch(call, &format!("remove a rule `{constraint}`"));
    let removing = async {
        if account.remove_rule(&pattern, constraint).await? {
            return Ok(Json::of(&RuleRemoved { ok: true, removed: true })?.into_value());
        }
        let message = format!("there is no rule `{constraint}` for {}", pattern.as_str());
        Err(Refusal::new(Code::NotFound, message))
    };
    call.once.answer_after(&**account, record, removing).await.map(Json::recorded)
}
