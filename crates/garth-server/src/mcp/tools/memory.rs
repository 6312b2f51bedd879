//! The tool `memory`: the memory tool of Claude models, with its six commands.

use super::answer::ToolAnswer;
use crate::errors::Refusal;
use crate::routes::call::Call;
pub(super) use crate::routes::memory_tool::CommandFields;
use crate::routes::memory_tool::answer;
use crate::routes::open::Opened;

/// Runs the tool. A text for the model is the same as over every other interface.
pub(super) async fn memory(
    opened: &Opened<'_>,
    call: &Call<'_>,
    fields: CommandFields<'_>,
) -> Result<ToolAnswer, Refusal> {
    let answer = answer(opened, call, fields).await?;
    let is_error = answer.is_error;
    Ok(ToolAnswer { is_error, ..ToolAnswer::new(answer.text.clone(), &answer)? })
}
