//! All statements on the tables of the tree, in one file for each table or for a pair that is used together.
//!
//! A statement is in the file of the table that it writes, or whose rows it returns. Other modules call the
//! functions of these files. Apart from tests, no other file names a table in a statement, except:
//!
//! - `schema.rs`: the scripts that create the tables and upgrade them;
//! - `maintain/fsck/`: reads each table row by row to compare it with the others;
//! - `maintain/usage.rs`: sums up the rows of most tables;
//! - `maintain/gc.rs`: the count of what waits for the grace period, from several tables;
//! - `fulltext/`: the tables of its index (`passage` and those whose names begin with it, `unindexed`,
//!   `old_index`);
//! - `projections/`, `query/find_by_key.rs`, `query/text_search.rs`: table `projected`, its version in
//!   `head`, and the walk over the nodes that it is derived from;
//! - `control.rs`: table `rule`.
//!
//! | file | tables |
//! |---|---|
//! | `head` | `head` |
//! | `live_names`, `past_names` | `name`, `name_past` |
//! | `names_of_node`, `name_pages` | both of these, by node and in the order of a listing |
//! | `nodes` | `node`, `attribute` |
//! | `dir_times` | `dir_time`, `dir_time_past` |
//! | `extents` | `extent` |
//! | `chunks`, `chunk_refs`, `origins` | `chunk`, `chunk_refs`, `origin` |
//! | `packs` | `pack`, `hole` |
//! | `small_files` | `name`, `node`, `attribute`, `extent` and `chunk`, joined |
//! | `staged` | `staged` |
//! | `commit_log` | `log`, `log_more`; their columns `answer` and `changes` in `engine/relational/` |
//! | `idempotency`, `snapshots`, `expiry` | `idempotency`, `snapshot`, `expiry` |
//! | `leases`, `past_leases` | `lease` and `unnamed`, `past_lease` |
//! | `quotas`, `judged_prefixes` | `quota`, `judged` |
//! | `retention` | `retention`, `content_limit`, `content_age`, `held` |
//! | `content_gone`, `replaced` | `content_gone`, `replaced` |
//! | `fold` | `fold`, `fold_node` |
//! | `times_ahead` | the times of `pack`, `hole`, `unnamed`, `staged`, `lease` and `past_lease` |
//! | `folded_authors` | `author`, `folded_author` |

pub(crate) mod chunk_refs;
pub(crate) mod chunks;
pub(crate) mod commit_log;
pub(crate) mod content_gone;
pub(crate) mod dir_times;
pub(crate) mod expiry;
pub(crate) mod extents;
pub(crate) mod fold;
pub(crate) mod folded_authors;
pub(crate) mod head;
pub(crate) mod idempotency;
pub(crate) mod judged_prefixes;
pub(crate) mod leases;
pub(crate) mod live_names;
pub(crate) mod name_pages;
pub(crate) mod names_of_node;
pub(crate) mod node_columns;
pub(crate) mod nodes;
pub(crate) mod origins;
pub(crate) mod packs;
pub(crate) mod past_leases;
pub(crate) mod past_names;
pub(crate) mod quotas;
pub(crate) mod replaced;
pub(crate) mod retention;
pub(crate) mod small_files;
pub(crate) mod snapshots;
pub(crate) mod staged;
pub(crate) mod times_ahead;

pub(crate) use crate::engine::relational::reads::tree_rows::MAX;
