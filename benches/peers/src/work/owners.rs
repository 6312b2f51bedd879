//! Cost of finding the session of a key, by the number of its owners, and of an append with an idempotency
//! key compared with one without.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use garth_agent::session::{Append, Create, Draft, SessionKey};
use garth_agent::{Access, Caller, Once, Request};
use garth_engine::model::{Batch, Idempotency, Op, Timestamp};
use garth_engine::{AccountStore, DataDir, Env, FileSystem, FileSystemExt as _};

use super::content::text;
use crate::figures::Figures;
use crate::side::garth::path;
use crate::size::Size;

/// Owners of a session under the same key, by account.
const OWNERS: [(&str, usize); 2] = [("few", 10), ("many", 100_000)];
/// Calls of one repetition.
const CALLS: usize = 200;
/// Size of a message, in bytes.
const MESSAGE: usize = 1024;

pub(crate) async fn owners(folder: &Path, size: Size, runs: usize) -> Result<Figures> {
    let data = garth::builder().open(folder)?;
    let key: SessionKey = "agent:coder:main".parse()?;
    let request = Request::new("coder").user("ann").key(key.clone());
    let (env, mut figures) = (Env::system(), Figures::default());
    for (name, owners) in OWNERS {
        fill(&data, name, &request, size.of(owners, owners.min(100))).await?;
    }
    for _ in 0..runs {
        for (name, _) in OWNERS {
            let account = data.account(name).await?;
            let access = Access::open(&account, &env, Caller::ApiKey, &request).await?;
            let start = Instant::now();
            for _ in 0..CALLS {
                Access::open(&account, &env, Caller::ApiKey, &request).await?;
            }
            figures.time(&format!("access {name}"), start.elapsed(), CALLS);
            let sessions = access.sessions();
            let start = Instant::now();
            for _ in 0..CALLS {
                ensure!(sessions.current(&key).await?.is_some(), "it goes on");
            }
            figures.time(&format!("current {name}"), start.elapsed(), CALLS);
        }
        appended(&data, &request, &mut figures).await?;
    }
    Ok(figures)
}

/// Appends to one session, alternately with and without an idempotency key.
async fn appended(data: &DataDir, request: &Request, figures: &mut Figures) -> Result<()> {
    let account = data.account("few").await?;
    let access = Access::open(&account, &Env::system(), Caller::ApiKey, request).await?;
    let (mut plain, mut keyed) = (Duration::ZERO, Duration::ZERO);
    let from = account.head().await?.seq.0;
    for n in 0..CALLS {
        let said = String::from_utf8_lossy(&text(n as u64)[..MESSAGE]).into_owned();
        let lines = Append::messages([Draft::user(said)]);
        let start = Instant::now();
        access.sessions().append("main", &lines).await?;
        plain += start.elapsed();
        let start = Instant::now();
        let keeper: Arc<dyn FileSystem> = Arc::<dyn AccountStore>::clone(&account);
        let record = Idempotency::new(format!("{from}-{n}"), [1; 32], Timestamp(i64::MAX));
        let once = Once::begin(keeper, record).await?;
        access.sessions().once(once).append("main", &lines).await?;
        keyed += start.elapsed();
    }
    figures.time("append plain", plain, CALLS);
    figures.time("append keyed", keyed, CALLS);
    Ok(())
}

/// Creates an account in which `owners` owners each have a session under the key of the request.
async fn fill(data: &DataDir, name: &str, request: &Request, owners: usize) -> Result<()> {
    data.create_account(name).await?;
    let account = data.account(name).await?;
    let settings = Op::write(path("/agents/coder/settings.json"), r#"{"owner":"*"}"#).with_parents();
    account.commit(settings.into()).await?;
    let access = Access::open(&account, &Env::system(), Caller::ApiKey, request).await?;
    access.make().await?;
    let create = Create::new("main").key("agent:coder:main".parse()?);
    let session = access.sessions().create(&create).await?;
    // Later owners are copies of the first: creating each through the library would take much longer.
    let meta = account.read_to_string("/users/ann/agents/coder/session/main/meta.json").await?;
    for first in (0..owners).step_by(100) {
        let ops = (first..owners.min(first + 100)).map(|n| {
            let (user, id) = (format!("user{n}"), format!("019bfcc0-0000-7000-8000-{n:012x}"));
            let meta = meta.replace("\"ann\"", &format!("\"{user}\"")).replace(&session.meta.id, &id);
            let at = path(&format!("/users/{user}/agents/coder/session/main/meta.json"));
            Op::write(at, meta).with_parents()
        });
        account.commit(Batch::new(ops).by_garth()).await?;
    }
    Ok(())
}
