//! Answers of the calls on the context of a session.

use garth_agent::session::{Child, Collected, Deduped, Pack, Swapped, Wrote};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::routes::sessions::answers::ResolvedSource;
use crate::routes::tree_calls::answer::{Content, content};
use crate::wire::ItemsPage;

/// Derived files that were written.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct ContextDerived {
    /// Always true.
    pub(super) ok: bool,
    /// Names of the files in the session.
    pub(super) files: Vec<String>,
    /// Sequence number of the commit.
    pub(super) seq: u64,
}

/// Derived entry with its sources.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct EntrySources {
    /// File that has the entry: `context/facts.jsonl`, `context/decisions.jsonl` or `context/refs.jsonl`.
    pub(super) file: &'static str,
    /// Entry as it is stored, an object.
    pub(super) entry: Value,
    /// Sources that the entry names, resolved.
    pub(super) sources: Vec<EntrySource>,
}

/// Source of a derived entry.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct EntrySource {
    /// Source as the entry names it.
    pub(super) given: String,
    /// Place to which it leads.
    #[serde(flatten)]
    pub(super) resolved: ResolvedSource,
}

/// Result of pinning or unpinning a file.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct FilePinned {
    /// Always true.
    pub(super) ok: bool,
    /// Sequence number of the commit.
    pub(super) seq: u64,
}

/// Result of a compaction.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct SessionCompacted {
    /// Always true.
    pub(super) ok: bool,
    /// First and last line of the messages that the summary covers for the first time; `null` if there were
    /// none.
    pub(super) lines: Option<[u64; 2]>,
    /// True if a model wrote the summary.
    pub(super) by_model: bool,
    /// Sequence number of the commit; `null` if nothing was changed.
    pub(super) seq: Option<u64>,
    /// True if more messages can be compacted by a further call.
    pub(super) has_more: bool,
}

/// Pack for a model.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct PackAnswer<'a> {
    /// Always true.
    pub(super) ok: bool,
    /// Description of the pack.
    pub(super) pack: &'a Pack,
    /// Pack in the form that was asked for: for `markdown` a string; for `openai` and `anthropic` an object
    /// with `messages`, for `anthropic` also `system`, as a request to that provider has them.
    #[schemars(with = "Value")]
    pub(super) content: Box<RawValue>,
}

/// Result of swapping content out.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct ContentSwappedOut {
    /// Always true.
    pub(super) ok: bool,
    /// Content that was swapped out.
    pub(super) entry: Swapped,
}

/// Result of returning content to packs.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct ContentSwappedIn {
    /// Always true.
    pub(super) ok: bool,
    /// Id of the content, as it was sent.
    pub(super) id: String,
    /// Size of the content in bytes.
    pub(super) bytes: usize,
}

/// Content of a session that is swapped out.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct SwappedContents {
    /// All of the content that is swapped out.
    pub(super) items: Vec<Swapped>,
}

/// Part of content that was swapped out.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct SwappedPart<'a> {
    /// Id of the content, as it was sent.
    id: &'a str,
    /// Size of the complete content in bytes.
    size: usize,
    /// Bytes of the part as text. Missing if they are in `base64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    /// Bytes of the part in base64, if they are not UTF-8 or their escapes would more than double them.
    /// Missing otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

impl<'a> SwappedPart<'a> {
    /// Returns the answer for a part of content of `size` bytes.
    pub(super) fn of(id: &'a str, size: usize, part: &'a [u8]) -> Self {
        let (text, base64) = match content(part) {
            Content::Text(text) => (Some(text), None),
            Content::Base64(base64) => (None, Some(base64)),
        };
        Self { id, size, text, base64 }
    }
}

/// Content that was compared by its hash.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct ContentDeduplicated {
    /// Always true.
    pub(super) ok: bool,
    /// Entry of each source that was sent, in their order.
    pub(super) entries: Vec<Deduped>,
}

/// Child that was created.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct ChildSpawned {
    /// Always true.
    pub(super) ok: bool,
    /// The child.
    pub(super) child: Child,
}

/// Child that was changed.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct ChildChanged {
    /// Always true.
    pub(super) ok: bool,
    /// The child as it is now; `null` for a key that may not read.
    pub(super) child: Option<Child>,
}

/// Children of a session.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct SessionChildren {
    /// All children.
    pub(super) items: Vec<Child>,
}

/// Result of a garbage collection of a session.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct SessionCollected {
    /// Always true.
    pub(super) ok: bool,
    /// Files that were deleted; with `dry` those that would be.
    pub(super) removed: Vec<Collected>,
    /// Sequence number of the commit; `null` if nothing was deleted.
    pub(super) seq: Option<u64>,
    /// True if a further call may delete more.
    pub(super) has_more: bool,
}

/// File with bytes that a session wrote.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct WrittenFile {
    /// Current path of the file.
    path: String,
    /// Size of the file in bytes.
    size: u64,
    /// Byte ranges that the session wrote, each with start and end.
    bytes: Vec<[u64; 2]>,
    /// True if there are more ranges than these.
    more: bool,
}

/// Page of the files that a session wrote.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct WrittenFilesPage {
    /// Files of the page, and the cursor of the next one.
    #[serde(flatten)]
    pub(super) page: ItemsPage<WrittenFile>,
    /// On the first page: first commit whose state is readable, if the session may have written files up to
    /// it, which are missing unless it wrote them again later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) oldest: Option<u64>,
}

