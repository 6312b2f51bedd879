//! Limits on calls under many connections: each key makes exactly the calls that its limit permits, calls of
//! an account wait only for their own, and wrong keys delay no valid one. The clocks of the server stand
//! still while calls are made, so that the counts are exact and a delayed call is not answered at all.

mod allowance;
mod clients;
mod held_turns;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::scope;
use std::time::Duration;

use futures::executor::block_on;
use garth_engine::Env;
use garth_server::embedder::ServedEmbedder;
use garth_server::{Limits, Options};
use garth_testkit::data::random::Random;
use garth_testkit::proof::{About, Broken, Proof, Proven, Report, Setting, hold};

use self::allowance::Allowance;
use self::clients::{Calls, Class, Client, WrongKeys};
use self::held_turns::{Gate, GatedEmbedder, HeldTurns, fill};
use crate::in_process::InProcessServer;
use crate::served::{Connection, Request, broken_off};
use crate::support::joined;

/// Accounts, and keys of each.
const ACCOUNTS: usize = 4;
const KEYS: usize = 4;
/// Connections of the first key, which makes far more calls than its limit permits, and of each other key.
const GREEDY: usize = 98;
const OTHERS: usize = 6;
/// Calls of an account that run at once, each on a connection when all turns are taken.
const TURNS: usize = 4;
/// Connections that send wrong keys. With the others, there are 256.
const WRONG: usize = 64;
/// Wrong keys that the server refuses without a delay.
const FREE_TRIES: u64 = 10;
/// Upper bound of the calls of a client in a round.
const CALLS: u64 = 8;
/// Upper bound of the seconds between two rounds.
const SECONDS: u64 = 20;
/// Looks at the count of wrong keys, and the pause between them.
const LOOKS: u64 = 6000;
const PAUSE: Duration = Duration::from_millis(10);

/// Fault to plant, as a negative control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server has no limits.
    NoLimits,
    /// Two keys of an account are one.
    SharedKey,
    /// The server has more turns than the calls that hold them.
    FreeTurns,
    /// A client with a valid key is treated as one with a wrong key.
    WrongKey,
}

/// Clients of several keys and accounts on 256 connections. The size is the number of rounds: between two of
/// them the clock moves on.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallLimits {
    /// Fault to plant.
    pub fault: Option<Fault>,
}

const COUNTS: [&str; 5] =
    ["rounds", "calls admitted", "calls refused", "wrong keys refused at once", "wrong keys refused late"];

impl Proof for CallLimits {
    fn about(&self) -> About {
        About {
            name: "call-limits",
            claim: "Each key makes exactly the calls that its limit permits, whatever others do, and wrong \
                keys delay no valid one.",
            full: 200,
            ci: 4,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        let (gate, embedder) = Gate::new();
        let mut server = InProcessServer::start(&setting.folder.join("data"), options(self.fault, embedder))?;
        let address = server.address.clone();
        let mut keys = Keys::create(&server, self.fault)?;
        let mut clients = keys.clients(&address)?;
        if let (Some(Fault::WrongKey), Some(client)) = (self.fault, clients.last_mut()) {
            client.spoil()?;
        }
        let (wrong, mut report) = (WrongKeys::default(), Report::of(COUNTS));
        let mut random = Random::new(setting.seed);
        scope(|scope| {
            let sent: Vec<_> = (0..WRONG).map(|_| scope.spawn(|| wrong.send(&address))).collect();
            let outcome = wait_for_wrong_keys(&address).and_then(|()| {
                for number in 0..setting.size {
                    if number > 0 {
                        let time = Duration::from_secs(random.below(SECONDS));
                        server.clock.advance(time);
                        keys.pass(time);
                    }
                    round((&address, &gate, number), &mut keys, &mut clients, &mut random, &mut report)?;
                }
                Ok(())
            });
            // Also after a failure: the clients with wrong keys wait for their answers.
            wrong.is_released.store(true, Ordering::SeqCst);
            server.release();
            let refused: Vec<Proven<()>> = sent.into_iter().map(|thread| joined(thread)).collect();
            outcome?;
            refused.into_iter().collect::<Proven<()>>()
        })?;
        let (early, late) = (wrong.early.load(Ordering::SeqCst), wrong.late.load(Ordering::SeqCst));
        hold((early, late) == (FREE_TRIES, WRONG as u64), || {
            format!("{early} wrong keys were refused without a delay and {late} with one")
        })?;
        Ok(report.with("wrong keys refused at once", early).with("wrong keys refused late", late))
    }
}

/// Returns the options of the server.
fn options(fault: Option<Fault>, embedder: GatedEmbedder) -> Options {
    let limits = Limits::default()
        .reads_per_minute(Class::Read.per_minute())
        .writes_per_minute(Class::Write.per_minute())
        .searches_per_minute(0)
        .account_calls(if fault == Some(Fault::FreeTurns) { usize::MAX } else { TURNS });
    let embedder = ServedEmbedder { embedder: Arc::new(embedder), daily_tokens: None };
    let options = Options::default().limits(limits).limit_calls(Some(fault != Some(Fault::NoLimits)));
    options.embedder(Some(embedder))
}

/// Numbers of an account and of one of its keys.
type Owner = (usize, usize);

/// Keys with the calls that they may still make.
struct Keys {
    secrets: Vec<Vec<String>>,
    /// Key of each account for the calls that hold its turns.
    holders: Vec<String>,
    allowances: BTreeMap<Owner, [Allowance; 2]>,
}

impl Keys {
    /// Creates the accounts and their keys.
    fn create(server: &InProcessServer, fault: Option<Fault>) -> Proven<Self> {
        let (mut secrets, mut holders, mut allowances) = (Vec::new(), Vec::new(), BTreeMap::new());
        for account in 0..ACCOUNTS {
            let name = format!("a{account}");
            block_on(server.home.create_account(&name))?;
            let mut of_account: Vec<String> = Vec::new();
            for key in 0..KEYS {
                let shared = of_account.first().filter(|_| fault == Some(Fault::SharedKey)).cloned();
                of_account.push(shared.map_or_else(|| server.key(&name), Ok)?);
                let full = Class::ALL.map(|class| Allowance::new(class.per_minute() as u64));
                allowances.insert((account, key), full);
            }
            secrets.push(of_account);
            let holder = server.key(&name)?;
            fill(&server.address, &name, &holder)?;
            holders.push(holder);
        }
        Ok(Self { secrets, holders, allowances })
    }

