//! An accepted entry of a derived file is one line with an object, and displays as it was parsed.
#![no_main]

use garth_agent::session::{Entry, EntryKind};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for kind in EntryKind::ALL {
        if let Ok(entry) = Entry::parse(kind, text) {
            assert!(entry.line.starts_with('{') && !entry.line.contains('\n'), "{}", entry.line);
            assert!(Entry::parse(kind, &entry.line).is_ok_and(|again| again == entry), "{}", entry.line);
            assert_eq!(entry.fixed_sources().len(), entry.sources.len());
        }
    }
});
