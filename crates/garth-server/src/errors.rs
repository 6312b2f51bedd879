//! Failures as clients see them: a status, a code of the public API, the kind and a sentence, in one
//! envelope. Errors of the engine are mapped here by kind, those of a language model by their cause; internal
//! details are only logged.

mod code;
mod remedies;

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use garth_agent::kv::{KvCode, KvError};
use garth_agent::models::NoAnswer;
use garth_engine::error::Advice;
use garth_engine::home::OperatorTree;
use garth_engine::{Error, ErrorKind, PathError, TreePath};
use tracing::Span;

pub(crate) use self::code::Code;
use self::remedies::{Remedies, for_clients};

/// Cause of the failure of a write whose body does not arrive in time. It tells that failure from the time
/// limits of the storage, which are not the client's fault.
#[derive(Debug)]
pub(crate) struct SlowBody {
    limit: Duration,
}

impl SlowBody {
    /// Returns the error of a body that did not arrive within `limit`.
    pub(crate) fn error(limit: Duration) -> Error {
        Error::new(ErrorKind::TimedOut, "the body stopped arriving").with_source(Self { limit })
    }
}

impl fmt::Display for SlowBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nothing arrived within {} s", self.limit.as_secs())
    }
}

impl std::error::Error for SlowBody {}

/// Cause of the failure of a request whose API key has ended after the request was admitted: it was revoked,
/// it has expired, or its account was deleted.
#[derive(Debug)]
pub(crate) struct KeyEnded;

impl KeyEnded {
    /// Returns the error of such a request.
    pub(crate) fn error() -> Error {
        Error::new(ErrorKind::AccessDenied, "the API key is no longer valid").with_source(Self)
    }
}

impl fmt::Display for KeyEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the API key ended after the request was admitted")
    }
}

impl std::error::Error for KeyEnded {}

/// Limit on the bytes of a message. What a message quotes may be as long as the body of the request.
const MAX_MESSAGE: usize = 2 << 10;
/// Bytes of the start of a longer message that are kept. The rest of the limit is for its end, which has the
/// advice.
const MESSAGE_START: usize = 1500;
/// Limit on the bytes of a path or key in the envelope: the longest path of a tree.
const MAX_SUBJECT: usize = 4 << 10;
/// Mark of the part that is left out of a longer message.
const LEFT_OUT: &str = " ... ";

/// Request that failed, with the reason.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) code: Code,
    pub(crate) kind: ErrorKind,
    /// Failure, and what every caller can do about it: at most [`MAX_MESSAGE`] bytes.
    pub(crate) message: String,
    /// Advice that not every caller can follow. Few refusals have some.
    remedies: Option<Box<Remedies>>,
    /// Additional header of the response. Few refusals have one, so it takes little room in the others.
    header: Option<Box<(&'static str, Cow<'static, str>)>>,
    /// Path that the failure is about, in the tree where it was found. [`Refusal::naming_path`] shows it.
    path: Option<Box<TreePath>>,
    /// Path or key in the envelope, which the caller may see.
    subject: Option<Box<str>>,
    /// Cause, for the log only.
    cause: Option<String>,
    /// Account that the request of an operator was on, for the log only.
    account: Option<Box<str>>,
}

