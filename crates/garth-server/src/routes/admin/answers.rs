//! Answers of the calls of an administrator.

pub(crate) mod retention;

use garth_agent::access::Upgrade;
use garth_engine::fs::store::{Collectable, Collected, Fsck};
use garth_engine::home::{Account, ApiKey, Binding};
use garth_engine::model::quota::Quota;
use garth_engine::model::{Kind, Snapshot, Timestamp};
use garth_engine::rule::FileViolation;
use garth_engine::view::overlay::{Applied, Difference, DifferenceKind, LowerLayer, StoredInfo};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

/// Limit on the conflicts that an answer lists.
const MAX_CONFLICTS: usize = 100;

/// API key, without its secret.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct ApiKeyItem {
    /// Id of the key: 16 hexadecimal digits.
    id: String,
    /// Account that the key opens; `null` for a key of the data folder.
    account: Option<String>,
    /// Label to recognize the key by; may be empty.
    label: String,
    /// Scopes of the key, such as `memory:read`.
    scopes: Vec<&'static str>,
    /// Names and limits of the calls of the key; `null` for a free key.
    binding: Option<Binding>,
    /// Time of creation; RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    created_at: String,
    /// Time from which the key is rejected; RFC 3339. `null` if the key does not expire.
    #[schemars(extend("format" = "date-time"))]
    expires_at: Option<String>,
    /// Time of revocation; RFC 3339. `null` if the key is not revoked.
    #[schemars(extend("format" = "date-time"))]
    revoked_at: Option<String>,
    /// Id of the key that created this key; `null` if the command line or a program did.
    maker: Option<String>,
    /// True if the stored scopes or binding cannot be read. Requests with such a key fail. Missing otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    damaged: bool,
}

impl ApiKeyItem {
    /// Returns the answer for a key.
    pub(super) fn of(key: &ApiKey) -> Self {
        Self {
            id: key.id.clone(),
            account: key.account.clone(),
            label: key.label.clone(),
            scopes: key.scopes.iter().map(|scope| scope.as_str()).collect(),
            binding: (!key.binding.is_free()).then(|| key.binding.clone()),
            created_at: key.created.to_rfc3339(),
            expires_at: key.expires.map(Timestamp::to_rfc3339),
            revoked_at: key.revoked.map(Timestamp::to_rfc3339),
            maker: key.maker.clone(),
            damaged: key.is_damaged,
        }
    }
}

// Without `Debug`, so that no log has the secret.
/// API key that was created.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct KeyCreated {
    /// Always true.
    pub(super) ok: bool,
    /// The key.
    pub(super) key: ApiKeyItem,
    /// The complete key, to be sent in `Authorization`. No other answer contains it.
    pub(super) secret: String,
}

// Without `Debug`, so that no log has the secret.
/// API key that replaces another one.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct KeyRotated {
    /// Always true.
    pub(super) ok: bool,
    /// The new key.
    pub(super) key: ApiKeyItem,
    /// The complete new key, to be sent in `Authorization`. No other answer contains it.
    pub(super) secret: String,
    /// The old key. It stays valid until `expires_at`, or is revoked.
    pub(super) old: ApiKeyItem,
}

/// API key that was revoked.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct KeyRevoked {
    /// Always true.
    pub(super) ok: bool,
    /// The key.
    pub(super) key: ApiKeyItem,
}

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
    pub(super) fn of(account: &Account) -> Self {
        Self { account: account.id.clone(), created_at: account.created.to_rfc3339() }
    }
}

/// Account that was created, or existed.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct AccountCreated {
    /// Always true.
    pub(super) ok: bool,
    /// The account.
    pub(super) account: AccountItem,
    /// True if the call created the account, false if it existed.
    pub(super) created: bool,
}

/// Result of the deletion of an account.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct AccountDeleted {
    /// Always true.
    pub(super) ok: bool,
    /// Name of the account.
    pub(super) account: String,
    /// True if the call deleted the account, false if there was none.
    pub(super) deleted: bool,
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
    pub(super) ok: bool,
    /// Name of the account.
    pub(super) account: String,
    /// Always false.
    pub(super) dry_run: bool,
    /// Numbers of what was removed.
    #[serde(flatten)]
    pub(super) report: Collected,
}

