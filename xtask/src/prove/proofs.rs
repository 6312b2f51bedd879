//! Proofs behind the names of `cargo xtask prove`. `--size` is the size of the first proof of a name; the
//! others scale with it.

use garth_proofs::call_kills::CallKills;
use garth_proofs::call_limits::CallLimits;
use garth_proofs::changes::ResumedConsumers;
use garth_proofs::filled_packs::FilledPacks;
use garth_proofs::http_cuts::HttpCuts;
use garth_proofs::http_load::HttpLoad;
use garth_proofs::isolation::{
    accounts::Accounts as AccountIsolation,
    audiences::Audiences,
    bound_keys::{BoundKeys, McpIsolation},
    memories::AgentMemories,
    prompts::Prompts as PromptIsolation,
};
use garth_proofs::mcp_edits::McpEdits;
use garth_proofs::memories::damaged::DamagedMemories;
use garth_proofs::memories::other_readers::OtherReaders;
use garth_proofs::memories::{Cuts, Kills};
use garth_proofs::memory_tool::Commands;
use garth_proofs::metric_labels::MetricLabels;
use garth_proofs::outbox::Deliveries;
use garth_proofs::packs::Packs;
use garth_proofs::postgres::cuts::Cuts as PostgresCuts;
use garth_proofs::postgres::stops::Stops;
use garth_proofs::postgres::{Model, OnPostgres};
use garth_proofs::prompts::Prompts;
use garth_proofs::prompts::followed_paths::FollowedPaths;
use garth_proofs::retractions::Retractions;
use garth_proofs::retry_kills::{Form, RetryKills};
use garth_proofs::sessions::collection::Collections;
use garth_proofs::sessions::crashes::{SessionAppenders, SessionCrashes};
use garth_proofs::sessions::resets::Resets;
use garth_proofs::transcripts::Transcripts;
use garth_proofs::view_kills::{How, ViewKills};
use garth_testkit::crash::host_cuts::HostCuts;
use garth_testkit::crash::retention_crash::RetentionCrash;
use garth_testkit::crash::{By, WritersCrash};
use garth_testkit::isolation::scopes::Scopes;
use garth_testkit::isolation::views::{HostViews, Views};
use garth_testkit::model::overlayfs::Lower;
use garth_testkit::model::{BesideKernel, BesideMemory, Through};
use garth_testkit::proof::Proof;
use garth_testkit::proof::accounts::{Accounts, Used};
use garth_testkit::proof::appends::{Appenders, CompareAndSwap, ManyAppends};
use garth_testkit::proof::big_file::BigFile;
use garth_testkit::proof::committed::{CallersGone, ProcessesEnded, Retry};
use garth_testkit::proof::damage::EveryDamage;
use garth_testkit::proof::failpoints::Failpoints;
use garth_testkit::proof::folded_authors::FoldedAuthors;
use garth_testkit::proof::garbage_collection::Collection;
use garth_testkit::proof::gc_beside_readers::GcBesideReaders;
use garth_testkit::proof::histories::Histories;
use garth_testkit::proof::long_retention::LongRetention;
use garth_testkit::proof::migrate_names::MigrateNames;
use garth_testkit::proof::processes::Processes;
use garth_testkit::proof::steady_state::SteadyState;
use garth_testkit::proof::subtrees::Subtrees;
use garth_testkit::subject::mounted::Part;

use super::name::Name;

/// Limit on open descriptors in the proofs of accounts: the default soft limit of most systems.
const DESCRIPTORS: u64 = 1_024;