impl Refusal {
    pub(crate) fn new<'m>(code: Code, message: impl Into<Cow<'m, str>>) -> Self {
        let (row, message) = (code.row(), bounded(message.into()));
        let (status, kind) = (row.status, row.kind);
        Self {
            status,
            code,
            kind,
            message,
            remedies: None,
            header: None,
            path: None,
            subject: None,
            cause: None,
            account: None,
        }
    }

    pub(crate) fn validation<'m>(message: impl Into<Cow<'m, str>>) -> Self {
        Self::new(Code::Validation, message)
    }

    /// Returns the refusal of a cursor that no page of the request returned.
    pub(crate) fn cursor() -> Self {
        let message = "\"cursor\" must be the `next_cursor` of an earlier page of the same request: send the \
            same fields (only `limit` may differ), or leave \"cursor\" out to start again";
        Self::validation(message)
    }

    /// Returns the refusal of a key that is not valid. Why it is not would help to guess keys.
    pub(crate) fn unauthorized() -> Self {
        let message = "this API key is unknown, wrong, revoked or expired; send a valid one";
        Self::new(Code::Unauthorized, message).with_header("www-authenticate", "Bearer")
    }

    /// Returns the refusal of a request that carries no key.
    pub(crate) fn no_key() -> Self {
        let message = "send an API key in exactly one header `Authorization: Bearer KEY`";
        Self { message: message.to_owned(), ..Self::unauthorized() }
    }

    pub(crate) fn forbidden(scope: &str) -> Self {
        Self::new(Code::Forbidden, format!("this API key lacks the scope `{scope}`; send one that has it"))
    }

    /// Returns the refusal of a write by a key that is bound to reading; `scope` is missing.
    pub(crate) fn read_only_key(scope: &str) -> Self {
        let message =
            format!("this API key is read-only, so it lacks the scope `{scope}`; send one that may write");
        Self::new(Code::Forbidden, message)
    }

    /// Returns the refusal of a bound key by a call on the account or the data folder itself.
    pub(crate) fn bound_key() -> Self {
        Self::new(Code::Forbidden, "a bound API key cannot make this call; send one without a binding")
    }

    /// Returns the refusal of a call that only a key of the data folder can make.
    pub(crate) fn for_operators() -> Self {
        let message = "this call needs a key of the data folder; `garth key create --operator --scope admin` creates one";
        Self::new(Code::Forbidden, message)
    }

    /// Returns the refusal of a call on another account than that of the key.
    pub(crate) fn other_account(own: &str) -> Self {
        let message = format!("this API key is one of the account `{own}`; leave \"account\" out");
        Self::new(Code::Forbidden, message)
    }

    /// Returns the refusal of a path without a route. `nearest` is the name of the most similar route.
    pub(crate) fn no_route(nearest: Option<&str>) -> Self {
        let nearest = nearest.map_or_else(String::new, |nearest| format!("; did you mean {nearest}?"));
        let message = format!("there is no such route{nearest}; `GET /docs` shows all routes");
        Self::new(Code::NotFound, message)
    }

    /// Returns the refusal of a method that a path does not have. `allow` lists those that it has.
    pub(crate) fn wrong_method(allow: String) -> Self {
        let message = format!("this route does not take the method of the request; send {allow}");
        Self::new(Code::MethodNotAllowed, message).with_header("allow", allow)
    }

    /// Returns the refusal of a body of more than `max` bytes. `advice` follows the limit.
    pub(crate) fn too_large(max: usize, advice: &str) -> Self {
        let message = format!("the body of this request may have at most {max} bytes{advice}");
        Self::new(Code::PayloadTooLarge, message)
    }

    pub(crate) fn slow_body(limit: Duration) -> Self {
        let message = format!(
            "the body did not arrive within {} seconds; send it again, a long one in parts",
            limit.as_secs()
        );
        // The rest of the body may still arrive, so the connection cannot be used again.
        Self::new(Code::RequestTimeout, message).with_header("connection", "close")
    }

    /// Returns the refusal of a range that begins after the end of `size` bytes.
    pub(crate) fn range_beyond(size: u64) -> Self {
        let message = format!("`Range` begins after the end: there are {size} bytes; ask for some of these");
        let refusal = Self::validation(message).with_status(StatusCode::RANGE_NOT_SATISFIABLE);
        refusal.with_kind(ErrorKind::NoSuchOffset).with_header("content-range", format!("bytes */{size}"))
    }

    pub(crate) fn internal() -> Self {
        Self::new(Code::Internal, "the server failed; report this request id, under which its log says more")
    }

    /// Returns the refusal of a request that the storage cannot serve now.
    fn unavailable() -> Self {
        let message =
            "the server cannot do this now: try again later; its log says more under this request id";
        Self::new(Code::Unavailable, message)
    }

    /// Returns the refusal of a request that has waited for room or a turn in vain.
    pub(crate) fn no_room(message: &str) -> Self {
        // It has waited for `room_wait`, and its repeat waits again, so the pause between them may be short.
        Self::new(Code::Unavailable, message).with_header("retry-after", "1")
    }

    /// Returns the refusal of a call beyond a limit on the calls of its key or account. It may be repeated
    /// after some seconds.
    pub(crate) fn rate_limited(message: &str, retry_after: i64) -> Self {
        Self::new(Code::RateLimited, message).with_header("retry-after", retry_after.to_string())
    }

    /// Returns the refusal of a deletion that has begun, and whose files cannot be removed yet. The cause is
    /// for the log only, because it may name files of the host.
    pub(crate) fn being_deleted(error: &Error) -> Self {
        Self::new(Code::Unavailable, error.message()).because(format!("{}: {}", error.kind(), chain(error)))
    }

    /// Puts the path that the failure is about before the message, if it is known. Only for a failure in the
    /// tree of the call, and for a caller who may see where its links lead.
    pub(crate) fn naming_path(mut self) -> Self {
        let path = self.path.take();
        // The messages of other failures are written here, or name the path already.
        match path.filter(|_| self.status.is_client_error()) {
            Some(path) => self.about(&path).naming(path.as_str()),
            None => self,
        }
    }

    /// Adds the path or key that the failure is about to the envelope. The caller must be one who may see it.
    pub(crate) fn naming(self, subject: &str) -> Self {
        // A part of a path would be another path.
        let subject = (subject.len() <= MAX_SUBJECT).then(|| subject.into());
        Self { subject, ..self }
    }

    /// Adds the key of a call on values to the envelope, if the failure is about the key.
    pub(crate) fn naming_key(self, key: &str) -> Self {
        match self.code {
            Code::InvalidPath
            | Code::RuleViolation
            | Code::Forbidden
            | Code::ReservedPath
            | Code::NotFound
            | Code::PathConflict
            | Code::Conflict
            | Code::PayloadTooLarge => self.naming(key),
            // Others are about another field, the account or the server.
            _ => self,
        }
    }

    /// Puts the field that the failure is about before the message.
    pub(crate) fn of_field(self, name: impl fmt::Display) -> Self {
        self.about(format_args!("\"{name}\""))
    }

    /// Puts the subject of the failure before the message.
    pub(crate) fn about(self, subject: impl fmt::Display) -> Self {
        let message = bounded(Cow::Owned(format!("{subject}: {}", self.message)));
        Self { message, ..self }
    }

    /// Puts advice after the message.
    pub(crate) fn advising(self, advice: &str) -> Self {
        let message = bounded(Cow::Owned(format!("{}; {advice}", self.message)));
        Self { message, ..self }
    }

    /// Adds a hint for models. Clients of the HTTP API do not see it.
    pub(crate) fn hinting(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.remedies.get_or_insert_default().hints.push(hint.into());
        self
    }

    /// Adds advice of the library.
    fn advised(mut self, advice: Option<(Advice, &str)>) -> Self {
        if let Some((advice, text)) = advice {
            self.remedies.get_or_insert_default().advice = Some((advice, text.to_owned()));
        }
        self
    }

    /// Returns the advice of the library, with the words of the command line.
    pub(crate) fn advice(&self) -> Option<(Advice, &str)> {
        let (advice, text) = self.remedies.as_ref()?.advice.as_ref()?;
        Some((*advice, text.as_str()))
    }

    /// Returns the hints for models.
    pub(crate) fn hints(&self) -> impl Iterator<Item = &str> {
        self.remedies.iter().flat_map(|remedies| &remedies.hints).map(|hint| &**hint)
    }

    /// Returns the message for clients of the HTTP API, with the advice of the library in their words.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        match self.advice() {
            Some((advice, text)) => {
                let advice = for_clients(advice, text);
                Cow::Owned(bounded(Cow::Owned(format!("{}; {advice}", self.message))))
            }
            None => Cow::Borrowed(&self.message),
        }
    }

    /// Returns the path that the failure is about, if it is not in the message.
    pub(crate) fn path(&self) -> Option<&TreePath> {
        self.path.as_deref()
    }

    /// Replaces the message.
    pub(crate) fn saying(self, message: String) -> Self {
        Self { message: bounded(Cow::Owned(message)), ..self }
    }

    /// Forgets the path, which is that of another tree than the tree of the call.
    pub(crate) fn without_path(self) -> Self {
        Self { path: None, subject: None, ..self }
    }

    /// Returns the path or key that the envelope names.
    pub(crate) fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }

    /// Returns the refusal without its content, for a key that may write but not read.
    /// `scope` is the one that shows it.
    pub(crate) fn without_content(self, scope: &str) -> Self {
        // That an account is full tells nothing of what is stored.
        if matches!(self.advice(), Some((Advice::StoredBytes, _))) {
            return self;
        }
        let stored = match self.code {
            Code::Conflict | Code::PathConflict => "this write conflicts with stored data",
            Code::NotFound => "the target of this write does not exist",
            // The reason quotes the file as it would become, also parts that the caller did not write.
            Code::RuleViolation => "a rule refuses this write",
            // The usage of the quota is the size of stored files.
            Code::QuotaExceeded => "a quota refuses this write",
            // The reason quotes what cannot be read, such as an unknown status.
            Code::Corrupt => "this write depends on stored data that cannot be read",
            _ => return self,
        };
        let message = format!("{stored}; details require a key with the scope `{scope}`");
        // The kind tells what is at a path, and the path which part of the request met it.
        Self { message, remedies: None, kind: self.code.row().kind, subject: None, ..self }
    }

    /// Returns the refusal with another status: HTTP has more statuses than there are codes.
    pub(crate) fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// Returns the refusal with another kind: there are more kinds than codes.
    pub(crate) fn with_kind(self, kind: ErrorKind) -> Self {
        Self { kind, ..self }
    }

    fn with_header(self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        Self { header: Some(Box::new((name, value.into()))), ..self }
    }

    /// Adds a cause for the log.
    pub(crate) fn because(self, cause: impl Into<String>) -> Self {
        Self { cause: Some(cause.into()), ..self }
    }

    /// Adds the account that the request of an operator was on, for the log.
    pub(crate) fn of_account(self, account: &str) -> Self {
        Self { account: Some(account.into()), ..self }
    }

    /// Logs the cause, if any, in the current span, and removes it so that it is logged once.
    pub(crate) fn log(&mut self) {
        let Some(cause) = self.cause.take() else { return };
        // Only the span of an operator's request names no account.
        let account = self.account.take().filter(|_| !Span::current().has_field("account"));
        let span = account.map(|account| tracing::error_span!("account", account = &*account));
        let _entered = span.as_ref().map(Span::enter);
        tracing::error!(code = self.code.as_str(), "{cause}");
    }

    /// Returns true if there is something to log.
    pub(crate) fn has_cause(&self) -> bool {
        self.cause.is_some()
    }

    /// Returns the envelope as JSON.
    pub(crate) fn body(&self, request_id: &str) -> Vec<u8> {
        let mut error = serde_json::json!({
            "code": self.code.as_str(), "kind": self.kind.as_str(), "message": self.text(),
            "request_id": request_id,
        });
        if let Some(subject) = self.subject() {
            error["path"] = subject.into();
        }
        serde_json::json!({ "error": error }).to_string().into_bytes()
    }
}

