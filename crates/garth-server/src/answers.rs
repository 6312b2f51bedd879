//! Memory for answers that wait for their clients, for long bodies that arrive, for files that are sent and
//! received, and for recalls that wait for the embedding service; turns of calls that wait for the language
//! model, and of the calls of an account. Clients that ask for long answers
//! and do not read them, or send long bodies and do not finish them, hold a bounded part of the server's
//! memory, and one account leaves room for the others. So does a service that hangs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use garth_agent::kv::MAX_PAGE_VALUES;
use garth_agent::models::ServiceError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tracing::Instrument as _;

use crate::errors::Refusal;
use crate::limits::Limits;

/// Longest answer in bytes that takes no room. Each connection has at most one, and costs as much itself.
const SMALL: usize = 16 << 10;
/// Bytes reserved for a page of values while it is built: the values and their JSON. A recall reads as much.
pub(crate) const PAGE: usize = 2 * MAX_PAGE_VALUES;

/// Message of a refused answer.
const TOO_MANY_ANSWERS: &str = "too many long answers wait to be taken; take them, or try again later";

/// Unit of room, 1 KiB. Counted in bytes, a large room would exceed the permits of a semaphore.
const UNIT: usize = 1 << 10;

/// Room of one server, for answers, for bodies, for files, for recalls, for calls that ask the language model
/// or for calls of any kind.
#[derive(Debug)]
pub(crate) struct Rooms {
    all: Arc<Semaphore>,
    /// Permits of `all`, free or not.
    permits: usize,
    /// Answers, bodies and calls that waited in vain.
    refused: AtomicU64,
    /// Limit on the bytes of one account.
    share: usize,
    /// Time that an answer, body or call waits for room.
    wait: Duration,
    /// Shares of the accounts that hold or wait for room.
    accounts: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// Use of a room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoomCounts {
    /// Part that is in use, 0 to 1.
    pub(crate) used: f64,
    /// Answers, bodies and calls that waited in vain.
    pub(crate) refused: u64,
}

/// Room for one answer, body or call, until dropped.
#[derive(Debug)]
pub(crate) struct Room {
    of_account: OwnedSemaphorePermit,
    of_all: OwnedSemaphorePermit,
}

impl Rooms {
    /// Returns the room for answers. One account uses half of it at most.
    pub(crate) fn for_answers(limits: &Limits) -> Self {
        Self::new(limits.answer_room, limits.answer_room / 2, limits.room_wait)
    }

    /// Returns the room for long bodies. One account uses a third of it at most.
    pub(crate) fn for_bodies(limits: &Limits) -> Self {
        Self::new(limits.body_room, limits.body_room / 3, limits.room_wait)
    }

    /// Returns the room for files that are sent and received. One account uses a third of it at most.
    pub(crate) fn for_transfers(limits: &Limits) -> Self {
        Self::new(limits.transfer_room, limits.transfer_room / 3, limits.room_wait)
    }

    /// Returns the room for recalls that may wait for the embedding service. One account uses half of it at
    /// most.
    pub(crate) fn for_recalls(limits: &Limits) -> Self {
        Self::new(limits.embedder_room, limits.embedder_room / 2, limits.room_wait)
    }

    /// Returns the room for calls that may wait for the language model, one unit each. One account uses half
    /// of it at most.
    pub(crate) fn for_models(limits: &Limits) -> Self {
        Self::new(limits.model_calls * UNIT, limits.model_calls / 2 * UNIT, limits.room_wait)
    }

    /// Returns the room for calls that run at once, one unit each. Only the share of each account is limited.
    pub(crate) fn for_calls(limits: &Limits) -> Self {
        Self::new(usize::MAX, limits.account_calls * UNIT, limits.room_wait)
    }

    fn new(bytes: usize, share: usize, wait: Duration) -> Self {
        let permits = bytes / UNIT;
        let (all, refused) = (Arc::new(Semaphore::new(permits)), AtomicU64::new(0));
        Self { all, permits, refused, share, wait, accounts: Mutex::default() }
    }

