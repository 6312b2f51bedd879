//! Events that garth itself appends, as a part of another commit.

use super::draft::Draft;
use crate::ids::uuid;
use crate::session::handle::Sessions;
use crate::session::store::files::Log;
use garth_engine::error::Result;
use garth_engine::model::Op;

impl Sessions<'_> {
    /// Returns the append of an event of this type, in a run of its own.
    pub(crate) async fn event_op(&self, session: &str, kind: &str, fields: &[(&str, &String)]) -> Result<Op> {
        // Other interfaces may leave out the last line feed. Without one, the event would continue that line.
        let start = if self.end(session, Log::Events).await?.open { "\n" } else { "" };
        let event = Draft::event(kind)
            .with("id", &format!("ev-{}", uuid(&self.env)?))
            .with("run", &format!("run-{}", uuid(&self.env)?))
            .with("created_at", &self.env.now().to_rfc3339());
        let event = fields.iter().fold(event, |event, (name, value)| event.with(name, value));
        event.check(Log::Events)?;
        let file = self.file(session, Log::Events.file())?;
        Ok(Op::append(file, format!("{start}{}\n", event.line())).must_exist())
    }
}
