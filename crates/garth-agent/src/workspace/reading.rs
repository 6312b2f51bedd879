//! Version of reading and naming the files of a prompt. A prompt is replayed by the version that built it
//! first, so that its bytes are the same.

/// Version of reading and naming.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Reading {
    /// Version of prompts without a tree in their inputs. Broken front matter is ignored, as are the
    /// namespaces and the `os` field added later; text inside a code fence counts as content of heartbeats.
    First,
    /// Version of prompts without a number of the reading in their inputs. Text of a body can be a
    /// requirement; fields of Hermes, and line ends other than those of ASCII, are not read.
    Second,
    /// Current version.
    #[default]
    Now,
}
