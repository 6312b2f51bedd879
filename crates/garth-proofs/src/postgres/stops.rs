//! A PostgreSQL server that stops at once, as in a crash, beside writers.

use std::sync::Arc;
use std::time::Duration;

use garth_cloud::home::PgHome;
use garth_engine::rule::sample;
use garth_engine::{Env, Home};
use garth_testkit::data::random::Random;
use garth_testkit::postgres::Cluster;
use garth_testkit::proof::{About, Broken, Proof, Proven, Report, Setting, run, sound};

use super::lines::{Client, Run, append_until, check, until};

/// Writers, which are spread over two servers.
const WRITERS: u64 = 4;
/// Longest time between the first commits after a start and the next stop, in milliseconds.
const LONGEST: u64 = 60;

/// Has each commit end without waiting for the log, whatever its connection has set before.
const HURRIED: &str = "CREATE FUNCTION public.hurry() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM set_config('synchronous_commit', 'off', true); RETURN NULL; END $$;
    CREATE TRIGGER hurry AFTER INSERT ON garth.log FOR EACH STATEMENT EXECUTE FUNCTION public.hurry()";

/// Immediate stops of the database. The size is their number.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stops {
    /// True if commits do not wait for the log of the database (`synchronous_commit=off`): the negative
    /// control.
    pub asynchronous: bool,
}

impl Proof for Stops {
    fn about(&self) -> About {
        About {
            name: "postgres-stops",
            claim: "Immediate stops of Postgres lose no acknowledged commit and double none.",
            full: 20,
            ci: 4,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        let cluster = Cluster::in_memory().map_err(Broken::because)?;
        run(stops(cluster, setting, self.asynchronous))
    }
}

/// Stops the server again and again while writers append, and checks their lines after each stop.
async fn stops(mut cluster: Cluster, setting: &Setting<'_>, asynchronous: bool) -> Proven<Report> {
    let url = cluster.socket_url();
    let server = async || PgHome::connect(&url, 4, Env::system(), sample::registry()).await;
    let homes = [server().await?, server().await?];
    if asynchronous {
        cluster.psql(&cluster.admin_url(), HURRIED).map_err(Broken::because)?;
    }
    homes[0].create_account("written").await?;
    let trees = [homes[0].open("written").await?, homes[1].open("written").await?];
    let mut random = Random::new(setting.seed);
    let mut report = Report::of(["stops", "commits acknowledged", "commits repeated"]);
    let mut lines = vec![0; WRITERS as usize];
    for _ in 0..setting.size {
        let round = Arc::new(Run::default());
        let writers: Vec<_> = lines
            .iter()
            .zip(0..)
            .map(|(next, who)| {
                let client = Client::Server(Arc::clone(&trees[who as usize % 2]));
                tokio::spawn(append_until(client, who, *next, Arc::clone(&round)))
            })
            .collect();
        until("a commit before the stop", || round.acknowledged() > 2 * WRITERS).await?;
        tokio::time::sleep(Duration::from_millis(random.below(LONGEST))).await;
        let restarted = cluster.restart();
        // Also after a failure, so that the writers end.
        round.end();
        restarted.map_err(Broken::because)?;
        for (lines, writer) in lines.iter_mut().zip(writers) {
            *lines = writer.await??;
        }
        check(&*trees[0], &lines).await?;
        report.add("stops", 1);
        report.add("commits acknowledged", round.acknowledged());
        report.add("commits repeated", round.repeated());
    }
    sound(&*trees[1])?;
    Ok(report)
}
