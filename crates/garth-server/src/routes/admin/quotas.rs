//! Quotas of an account over HTTP.

use std::borrow::Cow;
use std::sync::Arc;

use garth_engine::AccountStore;
use garth_engine::model::quota::{Limits, MAX_QUOTAS, Quota};

use super::answers::{QuotaItem, QuotaRemoved, QuotaSet};
use super::commits::batch;
use crate::errors::Refusal;
use crate::fields::{MAX_INTEGER, Page, fields, integer, path_field, string_of};
use crate::routes::call::Call;
use crate::routes::respond::Json;
use crate::wire::ItemsPage;

fields! {
    /// Lists the quotas of the account with their use, ordered by path.
    pub(crate) struct ListFields<'a> {
        ..page: Page<MAX_QUOTAS, MAX_QUOTAS>;
    }
}

pub(in crate::routes) async fn list(
    account: &Arc<dyn AccountStore>,
    call: &Call<'_>,
    fields: ListFields<'_>,
) -> Result<Json<ItemsPage<QuotaItem>>, Refusal> {
    let mut quotas = account.quotas().await?;
    quotas.sort_by(|one, other| one.path.as_str().cmp(other.path.as_str()));
    let after = fields.page.cursor.as_deref().unwrap_or_default();
    let mut rest = quotas.iter().filter(|quota| quota.path.as_str() > after).peekable();
    let page: Vec<&Quota> = rest.by_ref().take(fields.page.limit).collect();
    let items = page.iter().copied().map(QuotaItem::of).collect();
    let last = page.last().filter(|_| rest.peek().is_some());
    Json::of(&ItemsPage::new(items, last.map(|last| last.path.as_str()), &call.fields))
}

fields! {
    /// Sets the quota of a path, in force from the next commit. It replaces the current one.
    pub(crate) struct SetFields<'a> {
        /// Path; `/` is the complete account. It need not exist, and `*` is an ordinary character.
        path: Cow<'a, str> = string_of("path");
        /// Limit on the bytes below the path. Default: none.
        max_bytes: Option<u64> = integer(0, MAX_INTEGER);
        /// Limit on the entries below the path. Default: none.
        max_entries: Option<u64> = integer(0, MAX_INTEGER);
    }
}

pub(in crate::routes) async fn set(
    account: &Arc<dyn AccountStore>,
    call: &Call<'_>,
    fields: SetFields<'_>,
) -> Result<Json<QuotaSet>, Refusal> {
    let path = path_field("path", &fields.path)?;
    let limits = Limits { bytes: fields.max_bytes, entries: fields.max_entries };
    let record = batch(call, "set a quota");
    let setting = async {
        let quota = QuotaItem::of(&account.set_quota(&path, limits).await?);
        Ok::<_, Refusal>(Json::of(&QuotaSet { ok: true, quota })?.into_value())
    };
    call.once.answer_after(&**account, record, setting).await.map(Json::recorded)
}

fields! {
    /// Removes the quota of a path.
    pub(crate) struct RemoveFields<'a> {
        /// Path of the quota.
        path: Cow<'a, str> = string_of("path");
    }
}

pub(in crate::routes) async fn remove(
    account: &Arc<dyn AccountStore>,
    call: &Call<'_>,
    fields: RemoveFields<'_>,
) -> Result<Json<QuotaRemoved>, Refusal> {
    let path = path_field("path", &fields.path)?;
    let record = batch(call, "remove a quota");
    let removing = async {
        account.remove_quota(&path).await?;
        let answer = QuotaRemoved { ok: true, path: path.to_string(), removed: true };
        Ok::<_, Refusal>(Json::of(&answer)?.into_value())
    };
    call.once.answer_after(&**account, record, removing).await.map(Json::recorded)
}
