//! Arbitrary texts never make the parsers of times, ages and search queries panic.
#![no_main]

use garth_engine::model::{Moment, Timestamp, parse_age};
use garth_engine::text::Question;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = Moment::parse(text, Timestamp(1_700_000_000_000_000_000));
    let _ = parse_age(text);
    let _ = Timestamp::parse_rfc3339(text);
    let _ = Question::parse(text);
});
