//! Authentication and scopes, decided from the head of a request alone; the second look at a key before the
//! work of its request begins; and the delay of refusals after many wrong keys from one address.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use garth_engine::Home;
use garth_engine::home::{Admitted, Scope};
use garth_engine::model::Timestamp;
use lru::LruCache;
use tokio::time::Instant;

use crate::errors::{KeyEnded, Refusal};

/// Time for which a key counts as valid after it was found so: the longest that a request may begin its work
/// after its key has ended. Within it, most bodies arrive and most turns come.
const TRUSTED: Duration = Duration::from_millis(100);

/// Wrong keys of an address that are refused without a delay, within [`WINDOW`].
const FREE_TRIES: i64 = 10;
/// Time within which an address has its free tries, in nanoseconds: a minute.
const WINDOW: i64 = 60_000_000_000;
/// Part of [`WINDOW`] that one wrong key takes.
const COST: i64 = WINDOW / FREE_TRIES;
/// Delay that each further wrong key adds, in nanoseconds: 100 ms.
const STEP: i64 = 100_000_000;
/// Steps of the longest delay, 5 s.
const MAX_STEPS: i64 = 50;
/// Addresses that are remembered.
const ADDRESSES: usize = 10_000;

/// Request without a valid key for its call.
#[derive(Debug)]
pub(crate) struct Denied {
    pub(crate) refusal: Refusal,
    /// True if the request has a key that is unknown, wrong, revoked or expired.
    pub(crate) is_wrong_key: bool,
}

impl From<Refusal> for Denied {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, is_wrong_key: false }
    }
}

/// Returns the key that a request carries, if it has all of `scopes`.
pub(crate) async fn authorize(
    home: &dyn Home,
    headers: &HeaderMap,
    scopes: &[Scope],
) -> Result<Admitted, Denied> {
    let Some(token) = bearer(headers) else { return Err(Refusal::no_key().into()) };
    // The same answer for every key that is not valid, so that it reveals nothing about keys.
    let Some(admitted) = home.admit(token).await.map_err(Refusal::from)? else {
        return Err(Denied { refusal: Refusal::unauthorized(), is_wrong_key: true });
    };
    let key = admitted.key();
    match scopes.iter().find(|scope| !key.allows(**scope)) {
        Some(missing) if key.binding.read_only && missing.is_write() => {
            Err(Refusal::read_only_key(missing.as_str()).into())
        }
        Some(missing) => Err(Refusal::forbidden(missing.as_str()).into()),
        None => Ok(admitted),
    }
}

/// Key of an admitted request. The request is admitted from its head, and its body may arrive much later, so
/// the key is looked up again before the work begins and before content that was received is committed.
#[derive(Clone, Copy)]
pub(crate) struct Standing<'a> {
    home: &'a Arc<dyn Home>,
    headers: &'a HeaderMap,
    admitted: &'a Admitted,
    /// Time before the last look-up.
    looked: Instant,
    /// True for the holder of the data folder, who has no key that could end.
    holds: bool,
}

impl<'a> Standing<'a> {
    /// Returns the key that the headers of a request carry; `looked` is a time before it was admitted.
    pub(crate) fn new(
        home: &'a Arc<dyn Home>,
        headers: &'a HeaderMap,
        admitted: &'a Admitted,
        looked: Instant,
    ) -> Self {
        Self { home, headers, admitted, looked, holds: false }
    }

    /// Returns the standing of the holder of the data folder, who needs no key.
    pub(crate) fn of_holder(home: &'a Arc<dyn Home>, headers: &'a HeaderMap, admitted: &'a Admitted) -> Self {
        Self { home, headers, admitted, looked: Instant::now(), holds: true }
    }

    /// Fails if the key has ended. Looks it up unless that was done within the last 100 ms: then the key was
    /// valid that recently, and most requests need no second query.
    ///
    /// # Errors
    /// `AccessDenied` with the source [`KeyEnded`]; errors of the storage.
    pub(crate) async fn renew(&mut self) -> garth_engine::Result<()> {
        if self.holds {
            return Ok(());
        }
        let token = bearer(self.headers).unwrap_or_default();
        look_up_again(&**self.home, token, self.admitted.tree(), &mut self.looked).await
    }

