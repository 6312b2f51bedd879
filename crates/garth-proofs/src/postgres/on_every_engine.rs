//! Proofs that run on every engine, on the Postgres engine.

use garth_testkit::isolation::scopes::Scopes;
use garth_testkit::isolation::views::Views;
use garth_testkit::model::{ModelConfig, report, run};
use garth_testkit::proof::appends::{Appenders, CompareAndSwap};
use garth_testkit::proof::committed::{CallersGone, Retry};
use garth_testkit::proof::histories::Histories;
use garth_testkit::proof::{About, Broken, Proof, Proven, Report, Setting};
use garth_testkit::subject::Subject;

use super::Database;
use crate::isolation::accounts::Accounts;

/// A proof that names no engine, on a private server.
#[derive(Debug)]
pub struct OnPostgres {
    /// Proof.
    pub proof: Box<dyn Proof>,
    /// Its name on this engine.
    pub name: &'static str,
    /// Size for `cargo xtask prove`.
    pub full: u64,
    /// Size for the tests.
    pub ci: u64,
}

impl OnPostgres {
    /// Returns the proofs of concurrent writers and of lost answers.
    pub fn writers() -> [Self; 4] {
        [
            Self { proof: Box::new(Appenders { writers: 64 }), name: "postgres-appenders", full: 32, ci: 3 },
            Self { proof: Box::new(CompareAndSwap { writers: 64 }), name: "postgres-cas", full: 10, ci: 1 },
            Self { proof: Box::new(Histories::default()), name: "postgres-order", full: 40, ci: 2 },
            Self {
                proof: Box::new(CallersGone { retry: Retry::SameId }),
                name: "postgres-committed",
                full: 400,
                ci: 40,
            },
        ]
    }

    /// Returns the attempts to reach the data of another account, or what a scope or view hides.
    pub fn isolation() -> [Self; 3] {
        [
            Self { proof: Box::new(Accounts), name: "postgres-accounts", full: 20_000, ci: 600 },
            Self { proof: Box::new(Scopes::default()), name: "postgres-scopes", full: 20_000, ci: 400 },
            Self { proof: Box::new(Views::default()), name: "postgres-views", full: 20_000, ci: 300 },
        ]
    }
}

impl Proof for OnPostgres {
    fn about(&self) -> About {
        let Self { name, full, ci, .. } = *self;
        About { name, full, ci, ..self.proof.about() }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        let database = Database::start()?;
        self.proof.run(&Setting { storage: &*database, ..*setting })
    }
}

/// Random operations on the Postgres engine, compared with the memory engine. The size is the number of
/// operations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Model {
    /// True to also draw, set and collect limits on the past.
    pub retained: bool,
}

impl Proof for Model {
    fn about(&self) -> About {
        About {
            name: if self.retained { "postgres-model-retention" } else { "postgres-model" },
            claim: "Random operations have the results of the memory engine, also for another server.",
            full: 100_000,
            ci: 400,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        let (database, retained) = (Database::start()?, self.retained);
        let config = ModelConfig { ops: setting.size, seed: setting.seed };
        let stats = run(config, || async { Subject { retained, ..database.subject().await } });
        Ok(report(&[stats.map_err(|failure| Broken::because(failure.to_string()))?]))
    }
}
