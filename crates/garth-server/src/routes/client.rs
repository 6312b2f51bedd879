//! Client of an agent's tools. Its calls name no route. Who it is follows from its API key and the address
//! that it calls, or from the options of a program; arguments, which a model writes, name nobody.

use std::borrow::Cow;
use std::sync::Arc;

use axum::http::HeaderMap;
use futures::future::BoxFuture;
use garth_agent::Request;
use garth_agent::access::{Credential, Reach};
use garth_agent::kv::DEFAULT_AGENT;
use garth_engine::home::{Admitted, ApiKey, Binding, Scope};
use garth_engine::model::{Seq, Timestamp};
use garth_engine::path::check_id;
use garth_engine::{AccountStore, Env, Error, FileSystemExt as _, Home, TreePath};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::Span;

use super::call::Call;
use super::identity::Caller;
use super::log_within::log_within;
use super::served::{Served, SharedState};
use super::tree::Tree;
use super::tree_calls::updates::{Updates, updates};
use crate::answers::Room;
use crate::auth::Standing;
use crate::compute::compute;
use crate::errors::{Code, Refusal};
use crate::fields::{Field, Fields};
use crate::limits::Limits;
use crate::request::RequestId;
use crate::stopping::Stopping;

/// Scopes of the holder of the data folder.
const HOLDER: [Scope; 5] =
    [Scope::MemoryRead, Scope::MemoryWrite, Scope::SearchRead, Scope::FilesRead, Scope::FilesWrite];

/// Calls of one client that run at once. Further ones wait.
const AT_ONCE: usize = 32;

/// Client with its identity: of one request over HTTP, or of a program with the data folder.
pub(crate) struct Client {
    served: SharedState,
    admitted: Admitted,
    /// Headers with the API key; empty for the holder of the data folder.
    headers: HeaderMap,
    /// Time before the key was admitted.
    looked: Instant,
    request_id: Option<RequestId>,
    /// Names of the identity, before the API key completes them.
    asked: Request,
    /// Account of the holder of the data folder, who has no API key.
    account: Option<Arc<dyn AccountStore>>,
    /// Commit after which a client that listens begins.
    start: Option<Seq>,
    /// Calls that may run besides those that do.
    slots: Arc<Semaphore>,
    /// Turn of the request among the calls of its account.
    _turn: Option<Room>,
}

/// Call of a client: the tree that it needs, and its arguments.
pub(crate) struct ClientCall {
    /// Name of the tool, or of what is read.
    pub(crate) name: &'static str,
    pub(crate) tree: Tree,
    /// Scopes that the key of the client must have, all of them.
    pub(crate) scopes: &'static [Scope],
    /// True if the call changes what is stored.
    pub(crate) writes: bool,
    /// Declared arguments.
    pub(crate) fields: &'static [&'static [Field]],
    /// Arguments, a JSON object.
    pub(crate) arguments: Vec<u8>,
}

impl ClientCall {
    /// Returns a read without arguments.
    pub(crate) fn read(name: &'static str, tree: Tree, scopes: &'static [Scope]) -> Self {
        Self { name, tree, scopes, writes: false, fields: &[], arguments: b"{}".to_vec() }
    }
}

impl Client {
    /// Returns the client of a request whose key was admitted after the time `looked`.
    pub(crate) fn new(
        served: SharedState,
        admitted: Admitted,
        (headers, looked): (HeaderMap, Instant),
        mut asked: Request,
    ) -> Self {
        if admitted.key().binding.is_free() && asked.agent.is_empty() {
            // A request that names nobody is one of the default agent, never of the account itself.
            DEFAULT_AGENT.clone_into(&mut asked.agent);
        }
        let (request_id, account, start) = (None, None, None);
        let slots = Arc::new(Semaphore::new(AT_ONCE));
        Self { served, admitted, headers, looked, request_id, asked, account, start, slots, _turn: None }
    }

