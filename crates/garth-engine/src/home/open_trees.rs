//! Open trees: at most one instance of each account in a process, and a bounded number that stays open
//! unused.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, Weak};

use futures::lock::{self as async_lock, OwnedMutexGuard};

use crate::error::{Error, ErrorKind, Result};
use crate::threads::lock::lock;

/// Instance of one tree while anybody holds it. The lock is held while the tree is opened: one caller opens
/// it and the others wait, without a thread and without delaying other trees.
type Slot<T> = Arc<async_lock::Mutex<Weak<T>>>;

/// Turn to open one tree. It ends when it is dropped.
pub type Turn<T> = OwnedMutexGuard<Weak<T>>;

/// Open trees by the name of their folder.
pub struct OpenTrees<T> {
    capacity: usize,
    /// Returns true if an instance may be returned again. One whose storage failed is released, to be opened
    /// again.
    is_sound: fn(&T) -> bool,
    state: Mutex<State<T>>,
}

struct State<T> {
    slots: HashMap<String, Slot<T>>,
    /// Trees kept open, with the tick of their last use.
    kept: HashMap<String, (u64, Arc<T>)>,
    /// Names of `kept` by tick, least recently used first.
    by_use: BTreeMap<u64, String>,
    tick: u64,
}

impl<T> fmt::Debug for OpenTrees<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenTrees").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

impl<T> OpenTrees<T> {
    /// Returns a cache that keeps at most `capacity` trees open unused.
    pub fn new(capacity: usize, is_sound: fn(&T) -> bool) -> Self {
        let state = State { slots: HashMap::new(), kept: HashMap::new(), by_use: BTreeMap::new(), tick: 0 };
        Self { capacity, is_sound, state: Mutex::new(state) }
    }

    /// Waits for the turn to open the tree of this name.
    pub async fn turn(&self, name: &str) -> Turn<T> {
        // The lock of the map is released before the wait.
        let slot = lock(&self.state).slots.entry(name.to_owned()).or_default().clone();
        slot.lock_owned().await
    }

    /// Returns the instance of this name, and opens it if there is none.
    ///
    /// # Errors
    /// Errors of `open`; as [`held`](Self::held).
    pub fn get(
        &self,
        name: &str,
        turn: &mut Turn<T>,
        open: impl FnOnce() -> Result<Arc<T>>,
    ) -> Result<Arc<T>> {
        match self.held(name, turn)? {
            Some(tree) => Ok(tree),
            None => Ok(self.put(name, turn, open()?)),
        }
    }

    /// Returns the instance of this name that is kept open or that a caller holds, and keeps it open.
    ///
    /// # Errors
    /// `Poisoned` while anybody holds an instance whose storage failed: the disk is read again only once
    /// nobody has it open.
    pub fn held(&self, name: &str, turn: &mut Turn<T>) -> Result<Option<Arc<T>>> {
        if let Some(tree) = self.kept(name) {
            return Ok(Some(tree));
        }
        // Not kept, but a caller may still hold it: a second instance would have its own caches and writer.
        match turn.upgrade() {
            Some(tree) if (self.is_sound)(&tree) => Ok(Some(self.put(name, turn, tree))),
            Some(_) => Err(still_open()),
            None => Ok(None),
        }
    }

    /// Keeps an instance open that was opened in its turn. Returns it.
    pub fn put(&self, name: &str, turn: &mut Turn<T>, tree: Arc<T>) -> Arc<T> {
        **turn = Arc::downgrade(&tree);
        // Dropped without the lock: closing a tree takes time.
        let evicted = lock(&self.state).keep(name, &tree, self.capacity);
        drop(evicted);
        tree
    }

    /// Returns the instance of this name, if it is kept open.
    pub fn kept(&self, name: &str) -> Option<Arc<T>> {
        let tree = lock(&self.state).touch(name)?;
        if (self.is_sound)(&tree) {
            return Some(tree);
        }
        self.forget(name);
        None
    }

    /// Drops all trees that are kept open. Returns true if there was one.
    pub fn evict_all(&self) -> bool {
        let evicted = {
            let mut state = lock(&self.state);
            state.by_use.clear();
            std::mem::take(&mut state.kept)
        };
        !evicted.is_empty()
    }

    /// Stops keeping the tree of this name open, and returns the instance that anybody has.
    pub fn take(&self, name: &str) -> Option<Arc<T>> {
        let (kept, slot) = {
            let mut state = lock(&self.state);
            (state.take(name), state.slots.get(name).cloned())
        };
        kept.or_else(|| {
            let slot = slot?;
            // Locked while it is being opened: by then nobody has it.
            slot.try_lock()?.upgrade()
        })
    }

    /// Returns the names of all trees that anybody may have open.
    pub fn names(&self) -> Vec<String> {
        let is_open = |slot: &Slot<T>| slot.try_lock().is_none_or(|tree| tree.strong_count() > 0);
        let state = lock(&self.state);
        state.slots.iter().filter(|(_, slot)| is_open(slot)).map(|(name, _)| name.clone()).collect()
    }

