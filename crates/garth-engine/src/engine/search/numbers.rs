//! Maps by numbers that garth assigns: passages, inodes, and places in a list. A search looks up tens of
//! thousands of them, which takes a multiplication each.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// Map by numbers.
pub(super) type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHash>>;
/// Set of numbers.
pub(super) type NumberSet<K> = HashSet<K, BuildHasherDefault<NumberHash>>;

/// An odd number without a pattern: 2^64 divided by the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hash of a number. Numbers are assigned in order, so that nobody can choose them to collide.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NumberHash(u64);

impl Hasher for NumberHash {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // A map takes its bucket from the low bits. Those of the product depend only on the low bits of the
        // number, so its high half is added.
        let product = u128::from(self.0 ^ number) * u128::from(FACTOR);
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn write_i64(&mut self, number: i64) {
        self.write_u64(number.cast_unsigned());
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use super::*;
    use crate::model::Ino;

    #[test]
    fn numbers_in_order_spread_over_buckets() {
        const BUCKETS: usize = 1_024;
        let build = BuildHasherDefault::<NumberHash>::default();
        for bits in [0, 1, 4, 10, 20, 32, 40] {
            let mut buckets = vec![0; BUCKETS];
            for number in 0..BUCKETS as i64 {
                let hash = build.hash_one(number << bits);
                assert_eq!(hash, build.hash_one(Ino((number << bits).cast_unsigned())));
                buckets[hash as usize % BUCKETS] += 1;
            }
            let most = buckets.iter().max();
            assert!(most <= Some(&12), "{most:?} of {BUCKETS} numbers with {bits} zeros are in one bucket");
        }
    }
}
