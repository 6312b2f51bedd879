//! A policy that deletes messages or events keeps a history, parsing is consistent, and unknown keys are
//! rejected.
#![no_main]

use garth_agent::session::Policy;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(policy) = Policy::parse(text) {
        assert!(policy.keep_messages && policy.keep_events || policy.history.is_some());
        assert!(Policy::parse(text).is_ok_and(|again| again == policy));
    }
    for line in ["other=1", "other"] {
        assert!(Policy::parse(&format!("{text}\n{line}")).is_err());
        assert!(Policy::parse(&format!("{line}\n{text}")).is_err());
    }
});
