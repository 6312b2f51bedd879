//! Answers of the calls on the retention of an account, and on its use.

use garth_engine::fs::store::{Hold, PathUsage, RetentionState, StoredUsage};
use garth_engine::model::Timestamp;
use garth_engine::rule::retention::{ContentLimit, Retention};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

/// Retention of the account.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct RetentionAnswer {
    /// Always true.
    ok: bool,
    /// Age from which commits leave the log, in seconds; `null` for no limit.
    age_seconds: Option<u64>,
    /// Number of commits that the log keeps; `null` for no limit.
    commits: Option<u64>,
    /// Limit on the stored bytes of the account; `null` for none.
    max_stored: Option<u64>,
    /// Limits on old content that are set, by path class.
    content: Vec<ContentLimitItem>,
    /// Version of these limits, for `if_version`. The same limits have the same version.
    version: String,
    /// Sequence number of the first commit whose state is readable; 0 if all are.
    oldest: u64,
    /// Time of that commit; RFC 3339. `null` for 0.
    #[schemars(extend("format" = "date-time"))]
    oldest_time: Option<String>,
    /// Sequence number of the commit up to which the rows of the past are removed.
    folded: u64,
    /// First thing that keeps `oldest` or `folded` from rising; `null` if there is none.
    held_by: Option<HoldItem>,
    /// Stored bytes beyond `max_stored`; commits that add something fail until they are removed. 0 if there
    /// are none.
    over_limit: u64,
    /// Patterns of path classes that are one path at which no file is, so that they match nothing now. For
    /// the files of a directory, `/**` has to follow.
    without_file: Vec<String>,
}

/// Returns the version of limits, which are in the order of their patterns, as answers have them.
pub(crate) fn version_of(limits: &Retention) -> String {
    let Retention { age, commits, stored, content } = limits;
    let class = |limit: &ContentLimit| json!([limit.pattern.as_str(), limit.keep.as_secs()]);
    let classes: Vec<_> = content.iter().map(class).collect();
    let limits = json!([age.map(|age| age.as_secs()), commits, stored, classes]);
    blake3::hash(limits.to_string().as_bytes()).to_hex().to_string()
}

/// Limit on the old content of the files of a path class.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ContentLimitItem {
    /// Glob pattern of the class.
    pattern: String,
    /// Seconds for which replaced content stays readable; 0 keeps none.
    keep_seconds: u64,
}

impl ContentLimitItem {
    fn of(limit: &ContentLimit) -> Self {
        Self { pattern: limit.pattern.as_str().to_owned(), keep_seconds: limit.keep.as_secs() }
    }
}

/// Reader of a state of the past.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct HoldItem {
    /// `snapshot`, `overlay`, or `reader` for a view of the past that a process has open.
    kind: &'static str,
    /// Name of the snapshot or id of the overlay; `null` for a reader.
    name: Option<String>,
    /// Owner of the snapshot: an agent, key or view; `null` for the account, and for anything else.
    owner: Option<String>,
}

impl HoldItem {
    fn of(hold: Hold) -> Self {
        let (kind, name, owner) = match hold {
            Hold::Snapshot { owner, name } => ("snapshot", Some(name), owner),
            Hold::Fork { id } => ("overlay", Some(id), None),
            Hold::Reader => ("reader", None, None),
        };
        Self { kind, name, owner: owner.as_ref().map(ToString::to_string) }
    }
}

impl RetentionAnswer {
    /// Returns the answer for the state of an account.
    pub(crate) fn of(state: RetentionState) -> Self {
        Self {
            ok: true,
            version: version_of(&state.set),
            age_seconds: state.set.age.map(|age| age.as_secs()),
            commits: state.set.commits,
            max_stored: state.set.stored,
            content: state.set.content.iter().map(ContentLimitItem::of).collect(),
            oldest: state.oldest.0,
            oldest_time: state.oldest_time.map(Timestamp::to_rfc3339),
            folded: state.folded.0,
            over_limit: state.over_limit(),
            without_file: state.without_file.iter().map(|class| class.as_str().to_owned()).collect(),
            held_by: state.held_by.map(HoldItem::of),
        }
    }
}

/// Space that an account takes, in bytes.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct UsageAnswer {
    /// Always true.
    ok: bool,
    /// Stored bytes, which the limit counts: `pages` and `packs`.
    stored: u64,
    /// Limit on the stored bytes; `null` for none.
    max_stored: Option<u64>,
    /// Pages of the database in use.
    pages: u64,
    /// Free pages of the database, which later writes use. Collections return those beyond a quarter of its
    /// file to the disk, unless an older garth created it.
    free: u64,
    /// Write-ahead log of the database.
    wal: u64,
    /// Content in pack files, with finished uploads that no commit has used.
    packs: u64,
    /// Files of uploads in progress.
    uploads: u64,
    /// Newest versions of all entries, with their names and content; an estimate, as are the next ones.
    live: u64,
    /// Earlier versions, and removed entries.
    history: u64,
    /// Version log.
    log: u64,
    /// Search index.
    index: u64,
    /// Part of `live` and `history` that overlays have.
    overlays: u64,
    /// Part of the content in `history` that only snapshots, overlays and open views of the past keep.
    snapshots: u64,
    /// Children of the path, by name, at most 1,000.
    paths: Vec<PathItem>,
    /// True if there are more.
    has_more: bool,
}