/// Report of what a garbage collection of an account would remove at least.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct AccountCollectable {
    /// Always true.
    pub(super) ok: bool,
    /// Name of the account.
    pub(super) account: String,
    /// Always true.
    pub(super) dry_run: bool,
    /// Numbers of what would be removed.
    #[serde(flatten)]
    pub(super) report: Collectable,
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
    pub(super) fn of(account: String, mut report: Fsck, max_findings: usize, upgrade: Upgrade) -> Self {
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
    pub(super) ok: bool,
    /// Name of the account.
    pub(super) account: String,
    /// Number of files that were indexed.
    pub(super) files: u64,
}

/// Rule.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct RuleItem {
    /// Glob pattern of paths.
    pub(super) pattern: String,
    /// Name of the constraint.
    pub(super) rule: &'static str,
    /// Terms of the constraint, an object; empty if it has none.
    #[schemars(with = "serde_json::Value")]
    pub(super) terms: Box<RawValue>,
    /// True for a rule that every account has.
    pub(super) built_in: bool,
}

/// Page of rules.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct RulesPage {
    /// Rules of the page, ordered by pattern and constraint.
    pub(super) items: Vec<RuleItem>,
    /// True if more rules follow. Missing on the last page.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) has_more: bool,
    /// Cursor of the next page, to be sent as `cursor`. Missing on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_cursor: Option<String>,
}

/// Result of setting a rule.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct RuleSet {
    /// Always true, also if the rule is not set.
    pub(super) ok: bool,
    /// True if the rule is set, false if existing files violate it.
    pub(super) set: bool,
    /// Existing files that violate the rule, the first 100 of them.
    pub(super) violations: Vec<RuleViolation>,
    /// True if more files violate the rule.
    pub(super) has_more: bool,
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
    pub(super) fn of(violation: FileViolation) -> Self {
        Self { path: violation.path.to_string(), reason: violation.reason }
    }
}

/// Result of the removal of a rule.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct RuleRemoved {
    /// Always true.
    pub(super) ok: bool,
    /// Always true.
    pub(super) removed: bool,
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
    pub(super) fn of(quota: &Quota) -> Self {
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
    pub(super) ok: bool,
    /// The quota.
    #[serde(flatten)]
    pub(super) quota: QuotaItem,
}

/// Result of the removal of a quota.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct QuotaRemoved {
    /// Always true.
    pub(super) ok: bool,
    /// Path of the quota.
    pub(super) path: String,
    /// Always true.
    pub(super) removed: bool,
}

/// Overlay.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct OverlayItem {
    /// Id of the overlay.
    id: String,
    /// Directory that the overlay shows.
    path: String,
    /// Sequence number of the commit whose state the overlay shows; `null` if it follows the directory.
    as_of: Option<u64>,
}

impl OverlayItem {
    /// Returns the answer for an overlay.
    pub(super) fn of(overlay: &StoredInfo) -> Self {
        Self::new(&overlay.id, &overlay.lower)
    }

    fn new(id: &str, lower: &LowerLayer) -> Self {
        Self { id: id.to_owned(), path: lower.root.to_string(), as_of: lower.as_of.map(|seq| seq.0) }
    }
}

/// Commit of a call. Both fields are `None` in an answer that is recorded with the commit.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct CommitFields {
    /// Sequence number of the commit.
    #[schemars(with = "u64")]
    seq: Option<u64>,
    /// Time of the commit; RFC 3339.
    #[schemars(with = "String", extend("format" = "date-time"))]
    time: Option<String>,
}

/// Overlay that was created.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct OverlayCreated {
    /// Always true.
    ok: bool,
    /// The overlay.
    #[serde(flatten)]
    overlay: OverlayItem,
    /// Commit that created it.
    #[serde(flatten)]
    commit: CommitFields,
}

impl OverlayCreated {
    /// Returns the answer before the commit.
    pub(super) fn new(id: &str, lower: &LowerLayer) -> Self {
        Self { ok: true, overlay: OverlayItem::new(id, lower), commit: CommitFields::default() }
    }
}

/// Path that an overlay has changed.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct OverlayChange {
    /// Path in the account.
    path: String,
    /// `added`, `modified` or `removed`. Paths below a removed directory are not listed.
    change: &'static str,
    /// Kind of the node that the overlay shows, such as `file` or `directory`; for a removed path, of the
    /// node of the account.
    #[schemars(with = "String")]
    kind: Kind,
}

