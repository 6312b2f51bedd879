//! Worker process of the proof: two workers that run until they are killed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use garth_agent::memory::Event;
use garth_agent::outbox::{Options, Sink, SinkError, Worker};
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::{Env, FileSystem};
use garth_server::outbox::HttpSink;
use garth_testkit::proof::{Broken, Proven, run, say};

use super::shared_settings::{ACCOUNT, LEASE, TIMEOUT};

/// Secret shared with the sink.
pub(super) const SECRET: &[u8] = b"a secret of the proof";

/// Workers of one process.
const WORKERS: i64 = 2;

/// Runs in the child: works until it is killed.
pub(crate) fn work(folder: &Path, url: &str, fault: &str) -> Proven<()> {
    let fs = SqliteFs::open(folder, Env::system(), garth_agent::registry())?;
    let http = HttpSink::new(url, SECRET, Env::system())?.timeout_after(Duration::from_millis(TIMEOUT));
    let sink: Arc<dyn Sink> = match fault {
        "tells-later" => Arc::new(Later(http)),
        _ => Arc::new(http),
    };
    let ignores_leases = fault == "ignores-leases";
    say("ready")?;
    run(async {
        let workers = (0..WORKERS).map(|number| {
            // A clock that is an hour ahead takes over every lease.
            let env = match ignores_leases && number > 0 {
                true => Env::manual(Env::system().now().plus_seconds(3600 * number)).0,
                false => Env::system(),
            };
            let options = Options { lease: Duration::from_millis(LEASE) };
            let mut worker = Worker::new(env, ACCOUNT, options);
            let (fs, sink) = (Arc::clone(&fs), Arc::clone(&sink));
            tokio::spawn(async move {
                loop {
                    let fs: &dyn FileSystem = &*fs;
                    let progress = worker.run_once(fs, Some(&*sink)).await?;
                    if !progress.more {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
            })
        });
        let workers: Vec<tokio::task::JoinHandle<garth_engine::Result<()>>> = workers.collect();
        for worker in workers {
            worker.await??;
        }
        Err(Broken::because("a worker ended"))
    })
}

/// Reports an event as delivered, and delivers it shortly afterwards.
#[derive(Debug)]
struct Later(HttpSink);

#[async_trait]
impl Sink for Later {
    fn timeout(&self) -> Duration {
        self.0.timeout()
    }

    async fn deliver(&self, event: &Event) -> Result<(), SinkError> {
        let (sink, event) = (self.0.clone(), event.clone());
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(200)).await;
            // Nobody waits for the result any more.
            let _ = sink.deliver(&event).await;
        });
        Ok(())
    }
}
