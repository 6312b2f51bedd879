//! Delay of refusals after many wrong keys from one address.

use axum::http::request::Parts;
use tokio::time::sleep;

use super::served::Served;
use crate::auth::Denied;
use crate::request::Peer;

/// Waits before a wrong key is refused, if its address has sent many.
pub(crate) async fn delay(served: &Served, denied: &Denied, head: &Parts) {
    if denied.is_wrong_key {
        served.operations.metrics.wrong_key();
    }
    let peer = head.extensions.get::<Peer>().filter(|_| denied.is_wrong_key);
    let Some(Peer(peer)) = peer else { return };
    let delay = served.tries.delay(*peer, served.home.env().now());
    if !delay.is_zero() {
        sleep(delay).await;
    }
}
