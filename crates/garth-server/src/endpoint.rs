//! URLs of endpoints that garth sends to: sinks and models.

use garth_engine::{Error, ErrorKind, Result};
use ureq::http::Uri;

/// Refuses what is no `http` or `https` URL of a host, or has a user or password in it; `instead` says what
/// takes their place.
pub(crate) fn check(what: &str, url: &str, instead: &str) -> Result<()> {
    let bad = |why: &str| Err(Error::new(ErrorKind::InvalidArgument, format!("the {what}'s URL {why}")));
    let Ok(parsed) = url.parse::<Uri>() else { return bad("is none") };
    if !matches!(parsed.scheme_str(), Some("http" | "https")) {
        return bad("begins with http:// or https://");
    }
    match parsed.authority() {
        Some(authority) if authority.as_str().contains('@') => {
            bad(&format!("has no user and password in it: {instead}"))
        }
        Some(authority) if !authority.host().is_empty() => Ok(()),
        _ => bad("names a host"),
    }
}
