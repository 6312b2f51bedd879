//! Codes of errors: the table from which statuses and kinds of refusals and the reference of the API are
//! made.

use axum::http::StatusCode;
use garth_engine::ErrorKind;

/// Row of the table of codes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CodeRow {
    /// Code as in the envelope.
    pub(crate) name: &'static str,
    pub(crate) status: StatusCode,
    /// Statuses of refusals whose cause HTTP tells apart and the code does not.
    pub(crate) further_statuses: &'static [StatusCode],
    /// Kind of a refusal that is not made from an error of the engine.
    pub(crate) kind: ErrorKind,
    pub(crate) further_kinds: &'static [ErrorKind],
    /// Meaning, for the reference.
    pub(crate) meaning: &'static str,
    /// Advice, for the reference.
    pub(crate) advice: &'static str,
    pub(crate) retry: Retry,
}

/// Use of sending the same request again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// It fails again.
    No,
    /// It fails again; a request that is based on the current state can succeed.
    Reread,
    /// It can succeed.
    Yes,
}

impl Retry {
    /// Returns the word of the reference.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Reread => "reread",
            Self::Yes => "yes",
        }
    }
}

/// Declares the codes from one table, in rows of the form
/// `Code = "NAME", STATUS or STATUS, [Kind, Kind], Retry, "Meaning.", "Advice.";`.
macro_rules! codes {
    ($(
        $code:ident = $name:literal, $status:ident $(or $further:ident)*, [$kind:ident $(, $other:ident)*],
        $retry:ident, $meaning:literal, $advice:literal;
    )*) => {
        /// Code of a refusal, by which a client decides what to do. Part of the public API.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Code {
            $($code,)*
        }

        impl Code {
            /// All codes, in the order of their statuses.
            pub(crate) const ALL: &[Self] = &[$(Self::$code),*];

            /// Returns the row of the table.
            pub(crate) const fn row(self) -> CodeRow {
                match self {
                    $(Self::$code => CodeRow {
                        name: $name,
                        status: StatusCode::$status,
                        further_statuses: &[$(StatusCode::$further),*],
                        kind: ErrorKind::$kind,
                        further_kinds: &[$(ErrorKind::$other),*],
                        meaning: $meaning,
                        advice: $advice,
                        retry: Retry::$retry,
                    },)*
                }
            }

            /// Returns the code as in the envelope.
            pub(crate) const fn as_str(self) -> &'static str {
                self.row().name
            }
        }
    };
}

