//! Content of one version of a file: a balanced rope whose pieces are shared between versions, so that
//! storing every version of a file that grows by small appends costs each append once.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::model::Seq;

/// Content, which never changes: each edit returns new content.
#[derive(Clone, Debug, Default)]
pub(super) struct Content(Option<Arc<Piece>>);

#[derive(Debug)]
enum Piece {
    /// Bytes, and the commit that wrote them, once it is known.
    Bytes(Bytes, Option<Seq>),
    /// Hole of this length.
    Zeros(u64),
    /// `size` bytes in two halves whose heights differ by at most one (an AVL tree with its data in the
    /// leaves). `pieces` counts the leaves that are not holes.
    Pair { left: Content, right: Content, size: u64, height: u32, pieces: usize },
}

/// Size of the pieces that a long write is divided into, by which copies are limited.
const LARGEST_PIECE: usize = 1 << 20;

impl From<Bytes> for Content {
    fn from(bytes: Bytes) -> Self {
        let pieces = (0..bytes.len()).step_by(LARGEST_PIECE);
        // Slices share the buffer: nothing is copied.
        let pieces = pieces.map(|at| bytes.slice(at..bytes.len().min(at + LARGEST_PIECE)));
        pieces.fold(Self::default(), |all, piece| all.append(&Self::bytes(piece, None)))
    }
}

impl Content {
    fn bytes(bytes: Bytes, by: Option<Seq>) -> Self {
        if bytes.is_empty() { Self::default() } else { Self(Some(Arc::new(Piece::Bytes(bytes, by)))) }
    }

    /// Returns the same bytes, all of them written by commit `by`.
    pub(super) fn written(&self, by: Seq) -> Self {
        match self.0.as_deref() {
            Some(Piece::Bytes(bytes, _)) => Self::bytes(bytes.clone(), Some(by)),
            Some(Piece::Pair { left, right, .. }) => Self::pair(&left.written(by), &right.written(by)),
            None | Some(Piece::Zeros(_)) => self.clone(),
        }
    }

    /// Calls `take` for each piece in order, with its length and the commit that wrote it; `None` for a
    /// hole.
    pub(super) fn each_writer(&self, take: &mut impl FnMut(u64, Option<Seq>)) {
        match self.0.as_deref() {
            None => {}
            Some(Piece::Bytes(bytes, by)) => take(bytes.len() as u64, *by),
            Some(Piece::Zeros(length)) => take(*length, None),
            Some(Piece::Pair { left, right, .. }) => {
                left.each_writer(take);
                right.each_writer(take);
            }
        }
    }

    pub(super) fn zeros(length: u64) -> Self {
        if length == 0 { Self::default() } else { Self(Some(Arc::new(Piece::Zeros(length)))) }
    }

    pub(super) fn size(&self) -> u64 {
        match self.0.as_deref() {
            None => 0,
            Some(Piece::Bytes(bytes, _)) => bytes.len() as u64,
            Some(Piece::Zeros(length)) => *length,
            Some(Piece::Pair { size, .. }) => *size,
        }
    }

    /// Returns the number of pieces without holes.
    pub(super) fn pieces(&self) -> usize {
        match self.0.as_deref() {
            None | Some(Piece::Zeros(_)) => 0,
            Some(Piece::Bytes(..)) => 1,
            Some(Piece::Pair { pieces, .. }) => *pieces,
        }
    }

    /// Returns these bytes, followed by those of `other`.
    pub(super) fn append(&self, other: &Self) -> Self {
        if self.0.is_none() {
            return other.clone();
        }
        if other.0.is_none() {
            return self.clone();
        }
        match (self.halves(), other.halves()) {
            // Descends into the higher side until the heights fit, so that each rebalancing is one
            // rotation.
            (Some((left, right)), _) if self.height() > other.height() + 1 => {
                Self::balanced(left, &right.append(other))
            }
            (_, Some((left, right))) if other.height() > self.height() + 1 => {
                Self::balanced(&self.append(left), right)
            }
            _ => Self::pair(self, other),
        }
    }

