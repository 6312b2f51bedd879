//! Pinned files: every pack of the session starts with them.

use super::entry::MAX_DERIVED;
use crate::boxed;
use crate::once::PENDING;
use crate::session::handle::Sessions;
use crate::session::store::files::{MAX_PINNED, PINNED};
use garth_engine::error::{Error, ErrorKind, OptionalExt as _, Result};
use garth_engine::model::{At, Op, Page, Precondition, Seq};
use garth_engine::path::check_id;

impl Sessions<'_> {
    /// Pins a text under a name; without a text, unpins it. In packs `system.md` comes first, the others
    /// follow by name.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid name; `NotFound`; `TooLarge`; from the filesystem.
    #[boxed]
    pub async fn pin(&self, session: &str, name: &str, text: Option<&str>) -> Result<Seq> {
        check_id("pinned file", name)?;
        if text.is_some_and(|text| text.len() > MAX_DERIVED) {
            let message = format!("{name}: a pinned file has at most {MAX_DERIVED} bytes");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        self.once.run(self.pin_once(session, name, text)).await
    }

    async fn pin_once(&self, session: &str, name: &str, text: Option<&str>) -> Result<Seq> {
        self.meta(session).await?;
        let path = self.file(session, &format!("{PINNED}/{name}"))?;
        if text.is_some() {
            let dir = self.file(session, PINNED)?;
            // One more than may be pinned: the file itself may be among them, and does not count when it is
            // replaced.
            let page = Page::default().limit(MAX_PINNED + 1);
            let there = self.fs.list(&At::from(&dir), &page).await.optional()?.unwrap_or_default().items;
            let others = there.iter().filter(|item| item.name.as_str() != name);
            if others.count() >= MAX_PINNED {
                let message =
                    format!("{session}: has {MAX_PINNED} pinned files, which is the most; unpin one first");
                return Err(Error::new(ErrorKind::TooLarge, message));
            }
        }
        let op = match text {
            Some(text) => Op::write(path, text.to_owned()).with_parents(),
            None => Op::remove_file(path),
        };
        let batch = self.batch(session, vec![op], "pin to session")?;
        let batch = batch.require(self.is_there(session)?, Precondition::Exists);
        self.once.commit(self.fs, batch, PENDING).await
    }
}
