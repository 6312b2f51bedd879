//! Ids of the projections that derive keys from nodes.

/// Id of a projection, which derives keys from nodes. Those of attributes are [`Projection::TAG`] and
/// [`Projection::METADATA`]; the layer above the engine registers those of content when a folder is opened
/// (see [`Registry`](crate::rule::Registry)).
///
/// Keys compare by their bytes. A key of more than [`MAX_KEY`](super::MAX_KEY) bytes is stored as its first
/// bytes, up to this limit (fewer, if that would cut a character), followed by the BLAKE3 hash of all of it
/// in hexadecimal. So it equals only itself, and is next to keys that begin like it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Projection(u32);

impl Projection {
    /// Each tag of a node.
    pub const TAG: Self = Self(1);
    /// Each key of a node's custom metadata with its value: `key`, NUL, `value`.
    pub const METADATA: Self = Self(2);

    /// Projections of attributes, which every kind of node has.
    #[doc(hidden)]
    pub const OF_ATTRIBUTES: [Self; 2] = [Self::TAG, Self::METADATA];

    /// Returns the projection with the number under which its keys are stored. Never reuse the number of
    /// another one, not even of one that was removed.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Returns the number under which the keys are stored.
    pub fn number(self) -> u32 {
        self.0
    }
}
