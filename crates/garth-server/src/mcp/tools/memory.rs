//! The tool `memory`: the memory tool of Claude models, with its six commands.

use super::answer::{MAX_TEXT, ToolAnswer};
use crate::errors::Refusal;
use crate::routes::call::Call;
pub(super) use crate::routes::memory_tool::CommandFields;
use crate::routes::memory_tool::answer;
use crate::routes::open::Opened;

/// Runs the tool. A text for the model is that of every other interface, cut to the length of answers over
/// this one.
pub(super) async fn memory(
    opened: &Opened<'_>,
    call: &Call<'_>,
    fields: CommandFields<'_>,
) -> Result<ToolAnswer, Refusal> {
    let answer = answer(opened, call, fields, MAX_TEXT).await?;
    let is_error = answer.is_error;
    Ok(ToolAnswer { is_error, ..ToolAnswer::new(answer.text.clone(), &answer)? })
}