/// Converts to status and header. The body needs the id of the request: [`crate::request`] takes the refusal
/// from the extension and writes it.
impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        if let Some(header) = &self.header {
            let (name, ref value) = **header;
            // An invalid value leaves the header out.
            let value = HeaderValue::from_str(value);
            response.headers_mut().extend(value.map(|value| (HeaderName::from_static(name), value)));
        }
        response.extensions_mut().insert(self);
        response
    }
}

impl From<KvError> for Refusal {
    fn from(error: KvError) -> Self {
        let code = match error.code() {
            KvCode::Validation => Code::Validation,
            KvCode::InvalidPath => Code::InvalidPath,
            KvCode::InvalidGlob => Code::InvalidGlob,
            KvCode::ReservedPath => Code::ReservedPath,
            KvCode::PathConflict => Code::PathConflict,
            KvCode::TooLarge => Code::PayloadTooLarge,
            KvCode::IdempotencyMismatch => Code::IdempotencyMismatch,
            KvCode::FileSystem(kind) => {
                let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<Error>());
                let advice = cause.and_then(Error::advice);
                // A message that is not the cause's has no advice.
                let failure =
                    advice.and_then(|(_, text)| error.message().strip_suffix(text)?.strip_suffix("; "));
                let refusal = match failure {
                    Some(failure) => of_kind(kind, (failure, advice), &error),
                    None => of_kind(kind, (error.message(), None), &error),
                };
                // Only the path of a quota is in the message as well. Others are files, not keys.
                let quota = cause.and_then(Error::path).filter(|_| kind == ErrorKind::QuotaExceeded);
                return match quota {
                    Some(path) => refusal.naming(path.as_str()),
                    None => refusal,
                };
            }
        };
        Self::new(code, error.message())
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        // In any other tree, this is a path like any other, and the span of the request names the account.
        let account = error.path().and_then(OperatorTree::account_of).map(Box::from);
        Self { account, ..Self::of_error(&error) }
    }
}

