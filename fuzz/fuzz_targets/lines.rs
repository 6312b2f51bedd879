//! JSON Lines give the same verdict in pieces, at once, and from the offset where an append begins.
#![no_main]

use std::sync::LazyLock;

use garth_agent::registry::fragments::{SCHEMA, UNIQUE};
use garth_engine::rule::lines::{Lines, Place, WrongLine};
use garth_engine::rule::schema::{Budget, MAX_STEPS, Schema};
use libfuzzer_sys::fuzz_target;

static FRAGMENTS: LazyLock<Schema> = LazyLock::new(|| Schema::compile(SCHEMA).expect("a schema"));

fn judged(mut lines: Lines<'_>, text: &[u8], size: usize) -> Result<Place, WrongLine> {
    let mut budget = Budget::new(MAX_STEPS);
    text.chunks(size.max(1)).try_for_each(|piece| lines.feed(piece, &mut budget))?;
    lines.finish(&mut budget)
}

fuzz_target!(|input: (u8, u8, bool, &[u8])| {
    let (size, cut, with_schema, text) = input;
    let schema = with_schema.then_some(&*FRAGMENTS);
    let unique = with_schema.then_some(UNIQUE);
    let whole = judged(Lines::new(Place::START, schema, unique), text, usize::MAX);
    assert_eq!(judged(Lines::new(Place::START, schema, unique), text, size.into()), whole);
    let plain = judged(Lines::new(Place::START, schema, None), text, usize::MAX);
    let before = &text[..text.len() * usize::from(cut) / 255];
    if let Ok(place) = judged(Lines::new(Place::START, schema, None), before, usize::MAX) {
        let rest = &text[usize::try_from(place.offset).expect("small")..];
        assert_eq!(judged(Lines::new(place, schema, None), rest, size.into()), plain);
    }
});
