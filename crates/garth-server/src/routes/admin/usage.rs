//! Space that an account takes, over HTTP.

use std::borrow::Cow;
use std::sync::Arc;

use garth_engine::AccountStore;

use super::answers::retention::UsageAnswer;
use super::commits::account_of;
use crate::errors::Refusal;
use crate::fields::{fields, path_field, string_of};
use crate::routes::call::Call;
use crate::routes::respond::Json;

fields! {
    /// Counts what takes the space of the account. It reads all of it, beside other calls.
    pub(crate) struct UsageFields<'a> {
        /// Directory whose children are listed.
        path: Cow<'a, str> = string_of("path"), or Cow::Borrowed("/");
    }
}

pub(in crate::routes) async fn usage(
    account: &Arc<dyn AccountStore>,
    call: &Call<'_>,
    fields: UsageFields<'_>,
) -> Result<Json<UsageAnswer>, Refusal> {
    let (tree, path) = (Arc::clone(account), path_field("path", &fields.path)?);
    let account = account_of(call)?;
    let usage = call.maintenance.run(&account, async move { tree.usage(&path).await }).await;
    Json::of(&UsageAnswer::of(&usage.map_err(Refusal::naming_path)?))
}
