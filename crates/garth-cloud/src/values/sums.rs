//! Checksums of stored content.

use garth_engine::engine::planner::{MAX_EXTENT, SHORT_SUM, sum_of};

/// Returns true if the bytes of a chunk match its sum. A chunk that is not shared has the beginning of the
/// hash.
pub(crate) fn is_sound(sum: &[u8], data: &[u8]) -> bool {
    data.len() <= MAX_EXTENT && !sum.is_empty() && sum_of(data, sum.len() > SHORT_SUM) == sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_bytes_are_not_sound() {
        let data = &b"0123456789"[..];
        for dedup in [false, true] {
            assert!(is_sound(&sum_of(data, dedup), data));
            assert!(!is_sound(&sum_of(b"other", dedup), data));
        }
        assert!(!is_sound(b"sum", data) && !is_sound(b"", data));
    }
}
