//! JSON forms of values that the derived form does not suit: ids, paths and hashes as text, bytes as base64.

/// Values in the text form in which they are shown and parsed.
pub(super) mod shown {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(crate) fn serialize<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    pub(crate) fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

/// Ids of staged bodies: 32 hexadecimal digits, because JSON has no integers of 128 bits.
pub(super) mod id {
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(id: &u128, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&format!("{id:032x}"))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u128, D::Error> {
        let text = String::deserialize(from)?;
        // One spelling only.
        let id = u128::from_str_radix(&text, 16).ok().filter(|id| format!("{id:032x}") == text);
        id.ok_or_else(|| de::Error::custom("an id has 32 hexadecimal digits"))
    }
}

/// Hashes: 64 hexadecimal digits.
pub(super) mod hash {
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(hash: &[u8; 32], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&crate::model::hex::hex(hash))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<[u8; 32], D::Error> {
        let text = String::deserialize(from)?;
        let wrong = || de::Error::custom("a hash has 64 hexadecimal digits");
        // `from_str_radix` would also accept a sign.
        if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut hash = [0; 32];
        for (at, byte) in hash.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| wrong())?;
        }
        Ok(hash)
    }
}

/// Bytes: standard base64 with padding (RFC 4648, 4).
pub(super) mod bytes {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use bytes::Bytes;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(bytes: &Bytes, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
        let text = String::deserialize(from)?;
        STANDARD
            .decode(text)
            .map(Bytes::from)
            .map_err(|_| de::Error::custom("not base64 with padding: A-Z a-z 0-9 + / and = at the end"))
    }
}

