//! Version of how garth reads and names the files of a prompt. A prompt that was built once is built again by
//! the version that built it, so that the bytes are the same.

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Reading {
    /// Version of prompts whose inputs name no tree: broken front matter says nothing, and neither do the
    /// namespaces and `os` that are read since; what a code fence holds is text of heartbeats.
    First,
    /// Version of today.
    #[default]
    Now,
}
