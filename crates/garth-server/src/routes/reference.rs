//! Reference of the HTTP API, generated from the tables of routes and of codes, for readers and programs.

mod error_codes;

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

pub use self::error_codes::{ErrorReference, errors};
use super::route::{Method, Route, Run};
use super::table::routes;
use crate::fields::{Field, Kind};
use crate::limits::Limits;

/// Call of the HTTP API.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CallReference {
    /// Method: `GET`, `POST`, `PUT`, `PATCH` or `DELETE`. A call by `GET` accepts `HEAD`, too.
    pub method: &'static str,
    /// Path; arguments are in braces.
    pub path: &'static str,
    /// Summary, a sentence.
    pub summary: &'static str,
    /// Scopes that the API key must have, all of them. A call without scopes needs no key.
    pub scopes: Vec<&'static str>,
    /// True if the call changes what is stored.
    pub writes: bool,
    /// True if the call runs on the threads that compute, whatever its size.
    pub computes: bool,
    /// Body of a request.
    pub body: BodyReference,
    /// Limit on the bytes of a JSON body, by default.
    pub max_body: usize,
    /// Headers besides `Authorization`.
    pub headers: Vec<HeaderReference>,
    /// Fields of the body, if that is JSON, else of the query.
    pub fields: Vec<FieldReference>,
}

/// Kind of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum BodyReference {
    /// JSON object of fields.
    Json,
    /// Bytes as they are.
    Bytes,
    /// No body.
    None,
}

/// Header of a call.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct HeaderReference {
    /// Name, in lower case. A final `*` stands for any ending.
    pub name: &'static str,
    /// True if a request without it is refused.
    pub required: bool,
    /// Meaning, a sentence.
    pub meaning: &'static str,
}

/// Field of a call.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FieldReference {
    /// Name.
    pub name: &'static str,
    /// Type in JSON: `string`, `integer`, `number`, `boolean`, `array` or `object`; empty for any JSON.
    pub r#type: &'static str,
    /// Type of the items of an array: `string` or `object`; else empty.
    pub items: &'static str,
    /// Content of a string, of an object, or of each item of an array, such as `path`; empty for text. A
    /// `moment` may also be an integer, a sequence.
    pub of: &'static str,
    /// Words of which a string is one; empty for any string.
    pub words: Vec<&'static str>,
    /// Bounds of a number, of the characters of a string, or of the items of an array.
    pub bounds: Option<(Value, Value)>,
    /// True if a request without it is refused.
    pub required: bool,
    /// Default, if it is a value.
    pub default: Option<Value>,
    /// Meaning, a sentence or two.
    pub meaning: &'static str,
}

/// Returns every call, in the order of the table.
pub fn calls() -> Vec<CallReference> {
    routes().map(call).collect()
}

/// Returns the reference as a page of Markdown: `docs/specs/http-reference.md`.
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    error_codes::section(&mut page);
    page.push_str("\n## Calls\n");
    for call in calls() {
        section(&mut page, &call);
    }
    page
}

/// Length of a line of the page, in characters. Rows of tables are longer.
const COLUMNS: usize = 120;
const HEAD: &str = "\
# HTTP reference

Every call of the HTTP API with its fields, and every code of its errors, generated from the tables by which the server
parses requests and answers errors. Behaviour of the calls: [key-value API](kv-api.md), [memories](memories.md),
[memory tool](memory-tool.md), [sessions](sessions.md), [context](context.md), [workspaces](workspace-http.md), [recall](recall.md),
[keys](keys.md), [bytes of files](http-files.md), [files, call by call](http-tree.md), [batches](batch.md),
[administration](http-admin.md), [operators](operators.md). The calls in [OpenAPI](http-description.md), for programs.

