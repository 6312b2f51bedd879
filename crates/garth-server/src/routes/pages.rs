//! Pages that need no key: the description of the API in OpenAPI, and the reference that a browser renders
//! from it with the viewer in this binary.

use std::sync::OnceLock;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{MethodRouter, get};
use bytes::Bytes;

use super::openapi;
use super::respond::refuse;
use super::served::SharedState;
use crate::compute::compute;
use crate::errors::Refusal;

/// Methods of every page.
const ALLOW: &str = "GET, HEAD";
/// Permissions of the reference in a browser: scripts and styles of this server alone, no inline ones.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Description of the API, written once.
static DESCRIPTION: OnceLock<Page> = OnceLock::new();
/// Reference.
static REFERENCE: OnceLock<Page> = OnceLock::new();
/// Files of the reference.
static FILES: OnceLock<[(&str, Page); 4]> = OnceLock::new();

/// Adds the pages to the routes.
pub(super) fn add_pages(router: Router<SharedState>) -> Router<SharedState> {
    router
        .route("/openapi.json", of_page(get(description)))
        .route("/docs", of_page(get(reference)))
        // Relative, because a proxy may serve all of it below a path.
        .route("/", of_page(get(|| async { Redirect::temporary("docs") })))
        .route("/docs/", of_page(get(|| async { Redirect::temporary("../docs") })))
        .route("/docs/{file}", of_page(get(file)))
}

/// Adds the refusal of other methods.
fn of_page(page: MethodRouter<SharedState>) -> MethodRouter<SharedState> {
    page.fallback(|State(served): State<SharedState>, request: Request| async move {
        refuse(&served.limits, request, Refusal::wrong_method(ALLOW.to_owned()))
    })
}

async fn description(State(served): State<SharedState>, headers: HeaderMap) -> Result<Response, Refusal> {
    let page = match DESCRIPTION.get() {
        Some(page) => page,
        None => {
            let written =
                async { DESCRIPTION.get_or_init(|| Page::new("application/json", openapi::text())) };
            compute(served.home.env(), "", 0, written).await?
        }
    };
    Ok(page.answer(&headers))
}

async fn reference(headers: HeaderMap) -> Response {
    let text = include_str!("../../assets/docs.html");
    REFERENCE.get_or_init(|| Page::new("text/html; charset=utf-8", text)).answer(&headers)
}

async fn file(uri: Uri, headers: HeaderMap) -> Result<Response, Refusal> {
    let file = files().iter().find(|(name, _)| uri.path().strip_prefix("/docs/") == Some(*name));
    let (_, page) = file.ok_or_else(|| Refusal::no_route(Some("GET /docs")))?;
    Ok(page.answer(&headers))
}

fn files() -> &'static [(&'static str, Page); 4] {
    let (script, styles) = ("text/javascript; charset=utf-8", "text/css; charset=utf-8");
    FILES.get_or_init(|| {
        let bundle: &[u8] = include_bytes!("../../assets/swagger-ui/swagger-ui-bundle.js.gz");
        let style: &[u8] = include_bytes!("../../assets/swagger-ui/swagger-ui.css.gz");
        [
            ("start.js", Page::new(script, include_str!("../../assets/docs.js"))),
            ("start.css", Page::new(styles, include_str!("../../assets/docs.css"))),
            ("swagger-ui-bundle.js", Page::compressed(script, bundle)),
            ("swagger-ui.css", Page::compressed(styles, style)),
        ]
    })
}

/// Page with its entity tag.
struct Page {
    content_type: &'static str,
    /// True if the body is compressed with gzip, which every browser accepts.
    is_compressed: bool,
    body: Bytes,
    etag: String,
}

impl Page {
    fn new(content_type: &'static str, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let etag = format!("\"{}\"", blake3::hash(&body).to_hex());
        Self { content_type, is_compressed: false, body, etag }
    }

    fn compressed(content_type: &'static str, body: &'static [u8]) -> Self {
        Self { is_compressed: true, ..Self::new(content_type, body) }
    }

    /// Returns the page, or only its entity tag to a client that has it.
    fn answer(&self, headers: &HeaderMap) -> Response {
        let is_known = self.is_known(headers);
        let mut response = match is_known {
            true => StatusCode::NOT_MODIFIED.into_response(),
            false => Body::from(self.body.clone()).into_response(),
        };
        let answer = response.headers_mut();
        // An invalid value leaves the header out.
        answer.extend(HeaderValue::from_str(&self.etag).map(|etag| (ETAG, etag)));
        // A page of another version of garth must not be used without asking.
        answer.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if is_known {
            return response;
        }
        answer.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        answer.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        answer.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        answer.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        if self.is_compressed {
            answer.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }

    /// Returns true if the client has the page.
    fn is_known(&self, headers: &HeaderMap) -> bool {
        let values = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
        tags.any(|tag| tag == "*" || tag.trim_start_matches("W/") == self.etag)
    }
}
