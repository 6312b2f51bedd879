//! Overlay of two trees: writes go to the upper layer, and the lower layer stays as it is.

mod apply;
mod base;
mod copy;
mod cursor;
mod diff;
mod fetch;
mod handles;
mod layered_tree;
mod layers;
mod lowering;
mod pages;
mod pair;
mod places;
mod reads;
mod stored;
mod up;

pub use self::apply::{Applied, Side};
pub use self::diff::{Difference, DifferenceKind};
pub use self::layered_tree::Overlay;
#[doc(hidden)]
pub use self::places::Places;
pub use self::stored::{LowerLayer, StoredInfo, StoredOverlay};
