//! Postings as they are stored: the passages of a token, by blocks of passages with adjacent numbers. A
//! passage is two bytes in its block, so that a merge appends to a row without reading it.

/// Number of passages of a block. The row of a token that all of them have takes 8 KiB.
const PASSAGES: i64 = 1 << BITS;
const BITS: u32 = 12;
/// Words of a set of the passages of one block.
const SET: usize = (PASSAGES / 64) as usize;

/// Returns the block of a passage.
pub(super) fn block_of(id: i64) -> i64 {
    id >> BITS
}

/// Returns a passage as its block stores it.
pub(super) fn place_of(id: i64) -> [u8; 2] {
    ((id & (PASSAGES - 1)) as u16).to_be_bytes()
}

/// Passages of one block.
pub(super) struct BlockSet([u64; SET]);

impl BlockSet {
    /// Returns the passages of a row.
    pub(super) fn of(places: &[u8]) -> Self {
        let mut set = Self([0; SET]);
        set.each(places, |word, bit| *word |= bit);
        set
    }

    /// Removes the passages of another row of the block.
    #[must_use]
    pub(super) fn without(mut self, places: &[u8]) -> Self {
        self.each(places, |word, bit| *word &= !bit);
        self
    }

    fn each(&mut self, places: &[u8], change: impl Fn(&mut u64, u64)) {
        let (places, _) = places.as_chunks::<2>();
        for place in places {
            let place = usize::from(u16::from_be_bytes(*place));
            // Only damage has a place beyond the block.
            if let Some(word) = self.0.get_mut(place / 64) {
                change(word, 1 << (place % 64));
            }
        }
    }

    /// Returns the number of passages.
    pub(super) fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Adds the numbers of the passages of block `block`, newest first.
    pub(super) fn add_to(&self, block: i64, ids: &mut Vec<i64>) {
        ids.reserve(self.count());
        for (number, word) in self.0.iter().enumerate().rev() {
            let mut rest = *word;
            while rest != 0 {
                let bit = 63 - rest.leading_zeros();
                rest &= !(1 << bit);
                ids.push((block << BITS) + (number as i64 * 64) + i64::from(bit));
            }
        }
    }

    /// Returns the passages as a row stores them.
    pub(super) fn places(&self) -> Vec<u8> {
        let mut ids = Vec::new();
        self.add_to(0, &mut ids);
        ids.iter().rev().flat_map(|id| place_of(*id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids_of(set: &BlockSet, block: i64) -> Vec<i64> {
        let mut ids = Vec::new();
        set.add_to(block, &mut ids);
        ids
    }

    #[test]
    fn rows_are_read_back_newest_first() {
        let ids = [8192, 8193, 8255, 8256, 9000, 12_287];
        assert!(ids.iter().all(|id| block_of(*id) == 2));
        // Rows are appended to in any order.
        let places: Vec<u8> = ids.iter().rev().flat_map(|id| place_of(*id)).collect();
        let set = BlockSet::of(&places);
        assert_eq!(ids_of(&set, 2), [12_287, 9000, 8256, 8255, 8193, 8192]);
        assert_eq!(set.count(), ids.len());
        assert_eq!(BlockSet::of(&set.places()).places(), set.places());
    }

    #[test]
    fn removed_passages_are_left_out() {
        let row = |ids: &[i64]| ids.iter().flat_map(|id| place_of(*id)).collect::<Vec<u8>>();
        let set = BlockSet::of(&row(&[1, 2, 4095])).without(&row(&[2, 7]));
        assert_eq!(ids_of(&set, 0), [4095, 1]);
        assert_eq!(set.without(&row(&[1, 4095])).count(), 0);
    }

    #[test]
    fn damaged_rows_are_read_without_a_panic() {
        assert_eq!(BlockSet::of(&[0xff, 0xff, 0]).count(), 0);
    }
}
