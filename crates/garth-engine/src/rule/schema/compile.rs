//! Compiles schemas. Each keyword is checked or refused: an ignored one, such as a misspelt one or one of
//! another draft, would silently accept every value.

use std::collections::HashMap;

use super::budget::weight;
use super::format::Format;
use super::json_position::{JsonPosition, Part};
use super::keyword::{Bound, Counted, Id, Keyword, Properties, Types, Values};
use super::pattern::Pattern;
use crate::error::{Error, Result};
use crate::rule::json::{Number, Value, cut, quoted};

/// Limit on the patterns in a schema: each takes memory of its own.
const MAX_PATTERNS: usize = 64;

/// Limit on the sizes of all patterns, as [`Pattern::size`] counts: building that much takes about a second.
const MAX_TABLES: usize = 2 << 20;

/// Limit on the schemas in a schema.
const MAX_NODES: usize = 4096;

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Keywords that check a value, in the order in which they are applied: cheap ones with clear messages come
/// first.
const JUDGED: [&str; 35] = [
    "type",
    "const",
    "enum",
    "required",
    "dependentRequired",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "maxBytes",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "pattern",
    "format",
    "uniqueItems",
    "propertyNames",
    "properties",
    "patternProperties",
    "additionalProperties",
    "prefixItems",
    "items",
    "contains",
    "dependentSchemas",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "$ref",
    "$defs",
];

/// Keywords that are parts of other ones.
const PARTS: [(&str, &str); 4] =
    [("minContains", "contains"), ("maxContains", "contains"), ("then", "if"), ("else", "if")];

/// Annotations for readers, which check nothing.
const SAID: [&str; 8] =
    ["title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment"];

/// Compiles a schema and all schemas in it, itself first.
pub(super) fn nodes(schema: &Value) -> Result<Vec<Vec<Keyword>>> {
    let mut compiler = Compiler::default();
    compiler.schema(schema)?;
    compiler.refer(schema)?;
    compiler.end_everywhere()?;
    Ok(compiler.nodes)
}

#[derive(Default)]
struct Compiler<'a> {
    nodes: Vec<Vec<Keyword>>,
    /// Schemas by the addresses of their values in memory: any path to a value leads to its schema.
    places: HashMap<*const Value, Id>,
    /// Schema and index of each keyword `$ref`, and its target.
    references: Vec<(Id, usize, &'a str)>,
    patterns: usize,
    /// Size of the patterns so far.
    tables: usize,
    /// Position in the schema.
    way: JsonPosition<'a>,
}

impl<'a> Compiler<'a> {
    fn refused(&self, what: impl std::fmt::Display) -> Error {
        match self.way.to_string().as_str() {
            "" => Error::invalid(format!("in the schema: {what}")),
            at => Error::invalid(format!("in the schema at {at}: {what}")),
        }
    }

    fn schema(&mut self, schema: &'a Value) -> Result<Id> {
        let id = self.nodes.len();
        if id == MAX_NODES {
            return Err(self.refused(format!("more than {MAX_NODES} schemas; use fewer")));
        }
        // Its place is taken before the schemas in it are compiled, so that the outermost schema has index 0.
        self.nodes.push(Vec::new());
        self.places.insert(std::ptr::from_ref(schema), id);
        let entries = match schema {
            Value::Bool(true) => return Ok(id),
            Value::Bool(false) => {
                self.nodes[id].push(Keyword::Never);
                return Ok(id);
            }
            Value::Object(entries) => entries,
            _ => return Err(self.refused("a schema is an object, `true` or `false`")),
        };
        for (name, value) in entries {
            self.known(id, name, value, schema)?;
        }
        // In this order, whatever the order in the text is.
        for name in JUDGED {
            let Some((name, value)) = entry(entries, name) else { continue };
            self.way.0.push(Part::Key(name));
            let keyword = self.keyword(id, name, value, schema)?;
            self.nodes[id].extend(keyword);
            self.way.0.pop();
        }
        let nodes = &mut self.nodes[id];
        nodes.shrink_to_fit();
        Ok(id)
    }

