//! The header `Idempotency-Key`, which marks repeats of a write, and the hash that tells a repeat from
//! another request with the same key.

use axum::http::HeaderMap;
use garth_engine::model::{Idempotency, Timestamp};

use super::header::Header;
use crate::errors::{Code, Refusal};
use crate::fields::Fields;

/// Name of the header.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Declaration of the header, which every write accepts.
pub(super) const RETRY_HEADER: Header = Header {
    name: IDEMPOTENCY_KEY,
    is_required: false,
    meaning: "Key of this write, by which a repeat is recognised: one token of 1 to 128 characters.",
};
/// Headers with entity tags, which are compared without `W/`.
const TAG_HEADERS: [&str; 3] = ["if-match", "if-none-match", "if-range"];
/// Longest key, in characters.
const MAX_KEY: usize = 128;
/// Seconds for which a key is kept: 24 hours.
const SECONDS: i64 = 24 * 60 * 60;

/// Idempotency key of a write, with the hash of the request.
#[derive(Debug)]
pub(super) struct Retry {
    key: String,
    request_hash: [u8; 32],
    /// Hash in the form of earlier versions: of the path and the raw body.
    raw_hash: [u8; 32],
    keep_until: Timestamp,
}

/// Parts of a request that are compared with its repeat.
pub(super) struct Compared<'a> {
    pub(super) method: &'static str,
    /// Path of the route as declared, with `{agent}`.
    pub(super) path: &'static str,
    /// Arguments of the path, percent-decoded.
    pub(super) arguments: &'a [(String, String)],
    /// Fields of the body or the query.
    pub(super) fields: &'a Fields<'a>,
    /// Headers that the route declares.
    pub(super) headers: &'static [Header],
    /// Body as it was sent.
    pub(super) body: &'a [u8],
}

impl Retry {
    /// Reads the idempotency key of a request, if it has one.
    pub(super) fn read(
        headers: &HeaderMap,
        compared: &Compared<'_>,
        now: Timestamp,
    ) -> Result<Option<Self>, Refusal> {
        let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
        let Some(value) = values.next() else { return Ok(None) };
        let is_token = |key: &[u8]| {
            let known = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte);
            (1..=MAX_KEY).contains(&key.len()) && key.iter().all(known)
        };
        // With two headers it would be unclear which one counts.
        let key = value.to_str().ok().filter(|key| is_token(key.as_bytes()) && values.next().is_none());
        let message = || {
            let message = format!(
                "`Idempotency-Key` must be one token of 1 to {MAX_KEY} characters out of a-z, A-Z, 0-9, `_` and `-`"
            );
            Refusal::new(Code::InvalidIdempotencyKey, message)
        };
        let mut raw = blake3::Hasher::new();
        raw.update(compared.path.as_bytes()).update(&[0]).update(compared.body);
        Ok(Some(Self {
            key: format!("http/{}", key.ok_or_else(message)?),
            request_hash: compared.hash(headers),
            raw_hash: *raw.finalize().as_bytes(),
            keep_until: now.plus_seconds(SECONDS),
        }))
    }

    /// Returns the key as it is stored in records.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// Returns the hash of the request.
    pub(super) fn request_hash(&self) -> &[u8; 32] {
        &self.request_hash
    }

    /// Adds the audience and the class to the hash. If settings change them, a repeat is another request.
    pub(super) fn reaching(&mut self, audience: &str, class: &str) {
        let mut hash = blake3::Hasher::new();
        hash.update(&self.request_hash).update(class.as_bytes()).update(&[0]).update(audience.as_bytes());
        self.request_hash = *hash.finalize().as_bytes();
    }

    /// Compares the request as earlier versions did. Their records live for a day, and a repeat of a write
    /// from before an upgrade must still be answered. Returns false if it is compared so already.
    pub(super) fn turn_older(&mut self) -> bool {
        std::mem::replace(&mut self.request_hash, self.raw_hash) != self.raw_hash
    }

    /// Returns the record of this write. Its key is unique to the account, because the tree of the account
    /// stores it.
    pub(super) fn record(&self) -> Idempotency {
        Idempotency::new(&*self.key, self.request_hash, self.keep_until)
    }
}

impl Compared<'_> {
    /// Returns the hash of the request: the decoded path, the fields in the order of their names with the
    /// exact text of their JSON, and the declared headers. Each part is preceded by its length, so that
    /// different requests never have the same input.
    fn hash(&self, headers: &HeaderMap) -> [u8; 32] {
        let mut hash = blake3::Hasher::new();
        let mut part = |bytes: &[u8]| {
            hash.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
        };
        // Keeps these hashes apart from those of other inputs. Records of earlier versions have the first
        // form, without a method.
        match self.method {
            "POST" => part(b"garth request 1"),
            method => {
                part(b"garth request 2");
                part(method.as_bytes());
            }
        }
        part(self.path.as_bytes());
        for (name, value) in self.arguments {
            part(name.as_bytes());
            part(value.as_bytes());
        }
        part(b"fields");
        for (name, json) in self.fields.sorted() {
            part(name.as_bytes());
            part(json.as_bytes());
        }
        part(b"headers");
        // The table lists headers in lower case and in a fixed order.
        let declared = self.headers.iter().filter(|header| header.name != IDEMPOTENCY_KEY);
        for name in declared.flat_map(|header| header.sent(headers)) {
            for value in headers.get_all(name) {
                // Spaces around a value have no meaning in HTTP.
                let value = value.as_bytes().trim_ascii();
                part(name.as_bytes());
                // A proxy may weaken a tag. In any other header, these letters are part of the value.
                let tag = value.strip_prefix(b"W/").filter(|_| TAG_HEADERS.contains(&name));
                part(tag.unwrap_or(value));
            }
        }
        *hash.finalize().as_bytes()
    }
}

#[cfg(test)]
mod tests;
