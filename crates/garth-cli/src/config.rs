//! Configuration of a server: options from flags, the environment, the file `garth.toml` and defaults, in
//! that order. `table` declares each option once; flags, help, `garth config` and `docs/configuration.md` are
//! generated from it.

mod file;
mod flags;
mod kind;
mod log_filter;
mod operations;
#[cfg(test)]
mod page;
mod resolve;
mod setting;
mod settings;
mod table;

pub(crate) use self::flags::{EmbedderFlags, FlagValues, ModelFlags, ServeFlags, SinkFlags};
pub(crate) use self::kind::{Value, is_address, shown_file, without_line_end};
pub(crate) use self::log_filter::{log_filter, may_be_logged};
pub(crate) use self::resolve::{Config, Resolved};
pub(crate) use self::setting::Group;
pub(crate) use self::settings::{LogFormat, Settings, Storage};
