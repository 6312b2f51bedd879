//! An accepted source displays as it was parsed.
#![no_main]

use garth_agent::session::Source;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(source) = text.parse::<Source>() {
        assert!(source.to_string().parse::<Source>().is_ok_and(|again| again == source), "{source}");
    }
});
