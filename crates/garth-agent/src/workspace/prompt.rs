//! Prompt: the text from a workspace that a model gets before the messages of a session. It is built from
//! files at one point in time, lists its parts with the reasons for them, and can be built again as of any
//! time that is retained.

mod assemble;
mod diff;
mod files;
mod inputs;
mod named;
mod output;
mod parts;
mod record;
pub mod texts;

pub use self::diff::{Changed, Difference};
use self::files::Files;
pub use self::inputs::{Inputs, PromptOptions};
pub use self::output::PromptManifest;
pub use self::parts::{Part, Prompt, Replayed, Stable};
pub(super) use self::record::PINNED_SINCE;
use super::daily;
use super::handle::Workspace;
use crate::boxed;
use crate::identity::{Class, check_audience};
use crate::session::Meta;
use crate::settings::ResetPolicy;
use garth_engine::compute::go_on;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::model::{Moment, Seq, Timestamp};
use garth_engine::path::check_id;

impl Workspace<'_> {
    /// Builds the prompt, now or as of a time. If it is built now for a session, an event of the session
    /// records it.
    ///
    /// As of a time, it is the last prompt that was built until then, from the same files and the inputs of
    /// that time. With `inputs` it is the one that would have been built then.
    ///
    /// # Errors
    /// - `NotFound`: the session does not exist.
    /// - `AccessDenied`: the session is of another class than the author's.
    /// - `InvalidArgument`: files, settings or inputs are invalid, or no prompt was built for the session
    ///   until `at` and no inputs are given.
    /// - `TooLarge`: a file has more than 1 MiB.
    /// - `Gone`: the time is beyond retention.
    /// - Errors of the filesystem.
    #[boxed]
    pub async fn prompt(&self, options: &PromptOptions) -> Result<Prompt> {
        options.inputs.as_ref().map_or(Ok(()), Inputs::check)?;
        if let Some((user, session)) = &options.session {
            check_audience(user)?;
            check_id("session", session)?;
        }
        match (&options.at, &options.inputs) {
            (Some(at), None) => self.replay(options, at).await,
            (Some(at), Some(inputs)) => {
                self.build(options, Some(at), inputs.clone().naming(self.paths).judged_now(), None).await
            }
            (None, inputs) => {
                let inputs = inputs.clone().unwrap_or_default().naming(self.paths).judged_now();
                let build = self.build(options, None, inputs, None);
                if options.dry {
                    return build.await;
                }
                let mut built = None;
                let recorded = self.once.run(async {
                    let prompt = build.await?;
                    let recorded = self.record(options, &prompt).await?;
                    built = Some(prompt);
                    Ok::<_, Error>(recorded)
                });
                let recorded = recorded.await?;
                // An earlier attempt of the request has recorded a prompt. The caller gets that one, not the
                // one just built.
                let Some(mut prompt) = built.filter(|_| recorded.is_own()) else {
                    return self.build_again(options, recorded).await;
                };
                prompt.event = recorded.into_event();
                if let (Some((user, session)), true) = (&options.session, prompt.resets) {
                    self.schedule_reset(user, session).await?;
                }
                Ok(prompt)
            }
        }
    }

    /// Builds the prompt from the files of a point in time.
    async fn build(
        &self,
        options: &PromptOptions,
        at: Option<&Moment>,
        mut inputs: Inputs,
        read_at: Option<Timestamp>,
    ) -> Result<Prompt> {
        // For a time in the past, that time is now.
        let now_is = match at {
            Some(Moment::Time(time)) => *time,
            _ => self.env.now(),
        };
        let time = inputs.time(now_is)?;
        // Recorded with the inputs, so that a replay has the same time.
        inputs.clock = Some(time.to_rfc3339());
        let moment = self.moment(at).await?;
        // Also those that an earlier prompt recorded, which a caller with a free key may have built.
        if !self.shows_others() {
            inputs.others.clear();
        }
        // Listed in the inputs, so that a replay reads the same files even if other audiences have written
        // since.
        if at.is_none() && self.own_class() == Class::Main && self.shows_others() {
            let today = self.settings().await?.zone()?.day(time);
            let others = daily::others(self.whole(), &self.agent, &[today.before(), today]).await?;
            inputs.others = others.into_iter().map(|path| path.to_string()).collect();
        }
        let session = options.session.as_ref();
        let mut files = Files::read(self, &*moment, session, (time, &inputs.others), read_at).await?;
        // The session may have a higher class than the author. Only a main session sees other audiences.
        if files.keeper.class != Class::Main {
            inputs.others.clear();
        }
        let since = match files.session.as_ref().and_then(pinned_since) {
            // Pinned at the current commit, the files would be the same.
            Some(since) if files.settings.prompt.pinned && since < files.seq => Some(since),
            _ => None,
        };
        let mut now = None;
        if let Some(since) = since {
            match self.moment(Some(&Moment::Seq(since))).await {
                Ok(then) => {
                    let others = (time, &*inputs.others);
                    let mut pinned = Files::read(self, &*then, session, others, None).await?;
                    // The visibility of memory is not pinned: a restriction applies at once.
                    pinned.settings.daily_memory = files.settings.daily_memory;
                    now = Some(std::mem::replace(&mut files, pinned));
                }
                // Files beyond retention cannot be pinned.
                Err(error) if error.is(ErrorKind::Gone) => {}
                Err(error) => return Err(error),
            }
        }
        let mut prompt = assemble::prompt(&self.agent, &files, now.as_ref(), inputs, time, &self.known);
        go_on()?;
        prompt.read_at = now_is;
        prompt.resets = now.as_ref().unwrap_or(&files).settings.reset.policy != ResetPolicy::Manual;
        Ok(prompt)
    }
}

/// Returns the commit at which the prompt of a session is pinned.
fn pinned_since(meta: &Meta) -> Option<Seq> {
    meta.other.get(PINNED_SINCE)?.as_u64().map(Seq)
}
