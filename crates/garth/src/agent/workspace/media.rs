//! What a reset does with media: those that the archive refers to stay, with a name.

use super::Workspace;
use super::archive::Written;
use super::settings::Settings;
use crate::agent::session::Closed;
use crate::error::Result;
use crate::model::{At, Op, Precondition};

impl Workspace<'_> {
    pub(super) async fn media_ops(
        &self,
        _closed: &Closed,
        _written: Option<&Written>,
        _settings: &Settings,
    ) -> Result<(Vec<Op>, Vec<(At, Precondition)>)> {
        Ok((Vec::new(), Vec::new()))
    }
}
