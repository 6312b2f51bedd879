//! Who asks, and whether they may: decided from the head of a request alone.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use garth_engine::DataDir;
use garth_engine::datadir::{Admitted, Scope};

use crate::errors::Refusal;

/// Returns the key that a request carries, if it has all of `scopes`.
pub(crate) async fn authorize(
    data_dir: &DataDir,
    headers: &HeaderMap,
    scopes: &[Scope],
) -> Result<Admitted, Refusal> {
    let Some(token) = bearer(headers) else { return Err(Refusal::unauthorized()) };
    let Some(admitted) = data_dir.admit(token).await? else { return Err(Refusal::unauthorized()) };
    match scopes.iter().find(|scope| !admitted.key().allows(**scope)) {
        Some(missing) => Err(Refusal::forbidden(missing.as_str())),
        None => Ok(admitted),
    }
}

/// The token of exactly one `Authorization: Bearer` header. The scheme's case does not matter (RFC 9110,
/// 11.1).
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_matches(' '))
}
