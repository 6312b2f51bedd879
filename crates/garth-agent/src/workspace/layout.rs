//! Layout of a bucket for the import and export of an account's tree: its paths, and the sidecars with the
//! metadata of objects. Pure.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::memory::{BESIDE_TEXT, CONTENT, OUTBOX, SKILL};
use crate::settings::SETTINGS;
use crate::small_file::pretty;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::model::{Attributes, SetAttrs};
use garth_engine::path::{Name, TreePath};

/// Suffix of a sidecar, after the name of its file.
pub const SIDECAR: &str = ".metadata.json";

/// Limit on the bytes of a sidecar, 1 MiB: more than the attributes of a file in any reasonable JSON form.
pub const MAX_SIDECAR: usize = 1 << 20;

/// Prefix of custom metadata that is garth's own and not part of sidecars.
pub const OWN: &str = "garth.";

/// Custom metadata of a media file: the UUID in its name, by which it is found after a move.
pub const MEDIA_ID: &str = "garth.media";

/// Custom metadata of a media file: the session to whose directory it was written.
const SESSION_KEY: &str = "sessionKey";

/// Top directories of an account that are not part of the layout: data of users and chats, and events.
const OWN_TOPS: [&str; 4] = ["users", "chats", OUTBOX, ".garth"];

/// Names in an agent's directory that are not part of the layout: settings, values of the key-value API, and
/// memories.
const OWN_OF_AGENTS: [&str; 3] = [SETTINGS, "kv", "memories"];

/// Returns true if a path or one above it is garth's own, and so not part of the layout. `target` is the
/// target of a symbolic link. All other paths belong to the layout, whatever their kind.
pub fn is_own(path: &TreePath, target: Option<&str>) -> bool {
    let of_memory = |file: &str, is_last: bool| {
        // Only the link of a published skill is derived; a file of that name has content of its own.
        BESIDE_TEXT.contains(&file) || file == CONTENT && is_last && target == Some(SKILL)
    };
    match path.segments().collect::<Vec<_>>()[..] {
        [top, ..] if OWN_TOPS.contains(&top) => true,
        ["agents", _, name, ..] if OWN_OF_AGENTS.contains(&name) => true,
        ["agents", _, "skills", _, file, ref below @ ..] | ["skills", _, file, ref below @ ..] => {
            of_memory(file, below.is_empty())
        }
        _ => false,
    }
}

/// Returns the UUID in the name of a media file: `/media/{sessionKey}/{uuid}.{ext}`.
pub fn media_id(path: &TreePath) -> Option<&str> {
    match path.segments().collect::<Vec<_>>()[..] {
        ["media", _, file] => uuid_of(file),
        _ => None,
    }
}

/// Returns the path that a media file had before a reset moved it next to its archive: that of the object in
/// the layout.
pub fn moved_from(path: &TreePath, attributes: &Attributes) -> Option<TreePath> {
    let ["agents", _, "sessions", _, "media", file] = path.segments().collect::<Vec<_>>()[..] else {
        return None;
    };
    // Only a file that garth moved has its own UUID as attribute. Any other file there is not a media file.
    if attributes.metadata.get(MEDIA_ID).map(String::as_str) != Some(uuid_of(file)?) {
        return None;
    }
    let key = Name::parse(attributes.metadata.get(SESSION_KEY)?).ok()?;
    TreePath::parse(&format!("/media/{}/{file}", key.as_str())).ok()
}

fn uuid_of(file: &str) -> Option<&str> {
    let (id, extension) = file.split_once('.')?;
    let lengths = [8, 4, 4, 4, 12];
    let mut parts = id.split('-');
    let fits = lengths.iter().all(|length| {
        parts
            .next()
            .is_some_and(|part| part.len() == *length && part.bytes().all(|digit| digit.is_ascii_hexdigit()))
    });
    (fits && parts.next().is_none() && !extension.is_empty()).then_some(id)
}

