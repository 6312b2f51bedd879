//! Failures as clients see them: a status, a code of the outside contract and a sentence, in one envelope. Whatever the
//! engine says becomes one of these here, kind by kind, and nothing internal gets further than the log.

use std::time::Duration;

use axum::http::StatusCode;
use garth::agent::kv::{KvCode, KvError};
use garth::{Error, ErrorKind};

use crate::limits::MAX_BODY;

/// A request that gets no answer but why.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// A header that goes with it.
    pub(crate) header: Option<(&'static str, &'static str)>,
    /// For the log only.
    pub(crate) cause: Option<String>,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), header: None, cause: None }
    }

    pub(crate) fn validation(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "VALIDATION_ERROR", message)
    }

    pub(crate) fn unauthorized() -> Self {
        let message = "send a valid API key as `Authorization: Bearer <api key>`";
        let refusal = Self::new(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", message);
        Self { header: Some(("www-authenticate", "Bearer")), ..refusal }
    }

    pub(crate) fn forbidden(scope: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "FORBIDDEN", format!("this API key lacks the scope `{scope}`"))
    }

    pub(crate) fn no_route() -> Self {
        let message = "there is no such route; the routes are POST /v1/{put,get,delete,list,glob,history,search} and \
                       GET /healthz";
        Self::new(StatusCode::NOT_FOUND, "NOT_FOUND", message)
    }

    pub(crate) fn wrong_method(allow: &'static str) -> Self {
        let message = format!("this route takes {allow}");
        let refusal = Self::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", message);
        Self { header: Some(("allow", allow)), ..refusal }
    }

    pub(crate) fn too_large() -> Self {
        let message = format!("the body of a request has at most {MAX_BODY} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE", message)
    }

    pub(crate) fn slow_body(limit: Duration) -> Self {
        let message = format!("the body did not arrive within {} seconds", limit.as_secs());
        let refusal = Self::new(StatusCode::REQUEST_TIMEOUT, "REQUEST_TIMEOUT", message);
        Self { header: Some(("connection", "close")), ..refusal }
    }

    pub(crate) fn internal() -> Self {
        let message = "the server failed; its log says more under this request id";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", message)
    }

    /// What the log says of it.
    pub(crate) fn because(self, cause: impl Into<String>) -> Self {
        Self { cause: Some(cause.into()), ..self }
    }

    /// The envelope.
    pub(crate) fn body(&self, request_id: &str) -> Vec<u8> {
        let error = serde_json::json!({
            "error": { "code": self.code, "message": self.message, "request_id": request_id }
        });
        error.to_string().into_bytes()
    }
}

impl From<KvError> for Refusal {
    fn from(error: KvError) -> Self {
        let (status, code) = match error.code() {
            KvCode::Validation => (StatusCode::BAD_REQUEST, "VALIDATION_ERROR"),
            KvCode::InvalidPath => (StatusCode::BAD_REQUEST, "INVALID_PATH"),
            KvCode::InvalidGlob => (StatusCode::BAD_REQUEST, "INVALID_GLOB"),
            KvCode::ReservedPath => (StatusCode::FORBIDDEN, "RESERVED_PATH"),
            KvCode::PathConflict => (StatusCode::CONFLICT, "PATH_CONFLICT"),
            KvCode::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE"),
            KvCode::IdempotencyMismatch => (StatusCode::UNPROCESSABLE_ENTITY, "IDEMPOTENCY_KEY_MISMATCH"),
            KvCode::FileSystem(kind) => return of_kind(kind, error.message(), &error),
        };
        Self::new(status, code, error.message())
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        of_kind(error.kind(), error.message(), &error)
    }
}

fn of_kind(kind: ErrorKind, message: &str, error: &dyn std::error::Error) -> Refusal {
    let (status, code) = match kind {
        ErrorKind::NotFound => (StatusCode::NOT_FOUND, "NOT_FOUND"),
        ErrorKind::InvalidArgument => (StatusCode::BAD_REQUEST, "VALIDATION_ERROR"),
        ErrorKind::RuleViolation => (StatusCode::BAD_REQUEST, "RULE_VIOLATION"),
        ErrorKind::NameTooLong => (StatusCode::BAD_REQUEST, "INVALID_PATH"),
        ErrorKind::AlreadyExists
        | ErrorKind::NotADirectory
        | ErrorKind::IsADirectory
        | ErrorKind::NotEmpty
        | ErrorKind::SymlinkLoop
        | ErrorKind::NotPermitted
        | ErrorKind::TooManyLinks => (StatusCode::CONFLICT, "PATH_CONFLICT"),
        ErrorKind::Busy | ErrorKind::Conflict => (StatusCode::CONFLICT, "CONFLICT"),
        ErrorKind::Gone => (StatusCode::GONE, "GONE"),
        ErrorKind::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE"),
        ErrorKind::IdempotencyMismatch => (StatusCode::UNPROCESSABLE_ENTITY, "IDEMPOTENCY_KEY_MISMATCH"),
        ErrorKind::AccessDenied | ErrorKind::ReadOnly => (StatusCode::FORBIDDEN, "FORBIDDEN"),
        ErrorKind::QuotaExceeded => (StatusCode::FORBIDDEN, "QUOTA_EXCEEDED"),
        ErrorKind::Unsupported => (StatusCode::NOT_IMPLEMENTED, "UNSUPPORTED"),
        ErrorKind::NoSpace | ErrorKind::Poisoned => (StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE"),
        ErrorKind::Format | ErrorKind::Corrupt | ErrorKind::Io => {
            (StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL")
        }
    };
    if !status.is_server_error() {
        return Refusal::new(status, code, message);
    }
    let message = match kind {
        ErrorKind::Unsupported | ErrorKind::NoSpace => message.to_owned(),
        _ => Refusal::internal().message,
    };
    Refusal::new(status, code, message).because(format!("{kind:?}: {}", chain(error)))
}

/// An error and all that caused it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