/// Reads a field that is present: `null` clears it, whereas a field that is left out stays as it is.
pub(super) fn nullable<'de, D, T>(from: D) -> Result<Option<Option<T>>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::Deserialize<'de>,
{
    serde::Deserialize::deserialize(from).map(Some)
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use serde::Serialize;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use crate::model::{
        At, Author, Batch, BlameRun, Body, ByteRange, Change, ChangeKind, CommitChanges, CommitId,
        CommitInfo, Durability, Entry, FindItem, FindLine, Head, Hit, HitContext, Idempotency, Ino, Item,
        Kind, Op, Outcome, Owner, Precondition, ScoreParts, Seq, SetAttrs, Snapshot, Special, StagedBody,
        Timestamp, Version, VersionId, WalkItem,
    };
    use crate::path::{Name, TreePath};

    fn path(text: &str) -> TreePath {
        TreePath::parse(text).expect("a path")
    }

    /// Checks that a value is written as `expected` and reads back equal.
    fn written<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T, expected: &Value) {
        let text = serde_json::to_string(value).expect("it is written");
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), *expected);
        assert_eq!(serde_json::from_str::<T>(&text).expect("it is read"), *value, "{text}");
    }

    const VERSION: VersionId = VersionId { seq: Seq(10), ino: Ino(3) };

    #[test]
    fn addresses_and_conditions_round_trip_as_json() {
        written(&At::Path(path("/a b")), &json!({"path": "/a b"}));
        written(&At::Path(TreePath::root()), &json!({"path": "/"}));
        written(&At::Node(Ino(7)), &json!({"node": 7}));
        written(&At::Child(Ino(7), Name::parse("x").expect("a name")), &json!({"child": [7, "x"]}));
        written(&Precondition::Absent, &json!("absent"));
        written(&Precondition::Exists.negated(), &json!({"not": "exists"}));
        written(&Precondition::Version(VERSION), &json!({"version": "ver_a-3"}));
        written(&Precondition::EtagIn(vec![VERSION]), &json!({"etag_in": ["ver_a-3"]}));
        written(&Precondition::Sha256([0xab; 32]), &json!({"sha256": "ab".repeat(32)}));
        for wrong in ["{\"sha256\":\"ab\"}", "{\"version\":\"ver_0a-3\"}", "\"present\""] {
            assert!(serde_json::from_str::<Precondition>(wrong).is_err(), "{wrong}");
        }
        for wrong in ["{\"path\":\"a\"}", "{\"path\":\"/a/..\"}", "{\"child\":[1,\"a/b\"]}", "\"/a\""] {
            assert!(serde_json::from_str::<At>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn batch_json_round_trips_without_author() {
        let staged = Body::Staged(StagedBody { id: u128::MAX, size: 9 });
        let idempotency = Idempotency::new("k", [1; 32], Timestamp(5));
        let batch = Batch::new([
            Op::write(path("/a"), b"\xff\x00".to_vec())
                .with_attrs(SetAttrs::new().tags(["t"]).never_expires()),
            Op::append(path("/a"), staged),
            Op::append(path("/a"), "abc").cut_at([1, 2]),
            Op::mknod(path("/d"), Special::CharDevice(5)),
            Op::copy_range(Ino(2), 1, 2, path("/a"), 3),
            Op::snapshot("s"),
        ])
        .require(path("/a"), Precondition::Absent)
        .id(CommitId(1))
        .idempotency(idempotency)
        .visible();
        let none = json!({});
        let expected = json!({
            "ops": [
                {"write": {"at": {"path": "/a"}, "body": {"bytes": "/wA="}, "create": "if_missing",
                    "parents": false, "attrs": {"tags": ["t"], "expires_at": null}}},
                {"append": {"at": {"path": "/a"}, "body": {"staged": {"id": "f".repeat(32), "size": 9}},
                    "create": "if_missing", "parents": false}},
                {"append": {"at": {"path": "/a"}, "body": {"bytes": "YWJj"}, "create": "if_missing",
                    "parents": false, "cuts": [1, 2]}},
                {"mknod": {"at": {"path": "/d"}, "node": {"char_device": 5}, "parents": false, "attrs": none}},
                {"copy_range": {"from": {"node": 2}, "from_offset": 1, "length": 2, "to": {"path": "/a"},
                    "to_offset": 3}},
                {"snapshot": {"name": "s"}},
            ],
            "preconditions": [[{"path": "/a"}, "absent"]],
            "id": format!("{:032x}", 1),
            "idempotency": {"key": "k", "request_hash": "01".repeat(32), "keep_until": 5},
            "durability": "visible",
        });
        written(&batch, &expected);
        let authored = batch.clone().author(Author::agent("a"));
        let text = serde_json::to_string(&authored).expect("it is written");
        assert_eq!(serde_json::from_str::<Batch>(&text).expect("it is read"), batch);
        assert!(serde_json::from_str::<Batch>(r#"{"ops":[],"author":{}}"#).is_err(), "no request says who");
    }

    #[test]
    fn omitted_batch_fields_take_defaults() {
        let brief = r#"{"ops":[{"write":{"at":{"path":"/a"},"body":{"bytes":""}}},{"set_attrs":{"at":{"node":2},
            "attrs":{"content_type":null,"metadata":{"k":null}}}},{"copy":{"from":{"node":2},"to":{"path":"/b"}}},
            {"remove":{"at":{"path":"/c"},"what":"any"}},{"rename":{"from":{"path":"/d"},"to":{"path":"/e"}}}]}"#;
        let batch: Batch = serde_json::from_str(brief).expect("a batch");
        let mut cleared = SetAttrs::new().remove_metadata("k");
        cleared.content_type = Some(None);
        let expected = Batch::new([
            Op::write(path("/a"), ""),
            Op::set_attrs(Ino(2), cleared),
            Op::copy(Ino(2), path("/b")),
            Op::remove(path("/c")),
            Op::rename(path("/d"), path("/e")),
        ]);
        assert_eq!(batch, expected);
        assert_eq!(batch.durability, Durability::Durable);
        for wrong in [
            r#"{"ops":[{"write":{"at":{"path":"/a"}}}]}"#,
            r#"{"ops":[{"truncate":{"at":{"path":"/a"},"size":1,"more":1}}]}"#,
            r#"{"ops":[{"write":{"at":{"path":"/a"},"body":{"bytes":"not base64"}}}]}"#,
            r#"{"operations":[]}"#,
        ] {
            assert!(serde_json::from_str::<Batch>(wrong).is_err(), "{wrong}");
        }
    }

    /// Returns an entry whose times are all the same.
    fn entry() -> Entry {
        let time = Timestamp(7);
        Entry {
            ino: Ino(3),
            kind: Kind::Symlink,
            mode: 0o777,
            uid: 1,
            gid: 2,
            rdev: 0,
            nlink: 1,
            size: 2,
            atime: time,
            mtime: time,
            ctime: time,
            birthtime: time,
            target: Some("to".to_owned()),
            attributes: Default::default(),
            expires_at: None,
            version: VERSION,
            etag: VERSION,
        }
    }

    #[test]
    fn entry_and_outcome_round_trip_as_json() {
        let outcome = Outcome::created(VERSION, 5);
        let expected = json!({"ino": 3, "version": "ver_a-3", "created": true, "changed": true, "size": 5});
        written(&outcome, &expected);
        let entry = entry();
        let text = serde_json::to_string(&entry).expect("it is written");
        assert_eq!(serde_json::from_str::<Entry>(&text).expect("it is read"), entry, "{text}");
    }

    /// Checks that a value is written as `expected`.
    fn shown<T: Serialize>(value: &T, expected: &Value) {
        assert_eq!(serde_json::to_value(value).expect("it is written"), *expected);
    }

    /// Returns a commit without id and message.
    fn commit() -> CommitInfo {
        CommitInfo {
            seq: Seq(10),
            time: Timestamp(7),
            id: None,
            author: Author::default(),
            message: String::new(),
            overrides_rules: false,
            folded: false,
        }
    }

    #[test]
    fn items_of_pages_have_entries_only_if_asked_for() {
        let of_entry = serde_json::to_value(entry()).expect("it is written");
        let name = Name::parse("a").expect("a name");
        let (ino, kind) = (Ino(3), Kind::File);
        shown(
            &Item { name: name.clone(), ino, kind, entry: None },
            &json!({"name": "a", "ino": 3, "kind": "file"}),
        );
        shown(
            &Item { name, ino, kind, entry: Some(Box::new(entry())) },
            &json!({"name": "a", "ino": 3, "kind": "file", "entry": of_entry}),
        );
        let expected = json!({"path": "/b/a", "ino": 3, "kind": "char_device"});
        shown(&WalkItem { path: path("/b/a"), ino, kind: Kind::CharDevice, entry: None }, &expected);
    }

    #[test]
    fn versions_and_their_commits_are_shown_as_json() {
        let bare = json!({"seq": 10, "time": 7, "author": {}, "message": "", "overrides_rules": false});
        shown(&commit(), &bare);
        let full = CommitInfo {
            id: Some(CommitId(1)),
            author: Author::agent("scout").with_key("k1"),
            message: "why".to_owned(),
            overrides_rules: true,
            ..commit()
        };
        let expected = json!({
            "seq": 10, "time": 7, "id": format!("{:032x}", 1), "author": {"key": "k1", "agent": "scout"},
            "message": "why", "overrides_rules": true,
        });
        shown(&full, &expected);
        let folded = CommitInfo { folded: true, ..commit() };
        let expected = json!({
            "seq": 10, "time": 7, "author": {}, "message": "", "overrides_rules": false, "folded": true,
        });
        shown(&folded, &expected);
        let ended = Version { id: VERSION, commit: commit(), entry: None };
        shown(&ended, &json!({"id": "ver_a-3", "commit": bare, "entry": null}));
        shown(&Head { seq: Seq(10), time: Timestamp(7) }, &json!({"seq": 10, "time": 7}));
        let owner = Owner::new("inner").and_then(|inner| inner.inside(Some(&Owner::new("outer")?)));
        let mut snapshot = Snapshot { name: "s".to_owned(), seq: Seq(10), time: Timestamp(7), owner: None };
        shown(&snapshot, &json!({"name": "s", "seq": 10, "time": 7}));
        snapshot.owner = owner.ok();
        shown(&snapshot, &json!({"name": "s", "seq": 10, "time": 7, "owner": "outer > inner"}));
    }

    #[test]
    fn changes_name_their_kind_as_json() {
        let change = |kind| Change::new(kind, Ino(3), [path("/b")]);
        let name = || "s".to_owned();
        let changes = vec![
            change(ChangeKind::Created),
            change(ChangeKind::Attributes),
            change(ChangeKind::Renamed { from: path("/a") }),
            change(ChangeKind::Snapshot { name: name() }),
            change(ChangeKind::SnapshotDropped { name: name() }),
        ];
        let expected = json!({
            "commit": {"seq": 10, "time": 7, "author": {}, "message": "", "overrides_rules": false},
            "changes": [
                {"kind": "created", "ino": 3, "paths": ["/b"]},
                {"kind": "attributes", "ino": 3, "paths": ["/b"]},
                {"kind": "renamed", "from": "/a", "ino": 3, "paths": ["/b"]},
                {"kind": "snapshot", "name": "s", "ino": 3, "paths": ["/b"]},
                {"kind": "snapshot_dropped", "name": "s", "ino": 3, "paths": ["/b"]},
            ],
        });
        shown(&CommitChanges { commit: commit(), changes }, &expected);
    }

    #[test]
    fn results_of_searches_are_shown_as_json() {
        let range = ByteRange { offset: 1, length: 2 };
        shown(&BlameRun { range, commit: None }, &json!({"offset": 1, "length": 2, "commit": null}));
        let written = BlameRun { range, commit: Some(Seq(10)) };
        shown(&written, &json!({"offset": 1, "length": 2, "commit": 10}));
        let mut item = FindItem { key: "t".to_owned(), path: path("/a"), ino: Ino(3), line: None };
        shown(&item, &json!({"key": "t", "path": "/a", "ino": 3}));
        item.line = Some(FindLine { number: 4, bytes: 5..6 });
        let line = json!({"number": 4, "bytes": {"start": 5, "end": 6}});
        shown(&item, &json!({"key": "t", "path": "/a", "ino": 3, "line": line}));
        let context = HitContext { text: "x".to_owned(), best: 2, lines: 1..3, bytes: 0..9 };
        let parts = ScoreParts { words: 0.5, neighbours: 0.0, meaning: 0.25 };
        let hit = Hit {
            version: VERSION,
            score: 0.75,
            parts,
            snippet: "x".to_owned(),
            context: Some(context),
            ..Hit::at(path("/a"), Ino(3))
        };
        let expected = json!({
            "path": "/a", "ino": 3, "version": "ver_a-3", "score": 0.75,
            "parts": {"words": 0.5, "neighbours": 0.0, "meaning": 0.25}, "snippet": "x",
            "bytes": {"start": 0, "end": 0}, "lines": {"start": 0, "end": 0},
            "context": {
                "text": "x", "best": 2, "lines": {"start": 1, "end": 3}, "bytes": {"start": 0, "end": 9},
            },
        });
        shown(&hit, &expected);
    }
}
