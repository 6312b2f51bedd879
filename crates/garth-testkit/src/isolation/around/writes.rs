//! Attempts to change the surroundings, or to bring something of them inside.

use garth_engine::model::{At, Batch, Body, ByteRange, Op, Page, Precondition, SetAttrs, WalkPage};

use super::{Told, Tries, record, told};
use crate::proof::{Broken, Proven, hold, path};

/// One attempt in this many removes nodes of earlier attempts: copies of copies would grow without end.
const CLEAN: u64 = 40;
/// Beyond this many nodes below a top, all of them are removed.
const MUCH: usize = 300;
/// Number of names that attempts create in a directory.
const MADE: u64 = 6;

impl Tries<'_> {
    /// Makes a commit, and returns its result with the content that it created.
    pub(super) async fn write(&mut self) -> Proven<Told> {
        if self.random.below(CLEAN) == 0 {
            return self.clean().await;
        }
        let into = path(&format!("{}/x{}", self.top(), self.random.below(MADE)))?;
        let (at, to) = (self.at(), At::Path(into.clone()));
        let mut batch = Batch::default();
        match self.random.below(15) {
            0 => return self.as_another(Batch::new([Op::write(&into, "clean")]).id(super::TAKEN)).await,
            1 => return self.as_another(Batch::new([Op::write(&into, "clean")]).idempotency(record())).await,
            2 => {
                let Some(body) = self.of(|hidden| &hidden.bodies) else { return Ok((false, String::new())) };
                let used = self.fs.commit(Op::write(&into, Body::Staged(body)).into()).await;
                return match used {
                    Ok(_) => Err(Broken::because("the staged body of another is used")),
                    refused => Ok(told(refused)),
                };
            }
            3 if self.random.below(5) == 0 => {
                return Ok(told(self.fs.commit(Op::remove_tree(At::Path(self.path())).into()).await));
            }
            4 => {
                // A node outside does not exist, whatever the precondition.
                let that = self.random.pick(&[Precondition::Exists, Precondition::Absent.negated()]);
                batch = batch.require(at.clone(), that);
                batch.ops.push(Op::mkdir(to));
            }
            5 => {
                let Some(name) = self.of(|hidden| &hidden.snapshots) else {
                    return Ok((false, String::new()));
                };
                let dropped = self.fs.commit(Op::drop_snapshot(name).into()).await;
                return match dropped {
                    Ok(_) => Err(Broken::because("a snapshot of another is dropped")),
                    // The message repeats the request.
                    Err(_) => Ok((false, String::new())),
                };
            }
            // A file that moves while it keeps a name inside would rightly show here what is written to it
            // outside.
            _ => batch.ops.push(self.op(&at, &to)),
        }
        if self.random.below(4) == 0 {
            // Earlier operations of a batch grant no access to later ones.
            batch.ops.insert(0, Op::mkdir_all(path(&format!("{}/made", self.top()))?));
        }
        let (answered, text) = told(self.fs.commit(batch.visible()).await);
        hold(!(answered && self.is_outside(&at)), || format!("{at} is reached by a commit: {text}"))?;
        // The result alone does not show what was copied, so the new file is read.
        let made = self.fs.fetch(&At::Path(into), ByteRange { offset: 0, length: 100 }).await;
        Ok((answered, format!("{text} {:?}", made.ok())))
    }

    /// Draws an operation on an address. Nodes that it creates or takes get a name inside.
    fn op(&mut self, at: &At, to: &At) -> Op {
        let (from, into) = (at.clone(), to.clone());
        // Writes to a file with a name inside rightly show inside, even if made outside.
        let stays = self.is_shuttle(at);
        match self.random.below(20) {
            0 => Op::rename(from, into),
            1 if self.is_outside(at) => Op::link(from, into),
            1 | 2 => Op::copy_tree(from, into),
            3 | 4 => Op::copy_tree(from, into).replace().as_of(self.seq()),
            5 => Op::append(from, "x"),
            6 => Op::set_attrs(from, SetAttrs::new().mode(0o600)),
            7 => Op::write(from, "x"),
            8 => Op::mkdir(from),
            9 => Op::symlink(from, self.random.pick(&self.hidden.targets)),
            10 => Op::patch(from, 1, "x"),
            11 => Op::truncate(from, 3),
            12 => Op::copy_range(from, 0, 100, into, 0),
            13 if !stays => Op::copy(into, from),
            14 if !stays => Op::rename(into, from),
            15 if !stays => Op::exchange(into, from),
            16 if !stays => Op::copy_range(into, 0, 10, from, 0),
            17 => Op::remove(from),
            18 => Op::check(from, Precondition::Exists),
            _ => Op::mkdir_all(from),
        }
    }

    /// Removes nodes of earlier attempts at the tops, and everything where there are too many.
    async fn clean(&mut self) -> Proven<Told> {
        let tops = if self.hidden.tops.is_empty() { &[""][..] } else { self.hidden.tops };
        for top in tops {
            let dir = At::Path(path(if top.is_empty() { "/" } else { top })?);
            let much = self.fs.walk(&dir, &WalkPage::default().limit(MUCH)).await.is_ok_and(|walk| walk.more);
            let Ok(listing) = self.fs.list(&dir, &Page::default()).await else { continue };
            for item in listing.items {
                if much || item.name.as_str().starts_with('x') {
                    let gone = Op::remove_tree(path(&format!("{top}/{}", item.name))?);
                    let _ = self.fs.commit(Batch::new([gone]).visible()).await;
                }
            }
        }
        Ok((true, String::new()))
    }

    /// Commits under an id or key that others have used: the result must be an own commit, new or repeated.
    async fn as_another(&mut self, batch: Batch) -> Proven<Told> {
        self.told_commit(self.fs.commit(batch).await.map(Some))
    }
}
