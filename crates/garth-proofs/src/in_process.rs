//! Server of a proof in this process, whose clocks stand still: the clock of its data moves only when the
//! proof moves it, and its timers end only after [`InProcessServer::release`]. A call that is answered before
//! has waited for no delay and no time limit.

use std::io;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use futures::executor::block_on;
use garth_engine::datadir::Scope;
use garth_engine::env::ManualClock;
use garth_engine::model::Timestamp;
use garth_engine::{DataDir, Env};
use garth_server::Options;
use garth_testkit::proof::{Broken, Proven};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// 2026-01-27T00:00:00Z.
const START: Timestamp = Timestamp(1_769_472_000_000_000_000);

/// Server on sockets of loopback. Stopped when dropped.
pub(crate) struct InProcessServer {
    /// Host and port.
    pub(crate) address: String,
    pub(crate) home: DataDir,
    pub(crate) clock: ManualClock,
    stop: Option<oneshot::Sender<()>>,
    /// The timers stand still until this is dropped.
    held: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl InProcessServer {
    /// Starts a server on a new data folder without accounts.
    ///
    /// # Errors
    /// Errors of the folder and of the socket.
    pub(crate) fn start(folder: &Path, options: Options) -> Proven<Self> {
        let (env, clock) = Env::manual(START);
        let home = DataDir::builder(garth_agent::registry()).env(env).open(folder)?;
        // The timers of this kind of runtime stand still while it runs a blocking task.
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
        let (stop, stopped) = oneshot::channel();
        let (held, release) = mpsc::channel();
        let (bound, address) = mpsc::channel();
        let served = home.clone();
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                hold_timers(release);
                let listener = TcpListener::bind("127.0.0.1:0").await?;
                // The caller waits for the address.
                let _ = bound.send(listener.local_addr()?);
                let shutdown = async { stopped.await.unwrap_or(()) };
                garth_server::serve(Arc::new(served), vec![listener], options, shutdown).await
            })
        });
        let mut server = Self {
            address: String::new(),
            home,
            clock,
            stop: Some(stop),
            held: Some(held),
            thread: Some(thread),
        };
        let address = address.recv().map_err(|_| Broken::because("the server has no address"))?;
        server.address = address.to_string();
        Ok(server)
    }

    /// Lets the timers go on. Whatever waits for one ends as soon as the server has nothing else to do.
    pub(crate) fn release(&mut self) {
        drop(self.held.take());
    }

    /// Creates a key of an account with the scope `admin`.
    ///
    /// # Errors
    /// Errors of the data folder.
    pub(crate) fn key(&self, account: &str) -> Proven<String> {
        let created = block_on(self.home.control().create_key(account, "proof", &[Scope::Admin]))?;
        Ok(created.1.reveal().to_owned())
    }
}

impl Drop for InProcessServer {
    fn drop(&mut self) {
        self.release();
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A server that has failed has closed its connections, which the proof has noticed.
            let _ = thread.join();
        }
    }
}

/// Runs a blocking task until the sender is dropped.
#[allow(clippy::disallowed_methods)] // it waits for another thread, and computes nothing
fn hold_timers(release: mpsc::Receiver<()>) {
    drop(tokio::task::spawn_blocking(move || release.recv()));
}