    /// Connects the clients of all keys.
    fn clients(&self, address: &str) -> Proven<Vec<Client>> {
        let mut clients = Vec::new();
        for (account, secrets) in self.secrets.iter().enumerate() {
            for (key, secret) in secrets.iter().enumerate() {
                let connections = if (account, key) == (0, 0) { GREEDY } else { OTHERS };
                for _ in 0..connections {
                    clients.push(Client::connect(address, clients.len(), (account, key), secret)?);
                }
            }
        }
        Ok(clients)
    }

    /// Lets time pass.
    fn pass(&mut self, time: Duration) {
        self.allowances.values_mut().flatten().for_each(|allowance| allowance.pass(time));
    }

    /// Compares the admitted calls of a key with those that its limits permit.
    fn check(&mut self, owner: Owner, asked: Calls, admitted: Calls) -> Proven<()> {
        let Some(allowances) = self.allowances.get_mut(&owner) else { return Ok(()) };
        for class in Class::ALL {
            let at = class as usize;
            let due = allowances[at].admit(asked[at]);
            hold(admitted[at] == due, || {
                let ((account, key), asked, found) = (owner, asked[at], admitted[at]);
                format!(
                    "{found} of {asked} calls ({class:?}) of key {key} of account {account} were admitted; \
                     its limit permits {due}"
                )
            })?;
        }
        Ok(())
    }
}

/// Waits until all clients with wrong keys have an unanswered request. Before, [`FREE_TRIES`] are answered.
fn wait_for_wrong_keys(address: &str) -> Proven<()> {
    let mut connection = Connection::open(address)?;
    let request = Request::new("GET", "/metrics");
    let due = format!("\ngarth_wrong_keys_total {}\n", WRONG as u64 + FREE_TRIES);
    for _ in 0..LOOKS {
        let answer = connection.ask(&request).map_err(|error| broken_off(&request, &error))?;
        if String::from_utf8_lossy(&answer.body).contains(&due) {
            return Ok(());
        }
        Env::system().sleep(PAUSE);
    }
    Err(Broken::because("wrong keys beyond the first ten are not delayed, or not counted"))
}

/// Makes calls of all clients at once, while all turns of one account are taken. Calls of the other accounts
/// are answered before these turns are free again.
fn round(
    (address, gate, number): (&str, &Gate, u64),
    keys: &mut Keys,
    clients: &mut [Client],
    random: &mut Random,
    report: &mut Report,
) -> Proven<()> {
    let plans: Vec<Vec<Class>> = clients.iter().map(|_| plan(random)).collect();
    let held = random.below(ACCOUNTS as u64) as usize;
    let holding = HeldTurns::begin(gate, address, &keys.holders[held], (number, TURNS))?;
    let answered = [const { AtomicU64::new(0) }; ACCOUNTS];
    let (outcomes, early, ended) = scope(|scope| {
        let threads = clients.iter_mut().zip(&plans).map(|(client, plan)| {
            let (owner, answered) = ((client.account, client.key), &answered[client.account]);
            ((owner, plan), scope.spawn(move || client.call(plan, answered)))
        });
        let (waiting, free): (Vec<_>, Vec<_>) = threads.partition(|((owner, _), _)| owner.0 == held);
        let mut outcomes: Vec<_> = free.into_iter().map(|(of, thread)| (of, joined(thread))).collect();
        let early = answered[held].load(Ordering::SeqCst);
        let ended = holding.end();
        outcomes.extend(waiting.into_iter().map(|(of, thread)| (of, joined(thread))));
        (outcomes, early, ended)
    });
    let mut sums: BTreeMap<Owner, (Calls, Calls)> = BTreeMap::new();
    for ((owner, plan), outcome) in outcomes {
        let (asked, admitted) = sums.entry(owner).or_default();
        let calls = outcome?;
        for class in Class::ALL {
            asked[class as usize] += plan.iter().filter(|of| **of == class).count() as u64;
            admitted[class as usize] += calls[class as usize];
        }
    }
    ended?;
    report.add("rounds", 1_u64);
    for (owner, (asked, admitted)) in sums {
        keys.check(owner, asked, admitted)?;
        let (asked, admitted) = (asked.iter().sum::<u64>(), admitted.iter().sum::<u64>());
        report.add("calls admitted", admitted);
        report.add("calls refused", asked - admitted);
    }
    hold(early == 0, || format!("{early} calls of an account were answered while all of its turns are taken"))
}

/// Returns the calls of a client in a round.
fn plan(random: &mut Random) -> Vec<Class> {
    let calls = 1 + random.below(CALLS);
    (0..calls).map(|_| random.pick(&Class::ALL)).collect()
}
