//! An accepted session key displays as it was parsed, except for capital letters that an older spelling has
//! as `%41` to `%5a`. The displayed form parses to the same key, and no two lists of parts give one key.
#![no_main]

use garth_agent::session::SessionKey;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|texts: (&str, Vec<&str>, Vec<&str>)| {
    let (text, one, other) = texts;
    if let Ok(key) = text.parse::<SessionKey>() {
        let is_older = text.contains("%4") || text.contains("%5");
        assert!(is_older || key.as_str() == text, "{key}");
        assert!(key.as_str().len() <= 255);
        let again = key.as_str().parse::<SessionKey>();
        assert!(again.is_ok_and(|again| again == key && again.as_str() == key.as_str()), "{key}");
    }
    let [one_key, other_key] = [&one, &other].map(|parts| SessionKey::of(parts));
    if let Ok(key) = &one_key {
        assert!(key.as_str().parse::<SessionKey>().is_ok_and(|again| again == *key), "{key}");
        assert_eq!(other_key.is_ok_and(|other_key| other_key == *key), one == other);
    }
});