    /// Returns the first `at` bytes and the rest, which is empty if `at` is beyond the end.
    pub(super) fn split(&self, at: u64) -> (Self, Self) {
        // Both ends return the content itself, so that versions share it.
        if at == 0 {
            return (Self::default(), self.clone());
        }
        if at >= self.size() {
            return (self.clone(), Self::default());
        }
        match self.0.as_deref() {
            None => (Self::default(), Self::default()),
            Some(Piece::Bytes(bytes, by)) => {
                let at = usize::try_from(at).expect("below the size of a buffer");
                (Self::bytes(bytes.slice(..at), *by), Self::bytes(bytes.slice(at..), *by))
            }
            Some(Piece::Zeros(length)) => (Self::zeros(at), Self::zeros(length - at)),
            Some(Piece::Pair { left, right, .. }) => {
                if at <= left.size() {
                    let (first, middle) = left.split(at);
                    (first, middle.append(right))
                } else {
                    let (middle, last) = right.split(at - left.size());
                    (left.append(&middle), last)
                }
            }
        }
    }

    /// Returns the content cut to `size`, or extended to it with zeros.
    pub(super) fn resize(&self, size: u64) -> Self {
        match size.checked_sub(self.size()) {
            Some(gap) => self.append(&Self::zeros(gap)),
            None => self.split(size).0,
        }
    }

    /// Returns the content with `bytes` at `offset`. A gap before them is filled with zeros.
    pub(super) fn patch(&self, offset: u64, bytes: &Self) -> Self {
        let end = offset + bytes.size();
        // Only a patch beyond the end needs the resize, which fills the gap.
        let before = self.split(offset).0.resize(offset);
        before.append(bytes).append(&self.split(end).1)
    }

    /// Returns at most `length` bytes from `offset` on as content; fewer only at the end.
    pub(super) fn slice(&self, offset: u64, length: u64) -> Self {
        self.split(offset).1.split(length).0
    }

    /// Returns the offset of the first byte at or after `offset` that is not in a hole.
    pub(super) fn next_data(&self, offset: u64) -> Option<u64> {
        self.next(offset, true)
    }

    /// Returns the start of the first hole at or after `offset`. The end of the content counts as a hole.
    pub(super) fn next_hole(&self, offset: u64) -> u64 {
        self.next(offset, false).unwrap_or(self.size())
    }

    fn next(&self, offset: u64, data: bool) -> Option<u64> {
        if offset >= self.size() {
            return None;
        }
        match self.0.as_deref()? {
            Piece::Bytes(..) => data.then_some(offset),
            Piece::Zeros(_) => (!data).then_some(offset),
            Piece::Pair { left, right, .. } => left.next(offset, data).or_else(|| {
                let found = right.next(offset.saturating_sub(left.size()), data)?;
                Some(left.size() + found)
            }),
        }
    }

    /// Returns at most `length` bytes from `offset` on; fewer only at the end.
    pub(super) fn read(&self, offset: u64, length: usize) -> Bytes {
        let wanted = self.slice(offset, length as u64);
        // One piece is shared; only several are copied.
        if let Some(Piece::Bytes(bytes, _)) = wanted.0.as_deref() {
            return bytes.clone();
        }
        let mut all = BytesMut::with_capacity(usize::try_from(wanted.size()).unwrap_or(length));
        wanted.each(&mut |bytes| all.extend_from_slice(bytes));
        all.freeze()
    }

    /// Calls `take` for all bytes in order, piece by piece.
    pub(super) fn each(&self, take: &mut impl FnMut(&[u8])) {
        const ZEROS: [u8; 4096] = [0; 4096];
        match self.0.as_deref() {
            None => {}
            Some(Piece::Bytes(bytes, _)) => take(bytes),
            Some(Piece::Zeros(length)) => {
                // In steps: a hole may be longer than memory.
                let mut left = *length;
                while left > 0 {
                    let step = left.min(ZEROS.len() as u64);
                    take(&ZEROS[..usize::try_from(step).unwrap_or(ZEROS.len())]);
                    left -= step;
                }
            }
            Some(Piece::Pair { left, right, .. }) => {
                left.each(take);
                right.each(take);
            }
        }
    }