A body is one JSON object, its fields in any order. A field that the call does not have, one that occurs twice, and
one of another type or beyond its bounds is refused with `VALIDATION_ERROR`. `null` is the same as leaving a field out,
unless its type is *any JSON*. A *moment* is a [point in time](tree.md#points-in-time); a sequence may be sent as a
string or as an integer. A body has at most 1 MiB, unless the call says otherwise; an operator may
[set](../configuration.md) other limits. Every call but those of
[operations](operations.md) needs an API key with all scopes that are named; see [scopes](http-scopes.md).

Not listed here, because their bodies and answers have other forms: `POST /mcp`, the [Model Context Protocol](mcp.md),
and the pages `GET /openapi.json` and `GET /docs`.
";

fn call(route: &Route) -> CallReference {
    let headers = route.headers.iter();
    let headers = headers.map(|header| HeaderReference {
        name: header.name,
        required: header.is_required,
        meaning: header.meaning,
    });
    CallReference {
        method: route.method.as_str(),
        path: route.path,
        summary: route.summary.trim(),
        scopes: route.scopes.iter().map(|scope| scope.as_str()).collect(),
        computes: route.computes(),
        writes: route.writes(),
        body: body_of(route),
        max_body: route.max_body(&Limits::default()),
        headers: headers.collect(),
        fields: route.field_groups().flatten().map(field).collect(),
    }
}

/// Returns the kind of the request body of a call.
pub(super) fn body_of(route: &Route) -> BodyReference {
    match (route.method, &route.run) {
        (_, Run::Read(..) | Run::Write(..) | Run::ReadControl(_) | Run::WriteControl(_)) => {
            BodyReference::Json
        }
        (Method::Delete, Run::Upload(_)) | (_, Run::Download(_) | Run::Keyless(..)) => BodyReference::None,
        (_, Run::Upload(_)) => BodyReference::Bytes,
    }
}

fn field(field: &Field) -> FieldReference {
    let (r#type, of, bounds) = match field.kind {
        Kind::Text { of, max: usize::MAX, .. } => ("string", of, None),
        Kind::Text { of, min, max } => ("string", of, Some((min.into(), max.into()))),
        Kind::Moment => ("string", "moment", None),
        Kind::Words(_) => ("string", "", None),
        Kind::Time { .. } => ("string", "time", None),
        Kind::Integer { min, max } => ("integer", "", Some((min.into(), max.into()))),
        Kind::Signed { min, max } => ("integer", "", Some((min.into(), max.into()))),
        Kind::Pair { .. } => ("array", "", Some((2.into(), 2.into()))),
        // Every finite number.
        Kind::Number { min, max } if min == f64::MIN && max == f64::MAX => ("number", "", None),
        Kind::Number { min, max } => ("number", "", Some((min.into(), max.into()))),
        Kind::Flag => ("boolean", "", None),
        Kind::Texts { of, max: usize::MAX } => ("array", of, None),
        Kind::Texts { of, max } => ("array", of, Some((0.into(), max.into()))),
        Kind::Array { of, max: usize::MAX } => ("array", of, None),
        Kind::Array { of, max } => ("array", of, Some((0.into(), max.into()))),
        Kind::Object { of, max: usize::MAX } => ("object", of, None),
        Kind::Object { of, max } => ("object", of, Some((0.into(), max.into()))),
        Kind::Json => ("", "", None),
    };
    let items = match field.kind {
        Kind::Texts { .. } => "string",
        Kind::Array { .. } => "object",
        Kind::Pair { .. } => "integer",
        _ => "",
    };
    let words = match field.kind {
        Kind::Words(words) => words.to_vec(),
        _ => Vec::new(),
    };
    FieldReference {
        name: field.name,
        r#type,
        items,
        of,
        words,
        bounds,
        required: field.is_required,
        default: field.default.map(|default| default()),
        meaning: field.meaning.trim(),
    }
}

/// Returns a text in lines of at most [`COLUMNS`] characters, if no word is longer.
fn wrapped(text: &str) -> String {
    let (mut lines, mut column) = (String::new(), 0);
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > 0 {
            let fits = column + 1 + length <= COLUMNS;
            lines.push(if fits { ' ' } else { '\n' });
            column = if fits { column + 1 } else { 0 };
        }
        lines.push_str(word);
        column += length;
    }
    lines
}

fn section(page: &mut String, call: &CallReference) {
    let scopes: Vec<String> = call.scopes.iter().map(|scope| format!("`{scope}`")).collect();
    let needs = match &*scopes {
        [] => "Needs no key.".to_owned(),
        [one] => format!("Needs the scope {one}."),
        all => format!("Needs the scopes {}.", all.join(" and ")),
    };
    // Writing to a `String` does not fail.
    let summary = wrapped(call.summary);
    let _ = write!(page, "\n### {} {}\n\n{summary}\n\n{needs}\n", call.method, call.path);
    if call.max_body > Limits::default().max_body {
        let _ = write!(page, "\nA body has at most {} MiB.\n", call.max_body >> 20);
    }
    if !call.headers.is_empty() {
        page.push_str("\n| header | required | meaning |\n|---|---|---|\n");
    }
    for HeaderReference { name, required, meaning } in &call.headers {
        let required = if *required { "yes" } else { "no" };
        let _ = writeln!(page, "| `{name}` | {required} | {meaning} |");
    }
    let place = if call.body == BodyReference::Json { "field" } else { "query" };
    if !call.fields.is_empty() {
        let _ = write!(page, "\n| {place} | type | default | meaning |\n|---|---|---|---|\n");
    }
    for field in &call.fields {
        // The meaning of an `Option` ends with its default.
        let (meaning, absent) = match field.meaning.split_once(" Default: ") {
            Some((meaning, absent)) => (meaning, absent.trim_end_matches('.')),
            None => (field.meaning, "none"),
        };
        let default = match &field.default {
            _ if field.required => "required".to_owned(),
            Some(default) => format!("`{default}`"),
            None => absent.to_owned(),
        };
        let _ = writeln!(page, "| `{}` | {} | {default} | {meaning} |", field.name, shown(field));
    }
}

/// Returns the type of a field with its bounds.
fn shown(field: &FieldReference) -> String {
    if !field.words.is_empty() {
        return format!("`\"{}\"`", field.words.join("\"`, `\""));
    }
    let of = if field.of.is_empty() { String::new() } else { format!(" ({})", field.of) };
    match (field.r#type, &field.bounds) {
        ("", _) => "any JSON".to_owned(),
        ("string", None) if field.of == "moment" => "string or integer (moment)".to_owned(),
        ("string", Some((min, max))) => format!("string of {min} to {max} characters"),
        ("object", Some((_, max))) => format!("object of at most {max} names{of}"),
        ("array", Some((min, max))) if min == max => format!("array of {max} {}s{of}", field.items),
        ("array", Some((_, max))) => format!("array of at most {max} {}s{of}", field.items),
        ("array", None) => format!("array of {}s{of}", field.items),
        (name, Some((min, max))) => format!("{name}, {min} to {max}"),
        (name, None) => format!("{name}{of}"),
    }
}

#[cfg(test)]
mod tests;