    /// Refuses a keyword that is neither checked nor an annotation.
    fn known(&self, id: Id, name: &str, value: &Value, schema: &Value) -> Result<()> {
        let part_of = PARTS.iter().find(|(part, _)| *part == name);
        if let Some((part, of)) = part_of {
            return match schema.get(of) {
                Some(_) => Ok(()),
                None => Err(self.refused(format!("`{part}` without `{of}` judges nothing"))),
            };
        }
        let is_draft = |text: &str| text.strip_suffix('#').unwrap_or(text) == DRAFT;
        match (name, value) {
            ("$schema", Value::String(text)) if id == 0 && is_draft(text) => Ok(()),
            ("$schema", _) => Err(self.refused(format!("`$schema` can only be {DRAFT}, at the top"))),
            // A name for readers: references are only resolved inside of the schema.
            ("$id", Value::String(_)) if id == 0 => Ok(()),
            ("$id", _) => Err(self.refused("`$id` can only be a string at the top, where it is a name")),
            _ if JUDGED.contains(&name) || SAID.contains(&name) || name.starts_with("x-") => Ok(()),
            ("unevaluatedProperties" | "unevaluatedItems", _) => {
                Err(self.refused(format!("`{name}` is not supported; say what is allowed in one schema")))
            }
            ("definitions", _) => Err(self.refused("`definitions` is of an older draft; use `$defs`")),
            ("dependencies", _) => Err(self.refused(
                "`dependencies` is of an older draft; use `dependentRequired` or `dependentSchemas`",
            )),
            _ => Err(self.refused(format!(
                "{} is not a supported keyword; keywords for readers begin with `x-`",
                quoted(name)
            ))),
        }
    }

    /// Compiles a keyword. Returns `None` for one that checks nothing by itself, or that is part of another
    /// keyword.
    fn keyword(
        &mut self,
        id: Id,
        name: &'a str,
        value: &'a Value,
        schema: &'a Value,
    ) -> Result<Option<Keyword>> {
        Ok(Some(match name {
            "type" => Keyword::Type(self.types(value)?),
            "const" => Keyword::Values(values(std::slice::from_ref(value))),
            "enum" => Keyword::Values(values(self.array(value)?)),
            "required" => Keyword::Required(self.names(value)?),
            "dependentRequired" => Keyword::DependentRequired(self.each_key(value, Self::names)?),
            "minimum" => Keyword::Number(Bound::Least, self.number(value)?),
            "maximum" => Keyword::Number(Bound::Most, self.number(value)?),
            "exclusiveMinimum" => Keyword::Number(Bound::Above, self.number(value)?),
            "exclusiveMaximum" => Keyword::Number(Bound::Below, self.number(value)?),
            "multipleOf" => Keyword::MultipleOf(self.divisor(value)?),
            "maxBytes" => Keyword::Count(Counted::Bytes, Bound::Most, self.count(value)?),
            "minLength" => Keyword::Count(Counted::Characters, Bound::Least, self.count(value)?),
            "maxLength" => Keyword::Count(Counted::Characters, Bound::Most, self.count(value)?),
            "minItems" => Keyword::Count(Counted::Items, Bound::Least, self.count(value)?),
            "maxItems" => Keyword::Count(Counted::Items, Bound::Most, self.count(value)?),
            "minProperties" => Keyword::Count(Counted::Properties, Bound::Least, self.count(value)?),
            "maxProperties" => Keyword::Count(Counted::Properties, Bound::Most, self.count(value)?),
            "pattern" => Keyword::Pattern(self.pattern(self.string(value)?)?),
            "format" => Keyword::Format(self.format(value)?),
            "uniqueItems" => match value {
                Value::Bool(true) => Keyword::UniqueItems,
                Value::Bool(false) => return Ok(None),
                _ => return Err(self.refused("has to be `true` or `false`")),
            },
            "properties" | "patternProperties" | "additionalProperties" => {
                return self.properties(id, name, value);
            }
            "prefixItems" | "items" => return self.items(id, name, value),
            "contains" => self.contains(value, schema)?,
            "propertyNames" => Keyword::PropertyNames(self.schema(value)?),
            "dependentSchemas" => Keyword::DependentSchemas(self.each_key(value, Self::schema)?),
            "allOf" => Keyword::AllOf(self.schemas(value)?),
            "anyOf" => Keyword::AnyOf(self.schemas(value)?),
            "oneOf" => Keyword::OneOf(self.schemas(value)?),
            "not" => Keyword::Not(self.schema(value)?),
            "if" => Keyword::If {
                schema: self.schema(value)?,
                then: self.beside(schema, "then")?,
                otherwise: self.beside(schema, "else")?,
            },
            "$ref" => {
                // The target may not have been compiled yet: `refer` sets it at the end.
                self.references.push((id, self.nodes[id].len(), self.string(value)?));
                Keyword::Ref(id)
            }
            // `$defs`: its schemas check nothing unless a `$ref` leads to them.
            _ => {
                self.each_key(value, Self::schema)?;
                return Ok(None);
            }
        }))
    }

