//! Judges values by schemas and counts steps. When the steps are used up, judging ends at once: neither `not`
//! nor `anyOf` turns that into another result.

use std::fmt;

use super::budget::{Budget, of_bytes, weight};
use super::json_position::{JsonPosition, Part};
use super::keyword::{Bound, Counted, Id, Keyword, Properties, Types};
use super::pattern::Pattern;
use crate::rule::json::{Number, Value, quoted};

/// Limit on schemas that are applied within each other: more would use up a thread's stack.
const MAX_NESTED: usize = 400;

/// A flaw of a value, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Place as a JSON pointer, cut after 200 bytes; empty for the complete value.
    pub at: String,
    /// The flaw in words, with at most about 100 bytes of the value and 200 of a pattern of the schema.
    pub what: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at.as_str() {
            "" => f.write_str(&self.what),
            at => write!(f, "{at}: {}", self.what),
        }
    }
}

/// Reason for which judging ends.
enum Stop {
    /// The value is wrong. `None` while only the verdict is needed: building the message would be wasted.
    Wrong(Option<Box<Wrong>>),
    /// The budget is used up.
    Spent,
    /// Schemas are nested too deep.
    TooDeep,
}

type Judged = Result<(), Stop>;

pub(super) fn check(nodes: &[Vec<Keyword>], value: &Value, budget: &mut Budget) -> Result<(), Wrong> {
    let mut run = Run { nodes, budget, way: JsonPosition::default(), nested: 0, quiet: 0 };
    let said = |what: &str| Wrong { at: String::new(), what: what.to_owned() };
    run.apply(0, value).map_err(|stop| match stop {
        Stop::Wrong(wrong) => wrong.map_or_else(|| said("is refused by the schema"), |wrong| *wrong),
        Stop::Spent => said(
            "the schema takes too many steps for this content; let it refer to itself less often, combine \
             fewer schemas or use smaller patterns, or keep less in the file",
        ),
        Stop::TooDeep => said(&format!(
            "the schema applies more than {MAX_NESTED} schemas within each other to this content; keep it \
             flatter"
        )),
    })
}

/// Judgement of one value.
struct Run<'a, 'v> {
    nodes: &'a [Vec<Keyword>],
    budget: &'a mut Budget,
    /// Position in the value.
    way: JsonPosition<'v>,
    /// Number of schemas that are being applied within each other.
    nested: usize,
    /// Number of these that are applied for their verdict only, by `accepts`.
    quiet: usize,
}

impl<'a, 'v> Run<'a, 'v> {
    fn take(&mut self, steps: u64) -> Judged {
        self.budget.take(steps).ok_or(Stop::Spent)
    }

    fn wrong(&self, what: impl FnOnce() -> String) -> Judged {
        // Inside `accepts` the message would be dropped, so it is not built.
        Err(Stop::Wrong(match self.quiet {
            0 => Some(Box::new(Wrong { at: self.way.to_string(), what: what() })),
            _ => None,
        }))
    }

    fn apply(&mut self, id: Id, value: &'v Value) -> Judged {
        self.take(1)?;
        if self.nested == MAX_NESTED {
            return Err(Stop::TooDeep);
        }
        self.nested += 1;
        let nodes = self.nodes;
        for keyword in &nodes[id] {
            self.take(1)?;
            self.judge(keyword, value)?;
        }
        // After an error, `nested` is not decremented: judging ends, or `accepts` restores it.
        self.nested -= 1;
        Ok(())
    }

    /// Returns true if a schema accepts a value.
    fn accepts(&mut self, id: Id, value: &'v Value) -> Result<bool, Stop> {
        let (nested, deep) = (self.nested, self.way.0.len());
        self.quiet += 1;
        let judged = self.apply(id, value);
        self.quiet -= 1;
        match judged {
            Ok(()) => Ok(true),
            Err(Stop::Wrong(_)) => {
                // Judging ended somewhere inside the value: the position has to be set back.
                self.nested = nested;
                self.way.0.truncate(deep);
                Ok(false)
            }
            Err(stop) => Err(stop),
        }
    }

    /// Applies a schema to a part of the value.
    fn apply_in(&mut self, part: Part<'v>, id: Id, value: &'v Value) -> Judged {
        self.way.0.push(part);
        self.apply(id, value)?;
        self.way.0.pop();
        Ok(())
    }