    fn height(&self) -> u32 {
        match self.0.as_deref() {
            Some(Piece::Pair { height, .. }) => *height,
            _ => 0,
        }
    }

    fn halves(&self) -> Option<(&Self, &Self)> {
        match self.0.as_deref() {
            Some(Piece::Pair { left, right, .. }) => Some((left, right)),
            _ => None,
        }
    }

    fn pair(left: &Self, right: &Self) -> Self {
        Self(Some(Arc::new(Piece::Pair {
            size: left.size() + right.size(),
            height: left.height().max(right.height()) + 1,
            pieces: left.pieces() + right.pieces(),
            left: left.clone(),
            right: right.clone(),
        })))
    }

    /// Returns the pair of two whose heights differ by at most two, balanced by one AVL rotation.
    fn balanced(left: &Self, right: &Self) -> Self {
        if left.height() > right.height() + 1
            && let Some((outer, inner)) = left.halves()
        {
            return match inner.halves() {
                Some((a, b)) if inner.height() > outer.height() => {
                    Self::pair(&Self::pair(outer, a), &Self::pair(b, right))
                }
                _ => Self::pair(outer, &Self::pair(inner, right)),
            };
        }
        if right.height() > left.height() + 1
            && let Some((inner, outer)) = right.halves()
        {
            return match inner.halves() {
                Some((a, b)) if inner.height() > outer.height() => {
                    Self::pair(&Self::pair(left, a), &Self::pair(b, outer))
                }
                _ => Self::pair(&Self::pair(left, inner), outer),
            };
        }
        Self::pair(left, right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(content: &Content) -> Vec<u8> {
        content.read(0, usize::try_from(content.size()).unwrap()).to_vec()
    }

    #[test]
    fn edits_match_a_plain_vector() {
        let mut plain: Vec<u8> = Vec::new();
        let mut content = Content::default();
        let mut number = 7_u64;
        for step in 0..2000 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = usize::try_from(number >> 33).unwrap() % 3000;
            let bytes = vec![u8::try_from(step % 251).unwrap() + 1; 1 + at % 17];
            match step % 5 {
                0 => {
                    plain.resize(at, 0);
                    content = content.resize(at as u64);
                }
                1 | 2 => {
                    plain.extend_from_slice(&bytes);
                    content = content.append(&Bytes::from(bytes).into());
                }
                _ => {
                    let end = at + bytes.len();
                    if plain.len() < end {
                        plain.resize(end, 0);
                    }
                    plain[at..end].copy_from_slice(&bytes);
                    content = content.patch(at as u64, &Bytes::from(bytes).into());
                }
            }
            assert_eq!(all(&content), plain, "after step {step}");
            let from = at.min(plain.len());
            let to = (from + 100).min(plain.len());
            assert_eq!(content.read(at as u64, 100), plain[from..to], "a range after step {step}");
        }
    }

    #[test]
    fn distinguishes_holes_from_bytes() {
        let bytes = |text: &'static str| Content::from(Bytes::from_static(text.as_bytes()));
        let content = bytes("ab").resize(5).append(&bytes("\0c")).resize(9);
        let next = |offset| (content.next_data(offset), content.next_hole(offset));
        assert_eq!([0, 1, 2, 4].map(next), [(Some(0), 2), (Some(1), 2), (Some(5), 2), (Some(5), 4)]);
        assert_eq!([5, 6, 7, 9].map(next), [(Some(5), 7), (Some(6), 7), (None, 7), (None, 9)]);
        assert_eq!(all(&content.slice(1, 5)), b"b\0\0\0\0");
    }

    #[test]
    fn many_appends_keep_the_tree_shallow() {
        let mut content = Content::default();
        for _ in 0..10_000 {
            content = content.append(&Bytes::from_static(b"line\n").into());
        }
        assert_eq!(content.size(), 50_000);
        assert!(content.height() < 20, "height {}", content.height());
    }
}