    /// Stops keeping the tree of this name open; callers that hold it still do.
    pub fn forget(&self, name: &str) {
        // Dropped without the lock, as above.
        let tree = lock(&self.state).take(name);
        drop(tree);
    }
}

fn still_open() -> Error {
    let message = "the storage failed earlier; close all handles of the account, then open it again";
    Error::new(ErrorKind::Poisoned, message)
}

impl<T> State<T> {
    fn touch(&mut self, name: &str) -> Option<Arc<T>> {
        let (used, tree) = self.kept.get_mut(name)?;
        let tree = tree.clone();
        // The most recently used one, as most often, needs no change.
        if *used != self.tick {
            let entry = self.by_use.remove(used)?;
            self.tick += 1;
            *used = self.tick;
            self.by_use.insert(self.tick, entry);
        }
        Some(tree)
    }

    /// Keeps a tree open and returns those that have to make room for it.
    fn keep(&mut self, name: &str, tree: &Arc<T>, capacity: usize) -> Vec<Arc<T>> {
        if self.touch(name).is_some() {
            return Vec::new();
        }
        self.tick += 1;
        self.kept.insert(name.to_owned(), (self.tick, tree.clone()));
        self.by_use.insert(self.tick, name.to_owned());
        let mut evicted = Vec::new();
        while self.kept.len() > capacity {
            let Some((_, oldest)) = self.by_use.pop_first() else { break };
            evicted.extend(self.kept.remove(&oldest).map(|(_, tree)| tree));
        }
        // Names of trees that are closed by now; pruned rarely, so that the cost per call stays constant.
        if self.slots.len() > 2 * capacity + self.kept.len() {
            // A slot with a second owner is in use by another thread.
            self.slots.retain(|_, slot| {
                Arc::strong_count(slot) > 1 || slot.try_lock().is_none_or(|tree| tree.strong_count() > 0)
            });
        }
        evicted
    }

    fn take(&mut self, name: &str) -> Option<Arc<T>> {
        let (used, tree) = self.kept.remove(name)?;
        self.by_use.remove(&used);
        Some(tree)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use futures::executor::block_on;

    use super::*;

    fn get<T>(cache: &OpenTrees<T>, name: &str, open: impl FnOnce() -> Result<Arc<T>>) -> Result<Arc<T>> {
        cache.get(name, &mut block_on(cache.turn(name)), open)
    }

    fn opened(cache: &OpenTrees<u32>, name: &str, opens: &mut u32) -> Arc<u32> {
        get(cache, name, || {
            *opens += 1;
            Ok(Arc::new(*opens))
        })
        .unwrap()
    }

    #[test]
    fn recently_used_trees_stay_open() {
        let (cache, mut opens) = (OpenTrees::new(2, |_| true), 0);
        opened(&cache, "a", &mut opens);
        opened(&cache, "b", &mut opens);
        opened(&cache, "a", &mut opens);
        opened(&cache, "c", &mut opens);
        assert_eq!(opens, 3, "a was open already");
        assert_eq!(*opened(&cache, "a", &mut opens), 1, "a was used after b");
        assert_eq!(*opened(&cache, "b", &mut opens), 4, "b made room for c");
    }

    #[test]
    fn evicted_instance_in_use_is_shared() {
        let (cache, mut opens) = (OpenTrees::new(1, |_| true), 0);
        let held = opened(&cache, "a", &mut opens);
        for other in 0..20 {
            opened(&cache, &other.to_string(), &mut opens);
        }
        assert!(Arc::ptr_eq(&held, &opened(&cache, "a", &mut opens)));
        assert!(lock(&cache.state).slots.len() <= 5, "slots of closed trees are dropped");
        assert_eq!(lock(&cache.state).kept.len(), 1);
    }

    #[test]
    fn failed_open_is_retried() {
        let cache = OpenTrees::<u32>::new(1, |_| true);
        let error = get(&cache, "a", || Err(crate::Error::invalid("no"))).unwrap_err();
        assert_eq!(error.message(), "no");
        assert_eq!(*get(&cache, "a", || Ok(Arc::new(7))).unwrap(), 7);
    }

    #[test]
    fn failed_instance_reopens_once_released() {
        let cache = OpenTrees::<AtomicBool>::new(2, |sound| sound.load(Ordering::Relaxed));
        let open = || get(&cache, "a", || Ok(Arc::new(AtomicBool::new(true))));
        let held = open().unwrap();
        held.store(false, Ordering::Relaxed);
        assert!(cache.kept("a").is_none());
        assert!(open().unwrap_err().is(ErrorKind::Poisoned));
        drop(held);
        assert!(open().unwrap().load(Ordering::Relaxed));
    }

    #[test]
    fn concurrent_opens_share_one_instance() {
        let cache = OpenTrees::<u32>::new(1, |_| true);
        let trees: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|n| {
                    scope.spawn({
                        let cache = &cache;
                        move || get(cache, "a", || Ok(Arc::new(n)))
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect()
        });
        assert!(trees.iter().all(|tree| Arc::ptr_eq(tree, &trees[0])));
    }
}