    /// Judges by a keyword that applies other schemas. This function recurses, so its stack frame must stay
    /// small: other keywords and larger cases have separate functions that are not inlined.
    fn judge(&mut self, keyword: &'a Keyword, value: &'v Value) -> Judged {
        match keyword {
            Keyword::Properties(properties) => self.properties(properties, value),
            Keyword::Items(first, others) => self.items(first, *others, value),
            Keyword::PropertyNames(schema) => self.names(*schema, value),
            Keyword::Contains { schema, least, most } => self.contains(*schema, (*least, *most), value),
            Keyword::DependentSchemas(all) => self.dependent(all, value),
            Keyword::AllOf(all) => all.iter().try_for_each(|schema| self.apply(*schema, value)),
            Keyword::AnyOf(all) => self.any_of(all, value),
            Keyword::OneOf(all) => self.one_of(all, value),
            Keyword::Not(schema) => match self.accepts(*schema, value)? {
                true => self.wrong(|| "is what `not` excludes".to_owned()),
                false => Ok(()),
            },
            Keyword::If { schema, then, otherwise } => {
                // The verdict of `if` only selects the branch: a value that it does not accept is not an
                // error.
                let next = if self.accepts(*schema, value)? { then } else { otherwise };
                next.map_or(Ok(()), |next| self.apply(next, value))
            }
            // `compile` has excluded endless references; `MAX_NESTED` bounds all others.
            Keyword::Ref(schema) => self.apply(*schema, value),
            other => self.alone(other, value),
        }
    }

