//! Constraints of rules: their terms as text, and the check of a file's content.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::content_check::ContentCheck;
use super::json_check::JsonCheck;
use super::lines::{Lines, Place};
use super::schema::SchemaText;
use super::secrets::Secrets;
use crate::error::{Advice, Error, Result};
use crate::model::json_flaw;

/// Largest file that is checked as a whole, 16 MiB: a commit holds it in memory.
pub const MAX_WHOLE: u64 = 16 << 20;

/// Reason for refusing a change of a path in a session.
pub(super) const NOT_IN_SESSIONS: &str = "cannot be written in a session";

/// Advice for a change that is refused in a session.
const OTHER_CALLER: &str = "use a caller outside of sessions, such as an API key that is bound to nothing";

/// Reason for refusing a change of an append-only file.
pub(super) const APPEND_ONLY_REFUSED: &str = "is append-only: a rule only lets it grow at its end";

/// Reason for refusing a symbolic link in place of a file.
pub(super) const SYMLINK_REFUSED: &str =
    "is a symbolic link: the rule does not apply to its target; write a file there";

/// Limit on the keys that a read-only rule lets write.
const MAX_WRITERS: usize = 100;

/// Constraint on the paths of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Constraint {
    /// A file has at most this many bytes.
    MaxSize(u64),
    /// The complete content of a file is one JSON value, of at most [`MAX_WHOLE`] bytes.
    Json {
        /// Schema of the value.
        schema: Option<SchemaText>,
        /// Check by a function of the program, after the schema.
        check: Option<JsonCheck>,
    },
    /// Each line of a file is one JSON value, or blank.
    JsonLines {
        /// Schema of each line.
        schema: Option<SchemaText>,
        /// Field whose values differ in all lines that have it. With it, the complete file is checked at each
        /// change, and has at most [`MAX_WHOLE`] bytes.
        unique: Option<String>,
        /// Check of each line by a function of the program, after the schema.
        check: Option<JsonCheck>,
    },
    /// A file only grows at its end: it is not removed, replaced, cut or renamed, and does not expire.
    AppendOnly,
    /// Names, and the nodes that they lead to, stay as they are, except for commits with one of these keys.
    ReadOnly {
        /// Ids of keys.
        except: Vec<String>,
    },
    /// Names, and the nodes that they lead to, stay as they are for commits of a session: agents only read
    /// them.
    NotInSessions,
    /// The file is a JSON object in which only garth changes these fields. Only garth creates, renames and
    /// removes it.
    OwnFields(Vec<String>),
    /// Only garth appends lines that this function of the program refuses. Rules of the program alone have
    /// this constraint, because a function cannot be stored. The text is advice: the command or call that
    /// appends them.
    OwnLines(JsonCheck, &'static str),
    /// Search does not see the content.
    NotSearchable,
    /// Treatment of text that looks like a secret, in addition to leaving it out of the index.
    Secrets(Policy),
}

/// Treatment of text that looks like a secret. Without a rule it is marked where it would be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Refuses commits after which a file contains such text.
    Refuse,
    /// Shows the text unmasked.
    Allow,
}

/// Terms of a constraint, as they are stored and shown.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Terms {
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unique: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    except: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<Policy>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fields: Vec<String>,
}

impl Constraint {
    /// Returns the constraint of one JSON value with a schema of the program itself.
    ///
    /// # Panics
    /// If `schema` is malformed, which is a bug of the program.
    pub fn json(schema: &str) -> Self {
        let schema = SchemaText::parse(schema).expect("the program's own schemas are well formed");
        Self::Json { schema: Some(schema), check: None }
    }

    /// Returns the constraint of one JSON value that a function of the program accepts. The function returns
    /// the flaw in words.
    pub fn json_by(check: fn(&[u8]) -> std::result::Result<(), String>) -> Self {
        Self::Json { schema: None, check: Some(JsonCheck(check)) }
    }

    /// Returns the constraint of JSON lines with a schema of the program itself.
    ///
    /// # Panics
    /// If `schema` is malformed, which is a bug of the program.
    pub fn lines(schema: &str, unique: Option<&str>) -> Self {
        let schema = SchemaText::parse(schema).expect("the program's own schemas are well formed");
        Self::JsonLines { schema: Some(schema), unique: unique.map(str::to_owned), check: None }
    }

    /// Returns the constraint of JSON lines with a schema of the program itself, each of which a function of
    /// the program accepts as well. The function returns the flaw in words.
    ///
    /// # Panics
    /// If `schema` is malformed, which is a bug of the program.
    pub fn lines_by(schema: &str, check: fn(&[u8]) -> std::result::Result<(), String>) -> Self {
        let schema = SchemaText::parse(schema).expect("the program's own schemas are well formed");
        Self::JsonLines { schema: Some(schema), unique: None, check: Some(JsonCheck(check)) }
    }

