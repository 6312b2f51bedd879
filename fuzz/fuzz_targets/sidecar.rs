//! Metadata beside a file is read or refused, the same each time; what is read has one form, which reads as
//! the same and is never too long, and a file gets that and no more.
#![no_main]

use garth::agent::workspace::layout::{MAX_SIDECAR, OWN, Sidecar};
use garth::model::Attributes;
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
