//! Retention of an account over HTTP.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use garth_engine::AccountStore;
use garth_engine::fs::store::RetentionState;
use garth_engine::rule::PathPattern;
use garth_engine::rule::retention::{ContentLimit, MAX_AGE, MAX_CLASSES, Retention};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::answers::retention::{RetentionAnswer, version_of};
use super::commits::batch;
use crate::errors::{Code, Refusal};
use crate::fields::{MAX_INTEGER, Slot as _, array, fields, integer, string};
use crate::routes::call::Call;
use crate::routes::respond::Json;

/// Least age in seconds: replays and pages that have begun need the past for a while.
const MIN_AGE: u64 = 600;
/// Least number of commits, for the same reason.
const MIN_COMMITS: u64 = 1000;

fields! {
    /// Returns how much of its past the account keeps, and how far it is gone.
    pub(crate) struct GetFields<'a> {
    }
}

pub(in crate::routes) async fn get(
    account: &Arc<dyn AccountStore>,
    _: &Call<'_>,
    _: GetFields<'_>,
) -> Result<Json<RetentionAnswer>, Refusal> {
    Json::of(&RetentionAnswer::of(account.retention().await?))
}

fields! {
    /// Sets how much of its past the account keeps, and how much it stores. All limits are replaced: one that
    /// is left out is removed. The next collection removes the past beyond them for ever.
    pub(crate) struct SetFields<'a> {
        /// Age in seconds from which commits leave the log. Default: no limit.
        age_seconds: Option<u64> = integer(MIN_AGE, MAX_AGE.as_secs());
        /// Number of commits that the log keeps. With an age, the limit that keeps less counts. Default: no
        /// limit.
        commits: Option<u64> = integer(MIN_COMMITS, MAX_INTEGER);
        /// Limit on the stored bytes of the account, in force from the next commit. Default: none.
        max_stored: Option<u64> = integer(0, MAX_INTEGER);
        /// Path classes whose old content stays for a limited time: objects with `pattern`, a glob
        /// pattern, and `keep_seconds`, the seconds after its replacement; 0 keeps none. Default: none.
        content: Option<Vec<&'a RawValue>> = array("content limits").at_most(MAX_CLASSES);
        /// `version` that the limits must have now; otherwise `CONFLICT`. Default: any.
        if_version: Option<Cow<'a, str>> = string();
    }
}

/// Limit on old content, as a request has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskedLimit<'a> {
    pattern: String,
    /// Integer in any notation, as in other fields.
    #[serde(borrow)]
    keep_seconds: &'a RawValue,
}

fn content_limit((at, json): (usize, &&RawValue)) -> Result<ContentLimit, Refusal> {
    let malformed = || {
        let message = "must be an object with \"pattern\", a string, and \"keep_seconds\", an integer";
        Refusal::validation(format!("\"content[{at}]\" {message}"))
    };
    let asked: AskedLimit<'_> = serde_json::from_str(json.get()).map_err(|_| malformed())?;
    let keep = u64::read(asked.keep_seconds.get(), &integer(0, u64::MAX)).map_err(|_| malformed())?;
    let pattern = PathPattern::parse(&asked.pattern)
        .map_err(|error| Refusal::from(error).about(format_args!("\"content[{at}]\"")))?;
    Ok(ContentLimit { pattern, keep: Duration::from_secs(keep) })
}

pub(in crate::routes) async fn set(
    account: &Arc<dyn AccountStore>,
    call: &Call<'_>,
    fields: SetFields<'_>,
) -> Result<Json<RetentionAnswer>, Refusal> {
    let record = batch(call, "set the retention");
    let content = fields.content.iter().flatten().enumerate().map(content_limit);
    let content = content.collect::<Result<Vec<_>, _>>()?;
    let setting = async {
        let retention = Retention {
            age: fields.age_seconds.map(Duration::from_secs),
            commits: fields.commits,
            stored: fields.max_stored,
            content,
        };
        let state = match fields.if_version.as_deref() {
            Some(version) => replace(&**account, version, retention).await?,
            None => account.set_retention(retention).await?,
        };
        Ok::<_, Refusal>(Json::of(&RetentionAnswer::of(state))?.into_value())
    };
    call.once.answer_after(&**account, record, setting).await.map(Json::recorded)
}

/// Sets the retention if the current one has the version.
async fn replace(
    account: &dyn AccountStore,
    version: &str,
    to: Retention,
) -> Result<RetentionState, Refusal> {
    let before = account.retention().await?.set;
    if version_of(&before) != version {
        let message = "\"if_version\" is not the version of the limits that are set; read them again and repeat \
                       the change";
        return Err(Refusal::new(Code::Conflict, message));
    }
    // Fails if they were changed since they were read.
    Ok(account.replace_retention(before, to).await?)
}