    #[inline(never)]
    fn properties(&mut self, properties: &'a Properties, value: &'v Value) -> Judged {
        let Value::Object(entries) = value else { return Ok(()) };
        for (key, value) in entries {
            self.take(1 + of_bytes(key))?;
            let named = properties.named.binary_search_by(|(name, _)| (**name).cmp(key)).ok();
            if let Some(at) = named {
                self.apply_in(Part::Key(key), properties.named[at].1, value)?;
            }
            let mut matched = named.is_some();
            for (pattern, schema) in &properties.matching {
                self.take(Pattern::steps(key))?;
                if pattern.is_in(key) {
                    matched = true;
                    self.apply_in(Part::Key(key), *schema, value)?;
                }
            }
            if let (false, Some(others)) = (matched, properties.others) {
                self.apply_in(Part::Key(key), others, value)?;
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn items(&mut self, first: &'a [Id], others: Option<Id>, value: &'v Value) -> Judged {
        let Value::Array(items) = value else { return Ok(()) };
        for (index, item) in items.iter().enumerate() {
            let Some(schema) = first.get(index).copied().or(others) else { break };
            self.apply_in(Part::Index(index), schema, item)?;
        }
        Ok(())
    }

    #[inline(never)]
    fn names(&mut self, schema: Id, value: &'v Value) -> Judged {
        let Value::Object(entries) = value else { return Ok(()) };
        for (key, _) in entries {
            self.take(1 + of_bytes(key))?;
            let name = Value::String(key.clone());
            // A key has no position of its own: its flaw is reported at the object.
            let mut named = Run {
                nodes: self.nodes,
                budget: self.budget,
                way: JsonPosition::default(),
                nested: self.nested,
                quiet: self.quiet,
            };
            match named.apply(schema, &name) {
                Err(Stop::Wrong(Some(wrong))) => {
                    return self.wrong(|| format!("the key {} {}", quoted(key), wrong.what));
                }
                judged => judged?,
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn contains(&mut self, schema: Id, (least, most): (u64, u64), value: &'v Value) -> Judged {
        let Value::Array(items) = value else { return Ok(()) };
        let mut found = 0;
        for item in items {
            found += u64::from(self.accepts(schema, item)?);
            // More items cannot change the result.
            if found > most || found >= least && most == u64::MAX {
                break;
            }
        }
        match found {
            _ if found < least => {
                self.wrong(|| format!("has {found} items that match `contains`, and needs at least {least}"))
            }
            _ if found > most => {
                self.wrong(|| format!("may have {most} items at most as `contains` says, and has more"))
            }
            _ => Ok(()),
        }
    }

    #[inline(never)]
    fn dependent(&mut self, all: &'a [(Box<str>, Id)], value: &'v Value) -> Judged {
        for (name, schema) in all {
            self.take(1 + of_bytes(name))?;
            if value.get(name).is_some() {
                self.apply(*schema, value)?;
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn any_of(&mut self, all: &'a [Id], value: &'v Value) -> Judged {
        for schema in all {
            if self.accepts(*schema, value)? {
                return Ok(());
            }
        }
        self.wrong(|| format!("matches none of the {} schemas of `anyOf`", all.len()))
    }

    #[inline(never)]
    fn one_of(&mut self, all: &'a [Id], value: &'v Value) -> Judged {
        let mut first = None;
        for (n, schema) in all.iter().enumerate() {
            if !self.accepts(*schema, value)? {
                continue;
            }
            if let Some(first) = first.replace(n) {
                return self.wrong(|| {
                    format!("matches schemas {first} and {n} of `oneOf`, and must match exactly one")
                });
            }
        }
        match first {
            Some(_) => Ok(()),
            None => self.wrong(|| format!("matches none of the {} schemas of `oneOf`", all.len())),
        }
    }

    /// Judges by a keyword that applies no other schema.
    #[inline(never)]
    fn alone(&mut self, keyword: &'a Keyword, value: &'v Value) -> Judged {
        match (keyword, value) {
            (Keyword::Never, _) => self.wrong(|| "is not allowed".to_owned()),
            (Keyword::Type(types), _) if !types.has(value) => {
                self.wrong(|| format!("is {}, and has to be {types}", Types::name(value)))
            }
            (Keyword::Values(values), _) => {
                // Taken before the search, so that no work is done beyond the budget.
                self.take(values.steps)?;
                match values.sorted.binary_search(value) {
                    Ok(_) => Ok(()),
                    Err(_) => self.wrong(|| format!("{} is not one of {}", value.quoted(), values.said)),
                }
            }
            (Keyword::Required(names), Value::Object(_)) => self.required(names, value),
            (Keyword::DependentRequired(all), Value::Object(_)) => {
                all.iter().try_for_each(|(name, names)| {
                    self.take(1 + of_bytes(name))?;
                    if value.get(name).is_some() { self.required(names, value) } else { Ok(()) }
                })
            }
            (Keyword::Number(bound, limit), Value::Number(number)) => self.bound(*bound, *limit, *number),
            (Keyword::MultipleOf(divisor), Value::Number(number)) => match is_multiple(*number, *divisor) {
                true => Ok(()),
                false => self.wrong(|| format!("{number} is not a multiple of {divisor}")),
            },
            (Keyword::Count(counted, bound, limit), _) => self.count(*counted, *bound, *limit, value),
            (Keyword::Pattern(pattern), Value::String(string)) => {
                self.take(Pattern::steps(string))?;
                match pattern.is_in(string) {
                    true => Ok(()),
                    false => self.wrong(|| {
                        format!("{} does not match the pattern {}", value.quoted(), pattern.shown())
                    }),
                }
            }
            (Keyword::Format(format), Value::String(string)) if !format.has(string) => {
                self.wrong(|| format!("{} is no {}", value.quoted(), format.name()))
            }
            (Keyword::UniqueItems, Value::Array(items)) => self.unique(items),
            // A keyword accepts values of other types than its own.
            _ => Ok(()),
        }
    }

    fn required(&mut self, names: &[Box<str>], value: &Value) -> Judged {
        for name in names {
            self.take(1 + of_bytes(name))?;
            if value.get(name).is_none() {
                return self.wrong(|| format!("{} is missing", quoted(name)));
            }
        }
        Ok(())
    }

    fn bound(&mut self, bound: Bound, limit: Number, number: Number) -> Judged {
        let (good, words) = match bound {
            Bound::Least => (number >= limit, "at least"),
            Bound::Most => (number <= limit, "at most"),
            Bound::Above => (number > limit, "more than"),
            Bound::Below => (number < limit, "less than"),
        };
        match good {
            true => Ok(()),
            false => self.wrong(|| format!("is {number}, and has to be {words} {limit}")),
        }
    }

    fn count(&mut self, counted: Counted, bound: Bound, limit: u64, value: &Value) -> Judged {
        let (count, what) = match (counted, value) {
            (Counted::Bytes, Value::String(string)) => (string.len(), "bytes"),
            (Counted::Characters, Value::String(string)) => {
                self.take(of_bytes(string))?;
                (string.chars().count(), "characters")
            }
            (Counted::Items, Value::Array(items)) => (items.len(), "items"),
            (Counted::Properties, Value::Object(entries)) => (entries.len(), "keys"),
            _ => return Ok(()),
        };
        match bound {
            Bound::Least if (count as u64) < limit => {
                self.wrong(|| format!("has {count} {what}, and has to have {limit} at least"))
            }
            Bound::Most if count as u64 > limit => {
                self.wrong(|| format!("has {count} {what}, and may have {limit} at most"))
            }
            _ => Ok(()),
        }
    }

    fn unique(&mut self, items: &[Value]) -> Judged {
        let rounds = 1 + u64::from(items.len().checked_ilog2().unwrap_or(0));
        // Sorting compares each item with about `rounds` others.
        for item in items {
            self.take(2 * rounds * weight(item))?;
        }
        let mut sorted: Vec<(&Value, usize)> = items.iter().zip(0..).collect();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => self.wrong(|| format!("items {} and {} are the same", pair[0].1, pair[1].1)),
            None => Ok(()),
        }
    }
}

fn is_multiple(number: Number, divisor: i128) -> bool {
    match number {
        Number::Float(float) => float % divisor as f64 == 0.0,
        _ => number.whole().is_some_and(|number| number % divisor == 0),
    }
}
