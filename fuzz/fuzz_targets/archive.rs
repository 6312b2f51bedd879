//! Archives of sessions: arbitrary bytes give lines or an error in bounded memory, however the bytes are
//! split.

#![no_main]

use std::cell::RefCell;

use garth_agent::workspace::Unpacked;
use libfuzzer_sys::fuzz_target;

/// Bytes of lines after which reading stops.
const ENOUGH: usize = 1 << 20;

fn lines(bytes: &[u8], step: usize) -> Option<Vec<String>> {
    let taken = RefCell::new((Vec::new(), 0));
    let take = |line: String| {
        let mut taken = taken.borrow_mut();
        taken.1 += line.len();
        taken.0.push(line);
        Ok(taken.1 < ENOUGH)
    };
    let mut unpacked = Unpacked::default();
    for piece in bytes.chunks(step) {
        match unpacked.feed(piece, take) {
            Ok(true) => {}
            Ok(false) => return Some(taken.into_inner().0),
            Err(_) => return None,
        }
    }
    unpacked.end(take).ok()?;
    Some(taken.into_inner().0)
}

fuzz_target!(|bytes: &[u8]| {
    let (whole, cut) = (lines(bytes, bytes.len().max(1)), lines(bytes, 7));
    if let (Some(whole), Some(cut)) = (whole, cut) {
        assert_eq!(whole, cut);
    }
});
