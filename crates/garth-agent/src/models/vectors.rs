//! Vectors of texts, and a cache of them in memory.
//!
//! Vectors are never stored: a file of an account keeps its history, so that a vector would outlive its text.
//! `docs/decisions/embeddings-in-memory.md` has the reasons.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::corrections::Corrections;
use super::pauses::Pauses;
use garth_engine::model::Timestamp;

/// Default size of a cache of vectors, 64 MiB: about 40,000 vectors of 1,536 numbers.
pub const VECTOR_BUDGET: usize = 64 << 20;

/// Seconds after which a vector is dropped, a day. The text may be deleted by then.
const MAX_AGE: i64 = 86_400;
/// Approximate number of bytes that a cached vector takes besides its numbers.
const ENTRY: usize = 160;
/// Largest number of a vector.
const LARGEST: f32 = 127.0;

/// Vector of a text, with numbers of one byte. Only its direction counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Vector(Arc<[i8]>);

impl Vector {
    /// Rounds numbers to bytes, relative to the largest. Returns `None` if they have no direction, or one of
    /// them is not finite.
    pub(crate) fn of(numbers: &[f32]) -> Option<Self> {
        let largest = numbers.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
        // `max` ignores a number that is none.
        if largest == 0.0 || numbers.iter().any(|number| !number.is_finite()) {
            return None;
        }
        Some(Self(numbers.iter().map(|number| (number / largest * LARGEST).round() as i8).collect()))
    }

    /// Returns the cosine of the angle between two vectors; `None` if their lengths differ, because they are
    /// of different models.
    pub(crate) fn cosine(&self, other: &Self) -> Option<f64> {
        if self.0.len() != other.0.len() {
            return None;
        }
        let product = |one: &Self, other: &Self| -> i64 {
            one.0.iter().zip(&*other.0).map(|(one, other)| i64::from(*one) * i64::from(*other)).sum()
        };
        // The largest number of each is not 0, and neither is its length.
        let lengths = (product(self, self) as f64 * product(other, other) as f64).sqrt();
        Some(product(self, other) as f64 / lengths)
    }
}

/// Key of a cached vector: hash of the model and the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TextKey(blake3::Hash);

impl TextKey {
    pub(crate) fn new(model: &str, text: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        // With its length, so that the name cannot pass for the beginning of a text.
        hasher.update(&(model.len() as u64).to_le_bytes()).update(model.as_bytes()).update(text.as_bytes());
        Self(hasher.finalize())
    }
}

/// Cache of the vectors that were computed last, of all accounts. Each account has its own, so that neither
/// an answer nor its time depends on the texts of another. One account uses half of the cache at most.
/// Vectors are dropped a day after they were computed, by the next use of the cache.
///
/// It also knows the accounts that ask nothing for a while, because the service failed, and corrections of
/// their counted tokens.
pub struct VectorCache {
    budget: usize,
    shelves: Mutex<Shelves>,
    pauses: Pauses,
    corrections: Corrections,
}

/// Vectors of all accounts.
#[derive(Default)]
struct Shelves {
    /// Shelves that are not empty.
    accounts: HashMap<Arc<str>, Shelf>,
    /// Accounts with the time of their oldest vector, so that no use of the cache passes all accounts.
    oldest: BTreeSet<(Timestamp, Arc<str>)>,
    bytes: usize,
}

/// Vectors of one account.
#[derive(Default)]
struct Shelf {
    vectors: HashMap<TextKey, Vector>,
    /// Keys with the times at which their vectors were computed, oldest first.
    order: VecDeque<(Timestamp, TextKey)>,
    bytes: usize,
}

impl Default for VectorCache {
    fn default() -> Self {
        Self::with_budget(VECTOR_BUDGET)
    }
}

impl VectorCache {
    /// Returns a cache of at most `budget` bytes. With 0 it holds nothing.
    pub fn with_budget(budget: usize) -> Self {
        Self {
            budget,
            shelves: Mutex::default(),
            pauses: Pauses::default(),
            corrections: Corrections::default(),
        }
    }

    /// Returns the number of cached bytes, and of vectors.
    pub fn held(&self) -> (usize, usize) {
        let shelves = self.lock();
        (shelves.bytes, shelves.accounts.values().map(|shelf| shelf.vectors.len()).sum())
    }

