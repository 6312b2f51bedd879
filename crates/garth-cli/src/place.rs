//! Which tree a verb works on: the account's, with or without what garth keeps in it, one of its overlays, or
//! an agent's in a chat.

use std::path::Path;
use std::sync::Arc;

use garth::agent::tree::MAIN;
use garth::agent::{AgentTree, Identity, Skill, chat};
use garth::engine::host::{HostFs, Mode};
use garth::fs::SYSTEM;
use garth::path::check_id;
use garth::view::overlay::Stored;
use garth::{AccountStore, Env, Error, ErrorKind, FileSystem, FileSystemExt as _};

use crate::args::{ChatArgs, Global, SkillArg};
use crate::fail::{Failure, Result};
use crate::terminal;

/// See the module.
pub(crate) enum Place<'a> {
    Account { raw: bool, overrides_rules: bool },
    Overlay { id: &'a str },
    Chat { who: Identity, args: &'a ChatArgs, chat: &'a str },
}

impl<'a> Place<'a> {
    /// The one that the options choose.
    pub(crate) fn of(global: &'a Global) -> Result<Self> {
        check_id("agent", &global.agent)?;
        if let Some(id) = &global.overlay {
            return Ok(Self::Overlay { id });
        }
        let args = &global.chat;
        let (Some(user), Some(chat)) = (&args.user, &args.chat) else {
            let overrides_rules = global.override_rules;
            return Ok(Self::Account { raw: global.raw, overrides_rules });
        };
        let who = Identity::new(user, &global.agent, chat, args.class.as_deref().unwrap_or(MAIN))?;
        let who = match &args.session {
            Some(session) => who.with_session(session)?,
            None => who,
        };
        Ok(Self::Chat { who, args, chat })
    }

    /// The tree, for what reads or changes what is there: of a chat that is there. What the tree lacks is to
    /// be made before something is written.
    pub(crate) async fn tree(
        self,
        account: Arc<dyn AccountStore>,
        scratch: Arc<dyn FileSystem>,
        env: &Env,
    ) -> Result<(Arc<dyn FileSystem>, Option<Unmade>)> {
        if let Self::Chat { chat, .. } = &self
            && !account.lookup(chat::directory(chat)?).await?.is_some_and(|there| there.is_dir())
        {
            let message = format!("{chat}: no such chat; a first `garth write` or `garth mkdir` makes it");
            return Err(Failure::Tree(Error::new(ErrorKind::NotFound, message)));
        }
        self.open(account, scratch, env).await
    }

    /// The same, also of a chat that is to be made before something is written.
    pub(crate) async fn tree_or_new(
        self,
        account: Arc<dyn AccountStore>,
        scratch: Arc<dyn FileSystem>,
        env: &Env,
    ) -> Result<(Arc<dyn FileSystem>, Option<Unmade>)> {
        if let Self::Chat { chat, .. } = &self {
            let at = chat::directory(chat)?;
            if account.lookup(&at).await?.is_some_and(|there| !there.is_dir()) {
                let message = "is no directory, so no chat can be made here; move it away";
                return Err(Failure::Tree(Error::at(ErrorKind::AlreadyExists, &at, message)));
            }
        }
        self.open(account, scratch, env).await
    }

    async fn open(
        self,
        account: Arc<dyn AccountStore>,
        scratch: Arc<dyn FileSystem>,
        env: &Env,
    ) -> Result<(Arc<dyn FileSystem>, Option<Unmade>)> {
        let (who, args) = match self {
            Self::Account { raw: true, .. } => return Ok((account.raw(), None)),
            Self::Account { raw: false, overrides_rules } => {
                tell_of_own_name(&*account).await?;
                let tree = if overrides_rules { account.overriding_rules() } else { account };
                return Ok((tree, None));
            }
            Self::Overlay { id } => return Ok((Stored::open(&*account, id).await?.tree(), None)),
            Self::Chat { who, args, .. } => (who, args),
        };
        let skills = skills_of(args, &scratch, env)?;
        let unmade = Unmade { account, who, skills };
        let tree = unmade.tree(args).create(false).open().await?;
        Ok((tree, Some(unmade)))
    }
}

/// A chat's tree of which something may be missing.
pub(crate) struct Unmade {
    account: Arc<dyn AccountStore>,
    who: Identity,
    skills: Vec<Skill>,
}

impl Unmade {
    /// Makes what is missing.
    pub(crate) async fn make(&self) -> garth::Result<()> {
        AgentTree::new(&*self.account, self.who.clone()).skills(self.skills.clone()).make().await
    }

    fn tree(&self, args: &ChatArgs) -> AgentTree<'_> {
        let tree = AgentTree::new(&*self.account, self.who.clone()).skills(self.skills.clone());
        match args.upload_limit {
            Some(bytes) => tree.largest_upload(bytes),
            None => tree,
        }
    }
}

fn skills_of(args: &ChatArgs, scratch: &Arc<dyn FileSystem>, env: &Env) -> Result<Vec<Skill>> {
    args.skills.iter().map(|skill| skill_of(skill, scratch, env)).collect()
}

fn skill_of(arg: &SkillArg, scratch: &Arc<dyn FileSystem>, env: &Env) -> Result<Skill> {
    let skill = match arg.overrides {
        true => Skill::overriding(&arg.name)?,
        false => Skill::ephemeral(&arg.name, Arc::clone(scratch))?,
    };
    Ok(match &arg.folder {
        Some(folder) => skill.from(folder_of(folder, env)?),
        None => skill,
    })
}

fn folder_of(folder: &Path, env: &Env) -> Result<Arc<dyn FileSystem>> {
    let opened = HostFs::open(folder, Mode::ReadOnly, env.clone());
    Ok(opened.map_err(|error| {
        let why = match error.kind() {
            ErrorKind::NotFound => "no such folder",
            _ => error.message(),
        };
        Error::new(error.kind(), format!("--skill: {}: {why}", folder.display()))
    })?)
}

/// Says that a name is in the way of what garth keeps in the account.
async fn tell_of_own_name(account: &dyn AccountStore) -> Result {
    if account.exists(SYSTEM).await? {
        terminal::tell(format_args!(
            "{SYSTEM}: yours from before garth kept this name for itself; move it (`garth mv {SYSTEM} \
             /NAME`), or skills and overlays cannot be kept in this account"
        ));
    }
    Ok(())
}
