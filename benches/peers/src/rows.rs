//! The rows: what is measured, against what, and its goal.

use crate::side::Which;

/// One line of the table.
pub(crate) struct Row {
    /// What is run; rows of one workload share its runs.
    pub(crate) workload: Workload,
    /// Which of the workload's figures.
    pub(crate) measure: &'static str,
    /// The job in words.
    pub(crate) job: &'static str,
    /// What it is measured against, in words.
    pub(crate) against: &'static str,
    /// What is to be reached.
    pub(crate) goal: Goal,
}

/// What is run. The name is the row's argument on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, serde::Serialize)]
pub(crate) enum Workload {
    /// stat and read 4 KiB files
    Files,
    /// create 4 KiB files in batches of 64, not indexed
    Create,
    /// create 4 KiB files in batches of 64, text indexed for search
    CreateIndexed,
    /// create 4 KiB files one at a time
    CreateOne,
    /// append 200 B to a growing file, 32 at once
    Append,
    /// write and read a 256 MiB file
    Big,
    /// rename and remove a tree of 5,000 files
    Tree,
    /// list a directory of 10,000
    List,
    /// list a directory of 10 beside 1,000,000 deeper entries
    Deep,
    /// `POST /v1/get`, 32 connections
    Get,
    /// `POST /v1/put`, 32 connections
    Put,
}

impl Workload {
    /// What garth is measured against in a process of its own; `None` where `driver` arranges it.
    pub(crate) fn peer(self) -> Option<Which> {
        match self {
            Self::Files | Self::Create | Self::CreateIndexed | Self::Big | Self::Tree | Self::List => {
                Some(Which::AgentFs)
            }
            Self::CreateOne => Some(Which::Raw),
            Self::Append | Self::Deep | Self::Get | Self::Put => None,
        }
    }
}

/// What is to be reached.
#[derive(Clone, Copy)]
pub(crate) enum Goal {
    /// At least so many times the peer's speed.
    Ratio(f64),
    /// At most so many milliseconds for one operation.
    Millis(f64),
    /// Less than so many MiB of memory at the peak of the process.
    PeakMib(f64),
    /// At most so many bytes on disk for each byte given.
    Disk(f64),
}

const AGENTFS: &str = "agentfs-sdk 0.6.4 (no fsync)";

/// All rows, in the order of the table.
pub(crate) const ROWS: &[Row] = &[
    row(Workload::Files, "stat", "stat a 4 KiB file", AGENTFS, Goal::Ratio(1.0)),
    row(Workload::Files, "read", "read a 4 KiB file", AGENTFS, Goal::Ratio(1.5)),
    row(
        Workload::Create,
        "create",
        "create 4 KiB files, batches of 64, durable, not indexed",
        AGENTFS,
        Goal::Ratio(4.0),
    ),
    row(
        Workload::CreateIndexed,
        "create",
        "create 4 KiB files, batches of 64, durable, text indexed for search",
        "agentfs-sdk 0.6.4 (no fsync, no search)",
        Goal::Ratio(1.0),
    ),
    row(
        Workload::CreateOne,
        "create",
        "create 4 KiB files, one at a time, durable",
        "write + fsync of file and directory",
        Goal::Ratio(1.0),
    ),
    row(
        Workload::Append,
        "append",
        "append 200 B to a growing file, durable, 32 at once",
        "the same rows into SQLite in groups of 32",
        Goal::Ratio(0.5),
    ),
    row(
        Workload::Append,
        "disk",
        "  its disk use, all versions readable",
        "the bytes appended",
        Goal::Disk(3.0),
    ),
    row(Workload::Big, "write", "write a 256 MiB file, durable (time of a MiB)", AGENTFS, Goal::Ratio(3.0)),
    row(Workload::Big, "read", "read a 256 MiB file (time of a MiB)", AGENTFS, Goal::Ratio(3.0)),
    row(Workload::Big, "peak", "  its peak memory", AGENTFS, Goal::PeakMib(64.0)),
    row(Workload::Tree, "remove", "remove a tree of 5,000 files, durable", AGENTFS, Goal::Ratio(10.0)),
    row(
        Workload::Tree,
        "rename",
        "rename a tree of 5,000 files, durable, one commit",
        AGENTFS,
        Goal::Millis(50.0),
    ),
    row(Workload::List, "names", "list a directory of 10,000: names", AGENTFS, Goal::Ratio(1.0)),
    row(Workload::List, "entries", "list a directory of 10,000: with attributes", AGENTFS, Goal::Ratio(1.0)),
    row(
        Workload::Deep,
        "deep",
        "list a directory of 10 with 1,000,000 deeper entries",
        "garth: the same with none deeper",
        Goal::Ratio(0.8),
    ),
    row(
        Workload::Get,
        "get",
        "`POST /v1/get`, 32 connections",
        "axum handler with the same JSON in memory",
        Goal::Ratio(0.6),
    ),
    row(
        Workload::Put,
        "put",
        "`POST /v1/put`, 32 connections, durable",
        "the same rows into SQLite in groups of 32",
        Goal::Ratio(0.5),
    ),
];

const fn row(
    workload: Workload,
    measure: &'static str,
    job: &'static str,
    against: &'static str,
    goal: Goal,
) -> Row {
    Row { workload, measure, job, against, goal }
}