/// Returns the name of the file to which a sidecar of this name belongs.
pub fn described(name: &str) -> Option<&str> {
    name.strip_suffix(SIDECAR).filter(|file| !file.is_empty() && !file.ends_with('/'))
}

/// Content of a sidecar: `{"contentType": "...", "customMetadata": {"k": "v"}}`, both optional.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct Sidecar {
    /// MIME type.
    #[serde(default, deserialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Custom metadata.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub custom_metadata: BTreeMap<String, String>,
}

/// Reads a text, and rejects `null`.
fn text<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<String>, D::Error> {
    match serde_json::Value::deserialize(from)? {
        serde_json::Value::String(text) => Ok(Some(text)),
        _ => Err(D::Error::custom("contentType is no string")),
    }
}

impl Sidecar {
    /// Parses a sidecar.
    ///
    /// # Errors
    /// - `InvalidArgument`: the JSON has a duplicate key, an unknown field or a value that is not a string,
    ///   or a name of metadata is reserved or does not have 1 to 255 bytes.
    /// - `TooLarge`: more than [`MAX_SIDECAR`] bytes.
    pub fn parse(json: &[u8]) -> Result<Self> {
        if json.len() > MAX_SIDECAR {
            let message = format!("a file of metadata has at most {MAX_SIDECAR} bytes");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let bad = |why: &dyn std::fmt::Display| {
            Error::invalid(format!(
                "invalid sidecar: {why}; use {{\"contentType\": \"...\", \
                 \"customMetadata\": {{\"name\": \"value\"}}}}, both optional"
            ))
        };
        // Rejects a name that occurs twice, of which serde would take the last value.
        garth_engine::rule::json::read(json).map_err(|flaw| bad(&flaw))?;
        if json.trim_ascii_start().first() != Some(&b'{') {
            return Err(bad(&"it is not a JSON object"));
        }
        let sidecar: Self = serde_json::from_slice(json).map_err(|error| bad(&error))?;
        for name in sidecar.custom_metadata.keys() {
            if name.starts_with(OWN) {
                let message = format!("{name}: garth sets metadata of this name itself; leave it out");
                return Err(Error::invalid(message));
            }
            if name.is_empty() || name.len() > 255 {
                return Err(Error::invalid("a name in customMetadata has 1 to 255 bytes"));
            }
        }
        // Fails for values beyond the limits of attributes, before an import begins.
        sidecar.attrs(None, &Attributes::default()).apply(&mut Attributes::default())?;
        Ok(sidecar)
    }

    /// Returns the sidecar of a file with these attributes.
    pub fn of(attributes: &Attributes) -> Self {
        let shown = attributes.metadata.iter().filter(|(name, _)| !name.starts_with(OWN));
        let custom_metadata = shown.map(|(name, value)| (name.clone(), value.clone())).collect();
        Self { content_type: attributes.content_type.clone(), custom_metadata }
    }

    /// Returns true if the sidecar has no content.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns its text in canonical form.
    ///
    /// # Errors
    /// `InvalidArgument` for a value that has no JSON form.
    pub fn to_json(&self) -> Result<String> {
        pretty(self)
    }

    /// Returns the change from the attributes `there` (of a new file: none) to those of this sidecar.
    /// `media_id` is the UUID in the name of a media file. Garth's own metadata stays.
    pub fn attrs(&self, media_id: Option<&str>, there: &Attributes) -> SetAttrs {
        let mut attrs = SetAttrs { content_type: Some(self.content_type.clone()), ..SetAttrs::new() };
        // A name that the sidecar does not have is removed, so that an import of an export restores the same
        // attributes.
        let gone = there.metadata.keys().filter(|name| !name.starts_with(OWN));
        attrs.metadata = gone.map(|name| (name.clone(), None)).collect();
        let said = self.custom_metadata.iter();
        attrs.metadata.extend(said.map(|(name, value)| (name.clone(), Some(value.clone()))));
        attrs.metadata.extend(media_id.map(|id| (MEDIA_ID.to_owned(), Some(id.to_owned()))));
        attrs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

    fn path(text: &str) -> TreePath {
        TreePath::parse(text).unwrap()
    }

    #[test]
    fn layout_excludes_own_paths() {
        for own in [
            "/users",
            "/users/u/agents/a/session/s/messages.jsonl",
            "/chats/c/x",
            "/.outbox/jobs/1.json",
            "/.garth/overlays/o",
            "/agents/a/settings.json",
            "/agents/a/kv/deep/key.json",
            "/agents/a/memories/facts/x/content.md",
            "/agents/a/skills/s/.meta.json",
            "/agents/a/skills/s/.outbox/1.json",
            "/skills/s/.abstract.md",
        ] {
            assert!(is_own(&path(own), None), "{own}");
        }
        for part in [
            "/",
            "/agents",
            "/agents/a/SOUL.md",
            "/agents/a/notes.txt",
            "/agents/a/fragments.jsonl",
            "/agents/a/memory/2026-01-27.md",
            "/agents/a/sessions/s-part1.jsonl.gz",
            "/agents/a/skills/s/SKILL.md",
            "/agents/a/skills/s/content.md",
            "/agents/a/skills/s/deep/.meta.json",
            "/agents/a/deep/settings.json",
            "/agents/users/x",
            "/skills/s/kv/x",
            "/media/agent:a:main/x.png",
            "/chats-old/x",
            "/README.md",
        ] {
            assert!(!is_own(&path(part), None), "{part}");
        }
    }

    #[test]
    fn layout_excludes_link_of_published_skill() {
        for skill in ["/agents/a/skills/s/content.md", "/skills/s/content.md"] {
            assert!(is_own(&path(skill), Some("SKILL.md")), "{skill}");
            assert!(!is_own(&path(skill), Some("other.md")) && !is_own(&path(skill), None), "{skill}");
        }
        assert!(!is_own(&path("/agents/a/skills/s/deep/content.md"), Some("SKILL.md")));
    }

    #[test]
    fn media_id_is_the_uuid_in_the_name() {
        let named = |file: &str| media_id(&path(&format!("/media/agent:a:main/{file}"))).map(str::to_owned);
        assert_eq!(named(&format!("{ID}.png")).as_deref(), Some(ID));
        assert_eq!(named(&format!("{ID}.tar.gz")).as_deref(), Some(ID));
        for none in
            [ID.to_owned(), format!("{ID}."), format!("x{ID}.png"), format!("{ID}-1.png"), "x.png".into()]
        {
            assert_eq!(named(&none), None, "{none}");
        }
        for none in
            [format!("/media/{ID}.png"), format!("/media/k/deep/{ID}.png"), format!("/other/k/{ID}.png")]
        {
            assert_eq!(media_id(&path(&none)), None, "{none}");
        }
    }

    #[test]
    fn moved_media_map_to_their_session_key() {
        let moved = path(&format!("/agents/a/sessions/s/media/{ID}.png"));
        let with = |id: &str, key: &str| {
            let metadata = [(MEDIA_ID.to_owned(), id.to_owned()), ("sessionKey".to_owned(), key.to_owned())];
            Attributes { metadata: metadata.into(), ..Attributes::default() }
        };
        let key = moved_from(&moved, &with(ID, "agent:a:main"));
        assert_eq!(key, Some(path(&format!("/media/agent:a:main/{ID}.png"))));
        let of = |id, key: &str| moved_from(&moved, &with(id, key));
        for bad in ["", ".", "..", "a/b", "../..", "a\0b", &"k".repeat(256)] {
            assert_eq!(of(ID, bad), None, "{bad}");
        }
        assert_eq!(of("another", "agent:a:main"), None);
        assert_eq!(moved_from(&moved, &Attributes::default()), None);
        let elsewhere = path(&format!("/agents/a/sessions/s/{ID}.png"));
        assert_eq!(moved_from(&elsewhere, &with(ID, "agent:a:main")), None);
    }

    #[test]
    fn sidecar_has_canonical_form() {
        let odd = r#"{"customMetadata":{"z":"\"ü\u0000\n","originalFilename":"","日本":"語"},"contentType":"image/png"}"#;
        let sidecar = Sidecar::parse(odd.as_bytes()).unwrap();
        let json = sidecar.to_json().unwrap();
        assert_eq!(
            json,
            "{\n  \"contentType\": \"image/png\",\n  \"customMetadata\": {\n    \"originalFilename\": \"\",\n    \
             \"z\": \"\\\"ü\\u0000\\n\",\n    \"日本\": \"語\"\n  }\n}\n"
        );
        assert_eq!(Sidecar::parse(json.as_bytes()).unwrap(), sidecar);
        for empty in ["{}", " {}\n", r#"{"customMetadata": {}}"#] {
            let sidecar = Sidecar::parse(empty.as_bytes()).unwrap();
            assert!(sidecar.is_empty());
            assert_eq!(sidecar.to_json().unwrap(), "{}\n");
        }
    }

    #[test]
    fn rejects_invalid_sidecars() {
        for (bad, why) in [
            ("", "EOF"),
            ("[]", "not a JSON object"),
            ("null", "not a JSON object"),
            ("{} {}", "trailing"),
            (r#"{"contentType": null}"#, "no string"),
            (r#"{"contentType": 1}"#, "no string"),
            (r#"{"customMetadata": null}"#, "null"),
            (r#"{"customMetadata": {"a": 1}}"#, "integer `1`"),
            (r#"{"customMetadata": {"a": null}}"#, "null"),
            (r#"{"customMetadata": {"a": "1", "a": "2"}}"#, "duplicate key"),
            (r#"{"contentType": "a", "contentType": "b"}"#, "duplicate key"),
            (r#"{"httpMetadata": {}}"#, "unknown field `httpMetadata`"),
            (r#"{"customMetadata": {"garth.media": "x"}}"#, "garth.media: garth sets"),
            (r#"{"customMetadata": {"": "x"}}"#, "1 to 255 bytes"),
            (r#"{"customMetadata": {"a": "\ud800"}}"#, "hex escape"),
        ] {
            let error = Sidecar::parse(bad.as_bytes()).unwrap_err();
            assert!(error.is(ErrorKind::InvalidArgument) && error.message().contains(why), "{bad}: {error}");
        }
        let long = |value: usize| format!(r#"{{"customMetadata": {{"a": "{}"}}}}"#, "x".repeat(value));
        for long in [long(garth_engine::model::MAX_ATTRIBUTES), long(MAX_SIDECAR)] {
            assert!(Sidecar::parse(long.as_bytes()).unwrap_err().is(ErrorKind::TooLarge));
        }
    }

    #[test]
    fn sidecar_replaces_all_but_own_metadata() {
        let pairs = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let mut file = Attributes {
            content_type: Some("text/plain".into()),
            tags: vec!["t".into()],
            metadata: pairs(&[("old", "1"), ("both", "1"), ("garth.other_classes", "true")]),
            ..Attributes::default()
        };
        let sidecar = Sidecar { content_type: None, custom_metadata: pairs(&[("both", "2"), ("new", "")]) };
        sidecar.attrs(Some(ID), &file).apply(&mut file).unwrap();
        assert_eq!((&file.content_type, &file.tags[..]), (&None, &["t".to_owned()][..]));
        let own = [("garth.media", ID), ("garth.other_classes", "true")];
        assert_eq!(file.metadata, pairs(&[&own[..], &[("both", "2"), ("new", "")]].concat()));
        assert_eq!(Sidecar::of(&file), sidecar);
    }

    #[test]
    fn sidecar_name_extends_the_file_name() {
        assert_eq!(described("a.png.metadata.json"), Some("a.png"));
        assert_eq!(described("dir/a.metadata.json.metadata.json"), Some("dir/a.metadata.json"));
        for none in [".metadata.json", "dir/.metadata.json", "a.json", "metadata.json"] {
            assert_eq!(described(none), None, "{none}");
        }
    }
}
