//! Bound on open resources that many owners share, such as the connections of all open databases: how many
//! may be idle, how many open in all, and who waits for room.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::threads::lock::lock;

/// Length of one wait of [`IdleBudget::wait`]. All turns together take 10 s, as long as SQLite waits for a
/// lock.
const TURN: Duration = Duration::from_millis(10);
const TURNS: usize = 1000;

/// Owner of idle resources.
pub(crate) trait IdleOwner: Send + Sync {
    /// Returns the tick of the budget at which it was last used; `None` if it has nothing idle.
    fn idle_since(&self) -> Option<u64>;
    /// Closes one idle resource. Returns `false` if there was none.
    fn close_one(&self) -> bool;
}

/// Bound on the resources that all owners hold open.
pub(crate) struct IdleBudget {
    most_idle: usize,
    most_open: usize,
    idle: AtomicUsize,
    open: AtomicUsize,
    clock: AtomicU64,
    owners: Mutex<Vec<Weak<dyn IdleOwner>>>,
    /// Threads that wait for room.
    waiting: AtomicUsize,
    turn: Mutex<()>,
    freed: Condvar,
}

/// Counts a resource while it is open, idle or not.
pub(crate) struct Opened(Arc<IdleBudget>);

impl IdleBudget {
    /// Returns a budget of at most `idle` idle resources, and `open` in all.
    pub(crate) fn new(idle: usize, open: usize) -> Arc<Self> {
        Arc::new(Self {
            most_idle: idle,
            most_open: open,
            idle: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            clock: AtomicU64::new(0),
            owners: Mutex::default(),
            waiting: AtomicUsize::new(0),
            turn: Mutex::default(),
            freed: Condvar::new(),
        })
    }

    /// Registers an owner, which may be asked to close idle resources.
    pub(crate) fn register(&self, owner: Weak<dyn IdleOwner>) {
        let mut owners = lock(&self.owners);
        // Dropped owners are removed whenever the list would grow, which bounds their number by that of the
        // others.
        if owners.len() == owners.capacity() {
            owners.retain(|owner| owner.strong_count() > 0);
        }
        owners.push(owner);
    }

    /// Counts a resource that is about to be opened, and closes an idle one if there is no room. It never
    /// waits: the caller holds something for which others may wait, so it opens the resource even without
    /// room.
    pub(crate) fn open(self: &Arc<Self>) -> Opened {
        if self.open.fetch_add(1, Ordering::SeqCst) >= self.most_open {
            self.close_oldest();
        }
        Opened(Arc::clone(self))
    }

    /// Counts a resource for a caller that holds nothing yet: waits until there is room. `None` if there is
    /// none for 10 s.
    pub(crate) fn wait(self: &Arc<Self>) -> Option<Opened> {
        for _ in 0..TURNS {
            let one_more = |open: usize| (open < self.most_open).then_some(open + 1);
            if self.open.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more).is_ok() {
                return Some(Opened(Arc::clone(self)));
            }
            if self.close_oldest() {
                continue;
            }
            self.waiting.fetch_add(1, Ordering::SeqCst);
            let turn = lock(&self.turn);
            // A notice just before this wait is missed; the end of the turn makes up for it.
            drop(self.freed.wait_timeout(turn, TURN).unwrap_or_else(PoisonError::into_inner));
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        None
    }

    /// Counts a resource that becomes idle and returns the tick of its use. The caller calls
    /// [`Self::enforce`] afterwards.
    pub(crate) fn add(&self) -> u64 {
        self.idle.fetch_add(1, Ordering::Relaxed);
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    /// Closes idle resources while there are too many. The caller must hold no lock of its owner.
    pub(crate) fn enforce(&self) {
        // An idle connection can be closed for a caller that waits for room.
        self.shrink(self.most_idle);
        self.notify();
    }

    /// Counts `count` resources that are no longer idle.
    pub(crate) fn remove(&self, count: usize) {
        self.idle.fetch_sub(count, Ordering::Relaxed);
    }

    /// Returns the number of open resources, and of idle ones among them.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.open.load(Ordering::Relaxed), self.idle.load(Ordering::Relaxed))
    }

    /// Closes idle resources, least recently used owners first, until at most `keep` are left. Returns true
    /// if any was closed.
    pub(crate) fn shrink(&self, keep: usize) -> bool {
        let mut closed = false;
        while self.idle.load(Ordering::Relaxed) > keep && self.close_oldest() {
            closed = true;
        }
        closed
    }

    fn close_oldest(&self) -> bool {
        // Owners are asked without the lock of the list: closing a connection takes time.
        let owners: Vec<_> = lock(&self.owners).iter().filter_map(Weak::upgrade).collect();
        let idle = owners.iter().filter_map(|owner| Some((owner.idle_since()?, owner)));
        idle.min_by_key(|(since, _)| *since).is_some_and(|(_, oldest)| oldest.close_one())
    }

    fn notify(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.freed.notify_all();
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
        self.0.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Owner(Mutex<Vec<(u64, Opened)>>, Arc<IdleBudget>);

    impl Owner {
        fn idle(&self) -> usize {
            lock(&self.0).len()
        }

        fn keep(&self, opened: Opened) {
            lock(&self.0).push((self.1.add(), opened));
            self.1.enforce();
        }
    }

    impl IdleOwner for Owner {
        fn idle_since(&self) -> Option<u64> {
            lock(&self.0).last().map(|(since, _)| *since)
        }

        fn close_one(&self) -> bool {
            let closed = lock(&self.0).pop().is_some();
            if closed {
                self.1.remove(1);
            }
            closed
        }
    }

    fn owners<const N: usize>(budget: &Arc<IdleBudget>) -> [Arc<Owner>; N] {
        [(); N].map(|()| {
            let owner = Arc::new(Owner(Mutex::default(), Arc::clone(budget)));
            let weak: Weak<dyn IdleOwner> = Arc::downgrade(&owner) as _;
            budget.register(weak);
            owner
        })
    }

    #[test]
    fn closes_least_recently_used_first() {
        let budget = IdleBudget::new(3, 100);
        let owners: [_; 5] = owners(&budget);
        for owner in &owners {
            owner.keep(budget.open());
        }
        assert_eq!(owners.each_ref().map(|owner| owner.idle()), [0, 0, 1, 1, 1]);
        assert!(budget.shrink(0));
        assert!(owners.iter().all(|owner| owner.idle() == 0));
        assert_eq!(budget.open.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn wait_ends_when_room_is_freed() {
        let budget = IdleBudget::new(2, 2);
        let [owner] = owners(&budget);
        let (first, second) = (budget.wait().unwrap(), budget.wait().unwrap());
        let waiter = std::thread::spawn({
            let budget = Arc::clone(&budget);
            move || budget.wait().is_some()
        });
        while budget.waiting.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        owner.keep(first);
        assert!(waiter.join().unwrap());
        assert_eq!(owner.idle(), 0, "it made room");
        drop(second);
        let held = [budget.wait().unwrap(), budget.wait().unwrap()];
        // `open` never waits, even without room: its caller holds something for which others wait.
        drop(budget.open());
        drop(held);
    }
}
