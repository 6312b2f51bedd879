//! What the pieces of search promise, each and together on a real index in memory.

mod index;
mod text;
