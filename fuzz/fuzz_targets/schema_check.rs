//! Verdicts equal those of the crate `jsonschema` for all schemas that both accept.
#![no_main]

use garth_engine::rule::schema::{Budget, Schema};
use libfuzzer_sys::fuzz_target;

/// Returns true if the two implementations interpret a schema differently on purpose.
fn differs(text: &str) -> bool {
    // Keywords that only garth has, formats with other parsers, and numbers that a double does not represent.
    ["maxBytes", "format", "pattern", "e", "E", "."].iter().any(|part| match *part {
        "e" | "E" | "." => {
            text.split(part).skip(1).any(|after| after.starts_with(|c: char| "+-0123456789".contains(c)))
        }
        part => text.contains(part),
    }) || text.bytes().filter(u8::is_ascii_digit).count() > 14
}

fuzz_target!(|text: &str| {
    let Some((schema, value)) = text.split_once('\n') else { return };
    if differs(schema) || differs(value) {
        return;
    }
    let Ok(own) = Schema::compile(schema) else { return };
    let mut budget = Budget::new(20_000);
    let verdict = own.check_text(value.as_bytes(), &mut budget);
    let said = verdict.as_ref().err().map(ToString::to_string).unwrap_or_default();
    if said.contains("has to be JSON") || said.starts_with("the schema ") {
        return;
    }
    let other: serde_json::Value = serde_json::from_str(schema).expect("a schema is JSON");
    let Ok(other) = jsonschema::draft202012::new(&other) else { return };
    let value: serde_json::Value = serde_json::from_str(value).expect("a value that was judged is JSON");
    assert_eq!(verdict.is_ok(), other.is_valid(&value), "{said}");
});
