//! What a rule demands, its terms as text, and how a file's content is checked for it.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::content_check::ContentCheck;
use super::json_check::JsonCheck;
use super::lines::{Lines, Place};
use super::schema::SchemaText;
use super::secrets::Secrets;
use crate::error::{Error, Result};

/// Largest file that is checked as a whole, 16 MiB: what a commit holds in memory for it.
pub const MAX_WHOLE: u64 = 16 << 20;

/// What is said of a file that is to grow.
pub(super) const APPEND_ONLY: &str = "is append-only: a rule lets it grow at its end and nothing else";

/// What is said of a symbolic link in the place of a file.
pub(super) const LINKED: &str =
    "is a symbolic link: the rule does not hold for what it leads to; write a file there";

/// Most keys that a read-only rule lets write.
const MAX_WRITERS: usize = 100;

/// What is demanded of the paths of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// A file has at most this many bytes.
    MaxSize(u64),
    /// A file's whole content is one JSON value, of at most [`MAX_WHOLE`].
    Json {
        /// By which it is valid.
        schema: Option<SchemaText>,
        /// Check by a function of the program, after that.
        check: Option<JsonCheck>,
    },
    /// Each line of a file is one JSON value, or blank.
    JsonLines {
        /// By which each is valid.
        schema: Option<SchemaText>,
        /// A field whose values differ in all lines that have it. The file is checked whole at each change
        /// then, and has at most [`MAX_WHOLE`].
        unique: Option<String>,
    },
    /// A file only grows at its end: it is not removed, replaced, cut, renamed, and does not expire.
    AppendOnly,
    /// Names and what they lead to stay as they are, but for commits that come with one of these keys.
    ReadOnly {
        /// Ids of keys.
        except: Vec<String>,
    },
    /// The same, but for commits that are not made in a session: an agent reads it.
    NotInSessions,
    /// Of a file that is a JSON object garth alone changes these fields, and makes, renames and removes it.
    OwnFields(Vec<String>),
    /// Search does not see the content.
    NotSearchable,
    /// What is done about text that looks like a secret, besides leaving it out of the index.
    Secrets(Policy),
}

/// What is done about text that looks like a secret. Without a rule it is marked where it would be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// No file has any.
    Refuse,
    /// It is shown as it is.
    Allow,
}

/// The terms of a demand as they are kept and shown.
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

impl Demand {
    /// Returns the demand of one JSON value by a schema that the program names itself.
    ///
    /// # Panics
    /// If `schema` is not a schema: a fault of the program.
    pub fn json(schema: &str) -> Self {
        let schema = SchemaText::parse(schema).expect("the program's own schemas are well formed");
        Self::Json { schema: Some(schema), check: None }
    }

    /// Returns the demand of one JSON value that a function of the program accepts. The flaw is in words.
    pub fn json_by(check: fn(&[u8]) -> std::result::Result<(), String>) -> Self {
        Self::Json { schema: None, check: Some(JsonCheck(check)) }
    }

    /// Returns the demand of lines of JSON by a schema that the program names itself.
    ///
    /// # Panics
    /// If `schema` is not a schema: a fault of the program.
    pub fn lines(schema: &str, unique: Option<&str>) -> Self {
        let schema = SchemaText::parse(schema).expect("the program's own schemas are well formed");
        Self::JsonLines { schema: Some(schema), unique: unique.map(str::to_owned) }
    }

