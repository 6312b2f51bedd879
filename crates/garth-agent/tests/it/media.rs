//! Media: each in a file of its own, found by its UUID after a move, and restored in the messages for a
//! model.

use std::collections::HashSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use garth_agent::media::{Fate, Hydrator, MAX_MEDIA, Media, MediaKey, NewMedia, Stored};
use garth_agent::session::{
    Append, Create, Draft, Export, Format, Import, PackOptions, Role, Select, SessionKey, Sessions,
    TranscriptFormat,
};
use garth_agent::{Access, Caller, Request};
use garth_engine::model::{Batch, Op, Seq, SetAttrs, Timestamp};
use garth_engine::{Env, Error, ErrorKind, FileSystem, FileSystemExt, TreePath};
use serde_json::{Value, json};

use super::sessions::{account, engines};

/// Sequence number after all commits: no file counts as late.
const NOW: Seq = Seq(u64::MAX);
pub(super) const KEY: &str = "agent:coder:main";
/// UUID of the session that owns the files.
const OF: &str = "0a1b2c3d-0000-4000-8000-000000000001";
/// UUID of another session with the same key.
const TWIN: &str = "0a1b2c3d-0000-4000-8000-000000000002";
/// 2026-01-27 09:30 UTC.
const START: Timestamp = Timestamp(1_769_506_200_123_000_000);

fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

fn env() -> Env {
    Env::manual(START).0
}

fn media(fs: &dyn FileSystem) -> Media<'_> {
    Media::new(fs).env(env())
}

fn body(bytes: impl Into<Bytes>) -> impl futures::Stream<Item = Result<Bytes, Error>> + Send {
    futures::stream::iter([Ok(bytes.into())])
}

async fn put(fs: &dyn FileSystem, of: &str, bytes: &'static [u8]) -> Stored {
    media(fs).put(&NewMedia::new(KEY, "image/png").session(of), body(bytes)).await.unwrap()
}

/// Returns a session, with a session key if given.
pub(super) async fn session<'a>(fs: &'a dyn FileSystem, name: &str, key: Option<&str>) -> Sessions<'a> {
    let sessions = Sessions::new(fs, "default", "coder").unwrap().env(env());
    let create = Create::new(name);
    let create = match key {
        Some(key) => create.key(key.parse::<SessionKey>().unwrap()),
        None => create,
    };
    sessions.create(&create).await.unwrap();
    sessions
}

fn image(bytes: &[u8]) -> Value {
    json!({"type": "image", "mime_type": "image/png", "data": STANDARD.encode(bytes)})
}

/// Returns an image of one pixel, with a text in it.
pub(crate) fn png(text: &str) -> Vec<u8> {
    let header = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0";
    [header, text.as_bytes()].concat()
}

fn said(role: Role, id: &str, content: &Value) -> Draft {
    Draft::message(role, content).with("id", id)
}

async fn line(sessions: &Sessions<'_>, number: u64) -> Value {
    let page = sessions.lines("work", &Select::messages(number..=number)).await.unwrap();
    serde_json::from_str(&page.items[0].text).unwrap()
}

fn names(stored: &[Stored]) -> Vec<String> {
    stored.iter().map(|one| one.key.to_string()).collect()
}

/// Returns the files of the session with this UUID.
async fn all(fs: &dyn FileSystem, of: &str) -> Vec<Stored> {
    media(fs).list(of, None, 1000).await.unwrap().0
}

/// Returns the files of the session `work`.
async fn of_work(sessions: &Sessions<'_>, fs: &dyn FileSystem) -> Vec<Stored> {
    all(fs, &sessions.get("work").await.unwrap().meta.id).await
}

