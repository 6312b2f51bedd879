//! Cursors of pages. Each is bound to the request whose answer it continues: that of another request would
//! mix two answers, and a truncated or invented one would lose a part of one.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::model::Moment;
use garth_engine::path::{Name, TreePath};

/// Bytes of the digest before the position. It detects mistakes; it is not a signature.
const CHECKED: usize = 6;

/// Cursors of one request.
pub(super) struct Cursors([u8; 32]);

impl Cursors {
    /// Returns the cursors of a request, given everything that decides its answer.
    pub(super) fn of(request: &Value) -> Self {
        Self(Sha256::digest(request.to_string()).into())
    }

    /// Returns the cursor of a position.
    pub(super) fn seal(&self, position: &impl Serialize) -> Result<String> {
        let text = serde_json::to_string(position).map_err(|error| {
            Error::new(ErrorKind::Io, "the position of a page has no JSON form").with_source(error)
        })?;
        Ok(URL_SAFE_NO_PAD.encode([&self.digest(&text)[..], text.as_bytes()].concat()))
    }

    /// Returns the position of a cursor.
    ///
    /// # Errors
    /// `InvalidArgument` for a cursor that no answer to this request had.
    pub(super) fn open<P: DeserializeOwned>(&self, cursor: &str) -> Result<P> {
        let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| unknown_cursor())?;
        let (digest, text) = bytes.split_at_checked(CHECKED).ok_or_else(unknown_cursor)?;
        let text = std::str::from_utf8(text).map_err(|_| unknown_cursor())?;
        if digest != self.digest(text) {
            return Err(unknown_cursor());
        }
        serde_json::from_str(text).map_err(|_| unknown_cursor())
    }

    fn digest(&self, text: &str) -> [u8; CHECKED] {
        let digest = Sha256::new().chain_update(self.0).chain_update(text).finalize();
        let mut first = [0; CHECKED];
        first.copy_from_slice(&digest[..CHECKED]);
        first
    }
}

/// Returns the error of a cursor of another request.
pub(super) fn unknown_cursor() -> Error {
    Error::invalid(
        "the cursor is of another request: repeat the request that returned it (only its limits may differ), \
         or leave the cursor out to start again",
    )
}

/// Returns the path with a key of a position. Stored paths may be longer than those of requests.
pub(super) fn path_of(key: &str) -> Result<TreePath> {
    let mut path = TreePath::root();
    for name in key.split('/').skip(1) {
        let joined = Name::parse(name).and_then(|name| path.join(&name));
        path = joined.map_err(|_| unknown_cursor())?;
    }
    Ok(path)
}

/// Returns a time as a part of a request.
pub(super) fn moment_json(at: Option<&Moment>) -> Value {
    match at {
        None => Value::Null,
        Some(Moment::Seq(seq)) => json!({"seq": seq}),
        Some(Moment::Time(time)) => json!({"time": time}),
        Some(Moment::Snapshot(name)) => json!({"snapshot": name}),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rejects_arbitrary_text_as_cursor(text in "\\PC{0,60}|[A-Za-z0-9_-]{0,60}", at in "\\PC{0,40}") {
            let cursors = Cursors::of(&json!(["glob", "/*"]));
            prop_assert!(cursors.open::<String>(&text).is_err());
            prop_assert_eq!(cursors.open::<String>(&cursors.seal(&at).unwrap()).ok(), Some(at));
        }
    }

    #[test]
    fn cursor_is_valid_only_for_its_request() {
        let (first, other) = (Cursors::of(&json!(["glob", "/*"])), Cursors::of(&json!(["glob", "/**"])));
        let cursor = first.seal(&"/a/b").unwrap();
        assert_eq!(first.open::<String>(&cursor).unwrap(), "/a/b");
        assert!(other.open::<String>(&cursor).unwrap_err().is(ErrorKind::InvalidArgument));
        for cut in 0..cursor.len() {
            assert!(first.open::<String>(&cursor[..cut]).is_err(), "{cut} of {cursor}");
        }
    }

    #[test]
    fn keys_of_positions_are_paths() {
        assert_eq!(path_of("").unwrap(), TreePath::root());
        assert_eq!(path_of("/a/b c").unwrap().as_str(), "/a/b c");
        let long = "/x".repeat(3000);
        assert_eq!(path_of(&long).unwrap().key(), long);
        for bad in ["/", "/a//b", "/..", "/a/", "/a\0"] {
            assert!(path_of(bad).is_err(), "{bad:?}");
        }
        assert!(path_of(&"/x".repeat(5000)).is_err());
    }
}
