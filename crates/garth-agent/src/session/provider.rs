//! Message lists that model providers accept: each call is followed by its result, ids and names have the
//! form that all of them allow, and nothing that looks like a secret is sent. `docs/specs/provider-lists.md`
//! has the rules.

mod anthropic;
mod format;
mod ids;
mod image_limits;
mod images;
mod openai;
mod parts;
#[cfg(test)]
mod tests;
mod turns;

pub use self::format::Format;
pub(super) use self::image_limits::ImageLimits;
use self::images::Images;
pub(super) use self::images::{ImageRules, MediaImage, MediaImages};
use self::parts::{Part, Turn};
use self::turns::turns;
use super::log::message::Message;
use garth_engine::compute::working;
use garth_engine::text::secret::masked;

/// Returns a list that a provider accepts: `{"messages":[...]}` for `OpenAI`,
/// `{"system":"...","messages":[...]}` for Anthropic, without `system` if it is empty. `system` comes before
/// all messages; the texts of `after` follow them. Media files are named.
pub fn list(format: Format, system: &str, messages: &[Message], after: &[String]) -> String {
    list_with(format, (ImageRules::Checked, &MediaImages::new()), (system, messages, after))
}

/// Returns a list as [`list`] does, with media files, and with images selected by `rules`.
pub(super) fn list_with(
    format: Format,
    (rules, media): (ImageRules, &MediaImages),
    (system, messages, after): (&str, &[Message], &[String]),
) -> String {
    let images = Images { rules, limits: ImageLimits::of(format), media };
    let mut turns = turns(messages, &images);
    if !system.is_empty() {
        turns.insert(0, Turn::System(masked(system).into_owned()));
    }
    // After all messages: text that differs from call to call must not change the beginning of the list.
    let after = after.iter().filter(|text| !text.is_empty());
    let after: Vec<_> = after.map(|text| Part::Text(masked(text).into_owned())).collect();
    if !after.is_empty() {
        turns.push(Turn::User(after));
    }
    let list = match format {
        Format::OpenAi => openai::list(turns),
        Format::Anthropic => anthropic::list(turns),
    };
    working(list.len());
    list
}