    /// The names of demands.
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

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Json { .. } => "json",
            Self::JsonLines { .. } => "json-lines",
            Self::AppendOnly => "append-only",
            Self::ReadOnly { .. } => "read-only",
            Self::NotInSessions => "not-in-sessions",
            Self::OwnFields(_) => "own-fields",
            Self::MaxSize(_) => "max-size",
            Self::NotSearchable => "not-searchable",
            Self::Secrets(_) => "secrets",
        }
    }

    /// Its terms: a JSON object with `schema` of a `json` or `json-lines`, `unique`, a field, of the latter,
    /// `bytes` of a `max-size`, `except`, ids of keys, of a `read-only`, `fields` of `own-fields`, and
    /// `policy` of `secrets`.
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
            Self::JsonLines { schema: given, unique } => {
                Terms { schema: schema(given), unique: unique.clone(), ..Terms::default() }
            }
            Self::AppendOnly | Self::NotInSessions | Self::NotSearchable => Terms::default(),
        };
        // What is kept and hashed of a rule is this text: an empty one would make different rules the same.
        serde_json::to_string(&terms).expect("terms are numbers, texts and JSON, so they have a JSON form")
    }

    /// Reads a demand from its name and terms.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown name, and for terms that are malformed or of another demand.
    pub fn parse(name: &str, terms: &str) -> Result<Self> {
        let bad = |why: String| Error::invalid(format!("the terms of `{name}` {why}"));
        let Terms { bytes, schema, unique, except, mut policy, mut fields } =
            serde_json::from_str(terms).map_err(|error| bad(format!("cannot be read: {error}")))?;
        let (mut bytes, mut unique, mut except) =
            (bytes, unique, Some(except).filter(|keys| !keys.is_empty()));
        let mut schema = schema.map(|schema| SchemaText::parse(schema.get())).transpose()?;
        let demand = match name {
            "json" => Self::Json { schema: schema.take(), check: None },
            "json-lines" => Self::JsonLines { schema: schema.take(), unique: unique.take() },
            "append-only" => Self::AppendOnly,
            "read-only" => Self::ReadOnly { except: except.take().unwrap_or_default() },
            "not-in-sessions" => Self::NotInSessions,
            "own-fields" => Self::OwnFields(std::mem::take(&mut fields)),
            "max-size" => Self::MaxSize(bytes.take().ok_or_else(|| bad("lack `bytes`".to_owned()))?),
            "not-searchable" => Self::NotSearchable,
            "secrets" => Self::Secrets(policy.take().ok_or_else(|| bad("lack `policy`".to_owned()))?),
            _ => {
                let known = Self::NAMES.join(", ");
                return Err(Error::invalid(format!("`{name}` is no demand: it is one of {known}")));
            }
        };
        if demand.writers().is_some_and(|keys| keys.len() > MAX_WRITERS) {
            return Err(bad(format!("have more than {MAX_WRITERS} keys")));
        }
        if demand.writers().is_some_and(|keys| keys.iter().any(String::is_empty)) {
            return Err(bad("have a key without an id".to_owned()));
        }
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
            None => Ok(demand),
        }
    }

    /// Whether it is about what a commit does to a path, and not about what it leaves there.
    pub(super) fn is_about_change(&self) -> bool {
        matches!(self, Self::AppendOnly | Self::OwnFields(_)) || self.keeps_names()
    }

    /// Returns true if readers take the content of a file for what the demand says. Bounds and secrets are
    /// for classes of any files, links between them included.
    pub(super) fn is_about_content(&self) -> bool {
        matches!(self, Self::Json { .. } | Self::JsonLines { .. })
    }

    /// Whether names, and what they lead to, stay as they are.
    pub(super) fn keeps_names(&self) -> bool {
        matches!(self, Self::ReadOnly { .. } | Self::NotInSessions)
    }

    /// The keys that may write what is read-only.
    fn writers(&self) -> Option<&[String]> {
        match self {
            Self::ReadOnly { except } => Some(except),
            _ => None,
        }
    }

    /// Whether it is for the commits of a key, or of none, in a session of a class, or in none.
    pub(super) fn binds(&self, key: Option<&str>, class: Option<&str>) -> bool {
        match self {
            Self::ReadOnly { except } => !key.is_some_and(|key| except.iter().any(|known| known == key)),
            Self::NotInSessions => class.is_some(),
            _ => true,
        }
    }

    /// What is wrong about a file that will expire.
    pub(super) fn expiry_refused(&self, expires: bool) -> Option<String> {
        match self {
            Self::AppendOnly if expires => Some(format!("{APPEND_ONLY}; it would expire")),
            Self::OwnFields(_) if expires => Some("is garth's own; it would expire".to_owned()),
            _ => None,
        }
    }

    /// Whether what was checked of a file need not be checked again as long as it stays.
    pub(super) fn goes_on(&self) -> bool {
        matches!(self, Self::JsonLines { unique: None, .. } | Self::Secrets(Policy::Refuse))
    }

    /// Bytes before a place that are needed to go on from there.
    pub(super) fn looks_back(&self) -> u64 {
        match self {
            Self::Secrets(_) => Secrets::LOOKS_BACK,
            _ => 0,
        }
    }

    /// Begins to check the content of a file of this size from a place on. `None` if nothing is to be read.
    ///
    /// # Errors
    /// What is wrong about it, in words.
    pub(super) fn begin(&self, size: u64, from: Place) -> Result<Option<ContentCheck<'_>>, String> {
        match self {
            Self::MaxSize(most) if size > *most => {
                Err(format!("has to be of at most {most} bytes, as all files there; it would have {size}"))
            }
            Self::Json { .. } if size > MAX_WHOLE => Err(too_large("JSON", size)),
            Self::Json { schema, check } => {
                Ok(Some(ContentCheck::Whole { text: Vec::new(), schema: schema.as_ref(), check: *check }))
            }
            Self::JsonLines { unique: Some(_), .. } if size > MAX_WHOLE => Err(too_large("JSON Lines", size)),
            Self::JsonLines { schema, unique } => {
                let schema = schema.as_ref().map(SchemaText::schema);
                Ok(Some(ContentCheck::Lines(Lines::new(from, schema, unique.as_deref()))))
            }
            Self::Secrets(Policy::Refuse) => Ok(Some(ContentCheck::Secrets(Secrets::new(from)))),
            Self::MaxSize(_)
            | Self::AppendOnly
            | Self::ReadOnly { .. }
            | Self::NotInSessions
            | Self::OwnFields(_)
            | Self::NotSearchable
            | Self::Secrets(Policy::Allow) => Ok(None),
        }
    }
}

fn too_large(what: &str, size: u64) -> String {
    format!(
        "has to be {what}, as all files there, and of at most {MAX_WHOLE} bytes for that; it would have {size}"
    )
}
