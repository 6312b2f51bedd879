//! Times and durations as people write them.

pub(crate) use garth_agent::files::{Lifetime, parse_span, parse_span_with_unit};
use garth_engine::model::{Moment, Timestamp};
use garth_engine::{Error, ErrorKind, FileSystem};

use crate::fail::Result;

/// All forms of a time, for errors.
const FORMS: &str = "give a sequence (42), a snapshot, a version (ver_...), a date or RFC 3339 time \
    (2026-01-27, 2026-01-27T09:30Z), now, today, yesterday, `last week`, or an age (90s, 15m, 1h, 7d, 2w, 3d12h)";

/// Parses `--at`. Any other text is the name of a snapshot of `fs` and gives the sequence of its state,
/// because the tree of an identity has snapshots of its own.
///
/// # Errors
/// - `NotFound`: the text has no known form and names no snapshot.
/// - `InvalidArgument`: the text names no time, such as a date that is not in the calendar.
pub(crate) async fn moment(fs: &dyn FileSystem, text: &str, now: Timestamp) -> Result<Moment> {
    if let Some(moment) = Moment::parse(text, now)? {
        return Ok(moment);
    }
    let snapshot = Moment::Snapshot(text.to_owned());
    match fs.as_of(&snapshot).await {
        Err(error) if error.is(ErrorKind::NotFound) => {
            Err(Error::new(ErrorKind::NotFound, format!("no snapshot is named `{text}`; {FORMS}")).into())
        }
        found => Ok(Moment::Seq(found?.head().await?.seq)),
    }
}
