//! Bounds of a transaction.

use garth_engine::model::Body;

use super::Request;

/// Bytes of bodies after which a transaction takes no more batches, 64 MiB. A message to the database has
/// less than 1 GiB, and a longer transaction would lock the account for longer. A batch has at most 16 MiB
/// itself.
const MOST_BYTES: usize = 64 << 20;

/// Returns the first batches, at least one, that a transaction takes.
pub(super) fn first_of<'r, 'b>(requests: &'r [Request<'b>]) -> &'r [Request<'b>] {
    let mut left = MOST_BYTES;
    let count = requests.iter().take_while(|request| {
        let fits = left > 0;
        left = left.saturating_sub(size(request));
        fits
    });
    requests.get(..count.count()).unwrap_or(requests)
}

/// Returns the bytes of the bodies of a batch.
fn size(request: &Request<'_>) -> usize {
    let bodies = request.batch.ops.iter().filter_map(|op| op.body());
    bodies.map(|body| if let Body::Bytes(bytes) = body { bytes.len() } else { 0 }).sum()
}

#[cfg(test)]
mod tests {
    use garth_engine::TreePath;
    use garth_engine::engine::relational::confinement::Reach;
    use garth_engine::model::{Batch, Op};

    use super::*;

    #[test]
    fn large_group_is_split() {
        let reach = Reach::everything();
        // Cheap copies of one body.
        let body = bytes::Bytes::from(vec![0; 16 << 20]);
        let path = TreePath::parse("/a").unwrap();
        let batch = Batch::new([Op::write(path, body)]);
        let requests = vec![Request { batch: &batch, reach: &reach }; 9];
        assert_eq!(first_of(&requests).len(), 4);
        assert_eq!(first_of(&requests[..3]).len(), 3);
        let none = Batch::new([]);
        assert_eq!(first_of(&[Request { batch: &none, reach: &reach }; 9]).len(), 9);
    }
}
