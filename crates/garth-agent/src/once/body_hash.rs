//! Hash of the body of a recorded request, computed while the body arrives. The thread that receives a body
//! serves others as well, so a long one is hashed on the threads that compute.

use bytes::BytesMut;
use sha2::{Digest as _, Sha256};

use garth_engine::compute::{IN_PLACE, working};
use garth_engine::env::Env;
use garth_engine::error::Result;

/// Bytes that are hashed at a time, 256 KiB. As many are held in memory.
const STEP: usize = 256 << 10;
/// Limit on the bytes that are hashed where they have arrived. Others are counted in the same poll.
const SHORT: usize = IN_PLACE / 2;

/// Threads to compute on, and the account in whose turns they do.
#[derive(Clone, Debug)]
pub(crate) struct Threads {
    pub(crate) env: Env,
    pub(crate) account: String,
}

/// Hash of a body that arrives in pieces.
#[derive(Debug)]
pub(crate) struct BodyHash {
    state: Sha256,
    /// Bytes that are still to be hashed.
    waiting: BytesMut,
    /// `None` for a program that may use its thread as it likes.
    threads: Option<Threads>,
    /// False if no record compares the body.
    is_needed: bool,
}

impl BodyHash {
    /// Returns the hash of a body that a record compares.
    pub(crate) fn on(threads: Option<Threads>) -> Self {
        Self { state: Sha256::new(), waiting: BytesMut::new(), threads, is_needed: true }
    }

    /// Returns the hash of a body that nothing compares: that of the empty body, whatever is added.
    pub(crate) fn unneeded() -> Self {
        Self { is_needed: false, ..Self::on(None) }
    }

    /// Adds a piece of the body.
    ///
    /// # Errors
    /// As [`Env::compute`].
    pub(crate) async fn add(&mut self, piece: &[u8]) -> Result<()> {
        if !self.is_needed {
            return Ok(());
        }
        self.waiting.extend_from_slice(piece);
        if self.waiting.len() < STEP { Ok(()) } else { self.hash_waiting().await }
    }

    /// Returns the hash of the complete body.
    ///
    /// # Errors
    /// As [`BodyHash::add`].
    pub(crate) async fn finish(mut self) -> Result<[u8; 32]> {
        self.hash_waiting().await?;
        Ok(self.state.finalize().into())
    }

    async fn hash_waiting(&mut self) -> Result<()> {
        let (mut state, bytes) = (std::mem::take(&mut self.state), self.waiting.split().freeze());
        let length = bytes.len();
        let hashed = move || {
            working(length);
            state.update(&bytes);
            state
        };
        self.state = match &self.threads {
            Some(threads) if length > SHORT => {
                threads.env.compute(&threads.account, length, async move { hashed() }).await?
            }
            _ => hashed(),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;

    fn of_acme() -> (Env, Option<Threads>) {
        let env = Env::system();
        (env.clone(), Some(Threads { env, account: "acme".to_owned() }))
    }

    #[test]
    fn hash_depends_on_bytes_alone() {
        let body: Vec<u8> = (0..3 * STEP + 7).map(|at| (at % 251) as u8).collect();
        let expected: [u8; 32] = Sha256::digest(&body).into();
        for size in [1000, SHORT, STEP - 1, STEP + 1, body.len()] {
            for threads in [None, of_acme().1] {
                let mut hash = BodyHash::on(threads);
                for piece in body.chunks(size) {
                    block_on(hash.add(piece)).unwrap();
                }
                assert_eq!(block_on(hash.finish()).unwrap(), expected, "{size}");
            }
        }
    }

    #[test]
    fn long_body_is_hashed_on_threads_that_compute() {
        for (length, pieces, steps) in [(SHORT, 0, 0), (SHORT + 1, 1, SHORT + 1), (3 * STEP, 3, 3 * STEP)] {
            let (env, threads) = of_acme();
            let mut hash = BodyHash::on(threads);
            for piece in vec![7; length].chunks(STEP) {
                block_on(hash.add(piece)).unwrap();
            }
            block_on(hash.finish()).unwrap();
            let computed = env.computed();
            assert_eq!((computed.pieces, computed.steps), (pieces, steps as u64), "{length}");
        }
    }

    #[test]
    fn body_without_a_record_is_not_held() {
        let mut hash = BodyHash::unneeded();
        block_on(hash.add(&[7; 1000])).unwrap();
        assert!(hash.waiting.is_empty());
        let empty: [u8; 32] = Sha256::digest(b"").into();
        assert_eq!(block_on(hash.finish()).unwrap(), empty);
    }
}
