//! Responses that all routes share: JSON bodies, and refusals of requests whose body was not read.

use std::marker::PhantomData;

use axum::extract::Request;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use garth_engine::compute::working;
use garth_engine::home::Admitted;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::body::drain;
use crate::errors::Refusal;
use crate::limits::Limits;
use crate::request::KeyId;

/// Answer of a handler, in any form of JSON.
pub(super) trait IntoBody {
    /// Returns the answer as text.
    fn into_body(self) -> Bytes;
}

impl IntoBody for Bytes {
    fn into_body(self) -> Bytes {
        self
    }
}

impl IntoBody for Value {
    fn into_body(self) -> Bytes {
        let text = self.to_string();
        working(text.len());
        Bytes::from(text)
    }
}

impl IntoBody for Box<RawValue> {
    fn into_body(self) -> Bytes {
        Bytes::from(Box::<str>::from(self).into_string())
    }
}

/// Answer of a handler in the JSON of the type `T`, which describes it. The names of each object are sorted.
pub(super) struct Json<T> {
    value: Value,
    _described: PhantomData<fn() -> T>,
}

impl<T> Json<T> {
    /// Serializes an answer.
    pub(super) fn of(answer: &T) -> Result<Self, Refusal>
    where
        T: Serialize,
    {
        serde_json::to_value(answer)
            .map(Self::recorded)
            .map_err(|error| Refusal::internal().because(format!("an answer has no JSON form: {error}")))
    }

    /// Returns an answer that was recorded for a repeat of its request.
    pub(super) const fn recorded(value: Value) -> Self {
        Self { value, _described: PhantomData }
    }

    /// Returns the answer in the form that is recorded for a repeat of its request.
    pub(super) fn into_value(self) -> Value {
        self.value
    }
}

impl<T> IntoBody for Json<T> {
    fn into_body(self) -> Bytes {
        self.value.into_body()
    }
}

/// Returns the text of an answer.
#[cfg(test)]
pub(super) fn text<T: Serialize>(answer: &T) -> String {
    Json::of(answer).unwrap().into_value().to_string()
}

/// Serializes an answer and keeps its values to the last digit.
pub(super) fn raw(answer: &impl Serialize) -> Result<Box<RawValue>, Refusal> {
    let text = to_raw_value(answer).map_err(|_| Refusal::validation("the answer is not valid JSON"))?;
    working(text.get().len());
    Ok(text)
}

/// Returns a JSON response.
pub(super) fn json(body: Bytes) -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
}

/// Adds the headers that keep bytes of a client from running as a page of this server: a browser neither
/// guesses another type nor runs scripts, also if the stored type is HTML or an image with scripts.
pub(super) fn confine(answer: &mut HeaderMap) {
    answer.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
}

/// Adds the key of the caller, for the access log.
pub(crate) fn with_key(mut response: Response, admitted: &Admitted) -> Response {
    response.extensions_mut().insert(KeyId(admitted.key().id.clone()));
    response
}

/// Refuses a request, and reads the rest of its body in the background.
pub(super) fn refuse(limits: &Limits, request: Request, refusal: Refusal) -> Refusal {
    let (head, body) = request.into_parts();
    drain(limits, &head.headers, body);
    refusal
}
