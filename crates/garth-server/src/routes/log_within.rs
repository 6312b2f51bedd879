//! Log of a request: its events are within a span that names the request.

use tracing::{Instrument as _, Span};

use crate::errors::Refusal;

/// Runs the handler of a request within its span, and logs the cause of a failure there.
pub(crate) async fn log_within<T>(
    span: Span,
    answering: impl Future<Output = Result<T, Refusal>>,
) -> Result<T, Refusal> {
    let answering = async {
        answering.await.map_err(|mut refusal| {
            refusal.log();
            refusal
        })
    };
    answering.instrument(span).await
}
