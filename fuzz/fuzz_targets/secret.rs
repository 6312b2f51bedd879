//! Secrets are ordered spans of complete characters. Masking a text in two pieces hides secrets if, and only
//! if, masking it at once does. Text after a line does not turn the line into a secret.
#![no_main]

use garth_engine::text::secret::{find, masked, masked_in_context};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &str)| {
    let (cut, text) = input;
    let found = find(text.as_bytes());
    let mut done = 0;
    for secret in &found {
        assert!(done <= secret.bytes.start && secret.bytes.start < secret.bytes.end);
        assert!(text.get(secret.bytes.clone()).is_some());
        assert!(secret.basis.start <= secret.bytes.start && secret.bytes.end <= secret.basis.end);
        done = secret.bytes.end;
    }
    assert_eq!(found.is_empty(), masked(text) == text);
    let (before, behind) = text.as_bytes().split_at(text.len() * usize::from(cut) / 255);
    let parts = [masked_in_context(b"", before, behind), masked_in_context(before, behind, b"")];
    assert_eq!(found.is_empty(), parts.concat() == text.as_bytes());
    if before.ends_with(b"\n") {
        let alone = find(before);
        for secret in found.iter().filter(|it| it.kind != "private key" && it.bytes.start < before.len()) {
            let known = |own: &&garth_engine::text::secret::Secret| {
                own.bytes.start <= secret.bytes.start && own.bytes.end >= secret.bytes.end
            };
            assert!(alone.iter().any(|own| known(&own)));
        }
    }
});