    /// Returns the permits for `bytes`, at most the share of an account: more would never be granted.
    fn units(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT).min(self.share / UNIT)).unwrap_or(u32::MAX)
    }

    /// Takes room for an answer of `bytes` to an account. Returns `None` if there is not enough now.
    pub(crate) fn room_now(&self, account: &str, bytes: usize) -> Option<Room> {
        let units = self.units(bytes);
        // The share of the account comes first, so that an account which has used it up takes nothing of the
        // others' room.
        let of_account = self.account(account).try_acquire_many_owned(units).ok()?;
        let of_all = Arc::clone(&self.all).try_acquire_many_owned(units).ok()?;
        Some(Room { of_account, of_all })
    }

    /// Waits for room for an answer of `bytes` to an account. Fails with `Unavailable` after `room_wait`.
    pub(crate) async fn answer(&self, account: &str, bytes: usize) -> Result<Room, Refusal> {
        self.room(account, bytes, TOO_MANY_ANSWERS).await
    }

    /// Waits for room for an answer of `bytes`, as [`Rooms::answer`] does. Returns `None` for a short one,
    /// which takes no room.
    pub(crate) async fn answer_if_long(&self, account: &str, bytes: usize) -> Result<Option<Room>, Refusal> {
        match bytes > SMALL {
            true => self.answer(account, bytes).await.map(Some),
            false => Ok(None),
        }
    }

    /// Returns the room of [`Rooms::answer_if_long`] without waiting, for an answer that takes memory
    /// already.
    pub(crate) fn answer_now_if_long(&self, account: &str, bytes: usize) -> Result<Option<Room>, Refusal> {
        match bytes > SMALL {
            true => match self.room_now(account, bytes) {
                Some(room) => Ok(Some(room)),
                None => Err(self.refuse(TOO_MANY_ANSWERS)),
            },
            false => Ok(None),
        }
    }

    /// Waits for room for a file of an account that is sent or received. Fails with `Unavailable` after
    /// `room_wait`.
    pub(crate) async fn transfer(&self, account: &str, bytes: usize) -> Result<Room, Refusal> {
        let message = "too many files are in transfer; send and read them to the end, or try again later";
        self.room(account, bytes, message).await
    }

    /// Waits for room for a recall of an account: what it reads, until it is answered. Returns `None` after
    /// `room_wait`.
    pub(crate) async fn recall(&self, account: &str) -> Option<Room> {
        self.room(account, PAGE, "too many recalls wait for the embedding service").await.ok()
    }

    /// Waits for the turn of a call that may ask the language model. Fails with `Unavailable` after
    /// `room_wait`.
    pub(crate) async fn model(&self, account: &str) -> Result<Room, Refusal> {
        let message = "too many calls wait for the language model; try again later, or do without it: send \
            \"by_model\": false";
        self.room(account, UNIT, message).await
    }

    /// Waits for the turn of a call among those of its account. Fails with `RATE_LIMITED` after `room_wait`:
    /// the account itself makes the calls that this one waits for.
    pub(crate) async fn call(&self, account: &str) -> Result<Room, Refusal> {
        let message =
            "too many calls of this account run at once; wait for their answers, or try again later";
        self.room(account, UNIT, message).await.map_err(|_| Refusal::rate_limited(message, 1))
    }

    /// Waits for room for `bytes` of an account. Fails with `Unavailable` and `message` after `room_wait`.
    pub(crate) async fn room(
        &self,
        account: &str,
        bytes: usize,
        message: &'static str,
    ) -> Result<Room, Refusal> {
        let units = self.units(bytes);
        let room = async {
            // Waits for its own share first: while it waits, it holds no room that other accounts could use.
            let of_account = self.account(account).acquire_many_owned(units).await.ok()?;
            let of_all = Arc::clone(&self.all).acquire_many_owned(units).await.ok()?;
            Some(Room { of_account, of_all })
        };
        // Nothing closes the semaphores, so this is always the timeout.
        timeout(self.wait, room).await.ok().flatten().ok_or_else(|| self.refuse(message))
    }

    fn refuse(&self, message: &str) -> Refusal {
        self.refused.fetch_add(1, Ordering::Relaxed);
        Refusal::no_room(message)
    }

    /// Returns the use of the room, and the number of refusals, for metrics.
    pub(crate) fn counts(&self) -> RoomCounts {
        let used = self.permits.saturating_sub(self.all.available_permits());
        let refused = self.refused.load(Ordering::Relaxed);
        RoomCounts { used: used as f64 / self.permits.max(1) as f64, refused }
    }

    fn account(&self, id: &str) -> Arc<Semaphore> {
        // A panic elsewhere leaves the map valid.
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = accounts.get(id).and_then(Weak::upgrade) {
            return share;
        }
        // Unused shares are dropped here, so that the map does not grow with every account ever served.
        accounts.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Semaphore::new(self.share / UNIT));
        accounts.insert(id.to_owned(), Arc::downgrade(&share));
        share
    }
}

