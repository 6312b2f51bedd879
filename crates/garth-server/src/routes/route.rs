//! Route: the declaration of one call. Several calls may have one path, with different methods.

use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use axum::routing::MethodFilter;
use futures::future::BoxFuture;
use garth_engine::home::{Binding, Scope};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::call::{Answering, Call};
use super::control::ControlHandler;
use super::header::Header;
use super::identity::{fields_for, fields_of};
use super::served::SharedState;
use super::tree::Tree;
use crate::body;
use crate::errors::Refusal;
use crate::fields::Field;
use crate::limits::Limits;

/// Longest body of a call that is answered on the thread where it arrives.
pub(super) const SMALL_BODY: usize = 4 << 10;

/// Route of one call.
pub(super) struct Route {
    pub(super) method: Method,
    pub(super) path: &'static str,
    /// Summary, a sentence.
    pub(super) summary: &'static str,
    /// Scopes that the key of the caller must have, all of them.
    pub(super) scopes: &'static [Scope],
    pub(super) tree: Tree,
    /// Fields of the call, without those that name its caller.
    pub(super) own_fields: &'static [&'static [Field]],
    /// Headers of the call besides `Authorization`, in the order of their names.
    pub(super) headers: &'static [Header],
    /// Schema of the answer; `None` if the answer is bytes.
    pub(super) answer: Option<AnswerSchema>,
    pub(super) run: Run,
}

/// Returns the schema of an answer, and adds the definitions that it refers to.
pub(crate) type AnswerSchema = fn(&mut SchemaGenerator) -> Schema;

/// Returns the schema of an answer of type `T`.
pub(crate) fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Method of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// Also serves `HEAD`.
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    /// Returns the name of the method.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// Returns the requests that a call of this method serves, in the form of the header `Allow`.
    pub(super) const fn allow(self) -> &'static str {
        match self {
            Self::Get => "GET, HEAD",
            other => other.as_str(),
        }
    }

    /// Returns the filter of the router.
    pub(super) const fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Put => MethodFilter::PUT,
            Self::Patch => MethodFilter::PATCH,
            Self::Delete => MethodFilter::DELETE,
        }
    }
}

/// Response of a handler that writes it by itself.
pub(super) type Responding<'a> = BoxFuture<'a, Result<Response, Refusal>>;

/// Handler of a call that needs no API key.
pub(super) type KeylessHandler = fn(SharedState, Request) -> BoxFuture<'static, Response>;

/// Handler of a call. Only a read can run again when there is no room for its answer: the handler of a write
/// takes its call by value.
pub(super) enum Run {
    /// Returns stored data.
    Read(Length, for<'a> fn(&'a Call<'a>) -> Answering<'a>),
    /// Changes stored data.
    Write(Length, for<'a> fn(Call<'a>) -> Answering<'a>),
    /// Stores a body while it arrives; the fields are in the query. Its answer is short.
    Upload(for<'a> fn(Call<'a>, &'a Parts, &'a mut Body) -> Responding<'a>),
    /// Returns bytes while they are read.
    Download(for<'a> fn(&'a Call<'a>, &'a Parts) -> Responding<'a>),
    /// Reads the control data.
    ReadControl(ControlHandler),
    /// Changes the control data.
    WriteControl(ControlHandler),
    /// Answers without an API key. It may refuse with these statuses, besides those of any request.
    Keyless(KeylessHandler, &'static [StatusCode]),
}

/// Length of the answer of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    /// As [`Length::Short`], for a call that passes on one value or a page of names and computes nothing.
    /// With a short body it runs on the thread that reads the request.
    Passed,
    /// Usually up to 16 KiB. Room in memory for a longer answer is reserved after the call has run.
    Short,
    /// As [`Length::Passed`], for a call that waits for a commit. Its body is so short that it occupies
    /// neither a thread nor room meanwhile.
    Waiting,
    /// Long. Room in memory is reserved before the call runs.
    Long,
    /// As [`Length::Short`], of a write that may wait for the language model. Its body is so short that it
    /// holds no room meanwhile.
    Model,
    /// Long, of a call that reserves the room by itself: a read that may wait for another service and must
    /// hold none meanwhile, because other calls of the account need it; a write that knows how long its
    /// answer is.
    Own,
}

impl Route {
    /// Returns the fields of the call in groups. The last ones name its caller.
    pub(super) fn field_groups(&self) -> impl Iterator<Item = &'static [Field]> {
        self.own_fields.iter().chain(fields_of(self.tree)).copied()
    }

    /// Returns the fields of the call in groups, for a key with a binding.
    pub(super) fn field_groups_for(&self, binding: &Binding) -> impl Iterator<Item = &'static [Field]> {
        self.own_fields.iter().chain(fields_for(self.tree, binding)).copied()
    }

    /// Returns true if the call changes what is stored.
    pub(super) const fn writes(&self) -> bool {
        matches!(self.run, Run::Write(..) | Run::Upload(_) | Run::WriteControl(_))
    }

    /// Returns true if the call runs on the threads that compute, whatever its size.
    pub(super) const fn computes(&self) -> bool {
        match self.run {
            Run::Read(length, _) | Run::Write(length, _) => {
                !matches!(length, Length::Passed | Length::Waiting)
            }
            Run::ReadControl(_) | Run::WriteControl(_) => true,
            Run::Upload(_) | Run::Download(_) | Run::Keyless(..) => false,
        }
    }

    /// Returns true if the call may wait for the language model.
    pub(super) const fn asks_model(&self) -> bool {
        matches!(self.run, Run::Write(Length::Model, _))
    }

    /// Returns true for calls that write to a session: their bodies contain messages, unless they ask the
    /// language model.
    pub(super) const fn takes_messages(&self) -> bool {
        matches!((self.tree, &self.run), (Tree::Sessions, Run::Write(..))) && !self.asks_model()
    }

    /// Returns the limit on the bytes of a JSON body.
    pub(super) fn max_body(&self, limits: &Limits) -> usize {
        // A longer body would hold room for as long as the model takes, and other calls of the account need
        // it.
        if self.asks_model() {
            return limits.max_body.min(body::SHORT);
        }
        if matches!(self.run, Run::Read(Length::Waiting, _)) {
            return SMALL_BODY;
        }
        // Batches contain the content of files.
        let takes_files = matches!((self.tree, &self.run), (Tree::Files, Run::Write(..)));
        match self.takes_messages() || takes_files {
            true => limits.max_message_body.max(limits.max_body),
            false => limits.max_body,
        }
    }

    /// Returns the method and the path: `POST /v1/put`.
    pub(super) fn name(&self) -> String {
        // The asterisk is for the router, and part of no address.
        format!("{} {}", self.method.as_str(), self.path.replace("{*", "{"))
    }
}
