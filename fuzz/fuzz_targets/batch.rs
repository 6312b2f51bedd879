//! A batch parsed from JSON serializes to the same batch.
#![no_main]

use garth_engine::model::Batch;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    if let Ok(batch) = serde_json::from_slice::<Batch>(text) {
        let written = serde_json::to_string(&batch).expect("a batch is written");
        let again: Batch = serde_json::from_str(&written).expect("what is written is read");
        assert_eq!(serde_json::to_string(&again).expect("a batch is written"), written);
    }
});
