//! A session key that is taken is written as it is read, and no two lists of parts have one key.
#![no_main]

use garth::agent::session::SessionKey;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|texts: (&str, Vec<&str>, Vec<&str>)| {
    let (text, one, other) = texts;
    if let Ok(key) = text.parse::<SessionKey>() {
        assert_eq!(key.as_str(), text);
        assert!(text.len() <= 255);
    }
    let [one_key, other_key] = [&one, &other].map(|parts| SessionKey::of(parts));
    if let Ok(key) = &one_key {
        assert!(key.as_str().parse::<SessionKey>().is_ok_and(|again| again == *key), "{key}");
        assert_eq!(other_key.is_ok_and(|other_key| other_key == *key), one == other);
    }
});