impl Refusal {
    fn of_error(error: &Error) -> Self {
        let cause = std::error::Error::source(error);
        if let Some(reason) = cause.and_then(|cause| cause.downcast_ref::<NoAnswer>()) {
            return Self::new(Code::Unavailable, reason.to_string())
                .because(format!("{}: {reason}", error.kind()));
        }
        if let Some(SlowBody { limit }) = cause.and_then(|cause| cause.downcast_ref::<SlowBody>()) {
            return Self::slow_body(*limit);
        }
        if cause.is_some_and(|cause| cause.is::<KeyEnded>()) {
            return Self::unauthorized();
        }
        if !error.is(ErrorKind::Corrupt) {
            let path = error.path().cloned().map(Box::new);
            let refusal = Self { path, ..of_kind(error.kind(), (error.failure(), error.advice()), error) };
            let code = if is_of_invalid_path(error) { Code::InvalidPath } else { refusal.code };
            return Self { code, ..refusal };
        }
        // A client that can read the file can also repair it, so the message names the path.
        let message = match error.path() {
            Some(path) => format!("{path}: {}", error.failure()),
            None => error.failure().to_owned(),
        };
        let refusal = Self::new(Code::Corrupt, message).advised(error.advice());
        let refusal = match error.path() {
            Some(path) => refusal.naming(path.as_str()),
            None => refusal,
        };
        refusal.because(format!("{}: {}", error.kind(), chain(error)))
    }
}

