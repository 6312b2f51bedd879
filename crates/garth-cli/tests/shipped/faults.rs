//! Planted faults are compiled into debug builds alone.

#[test]
fn release_build_has_no_planted_faults() {
    let program = std::fs::read(env!("CARGO_BIN_EXE_garth")).expect("the program");
    let has = |text: &str| program.windows(text.len()).any(|part| part == text.as_bytes());
    // the variable that switches a fault on; that the debug build has it shows that the search works
    assert_eq!(has("GARTH_FAULT"), cfg!(debug_assertions));
    assert!(has("GARTH_DATA"));
}
