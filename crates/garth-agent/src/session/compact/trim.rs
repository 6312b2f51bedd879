//! Takes older messages out of packs, as a part of a commit. They stay in the log, and the summary covers
//! them.

use std::ops::RangeInclusive;

use super::plan::Compaction;
use crate::session::derived::derive::DerivePlan;
use crate::session::handle::Sessions;
use crate::session::log::draft::Role;
use crate::session::log::message::Message;
use crate::session::log::tail_reader::TailReader;
use crate::session::render::whole;
use crate::session::store::files::{Log, META, SUMMARY};
use crate::session::store::list::Listed;
use crate::session::store::meta::Meta;
use crate::small_file::{File, as_read};
use garth_engine::error::Result;
use garth_engine::model::{At, Op, Precondition};
use garth_engine::path::TreePath;

/// Part of a commit that takes messages out of packs.
#[derive(Debug)]
pub(crate) struct TrimPlan {
    pub(crate) ops: Vec<Op>,
    pub(crate) conditions: Vec<(At, Precondition)>,
}

impl Sessions<'_> {
    /// Returns a session, and `meta.json` as it was read.
    pub(crate) async fn with_meta(&self, session: &str) -> Result<(File, Listed)> {
        let (file, meta) = self.meta(session).await?;
        let listed = self.get(session).await?;
        Ok((file, Listed { meta, ..listed }))
    }

    /// Returns the last message that can be taken out if the last turn and at least `tokens` tokens stay.
    pub(crate) async fn before_tail(&self, session: &str, tokens: u64) -> Result<u64> {
        let end = self.end(session, Log::Messages).await?;
        let gone = self.retracted(session, 1..=end.lines).await?;
        let mut back = TailReader::new(self, session, Log::Messages, end)?;
        let (mut kept, mut turn) = (0, false);
        while let Some(line) = back.next().await? {
            if turn && kept >= tokens {
                return Ok(line.number);
            }
            let Ok(message) = Message::parse(&line.text) else { continue };
            if gone.iter().any(|lines| lines.contains(&line.number)) {
                continue;
            }
            // The last turn of the user stays, however long it is: without it the model would not know what
            // is asked.
            turn |= message.role == Role::User;
            kept += whole(line.number, message, &self.tokens).tokens;
        }
        Ok(0)
    }

    /// Returns the operations that take messages out of packs.
    pub(crate) async fn trim_plan(
        &self,
        session: &str,
        (file, meta): (&File, Meta),
        made: Option<&Compaction>,
        (lines, part): (&RangeInclusive<u64>, &TreePath),
    ) -> Result<TrimPlan> {
        let (mut ops, mut conditions) = (Vec::new(), Vec::new());
        if let Some(made) = made {
            let DerivePlan { ops: more, conditions: named, .. } =
                self.derive_plan(session, &made.derive).await?;
            ops.extend(more);
            conditions.extend(named);
            // Another writer may have changed the summary while the model answered.
            conditions.push((At::from(self.file(session, SUMMARY)?), made.summary.clone()));
        }
        ops.push(self.meta_op(session, &meta)?);
        let source = format!("messages:{}-{}", lines.start(), lines.end());
        let fields = [("source", &*source), ("part", part.as_str())];
        self.add_event(&mut ops, session, "session.trimmed", &fields).await?;
        conditions.push((At::from(self.file(session, META)?), as_read(Some(file))));
        Ok(TrimPlan { ops, conditions })
    }
}
