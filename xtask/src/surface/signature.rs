//! Signatures and types as text. Paths are shown by their last name, and a function that returns a boxed
//! future as the `async fn` that it was written as.

use serde_json::Value;

/// Generic parameters, and the conditions behind the signature.
pub(super) struct Generics {
    pub(super) named: String,
    pub(super) wheres: String,
}

/// Returns the parameters that a program can name. Lifetimes that were made for a boxed future are left out.
pub(super) fn generics(of: &Value) -> Generics {
    let mut named = Vec::new();
    for parameter in list(&of["params"]) {
        let name = text(&parameter["name"]);
        let kind = &parameter["kind"];
        if kind["type"]["is_synthetic"] == true || is_made(name) {
            continue;
        }
        let mut shown = name.to_owned();
        let of_type = bounds(&kind["type"]["bounds"]);
        if kind["const"].is_object() {
            shown = format!("const {name}: {}", self::shown(&kind["const"]["type"]));
        } else if !of_type.is_empty() {
            shown = format!("{name}: {of_type}");
        }
        if kind["type"]["default"].is_object() {
            shown = format!("{shown} = {}", self::shown(&kind["type"]["default"]));
        }
        named.push(shown);
    }
    let wheres = list(&of["where_predicates"]).iter().filter_map(|predicate| {
        let bound = &predicate["bound_predicate"];
        let (subject, bounds) = (self::shown(&bound["type"]), bounds(&bound["bounds"]));
        (bound.is_object() && !bounds.is_empty()).then(|| format!("{subject}: {bounds}"))
    });
    let wheres: Vec<String> = wheres.collect();
    Generics {
        named: if named.is_empty() { String::new() } else { format!("<{}>", named.join(", ")) },
        wheres: if wheres.is_empty() { String::new() } else { format!(" where {}", wheres.join(", ")) },
    }
}

/// Returns the line of a function.
pub(super) fn function(path: &str, of: &Value) -> String {
    let Generics { named, wheres } = generics(&of["generics"]);
    let inputs = list(&of["sig"]["inputs"]).iter().map(|input| {
        let (name, kind) = (text(&input[0]), &input[1]);
        match (name, shown(kind).as_str()) {
            ("self", "Self") => "self".to_owned(),
            ("self", "&Self") => "&self".to_owned(),
            ("self", "&mut Self") => "&mut self".to_owned(),
            (name, kind) => format!("{name}: {kind}"),
        }
    });
    let inputs = inputs.collect::<Vec<_>>().join(", ");
    let output = &of["sig"]["output"];
    let awaited = boxed_future(output);
    let is_async = of["header"]["is_async"] == true || awaited.is_some();
    let output = match awaited.unwrap_or(output) {
        Value::Null => String::new(),
        output => match shown(output).as_str() {
            "()" => String::new(),
            output => format!(" -> {output}"),
        },
    };
    let header = match (of["header"]["is_const"] == true, is_async) {
        (true, _) => "const fn",
        (_, true) => "async fn",
        _ => "fn",
    };
    let wheres = if is_async { wheres.replace(" where Self: 'async_trait", "") } else { wheres };
    format!("{header} {path}{named}({inputs}){output}{wheres}")
}

/// Returns the output of a boxed future.
fn boxed_future(output: &Value) -> Option<&Value> {
    let pinned = named_with(output, "Pin")?;
    let future = &named_with(pinned, "Box")?["dyn_trait"]["traits"][0]["trait"];
    let is_future = text(&future["path"]).ends_with("Future");
    let output = &future["args"]["angle_bracketed"]["constraints"][0]["binding"]["equality"]["type"];
    is_future.then_some(output)
}

/// Returns the first argument of a type of this name.
fn named_with<'a>(of: &'a Value, name: &str) -> Option<&'a Value> {
    let path = &of["resolved_path"];
    let argument = &path["args"]["angle_bracketed"]["args"][0]["type"];
    (last(text(&path["path"])) == name && argument.is_object()).then_some(argument)
}

/// Returns a type as text.
pub(super) fn shown(of: &Value) -> String {
    let Some((kind, inner)) = of.as_object().and_then(|of| of.iter().next()) else { return String::new() };
    let each = |types: &Value| list(types).iter().map(shown).collect::<Vec<_>>().join(", ");
    match kind.as_str() {
        "primitive" | "generic" => text(inner).to_owned(),
        "resolved_path" => format!("{}{}", last(text(&inner["path"])), arguments(&inner["args"])),
        "borrowed_ref" => {
            let lifetime = inner["lifetime"].as_str().filter(|name| !is_made(name));
            let lifetime = lifetime.map_or(String::new(), |name| format!("{name} "));
            let mutable = if inner["is_mutable"] == true { "mut " } else { "" };
            format!("&{lifetime}{mutable}{}", shown(&inner["type"]))
        }
        "tuple" => format!("({})", each(inner)),
        "slice" => format!("[{}]", shown(inner)),
        "array" => format!("[{}; {}]", shown(&inner["type"]), text(&inner["len"])),
        "impl_trait" => format!("impl {}", bounds(inner)),
        "dyn_trait" => {
            let traits = list(&inner["traits"]).iter().map(bound);
            let lifetime = inner["lifetime"].as_str().filter(|name| !is_made(name)).map(str::to_owned);
            format!("dyn {}", traits.chain(lifetime).collect::<Vec<_>>().join(" + "))
        }
        "qualified_path" => format!("{}::{}", shown(&inner["self_type"]), text(&inner["name"])),
        "function_pointer" => {
            let inputs = list(&inner["sig"]["inputs"]).iter().map(|input| shown(&input[1]));
            format!("fn({}) -> {}", inputs.collect::<Vec<_>>().join(", "), shown(&inner["sig"]["output"]))
        }
        "infer" => "_".to_owned(),
        other => other.to_owned(),
    }
}

