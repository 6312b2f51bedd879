//! Answers of the calls on overlays and snapshots.

use garth_engine::model::{Kind, Snapshot};
use garth_engine::view::overlay::{Applied, Difference, DifferenceKind, LowerLayer, StoredInfo};
use schemars::JsonSchema;
use serde::Serialize;

/// Limit on the conflicts that an answer lists.
const MAX_CONFLICTS: usize = 100;

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
    pub(crate) fn of(overlay: &StoredInfo) -> Self {
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
    pub(crate) fn new(id: &str, lower: &LowerLayer) -> Self {
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
    pub(crate) fn of(difference: &Difference) -> Self {
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
    pub(crate) fn of(id: &str, applied: &Applied) -> Self {
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
    pub(crate) fn new(id: &str) -> Self {
        Self { ok: true, id: id.to_owned(), commit: CommitFields::default() }
    }
}

/// Snapshot of an account.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct SnapshotItem {
    /// Name of the snapshot.
    name: String,
    /// Owner: the agent, key or view that created the snapshot; `null` for the account.
    owner: Option<String>,
    /// Sequence number of the commit that created the snapshot, whose state it names.
    seq: u64,
    /// Time of that commit; RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    time: String,
}

impl SnapshotItem {
    /// Returns the answer for a snapshot.
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let (seq, time) = (snapshot.seq.0, snapshot.time.to_rfc3339());
        let owner = snapshot.owner.as_ref().map(ToString::to_string);
        Self { name: snapshot.name.clone(), owner, seq, time }
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
    pub(crate) fn new(name: &str) -> Self {
        Self { ok: true, name: name.to_owned(), commit: CommitFields::default() }
    }
}

#[cfg(test)]
mod tests {
    use garth_engine::TreePath;
    use garth_engine::model::Seq;

    use super::*;
    use crate::routes::respond::text;

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn lower(as_of: Option<Seq>) -> LowerLayer {
        LowerLayer { root: TreePath::parse("/d").unwrap(), as_of }
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
        let item = SnapshotItem { name: "s".to_owned(), owner: None, seq: 3, time: "t".to_owned() };
        assert_eq!(text(&item), r#"{"name":"s","owner":null,"seq":3,"time":"t"}"#);
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