impl OverlayChange {
    /// Returns the answer for a difference.
    pub(super) fn of(difference: &Difference) -> Self {
        let change = match difference.change {
            DifferenceKind::Added => "added",
            DifferenceKind::Modified => "modified",
            DifferenceKind::Removed => "removed",
        };
        Self { path: difference.path.to_string(), change, kind: difference.kind }
    }
}

/// Result of applying an overlay.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct OverlayApplied {
    /// Always true.
    ok: bool,
    /// Id of the overlay.
    id: String,
    /// Sequence number of the commit; `null` if the overlay was empty.
    seq: Option<u64>,
    /// Time of the commit; RFC 3339. `null` if the overlay was empty.
    #[schemars(extend("format" = "date-time"))]
    time: Option<String>,
    /// Number of paths of the account that were changed. A removed directory counts once.
    changed: u64,
    /// Paths that both sides had changed, for which one side was taken, the first 100 of them.
    conflicts: Vec<String>,
    /// True if there are more conflicts.
    has_more: bool,
}

impl OverlayApplied {
    /// Returns the answer for an overlay that was applied.
    pub(super) fn of(id: &str, applied: &Applied) -> Self {
        let commit = applied.commit.as_ref();
        let conflicts = applied.conflicts.iter().take(MAX_CONFLICTS);
        Self {
            ok: true,
            id: id.to_owned(),
            seq: commit.map(|commit| commit.seq.0),
            time: commit.map(|commit| commit.time.to_rfc3339()),
            changed: applied.changed,
            conflicts: conflicts.map(ToString::to_string).collect(),
            has_more: applied.conflicts.len() > MAX_CONFLICTS,
        }
    }
}

/// Overlay that was discarded.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct OverlayDiscarded {
    /// Always true.
    ok: bool,
    /// Id of the overlay.
    id: String,
    /// Commit that removed it.
    #[serde(flatten)]
    commit: CommitFields,
}

impl OverlayDiscarded {
    /// Returns the answer before the commit.
    pub(super) fn new(id: &str) -> Self {
        Self { ok: true, id: id.to_owned(), commit: CommitFields::default() }
    }
}

/// Snapshot of an account.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct SnapshotItem {
    /// Name of the snapshot.
    name: String,
    /// Sequence number of the commit that created the snapshot, whose state it names.
    seq: u64,
    /// Time of that commit; RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    time: String,
}

impl SnapshotItem {
    /// Returns the answer for a snapshot.
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let (seq, time) = (snapshot.seq.0, snapshot.time.to_rfc3339());
        Self { name: snapshot.name.clone(), seq, time }
    }
}

/// Snapshot that was created or removed.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct SnapshotChanged {
    /// Always true.
    ok: bool,
    /// Name of the snapshot.
    name: String,
    /// Commit that created or removed it.
    #[serde(flatten)]
    commit: CommitFields,
}

impl SnapshotChanged {
    /// Returns the answer before the commit.
    pub(super) fn new(name: &str) -> Self {
        Self { ok: true, name: name.to_owned(), commit: CommitFields::default() }
    }
}

#[cfg(test)]
mod tests {
    use garth_engine::TreePath;
    use garth_engine::fs::store::Finding;
    use garth_engine::model::Seq;

    use super::*;
    use crate::routes::respond::{raw, text};

    /// Key with all optional fields.
    const ALL: &str = concat!(
        r#"{"account":"acme","binding":{"agent":"scout","read_only":true},"created_at":"t1","damaged":true,"#,
        r#""expires_at":"t2","id":"0","label":"l","maker":"1","revoked_at":"t3","scopes":["memory:read"]}"#,
    );
    /// Key without optional fields.
    const FEW: &str = concat!(
        r#"{"account":null,"binding":null,"created_at":"t1","expires_at":null,"id":"0","label":"","#,
        r#""maker":null,"revoked_at":null,"scopes":[]}"#,
    );

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn key() -> ApiKeyItem {
        let mut binding = Binding::default();
        (binding.agent, binding.read_only) = (some("scout"), true);
        ApiKeyItem {
            id: "0".to_owned(),
            account: some("acme"),
            label: "l".to_owned(),
            scopes: vec!["memory:read"],
            binding: Some(binding),
            created_at: "t1".to_owned(),
            expires_at: some("t2"),
            revoked_at: some("t3"),
            maker: some("1"),
            damaged: true,
        }
    }

