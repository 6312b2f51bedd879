//! Tree that a verb works on: the account's, with or without the part reserved for garth, one of its
//! overlays, or the tree of an agent for an identity.

use std::path::Path;
use std::sync::Arc;

use garth_agent::{Access, Caller, Request, Skill};
use garth_engine::engine::host::{HostFs, Mode};
use garth_engine::fs::SYSTEM;
use garth_engine::model::Author;
use garth_engine::path::check_id;
use garth_engine::view::overlay::StoredOverlay;
use garth_engine::{AccountStore, Env, Error, ErrorKind, FileSystem, FileSystemExt as _};

use crate::args::{ChatArgs, Global, SkillArg};
use crate::fail::{Failure, Result};
use crate::terminal;

/// Tree chosen by the options.
pub(crate) enum Place<'a> {
    Account { raw: bool, overrides_rules: bool },
    Overlay { id: &'a str },
    Identity { request: Request, args: &'a ChatArgs },
}

impl<'a> Place<'a> {
    /// Returns the tree that the options choose.
    pub(crate) fn of(global: &'a Global) -> Result<Self> {
        check_id("agent", &global.agent)?;
        if let Some(id) = &global.overlay {
            return Ok(Self::Overlay { id });
        }
        if !global.chat.names_somebody() {
            let overrides_rules = global.override_rules;
            return Ok(Self::Account { raw: global.raw, overrides_rules });
        }
        Ok(Self::Identity { request: global.chat.request(&global.agent), args: &global.chat })
    }

    /// Opens the tree for reads, and for changes of existing entries. A named chat that does not exist is
    /// empty, and the first write to it fails. Missing directories are created before the first write.
    pub(crate) async fn tree(
        self,
        account: Arc<dyn AccountStore>,
        scratch: Arc<dyn FileSystem>,
        env: &Env,
    ) -> Result<(Arc<dyn FileSystem>, Option<Unmade>)> {
        self.open(account, scratch, env, false).await
    }

    /// As [`Self::tree`], but the first write creates a named chat that does not exist.
    pub(crate) async fn tree_or_new(
        self,
        account: Arc<dyn AccountStore>,
        scratch: Arc<dyn FileSystem>,
        env: &Env,
    ) -> Result<(Arc<dyn FileSystem>, Option<Unmade>)> {
        self.open(account, scratch, env, true).await
    }

    async fn open(
        self,
        account: Arc<dyn AccountStore>,
        scratch: Arc<dyn FileSystem>,
        env: &Env,
        makes: bool,
    ) -> Result<(Arc<dyn FileSystem>, Option<Unmade>)> {
        let (request, args) = match self {
            Self::Account { raw: true, .. } => return Ok((account.raw(), None)),
            Self::Account { raw: false, overrides_rules } => {
                tell_of_own_name(&*account).await?;
                let tree = if overrides_rules { account.overriding_rules() } else { account };
                return Ok((tree, None));
            }
            Self::Overlay { id } => return Ok((StoredOverlay::open(&*account, id).await?.tree(), None)),
            Self::Identity { request, args } => (request, args),
        };
        let access = match Access::open(&account, env, Caller::Holder, &request).await {
            // Another file has the path of the chat, which matters only if the chat is to be created.
            Err(error) if !makes && error.is(ErrorKind::AlreadyExists) => {
                return Err(Failure::Tree(no_chat(request.chat.as_deref().unwrap_or_default())));
            }
            access => access?,
        };
        // The default chat of the audience may be created by any write.
        let needed = request.chat.filter(|_| !makes);
        let unmade = Unmade { account, access, skills: skills_of(args, &scratch, env)?, needed };
        let tree = unmade.access.tree().skills(unmade.skills.clone()).create(false);
        let tree = args.upload_limit.into_iter().fold(tree, |tree, bytes| tree.largest_upload(bytes));
        let tree = tree.open().await?;
        Ok((tree, Some(unmade)))
    }
}

/// Access to an agent's tree, some directories of which may be missing.
pub(crate) struct Unmade {
    account: Arc<dyn AccountStore>,
    access: Access,
    skills: Vec<Skill>,
    /// Chat that must exist before a write, so that a mistyped name creates no chat.
    needed: Option<String>,
}

impl Unmade {
    /// Creates the missing directories. Fails if the chat is missing and must not be created.
    pub(crate) async fn make(&self) -> garth_engine::Result<()> {
        if let Some(chat) = &self.needed
            && !self.account.exists(self.access.chat()).await?
        {
            return Err(no_chat(chat));
        }
        self.access.tree().skills(self.skills.clone()).make().await
    }

    /// Returns the access.
    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    /// Returns the author of commits.
    pub(crate) fn author(&self) -> Author {
        self.access.identity().author()
    }
}

fn no_chat(chat: &str) -> Error {
    let message = format!("{chat}: no such chat; a first `garth write` or `garth mkdir` creates it");
    Error::new(ErrorKind::NotFound, message)
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

/// Warns of a file of the user with the name that is reserved for garth.
async fn tell_of_own_name(account: &dyn AccountStore) -> Result {
    if account.exists(SYSTEM).await? {
        terminal::tell(format_args!(
            "{SYSTEM}: a file of yours, from before this name was reserved for garth; move it (`garth mv {SYSTEM} \
             /NAME`), or skills and overlays cannot be stored in this account"
        ));
    }
    Ok(())
}
