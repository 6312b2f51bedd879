//! URLs of endpoints that garth sends to: sinks and models.

use garth_engine::{Error, ErrorKind, Result};
use ureq::http::Uri;

/// Checks that `url` is an `http` or `https` URL of a host, without a user or password. `what` and `instead`
/// go into the error: the kind of endpoint, and how to authenticate instead.
pub(crate) fn check(what: &str, url: &str, instead: &str) -> Result<()> {
    let bad = |why: &str| Err(Error::new(ErrorKind::InvalidArgument, format!("the {what}'s URL {why}")));
    let Ok(parsed) = url.parse::<Uri>() else { return bad("is not a valid URL") };
    if !matches!(parsed.scheme_str(), Some("http" | "https")) {
        return bad("must begin with http:// or https://");
    }
    match parsed.authority() {
        Some(authority) if authority.as_str().contains('@') => {
            bad(&format!("must not contain a user or password: {instead}"))
        }
        Some(authority) if !authority.host().is_empty() => Ok(()),
        _ => bad("must name a host"),
    }
}
