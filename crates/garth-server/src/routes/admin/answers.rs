//! Answers of the calls of an administrator.

mod accounts;
mod keys;
mod overlays;
pub(crate) mod retention;
mod rules;

pub(crate) use self::accounts::{
    AccountChecked, AccountCollectable, AccountCollected, AccountCollection, AccountCreated, AccountDeleted,
    AccountItem, AccountReindexed,
};
pub(crate) use self::keys::{ApiKeyItem, KeyCreated, KeyRevoked, KeyRotated};
pub(crate) use self::overlays::{
    OverlayApplied, OverlayChange, OverlayCreated, OverlayDiscarded, OverlayItem, SnapshotChanged,
    SnapshotItem,
};
pub(crate) use self::rules::{
    QuotaItem, QuotaRemoved, QuotaSet, RuleItem, RuleRemoved, RuleSet, RuleViolation, RulesPage,
};
