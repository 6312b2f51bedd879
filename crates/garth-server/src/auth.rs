//! Authentication and scopes, decided from the head of a request alone.

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
    // The same answer as without a key, so that it reveals nothing about keys.
    let Some(admitted) = data_dir.admit(token).await? else { return Err(Refusal::unauthorized()) };
    match scopes.iter().find(|scope| !admitted.key().allows(**scope)) {
        Some(missing) => Err(Refusal::forbidden(missing.as_str())),
        None => Ok(admitted),
    }
}

/// Returns the token of exactly one `Authorization: Bearer` header. The scheme is case-insensitive (RFC 9110,
/// 11.1).
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    // With two headers it would be unclear which one counts.
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    // RFC 9110 permits more than one space after the scheme.
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_matches(' '))
}