/// Returns the proofs of a name.
pub(super) fn named(name: Name) -> Vec<Box<dyn Proof>> {
    let beside_memory = |through| Box::new(BesideMemory { through }) as Box<dyn Proof>;
    let beside_kernel = |lower| Box::new(BesideKernel { lower }) as Box<dyn Proof>;
    let crash = |by, over_http| Box::new(WritersCrash { by, over_http }) as Box<dyn Proof>;
    let accounts = |used| Box::new(Accounts { used, descriptors: DESCRIPTORS }) as Box<dyn Proof>;
    let sessions = |by| Box::new(SessionCrashes { by, fault: None }) as Box<dyn Proof>;
    let resets = |by| Box::new(Resets { by, fault: None }) as Box<dyn Proof>;
    let retention = |by| Box::new(RetentionCrash { by, fault: None }) as Box<dyn Proof>;
    let retry = Retry::SameId;
    match name {
        Name::Model => vec![beside_memory(Through::Nothing)],
        Name::ModelScopes => vec![beside_memory(Through::Scopes(1)), beside_memory(Through::Scopes(2))],
        Name::ModelMounts => [Part::Root, Part::Directory].map(Through::Mount).map(beside_memory).into(),
        Name::ModelStacks => vec![beside_memory(Through::Stacks)],
        Name::Overlayfs => [Lower::SameStore, Lower::OtherStore, Lower::Folder].map(beside_kernel).into(),
        Name::ModelHost => vec![beside_memory(Through::Folder)],
        Name::ModelRounds => vec![beside_memory(Through::Rounds)],
        Name::ModelRetention => vec![beside_memory(Through::Retention)],
        Name::FoldedAuthors => vec![Box::new(FoldedAuthors::default())],
        Name::Kill => vec![crash(By::Kill, true), crash(By::Kill, false)],
        Name::Cut => vec![crash(By::Cut, true), crash(By::Cut, false)],
        Name::HostCuts => vec![Box::new(HostCuts::default())],
        Name::Processes => vec![Box::new(Processes { processes: 2 }), Box::new(Processes { processes: 3 })],
        Name::Appenders => vec![Box::new(ManyAppends), Box::new(Appenders { writers: 64 })],
        Name::Cas => vec![Box::new(CompareAndSwap { writers: 64 })],
        Name::BigFile => vec![Box::new(BigFile)],
        Name::Accounts => vec![accounts(Used::InTurn), accounts(Used::AtOnce)],
        Name::Subtrees => vec![Box::new(Subtrees)],
        Name::Fsck => vec![Box::new(EveryDamage)],
        Name::Gc => vec![Box::new(Collection)],
        Name::RetentionKills => vec![retention(By::Kill)],
        Name::RetentionCuts => vec![retention(By::Cut)],
        Name::GcBesideReaders => vec![Box::new(GcBesideReaders { steady: true })],
        Name::SteadyState => vec![Box::new(SteadyState { steady: true, keeps_all: false })],
        Name::MigrateNames => vec![Box::new(MigrateNames)],
        Name::LongRetention => vec![Box::new(LongRetention)],
        Name::Failpoints => vec![Box::new(Failpoints)],
        Name::Order => vec![Box::new(Histories::default())],
        Name::Isolation => vec![Box::new(AccountIsolation), Box::new(Scopes::default())],
        Name::IsolationViews => vec![Box::new(Views::default())],
        Name::IsolationHost => vec![Box::new(HostViews::default())],
        Name::IsolationMemories => vec![Box::new(AgentMemories::default())],
        Name::Committed => {
            vec![Box::new(CallersGone { retry }), Box::new(ProcessesEnded { retry }), Box::new(HttpCuts)]
        }
        Name::Repair => {
            vec![Box::new(DamagedMemories), Box::new(OtherReaders), Box::new(Kills), Box::new(Cuts)]
        }
        Name::MemoryTool => vec![Box::new(Commands::default())],
        Name::RetryKills => {
            vec![Box::new(RetryKills { form: Form::Keyed }), Box::new(CallKills { form: Form::Keyed })]
        }
        Name::HttpLoad => vec![Box::new(HttpLoad::default())],
        Name::CallLimits => vec![Box::new(CallLimits::default())],
        Name::Metrics => vec![Box::new(MetricLabels::default())],
        Name::Changes => vec![Box::new(ResumedConsumers::default())],
        Name::ViewKills => vec![Box::new(ViewKills { how: How::Whole })],
        Name::Packs => vec![Box::new(Packs)],
        Name::Transcripts => vec![Box::new(Transcripts::default())],
        Name::FilledPacks => vec![Box::new(FilledPacks::default())],
        Name::Retractions => vec![Box::new(Retractions::default())],
        Name::Prompts => vec![Box::new(Prompts::default())],
        Name::PromptPaths => vec![Box::new(FollowedPaths::default())],
        Name::PromptIsolation => vec![Box::new(PromptIsolation::default())],
        Name::AudienceIsolation => vec![Box::new(Audiences::default())],
        Name::BoundKeys => vec![Box::new(BoundKeys::default())],
        Name::McpIsolation => vec![Box::new(McpIsolation::default())],
        Name::McpEdits => vec![Box::new(McpEdits::default())],
        Name::Sessions => {
            vec![sessions(By::Kill), sessions(By::Cut), Box::new(SessionAppenders { writers: 64 })]
        }
        Name::Resets => vec![resets(By::Kill), resets(By::Cut)],
        Name::SessionGc => vec![Box::new(Collections::default())],
        // It compares lists and runs nothing: see `crate::semver`.
        Name::Semver => Vec::new(),
        Name::Outbox => vec![Box::new(Deliveries::default())],
        Name::PostgresModel => {
            [false, true].map(|retained| Box::new(Model { retained }) as Box<dyn Proof>).into()
        }
        Name::PostgresWriters => OnPostgres::writers().map(|proof| Box::new(proof) as Box<dyn Proof>).into(),
        Name::PostgresIsolation => {
            OnPostgres::isolation().map(|proof| Box::new(proof) as Box<dyn Proof>).into()
        }
        Name::PostgresStops => vec![Box::new(Stops::default())],
        Name::PostgresCuts => vec![Box::new(PostgresCuts::default())],
    }
}
