//! Renews the leases of this process while their handles are open, and takes those that `gc` waits for: one thread for all
//! accounts, started with the first.

use std::sync::{Arc, Mutex, Once, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use crate::engine::sqlite::write::writer::Writer;
use crate::env::Env;

/// How often. A lease holds five times as long.
const EVERY: Duration = Duration::from_secs(60);

static WATCHED: Mutex<Vec<Weak<Writer>>> = Mutex::new(Vec::new());
static STARTED: Once = Once::new();

/// Has the leases of this account renewed as long as it is open.
pub(crate) fn watch(writer: &Arc<Writer>) {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(writer));
    STARTED.call_once(|| {
        let started = thread::Builder::new().name("garth-leases".to_owned()).spawn(|| {
            loop {
                Env::system().sleep(EVERY);
                renew();
            }
        });
        if let Err(error) = started {
            tracing::warn!(%error, "no thread renews leases; `gc` of another process may collect open unnamed files");
        }
    });
}

/// Does it once, for every account open here.
pub(crate) fn renew() {
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    watched.retain(|writer| writer.strong_count() > 0);
    for writer in watched.iter().filter_map(Weak::upgrade) {
        if writer.open.any() {
            let (open, now) = (Arc::clone(&writer.open), writer.env.now());
            writer.transact_later(move |conn| open.renew(conn, now));
        }
    }
}