    /// Returns the constraint that only garth appends lines that a function of the program refuses. The
    /// function returns the reason in words; `advice` names the command or call that appends such a line.
    pub fn own_lines(check: fn(&[u8]) -> std::result::Result<(), String>, advice: &'static str) -> Self {
        Self::OwnLines(JsonCheck(check), advice)
    }

    /// Names of all constraints that can be set.
    pub const NAMES: [&str; 9] = [
        "json",
        "json-lines",
        "append-only",
        "read-only",
        "not-in-sessions",
        "own-fields",
        "max-size",
        "not-searchable",
        "secrets",
    ];

    /// Returns the name of the constraint.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Json { .. } => "json",
            Self::JsonLines { .. } => "json-lines",
            Self::AppendOnly => "append-only",
            Self::ReadOnly { .. } => "read-only",
            Self::NotInSessions => "not-in-sessions",
            Self::OwnFields(_) => "own-fields",
            Self::OwnLines(..) => "own-lines",
            Self::MaxSize(_) => "max-size",
            Self::NotSearchable => "not-searchable",
            Self::Secrets(_) => "secrets",
        }
    }

    /// Returns the terms, a JSON object: `schema` of `json` and `json-lines`, `unique` (a field) of
    /// `json-lines`, `bytes` of `max-size`, `except` (ids of keys) of `read-only`, `fields` of `own-fields`,
    /// and `policy` of `secrets`.
    pub fn terms(&self) -> String {
        let schema = |given: &Option<SchemaText>| {
            given.as_ref().and_then(|given| RawValue::from_string(given.as_str().to_owned()).ok())
        };
        let terms = match self {
            Self::MaxSize(bytes) => Terms { bytes: Some(*bytes), ..Terms::default() },
            Self::OwnFields(fields) => Terms { fields: fields.clone(), ..Terms::default() },
            Self::Secrets(policy) => Terms { policy: Some(*policy), ..Terms::default() },
            Self::ReadOnly { except } => Terms { except: except.clone(), ..Terms::default() },
            Self::Json { schema: given, .. } => Terms { schema: schema(given), ..Terms::default() },
            Self::JsonLines { schema: given, unique, .. } => {
                Terms { schema: schema(given), unique: unique.clone(), ..Terms::default() }
            }
            Self::AppendOnly | Self::OwnLines(..) | Self::NotInSessions | Self::NotSearchable => {
                Terms::default()
            }
        };
        // This text is what is stored and hashed of a rule: an empty one would make different rules equal.
        serde_json::to_string(&terms).expect("terms are numbers, texts and JSON, so they have a JSON form")
    }

    /// Parses a constraint from its name and terms.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown name, and for terms that are malformed or belong to another
    /// constraint.
    pub fn parse(name: &str, terms: &str) -> Result<Self> {
        let bad = |why: String| Error::invalid(format!("the terms of `{name}` {why}"));
        let read = |terms: &str| serde_json::from_str::<Terms>(terms);
        let Terms { bytes, schema, unique, except, mut policy, mut fields } =
            read(terms).map_err(|error| {
                let flaw = json_flaw("", terms, &error, &|terms: &str| read(terms).err());
                bad(format!("cannot be read: {flaw}"))
            })?;
        let (mut bytes, mut unique, mut except) =
            (bytes, unique, Some(except).filter(|keys| !keys.is_empty()));
        let mut schema = schema.map(|schema| SchemaText::parse(schema.get())).transpose()?;
        let constraint = match name {
            // A function cannot be stored, so only rules of the program have a check.
            "json" => Self::Json { schema: schema.take(), check: None },
            "json-lines" => Self::JsonLines { schema: schema.take(), unique: unique.take(), check: None },
            "append-only" => Self::AppendOnly,
            "read-only" => Self::ReadOnly { except: except.take().unwrap_or_default() },
            "not-in-sessions" => Self::NotInSessions,
            "own-fields" => Self::OwnFields(std::mem::take(&mut fields)),
            "max-size" => Self::MaxSize(bytes.take().ok_or_else(|| bad("lack `bytes`".to_owned()))?),
            "not-searchable" => Self::NotSearchable,
            "secrets" => Self::Secrets(policy.take().ok_or_else(|| bad("lack `policy`".to_owned()))?),
            _ => {
                let known = Self::NAMES.join(", ");
                return Err(Error::invalid(format!("`{name}` is not a constraint; use one of {known}")));
            }
        };
        if constraint.writers().is_some_and(|keys| keys.len() > MAX_WRITERS) {
            return Err(bad(format!("have more than {MAX_WRITERS} keys")));
        }
        if constraint.writers().is_some_and(|keys| keys.iter().any(String::is_empty)) {
            return Err(bad("have a key without an id".to_owned()));
        }
        // A term that the constraint has not taken belongs to another one. It must not be ignored in silence.
        let left = [
            ("bytes", bytes.is_some()),
            ("schema", schema.is_some()),
            ("unique", unique.is_some()),
            ("except", except.is_some()),
            ("policy", policy.is_some()),
            ("fields", !fields.is_empty()),
        ];
        match left.into_iter().find(|(_, left)| *left) {
            Some((term, _)) => Err(bad(format!("have no `{term}`; leave it out"))),
            None => Ok(constraint),
        }
    }

    /// Returns true if the constraint is about the change that a commit makes at a path, not about the state
    /// that it leaves.
    pub(super) fn is_about_change(&self) -> bool {
        matches!(self, Self::AppendOnly | Self::OwnFields(_) | Self::OwnLines(..)) || self.keeps_names()
    }

    /// Returns true if readers rely on the content to be as the constraint says. Bounds and secrets are for
    /// patterns of any files, links between them included.
    pub(super) fn is_about_content(&self) -> bool {
        matches!(self, Self::Json { .. } | Self::JsonLines { .. })
    }

    /// Returns true if names, and the nodes that they lead to, must stay as they are.
    pub(super) fn keeps_names(&self) -> bool {
        matches!(self, Self::ReadOnly { .. } | Self::NotInSessions)
    }

    /// Returns the keys that may write a read-only path.
    fn writers(&self) -> Option<&[String]> {
        match self {
            Self::ReadOnly { except } => Some(except),
            _ => None,
        }
    }

    /// Returns true if the constraint applies to commits of a key, or of none, in a session of a class, or in
    /// none.
    pub(super) fn binds(&self, key: Option<&str>, class: Option<&str>) -> bool {
        match self {
            Self::ReadOnly { except } => !key.is_some_and(|key| except.iter().any(|known| known == key)),
            Self::NotInSessions => class.is_some(),
            _ => true,
        }
    }

    /// Adds what to do to the error of a violation.
    pub(super) fn advised(&self, error: Error) -> Error {
        match self {
            Self::NotInSessions => error.advising(Advice::OtherCaller, OTHER_CALLER),
            Self::OwnLines(_, advice) => error.advising(Advice::Command, advice),
            _ => error,
        }
    }

    /// Returns the violation by a file that will expire.
    pub(super) fn expiry_refused(&self, expires: bool) -> Option<String> {
        match self {
            Self::AppendOnly if expires => Some(format!("{APPEND_ONLY_REFUSED}; it would expire")),
            Self::OwnFields(_) if expires => Some("is garth's own; it would expire".to_owned()),
            _ => None,
        }
    }

    /// Returns true if the checked part of a file need not be checked again while it stays.
    pub(super) fn resumes_after_append(&self) -> bool {
        // A unique field is compared with that of all other lines, so the complete file is read.
        matches!(self, Self::JsonLines { unique: None, .. } | Self::Secrets(Policy::Refuse))
    }

    /// Returns the number of bytes before a place that are needed to continue from there.
    pub(super) fn looks_back(&self) -> u64 {
        match self {
            Self::Secrets(_) => Secrets::LOOKS_BACK,
            _ => 0,
        }
    }

    /// Starts the check of a file of `size` bytes from a place. `None` if its content need not be read.
    ///
    /// # Errors
    /// The flaw, in words.
    pub(super) fn begin(&self, size: u64, from: Place) -> Result<Option<ContentCheck<'_>>, String> {
        match self {
            Self::MaxSize(most) if size > *most => {
                Err(format!("may have at most {most} bytes by a rule; it would have {size}"))
            }
            Self::Json { .. } if size > MAX_WHOLE => Err(too_large("JSON", size)),
            Self::Json { schema, check } => {
                Ok(Some(ContentCheck::Whole { text: Vec::new(), schema: schema.as_ref(), check: *check }))
            }
            Self::JsonLines { unique: Some(_), .. } if size > MAX_WHOLE => Err(too_large("JSON Lines", size)),
            Self::JsonLines { schema, unique, check } => {
                let schema = schema.as_ref().map(SchemaText::schema);
                let lines = Lines::new(from, schema, unique.as_deref()).checked_by(*check);
                Ok(Some(ContentCheck::Lines(lines)))
            }
            Self::Secrets(Policy::Refuse) => Ok(Some(ContentCheck::Secrets(Secrets::new(from)))),
            Self::MaxSize(_)
            | Self::AppendOnly
            | Self::ReadOnly { .. }
            | Self::NotInSessions
            | Self::OwnFields(_)
            | Self::OwnLines(..)
            // No content to read: the size was enough, the change is judged (`Judging::change`), or search
            // asks the rule.
            | Self::NotSearchable
            | Self::Secrets(Policy::Allow) => Ok(None),
        }
    }
}

fn too_large(what: &str, size: u64) -> String {
    format!("must be {what} by a rule, and so have at most {MAX_WHOLE} bytes; it would have {size}")
}
