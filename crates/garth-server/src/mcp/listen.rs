//! Subscriptions: a client learns which of the files that it named have changed, and reads them again. The
//! request lasts as long as the client wants; the next one begins with the changes after it.

use std::collections::BTreeSet;
use std::sync::Arc;

use garth_engine::TreePath;
use garth_engine::model::{Change, ChangeKind, Seq};
use rmcp::model::SubscriptionFilter;
use rmcp::service::{SubscriptionContext, SubscriptionSink};

use super::uri::file_path;
use crate::errors::Refusal;
use crate::routes::client::Client;

/// Limit on the files of a subscription. Others are not accepted, which the acknowledgment shows.
const MAX_FILES: usize = 100;

/// Returns the part of a subscription that is served: the first files, and the list of resources.
pub(super) fn accepted(requested: &SubscriptionFilter) -> SubscriptionFilter {
    let mut accepted = SubscriptionFilter::default();
    accepted.resources_list_changed = requested.resources_list_changed;
    let (uris, mut seen) = (requested.resource_subscriptions.iter().flatten(), BTreeSet::new());
    let uris = uris.filter(|uri| file_path(uri).is_some() && seen.insert(*uri));
    let uris: Vec<String> = uris.take(MAX_FILES).cloned().collect();
    accepted.resource_subscriptions = Some(uris).filter(|uris| !uris.is_empty());
    accepted
}

/// Sends a notification for each file that changes after a commit, until the client leaves or the server
/// stops.
pub(super) async fn listen(
    client: &Arc<Client>,
    start: Option<Seq>,
    context: &SubscriptionContext,
) -> Result<(), Refusal> {
    let (filter, sink) = (context.accepted(), context.sink());
    // The library accepts a repeated URI as often as the client has sent it.
    let uris: BTreeSet<&String> = filter.resource_subscriptions.iter().flatten().collect();
    let files: Vec<(TreePath, &String)> =
        uris.into_iter().filter_map(|uri| Some((file_path(uri)?, uri))).collect();
    let lists = filter.resources_list_changed == Some(true);
    let top = client.top();
    let top = lists.then_some(&top);
    // Names at the top may change in any commit. A client without files waits, too: it takes its place among
    // those that wait, and ends with its key and the server.
    let within = if lists { Vec::new() } else { files.iter().map(|(path, _)| path.clone()).collect() };
    let mut updates = client.updates(start, within).await?;
    loop {
        let changes = tokio::select! {
            biased;
            () = context.cancelled() => return Ok(()),
            changes = updates.next(client.env()) => changes?,
        };
        // Without changes, the server stops.
        let Some(changes) = changes else { return Ok(()) };
        let is_sent = tokio::select! {
            biased;
            is_sent = notify(sink, &files, top, &changes) => is_sent,
            // The library reports nothing as sent after the end of the input.
            () = client.stopped() => return Ok(()),
        };
        if !is_sent {
            return Ok(());
        }
    }
}

/// Sends the notifications of some changes; `top` is the path whose names are the list of resources, if the
/// client wants that list. Returns false if the client has left.
async fn notify(
    sink: &SubscriptionSink,
    files: &[(TreePath, &String)],
    top: Option<&TreePath>,
    changes: &[Change],
) -> bool {
    let paths: BTreeSet<&TreePath> = changes.iter().flat_map(paths_of).collect();
    for (file, uri) in files {
        let is_touched = |path: &&TreePath| path.is_within(file) || file.is_within(path);
        if paths.iter().any(is_touched) && sink.notify_resource_updated(uri.as_str()).await.is_err() {
            return false;
        }
    }
    if top.is_some_and(|top| changes.iter().any(|change| changes_list(change, top))) {
        return sink.notify_resource_list_changed().await.is_ok();
    }
    true
}

/// Returns true if a change adds or removes a name in the directory `top`, or that directory itself.
fn changes_list(change: &Change, top: &TreePath) -> bool {
    let is_name = !matches!(change.kind, ChangeKind::Modified | ChangeKind::Attributes);
    is_name && paths_of(change).any(|path| top.is_within(path) || path.parent().as_ref() == Some(top))
}

/// Returns the paths of a change, with the one that a node was moved from.
fn paths_of(change: &Change) -> impl Iterator<Item = &TreePath> {
    let from = match &change.kind {
        ChangeKind::Renamed { from } => Some(from),
        _ => None,
    };
    change.paths.iter().chain(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_a_bounded_number_of_files() {
        // Each twice.
        let uris = (0..4 * MAX_FILES).map(|number| format!("garth:///{}", number / 2));
        let uris = uris.chain(["skill://a".into()]);
        let requested =
            SubscriptionFilter::builder().tools_list_changed().resource_subscriptions(uris).build();
        let accepted = accepted(&requested);
        let uris = accepted.resource_subscriptions.as_ref().unwrap();
        assert_eq!((uris.len(), uris.iter().collect::<BTreeSet<_>>().len()), (MAX_FILES, MAX_FILES));
        assert!(accepted.is_subset_of(&requested) && accepted.tools_list_changed.is_none());
        let none = SubscriptionFilter::builder().resource_subscription("file:///a").build();
        assert_eq!(super::accepted(&none), SubscriptionFilter::default());
    }
}