    fn bare_key() -> ApiKeyItem {
        let (account, label, scopes, binding) = (None, String::new(), Vec::new(), None);
        let (expires_at, revoked_at, maker, damaged) = (None, None, None, false);
        ApiKeyItem { account, label, scopes, binding, expires_at, revoked_at, maker, damaged, ..key() }
    }

    fn lower(as_of: Option<Seq>) -> LowerLayer {
        LowerLayer { root: TreePath::parse("/d").unwrap(), as_of }
    }

    #[test]
    fn keys_are_answered_without_secret() {
        assert_eq!(text(&key()), ALL);
        assert_eq!(text(&bare_key()), FEW);
        assert_eq!(text(&KeyRevoked { ok: true, key: key() }), format!(r#"{{"key":{ALL},"ok":true}}"#));
    }

    #[test]
    fn only_new_keys_are_answered_with_secret() {
        let secret = || "s".to_owned();
        let created = KeyCreated { ok: true, key: bare_key(), secret: secret() };
        assert_eq!(text(&created), format!(r#"{{"key":{FEW},"ok":true,"secret":"s"}}"#));
        let rotated = KeyRotated { ok: true, key: bare_key(), secret: secret(), old: key() };
        assert_eq!(text(&rotated), format!(r#"{{"key":{FEW},"ok":true,"old":{ALL},"secret":"s"}}"#));
    }

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
                r#""waiting":0,"waiting_bytes":0}"#
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

    #[test]
    fn overlays_are_answered_with_their_directory() {
        assert_eq!(text(&OverlayItem::new("o", &lower(Some(Seq(3))))), r#"{"as_of":3,"id":"o","path":"/d"}"#);
        assert_eq!(text(&OverlayItem::new("o", &lower(None))), r#"{"as_of":null,"id":"o","path":"/d"}"#);
        let (path, kind) = ("/d/a".to_owned(), Kind::File);
        let change = OverlayChange { path, change: "added", kind };
        assert_eq!(text(&change), r#"{"change":"added","kind":"file","path":"/d/a"}"#);
    }

    #[test]
    fn answers_have_places_for_their_commit() {
        assert_eq!(
            text(&OverlayCreated::new("o", &lower(None))),
            r#"{"as_of":null,"id":"o","ok":true,"path":"/d","seq":null,"time":null}"#
        );
        let expected = r#"{"id":"o","ok":true,"seq":null,"time":null}"#;
        assert_eq!(text(&OverlayDiscarded::new("o")), expected);
        let expected = r#"{"name":"s","ok":true,"seq":null,"time":null}"#;
        assert_eq!(text(&SnapshotChanged::new("s")), expected);
        let commit = CommitFields { seq: Some(3), time: some("t") };
        let created = SnapshotChanged { commit, ..SnapshotChanged::new("s") };
        assert_eq!(text(&created), r#"{"name":"s","ok":true,"seq":3,"time":"t"}"#);
        let item = SnapshotItem { name: "s".to_owned(), seq: 3, time: "t".to_owned() };
        assert_eq!(text(&item), r#"{"name":"s","seq":3,"time":"t"}"#);
    }

    #[test]
    fn applied_overlays_name_commit_and_conflicts() {
        let empty = OverlayApplied::of("o", &Applied::default());
        assert_eq!(
            text(&empty),
            concat!(
                r#"{"changed":0,"conflicts":[],"has_more":false,"id":"o","ok":true,"#,
                r#""seq":null,"time":null}"#
            )
        );
        let mut applied = Applied::default();
        applied.changed = 200;
        applied.conflicts = vec![TreePath::parse("/a").unwrap(); MAX_CONFLICTS + 1];
        let answer = OverlayApplied { seq: Some(3), time: some("t"), ..OverlayApplied::of("o", &applied) };
        let conflicts = vec![r#""/a""#; MAX_CONFLICTS].join(",");
        let rest = r#""has_more":true,"id":"o","ok":true,"seq":3,"time":"t""#;
        let expected = format!(r#"{{"changed":200,"conflicts":[{conflicts}],{rest}}}"#);
        assert_eq!(text(&answer), expected);
    }
}
