//! Key of a media file, by which messages refer to it: `media/{sessionKey}/{uuid}.{ext}`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use garth_engine::error::{Error, Result};
use garth_engine::path::{Name, TreePath};

/// Directory of all media, below the root of an account.
pub(crate) const MEDIA: &str = "media";

/// Limit on the characters of a file extension.
const MAX_ENDING: usize = 16;

/// Key of a media file, `media/{sessionKey}/{uuid}.{ext}` (`r2Key` in messages). It does not change when the
/// file moves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MediaKey {
    session_key: String,
    id: String,
    ending: String,
}

impl Serialize for MediaKey {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MediaKey {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

impl MediaKey {
    /// Returns the key of a file with this UUID.
    pub(super) fn new(session_key: &str, id: &str, ending: &str) -> Result<Self> {
        check_session_key(session_key)?;
        let [session_key, id, ending] = [session_key, id, ending].map(str::to_owned);
        Ok(Self { session_key, id, ending })
    }

    /// Returns the session part: a session key, or the UUID of a session that has no key.
    pub fn session_key(&self) -> &str {
        &self.session_key
    }

    /// Returns the UUID of the file.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the extension of the file, without its dot.
    pub(super) fn ending(&self) -> &str {
        &self.ending
    }

    /// Returns the name of the file.
    pub fn name(&self) -> String {
        format!("{}.{}", self.id, self.ending)
    }

    /// Returns the path of the file until it is moved.
    pub fn path(&self) -> TreePath {
        TreePath::from_row(directory(&self.session_key).key(), &self.name())
    }

    /// Returns the key of a file of this name among the media of a session; `None` if the name is not that of
    /// a media file.
    pub(super) fn of_name(session_key: &str, name: &str) -> Option<Self> {
        // At the first dot, so that `tar.gz` is rejected as an extension.
        let (id, ending) = name.split_once('.')?;
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let is_ending = (1..=MAX_ENDING).contains(&ending.len()) && ending.bytes().all(plain);
        (is_uuid(id) && is_ending).then(|| Self::new(session_key, id, ending).ok())?
    }
}

/// Returns the directory of the media of a session. The key has been checked.
pub(super) fn directory(session_key: &str) -> TreePath {
    TreePath::from_row(&format!("/{MEDIA}"), session_key)
}

/// Checks the session part of a key.
///
/// # Errors
/// `InvalidArgument` if it cannot name a directory.
pub(super) fn check_session_key(key: &str) -> Result<()> {
    // The key is the name of a directory. Control characters would break lines of logs and lists.
    let is_name = Name::parse(key).is_ok() && !key.chars().any(char::is_control);
    let message = || {
        format!("`{key}`: not a session key; use one such as agent:scout:main, or the UUID of the session")
    };
    if is_name { Ok(()) } else { Err(Error::invalid(message())) }
}

/// Returns true for a UUID in lower case with hyphens.
fn is_uuid(text: &str) -> bool {
    let parts: Vec<usize> = text.split('-').map(str::len).collect();
    let is_hex = |byte: u8| byte == b'-' || byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    parts == [8, 4, 4, 4, 12] && text.bytes().all(is_hex)
}

impl FromStr for MediaKey {
    type Err = Error;

    /// Parses a key as messages contain it. A leading `/`, as in a path from the root, is accepted.
    fn from_str(text: &str) -> Result<Self> {
        let mut parts = text.strip_prefix('/').unwrap_or(text).split('/');
        let found = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(MEDIA), Some(session_key), Some(name), None) => Self::of_name(session_key, name),
            _ => None,
        };
        let message = || format!("`{text}`: not a media key; use media/SESSION-KEY/UUID.EXT");
        found.ok_or_else(|| Error::invalid(message()))
    }
}

impl fmt::Display for MediaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{MEDIA}/{}/{}.{}", self.session_key, self.id, self.ending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01234567-89ab-4def-8123-456789abcdef";

    #[test]
    fn parses_media_keys() {
        let text = format!("media/agent:a:dm:%41/{ID}.png");
        let key: MediaKey = text.parse().unwrap();
        assert_eq!(key.to_string(), text);
        assert_eq!((key.session_key(), key.id()), ("agent:a:dm:%41", ID));
        assert_eq!(key.path().as_str(), format!("/{text}"));
        assert_eq!(format!("/{text}").parse::<MediaKey>().unwrap(), key);
    }

    #[test]
    fn rejects_invalid_media_keys() {
        let upper = ID.to_uppercase();
        for bad in [
            String::new(),
            "media".to_owned(),
            format!("media/{ID}.png"),
            format!("media/k/{ID}"),
            format!("media/k/{ID}."),
            format!("media/k/{ID}.p/g"),
            format!("media/k/{ID}.PNG"),
            format!("media/k/{ID}.tar.gz"),
            format!("media/k/{ID}.{}", "x".repeat(17)),
            format!("media/k/{upper}.png"),
            format!("media/k/{}.png", &ID[1..]),
            format!("media/k/../{ID}.png"),
            format!("media/../{ID}.png"),
            format!("media/./{ID}.png"),
            format!("media//{ID}.png"),
            format!("media/k\n/{ID}.png"),
            format!("media/k/l/{ID}.png"),
            format!("media/{}/{ID}.png", "k".repeat(256)),
            format!("Media/k/{ID}.png"),
            format!("mediax/k/{ID}.png"),
            format!("//media/k/{ID}.png"),
            format!("x/media/k/{ID}.png"),
            format!("media/k/{ID}.png/"),
            format!("media/k/{ID}.png\0"),
        ] {
            assert!(bad.parse::<MediaKey>().is_err(), "{bad}");
        }
    }
}