/// Space that a path and everything below it take, in bytes.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct PathItem {
    /// Path.
    path: String,
    /// Newest versions, with their names and content.
    live: u64,
    /// Earlier versions, and removed entries.
    history: u64,
}

impl PathItem {
    fn of(PathUsage { path, live, history }: &PathUsage) -> Self {
        Self { path: path.to_string(), live: *live, history: *history }
    }
}

impl UsageAnswer {
    /// Returns the answer for the use of an account.
    pub(crate) fn of(usage: &StoredUsage) -> Self {
        Self {
            ok: true,
            stored: usage.stored(),
            max_stored: usage.limit,
            pages: usage.pages,
            free: usage.free,
            wal: usage.wal,
            packs: usage.packs,
            uploads: usage.uploads,
            live: usage.live,
            history: usage.history,
            log: usage.log,
            index: usage.index,
            overlays: usage.overlays,
            snapshots: usage.snapshots,
            paths: usage.paths.iter().map(PathItem::of).collect(),
            has_more: usage.more,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use garth_engine::TreePath;
    use garth_engine::model::{Owner, Seq};
    use garth_engine::rule::PathPattern;
    use serde_json::to_value;

    use super::*;

    #[test]
    fn retention_is_answered_with_its_effect() {
        let state = |set, held_by| RetentionState {
            set,
            oldest: Seq(3),
            oldest_time: Some(Timestamp(0)),
            folded: Seq(2),
            stored: 12,
            full: true,
            held_by,
            without_file: vec![PathPattern::parse("/a").unwrap()],
        };
        let limit = ContentLimit {
            pattern: PathPattern::parse("/a/**").unwrap(),
            keep: std::time::Duration::from_secs(5),
        };
        let set =
            Retention { commits: Some(9), stored: Some(7), content: vec![limit], ..Retention::default() };
        let version = version_of(&set);
        assert_eq!(
            to_value(RetentionAnswer::of(state(set, Some(Hold::Fork { id: "draft".to_owned() })))).unwrap(),
            json!({"ok": true, "age_seconds": null, "commits": 9, "max_stored": 7,
                "content": [{"pattern": "/a/**", "keep_seconds": 5}], "version": version, "oldest": 3,
                "oldest_time": Timestamp(0).to_rfc3339(), "folded": 2,
                "held_by": {"kind": "overlay", "name": "draft", "owner": null}, "over_limit": 5,
                "without_file": ["/a"]})
        );
        let held = |owner| HoldItem::of(Hold::Snapshot { owner, name: "s".to_owned() });
        let named = |owner| json!({"kind": "snapshot", "name": "s", "owner": owner});
        assert_eq!(to_value(held(None)).unwrap(), named(None));
        assert_eq!(to_value(held(Some(Owner::new("agent").unwrap()))).unwrap(), named(Some("agent")));
        let none = RetentionState { oldest_time: None, ..state(Retention::default(), None) };
        let none = to_value(RetentionAnswer::of(none)).unwrap();
        assert_eq!((&none["held_by"], &none["oldest_time"]), (&json!(null), &json!(null)));
    }

    #[test]
    fn each_limit_is_in_the_version() {
        let class = |pattern: &str, seconds| ContentLimit {
            pattern: PathPattern::parse(pattern).unwrap(),
            keep: std::time::Duration::from_secs(seconds),
        };
        let none = Retention::default();
        let all = [
            none.clone(),
            Retention { age: Some(std::time::Duration::from_secs(7)), ..none.clone() },
            Retention { commits: Some(7), ..none.clone() },
            Retention { stored: Some(7), ..none.clone() },
            Retention { content: vec![class("/a", 7)], ..none.clone() },
            Retention { content: vec![class("/a", 8)], ..none.clone() },
            Retention { content: vec![class("/b", 7)], ..none.clone() },
            Retention { content: vec![class("/a", 7), class("/b", 7)], ..none },
        ];
        let versions: BTreeSet<String> = all.iter().map(version_of).collect();
        assert_eq!(versions.len(), all.len());
    }

    #[test]
    fn usage_is_answered_with_the_bytes_of_the_limit() {
        let path = TreePath::parse("/a").unwrap();
        let paths = vec![PathUsage { path, live: 1, history: 2 }];
        let usage = StoredUsage { pages: 10, packs: 5, free: 3, paths, ..StoredUsage::default() };
        let answer = to_value(UsageAnswer::of(&usage)).unwrap();
        assert_eq!((&answer["stored"], &answer["max_stored"]), (&json!(15), &json!(null)));
        assert_eq!(answer["paths"], json!([{"path": "/a", "live": 1, "history": 2}]));
        assert_eq!(answer["has_more"], json!(false));
    }
}
