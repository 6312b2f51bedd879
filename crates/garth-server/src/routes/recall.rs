//! The call `recall`: memories, messages and files relevant to a question, within a budget of tokens.

use std::borrow::Cow;

use bytes::Bytes;
use garth_agent::recall::{
    BUDGET, Embedding, Key, MAX_BUDGET, MAX_DAYS, MAX_SOURCES, MIN_BUDGET, Recall, Recalled,
};
use garth_engine::model::{SearchMode, Timestamp};
use schemars::JsonSchema;

use super::call::Call;
use super::open::Opened;
use crate::answers::{PAGE, Room, is_long};
use crate::errors::Refusal;
use crate::fields::{
    end_time, fields, integer, moment, path_fields, string, string_of, strings, time, words,
};

/// Limit on the paths of a call.
const MAX_PATHS: usize = 100;

fields! {
    /// Returns memories, messages and files relevant to a question, for a model, within a token budget.
    pub(super) struct RecallFields<'a> {
        /// Question.
        question: Cow<'a, str> = string();
        /// Limit on the tokens of the text.
        budget: usize = integer(MIN_BUDGET as u64, MAX_BUDGET as u64), or BUDGET;
        /// Limit on the sources. Default: as the budget allows, at most 100.
        limit: Option<usize> = integer(1, MAX_SOURCES as u64);
        /// Only sources below one of these paths. An empty array is no filter.
        within: Vec<String> = strings().of("path").at_most(MAX_PATHS), or Vec::new();
        /// Only sources with at least one of these tags. An empty array is no filter.
        tags_any: Vec<String> = strings(), or Vec::new();
        /// Only memories whose URI begins with these complete segments. Default: memories and files.
        prefix: Option<Cow<'a, str>> = string_of("URI prefix");
        /// Only messages said, and files modified, at this time or later. Default: any time.
        since: Option<Timestamp> = time();
        /// Only messages said, and files modified, before this time. Default: any time.
        until: Option<Timestamp> = end_time();
        /// Days in which half of the rank of older text halves. Default: age does not count.
        half_life: Option<u64> = integer(1, MAX_DAYS as u64);
        /// Features by which texts are compared with the question: its words, or words and meaning.
        mode: Cow<'a, str> = words(&["words", "meaning"]), or Cow::Borrowed("meaning");
        /// Only memories that were valid at this time. Default: now.
        valid_at: Option<Timestamp> = time();
        /// Reads an earlier state: a time, a sequence or the name of a snapshot. Default: the newest.
        as_of: Option<Cow<'a, str>> = moment();
    }
}

/// Answers the call.
pub(super) async fn recall(
    opened: &Opened<'_>,
    call: &Call<'_>,
    fields: RecallFields<'_>,
) -> Result<Bytes, Refusal> {
    let asked = asked(call, fields).await?;
    let (recalled, key, room) = recalled(opened, call, &asked).await?;
    let json = serde_json::to_vec(&recalled.to_json(&key));
    let answer: Bytes = json.map_err(|_| Refusal::validation("the answer is not valid JSON"))?.into();
    match room {
        Some(room) => Ok(room.hold(answer)),
        None if is_long(&answer) => {
            Ok(call.answers.answer(call.key.share(), answer.len()).await?.hold(answer))
        }
        None => Ok(answer),
    }
}

/// Recalls, and returns the key of the fences and the room for the answer, if it is reserved already.
pub(crate) async fn recalled(
    opened: &Opened<'_>,
    call: &Call<'_>,
    asked: &Recall,
) -> Result<(Recalled, Key, Option<Room>), Refusal> {
    let (tree, account) = (opened.recalled().await?, call.key.share());
    let served = call.embedder.filter(|_| asked.mode == SearchMode::Meaning);
    let waiting = match served {
        Some(_) => call.recalls.recall(account).await,
        None => None,
    };
    // A service that hangs must not take the account's room for answers: a recall that may wait for it has
    // another one, and takes this one for the finished answer. The others wait for nobody.
    let room = match waiting {
        Some(_) => None,
        None => Some(call.answers.answer(account, PAGE).await?),
    };
    let embedder = served.map(|served| (served, served.within(waiting)));
    let of_account = call.reach.for_garth()?;
    let embedding = embedder
        .as_ref()
        .map(|(served, embedder)| served.limited(Embedding::new(embedder, call.vectors), &**of_account));
    // A new key for each answer, so that stored text cannot contain its codes.
    let key = Key::random(&tree.env)?;
    let recaller = tree.recaller().embedding(embedding);
    let recalled = recaller.recall(asked, &key).await?;
    Ok((recalled, key, room))
}

/// Answer of `recall`.
#[allow(dead_code)] // It only describes the answer, which the library writes.
#[derive(JsonSchema)]
pub(super) struct RecallAnswer {
    #[schemars(flatten)]
    recalled: Recalled,
    /// Key of the fences, which checks that a piece was quoted by this answer.
    key: String,
}

async fn asked(call: &Call<'_>, fields: RecallFields<'_>) -> Result<Recall, Refusal> {
    let mut asked = Recall::new(fields.question);
    (asked.budget, asked.limit) = (fields.budget, fields.limit);
    asked.within = path_fields("within", &fields.within)?;
    (asked.tags_any, asked.valid_at) = (fields.tags_any, fields.valid_at);
    (asked.since, asked.until) = (fields.since, fields.until);
    if fields.mode == "words" {
        asked.mode = SearchMode::Words;
    }
    asked.prefix = fields.prefix.map(Cow::into_owned);
    asked.half_life = fields.half_life.and_then(|days| u32::try_from(days).ok());
    asked.as_of = call.moment_of(fields.as_of.as_deref()).await?;
    Ok(asked)
}
