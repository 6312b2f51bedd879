//! Directories of an account that an agent's tree is made of. Creates those that are missing.

use super::identity::Identity;
use crate::session_class::MAIN;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::store::system;
use garth_engine::fs::{AccountStore, FileSystem, SYSTEM};
use garth_engine::model::{Batch, ByteRange, Op};
use garth_engine::path::TreePath;

/// Paths that a tree is made of.
#[derive(Debug)]
pub(super) struct Directories {
    pub(super) chat: TreePath,
    pub(super) agent: TreePath,
    pub(super) user: TreePath,
    pub(super) memories: TreePath,
    /// Where the user's memories show.
    pub(super) shown_memories: TreePath,
    /// Where sessions show, and those that do: all, or the one that the tree is for. Beside that the place of
    /// all is there, too, so that no others can be made up.
    pub(super) sessions: Vec<(TreePath, TreePath)>,
    /// What is not there in the class of the session.
    pub(super) left_out: Vec<TreePath>,
    /// The session that is there all the same.
    pub(super) own_session: Option<TreePath>,
    /// What of it is not there for files, since it says which class the session has.
    pub(super) own_meta: Option<TreePath>,
}

impl Directories {
    pub(super) fn of(who: &Identity) -> Result<Self> {
        let Identity { user, agent, chat, class, session } = who;
        let path = |text: String| TreePath::parse(&text);
        let own = path(format!("/agents/{agent}"))?;
        let with_user = path(format!("/users/{user}/agents/{agent}"))?;
        let shown = format!("/ctx/home/{user}/agent/{agent}/session");
        let sessions = path(format!("{with_user}/session"))?;
        let own_session = match (class.as_str(), session) {
            (MAIN, _) | (_, None) => None,
            (_, Some(session)) => Some(path(format!("{sessions}/{session}"))?),
        };
        let left_out = match class.as_str() {
            MAIN => Vec::new(),
            _ => {
                let of_agent = ["MEMORY.md", "memory", "sessions"].map(|name| path(format!("{own}/{name}")));
                let of_agent = of_agent.into_iter().collect::<std::result::Result<Vec<_>, _>>()?;
                of_agent.into_iter().chain([sessions.clone()]).collect()
            }
        };
        let mut sessions = vec![(path(shown.clone())?, sessions)];
        if let (Some(session), Some(own)) = (session, &own_session) {
            sessions.push((path(format!("{shown}/{session}"))?, own.clone()));
        }
        Ok(Self {
            chat: path(format!("/chats/{chat}"))?,
            agent: own,
            user: with_user,
            memories: path(format!("/users/{user}/memories"))?,
            shown_memories: path(format!("/ctx/users/{user}/memories"))?,
            sessions,
            left_out,
            own_meta: own_session.as_ref().map(|own| TreePath::from_row(own.key(), "meta.json")),
            own_session,
        })
    }

    fn all(&self) -> impl Iterator<Item = &TreePath> {
        let sessions = self.sessions.iter().map(|(_, sessions)| sessions);
        let sessions = sessions.filter(|path| !self.left_out.contains(path));
        [&self.chat, &self.agent, &self.user, &self.memories].into_iter().chain(sessions)
    }
}

/// Where garth keeps what an agent's skills hide, and what was copied up in them.
pub(super) fn kept(agent: &str) -> Result<TreePath> {
    Ok(TreePath::parse(&format!("{SYSTEM}/skills/{agent}"))?)
}

/// Makes what is missing, in one commit.
pub(super) async fn make(
    account: &dyn AccountStore,
    dirs: &Directories,
    who: &Identity,
    with_skills: bool,
) -> Result<()> {
    let raw = account.raw();
    let kept = if with_skills { Some(kept(&who.agent)?) } else { None };
    let wanted: Vec<&TreePath> = dirs.all().chain(&kept).collect();
    let there = are_there(&*raw, &wanted).await?;
    let missing = || wanted.iter().zip(&there).filter(|(_, there)| !**there).map(|(path, _)| *path);
    if kept.as_ref().is_some_and(|kept| missing().any(|path| path == kept)) {
        system(account).await?;
    }
    let ops: Vec<Op> = missing().map(|path| Op::mkdir_all(path.clone())).collect();
    if ops.is_empty() {
        return Ok(());
    }
    let made = raw.commit(Batch::new(ops).author(who.author()).message("open the tree of a chat")).await;
    made.map(drop).map_err(|error| match (error.kind(), error.path()) {
        (ErrorKind::AlreadyExists | ErrorKind::NotADirectory, Some(path)) => {
            let message = "is no directory, which the tree of an agent needs here; move it away";
            Error::at(ErrorKind::AlreadyExists, path, message)
        }
        _ => error,
    })
}

/// How many paths are looked up at once: so few are a short read, which no other thread has to do.
const STEP: usize = 32;

/// Whether a directory is at each of these paths.
pub(super) async fn are_there(fs: &dyn FileSystem, paths: &[&TreePath]) -> Result<Vec<bool>> {
    let mut there = Vec::with_capacity(paths.len());
    while there.len() < paths.len() {
        let items: Vec<_> = paths[there.len()..]
            .iter()
            .take(STEP)
            .map(|path| ((*path).into(), ByteRange { offset: 0, length: 0 }))
            .collect();
        let fetched = fs.fetch_many(&items).await?.items;
        if fetched.is_empty() {
            return Err(Error::new(ErrorKind::Io, "the account gave no answer"));
        }
        for answer in fetched {
            there.push(match answer {
                Err(error) if error.is(ErrorKind::IsADirectory) => true,
                // a file, a link or another node; to make a directory there, or below it, tells why not
                Ok(_) => false,
                Err(error) if error.is_absent() || error.is(ErrorKind::NotPermitted) => false,
                Err(error) => return Err(error),
            });
        }
    }
    Ok(there)
}