    /// Returns the key for an answer that goes on after its request was handled.
    pub(crate) fn lasting(&self) -> LastingKey {
        LastingKey {
            home: Arc::clone(self.home),
            token: bearer(self.headers).unwrap_or_default().to_owned(),
            tree: self.admitted.tree().to_owned(),
            looked: self.looked,
            holds: self.holds,
        }
    }
}

/// Key of an answer that goes on after its request was handled, such as a stream. It contains a secret.
pub(crate) struct LastingKey {
    home: Arc<dyn Home>,
    token: String,
    /// Tree that the key opened when it was admitted.
    tree: String,
    looked: Instant,
    /// As in [`Standing`].
    holds: bool,
}

impl LastingKey {
    /// Fails if the key has ended, as [`Standing::renew`] does.
    ///
    /// # Errors
    /// As [`Standing::renew`].
    pub(crate) async fn renew(&mut self) -> garth_engine::Result<()> {
        if self.holds {
            return Ok(());
        }
        look_up_again(&*self.home, &self.token, &self.tree, &mut self.looked).await
    }
}

/// Looks up a key that opened a tree, unless that was done within the last 100 ms.
async fn look_up_again(
    home: &dyn Home,
    token: &str,
    tree: &str,
    last: &mut Instant,
) -> garth_engine::Result<()> {
    if last.elapsed() < TRUSTED {
        return Ok(());
    }
    // Before the look-up: a revocation during it counts as later.
    let looked = Instant::now();
    if home.admit(token).await?.is_none_or(|found| found.tree() != tree) {
        return Err(KeyEnded::error());
    }
    *last = looked;
    Ok(())
}

/// Returns the token of exactly one `Authorization: Bearer` header. The scheme is case-insensitive (RFC 9110,
/// 11.1).
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    // With two headers it would be unclear which one counts.
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    // RFC 9110 permits more than one space after the scheme.
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_matches(' '))
}

/// Wrong keys by address. Ten within a minute are refused at once; each further one is refused 100 ms later
/// than the one before, 5 s at most. A request with a valid key never asks for its address here, so nobody
/// can slow down others behind the same address.
#[derive(Debug)]
pub(crate) struct Tries(Mutex<LruCache<IpAddr, Timestamp>>);

impl Default for Tries {
    fn default() -> Self {
        // Not with its full capacity at once, which would take memory that few servers need.
        Self(Mutex::new(LruCache::unbounded()))
    }
}

impl Tries {
    /// Counts a wrong key of an address. Returns the time by which its refusal is to be delayed.
    pub(crate) fn delay(&self, peer: IpAddr, now: Timestamp) -> Duration {
        let mut tries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let peer = network(peer);
        // Time at which all tries of the address are forgotten. Each try moves it by its cost.
        let end = tries.get(&peer).map_or(now.0, |end| end.0.max(now.0));
        // Bounded, also if the clock was set back: an address that stops is free again after six minutes.
        let most = now.0.saturating_add(WINDOW + MAX_STEPS * COST);
        let end = end.saturating_add(COST).min(most);
        tries.put(peer, Timestamp(end));
        if tries.len() > ADDRESSES {
            tries.pop_lru();
        }
        let steps = (end.saturating_sub(now.0).saturating_sub(WINDOW).max(0) + COST - 1) / COST;
        Duration::from_nanos(u64::try_from(steps.min(MAX_STEPS) * STEP).unwrap_or_default())
    }
}

