//! Names under which a server answers, and pages of other sites that may call it.
//!
//! A page in a browser can reach a server that only this machine can reach: its site changes the address of
//! its name to that of the server (DNS rebinding), and the browser takes both for one site. The name in
//! `Host` is still that of the page, so a request with a foreign name is refused. A request that a page sends
//! across sites has the site of the page in `Origin`, and is refused unless the operator permits that site.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, Uri};
use garth_engine::{Error, Result};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer, ExposeHeaders};

use crate::errors::{Code, Refusal};

/// Word that stands for any name or origin.
const ANY: &str = "*";
/// Time for which a browser may reuse the answer to its preflight request.
const MAX_AGE: Duration = Duration::from_secs(600);

/// Names that the header `Host` of a request may have, with any port. `localhost` and the addresses of
/// loopback are always among them: no other site can have them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts(Option<Vec<String>>);

impl Hosts {
    /// Returns the hosts that include any name.
    pub fn any() -> Self {
        Self(None)
    }

    /// Returns the hosts that include only those of loopback.
    pub fn loopback() -> Self {
        Self(Some(Vec::new()))
    }

    /// Parses names or IP addresses without ports, such as `garth.example.com` or `[2001:db8::1]`. `*`
    /// stands for any name.
    ///
    /// # Errors
    /// `InvalidArgument`: a text is not the name of a host.
    pub fn parse(names: &[impl AsRef<str>]) -> Result<Self> {
        let mut hosts = Vec::new();
        for name in names {
            match name.as_ref() {
                ANY => return Ok(Self::any()),
                name => hosts.push(host_name(name)?),
            }
        }
        Ok(Self(Some(hosts)))
    }

    fn contains(&self, host: &str) -> bool {
        let Some(names) = &self.0 else { return true };
        let host = without_dot(host);
        is_loopback(host) || names.iter().any(|name| name.eq_ignore_ascii_case(host))
    }
}

/// Returns the name of a host in lower case.
fn host_name(text: &str) -> Result<String> {
    let invalid = |advice: &str| {
        Error::invalid(format!("`{text}` is not the name of a host, such as garth.example.com; {advice}"))
    };
    let authority = Authority::try_from(text).map_err(|_| invalid("write it without a scheme and a path"))?;
    if authority.host() != text {
        return Err(invalid("write it without a user and a port"));
    }
    if text.contains(ANY) {
        return Err(invalid("* stands for any host and cannot be a part of a name"));
    }
    Ok(without_dot(text).to_ascii_lowercase())
}

/// Returns a name without the dot that marks it as complete.
fn without_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

fn is_loopback(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        return address.parse::<Ipv6Addr>().is_ok_and(|address| address.to_canonical().is_loopback());
    }
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

/// Origins of pages that may call a server, besides its own. The default has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins {
    is_any: bool,
    origins: Vec<HeaderValue>,
}

impl Origins {
    /// Parses origins, such as `https://app.example.com` or `http://localhost:3000`. `*` stands for any
    /// origin.
    ///
    /// # Errors
    /// `InvalidArgument`: a text is not an origin.
    pub fn parse(origins: &[impl AsRef<str>]) -> Result<Self> {
        let mut parsed = Self::default();
        for origin in origins {
            match origin.as_ref() {
                ANY => parsed.is_any = true,
                origin => parsed.origins.push(origin_value(origin)?),
            }
        }
        Ok(parsed)
    }

    fn contains(&self, origin: &HeaderValue) -> bool {
        self.is_any || self.origins.contains(origin)
    }

    /// Returns the layer that answers preflight requests and adds the headers by which a browser shows an
    /// answer to a page of a permitted origin; `None` without origins.
    pub(crate) fn cors(&self) -> Option<CorsLayer> {
        let allowed = match (self.is_any, self.origins.is_empty()) {
            (true, _) => AllowOrigin::any(),
            (false, false) => AllowOrigin::list(self.origins.clone()),
            (false, true) => return None,
        };
        let methods = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
        // A wildcard would not include `Authorization`. Nothing is taken from cookies, so any header is
        // harmless.
        let cors = CorsLayer::new().allow_origin(allowed).allow_methods(methods);
        Some(
            cors.allow_headers(AllowHeaders::mirror_request())
                .expose_headers(ExposeHeaders::any())
                .max_age(MAX_AGE),
        )
    }
}

/// Returns an origin in the form in which browsers send it.
fn origin_value(text: &str) -> Result<HeaderValue> {
    let invalid = || {
        Error::invalid(format!(
            "`{text}` is not an origin, such as https://app.example.com: write its scheme, its host and, unless \
             it is the default one, its port"
        ))
    };
    let (scheme, authority) = text.split_once("://").ok_or_else(invalid)?;
    let is_scheme = !scheme.is_empty()
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let is_authority = Authority::try_from(authority).is_ok() && !authority.contains(['@', '*']);
    if !is_scheme || !is_authority {
        return Err(invalid());
    }
    let scheme = scheme.to_ascii_lowercase();
    let authority = without_default_port(&scheme, authority).to_ascii_lowercase();
    HeaderValue::from_str(&format!("{scheme}://{authority}")).map_err(|_| invalid())
}

