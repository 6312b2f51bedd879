//! The header `Idempotency-Key`, which names a write so that a repeat of it is known, and the hash of a
//! request, which tells a repeat from another request under the same key.

use axum::http::HeaderMap;
use garth_engine::model::{Idempotency, Timestamp};

use super::header::Header;
use crate::errors::Refusal;
use crate::fields::Fields;

/// Name of the header.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The header, which every write takes.
pub(super) const RETRY_HEADER: Header = Header {
    name: IDEMPOTENCY_KEY,
    is_required: false,
    meaning: "Name of this write, by which a repeat of it is known: one token of 1 to 128 characters.",
};
/// Longest key, in characters.
const MAX_KEY: usize = 128;
/// Seconds for which a key is remembered: 24 hours.
const SECONDS: i64 = 24 * 60 * 60;

/// Idempotency key of a write, with the hash of the request.
#[derive(Debug)]
pub(super) struct Retry {
    key: String,
    request_hash: [u8; 32],
    /// Hash as it was made before requests were compared field by field: of the path and the raw body.
    raw_hash: [u8; 32],
    keep_until: Timestamp,
}

/// Request to a route, as far as it is compared with its repeat.
pub(super) struct Compared<'a> {
    /// Path of the route, with `{agent}` as it is declared.
    pub(super) path: &'static str,
    /// Arguments of the path, percent-decoded.
    pub(super) arguments: &'a [(String, String)],
    /// Fields of the body or the query.
    pub(super) fields: &'a Fields<'a>,
    /// Headers that the route declares.
    pub(super) headers: &'static [Header],
    /// The body as it was sent.
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
        let key = value.to_str().ok().filter(|key| is_token(key.as_bytes()) && values.next().is_none());
        let message = || {
            Refusal::validation(format!(
                "`Idempotency-Key` is one token of 1 to {MAX_KEY} characters out of a-z, A-Z, 0-9, `_` and `-`"
            ))
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

    /// Returns the key, as records have it.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// Compares what the request reaches as well: once settings lead it to another audience or class, it is
    /// another request.
    pub(super) fn reaching(&mut self, audience: &str, class: &str) {
        let mut hash = blake3::Hasher::new();
        hash.update(&self.request_hash).update(class.as_bytes()).update(&[0]).update(audience.as_bytes());
        self.request_hash = *hash.finalize().as_bytes();
    }

    /// Compares the request as earlier versions did: their records live a day, and a repeat of a write that
    /// was made before the server was replaced is still answered. Returns false if it is compared so already.
    pub(super) fn turn_older(&mut self) -> bool {
        std::mem::replace(&mut self.request_hash, self.raw_hash) != self.raw_hash
    }

    /// Returns the record of this write. Its key is the account's own, because the tree that stores it is.
    pub(super) fn record(&self) -> Idempotency {
        Idempotency::new(&*self.key, self.request_hash, self.keep_until)
    }
}

impl Compared<'_> {
    /// Returns the hash of the request: the decoded path, the fields in the order of their names with the
    /// exact text of their JSON, and the declared headers. Each part goes with its length, so that no two
    /// requests have one text.
    fn hash(&self, headers: &HeaderMap) -> [u8; 32] {
        let mut hash = blake3::Hasher::new();
        let mut part = |bytes: &[u8]| {
            hash.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
        };
        part(b"garth request 1");
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
        // A table lists headers in lower case and in one order.
        for name in self.headers.iter().map(|header| header.name).filter(|name| *name != IDEMPOTENCY_KEY) {
            for value in headers.get_all(name) {
                let value = value.as_bytes().trim_ascii();
                part(name.as_bytes());
                part(value.strip_prefix(b"W/").unwrap_or(value));
            }
        }
        *hash.finalize().as_bytes()
    }
}

#[cfg(test)]
mod tests;