/// Returns the address that stands for a client: of IPv6 the first 64 bits, because a client usually has all
/// addresses of such a network.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use garth_engine::{DataDir, Env};

    use super::*;

    const NOW: Timestamp = Timestamp(1_769_472_000_000_000_000);

    fn peer(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn millis(tries: &Tries, from: &str, now: Timestamp) -> u128 {
        tries.delay(peer(from), now).as_millis()
    }

    #[test]
    fn only_refused_tokens_count_as_wrong_keys() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(folder.path(), Env::system(), garth_agent::registry()).unwrap();
        block_on(data.create_account("acme")).unwrap();
        let (_, secret) = block_on(data.control().create_key("acme", "", &[Scope::MemoryRead])).unwrap();
        let try_with = |authorization: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(value) = authorization {
                headers.insert(AUTHORIZATION, value.parse().unwrap());
            }
            block_on(authorize(&data, &headers, &[Scope::MemoryWrite])).unwrap_err()
        };
        let valid = format!("Bearer {}", secret.reveal());
        for (authorization, is_wrong_key) in [
            (None, false),
            (Some("Basic x"), false),
            // It lacks the scope.
            (Some(&*valid), false),
            (Some("Bearer x"), true),
            (Some(&valid[..valid.len() - 1]), true),
        ] {
            assert_eq!(try_with(authorization).is_wrong_key, is_wrong_key, "{authorization:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn key_is_looked_up_again_after_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(folder.path(), Env::system(), garth_agent::registry()).unwrap();
        data.create_account("acme").await.unwrap();
        let (key, secret) = data.control().create_key("acme", "", &[Scope::MemoryRead]).await.unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, format!("Bearer {}", secret.reveal()).parse().unwrap());
        let home: Arc<dyn Home> = Arc::new(data.clone());
        let looked = Instant::now();
        let admitted = authorize(&data, &headers, &[Scope::MemoryRead]).await.unwrap();
        let mut standing = Standing::new(&home, &headers, &admitted, looked);
        let mut lasting = standing.lasting();
        tokio::time::advance(TRUSTED).await;
        standing.renew().await.unwrap();
        lasting.renew().await.unwrap();
        data.control().revoke_key(Some("acme"), &key.id).await.unwrap();
        tokio::time::advance(TRUSTED - Duration::from_millis(1)).await;
        standing.renew().await.unwrap();
        tokio::time::advance(Duration::from_millis(1)).await;
        for ended in [standing.renew().await, lasting.renew().await] {
            assert_eq!(Refusal::from(ended.unwrap_err()).status, 401);
        }
    }

    #[test]
    fn delay_grows_after_ten_tries_to_five_seconds() {
        let tries = Tries::default();
        let delays: Vec<u128> = (0..100).map(|_| millis(&tries, "192.0.2.1", NOW)).collect();
        assert_eq!(delays[..10], [0; 10]);
        let expected: Vec<u128> = (1..=90).map(|n| (100 * n).min(5000)).collect();
        assert_eq!(delays[10..], expected);
        assert_eq!(millis(&tries, "192.0.2.2", NOW), 0, "another address");
    }

    #[test]
    fn tries_are_forgotten_with_time() {
        let tries = Tries::default();
        for _ in 0..10 {
            assert_eq!(millis(&tries, "192.0.2.1", NOW), 0);
        }
        // A tenth of a minute is one more try.
        let mut now = NOW;
        for _ in 0..30 {
            now = now.plus_seconds(6);
            assert_eq!(millis(&tries, "192.0.2.1", now), 0);
        }
        assert_eq!(millis(&tries, "192.0.2.1", now), 100);
        for _ in 0..1000 {
            millis(&tries, "192.0.2.1", now);
        }
        assert_eq!(millis(&tries, "192.0.2.1", now), 5000);
        assert_eq!(millis(&tries, "192.0.2.1", now.plus_seconds(6 * 60)), 0);
    }

    #[test]
    fn clock_set_back_delays_no_longer() {
        let tries = Tries::default();
        millis(&tries, "192.0.2.1", NOW);
        let back = Timestamp(1);
        assert_eq!(millis(&tries, "192.0.2.1", back), 5000);
        assert_eq!(millis(&tries, "192.0.2.1", back.plus_seconds(6 * 60)), 0);
        assert_eq!(millis(&tries, "192.0.2.3", Timestamp(i64::MAX)), 0);
    }

    #[test]
    fn addresses_of_one_network_count_together() {
        let tries = Tries::default();
        for n in 0..10 {
            assert_eq!(millis(&tries, &format!("2001:db8:1:2::{n}"), NOW), 0);
            assert_eq!(millis(&tries, "192.0.2.1", NOW), 0);
        }
        assert_eq!(millis(&tries, "2001:db8:1:2:ffff::1", NOW), 100);
        assert_eq!(millis(&tries, "2001:db8:1:3::1", NOW), 0);
        assert_eq!(millis(&tries, "::ffff:192.0.2.1", NOW), 100, "the same in IPv6 form");
        assert_eq!(millis(&tries, "::ffff:192.0.2.2", NOW), 0);
    }

    #[test]
    fn remembers_a_bounded_number_of_addresses() {
        let tries = Tries::default();
        for n in 0..u32::try_from(ADDRESSES).unwrap() + 100 {
            tries.delay(IpAddr::V4(std::net::Ipv4Addr::from(n)), NOW);
        }
        assert_eq!(tries.0.lock().unwrap().len(), ADDRESSES);
    }
}