/// Returns a host and its port without the port that the scheme implies.
fn without_default_port<'a>(scheme: &str, authority: &'a str) -> &'a str {
    let port = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => return authority,
    };
    authority.strip_suffix(port).unwrap_or(authority)
}

/// Names and origins that requests to one server may have.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) hosts: Hosts,
    pub(crate) origins: Origins,
}

impl Site {
    /// Checks `Host` and `Origin` of a request.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        // A request without `Host` (HTTP/1.0) or with an empty one was not sent by a browser.
        let named = headers.get(HOST).and_then(|host| Authority::try_from(host.as_bytes()).ok());
        // The target of a request to a proxy has a scheme and a host as well.
        let mut hosts = named.iter().chain(uri.authority().filter(|_| uri.scheme().is_some()));
        if !hosts.all(|host| self.hosts.contains(host.host())) {
            let message = "this server does not answer under the name in the header `Host`; its option `hosts` \
                lists the names that it has";
            return Err(Refusal::new(Code::Forbidden, message));
        }
        let mut origins = headers.get_all(ORIGIN).iter();
        if !origins.all(|origin| self.origins.contains(origin) || is_own(origin, named.as_ref())) {
            let message = "pages of the site in the header `Origin` must not call this server; its option \
                `origins` lists those that may";
            return Err(Refusal::new(Code::Forbidden, message));
        }
        Ok(())
    }
}

/// Returns true for the origin of a page of the server itself. Its scheme is not compared: behind a proxy
/// with TLS it is not that of the connection.
fn is_own(origin: &HeaderValue, host: Option<&Authority>) -> bool {
    let Some((scheme, authority)) = origin.to_str().ok().and_then(|origin| origin.split_once("://")) else {
        return false;
    };
    host.is_some_and(|host| {
        let host = without_default_port(scheme, host.as_str());
        host.eq_ignore_ascii_case(without_default_port(scheme, authority))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_names_cannot_be_imitated() {
        let hosts = Hosts::loopback();
        for host in ["localhost", "LocalHost", "localhost.", "127.0.0.1", "127.8.9.10", "[::1]"] {
            assert!(hosts.contains(host), "{host}");
        }
        assert!(hosts.contains("[::ffff:127.0.0.1]"));
        for host in [
            "evil.example",
            "localhost.evil.example",
            "evil.localhost",
            "127.0.0.1.evil.example",
            "0.0.0.0",
            "10.0.0.1",
            "[::]",
            "[::2]",
            "::1",
            "",
        ] {
            assert!(!hosts.contains(host), "{host}");
        }
    }

    #[test]
    fn configured_hosts_join_those_of_loopback() {
        let hosts = Hosts::parse(&["Garth.Example.com.", "10.0.0.1", "[2001:db8::1]"]).unwrap();
        for host in ["garth.example.com", "GARTH.example.com.", "10.0.0.1", "[2001:DB8::1]", "localhost"] {
            assert!(hosts.contains(host), "{host}");
        }
        for host in ["example.com", "a.garth.example.com", "10.0.0.2"] {
            assert!(!hosts.contains(host), "{host}");
        }
        assert!(Hosts::parse(&["a.example", "*"]).unwrap().contains("evil.example"));
        for text in
            ["", "https://a.example", "a.example/x", "a.example:80", "me@a.example", "*.a.example", "::1"]
        {
            let error = Hosts::parse(&[text]).unwrap_err();
            assert!(error.message().contains("is not the name of a host"), "{text}: {error}");
        }
    }

    #[test]
    fn origins_have_the_form_that_browsers_send() {
        for (text, sent) in [
            ("https://App.Example.com", "https://app.example.com"),
            ("https://a.example:443", "https://a.example"),
            ("http://a.example:80", "http://a.example"),
            ("http://localhost:3000", "http://localhost:3000"),
            ("http://[::1]:3000", "http://[::1]:3000"),
            ("tauri://localhost", "tauri://localhost"),
        ] {
            let origins = Origins::parse(&[text]).unwrap();
            assert!(origins.contains(&HeaderValue::from_static(sent)), "{text}");
            assert!(!origins.contains(&HeaderValue::from_static("https://evil.example")));
        }
        for text in
            ["", "null", "a.example", "https://", "https://a.example/", "https://a@b", "https://*.a", "://a"]
        {
            let error = Origins::parse(&[text]).unwrap_err();
            assert!(error.message().contains("is not an origin"), "{text}: {error}");
        }
        assert!(Origins::parse(&["*"]).unwrap().contains(&HeaderValue::from_static("null")));
        assert!(Origins::default().cors().is_none());
    }

    #[test]
    fn own_origin_is_that_of_the_host() {
        let is_own = |origin: &'static str, host: &'static str| {
            super::is_own(&HeaderValue::from_static(origin), Some(&Authority::from_static(host)))
        };
        assert!(is_own("http://localhost:8787", "localhost:8787"));
        assert!(is_own("https://garth.example.com", "Garth.example.com"));
        assert!(is_own("https://garth.example.com", "garth.example.com:443"));
        assert!(!is_own("http://localhost:3000", "localhost:8787"));
        assert!(!is_own("http://localhost", "localhost:8787"));
        assert!(!is_own("null", "localhost:8787"));
        assert!(!super::is_own(&HeaderValue::from_static("http://a"), None));
    }
}