impl WrittenFile {
    /// Returns the answer for a file.
    pub(super) fn of(file: &Wrote) -> Self {
        Self {
            path: file.path.to_string(),
            size: file.size,
            bytes: file.bytes.iter().map(|bytes| [bytes.start, bytes.end]).collect(),
            more: file.more,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::routes::respond::{raw, text};

    /// Reads a type of the library from its JSON.
    fn read<T: serde::de::DeserializeOwned>(text: &str) -> T {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn derived_files_and_entries_are_answered() {
        let derived = ContextDerived { ok: true, files: vec!["todo.md".to_owned()], seq: 4 };
        assert_eq!(text(&derived), r#"{"files":["todo.md"],"ok":true,"seq":4}"#);
        assert_eq!(text(&FilePinned { ok: true, seq: 4 }), r#"{"ok":true,"seq":4}"#);
        let source = EntrySource { given: "messages:1".to_owned(), resolved: ResolvedSource::default() };
        let (file, entry) = ("context/facts.jsonl", json!({"id": "f1"}));
        assert_eq!(
            text(&EntrySources { file, entry, sources: vec![source] }),
            concat!(
                r#"{"entry":{"id":"f1"},"file":"context/facts.jsonl","#,
                r#""sources":[{"given":"messages:1","source":""}]}"#
            )
        );
    }

    #[test]
    fn compactions_name_lines_and_commit() {
        let compacted =
            |lines, seq| text(&SessionCompacted { ok: true, lines, by_model: false, seq, has_more: true });
        assert_eq!(
            compacted(Some([1, 9]), Some(3)),
            r#"{"by_model":false,"has_more":true,"lines":[1,9],"ok":true,"seq":3}"#
        );
        assert_eq!(
            compacted(None, None),
            r#"{"by_model":false,"has_more":true,"lines":null,"ok":true,"seq":null}"#
        );
    }

    #[test]
    fn packs_keep_the_order_of_their_fields() {
        let pack = concat!(
            r#"{"session":"work","agent":"scout","budget_tokens":0,"items":[],"tokens":0,"tokenizer":"t","#,
            r#""reserved":{"prompt_tokens":1,"tool_tokens":2,"output_tokens":3},"omitted":[],"#,
            r#""window":{"from":1,"to":2,"events":0},"prefix":{"bytes":0,"tokens":0,"sha256":"s"},"#,
            r#""forms":{"markdown":{"bytes":0,"sha256":"s"}},"form":1,"images":1,"built_at":"t"}"#,
        );
        let content = RawValue::from_string(r#"{"messages":[1.10]}"#.to_owned()).unwrap();
        let answer = raw(&PackAnswer { ok: true, pack: &read::<Pack>(pack), content }).unwrap();
        assert_eq!(answer.get(), format!(r#"{{"ok":true,"pack":{pack},"content":{{"messages":[1.10]}}}}"#));
    }

    #[test]
    fn swapped_content_is_answered() {
        let all = concat!(
            r#"{"cut":true,"event":"e","id":"sha256-a","kind":"events","range":"1-1","#,
            r#""source":"events.jsonl","summary":"s","tokens":3}"#
        );
        let few = r#"{"id":"sha256-a","kind":"file","source":"/a","summary":"","tokens":3}"#;
        let entry = read(all);
        assert_eq!(text(&ContentSwappedOut { ok: true, entry }), format!(r#"{{"entry":{all},"ok":true}}"#));
        let items = vec![read(few)];
        assert_eq!(text(&SwappedContents { items }), format!(r#"{{"items":[{few}]}}"#));
        let back = ContentSwappedIn { ok: true, id: "a".to_owned(), bytes: 9 };
        assert_eq!(text(&back), r#"{"bytes":9,"id":"a","ok":true}"#);
        let part = |bytes| raw(&SwappedPart::of("a", 9, bytes)).unwrap();
        assert_eq!(part(b"xy").get(), r#"{"id":"a","size":9,"text":"xy"}"#);
        assert_eq!(part(b"\xff\x00").get(), r#"{"id":"a","size":9,"base64":"/wA="}"#);
    }

    #[test]
    fn content_stored_once_is_answered_with_its_sources() {
        let entry = r#"{"bytes":9,"hash":"sha256-a","refs":["messages:1"],"tokens":3}"#;
        let answer = ContentDeduplicated { ok: true, entries: vec![read(entry)] };
        assert_eq!(text(&answer), format!(r#"{{"entries":[{entry}],"ok":true}}"#));
    }

    #[test]
    fn children_are_answered() {
        let child = r#"{"agent":"scout","id":"c1","session":"c1","status":"pending"}"#;
        let spawned = ChildSpawned { ok: true, child: read(child) };
        assert_eq!(text(&spawned), format!(r#"{{"child":{child},"ok":true}}"#));
        let changed = |child| text(&ChildChanged { ok: true, child });
        assert_eq!(changed(Some(read(child))), format!(r#"{{"child":{child},"ok":true}}"#));
        assert_eq!(changed(None), r#"{"child":null,"ok":true}"#);
        let children = SessionChildren { items: vec![read(child)] };
        assert_eq!(text(&children), format!(r#"{{"items":[{child}]}}"#));
    }

    #[test]
    fn collections_name_files_and_commit() {
        let file = r#"{"bytes":9,"name":"pack.md","reason":"r"}"#;
        let collected = |removed, seq| text(&SessionCollected { ok: true, removed, seq, has_more: false });
        assert_eq!(
            collected(vec![read(file)], Some(3)),
            format!(r#"{{"has_more":false,"ok":true,"removed":[{file}],"seq":3}}"#)
        );
        assert_eq!(collected(Vec::new(), None), r#"{"has_more":false,"ok":true,"removed":[],"seq":null}"#);
        let written = WrittenFile { path: "/a".to_owned(), size: 9, bytes: vec![[0, 9]], more: false };
        assert_eq!(text(&written), r#"{"bytes":[[0,9]],"more":false,"path":"/a","size":9}"#);
    }
}