/// Returns true for an error about the form of a path. Each has the reason among its causes, whichever part
/// of the library found it.
fn is_of_invalid_path(error: &Error) -> bool {
    let is_of_form = error.is(ErrorKind::InvalidArgument) || error.is(ErrorKind::NameTooLong);
    let mut causes = std::iter::successors(std::error::Error::source(error), |&cause| cause.source());
    is_of_form && causes.any(|cause| cause.is::<PathError>())
}

/// Returns the refusal of a kind. `error` is for the log.
fn of_kind(
    kind: ErrorKind,
    (failure, advice): (&str, Option<(Advice, &str)>),
    error: &dyn std::error::Error,
) -> Refusal {
    let code = match kind {
        ErrorKind::NotFound | ErrorKind::NoAttribute => Code::NotFound,
        ErrorKind::InvalidArgument | ErrorKind::NoSuchOffset => Code::Validation,
        ErrorKind::RuleViolation => Code::RuleViolation,
        ErrorKind::NameTooLong => Code::InvalidPath,
        // A repeat of a call that is `Busy` would fail for ever: the path is a root, or something is mounted
        // at or below it.
        ErrorKind::AlreadyExists
        | ErrorKind::Busy
        | ErrorKind::NotADirectory
        | ErrorKind::IsADirectory
        | ErrorKind::NotEmpty
        | ErrorKind::SymlinkLoop
        | ErrorKind::NotPermitted
        | ErrorKind::CrossesMounts
        | ErrorKind::TooManyLinks => Code::PathConflict,
        ErrorKind::Conflict | ErrorKind::Stale => Code::Conflict,
        ErrorKind::Gone => Code::Gone,
        ErrorKind::TooLarge => Code::PayloadTooLarge,
        ErrorKind::BudgetTooSmall => Code::BudgetTooSmall,
        ErrorKind::IdempotencyMismatch => Code::IdempotencyMismatch,
        ErrorKind::AccessDenied | ErrorKind::ReadOnly => Code::Forbidden,
        ErrorKind::QuotaExceeded => Code::QuotaExceeded,
        ErrorKind::Unsupported => Code::Unsupported,
        ErrorKind::WouldBlock
        | ErrorKind::TimedOut
        | ErrorKind::NoSpace
        | ErrorKind::Poisoned
        | ErrorKind::Unavailable => Code::Unavailable,
        ErrorKind::Corrupt => Code::Corrupt,
        ErrorKind::Format | ErrorKind::Io => Code::Internal,
    };
    // To a client, both mean that another write came in between.
    let shown = if kind == ErrorKind::Stale { ErrorKind::Conflict } else { kind };
    let refusal = Refusal::new(code, failure).with_kind(shown).advised(advice);
    // A call that a tree does not support fails by its request, and so is not logged.
    if !refusal.status.is_server_error() || kind == ErrorKind::Unsupported {
        return refusal;
    }
    // Only these messages are written for clients. Others may name files of the host.
    let (message, remedies) = match kind {
        ErrorKind::NoSpace | ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            (refusal.message, refusal.remedies)
        }
        _ if code == Code::Unavailable => (Refusal::unavailable().message, None),
        _ => (Refusal::internal().message, None),
    };
    let refusal = Refusal { message, remedies, ..refusal }.because(format!("{kind}: {}", chain(error)));
    match kind {
        // Mostly a database that cannot be reached for a moment.
        ErrorKind::Unavailable => refusal.with_header("retry-after", "1"),
        _ => refusal,
    }
}

/// Returns a message of at most [`MAX_MESSAGE`] bytes: the start and the end of a longer one.
fn bounded(message: Cow<'_, str>) -> String {
    if message.len() <= MAX_MESSAGE {
        return message.into_owned();
    }
    let end = message.len() - (MAX_MESSAGE - MESSAGE_START - LEFT_OUT.len());
    let start = &message[..message.floor_char_boundary(MESSAGE_START)];
    [start, &message[message.ceil_char_boundary(end)..]].join(LEFT_OUT)
}

/// Returns an error and all of its causes as one text.
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

#[cfg(test)]
mod tests;