    /// Returns the known vectors of an account for these keys.
    pub(crate) fn get(&self, account: &str, now: Timestamp, keys: &[TextKey]) -> HashMap<TextKey, Vector> {
        let mut shelves = self.lock();
        shelves.expire(now);
        let Some(shelf) = shelves.accounts.get(account) else { return HashMap::new() };
        keys.iter().filter_map(|key| Some((*key, shelf.vectors.get(key)?.clone()))).collect()
    }

    /// Adds vectors of an account. If they do not fit, the oldest ones are dropped.
    pub(crate) fn put(&self, account: &str, now: Timestamp, vectors: &HashMap<TextKey, Vector>) {
        let account: Arc<str> = Arc::from(account);
        let mut shelves = self.lock();
        shelves.expire(now);
        for (key, vector) in vectors {
            shelves.put((&account, now), *key, vector, self.budget);
        }
    }

    /// Drops all vectors of an account.
    pub(crate) fn forget(&self, account: &str) {
        let mut shelves = self.lock();
        if let Some((account, shelf)) = shelves.accounts.remove_entry(account) {
            shelves.bytes -= shelf.bytes;
            if let Some(time) = shelf.oldest() {
                shelves.oldest.remove(&(time, account));
            }
        }
    }

    /// Returns the pauses after failures of the service.
    pub(crate) fn pauses(&self) -> &Pauses {
        &self.pauses
    }

    /// Returns the corrections of counted tokens.
    pub(crate) fn corrections(&self) -> &Corrections {
        &self.corrections
    }

    fn lock(&self) -> MutexGuard<'_, Shelves> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for VectorCache {
    /// Leaves out the vectors, which say something about the texts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VectorCache").field("budget", &self.budget).finish_non_exhaustive()
    }
}

impl Shelves {
    /// Drops what is too old.
    fn expire(&mut self, now: Timestamp) {
        while let Some((time, account)) = self.oldest.first()
            && time.plus_seconds(MAX_AGE) <= now
        {
            let account = Arc::clone(account);
            self.drop_oldest_of(&account);
        }
    }

    fn put(&mut self, (account, now): (&Arc<str>, Timestamp), key: TextKey, vector: &Vector, budget: usize) {
        let size = bytes_of(vector);
        if size > budget / 2 {
            return;
        }
        let shelf = self.accounts.entry(Arc::clone(account)).or_default();
        // Two concurrent recalls can ask for the same text.
        if shelf.vectors.contains_key(&key) {
            return;
        }
        if shelf.order.is_empty() {
            self.oldest.insert((now, Arc::clone(account)));
        }
        shelf.vectors.insert(key, vector.clone());
        shelf.order.push_back((now, key));
        shelf.bytes += size;
        self.bytes += size;
        while self.accounts.get(account).is_some_and(|shelf| shelf.bytes > budget / 2) {
            self.drop_oldest_of(account);
        }
        while self.bytes > budget {
            let Some((_, account)) = self.oldest.first() else { break };
            let account = Arc::clone(account);
            self.drop_oldest_of(&account);
        }
    }

    /// Drops the oldest vector of an account.
    fn drop_oldest_of(&mut self, account: &Arc<str>) {
        let Some(shelf) = self.accounts.get_mut(account) else { return };
        let Some((time, key)) = shelf.order.pop_front() else { return };
        let size = shelf.vectors.remove(&key).as_ref().map_or(0, bytes_of);
        shelf.bytes -= size;
        self.bytes -= size;
        let next = shelf.oldest();
        self.oldest.remove(&(time, Arc::clone(account)));
        if let Some(next) = next {
            self.oldest.insert((next, Arc::clone(account)));
        } else {
            self.accounts.remove(account);
        }
    }
}

impl Shelf {
    /// Returns the time of the oldest vector.
    fn oldest(&self) -> Option<Timestamp> {
        self.order.front().map(|(time, _)| *time)
    }
}

