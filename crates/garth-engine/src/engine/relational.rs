//! Parts without SQL of an engine on a relational database: what a handle reaches, what this process holds
//! open, and the form of stored values.
//!
//! An engine writes the statements, and these modules tell which rows it needs. The planner, which turns a
//! batch into row changes, is [a module of its own](crate::engine::planner).
//!
//! - `confinement`: the paths that a handle reaches, its owner, and the nodes that it holds open;
//! - `gates`: directories of which a handle sees only some entries; `gate_judgements`: cache of what their
//!   files decide;
//! - `narrow`: batches through gates;
//! - `open_nodes`, `open_pasts`: nodes and states of the past that this process holds open, and which of them
//!   have leases;
//! - `reads`: reads of the tree, over the rows that a database has fetched;
//! - `uploads`: limits on uploads and their errors; `upload_counts`: uploads in progress of each owner;
//! - `answer_column`, `changes_column`: outcomes and changes of a commit as JSON, for its row in the log;
//! - `control_rows`: the rules in force, from their rows;
//! - `kept_states`: states of the past that overlays keep;
//! - `retention`: how a retention is changed, and how far it ends the past;
//! - `usage`: sums of what takes the space of an account;
//! - `origin_column`: the commits that wrote the bytes of a chunk that was merged from small extents;
//! - `control_rows`: the rules in force, from their rows; `rule_changes`: what commits changed while the
//!   files of a rule were checked;
//! - `room`: batches that an account without room refuses;
//! - `interval`: where a span of commits is stored, so that a state of the past finds its rows;
//! - `fold_pass`, `folded_authors`: the phases of the removal of the past, and the authors that stay;
//! - `content_search`, `judged_names`: old content of path classes;
//! - `collectable_past`: report of what would be removed.
//!
//! The module is public, and hidden from the documentation, for databases that live in other crates. It is
//! not part of the stable interface of this crate.

pub mod answer_column;
pub mod changes_column;
pub mod collectable_past;
pub mod confinement;
pub mod content_search;
pub mod control_rows;
pub mod fold_pass;
pub mod folded_authors;
pub mod gate_judgements;
pub mod gates;
pub mod interval;
pub mod judged_names;
pub mod kept_states;
pub mod narrow;
pub mod open_nodes;
pub mod open_pasts;
pub mod origin_column;
pub mod reads;
pub mod retention;
pub mod room;
pub mod rule_changes;
pub mod upload_counts;
pub mod uploads;
pub mod usage;