    /// Compiles a keyword on the entries of objects. All of them share one [`Keyword`].
    fn properties(&mut self, id: Id, name: &str, value: &'a Value) -> Result<Option<Keyword>> {
        let (mut named, mut matching, mut others) = (Vec::new(), Vec::new(), None);
        match name {
            "properties" => named = self.each_key(value, Self::schema)?,
            "patternProperties" => {
                for (pattern, schema) in self.each_key(value, Self::schema)? {
                    matching.push((self.pattern(&pattern)?, schema));
                }
            }
            _ => others = Some(self.schema(value)?),
        }
        // The three keywords follow each other in `JUDGED`, so the last one compiled is theirs.
        if let Some(Keyword::Properties(all)) = self.nodes[id].last_mut() {
            all.named.append(&mut named);
            all.matching.append(&mut matching);
            all.others = others;
            return Ok(None);
        }
        Ok(Some(Keyword::Properties(Properties { named, matching, others })))
    }

    /// Compiles a keyword on the items of arrays. Both of them share one [`Keyword`].
    fn items(&mut self, id: Id, name: &str, value: &'a Value) -> Result<Option<Keyword>> {
        if name == "prefixItems" {
            return Ok(Some(Keyword::Items(self.schemas(value)?, None)));
        }
        let each = self.schema(value)?;
        // As for `properties`: `prefixItems` comes directly before `items`.
        if let Some(Keyword::Items(_, others)) = self.nodes[id].last_mut() {
            *others = Some(each);
            return Ok(None);
        }
        Ok(Some(Keyword::Items(Vec::new(), Some(each))))
    }

    fn contains(&mut self, value: &'a Value, schema: &'a Value) -> Result<Keyword> {
        let least = schema.get("minContains").map(|value| self.count(value)).transpose()?;
        let most = schema.get("maxContains").map(|value| self.count(value)).transpose()?;
        let (least, most) = (least.unwrap_or(1), most.unwrap_or(u64::MAX));
        Ok(Keyword::Contains { schema: self.schema(value)?, least, most })
    }

    /// Compiles a schema that is next to another one in an object.
    fn beside(&mut self, object: &'a Value, name: &'static str) -> Result<Option<Id>> {
        let Some(value) = object.get(name) else { return Ok(None) };
        // `way` ends with `if`. Errors in this schema must name its own key.
        let last = self.way.0.pop();
        self.way.0.push(Part::Key(name));
        let schema = self.schema(value)?;
        self.way.0.pop();
        self.way.0.extend(last);
        Ok(Some(schema))
    }

