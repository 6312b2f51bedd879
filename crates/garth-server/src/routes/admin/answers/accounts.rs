//! Answers of the calls on accounts, and on the maintenance of the storage of one.

use garth_agent::access::Upgrade;
use garth_engine::fs::store::{Collectable, Collected, Fsck};
use garth_engine::home::Account;
use schemars::JsonSchema;
use serde::Serialize;

/// Account.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct AccountItem {
    /// Name of the account.
    account: String,
    /// Time of creation; RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    created_at: String,
}

impl AccountItem {
    /// Returns the answer for an account.
    pub(crate) fn of(account: &Account) -> Self {
        Self { account: account.id.clone(), created_at: account.created.to_rfc3339() }
    }
}

/// Account that was created, or existed.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct AccountCreated {
    /// Always true.
    pub(crate) ok: bool,
    /// The account.
    pub(crate) account: AccountItem,
    /// True if the call created the account, false if it existed.
    pub(crate) created: bool,
}

/// Result of the deletion of an account.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct AccountDeleted {
    /// Always true.
    pub(crate) ok: bool,
    /// Name of the account.
    pub(crate) account: String,
    /// True if the call deleted the account, false if there was none.
    pub(crate) deleted: bool,
}

/// Report of a garbage collection of an account.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum AccountCollection {
    /// Report of a collection.
    Done(AccountCollected),
    /// Report of a dry run.
    Dry(AccountCollectable),
}

/// Report of what a garbage collection of an account removed.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct AccountCollected {
    /// Always true.
    pub(crate) ok: bool,
    /// Name of the account.
    pub(crate) account: String,
    /// Always false.
    pub(crate) dry_run: bool,
    /// Numbers of what was removed.
    #[serde(flatten)]
    pub(crate) report: Collected,
}

/// Report of what a garbage collection of an account would remove at least.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct AccountCollectable {
    /// Always true.
    pub(crate) ok: bool,
    /// Name of the account.
    pub(crate) account: String,
    /// Always true.
    pub(crate) dry_run: bool,
    /// Numbers of what would be removed.
    #[serde(flatten)]
    pub(crate) report: Collectable,
}

/// Report of a check of an account.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct AccountChecked {
    /// True if there are no findings.
    ok: bool,
    /// Name of the account.
    account: String,
    /// Numbers and findings of the check.
    #[serde(flatten)]
    report: Fsck,
    /// True if there are more findings than these.
    has_more: bool,
    /// Decisions of the upgrade of an older account about who sees its files, each a sentence.
    decided: Vec<String>,
    /// Number of decisions that are not listed.
    unlisted: u64,
}

impl AccountChecked {
    /// Returns the answer for a report, with at most `max_findings` of its findings.
    pub(crate) fn of(account: String, mut report: Fsck, max_findings: usize, upgrade: Upgrade) -> Self {
        let (ok, has_more) = (report.findings.is_empty(), report.findings.len() > max_findings);
        report.findings.truncate(max_findings);
        Self { ok, account, report, has_more, decided: upgrade.decided, unlisted: upgrade.unlisted }
    }
}

/// Report of a reindexing of an account.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct AccountReindexed {
    /// Always true.
    pub(crate) ok: bool,
    /// Name of the account.
    pub(crate) account: String,
    /// Number of files that were indexed.
    pub(crate) files: u64,
}

#[cfg(test)]
mod tests {
    use garth_engine::fs::store::Finding;

    use super::*;
    use crate::routes::respond::text;

    #[test]
    fn accounts_are_answered() {
        let account = AccountItem { account: "acme".to_owned(), created_at: "t".to_owned() };
        assert_eq!(
            text(&AccountCreated { ok: true, account, created: true }),
            r#"{"account":{"account":"acme","created_at":"t"},"created":true,"ok":true}"#
        );
        let deleted = AccountDeleted { ok: true, account: "acme".to_owned(), deleted: false };
        assert_eq!(text(&deleted), r#"{"account":"acme","deleted":false,"ok":true}"#);
        let reindexed = AccountReindexed { ok: true, account: "acme".to_owned(), files: 3 };
        assert_eq!(text(&reindexed), r#"{"account":"acme","files":3,"ok":true}"#);
    }

    #[test]
    fn collections_are_answered_with_their_numbers() {
        let (ok, account) = (true, || "acme".to_owned());
        let report = Collected { expired: 1, merged: 2, folded: 5, ..Collected::default() };
        let done = AccountCollected { ok, account: account(), dry_run: false, report };
        assert_eq!(
            text(&AccountCollection::Done(done)),
            concat!(
                r#"{"account":"acme","bytes":0,"chunks":0,"content_bytes":0,"contents":0,"dry_run":false,"#,
                r#""ended_bytes":0,"ended_versions":0,"expired":1,"folded":5,"#,
                r#""freed":0,"merged":2,"ok":true,"oldest":0,"packs":0,"shrunk":0,"staged":0,"versions":0,"#,
                r#""waiting":0,"waiting_bytes":0,"waiting_commits":0,"waiting_contents":0}"#
            )
        );
        let report = Collectable { unnamed: 3, oldest: 9, ..Collectable::default() };
        let dry = AccountCollectable { ok, account: account(), dry_run: true, report };
        assert_eq!(
            text(&AccountCollection::Dry(dry)),
            concat!(
                r#"{"account":"acme","bytes":0,"chunks":0,"content_bytes":0,"contents":0,"dry_run":true,"#,
                r#""ended_bytes":0,"ended_versions":0,"expired":0,"folded":0,"freed":0,"#,
                r#""ok":true,"oldest":9,"packs":0,"staged":0,"unnamed":3,"waiting":0,"waiting_bytes":0}"#
            )
        );
    }

    #[test]
    fn checks_are_answered_with_bounded_findings() {
        let finding = |detail: &str| Finding { kind: "log", detail: detail.to_owned() };
        let report = Fsck { names: 1, findings: vec![finding("a"), finding("b")], ..Fsck::default() };
        let checked = AccountChecked::of("acme".to_owned(), report, 1, Upgrade::default());
        assert_eq!(
            text(&checked),
            concat!(
                r#"{"account":"acme","bytes":0,"chunks":0,"decided":[],"#,
                r#""findings":[{"detail":"a","kind":"log"}],"has_more":true,"large":[],"names":1,"#,
                r#""ok":false,"unlisted":0,"versions":0}"#
            )
        );
        let checked = AccountChecked::of("acme".to_owned(), Fsck::default(), 1, Upgrade::default());
        assert_eq!(
            text(&checked),
            concat!(
                r#"{"account":"acme","bytes":0,"chunks":0,"decided":[],"findings":[],"has_more":false,"#,
                r#""large":[],"names":0,"ok":true,"unlisted":0,"versions":0}"#
            )
        );
    }
}