#[tokio::test]
async fn media_file_has_type_and_metadata() {
    for (fs, _kept) in engines().await {
        let new = NewMedia::new(KEY, "Audio/OGG; codecs=opus").session(OF).file_name("Grüße \"1\".ogg");
        let stored = media(&*fs).put(&new, body("sound")).await.unwrap();
        assert_eq!(stored.path.as_str(), format!("/media/{KEY}/{}.ogg", stored.key.id()));
        assert_eq!(stored.session_id(), Some(OF));
        assert_eq!(&stored.key.id()[14..15], "4", "a random UUID");
        let attributes = &stored.entry.attributes;
        assert_eq!(attributes.content_type.as_deref(), Some("Audio/OGG; codecs=opus"));
        let of = format!("{OF}/{}", stored.key.id());
        let due = [
            ("garth.media", stored.key.id()),
            ("garth.session", &of),
            ("originalFilename", "Grüße \"1\".ogg"),
            ("sessionKey", KEY),
            ("uploadedAt", "1769506200123"),
        ];
        assert_eq!(attributes.metadata, due.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        let empty = put(&*fs, OF, b"").await;
        assert_eq!(empty.entry.attributes.metadata["originalFilename"], "");
        assert_eq!((empty.entry.size, names(&all(&*fs, OF).await).len()), (0, 2));
    }
}

#[tokio::test]
async fn media_upload_enforces_the_size_limit() {
    for (fs, _kept) in engines().await {
        let piece = Bytes::from(vec![7; 1 << 20]);
        let pieces = |last: usize| {
            let whole = (0..25).map(|_| Ok(piece.clone()));
            futures::stream::iter(whole.chain([Ok(piece.slice(..last))]).collect::<Vec<_>>())
        };
        let new = NewMedia::new(KEY, "video/mp4").session(OF);
        let stored = media(&*fs).put(&new, pieces(0)).await.unwrap();
        assert_eq!((stored.entry.size, MAX_MEDIA), (26_214_400, 26_214_400));
        let before = fs.head().await.unwrap().seq;
        let refused = media(&*fs).put(&new, pieces(1)).await.unwrap_err();
        assert!(refused.is(ErrorKind::TooLarge), "{refused}");
        assert_eq!(fs.head().await.unwrap().seq, before);
        let broken =
            futures::stream::iter([Ok(piece.clone()), Err(Error::new(ErrorKind::Io, "it broke off"))]);
        assert!(media(&*fs).put(&new, broken).await.unwrap_err().is(ErrorKind::Io));
        assert_eq!(names(&all(&*fs, OF).await), [stored.key.to_string()]);
    }
}

#[tokio::test]
async fn media_put_rejects_invalid_key_or_type() {
    for (fs, _kept) in engines().await {
        for key in ["", ".", "..", "a/b", "../x", "a\0", "a\nb", &"k".repeat(256)] {
            let new = NewMedia::new(key, "image/png");
            let refused = media(&*fs).put(&new, body("x")).await.unwrap_err();
            assert!(refused.is(ErrorKind::InvalidArgument), "{key}: {refused}");
            assert!(media(&*fs).list(key, None, 10).await.unwrap().0.is_empty(), "{key}");
        }
        for (mime_type, name) in [("png", ""), ("", ""), ("image/png\n", ""), ("image/png", "a\nb")] {
            let new = NewMedia::new(KEY, mime_type).file_name(name);
            assert!(media(&*fs).put(&new, body("x")).await.unwrap_err().is(ErrorKind::InvalidArgument));
        }
        assert!(!fs.exists("/media").await.unwrap());
    }
}

#[tokio::test]
async fn media_are_found_only_in_media_places() {
    for (fs, _kept) in engines().await {
        let Stored { key, path: at, .. } = put(&*fs, OF, b"true").await;
        let read = async || -> Result<Bytes, Error> {
            let (stored, file) = media(&*fs).open(&key).await?;
            file.read_at(0, usize::try_from(stored.entry.size).unwrap()).await
        };
        for place in ["/media/elsewhere", "/agents/coder/sessions/s-1/media"] {
            let to = path(&format!("{place}/{}", key.name()));
            fs.commit(Batch::new([Op::rename(at.clone(), to.clone()).with_parents()])).await.unwrap();
            assert_eq!(read().await.unwrap(), "true", "{place}");
            fs.rename(&to, &at).await.unwrap();
        }
        fs.mkdir_all("/hidden").await.unwrap();
        fs.rename(&at, path(&format!("/hidden/{}", key.name()))).await.unwrap();
        // Each claims to be the file.
        let forged = |session_key: &str| {
            let attrs = SetAttrs::new().metadata("garth.media", key.id());
            attrs.metadata("sessionKey", session_key)
        };
        let name = key.name();
        for (place, session_key) in [
            (format!("/{name}"), KEY),
            (format!("/media/{name}"), KEY),
            (format!("/media/k/l/{name}"), KEY),
            (format!("/mediax/k/{name}"), KEY),
            (format!("/media/k/x{name}"), KEY),
            (format!("/media/k/{name}"), "agent:coder:dm:eve"),
            (format!("/agents/coder/sessions/s-1/{name}"), KEY),
            (format!("/agents/coder/sessions/s-1/mediax/{name}"), KEY),
            (format!("/agents/coder/x/s-1/media/{name}"), KEY),
            (format!("/agents/coder/sessions/s-1/media/l/{name}"), KEY),
            (format!("/users/ann/sessions/s-1/media/{name}"), KEY),
            (format!("/chats/agents/coder/sessions/s-1/media/{name}"), KEY),
        ] {
            let write = Op::write(path(&place), "forged").with_parents().with_attrs(forged(session_key));
            // Only garth may set the attribute, and even then the file does not count.
            let refused = fs.commit(Batch::new([write.clone()])).await.unwrap_err();
            assert!(refused.is(ErrorKind::RuleViolation), "{place}: {refused}");
            fs.commit(Batch::new([write]).by_garth()).await.unwrap();
            assert!(read().await.unwrap_err().is(ErrorKind::NotFound), "{place}");
        }
        // A link, a directory, or the file of another UUID does not count either.
        fs.symlink(&at, format!("/media/{name}")).await.unwrap();
        assert!(read().await.unwrap_err().is(ErrorKind::NotFound));
        fs.remove(&at).await.unwrap();
        fs.mkdir_all(&at).await.unwrap();
        assert!(read().await.unwrap_err().is(ErrorKind::NotFound));
        for bad in [format!("media/../media/{KEY}/{name}"), format!("media/{KEY}/../x/{name}")] {
            assert!(bad.parse::<MediaKey>().is_err(), "{bad}");
        }
    }
}

#[tokio::test]
async fn media_of_a_session_list_in_pages() {
    for (fs, _kept) in engines().await {
        let mut due = Vec::new();
        for _ in 0..5 {
            due.push(put(&*fs, OF, b"x").await.key.to_string());
        }
        // The other session has the same key, and files of its own.
        let other = put(&*fs, TWIN, b"x").await;
        fs.write(format!("/media/{KEY}/notes.txt").as_str(), "no media").await.unwrap();
        due.sort();
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let (page, next) = media(&*fs).list(OF, after.as_deref(), 2).await.unwrap();
            assert!(page.len() <= 2);
            found.extend(names(&page));
            match next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        assert_eq!(found, due);
        let prefix = &OF[..OF.len() - 1];
        assert!(all(&*fs, prefix).await.is_empty() && all(&*fs, "").await.is_empty());
        assert!(media(&*fs).list(OF, None, 0).await.is_err());
        let first: MediaKey = due[0].parse().unwrap();
        media(&*fs).remove(&first).await.unwrap();
        assert!(media(&*fs).remove(&first).await.unwrap_err().is(ErrorKind::NotFound));
        assert_eq!(names(&all(&*fs, OF).await), due[1..]);
        for one in all(&*fs, OF).await {
            media(&*fs).remove(&one.key).await.unwrap();
        }
        assert!(all(&*fs, OF).await.is_empty());
        assert_eq!(names(&all(&*fs, TWIN).await), [other.key.to_string()]);
    }
}

#[tokio::test]
async fn append_moves_images_to_files_atomically() {
    for (fs, _kept) in engines().await {
        let sessions = session(&*fs, "work", Some(KEY)).await;
        let call = json!([{"type": "tool_call", "id": "c", "name": "read", "arguments": {}}]);
        let result = json!([{"type": "tool_result", "call_id": "c", "content": [image(b"from a tool")]}]);
        let large = image(&vec![9; 5 << 20]);
        let messages = [
            Draft::message(
                Role::User,
                &json!([{"type": "text", "text": "see"}, image(b"from a user"), large]),
            ),
            Draft::message(Role::Assistant, &call),
            Draft::message(Role::Tool, &result),
        ];
        let done = sessions.append("work", &Append::messages(messages)).await.unwrap();
        let stored = of_work(&sessions, &*fs).await;
        assert_eq!(stored.len(), 3);
        for one in &stored {
            assert_eq!(one.entry.version.seq, done.seq.unwrap(), "one commit");
            assert_eq!(one.entry.attributes.content_type.as_deref(), Some("image/png"));
            assert_eq!(one.entry.attributes.metadata["sessionKey"], KEY);
            assert_eq!(one.entry.attributes.metadata["garth.media"], one.key.id());
        }
        let (user, tool) = (line(&sessions, 1).await, line(&sessions, 3).await);
        assert_eq!(user["content"][0], json!({"type": "text", "text": "see"}));
        for (block, bytes) in [
            (&user["content"][1], b"from a user".to_vec()),
            (&user["content"][2], vec![9; 5 << 20]),
            (&tool["content"][0]["content"][0], b"from a tool".to_vec()),
        ] {
            let key: MediaKey = block["path"].as_str().unwrap().parse().unwrap();
            assert_eq!(block, &json!({"type": "image", "mime_type": "image/png", "path": key.to_string()}));
            assert_eq!(fs.read_file(&key.path()).await.unwrap(), bytes);
        }
        let file = format!("{}/messages.jsonl", sessions.directory("work").unwrap());
        assert!(!fs.read_to_string(file.as_str()).await.unwrap().contains("\"data\""));
        let referred = sessions.media_referred("work").await.unwrap();
        assert_eq!(referred, stored.iter().map(|one| one.key.id().to_owned()).collect());
    }
}

#[tokio::test]
async fn session_without_key_stores_images() {
    for (fs, _kept) in engines().await {
        let sessions = session(&*fs, "work", None).await;
        let message = Draft::message(Role::User, &json!([image(b"kept")]));
        sessions.append("work", &Append::messages([message])).await.unwrap();
        assert_eq!(line(&sessions, 1).await["content"][0], image(b"kept"));
        assert!(!fs.exists("/media").await.unwrap());
    }
}

#[tokio::test]
async fn append_with_image_is_idempotent() {
    for (fs, _kept) in engines().await {
        let sessions = session(&*fs, "work", Some(KEY)).await;
        let given = Append::messages([said(Role::User, "msg-1", &json!([image(b"once")]))]);
        sessions.append("work", &given).await.unwrap();
        let (first, head) = (names(&of_work(&sessions, &*fs).await), fs.head().await.unwrap().seq);
        assert_eq!(sessions.append("work", &given).await.unwrap().seq, None);
        // A repeat with the stored form is recognised as well.
        let page = sessions.lines("work", &Select::messages(1..=1)).await.unwrap();
        let read = Draft::parse(&page.items[0].text).unwrap();
        assert_eq!(sessions.append("work", &Append::messages([read])).await.unwrap().seq, None);
        assert_eq!(
            (names(&of_work(&sessions, &*fs).await), fs.head().await.unwrap().seq),
            (first.clone(), head)
        );
        let other = Append::messages([said(Role::User, "msg-1", &json!([image(b"other")]))]);
        let refused = sessions.append("work", &other).await.unwrap_err();
        assert!(refused.is(ErrorKind::Conflict), "{refused}");
        assert_eq!(names(&of_work(&sessions, &*fs).await), first);
        let more = [
            said(Role::User, "msg-1", &json!([image(b"once")])),
            said(Role::User, "msg-2", &json!([image(b"once")])),
        ];
        sessions.append("work", &Append::messages(more)).await.unwrap();
        assert_eq!(of_work(&sessions, &*fs).await.len(), 2, "another message has a file of its own");
    }
}

#[tokio::test]
async fn append_rejects_large_and_keeps_undecodable_images() {
    for (fs, _kept) in engines().await {
        let sessions = session(&*fs, "work", Some(KEY)).await;
        let head = fs.head().await.unwrap().seq;
        let messages = |image: Value| {
            Append::messages([
                Draft::user("fine"),
                Draft::message(Role::User, &json!([self::image(b"fine")])),
                Draft::message(Role::User, &json!([image])),
            ])
        };
        let large = image(&vec![1; 26_214_401]);
        let refused = sessions.append("work", &messages(large)).await.unwrap_err();
        assert!(refused.is(ErrorKind::TooLarge) && refused.message().starts_with("message 3"), "{refused}");
        assert_eq!(fs.head().await.unwrap().seq, head);
        let most = Draft::message(Role::User, &json!([image(&vec![1; 26_214_400])]));
        sessions.append("work", &Append::messages([most])).await.unwrap();
        assert_eq!(of_work(&sessions, &*fs).await[0].entry.size, 26_214_400);
        let bad = json!({"type": "image", "mime_type": "image/png", "data": "@@@@"});
        sessions.append("work", &messages(bad.clone())).await.unwrap();
        assert_eq!(of_work(&sessions, &*fs).await.len(), 2);
        assert_eq!(line(&sessions, 4).await["content"][0], bad);
    }
}

#[tokio::test]
async fn native_lines_have_no_inline_images() {
    for (fs, _kept) in engines().await {
        let sessions = session(&*fs, "work", Some(KEY)).await;
        let data = STANDARD.encode(b"picture");
        let came = json!({"role": "user", "content": [{"type": "image", "mimeType": "image/png", "data": data}],
            "timestamp": 1_708_300_000_000_u64});
        for _ in 0..2 {
            let text = format!("{came}\n");
            sessions.import("work", &Import::new(TranscriptFormat::Pi, &text).whole()).await.unwrap();
        }
        let at = line(&sessions, 1).await["content"][0]["path"].as_str().unwrap().to_owned();
        assert_eq!(fs.read_file(&at.parse::<MediaKey>().unwrap().path()).await.unwrap(), "picture");
        let native = format!("{}/native/pi.jsonl", sessions.directory("work").unwrap());
        let native = fs.read_to_string(native.as_str()).await.unwrap();
        assert_eq!(serde_json::from_str::<Value>(&native).unwrap(), came);
        assert_eq!((of_work(&sessions, &*fs).await.len(), native.lines().count()), (1, 1));
    }
}

/// Returns the lists of both providers, with images.
async fn lists(sessions: &Sessions<'_>, hydrator: &Hydrator) -> [String; 2] {
    let packed = sessions.pack("work", &PackOptions::default()).await.unwrap();
    let mut lists = [const { String::new() }; 2];
    for (list, format) in lists.iter_mut().zip([Format::OpenAi, Format::Anthropic]) {
        let with = sessions.hydrated(&packed, format, hydrator, "default").await.unwrap();
        assert_eq!((&with.markdown, &with.pack), (&packed.markdown, &packed.pack));
        *list = with.list(format);
    }
    lists
}

#[tokio::test]
async fn pack_replay_includes_images() {
    for (fs, _kept) in engines().await {
        let sessions = session(&*fs, "work", Some(KEY)).await;
        let elsewhere = json!({"type": "image", "mime_type": "image/png", "path": "/pictures/cat.png"});
        let content = json!([{"type": "text", "text": "look"}, image(&png("picture")), elsewhere]);
        sessions.append("work", &Append::messages([Draft::message(Role::User, &content)])).await.unwrap();
        let (hydrator, data) = (Hydrator::default(), STANDARD.encode(png("picture")));
        let packed = sessions.pack("work", &PackOptions::default()).await.unwrap();
        let key: MediaKey = line(&sessions, 1).await["content"][1]["path"].as_str().unwrap().parse().unwrap();
        assert!(packed.markdown.contains(&key.to_string()) && !packed.markdown.contains(&data));
        let one = packed.pack.items.iter().find(|item| item.kind == "recent_messages").unwrap();
        assert!(packed.pack.estimated && one.tokens > 1600, "it counts as a picture");
        assert!(one.tokens < 3200, "and one that lies elsewhere does not");
        let [openai, anthropic] = lists(&sessions, &hydrator).await;
        assert!(openai.contains(&format!("data:image/png;base64,{data}")), "{openai}");
        let source = format!(r#"{{"type":"base64","media_type":"image/png","data":"{data}"}}"#);
        assert!(anthropic.contains(&source), "{anthropic}");
        assert!(openai.contains("[image: /pictures/cat.png]"));
        assert_eq!((hydrator.counts(), hydrator.held()), ((1, 1), png("picture").len()));
        let again = sessions.replay("work", None).await.unwrap();
        assert_eq!((&again.markdown, &again.pack), (&packed.markdown, &packed.pack));
        // After a move it is the same; after a deletion it is reported.
        let moved = path(&format!("/agents/coder/sessions/s/media/{}", key.name()));
        fs.commit(Batch::new([Op::rename(key.path(), moved.clone()).with_parents()])).await.unwrap();
        assert_eq!(lists(&sessions, &hydrator).await, [openai, anthropic]);
        assert_eq!(hydrator.counts(), (3, 1));
        fs.remove(&moved).await.unwrap();
        for list in lists(&sessions, &hydrator).await {
            assert!(list.contains("[Image no longer available]") && !list.contains(&data), "{list}");
        }
        assert_eq!(sessions.replay("work", None).await.unwrap().markdown, packed.markdown);
    }
}

#[tokio::test]
async fn older_pack_replays_unchecked_images() {
    for (fs, _kept) in engines().await {
        let sessions = session(&*fs, "work", None).await;
        let html = json!({"type": "image", "mime_type": "image/png", "data": "PGh0bWw+"});
        let content = json!([{"type": "text", "text": "look"}, html]);
        sessions.append("work", &Append::messages([Draft::message(Role::User, &content)])).await.unwrap();
        let packed = sessions.pack("work", &PackOptions::default()).await.unwrap();
        assert!(packed.list(Format::OpenAi).contains("is no PNG"), "{}", packed.list(Format::OpenAi));
        // As it was written before.
        let list = |image: &str| {
            let content = format!(r#"[{{"type":"text","text":"look"}},{image}]"#);
            format!(r#"{{"messages":[{{"role":"user","content":{content}}}]}}"#)
        };
        let url = r#"{"url":"data:image/png;base64,PGh0bWw+"}"#;
        let openai = &*list(&format!(r#"{{"type":"image_url","image_url":{url}}}"#));
        let source = r#"{"type":"base64","media_type":"image/png","data":"PGh0bWw+"}"#;
        let anthropic = &*list(&format!(r#"{{"type":"image","source":{source}}}"#));
        let path = format!("{}/context/pack.json", sessions.directory("work").unwrap());
        let mut pack: Value = serde_json::from_str(&fs.read_to_string(path.as_str()).await.unwrap()).unwrap();
        pack.as_object_mut().unwrap().remove("images").expect("a version of the rules");
        for (form, list) in [("openai", openai), ("anthropic", anthropic)] {
            pack["forms"][form] = json!({"bytes": list.len(), "sha256": sha256(list)});
        }
        fs.write(path.as_str(), pack.to_string()).await.unwrap();
        let again = sessions.replay("work", None).await.unwrap();
        for (format, list) in [(Format::OpenAi, openai), (Format::Anthropic, anthropic)] {
            let with = sessions.hydrated(&again, format, &Hydrator::default(), "default").await.unwrap();
            assert_eq!((again.list(format), with.list(format)), (list.to_owned(), list.to_owned()));
        }
        // The next pack follows the current rules.
        let next = sessions.pack("work", &PackOptions::default()).await.unwrap();
        assert_eq!((next.pack.images, next.pack.forms), (1, packed.pack.forms));
    }
}

fn sha256(text: &str) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn oversized_media_are_named_with_reason() {
    for (fs, _kept) in engines().await {
        let sessions = session(&*fs, "work", Some(KEY)).await;
        let filled = |mut bytes: Vec<u8>, size: usize| {
            bytes.resize(size, 7);
            image(&bytes)
        };
        // Each is less than a provider's limit for one, and five are more than that for a list.
        let content: Vec<_> = (0..5).map(|n| filled(png(&n.to_string()), 9_000_000)).collect();
        for content in content {
            let said = Draft::message(Role::User, &json!([content]));
            sessions.append("work", &Append::messages([said])).await.unwrap();
        }
        let [openai, anthropic] = lists(&sessions, &Hydrator::default()).await;
        assert!(openai.len() < 50_000_000 && anthropic.len() < 32_000_000);
        assert_eq!(openai.matches("data:image/png;base64,").count(), 3, "the newest fit");
        assert_eq!(openai.matches("9000000 bytes, newer images fill the list]").count(), 2);
        assert!(openai.find("fill the list") < openai.find("base64,"), "the oldest are named");
        assert_eq!(anthropic.matches("9000000 bytes, has more than 5242880 bytes in base64]").count(), 5);
    }
}

#[tokio::test]
async fn hydrator_rereads_replaced_files() {
    for (fs, _kept) in engines().await {
        let hydrator = Hydrator::with_budget(10);
        let Stored { key, path: at, .. } = put(&*fs, OF, b"first").await;
        let of = [OF.to_owned()];
        let read =
            async |account: &str| hydrator.bytes(account, &media(&*fs), &key, &of).await.unwrap().unwrap();
        assert_eq!((read("a").await, read("a").await), ("first".into(), "first".into()));
        assert_eq!(hydrator.counts(), (1, 1));
        assert_eq!((read("b").await, hydrator.counts()), (Bytes::from("first"), (1, 2)));
        fs.write(&at, "second").await.unwrap();
        assert_eq!((read("a").await, hydrator.counts()), (Bytes::from("second"), (1, 3)));
        assert!(hydrator.held() <= 10);
        fs.write(&at, "longer than that").await.unwrap();
        assert_eq!((read("a").await, read("a").await.len()), (Bytes::from("longer than that"), 16));
        assert!(hydrator.held() <= 10);
        // Sessions do not share cached files either.
        let twin = [TWIN.to_owned()];
        for of in [&twin[..], &[]] {
            assert_eq!(hydrator.bytes("a", &media(&*fs), &key, of).await.unwrap(), None);
        }
    }
}

#[tokio::test]
async fn threads_share_one_hydrator() {
    let (account, _folder) = account().await;
    let hydrator = Arc::new(Hydrator::with_budget(64 << 10));
    let mut keys = Vec::new();
    for n in 0..8 {
        let new = NewMedia::new(KEY, "image/png").session(OF);
        keys.push(media(&*account).put(&new, body(vec![n; 16 << 10])).await.unwrap().key);
    }
    let tasks = (0..4).map(|_| {
        let (account, hydrator, keys) = (Arc::clone(&account), Arc::clone(&hydrator), keys.clone());
        tokio::spawn(async move {
            for (n, key) in keys.iter().enumerate().cycle().take(80) {
                let bytes =
                    hydrator.bytes("a", &media(&*account), key, &[OF.to_owned()]).await.unwrap().unwrap();
                assert!(bytes.iter().all(|byte| usize::from(*byte) == n) && bytes.len() == 16 << 10);
                assert!(hydrator.held() <= 64 << 10);
            }
        })
    });
    for task in futures::future::join_all(tasks).await {
        task.unwrap();
    }
    let (hits, misses) = hydrator.counts();
    assert_eq!(hits + misses, 320);
}

#[tokio::test]
async fn confined_sessions_store_images() {
    let (account, _folder) = account().await;
    let whole = session(&*account, "work", Some(KEY)).await;
    let message = Draft::message(Role::User, &json!([image(&png("before"))]));
    whole.append("work", &Append::messages([message])).await.unwrap();
    let request = Request::new("coder").chat("chat");
    let access = Access::open(&account, &env(), Caller::ApiKey, &request).await.unwrap();
    let own = access.sessions();
    let message = Draft::message(Role::User, &json!([image(&png("in a chat"))]));
    own.append("work", &Append::messages([message])).await.unwrap();
    let key: MediaKey = line(&own, 2).await["content"][0]["path"].as_str().unwrap().parse().unwrap();
    assert_eq!(account.read_file(&key.path()).await.unwrap(), png("in a chat"));
    for sessions in [&own, &whole] {
        for list in lists(sessions, &Hydrator::default()).await {
            for bytes in ["before", "in a chat"] {
                assert!(list.contains(&STANDARD.encode(png(bytes))), "{list}");
            }
        }
    }
}

#[tokio::test]
async fn reset_touches_media_of_its_session_only() {
    for (fs, _kept) in engines().await {
        let (kept, gone) = (put(&*fs, OF, b"kept").await, put(&*fs, OF, b"gone").await);
        let twin = put(&*fs, TWIN, b"of the session beside it").await;
        let nobodys = media(&*fs).put(&NewMedia::new(KEY, "image/png"), body("x")).await.unwrap();
        // A reference in a message does not make another session's file its own.
        let referred = HashSet::from([&kept, &twin, &nobodys].map(|stored| stored.key.id().to_owned()));
        let before = fs.head().await.unwrap().seq;
        let fates = [Fate::Moves, Fate::Goes];
        let of = ("coder", OF);
        let late = put(&*fs, OF, b"late").await;
        let ops = media(&*fs).after_reset(of, &referred, fates, before).await.unwrap();
        fs.commit(Batch::new(ops)).await.unwrap();
        let moved = media(&*fs).get(&kept.key).await.unwrap().path;
        assert_eq!(moved.as_str(), format!("/agents/coder/sessions/{OF}/media/{}", kept.key.name()));
        assert!(media(&*fs).get(&gone.key).await.unwrap_err().is(ErrorKind::NotFound));
        // The message that will name it may not be appended yet.
        assert_eq!(media(&*fs).get(&late.key).await.unwrap().path, late.path);
        for other in [&twin, &nobodys] {
            assert_eq!(media(&*fs).get(&other.key).await.unwrap().path, other.path);
        }
        // Repeated, files that were moved stay where they are.
        assert!(media(&*fs).after_reset(of, &referred, fates, before).await.unwrap().is_empty());
        let ops = media(&*fs).after_reset(of, &referred, fates, NOW).await.unwrap();
        fs.commit(Batch::new(ops)).await.unwrap();
        assert!(media(&*fs).get(&late.key).await.unwrap_err().is(ErrorKind::NotFound));
        // If the policy removes files, moved ones are removed as well.
        let ops = media(&*fs).after_reset(of, &referred, [Fate::Goes; 2], NOW).await.unwrap();
        fs.commit(Batch::new(ops)).await.unwrap();
        assert!(all(&*fs, OF).await.is_empty());
        assert_eq!(names(&all(&*fs, TWIN).await), [twin.key.to_string()]);
    }
}

#[tokio::test]
async fn imports_read_percent_encoded_images() {
    let data = STANDARD.encode(png("pictures"));
    let url = format!("data:image/png;base64,{}", data.replace('+', "%2B").replace('=', "%3d"));
    assert!(url.contains('%'));
    let said =
        json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}).to_string();
    for (fs, _kept) in engines().await {
        let sessions = session(&*fs, "work", Some(KEY)).await;
        sessions.import("work", &Import::new(TranscriptFormat::OpenAi, &said)).await.unwrap();
        assert!(line(&sessions, 1).await["content"][0]["path"].is_string());
        let items = sessions.export("work", &Export::new(TranscriptFormat::Anthropic)).await.unwrap().items;
        assert!(items[0].contains(&data), "{items:?}");
        let own = sessions.export("work", &Export::new(TranscriptFormat::OpenAi)).await.unwrap().items;
        assert_eq!(own.join("\n"), said);
    }
}

#[tokio::test]
async fn exports_have_the_bytes_of_media() {
    let data = STANDARD.encode(png("picture"));
    let source = json!({"type": "base64", "media_type": "image/png", "data": data});
    let said = json!({"role": "user", "content": [{"type": "image", "source": source}]}).to_string();
    let [openai, anthropic] = [TranscriptFormat::OpenAi, TranscriptFormat::Anthropic];
    for (fs, _kept) in engines().await {
        let sessions = session(&*fs, "work", Some(KEY)).await;
        sessions.import("work", &Import::new(anthropic, &said)).await.unwrap();
        let export = async |format| sessions.export("work", &Export::new(format)).await.unwrap().items;
        let items = export(openai).await;
        assert!(items[0].contains(&format!("data:image/png;base64,{data}")), "{items:?}");
        let label =
            json!(format!("[image: {}]", line(&sessions, 1).await["content"][0]["path"].as_str().unwrap()));
        let without = json!({"role": "user", "content": label}).to_string();
        for same in [&items[0], &without] {
            let done = sessions.import("work", &Import::new(openai, same).whole()).await.unwrap();
            assert_eq!((done.new, done.present), (0, 1), "{same}");
        }
        // In messages without a native form as well.
        let content = json!([image(&png("other"))]);
        sessions.append("work", &Append::messages([Draft::message(Role::User, &content)])).await.unwrap();
        assert!(export(anthropic).await[1].contains(&STANDARD.encode(png("other"))));
        let key: MediaKey = line(&sessions, 1).await["content"][0]["path"].as_str().unwrap().parse().unwrap();
        fs.remove(&key.path()).await.unwrap();
        let items = export(openai).await;
        assert!(items[0].contains(&format!("[image: {key}, is no longer available]")), "{items:?}");
    }
}
