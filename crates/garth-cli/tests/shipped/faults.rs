//! Planted faults exist only in debug builds.

use crate::garth::program;

#[test]
fn release_build_has_no_planted_faults() {
    let is_own_build = program() == std::path::Path::new(env!("CARGO_BIN_EXE_garth"));
    let program = std::fs::read(program()).expect("the program");
    let has = |text: &str| program.windows(text.len()).any(|part| part == text.as_bytes());
    // This variable switches a fault on; that the debug build has it shows that the search works.
    assert_eq!(has("GARTH_FAULT"), is_own_build && cfg!(debug_assertions));
    assert!(has("GARTH_DATA"));
}