    fn schemas(&mut self, value: &'a Value) -> Result<Vec<Id>> {
        let items = self.array(value)?;
        if items.is_empty() {
            return Err(self.refused("needs at least one schema"));
        }
        let mut all = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            self.way.0.push(Part::Index(index));
            all.push(self.schema(item)?);
            self.way.0.pop();
        }
        Ok(all)
    }

    /// Reads the value under each key of an object. The keys stay in their order.
    fn each_key<T>(
        &mut self,
        value: &'a Value,
        mut read: impl FnMut(&mut Self, &'a Value) -> Result<T>,
    ) -> Result<Vec<(Box<str>, T)>> {
        let Value::Object(entries) = value else { return Err(self.refused("has to be an object")) };
        let mut all = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            self.way.0.push(Part::Key(key));
            all.push((key.clone(), read(self, value)?));
            self.way.0.pop();
        }
        Ok(all)
    }

    fn array(&self, value: &'a Value) -> Result<&'a [Value]> {
        match value {
            Value::Array(items) => Ok(items),
            _ => Err(self.refused("has to be an array")),
        }
    }

    fn string(&self, value: &'a Value) -> Result<&'a str> {
        match value {
            Value::String(string) => Ok(string),
            _ => Err(self.refused("has to be a string")),
        }
    }

    fn names(&mut self, value: &'a Value) -> Result<Vec<Box<str>>> {
        self.array(value)?.iter().map(|name| self.string(name).map(Box::from)).collect()
    }

    fn types(&self, value: &'a Value) -> Result<Types> {
        let names = match value {
            Value::Array(names) if !names.is_empty() => names,
            _ => std::slice::from_ref(value),
        };
        names.iter().try_fold(Types::default(), |types, name| {
            let known = self.string(name).ok().and_then(|name| types.with(name));
            known.ok_or_else(|| {
                let all = Types::NAMES.join("`, `");
                self.refused(format!("{} is no type; there are `{all}`", name.quoted()))
            })
        })
    }

    fn number(&self, value: &Value) -> Result<Number> {
        match value {
            Value::Number(number) => Ok(*number),
            _ => Err(self.refused("has to be a number")),
        }
    }

    fn divisor(&self, value: &Value) -> Result<i128> {
        match self.number(value)?.whole() {
            Some(number) if number > 0 => Ok(number),
            _ => Err(self
                .refused("has to be an integer above 0: readers disagree whether fractions are multiples")),
        }
    }

    fn count(&self, value: &Value) -> Result<u64> {
        let count = self.number(value).ok().and_then(Number::whole).map(u64::try_from);
        count.and_then(Result::ok).ok_or_else(|| self.refused("has to be an integer, 0 or more"))
    }

    fn format(&self, value: &'a Value) -> Result<Format> {
        let name = self.string(value)?;
        Format::named(name).ok_or_else(|| {
            let (name, all) = (quoted(name), Format::names());
            self.refused(format!("{name} is no format that is judged; use one of {all}, or `pattern`"))
        })
    }

    fn pattern(&mut self, text: &str) -> Result<Pattern> {
        self.patterns += 1;
        if self.patterns > MAX_PATTERNS {
            return Err(self.refused(format!("more than {MAX_PATTERNS} patterns; use fewer")));
        }
        let pattern = Pattern::parse(text)
            .map_err(|why| self.refused(format!("the pattern {} {why}", quoted(text))))?;
        self.tables += pattern.size();
        if self.tables > MAX_TABLES {
            return Err(
                self.refused("the patterns so far need too large tables of states; use fewer repetitions")
            );
        }
        Ok(pattern)
    }

    /// Resolves the references.
    fn refer(&mut self, root: &'a Value) -> Result<()> {
        for (id, at, text) in std::mem::take(&mut self.references) {
            let Some(pointer) = text.strip_prefix('#') else {
                return Err(Error::invalid(format!(
                    "the schema refers to {}, and nothing outside a schema is looked up; put it into \
                     `$defs` and refer to `#/$defs/…`",
                    quoted(text)
                )));
            };
            let place = follow(root, pointer).and_then(|value| self.places.get(&std::ptr::from_ref(value)));
            let Some(target) = place else {
                return Err(Error::invalid(format!(
                    "the schema refers to {}, where it has no schema",
                    quoted(text)
                )));
            };
            self.nodes[id][at] = Keyword::Ref(*target);
        }
        Ok(())
    }

    /// Refuses schemas that apply themselves to the same value endlessly. Repeatedly removes the schemas that
    /// apply no remaining one: if some are left, they contain a cycle.
    fn end_everywhere(&self) -> Result<()> {
        let mut appliers = vec![Vec::new(); self.nodes.len()];
        let mut applies: Vec<usize> = Vec::with_capacity(self.nodes.len());
        for (id, node) in self.nodes.iter().enumerate() {
            let applied: Vec<Id> = node.iter().flat_map(in_place).collect();
            applies.push(applied.len());
            applied.into_iter().for_each(|applied| appliers[applied].push(id));
        }
        let mut ended: Vec<Id> = (0..applies.len()).filter(|id| applies[*id] == 0).collect();
        let mut left = applies.len();
        while let Some(id) = ended.pop() {
            left -= 1;
            for applier in &appliers[id] {
                applies[*applier] -= 1;
                if applies[*applier] == 0 {
                    ended.push(*applier);
                }
            }
        }
        match left {
            0 => Ok(()),
            _ => Err(Error::invalid(
                "the schema applies itself to the same value endlessly; refer to it from `properties` or \
                 `items`",
            )),
        }
    }
}

/// Returns the schemas that a keyword applies to the value itself rather than to a part of it.
fn in_place(keyword: &Keyword) -> Vec<Id> {
    match keyword {
        Keyword::AllOf(all) | Keyword::AnyOf(all) | Keyword::OneOf(all) => all.clone(),
        Keyword::Not(one) | Keyword::Ref(one) => vec![*one],
        Keyword::If { schema, then, otherwise } => {
            [Some(*schema), *then, *otherwise].into_iter().flatten().collect()
        }
        Keyword::DependentSchemas(all) => all.iter().map(|(_, schema)| *schema).collect(),
        // All others apply their schemas to parts of the value, which become smaller and so come to an end.
        _ => Vec::new(),
    }
}

fn entry<'a>(entries: &'a [(Box<str>, Value)], name: &str) -> Option<(&'a str, &'a Value)> {
    let found = entries.binary_search_by(|(key, _)| (**key).cmp(name)).ok()?;
    Some((&entries[found].0, &entries[found].1))
}

