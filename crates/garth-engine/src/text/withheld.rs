//! Blanks lines of a text that must not be shown. All others keep their places.

/// Returns a text with spaces in place of withheld lines. `first` is the number of its first line, whose
/// beginning may be missing.
pub fn blanked(mut text: Vec<u8>, first: u64, is_withheld: impl Fn(u64) -> bool) -> Vec<u8> {
    for (number, line) in (first..).zip(text.split_mut(|byte| *byte == b'\n')) {
        if is_withheld(number) {
            line.fill(b' ');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_lines_by_number() {
        let blank = |lines: &[u64]| blanked(b"one\ntwo\nthree".to_vec(), 7, |line| lines.contains(&line));
        assert_eq!(blank(&[8]), b"one\n   \nthree");
        assert_eq!(blank(&[7, 9]), b"   \ntwo\n     ");
        assert_eq!(blank(&[]), b"one\ntwo\nthree");
    }
}
