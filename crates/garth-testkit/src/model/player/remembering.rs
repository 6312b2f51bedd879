//! Trees that a model run remembers, to compare them with the past later.

use garth_engine::model::{At, ByteRange, Moment};
use garth_engine::{ErrorKind, FileSystem};

use super::Run;
use crate::model::comparisons::{Checked, same, tree_with_content};
use crate::model::steps::WHOLE;

impl Run {
    pub(super) async fn remember(&mut self) -> Checked {
        let head = self.subject.fs.head().await.map_err(|error| error.to_string())?;
        // Entries expire at whole seconds. Unless the clock went back, commits are less than one second after
        // it.
        if (0..1_000_000_000).contains(&(head.time.0 - self.now.0)) {
            let tree = tree_with_content(&*self.subject.fs).await?;
            self.remembered.push((head.seq, tree));
        }
        Ok(())
    }

    pub(super) async fn recall(&mut self, part: u64) -> Checked {
        let index = usize::try_from(self.remembered.len() as u64 * part / WHOLE).expect("an index");
        let Some((seq, tree)) = self.remembered.get(index) else { return Ok(()) };
        self.tally.checks += 1;
        let moment = Moment::Seq(*seq);
        let (then, model) = match (self.subject.fs.as_of(&moment).await, self.model.as_of(&moment).await) {
            (Ok(subject), Ok(model)) => (subject, model),
            (subject, model) => {
                return same("a remembered state", subject.map(drop), model.map(drop)).map(drop);
            }
        };
        let found = tree_with_content(&*then).await?;
        for (found, seen) in found.iter().zip(tree) {
            if found.0 != seen.0 {
                return Err(format!("at {seq} there was {:?}, as_of gives {:?}", seen.0, found.0));
            }
            if found.1 != seen.1 {
                let read = model.read(&At::Path(found.0.path.clone()), ByteRange::ALL).await;
                // It may only be missing, and only where the model misses it as well.
                if found.1 != Err(ErrorKind::Gone) || !read.is_err_and(|error| error.is(ErrorKind::Gone)) {
                    return Err(format!("at {seq} {} has other content than it had", found.0.path));
                }
                self.tally.gone += 1;
            }
        }
        if found.len() != tree.len() {
            return Err(format!("at {seq} there were {} paths, as_of gives {}", tree.len(), found.len()));
        }
        Ok(())
    }
}