codes! {
    Validation = "VALIDATION_ERROR",
        BAD_REQUEST or URI_TOO_LONG or RANGE_NOT_SATISFIABLE or REQUEST_HEADER_FIELDS_TOO_LARGE,
        [InvalidArgument, NoSuchOffset], No,
        "Invalid HTTP; no `Host`; no JSON object; a field that is missing, unknown, repeated, of the wrong \
         type or out of range; a query; an unknown cursor. 414: the URL is too long. 416: a range after \
         the end of a file. 431: the head is too long, or its `Content-Length` is one that no body has.",
        "Correct the request; the message names the field.";
    InvalidIdempotencyKey = "INVALID_IDEMPOTENCY_KEY", BAD_REQUEST, [InvalidArgument], No,
        "The `Idempotency-Key` of a write is not one [token](kv-api.md#idempotency).",
        "Send one token of 1 to 128 characters, such as a UUID.";
    InvalidPath = "INVALID_PATH", BAD_REQUEST, [InvalidArgument, NameTooLong], No,
        "A [path](tree.md#names-and-paths), or a key path or prefix that violates the rules of \
         [keys](kv-api.md#keys). A path in an operation or condition of `tree/commit`, and in `child`, is \
         part of a value of another type, so it is a `VALIDATION_ERROR`.",
        "Correct the path.";
    InvalidGlob = "INVALID_GLOB", BAD_REQUEST, [InvalidArgument], No,
        "A pattern of keys violates the rules of [keys](kv-api.md#keys).",
        "Correct the pattern.";
    RuleViolation = "RULE_VIOLATION", BAD_REQUEST, [RuleViolation], No,
        "A [rule](rules.md) of the account refuses the content.",
        "Write what the rule accepts; the message says what it is.";
    Unauthorized = "UNAUTHORIZED", UNAUTHORIZED, [AccessDenied], No,
        "No valid API key, or one that has ended while the request was under way; with `WWW-Authenticate: \
         Bearer`.",
        "Send a valid key in one header `Authorization: Bearer KEY`.";
    Forbidden = "FORBIDDEN", FORBIDDEN, [AccessDenied, ReadOnly], No,
        "The key lacks a [scope](http-scopes.md) of the call, or the caller [does not reach](audiences.md) \
         its target. Or the `Host` or `Origin` of the request is [not permitted](http-limits.md#host).",
        "Send a key that has the scope and reaches the target; the message names what is missing.";
    ReservedPath = "RESERVED_PATH", FORBIDDEN, [AccessDenied], No,
        "A put to `/sys` or below.",
        "Use another key path.";
    QuotaExceeded = "QUOTA_EXCEEDED", FORBIDDEN, [QuotaExceeded], No,
        "A [quota](quotas.md) or the [limit on stored bytes](retention.md#stored-bytes) is used up.",
        "Remove something below the path, or have the quota raised.";
    NotFound = "NOT_FOUND", NOT_FOUND, [NotFound, NoAttribute], No,
        "There is no such route, or the target of the call does not exist or is not reached. A key without \
         a value is not an error.",
        "Correct the path or the name; the message names the nearest route, if one is near.";
    MethodNotAllowed = "METHOD_NOT_ALLOWED", METHOD_NOT_ALLOWED, [Unsupported], No,
        "The route takes other methods, which `Allow` names.",
        "Send one of these methods.";
    RequestTimeout = "REQUEST_TIMEOUT", REQUEST_TIMEOUT, [TimedOut], Yes,
        "The body did not arrive in [time](kv-api.md#limits); the connection is closed.",
        "Repeat the request on a new connection, with its `Idempotency-Key`; send long bodies in parts.";
    PathConflict = "PATH_CONFLICT", CONFLICT,
        [
            AlreadyExists, Busy, NotADirectory, IsADirectory, NotEmpty, SymlinkLoop, NotPermitted,
            CrossesMounts, TooManyLinks
        ],
        No,
        "Another file or directory occupies the path, or what is there does not support the call; for a \
         value, the message names its key. Or the path is the root of what the key reaches, or has a \
         mounted directory at or below it, and cannot be removed or moved.",
        "Use another path, or change what is at this one.";
    Conflict = "CONFLICT", CONFLICT or PRECONDITION_FAILED, [Conflict], Reread,
        "Another write came in between, or a condition of the call, such as `if_version`, does not hold. \
         412: the condition is a header, `If-Match` or `If-None-Match`.",
        "Read the current state, apply the change to it, and send the request with the new version.";
    Gone = "GONE", GONE, [Gone], No,
        "That part of the past is no longer stored.",
        "Ask for a later state, or build the pack or prompt again under a new `Idempotency-Key`.";
    PayloadTooLarge = "PAYLOAD_TOO_LARGE", PAYLOAD_TOO_LARGE, [TooLarge], No,
        "The body exceeds the [limit](kv-api.md#limits) of its call, which the message names, or what it \
         writes the limit of a file.",
        "Divide the request; send long files in parts to `POST /v1/uploads`, and media of a session to the \
         call that the message names.";
    UnsupportedMediaType = "UNSUPPORTED_MEDIA_TYPE", UNSUPPORTED_MEDIA_TYPE, [Unsupported], No,
        "The `Content-Type` of a call in JSON is not JSON in UTF-8, or the body has a `Content-Encoding`.",
        "Send `Content-Type: application/json`, and the body as it is.";
    IdempotencyMismatch = "IDEMPOTENCY_KEY_MISMATCH", UNPROCESSABLE_ENTITY, [IdempotencyMismatch], No,
        "The `Idempotency-Key` was used with [another request](kv-api.md#idempotency).",
        "Send a new request under a new key.";
    BudgetTooSmall = "BUDGET_TOO_SMALL", UNPROCESSABLE_ENTITY, [BudgetTooSmall], No,
        "The required content of a [pack](context.md) exceeds the budget.",
        "Send at least the budget that the message names.";
    RateLimited = "RATE_LIMITED", TOO_MANY_REQUESTS, [WouldBlock], Yes,
        "The key has made its [calls of a minute](http-limits.md), or too many calls of its account run at \
         once. The header `Retry-After` has the number of seconds to wait.",
        "Repeat the call after `Retry-After` seconds.";
    Internal = "INTERNAL", INTERNAL_SERVER_ERROR, [Io, Format], Yes,
        "The server failed; its log has details under the `request_id`.",
        "Repeat the request once, with its `Idempotency-Key`; then report the `request_id` to the \
         operator.";
    Corrupt = "CORRUPT", INTERNAL_SERVER_ERROR, [Corrupt], No,
        "A file cannot be read; the message names it and the remedy. Without a file, the storage is \
         damaged: the server's log has details.",
        "Apply the remedy, or report the `request_id` to the operator.";
    Unsupported = "UNSUPPORTED", NOT_IMPLEMENTED, [Unsupported], No,
        "The storage of the tree lacks this ability, or the body has another `Transfer-Encoding` than \
         `chunked`.",
        "Make another call, or send the body as it is.";
    Unavailable = "UNAVAILABLE", SERVICE_UNAVAILABLE,
        [Unavailable, WouldBlock, TimedOut, NoSpace, Poisoned], Yes,
        "The disk is full, the storage failed, too many long answers wait to be sent, too many calls wait \
         for the language model, it gave no answer, or a read took over 10 s.",
        "Repeat the request later, with its `Idempotency-Key`, after the seconds of `Retry-After` if the \
         answer has it.";
}
