//! Tests of schemas: each keyword, rejected schemas, and the bounds on time and stack.

use super::*;

const STEPS: u64 = 1_000_000;

fn compiled(schema: &str) -> Schema {
    Schema::compile(schema).unwrap_or_else(|error| panic!("{schema}: {error}"))
}

/// Returns the flaw of a value; empty if there is none.
fn wrong(schema: &Schema, value: &str) -> String {
    let judged = schema.check_text(value.as_bytes(), &mut Budget::new(STEPS));
    judged.err().map(|wrong| wrong.to_string()).unwrap_or_default()
}

/// Returns the reason for which a schema is refused.
fn refused(schema: &str) -> String {
    let shown = json::quoted(schema);
    let error = Schema::compile(schema).err().unwrap_or_else(|| panic!("{shown} is taken"));
    assert!(error.is(crate::error::ErrorKind::InvalidArgument), "{error}");
    error.to_string()
}

#[test]
fn every_keyword_accepts_and_rejects() {
    for (schema, good, bad, said) in [
        ("false", "", "1", "is not allowed"),
        (
            r#"{"type": ["integer", "null"]}"#,
            "1.0",
            "1.5",
            "is a number with a fraction, and has to be null or integer",
        ),
        (r#"{"type": "number"}"#, "1e300", "true", "is a boolean"),
        (
            r#"{"const": {"a": [1, 2]}}"#,
            r#"{"a": [1.0, 2e0]}"#,
            r#"{"a": [2, 1]}"#,
            r#"{"a":[2,1]} is not one of {"a":[1,2]}"#,
        ),
        (r#"{"enum": ["b", null, 3, "a"]}"#, "\"a\"", "\"c\"", r#""c" is not one of "b", null, 3, "a""#),
        (r#"{"enum": []}"#, "", "1", "1 is not one of "),
        (r#"{"required": ["a", "b"]}"#, r#"{"b": 1, "a": 1}"#, r#"{"a": 1}"#, "\"b\" is missing"),
        (r#"{"dependentRequired": {"a": ["b"]}}"#, r#"{"c": 1}"#, r#"{"a": 1}"#, "\"b\" is missing"),
        (r#"{"minimum": 1.5}"#, "1.5", "1", "is 1, and has to be at least"),
        (r#"{"maximum": 18446744073709551615}"#, "18446744073709551615", "1.9e19", "is 1.9e19"),
        (r#"{"exclusiveMinimum": -1}"#, "-0.5", "-1", "more than -1"),
        (r#"{"exclusiveMaximum": 9007199254740993}"#, "9007199254740992", "9007199254740993", "less than"),
        (r#"{"multipleOf": 3}"#, "9.0", "10", "10 is not a multiple of 3"),
        (r#"{"multipleOf": 1}"#, "1e30", "0.5", "is not a multiple"),
        (r#"{"maxBytes": 3}"#, "\"é1\"", "\"éé\"", "has 4 bytes, and may have 3 at most"),
        (r#"{"maxLength": 2}"#, "\"éé\"", "\"abc\"", "has 3 characters, and may have 2 at most"),
        (r#"{"minLength": 2}"#, "\"😀a\"", "\"😀\"", "has 1 characters, and has to have 2 at least"),
        (r#"{"pattern": "^\\d\n$"}"#, "\"1\\n\"", "\"a\"", r#""a" does not match the pattern "^\\d\n$""#),
        (r#"{"format": "date"}"#, "\"2026-01-27\"", "\"2026-13-27\"", "\"2026-13-27\" is no date"),
        (r#"{"minItems": 1}"#, "[1]", "[]", "has 0 items, and has to have 1 at least"),
        (r#"{"maxItems": 1}"#, "[1]", "[1, 2]", "has 2 items"),
        (r#"{"minProperties": 1}"#, "{\"a\": 1}", "{}", "has 0 keys"),
        (r#"{"maxProperties": 0}"#, "{}", "{\"a\": 1}", "has 1 keys"),
        (r#"{"uniqueItems": true}"#, "[1, \"1\", [1], {}]", "[1, 2, 1.0]", "items 0 and 2 are the same"),
        (r#"{"uniqueItems": false}"#, "[1, 1]", "", ""),
        (
            r#"{"propertyNames": {"maxLength": 1}}"#,
            "{\"a\": 1}",
            "{\"ab\": 1}",
            "the key \"ab\" has 2 characters",
        ),
        (r#"{"properties": {"a": false}}"#, "{\"b\": 1}", "{\"a\": 1}", "/a: is not allowed"),
        (
            r#"{"patternProperties": {"^a": {"type": "null"}}}"#,
            "{\"ab\": null, \"b\": 1}",
            "{\"ab\": 1}",
            "/ab: is an integer",
        ),
        (
            r#"{"properties": {"a": true}, "patternProperties": {"^x-": true}, "additionalProperties": false}"#,
            r#"{"a": 1, "x-b": 2}"#,
            r#"{"a": 1, "b/c~": 2}"#,
            "/b~1c~0: is not allowed",
        ),
        (
            r#"{"prefixItems": [{"type": "null"}], "items": {"type": "string"}}"#,
            r#"[null, "a"]"#,
            "[null, 1]",
            "/1: is",
        ),
        (r#"{"prefixItems": [true, {"type": "null"}]}"#, "[1, null, 2]", "[1, 1]", "/1: is an integer"),
        (r#"{"items": false}"#, "[]", "[1]", "/0: is not allowed"),
        (r#"{"contains": {"type": "null"}}"#, "[1, null]", "[1]", "has 0 items that match `contains`"),
        (
            r#"{"contains": {"type": "null"}, "minContains": 0, "maxContains": 1}"#,
            "[null]",
            "[null, null]",
            "may have 1",
        ),
        (r#"{"dependentSchemas": {"a": {"required": ["b"]}}}"#, "{}", "{\"a\": 1}", "\"b\" is missing"),
        (r#"{"allOf": [true, {"type": "null"}]}"#, "null", "1", "is an integer"),
        (
            r#"{"anyOf": [{"type": "null"}, {"minimum": 3}]}"#,
            "3",
            "2",
            "matches none of the 2 schemas of `anyOf`",
        ),
        (r#"{"oneOf": [{"minimum": 3}, {"maximum": 5}]}"#, "6", "4", "matches schemas 0 and 1 of `oneOf`"),
        (r#"{"oneOf": [{"type": "null"}]}"#, "null", "4", "matches none of the 1 schemas of `oneOf`"),
        (r#"{"not": {"type": "null"}}"#, "1", "null", "is what `not` excludes"),
        (r#"{"if": {"type": "null"}, "then": false, "else": {"minimum": 2}}"#, "2", "1", "at least 2"),
        (r#"{"if": {"minimum": 0}, "then": {"maximum": 9}}"#, "-1", "10", "at most 9"),
        (r##"{"$ref": "#/$defs/a~1%62", "$defs": {"a/b": {"type": "null"}}}"##, "null", "1", "is an integer"),
        (r##"{"items": {"$ref": "#"}, "type": "array"}"##, "[[], [[]]]", "[[], [1]]", "/1/0: is an integer"),
        (r##"{"allOf": [{"type": "null"}, {"$ref": "#/allOf/0"}]}"##, "null", "1", "is an integer"),
    ] {
        let compiled = compiled(schema);
        for (value, said) in [(good, ""), (bad, said)] {
            if !value.is_empty() {
                let got = wrong(&compiled, value);
                assert!(
                    if said.is_empty() { got.is_empty() } else { got.contains(said) },
                    "{schema} {value}: {got}"
                );
            }
        }
    }
}

#[test]
fn schema_errors_are_short_and_name_position() {
    let schema =
        compiled(r#"{"additionalProperties": {"enum": ["a"]}, "propertyNames": {"not": {"const": "no"}}}"#);
    let long = "x".repeat(10_000);
    for value in
        [format!("{{\"{long}\": 1}}"), format!("{{\"a\": \"{long}\"}}"), format!("{{\"a\": [\"{long}\"]}}")]
    {
        let got = wrong(&schema, &value);
        assert!(got.starts_with('/') && got.len() < 400, "{got}");
    }
    let controls = format!("{{\"a\": \"{}\"}}", "\\u0001".repeat(100));
    assert!(wrong(&schema, &controls).len() < 120);
    assert_eq!(wrong(&schema, "{\"no\": \"a\"}"), "the key \"no\" is what `not` excludes");
    // A schema that was tried in vain leaves no trace in the position.
    let tried = compiled(r#"{"anyOf": [{"items": {"items": false}}, true], "items": {"type": "array"}}"#);
    assert_eq!(wrong(&tried, "[[1], 2]"), "/1: is an integer, and has to be array");
}

#[test]
fn rejects_keywords_without_effect() {
    for (schema, said) in [
        (r#"{"properties": {"a": {"typ": "null"}}}"#, "at /properties/a: \"typ\" is not a supported keyword"),
        (r#"{"definitions": {}}"#, "use `$defs`"),
        (r#"{"dependencies": {}}"#, "use `dependentRequired`"),
        (r#"{"items": [true]}"#, "at /items: a schema is an object"),
        (r#"{"minimum": "1"}"#, "at /minimum: has to be a number"),
        (r#"{"exclusiveMinimum": true}"#, "has to be a number"),
        (r#"{"maxBytes": -1}"#, "0 or more"),
        (r#"{"maxBytes": 1.5}"#, "0 or more"),
        (r#"{"multipleOf": 0.1}"#, "integer above 0"),
        (r#"{"type": "int"}"#, "\"int\" is no type"),
        (r#"{"type": []}"#, "is no type"),
        (r#"{"type": {}}"#, "is no type"),
        (r#"{"format": "email"}"#, "\"email\" is no format that is judged"),
        (r#"{"then": true}"#, "`then` without `if`"),
        (r#"{"minContains": 1}"#, "`minContains` without `contains`"),
        (r#"{"unevaluatedProperties": false}"#, "not supported"),
        (r##"{"$dynamicRef": "#a"}"##, "not a supported keyword"),
        (r#"{"$anchor": "a"}"#, "not a supported keyword"),
        (r#"{"allOf": []}"#, "at /allOf: needs at least one schema"),
        (r#"{"allOf": {}}"#, "has to be an array"),
        (r#"{"required": "a"}"#, "has to be an array"),
        (r#"{"required": [1]}"#, "has to be a string"),
        (r#"{"properties": []}"#, "has to be an object"),
        (r#"{"uniqueItems": 1}"#, "`true` or `false`"),
        (r#"{"$schema": "http://json-schema.org/draft-07/schema#"}"#, "2020-12"),
        (r#"{"properties": {"a": {"$id": "b"}}}"#, "`$id` can only"),
        (r#"{"type": "null", "type": "string"}"#, "duplicate key \"type\""),
        ("", "has to be JSON"),
        ("\u{feff}{}", "has to be JSON"),
        ("1", "a schema is an object"),
    ] {
        let got = refused(schema);
        assert!(got.contains(said), "{schema}: {got}");
    }
    compiled(
        r#"{"$schema": "https://json-schema.org/draft/2020-12/schema#", "$id": "urn:a", "title": "a", "default": {"typ": 1},
            "examples": [], "deprecated": true, "readOnly": true, "writeOnly": true, "$comment": "", "x-own": 1}"#,
    );
}

#[test]
fn schema_references_never_leave_the_schema() {
    for target in [
        "http://example.com/a.json",
        "https://json-schema.org/draft/2020-12/schema",
        "file:///etc/passwd",
        "other.json#/a",
        "../a",
        "",
        "urn:a",
        "//host/a",
        "?a",
    ] {
        let got = refused(&format!("{{\"$ref\": \"{target}\"}}"));
        assert!(got.contains("nothing outside") && got.contains(&target[..target.len().min(30)]), "{got}");
    }
    // Its own name does not lead back into it: another schema may have that name.
    assert!(refused(r##"{"$id": "urn:a", "items": {"$ref": "urn:a#"}}"##).contains("nothing outside"));
    for target in
        ["#/$defs/a", "#a", "#/x-a", "#/enum/0", "#/properties", "#/allOf/01x", "#/%zz", "#%", "#/items/"]
    {
        let schema = format!(
            r#"{{"$ref": "{target}", "x-a": {{}}, "enum": [{{}}], "properties": {{"b": true}}, "items": true}}"#
        );
        let got = refused(&schema);
        assert!(got.contains("where it has no schema"), "{got}");
    }
}

#[test]
fn rejects_cyclic_schemas() {
    for schema in [
        r##"{"$ref": "#"}"##.to_owned(),
        r##"{"not": {"$ref": "#"}}"##.to_owned(),
        r##"{"anyOf": [true, {"if": true, "then": {"oneOf": [{"$ref": "#"}]}}]}"##.to_owned(),
        r##"{"dependentSchemas": {"a": {"$ref": "#"}}}"##.to_owned(),
        r##"{"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}"##.to_owned(),
    ] {
        assert!(refused(&schema).contains("endlessly"), "{schema}");
    }
    compiled(
        r##"{"propertyNames": {"$ref": "#"}, "additionalProperties": {"$ref": "#"}, "items": {"$ref": "#"}}"##,
    );
}

/// Definitions `d0`, `d1`, … each made of the next, and the last one as given.
fn chain(length: usize, link: impl Fn(&str) -> String, last: &str) -> String {
    let mut defs = String::new();
    for n in 0..length {
        let next = format!(r##"{{"$ref":"#/$defs/d{}"}}"##, n + 1);
        defs.push_str(&format!("\"d{n}\":{},", link(&next)));
    }
    format!(r##"{{"$ref":"#/$defs/d0","$defs":{{{defs}"d{length}":{last}}}}}"##)
}

#[test]
fn exponential_schemas_end_when_budget_is_spent() {
    let spent = "the schema takes too many steps";
    let deep = "[".repeat(100) + &"]".repeat(100);
    let wide = format!("[{}0]", "0,".repeat(9_999));
    let different = format!("[{}]", (0..10_000).map(|n| n.to_string()).collect::<Vec<_>>().join(","));
    let long = format!("\"{}\"", "ab".repeat(2_000_000));
    // Each link applies the next one twice: without a budget, 40 links take 2⁴⁰ steps.
    let twice = |how: &'static str| move |next: &str| format!(r#"{{"{how}":[{next},{next}]}}"#);
    let many: Vec<String> = (0..2000).map(|n| format!("[{n}]")).collect();
    for (what, schema, value) in [
        ("allOf", chain(40, twice("allOf"), "true"), "1"),
        ("anyOf", chain(40, twice("anyOf"), "false"), "1"),
        ("oneOf", chain(40, twice("oneOf"), "true"), "1"),
        (
            "not",
            chain(40, |next| format!(r#"{{"not":{{"anyOf":[{next},{{"not":{next}}}]}}}}"#), "false"),
            "1",
        ),
        ("if", chain(40, |next| format!(r#"{{"if":{next},"then":{next},"else":{next}}}"#), "true"), "1"),
        (
            "recursion",
            r##"{"allOf":[{"items":{"$ref":"#"}},{"items":{"$ref":"#"}}]}"##.to_owned(),
            deep.as_str(),
        ),
        (
            "contains",
            r##"{"anyOf":[{"contains":{"$ref":"#"}},{"contains":{"$ref":"#"}}]}"##.to_owned(),
            &deep,
        ),
        ("enum", format!(r#"{{"items":{{"not":{{"enum":[[{}]]}}}}}}"#, "0,".repeat(5_000) + "0"), &wide),
        ("many patterns", format!(r#"{{"allOf":[{}true]}}"#, r#"{"pattern":"(a+)+$"},"#.repeat(60)), &long),
        ("unique", format!(r#"{{"allOf":[{}true]}}"#, r#"{"uniqueItems":true},"#.repeat(60)), &different),
        ("items", format!(r#"{{"items":{{"not":{{"anyOf":[{}]}}}}}}"#, vec!["false"; 200].join(",")), &wide),
        ("const", format!(r#"{{"items":{{"not":{{"const":{{"a":[{}]}}}}}}}}"#, many.join(",")), &wide),
    ] {
        let schema = compiled(&schema);
        let mut budget = Budget::new(STEPS);
        let got = schema.check_text(value.as_bytes(), &mut budget).expect_err(what);
        assert!(got.to_string().starts_with(spent), "{what}: {got}");
        assert_eq!(budget.left(), 0, "{what}");
        let next = schema.check_text(b"null", &mut budget).expect_err(what);
        assert!(next.to_string().starts_with(spent), "{what}: {next}");
    }
}

#[test]
fn long_patterns_are_shown_in_part() {
    let schema = compiled(&format!(r#"{{"pattern":"^{}é"}}"#, "(?:a|é)".repeat(100)));
    let got = wrong(&schema, "\"b\"");
    assert!(got.starts_with("\"b\" does not match the pattern \"^(?:a|é)(?:a|é)"), "{got}");
    assert!(got.ends_with("…\"") && got.len() < 300, "{got}");
}

#[test]
fn catastrophic_patterns_match_in_few_steps() {
    let text = format!("\"{}b\"", "a".repeat(50_000));
    for pattern in ["^(a+)+$", "^(a|aa)+$", "^(a|a)*$", "^(.*a){10}$", "^(a?){30}a{30}$"] {
        let schema = compiled(&format!(r#"{{"pattern":"{pattern}"}}"#));
        assert!(wrong(&schema, &text).contains("does not match"), "{pattern}");
    }
    for pattern in ["(?=a)", r"(a)\\1", "a{1000000}", "((a{99}){99}){99}"] {
        let got = refused(&format!(r#"{{"properties":{{"p":{{"pattern":"{pattern}"}}}}}}"#));
        assert!(got.contains("at /properties/p/pattern: the pattern"), "{got}");
    }
    let many = format!(r#"{{"allOf":[{}true]}}"#, r#"{"pattern":"a"},"#.repeat(65));
    assert!(refused(&many).contains("more than 64 patterns"));
    let large = format!(r#"{{"allOf":[{}true]}}"#, r#"{"pattern":"(?:[ab][ab0-9]){90}c"},"#.repeat(60));
    assert!(refused(&large).contains("the patterns so far need too large"));
    let slow = format!(r#"{{"allOf":[{}true]}}"#, r#"{"pattern":"(?:a?){500}b"},"#.repeat(60));
    assert!(refused(&slow).contains("the patterns so far need too large"));
}

/// Runs on a thread with the default size of its stack.
fn on_a_small_stack(run: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
}

#[test]
fn deep_schemas_and_values_never_overflow_stack() {
    on_a_small_stack(|| {
        for (before, after) in [
            (r#"{"not":"#, "}"),
            (r#"{"items":"#, "}"),
            (r#"{"properties":{"a":"#, "}}"),
            (r#"{"allOf":["#, "]}"),
            (r#"{"if":true,"then":"#, "}"),
            (r#"{"contains":"#, "}"),
            (r#"{"const":["#, "]}"),
            (r#"{"dependentSchemas":{"a":"#, "}}"),
        ] {
            let levels = 127 / before.matches(['{', '[']).count();
            compiled(&(before.repeat(levels) + "true" + &after.repeat(levels)));
            let deeper = 6000;
            let got = refused(&(before.repeat(deeper) + "true" + &after.repeat(deeper)));
            assert!(got.contains("recursion limit") || got.contains("at most 65536 bytes"), "{got}");
        }
        let deep = "[".repeat(127) + &"]".repeat(127);
        let objects = r#"{"a":"#.repeat(127) + "1" + &"}".repeat(127);
        let too_deep = "more than 400 schemas within each other";
        for (schema, value) in [
            (chain(2000, |next| next.to_owned(), "true"), "1"),
            (chain(1000, |next| format!(r#"{{"not":{next}}}"#), "true"), "1"),
            (chain(1000, |next| format!(r#"{{"allOf":[{next}]}}"#), "true"), "1"),
            (chain(1000, |next| format!(r#"{{"oneOf":[{next}]}}"#), "true"), "1"),
            (chain(1000, |next| format!(r#"{{"if":{next}}}"#), "true"), "1"),
            (chain(10, |next| format!(r#"{{"allOf":[{next}]}}"#), r##"{"items":{"$ref":"#"}}"##), &deep),
            (chain(10, |next| format!(r#"{{"anyOf":[{next}]}}"#), r##"{"contains":{"$ref":"#"}}"##), &deep),
            (
                chain(
                    10,
                    |next| next.to_owned(),
                    r##"{"additionalProperties":{"$ref":"#"},"propertyNames":{"maxLength":1}}"##,
                ),
                &objects,
            ),
        ] {
            let got = wrong(&compiled(&schema), value);
            assert!(got.contains(too_deep), "{got}");
        }
        // A value as deep as a text can be is judged by a schema that applies itself once for each level.
        let each = compiled(r##"{"anyOf": [{"items": {"$ref": "#"}, "type": "array"}]}"##);
        assert_eq!(wrong(&each, &deep), "");
        let each = compiled(
            r##"{"additionalProperties": {"$ref": "#"}, "uniqueItems": true, "not": {"const": 7}}"##,
        );
        assert_eq!(wrong(&each, &objects), "");
    });
}

#[test]
fn schema_size_and_part_count_are_limited() {
    let text = |length: usize| format!("{{\"title\":\"{}\"}}", "a".repeat(length - 12));
    compiled(&text(MAX_SCHEMA));
    assert!(refused(&text(MAX_SCHEMA + 1)).contains("at most 65536 bytes, and this one has 65537"));
    let parts = |count: usize| format!("{{\"allOf\":[{}true]}}", "true,".repeat(count - 2));
    compiled(&parts(4096));
    assert!(refused(&parts(4097)).contains("more than 4096 schemas"));
}
