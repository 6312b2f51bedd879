//! Import and export: folders, files and tar archives of this machine, and copies from one store to another.
//!
//! Both directions compare before they write: [`pairs`] walks both sides in the same order, and [`load`] and
//! [`to_folder`] change what differs.

mod exclude;
mod format;
mod from_folder;
mod from_tar;
mod from_tree;
mod host;
mod layout;
mod layout_walk;
mod load;
mod own;
mod pairs;
mod report;
mod to_folder;
mod to_tar;
mod tree_walk;

pub(crate) use self::exclude::Exclude;
pub(crate) use self::format::{Format, decompress_first};
pub(crate) use self::from_folder::{from_file, from_folder};
pub(crate) use self::from_tar::from_tar;
pub(crate) use self::from_tree::from_tree;
pub(crate) use self::host::count;
pub(crate) use self::layout::check as check_layout;
pub(crate) use self::load::{Loader, Policy};
pub(crate) use self::own::CurrentFolder;
pub(crate) use self::report::{Report, Style};
pub(crate) use self::to_folder::{LeftOut, to_file, to_folder};
pub(crate) use self::to_tar::{Sink, to_tar};