/// Returns the value that a JSON pointer in a fragment leads to.
fn follow<'a>(root: &'a Value, fragment: &str) -> Option<&'a Value> {
    let pointer = unescaped(fragment)?;
    let mut here = root;
    let mut parts = pointer.split('/');
    parts.next().filter(|before| before.is_empty())?;
    for part in parts {
        // In this order, because `~01` stands for `~1`.
        let part = part.replace("~1", "/").replace("~0", "~");
        here = match here {
            Value::Array(items) => items.get(part.parse::<usize>().ok()?)?,
            _ => here.get(&part)?,
        };
    }
    Some(here)
}

/// Returns a fragment without the escapes of URIs.
fn unescaped(fragment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let [first, after @ ..] = rest {
        let (byte, after) = match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                let digit = |byte: u8| (byte as char).to_digit(16);
                (u8::try_from(digit(*high)? << 4 | digit(*low)?).ok()?, after)
            }
            (b'%', _) => return None,
            _ => (*first, after),
        };
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

fn values(all: &[Value]) -> Values {
    let mut sorted = all.to_vec();
    sorted.sort();
    sorted.dedup();
    let heaviest = sorted.iter().map(weight).max().unwrap_or(1);
    // A binary search, of which each comparison may go through the heaviest value.
    let steps = heaviest * (1 + u64::from(sorted.len().checked_ilog2().unwrap_or(0)));
    // In the order of the schema, for messages.
    let first: Vec<String> = all.iter().take(8).map(Value::quoted).collect();
    let more = if all.len() > first.len() { ", …" } else { "" };
    Values { sorted, said: cut(first.join(", ") + more, 160), steps }
}