    /// Returns the client that holds the data folder, on an account of this name. It listens until
    /// `stopping`.
    pub(crate) fn of_holder(
        home: Arc<dyn Home>,
        (account, name): (Arc<dyn AccountStore>, &str),
        asked: Request,
        stopping: Stopping,
    ) -> Self {
        let key = ApiKey {
            id: String::new(),
            account: Some(name.to_owned()),
            label: String::new(),
            scopes: HOLDER.to_vec(),
            binding: Binding::default(),
            created: Timestamp(0),
            expires: None,
            revoked: None,
            maker: None,
            is_damaged: false,
        };
        let served = Served { stopping, ..Served::new(home, None, Arc::new(Limits::default())) };
        let client =
            Self::new(Arc::new(served), Admitted::new(key, None), (HeaderMap::new(), Instant::now()), asked);
        Self { account: Some(account), ..client }
    }

    /// Adds the id of the request, and the turn that it holds until it is answered.
    pub(crate) fn in_turn(self, request_id: Option<RequestId>, turn: Option<Room>) -> Self {
        Self { request_id, _turn: turn, ..self }
    }

    /// Lets a client that listens begin with the commits after the present one.
    pub(crate) async fn starting_now(self) -> Result<Self, Refusal> {
        let start = Some(self.account().await?.view_base().known_durable()?);
        Ok(Self { start, ..self })
    }

    /// Returns the commit after which a client that begins to listen now gets changes. Reads nothing.
    pub(crate) fn position(&self) -> Option<Seq> {
        match &self.account {
            Some(account) => account.view_base().known_durable().ok(),
            None => self.start,
        }
    }

    pub(crate) fn key(&self) -> &ApiKey {
        self.admitted.key()
    }

    /// Waits until the server stops, or the input of the client ends.
    pub(crate) async fn stopped(&self) {
        self.served.stopping.stopped().await;
    }

    pub(crate) fn env(&self) -> &Env {
        self.served.home.env()
    }

    /// Returns the slots of the calls that run at once.
    pub(crate) fn slots(&self) -> Arc<Semaphore> {
        Arc::clone(&self.slots)
    }

    /// Returns the id of the request, for the answer to a failure.
    pub(crate) fn request_id(&self) -> Option<String> {
        self.request_id.map(|id| id.to_string())
    }

