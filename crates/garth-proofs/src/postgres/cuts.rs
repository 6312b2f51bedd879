//! Connections between servers and the database that are cut, beside writers.

use std::sync::Arc;

use garth_cloud::client::Pool;
use garth_cloud::home::PgHome;
use garth_engine::rule::sample;
use garth_engine::{Env, Home};
use garth_testkit::data::random::Random;
use garth_testkit::proof::{About, Broken, Proof, Proven, Report, Setting, run, sound};
use garth_testkit::proxy::{Direction, Proxy};

use super::Database;
use super::lines::{Client, Run, append_until, check, until};

/// Writers, which are spread over two servers.
const WRITERS: u64 = 4;
/// Most bytes of a direction between two cuts: those of a few commits.
const LONGEST: u64 = 6_000;

/// Connections that are cut at random places. The size is the number of cuts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cuts {
    /// True if clients repeat lost commits without asking whether they were made: the negative control.
    pub blind: bool,
}

impl Proof for Cuts {
    fn about(&self) -> About {
        About {
            name: "postgres-cuts",
            claim: "Connections that are cut lose no acknowledged commit and double none.",
            full: 1_000,
            ci: 60,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        let database = Database::start()?;
        run(cuts(&database, setting, self.blind))
    }
}

/// Cuts connections while writers append, and checks their lines at the end.
async fn cuts(database: &Database, setting: &Setting<'_>, blind: bool) -> Proven<Report> {
    let (id, number) = database.new_account(None, sample::registry()).await?;
    let proxy = Proxy::to(database.cluster().address())?;
    let url = database.cluster().tcp_url_through(proxy.address());
    let server = async || PgHome::connect(&url, 4, Env::system(), sample::registry()).await;
    let homes = [server().await?, server().await?];
    let trees = [homes[0].open(&id).await?, homes[1].open(&id).await?];
    let round = Arc::new(Run::default());
    let mut writers = Vec::new();
    for who in 0..WRITERS {
        let client = match blind {
            true => Client::Blind(Pool::connect(&url, 1).await?, number),
            false => Client::Server(Arc::clone(&trees[who as usize % 2])),
        };
        writers.push(tokio::spawn(append_until(client, who, 0, Arc::clone(&round))));
    }
    let cut = cut(&proxy, setting).await;
    // Also after a failure, so that the writers end.
    round.end();
    let mut lines = Vec::new();
    for writer in writers {
        lines.push(writer.await??);
    }
    cut?;
    let fs = database.home(Env::system(), sample::registry()).await?.open(&id).await?;
    check(&*fs, &lines).await?;
    sound(&*fs)?;
    Ok(Report::of(["cuts", "commits acknowledged", "commits repeated"])
        .with("cuts", proxy.cuts())
        .with("commits acknowledged", round.acknowledged())
        .with("commits repeated", round.repeated()))
}

/// Cuts as many connections as the size says, each once the one before was cut.
async fn cut(proxy: &Proxy, setting: &Setting<'_>) -> Proven<()> {
    let mut random = Random::new(setting.seed);
    for number in 1..=setting.size {
        let direction = random.pick(&[Direction::ToServer, Direction::ToClient]);
        let bytes = usize::try_from(random.below(LONGEST)).map_err(|e| Broken::because(e.to_string()))?;
        proxy.cut_after(direction, bytes);
        until("a cut", || proxy.cuts() >= number).await?;
    }
    Ok(())
}
