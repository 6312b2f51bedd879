//! Sidecar metadata is accepted or rejected consistently. Accepted metadata has one bounded form that parses
//! to the same, and exactly that is set on a file.
#![no_main]

use garth_agent::workspace::layout::{MAX_SIDECAR, OWN, Sidecar};
use garth_engine::model::Attributes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|json: &[u8]| {
    let Ok(sidecar) = Sidecar::parse(json) else {
        assert!(Sidecar::parse(json).is_err());
        return;
    };
    let written = sidecar.to_json().expect("what was read has a JSON form");
    assert!(written.len() <= MAX_SIDECAR);
    assert!(
        Sidecar::parse(written.as_bytes())
            .is_ok_and(|again| again == sidecar && again.to_json().is_ok_and(|json| json == written))
    );
    assert!(sidecar.custom_metadata.keys().all(|name| !name.starts_with(OWN)));
    let mut file = Attributes::default();
    file.metadata.insert("old".to_owned(), "1".to_owned());
    file.metadata.insert("garth.own".to_owned(), "1".to_owned());
    if sidecar.attrs(None, &file).apply(&mut file).is_ok() {
        assert_eq!(Sidecar::of(&file), sidecar);
        assert!(file.metadata.contains_key("garth.own"));
    }
});