fn bytes_of(vector: &Vector) -> usize {
    ENTRY + vector.0.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_769_472_000_000_000_000);

    fn vector(numbers: &[f32]) -> Vector {
        Vector::of(numbers).unwrap()
    }

    fn put(cache: &VectorCache, account: &str, now: Timestamp, text: &str) {
        let vectors = HashMap::from([(TextKey::new("m", text), vector(&[1.0; 40]))]);
        cache.put(account, now, &vectors);
    }

    fn has(cache: &VectorCache, account: &str, now: Timestamp, text: &str) -> bool {
        !cache.get(account, now, &[TextKey::new("m", text)]).is_empty()
    }

    #[test]
    fn rounded_vectors_keep_their_cosine() {
        let (one, other) = ([0.3, -0.2, 0.9, 0.01], [0.1, 0.4, 0.8, -0.3]);
        let exact = |one: &[f32], other: &[f32]| -> f32 {
            let product = |one: &[f32], other: &[f32]| one.iter().zip(other).map(|(a, b)| a * b).sum::<f32>();
            product(one, other) / (product(one, one) * product(other, other)).sqrt()
        };
        let cosine = vector(&one).cosine(&vector(&other)).unwrap();
        assert!((cosine - f64::from(exact(&one, &other))).abs() < 0.01, "{cosine}");
        // Numbers so small that their inverse is infinite.
        let tiny = vector(&[1e-40, 0.0]);
        assert_eq!(tiny.cosine(&vector(&[5.0, 0.0])), Some(1.0));
        assert_eq!(tiny.cosine(&vector(&[1.0])), None);
        for wrong in [&[0.0, 0.0][..], &[], &[f32::NAN, 1.0], &[f32::INFINITY, 1.0]] {
            assert_eq!(Vector::of(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn vector_cache_is_bounded_and_drops_oldest() {
        // Room for four vectors, two of them of one account.
        let cache = VectorCache::with_budget(4 * (ENTRY + 40));
        for (second, text) in (0..).zip(["a", "b", "c"]) {
            put(&cache, "one", NOW.plus_seconds(second), text);
        }
        assert!(!has(&cache, "one", NOW, "a"), "an account has half of the room");
        assert!(has(&cache, "one", NOW, "b") && has(&cache, "one", NOW, "c"));
        for (account, text) in [("two", "d"), ("two", "e"), ("three", "f")] {
            put(&cache, account, NOW.plus_seconds(9), text);
        }
        assert_eq!(cache.held(), (4 * (ENTRY + 40), 4));
        assert!(!has(&cache, "one", NOW, "b") && has(&cache, "one", NOW, "c"), "the oldest is dropped");
        // A repeated vector counts once, and one that is too large is not cached.
        put(&cache, "three", NOW.plus_seconds(9), "f");
        let large = HashMap::from([(TextKey::new("m", "g"), vector(&[1.0; 400]))]);
        cache.put("three", NOW.plus_seconds(9), &large);
        assert_eq!(cache.held(), (4 * (ENTRY + 40), 4));
        let none = VectorCache::with_budget(0);
        put(&none, "one", NOW, "a");
        assert_eq!(none.held(), (0, 0));
    }

    #[test]
    fn vectors_expire_after_a_day() {
        let cache = VectorCache::default();
        put(&cache, "one", NOW, "a");
        put(&cache, "one", NOW.plus_seconds(60), "b");
        assert!(has(&cache, "one", NOW.plus_seconds(MAX_AGE - 1), "a"));
        // The vectors of an account that nobody asks for expire, too.
        assert!(!has(&cache, "other", NOW.plus_seconds(MAX_AGE), "a"));
        assert_eq!(cache.held().1, 1);
        assert!(!has(&cache, "one", NOW.plus_seconds(MAX_AGE + 60), "b"));
        assert_eq!(cache.held(), (0, 0));
    }

    #[test]
    fn vectors_are_separate_by_account_and_model() {
        let cache = VectorCache::default();
        put(&cache, "one", NOW, "a");
        assert!(has(&cache, "one", NOW, "a") && !has(&cache, "two", NOW, "a"));
        assert!(cache.get("one", NOW, &[TextKey::new("n", "a"), TextKey::new("", "ma")]).is_empty());
        put(&cache, "two", NOW, "a");
        cache.forget("one");
        assert!(!has(&cache, "one", NOW, "a") && has(&cache, "two", NOW, "a"));
        assert_eq!(cache.held().1, 1);
        let shelves = cache.lock();
        assert_eq!((shelves.accounts.len(), shelves.oldest.len()), (1, 1));
    }
}
