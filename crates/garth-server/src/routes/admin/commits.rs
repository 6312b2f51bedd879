//! Commits of administrators.

use garth_engine::model::{Author, Batch};

use crate::routes::call::Call;

/// Returns a batch without operations, by the key of the caller. The message has no path or pattern, which
/// may be as long as a message: a record that cannot be committed would be lost after its call has run.
pub(super) fn batch(call: &Call<'_>, message: &str) -> Batch {
    Batch::default().author(Author::key(&*call.key.id)).message(message)
}
