//! Events that garth itself appends, as a part of another commit.

use super::draft::Draft;
use crate::ids::uuid;
use crate::session::handle::Sessions;
use crate::session::store::files::Log;
use garth_engine::error::{OptionalExt as _, Result};
use garth_engine::model::{At, Op};

impl Sessions<'_> {
    /// Adds the append of an event of this type, in a run of its own, to the operations of a commit.
    pub(crate) async fn add_event(
        &self,
        ops: &mut Vec<Op>,
        session: &str,
        kind: &str,
        fields: &[(&str, &str)],
    ) -> Result<()> {
        let file = self.file(session, Log::Events.file())?;
        let is_same = |op: &Op| matches!(op, Op::Append { at: At::Path(path), .. } if *path == file);
        // Other interfaces may leave out the last line feed. Without one, the event would continue that line.
        // Text that this commit has already appended ends with one.
        let (start, is_there) = match ops.iter().any(is_same) {
            true => ("", true),
            false => match self.end(session, Log::Events).await.optional()? {
                Some(end) => (if end.open { "\n" } else { "" }, true),
                // Whoever removed the log must not keep the session, or its parent, from ending.
                None => ("", false),
            },
        };
        let event = Draft::event(kind)
            .with("id", &format!("ev-{}", uuid(&self.env)?))
            .with("run", &format!("run-{}", uuid(&self.env)?))
            .with("created_at", &self.env.now().to_rfc3339());
        let event = fields.iter().fold(event, |event, (name, value)| event.with(name, *value));
        event.check(Log::Events)?;
        let append = Op::append(file, format!("{start}{}\n", event.line()));
        ops.push(if is_there { append.must_exist() } else { append });
        Ok(())
    }
}
