//! Reads of many files of an overlay, in a few calls of each layer however many files there are.

use bytes::Bytes;

use super::Overlay;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{At, ByteRange, Entry, MAX_READ};
use crate::path::TreePath;

/// Empty range, for reads that only ask for the node.
const NO_BYTES: ByteRange = ByteRange { offset: 0, length: 0 };

/// Result for one path. `None`: the upper layer has no such path, so the lower layer answers, unless the path
/// is hidden.
type Answer = Option<Result<(Entry, Bytes)>>;

impl Overlay {
    /// Reads the paths in order, each as [`FileSystem::fetch`](crate::fs::FileSystem::fetch) does. Returns
    /// results for as many of the first paths, at least one, as fit into [`MAX_READ`] bytes.
    pub(super) async fn fetch_paths(
        &self,
        items: &[(&TreePath, ByteRange)],
    ) -> Result<Vec<Result<(Entry, Bytes)>>> {
        let mut answers = self.fetch_above(items).await?;
        self.answer_hidden(items, &mut answers).await?;
        self.fetch_below(items, &mut answers).await?;
        let (mut shown, mut bytes) = (Vec::with_capacity(answers.len()), 0);
        for answer in answers {
            let Some(answer) = answer else { break };
            bytes += answer.as_ref().map_or(0, |(entry, bytes)| bytes.len() + entry.attributes.bytes());
            // The layers have limited their own answers, but not their sum.
            if bytes > MAX_READ && !shown.is_empty() {
                break;
            }
            shown.push(answer);
        }
        Ok(shown)
    }

    /// Asks the upper layer. Returns results for as many paths as the layer does.
    async fn fetch_above(&self, items: &[(&TreePath, ByteRange)]) -> Result<Vec<Answer>> {
        let places: Vec<Result<At>> = items
            .iter()
            .map(|(path, _)| match self.within.contains(path) {
                // Both, so that a path that is too long for either is refused before any layer is asked.
                true => self.tree(path).and_then(|tree| self.hidden(path).map(|_| At::Path(tree))),
                false => Err(Error::not_found(path)),
            })
            .collect();
        let asked =
            places.iter().zip(items).filter_map(|(at, (_, range))| Some((at.as_ref().ok()?.clone(), *range)));
        let mut above = self.upper.fetch_many(&asked.collect::<Vec<_>>()).await?.items.into_iter();
        let mut answers = Vec::with_capacity(items.len());
        for (place, (path, _)) in places.into_iter().zip(items) {
            answers.push(match place {
                Err(error) => Some(Err(error)),
                Ok(_) => match above.next() {
                    // The layer's answer is full; the caller asks again from here.
                    None => break,
                    // Missing in the upper layer only says that the lower one has to be asked.
                    Some(Err(error)) if error.is(ErrorKind::NotFound) => None,
                    Some(Err(error)) => Some(Err(self.of_upper(error))),
                    Some(Ok((entry, bytes))) => {
                        let entry = self.upper_entry(entry, Some(path)).await;
                        Some(entry.map(|entry| (entry, bytes)))
                    }
                },
            });
        }
        Ok(answers)
    }

    /// Answers `NotFound` for the paths that the upper layer hides.
    async fn answer_hidden(&self, items: &[(&TreePath, ByteRange)], answers: &mut Vec<Answer>) -> Result<()> {
        let below = below(answers);
        if below.is_empty() {
            return Ok(());
        }
        let mut asked = Vec::with_capacity(below.len());
        for at in &below {
            asked.push((At::Path(self.hidden(items[*at].0)?), NO_BYTES));
        }
        let hidden = self.upper.fetch_many(&asked).await?.items;
        if let Some(left) = below.get(hidden.len()) {
            // The layer has answered only the first of its items: the answer ends before the next one.
            answers.truncate(*left);
        }
        for (at, hidden) in below.into_iter().zip(hidden) {
            let is_hidden = match hidden {
                // A file that hides a path is read, and a whiteout has no content (`NotPermitted`). A
                // directory only leads to hidden paths below it.
                Ok(_) => Ok(true),
                Err(error) if error.is(ErrorKind::NotPermitted) => Ok(true),
                Err(error) if error.is(ErrorKind::IsADirectory) => Ok(false),
                Err(error) => self.hides(Err(error)),
            };
            match is_hidden {
                Ok(false) => {}
                Ok(true) => answers[at] = Some(Err(Error::not_found(items[at].0))),
                Err(error) => answers[at] = Some(Err(error)),
            }
        }
        Ok(())
    }

    /// Asks the lower layer for the remaining paths.
    async fn fetch_below(&self, items: &[(&TreePath, ByteRange)], answers: &mut Vec<Answer>) -> Result<()> {
        let below = below(answers);
        if below.is_empty() {
            return Ok(());
        }
        let asked: Vec<_> = below.iter().map(|at| (At::from(items[*at].0), items[*at].1)).collect();
        let read = self.lower.fetch_many(&asked).await?.items;
        if let Some(left) = below.get(read.len()) {
            answers.truncate(*left);
        }
        for (at, answer) in below.into_iter().zip(read) {
            let path = items[at].0;
            answers[at] = Some(match answer {
                Ok((entry, bytes)) => Ok((self.lower_entry(entry, Some(path)), bytes)),
                Err(error) => Err(self.of_lower(path, error).await),
            });
        }
        Ok(())
    }
}

/// Returns the indices of the paths that the lower layer has to answer.
fn below(answers: &[Answer]) -> Vec<usize> {
    let places = answers.iter().enumerate().filter(|(_, answer)| answer.is_none());
    places.map(|(at, _)| at).collect()
}