    /// Checks the names of the identity against those that the key fixes. Reads nothing.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        // The kind of call that every binding permits.
        self.reach(None, Tree::Files).map(drop)
    }

    /// Checks that the agent that an address names exists. A mistyped name would become an agent by its first
    /// write. A key that is bound to an agent names it once and on purpose, maybe before it exists.
    pub(crate) async fn check_agent(&self) -> Result<(), Refusal> {
        let (agent, binding) = (&*self.asked.agent, &self.key().binding);
        let is_bound = binding.agent.is_some() || binding.key.is_some();
        if is_bound || agent.is_empty() || agent == DEFAULT_AGENT {
            return Ok(());
        }
        check_id("agent", agent).map_err(Error::from)?;
        let directory = TreePath::parse(&format!("/agents/{agent}")).map_err(Error::from)?;
        let exists = self.account().await?.exists(&directory).await;
        match exists.map_err(|error| Refusal::from(error).without_path())? {
            true => Ok(()),
            false => {
                let message = format!(
                    "there is no agent `{agent}`; correct \"agent\" in the address, or create it with \
                     `POST /v1/agents/{agent}/create`"
                );
                Err(Refusal::new(Code::NotFound, message))
            }
        }
    }

    /// Checks that the identity may be served: opens what it reaches, and creates nothing.
    pub(crate) async fn judge(&self) -> Result<(), Refusal> {
        let reach = self.reach(Some(self.account().await?), Tree::Files)?;
        reach.open(Tree::Files.family()).await.map_err(|error| Refusal::from(error).without_path())?;
        Ok(())
    }

    /// Returns true if the key of the client has these scopes.
    pub(crate) fn allows(&self, scopes: &[Scope]) -> bool {
        scopes.iter().all(|scope| self.key().allows(*scope))
    }

    /// Returns true if the binding of the key permits calls on a tree. Reads nothing.
    pub(crate) fn reaches(&self, tree: Tree) -> bool {
        self.key().binding.is_free() || self.reach(None, tree).is_ok()
    }

    /// Returns the path at which the files of the client begin.
    pub(crate) fn top(&self) -> TreePath {
        self.key().binding.prefix.clone().unwrap_or_else(TreePath::root)
    }

    /// Runs a call on the threads that compute, and logs the cause of a failure.
    pub(crate) async fn answer<T: Send + 'static>(
        self: &Arc<Self>,
        asked: ClientCall,
        run: impl for<'c> FnOnce(&'c Call<'c>) -> BoxFuture<'c, Result<T, Refusal>> + Send + 'static,
    ) -> Result<T, Refusal> {
        self.check_scopes(asked.scopes)?;
        // Nothing closes the semaphore.
        let _slot = self.slots.acquire().await.ok();
        let (client, bytes) = (Arc::clone(self), asked.arguments.len());
        // The work runs on another thread, so it owns its data.
        let work = async move {
            client.standing().renew().await?;
            let call = client.call(&asked).await?;
            let answered = log_within(client.span(&call.caller), run(&call)).await;
            answered.map_err(|refusal| match asked.writes && !call.may_read() {
                // A refusal may quote what is stored, for example in a conflict.
                true => refusal.without_content(asked.tree.read_scope().as_str()),
                false => refusal,
            })
        };
        compute(self.env(), self.key().share(), bytes, work).await?
    }

    /// Follows the changes after a commit at or below some paths, or of the whole tree without any.
    pub(crate) async fn updates(
        self: &Arc<Self>,
        start: Option<Seq>,
        within: Vec<TreePath>,
    ) -> Result<Updates, Refusal> {
        let asked = ClientCall::read("changes", Tree::Files, &[Scope::FilesRead]);
        self.answer(asked, move |call| Box::pin(async move { updates(call, start, within).await })).await
    }

    fn check_scopes(&self, scopes: &[Scope]) -> Result<(), Refusal> {
        let key = self.key();
        match scopes.iter().find(|scope| !key.allows(**scope)) {
            Some(missing) if key.binding.read_only && missing.is_write() => {
                Err(Refusal::read_only_key(missing.as_str()))
            }
            Some(missing) => Err(Refusal::forbidden(missing.as_str())),
            None => Ok(()),
        }
    }

    async fn account(&self) -> Result<Arc<dyn AccountStore>, Refusal> {
        match &self.account {
            Some(account) => Ok(Arc::clone(account)),
            None => self.served.tree(&self.admitted).await,
        }
    }

    fn standing(&self) -> Standing<'_> {
        let (home, headers, admitted) = (&self.served.home, &self.headers, &self.admitted);
        match &self.account {
            Some(_) => Standing::of_holder(home, headers, admitted),
            None => Standing::new(home, headers, admitted, self.looked),
        }
    }

    fn reach(&self, account: Option<Arc<dyn AccountStore>>, tree: Tree) -> Result<Reach, Refusal> {
        let (asked, family, key) = (self.asked.clone(), tree.family(), self.key());
        let reach = match (&self.account, account) {
            (Some(_), Some(account)) => Reach::of_holder(account, self.env(), family, asked),
            (_, account) => {
                let is_admin = key.allows(Scope::Admin);
                let credential = Credential { id: &key.id, binding: &key.binding, is_admin };
                Reach::new(account, self.env(), credential, family, asked)?
            }
        };
        Ok(reach.kept_in(&self.served.trees, self.admitted.tree()))
    }

    /// Parses the arguments of a call and opens its account.
    async fn call<'c>(&'c self, asked: &'c ClientCall) -> Result<Call<'c>, Refusal> {
        let fields = Fields::parse((asked.name, &[]), &asked.arguments, asked.fields)?;
        let reach = self.reach(Some(self.account().await?), asked.tree)?;
        // The identity is in no field, and a cursor is valid for one identity.
        let tree = format!("{} {:?}", self.admitted.tree(), reach.request());
        let caller = reach.request().map(Caller::of_request).unwrap_or_default();
        let (known, fields) = ((self.key(), self.standing()), fields.of_tree(Cow::Owned(tree)));
        Ok(Call::new(&self.served, known, (asked.tree, caller, reach), fields))
    }

    /// Returns the span of a call, as those of routes have it.
    fn span(&self, caller: &Caller<'_>) -> Span {
        let id = self.request_id.as_ref().map(tracing::field::display);
        let (account, agent) = (self.key().share(), &*caller.agent);
        let (user, session) = (caller.user.as_deref(), caller.session_name());
        tracing::error_span!("request", id, account, agent, user, session = session.as_deref())
    }
}
