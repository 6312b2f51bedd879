//! The bound on idle resources that many owners share, such as the reading connections of all open databases.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use super::lock::lock;

/// An owner of idle resources.
pub(crate) trait IdleOwner: Send + Sync {
    /// The tick of the budget at which it was last used; `None` if it has nothing idle.
    fn idle_since(&self) -> Option<u64>;
    /// Closes one idle resource; `false` if there was none.
    fn close_one(&self) -> bool;
}

/// A bound on what all owners keep idle.
pub(crate) struct IdleBudget {
    limit: usize,
    idle: AtomicUsize,
    clock: AtomicU64,
    owners: Mutex<Vec<Weak<dyn IdleOwner>>>,
}

impl IdleBudget {
    /// At most `limit` idle resources in all.
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            idle: AtomicUsize::new(0),
            clock: AtomicU64::new(0),
            owners: Mutex::default(),
        })
    }

    /// Has an owner asked to close what it keeps idle.
    pub(crate) fn register(&self, owner: Weak<dyn IdleOwner>) {
        let mut owners = lock(&self.owners);
        // dropped owners are removed whenever the list would grow, which keeps their number below that of the
        // rest
        if owners.len() == owners.capacity() {
            owners.retain(|owner| owner.strong_count() > 0);
        }
        owners.push(owner);
    }

    /// Counts a resource that becomes idle; returns the tick of its use. [`Self::enforce`] comes after.
    pub(crate) fn add(&self) -> u64 {
        self.idle.fetch_add(1, Ordering::Relaxed);
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    /// Closes idle resources if there are too many. The caller holds none of its owner's locks.
    pub(crate) fn enforce(&self) {
        self.shrink(self.limit);
    }

    /// Counts resources that are idle no more.
    pub(crate) fn remove(&self, count: usize) {
        self.idle.fetch_sub(count, Ordering::Relaxed);
    }

    /// Closes idle resources, those of the owners used longest ago first, until at most `keep`
    /// are left. Whether any was closed.
    pub(crate) fn shrink(&self, keep: usize) -> bool {
        let mut closed = false;
        while self.idle.load(Ordering::Relaxed) > keep {
            let owners: Vec<_> = lock(&self.owners).iter().filter_map(Weak::upgrade).collect();
            let idle = owners.iter().filter_map(|owner| Some((owner.idle_since()?, owner)));
            let Some((_, oldest)) = idle.min_by_key(|(since, _)| *since) else { break };
            closed |= oldest.close_one();
        }
        closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Owner(Mutex<Vec<u64>>, Arc<IdleBudget>);

    impl Owner {
        fn idle(&self) -> usize {
            lock(&self.0).len()
        }
    }

    impl IdleOwner for Owner {
        fn idle_since(&self) -> Option<u64> {
            lock(&self.0).last().copied()
        }

        fn close_one(&self) -> bool {
            let closed = lock(&self.0).pop().is_some();
            if closed {
                self.1.remove(1);
            }
            closed
        }
    }

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let budget = IdleBudget::new(3);
        let owners: Vec<_> = (0..5).map(|_| Arc::new(Owner(Mutex::default(), Arc::clone(&budget)))).collect();
        for owner in &owners {
            let weak: Weak<dyn IdleOwner> = Arc::downgrade(owner) as _;
            budget.register(weak);
        }
        for owner in &owners {
            lock(&owner.0).push(budget.add());
            budget.enforce();
        }
        let idle: Vec<_> = owners.iter().map(|owner| owner.idle()).collect();
        assert_eq!(idle, [0, 0, 1, 1, 1]);
        assert!(budget.shrink(0));
        assert!(owners.iter().all(|owner| owner.idle() == 0));
    }
}
