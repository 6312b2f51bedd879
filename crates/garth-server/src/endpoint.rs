//! Endpoints that garth sends to: the URLs of sinks and models, and requests to models.

use std::io;
use std::time::Duration;

use garth_agent::models::ServiceError;
use garth_engine::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::Value;
use ureq::Agent;
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

/// Checks that a secret has no control characters. `what` names it in the error, which does not repeat it.
///
/// No header can contain them: without this check, each request with an API key that has a line feed inside
/// would fail, for a reason that does not name the key.
pub(crate) fn check_secret(what: &str, secret: &[u8]) -> Result<()> {
    if secret.iter().any(u8::is_ascii_control) {
        let message =
            format!("{what} contains a line feed or another control character; it must be one line of text");
        return Err(Error::invalid(message));
    }
    Ok(())
}

/// Part of an answer that reports the tokens used. Some endpoints leave out the sum.
#[derive(Debug, Deserialize)]
pub(crate) struct Usage {
    pub(crate) total_tokens: Option<u64>,
}

/// Endpoint of a model that answers JSON with JSON.
#[derive(Clone)]
pub(crate) struct ModelEndpoint {
    agent: Agent,
    url: String,
    key: Option<String>,
    timeout: Duration,
    max_answer: usize,
}

impl ModelEndpoint {
    /// Returns the endpoint at `call` below a base URL, with the timeout of a request and the longest answer.
    /// It follows no redirects and ignores the proxies of the environment. `what` names the service in
    /// errors.
    ///
    /// # Errors
    /// `InvalidArgument`: the URL is not `http` or `https`, or contains a user or password, or the key
    /// contains control characters.
    pub(crate) fn new(
        what: &str,
        (base, call): (&str, &str),
        key: Option<String>,
        (timeout, max_answer): (Duration, usize),
    ) -> Result<Self> {
        check(what, base, "give a key")?;
        if let Some(key) = &key {
            check_secret(&format!("the {what}'s key"), key.as_bytes())?;
        }
        let config = Agent::config_builder()
            // The status is checked below, where the message can name it.
            .http_status_as_error(false)
            .max_redirects(0)
            // A redirect or a proxy would get the prompt and the key.
            .proxy(None)
            .user_agent(concat!("garth/", env!("CARGO_PKG_VERSION")))
            .build();
        let url = format!("{}/{call}", base.trim_end_matches('/'));
        Ok(Self { agent: config.new_agent(), url, key, timeout, max_answer })
    }

    /// Sets the timeout of a request, and the longest answer.
    #[must_use]
    pub(crate) fn within(self, timeout: Duration, max_answer: usize) -> Self {
        Self { timeout, max_answer, ..self }
    }

    /// Sends a request and waits for the answer. Blocks the thread.
    ///
    /// # Errors
    /// The reason why there is no answer, or one that is no success or too long.
    pub(crate) fn post(&self, body: &Value) -> Result<String, ServiceError> {
        let request = self.agent.post(&self.url).config().timeout_global(Some(self.timeout)).build();
        let mut request = request.header("content-type", "application/json");
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let sent = request.send(body.to_string());
        let mut answer = sent.map_err(|error| why(&error))?;
        // The reason leaves out the body, which could repeat the key.
        if !answer.status().is_success() {
            return Err(ServiceError::Refused(answer.status().as_u16()));
        }
        // An endpoint could send without end.
        let text = answer.body_mut().with_config().limit(self.max_answer as u64).read_to_string();
        text.map_err(|error| match why(&error) {
            ServiceError::Unreachable => ServiceError::Invalid("an answer that broke off"),
            error => error,
        })
    }
}

/// Returns the reason of a failure. The error itself may quote the URL.
fn why(error: &ureq::Error) -> ServiceError {
    match error {
        ureq::Error::Timeout(_) => ServiceError::TimedOut,
        // A timeout of the socket, not of the request.
        ureq::Error::Io(error) if error.kind() == io::ErrorKind::TimedOut => ServiceError::TimedOut,
        ureq::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
            ServiceError::Invalid("something else than text")
        }
        ureq::Error::BodyExceedsLimit(_) => ServiceError::Invalid("an answer that is too long"),
        ureq::Error::Protocol(_) | ureq::Error::Http(_) | ureq::Error::LargeResponseHeader(..) => {
            ServiceError::Invalid("something else than HTTP")
        }
        // The rest fails before an answer, such as TLS.
        _ => ServiceError::Unreachable,
    }
}