/// Returns bounds, joined by `+`.
pub(super) fn bounds(of: &Value) -> String {
    let shown = list(of).iter().filter_map(|one| match (&one["trait_bound"], one["outlives"].as_str()) {
        (Value::Object(_), _) => Some(bound(&one["trait_bound"])),
        (_, Some(lifetime)) if !is_made(lifetime) => Some(lifetime.to_owned()),
        _ => None,
    });
    shown.collect::<Vec<_>>().join(" + ")
}

fn bound(of: &Value) -> String {
    let maybe = if of["modifier"] == "maybe" { "?" } else { "" };
    let path = &of["trait"];
    format!("{maybe}{}{}", last(text(&path["path"])), arguments(&path["args"]))
}

fn arguments(of: &Value) -> String {
    let in_parentheses = &of["parenthesized"];
    if in_parentheses.is_object() {
        let inputs = list(&in_parentheses["inputs"]).iter().map(shown).collect::<Vec<_>>().join(", ");
        return match shown(&in_parentheses["output"]).as_str() {
            "" => format!("({inputs})"),
            output => format!("({inputs}) -> {output}"),
        };
    }
    let of = &of["angle_bracketed"];
    let plain = list(&of["args"]).iter().filter_map(|argument| {
        let shown = match argument.as_object()?.iter().next()? {
            (kind, lifetime) if kind == "lifetime" => text(lifetime).to_owned(),
            (kind, of) if kind == "type" => shown(of),
            (_, constant) => text(&constant["expr"]).to_owned(),
        };
        (!is_made(&shown)).then_some(shown)
    });
    let bound = list(&of["constraints"]).iter().map(|constraint| {
        let name = text(&constraint["name"]);
        match &constraint["binding"]["equality"]["type"] {
            Value::Null => format!("{name}: {}", bounds(&constraint["binding"]["constraint"])),
            of => format!("{name} = {}", shown(of)),
        }
    });
    let all: Vec<String> = plain.chain(bound).collect();
    if all.is_empty() { String::new() } else { format!("<{}>", all.join(", ")) }
}

/// Returns true for a lifetime that a macro made for a boxed future.
fn is_made(lifetime: &str) -> bool {
    lifetime == "'async_trait" || lifetime == "'async_recursion" || lifetime.starts_with("'life")
}

fn last(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

fn list(of: &Value) -> &[Value] {
    of.as_array().map_or(&[], Vec::as_slice)
}

fn text(of: &Value) -> &str {
    of.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn boxed_future_reads_as_async_function() {
        let result = json!({"resolved_path": {"path": "crate::Result", "args": {"angle_bracketed": {
            "args": [{"type": {"primitive": "u8"}}], "constraints": []}}}});
        let future = json!({"trait": {"path": "Future", "args": {"angle_bracketed": {"args": [], "constraints": [
            {"name": "Output", "binding": {"equality": {"type": result}}}]}}}});
        let boxed = |of: Value, name: &str| json!({"resolved_path": {"path": name, "args": {"angle_bracketed": {"args": [{"type": of}]}}}});
        let dynamic = json!({"dyn_trait": {"traits": [future], "lifetime": "'async_trait"}});
        let output = boxed(boxed(dynamic, "Box"), "::core::pin::Pin");
        let own =
            json!({"borrowed_ref": {"lifetime": "'life0", "is_mutable": false, "type": {"generic": "Self"}}});
        let of = json!({"sig": {"inputs": [["self", own]], "output": output}, "header": {},
            "generics": {"params": [{"name": "'life0", "kind": {}}], "where_predicates": []}});
        assert_eq!(function("a::B::c", &of), "async fn a::B::c(&self) -> Result<u8>");
    }

    #[test]
    fn types_show_arguments_and_references() {
        let of = json!({"borrowed_ref": {"lifetime": "'a", "is_mutable": true, "type": {"slice": {"generic": "T"}}}});
        assert_eq!(shown(&of), "&'a mut [T]");
        let into = json!([{"trait_bound": {"trait": {"path": "Into", "args": {"angle_bracketed": {
            "args": [{"type": {"primitive": "str"}}], "constraints": []}}}, "modifier": "none"}}]);
        assert_eq!(shown(&json!({"impl_trait": into})), "impl Into<str>");
    }
}