impl Room {
    /// Returns `answer`, which holds as many KiB of room as it has until its last part is sent or dropped.
    pub(crate) fn hold(mut self, answer: Bytes) -> Bytes {
        // A short answer gives its room back at once: its connection costs as much anyway.
        if answer.len() <= SMALL {
            return answer;
        }
        // A page is reserved at its largest size. Now that the size is known, the others get the rest.
        let most = self.of_all.num_permits();
        let surplus = most.saturating_sub(answer.len().div_ceil(UNIT));
        drop((self.of_account.split(surplus), self.of_all.split(surplus)));
        Bytes::from_owner(HeldAnswer { answer, _room: self })
    }
}

/// Model or embedding service for one call. It holds the room of the call, which may wait for the service.
#[derive(Debug)]
pub(crate) struct InRoom<S: ?Sized> {
    pub(crate) service: Arc<S>,
    room: Option<Arc<Room>>,
}

impl<S: ?Sized> InRoom<S> {
    /// Returns a service with the room of a call. Without room, the service is not asked.
    pub(crate) fn new(service: &Arc<S>, room: Option<Room>) -> Self {
        Self { service: Arc::clone(service), room: room.map(Arc::new) }
    }

    /// Runs a request to the service, if there is room.
    ///
    /// # Errors
    /// `Busy` without room; `Unreachable` if the request panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        request: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let room = self.room.clone().ok_or(ServiceError::Busy)?;
        let held = async move {
            let answer = request.await;
            drop(room);
            answer
        };
        // A task of its own, so that the room is held to the end of the request even if the caller goes away:
        // the request occupies threads until then, and the room bounds their number.
        tokio::spawn(held.in_current_span()).await.map_err(|_| ServiceError::Unreachable)
    }
}

struct HeldAnswer {
    answer: Bytes,
    _room: Room,
}

impl AsRef<[u8]> for HeldAnswer {
    fn as_ref(&self) -> &[u8] {
        &self.answer
    }
}

/// Returns an answer that holds its room, if it has any.
pub(crate) fn held(answer: Bytes, room: Option<Room>) -> Bytes {
    match room {
        Some(room) => room.hold(answer),
        None => answer,
    }
}

/// Returns true if an answer takes room.
pub(crate) fn is_long(answer: &Bytes) -> bool {
    answer.len() > SMALL
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors::Code;

    const MIB: usize = 1 << 20;
    const ROOM: usize = 64 * MIB;

    #[tokio::test(start_paused = true)]
    async fn account_leaves_answer_room_for_others() {
        let answers = Rooms::for_answers(&Limits::default());
        let held: Vec<Bytes> = (0..8)
            .map(|_| answers.room_now("a", PAGE / 2).unwrap().hold(Bytes::from(vec![0; 4 * MIB])))
            .collect();
        assert!(answers.room_now("a", MIB).is_none());
        let refused = answers.answer("a", MIB).await.unwrap_err();
        assert_eq!(refused.code, Code::Unavailable);
        assert!(answers.room_now("b", MIB).is_some());
        drop(held);
        assert!(answers.room_now("a", MIB).is_some());
    }

    #[tokio::test]
    async fn answer_holds_its_size_until_sent() {
        let answers = Rooms::for_answers(&Limits::default());
        let free = |answers: &Rooms| answers.all.available_permits() * UNIT;
        let room = answers.answer("a", PAGE).await.unwrap();
        assert_eq!(free(&answers), ROOM - PAGE);
        let mut answer = room.hold(Bytes::from(vec![0; MIB]));
        let part = answer.split_to(10);
        assert_eq!(free(&answers), ROOM - MIB);
        drop(answer);
        assert_eq!(free(&answers), ROOM - MIB, "a part is still to be sent");
        drop(part);
        assert_eq!(free(&answers), ROOM);
        drop(answers.answer("a", PAGE).await.unwrap().hold(Bytes::from_static(b"small")));
        assert_eq!(free(&answers), ROOM);
    }
}
