//! Requests of a client: the handler that `rmcp` calls. It serves the revision of the protocol that names
//! version and capabilities in each request, and those before it, and keeps nothing between two requests.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use garth_engine::model::Seq;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock,
    CustomRequest, CustomResult, DiscoverResult, ErrorCode, ExtensionCapabilities, GetPromptRequestParams,
    GetPromptResponse, GetSkillRequestParams, GetSkillResult, Implementation, InitializeRequestParams,
    InitializeResult, JsonObject, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListSkillsResult, ListToolsResult, PaginatedRequestParams, PromptsCapability, ReadResourceRequestParams,
    ReadResourceResponse, Resource, ResourcesCapability, SKILLS_EXTENSION_ID, ServerCapabilities,
    ServerConfig, SubscriptionFilter, Tool as ToolDefinition, ToolsCapability,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;

use super::choice::ToolChoice;
use super::failure::{error_of, failed_tool, naming_uri};
use super::hints::Unseen;
use super::tools::{TOOLS, Tool, ToolAnswer};
use super::{listen, prompts, resources, skills};
use crate::compute::compute;
use crate::errors::Refusal;
use crate::routes::client::{Client, ClientCall};

/// Time in milliseconds for which a client may keep lists that depend on its key and address alone.
const LIST_TTL: u64 = 60_000;

/// Text for models about all tools.
const INSTRUCTIONS: &str = "The durable, versioned files of one agent. Paths begin with `/`.";
/// Text about the directories at the top, for clients that reach them.
const PLACES: &str = " `/` has the files of this chat, which all its agents and sessions share; they stay \
    when a session ends. `/.user` has your own files about this user or channel, `/.agent` those for all of \
    your users. garth keeps memories and skills in `/ctx`: change nothing there.";
/// Sentences about tools, for clients that see them.
const ADVICE: &str = "`history` lists the earlier versions of a file. `restore` brings an earlier state \
    back. Call `recall` before you answer from memory. Call `remember` for facts that later sessions need.";

/// Methods whose parameters are checked. A request for one of them that `rmcp` takes for an unknown one has
/// parameters of wrong types.
const METHODS: [&str; 10] = [
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "server/discover",
    "skills/get",
    "skills/list",
    "tools/call",
    "tools/list",
];
/// Further ones of requests that name no revision: those of clients that begin with `initialize`.
const EARLIER_METHODS: [&str; 2] = ["initialize", "ping"];
/// Further ones of requests that name their revision.
const LATER_METHODS: [&str; 1] = ["subscriptions/listen"];

/// Need of the methods of requests that name their revision.
const NEEDS_META: &str = "needs `_meta` with the `io.modelcontextprotocol/` names `protocolVersion`, \
    `clientInfo` and `clientCapabilities`; a client of an earlier revision begins with initialize";

/// Tools as clients see them, each with its entry in the table.
static DEFINITIONS: OnceLock<Vec<(&Tool, ToolDefinition)>> = OnceLock::new();

/// Handler of the requests of one client.
#[derive(Clone)]
pub(super) struct Handler {
    client: Arc<Client>,
    choice: Arc<ToolChoice>,
    starts: Arc<Starts>,
}

/// Commits after which subscriptions begin that were accepted, and do not listen yet. The library
/// acknowledges a subscription in between, and the client must not miss a change after that.
#[derive(Default)]
struct Starts(Mutex<Vec<Seq>>);

impl Starts {
    /// Limit on the commits that are kept. Only a subscription that was never acknowledged leaves one behind.
    const MOST: usize = 64;

    fn push(&self, start: Option<Seq>) {
        let mut starts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        starts.extend(start);
        if starts.len() > Self::MOST {
            starts.remove(0);
        }
    }

    /// Returns a commit that is no later than that of the subscription which begins to listen, and forgets
    /// the latest one: several may begin at once, in any order.
    fn take(&self) -> Option<Seq> {
        let mut starts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        starts.sort_unstable();
        let first = starts.first().copied();
        starts.pop();
        first
    }
}

impl Handler {
    pub(super) fn new(client: Client, choice: ToolChoice) -> Self {
        Self { client: Arc::new(client), choice: Arc::new(choice), starts: Arc::default() }
    }

    fn error(&self, refusal: &Refusal) -> ErrorData {
        error_of(refusal, &self.unseen(), self.client.request_id())
    }

    /// Returns true if the client sees the tool: it is chosen, and the key of the client permits it.
    fn sees(&self, tool: &Tool) -> bool {
        self.choice.has(tool) && self.client.allows(tool.scopes) && self.client.reaches(tool.tree)
    }

    /// Returns the tools that the client does not see, whose names are left out of texts.
    fn unseen(&self) -> Unseen {
        Unseen::new(|tool| self.sees(tool))
    }

    /// Returns the text for models, about what the client reaches.
    fn instructions(&self) -> String {
        let top = self.client.top();
        let places = match top.is_root() {
            true => PLACES.to_owned(),
            false => format!(" All files are below `{top}`."),
        };
        let advice = self.unseen().sentences(ADVICE);
        format!("{INSTRUCTIONS}{places} {advice}").trim_end().to_owned()
    }

    fn tool(&self, name: &str) -> Result<&'static Tool, ErrorData> {
        let found = TOOLS.iter().find(|tool| tool.name == name && self.sees(tool));
        found.ok_or_else(|| {
            let names: Vec<&str> =
                TOOLS.iter().filter(|tool| self.sees(tool)).map(|tool| tool.name).collect();
            let shown: String = name.chars().take(100).collect();
            let message = match names.is_empty() {
                true => format!("{shown:?} is not a tool of this server; it has none for this client"),
                false => {
                    format!("{shown:?} is not a tool of this server; its tools are {}", names.join(", "))
                }
            };
            ErrorData::invalid_params(message, None)
        })
    }

    /// Returns the outcome of a read, which ends when the client leaves.
    async fn read<T>(
        &self,
        context: &RequestContext<RoleServer>,
        work: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<T, ErrorData> {
        let done = unless_cancelled(context, work).await;
        done.map_err(|refusal| self.error(&refusal))
    }
}

/// Returns the outcome of work, which is dropped when its request is cancelled.
async fn unless_cancelled<T>(
    context: &RequestContext<RoleServer>,
    work: impl Future<Output = Result<T, Refusal>>,
) -> Result<T, Refusal> {
    tokio::select! {
        biased;
        done = work => done,
        // Nobody reads it.
        () = context.ct.cancelled() => Err(Refusal::no_room("the request was cancelled")),
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let server = Implementation::new("garth", env!("CARGO_PKG_VERSION")).with_title("garth");
        ServerConfig::new(capabilities(true)).with_server_info(server).with_instructions(self.instructions())
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let mut result = self.negotiate_initialize(&request)?;
        result.capabilities = capabilities(names_skills(Some(&request.capabilities)));
        // In these revisions a subscription outlives its request, so it would have to be remembered.
        result.capabilities.resources = Some(ResourcesCapability::default());
        context.peer.set_peer_info(request);
        Ok(result)
    }

    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let mut info = self.get_info();
        info.capabilities = capabilities(names_skills(context.client_capabilities().as_ref()));
        let versions = self.supported_protocol_versions().into_owned();
        let result = DiscoverResult::from_server_info(versions, info);
        Ok(result.with_ttl_ms(LIST_TTL).with_cache_scope(CacheScope::Private))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        only_page(request)?;
        let definitions = match DEFINITIONS.get() {
            Some(definitions) => definitions,
            None => {
                let written = async { DEFINITIONS.get_or_init(definitions) };
                let written = compute(self.client.env(), "", 0, written).await;
                written.map_err(|error| self.error(&Refusal::from(error)))?
            }
        };
        let (seen, unseen) = (definitions.iter().filter(|(tool, _)| self.sees(tool)), self.unseen());
        let seen = seen.map(|(tool, definition)| {
            let mut definition = definition.clone();
            definition.description = Some(unseen.sentences(tool.description).into());
            definition
        });
        let result = ListToolsResult::with_all_items(seen.collect());
        Ok(result.with_ttl_ms(LIST_TTL).with_cache_scope(CacheScope::Private))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = self.tool(&request.name)?;
        let asked = ClientCall {
            name: tool.name,
            tree: tool.tree,
            scopes: tool.scopes,
            writes: tool.effect.writes(),
            fields: tool.fields,
            arguments: Value::Object(request.arguments.unwrap_or_default()).to_string().into_bytes(),
        };
        let work = self.client.answer(asked, move |call| Box::pin(tool.call(call)));
        let answered = match tool.effect.writes() {
            // A write that has begun is finished, whether the client is there or not.
            true => work.await,
            false => unless_cancelled(&context, work).await,
        };
        Ok(match answered {
            Ok(answer) => result_of(answer, || self.unseen()),
            Err(refusal) => failed_tool(&refusal, &self.unseen(), self.client.request_id()),
        }
        .into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        self.read(&context, resources::list(&self.client, cursor)).await
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        only_page(request)?;
        let result = ListResourceTemplatesResult::with_all_items(vec![resources::template()]);
        Ok(result.with_ttl_ms(LIST_TTL).with_cache_scope(CacheScope::Private))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        let result = match skills::path_of(&uri) {
            Some(path) => self.read(&context, skills::read(&self.client, path, uri.clone())).await,
            None => self.read(&context, resources::read(&self.client, uri.clone(), self.unseen())).await,
        };
        let result = result.map_err(|error| naming_uri(error, uri))?;
        Ok(result.with_ttl_ms(0).with_cache_scope(CacheScope::Private).into())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        self.starts.push(self.client.position());
        Some(listen::accepted(requested))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let listened = listen::listen(&self.client, self.starts.take(), &context).await;
        listened.map_err(|refusal| self.error(&refusal))
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        only_page(request)?;
        let seen = prompts::is_for(&self.client).then(prompts::workspace);
        let result = ListPromptsResult::with_all_items(seen.into_iter().collect());
        Ok(result.with_ttl_ms(LIST_TTL).with_cache_scope(CacheScope::Private))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        prompts::check(&request).map_err(|refusal| self.error(&refusal))?;
        Ok(self.read(&context, prompts::get(&self.client)).await?.into())
    }

    async fn list_skills(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListSkillsResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let result = self.read(&context, skills::list(&self.client, cursor)).await?;
        Ok(result.with_ttl_ms(0).with_cache_scope(CacheScope::Private))
    }

    async fn get_skill(
        &self,
        request: GetSkillRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetSkillResult, ErrorData> {
        let skill = self.read(&context, skills::get(&self.client, request.uri)).await?;
        Ok(GetSkillResult::new(skill).with_ttl_ms(0).with_cache_scope(CacheScope::Private))
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method: String = request.method.chars().take(100).collect();
        let names_revision = context.meta.protocol_version().is_some();
        Err(match is_served(&method, names_revision) {
            true if method == "server/discover" && !names_revision => {
                ErrorData::invalid_params(format!("{method} {NEEDS_META}"), None)
            }
            true => ErrorData::invalid_params(format!("the parameters of {method} have wrong types"), None),
            false => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, unserved(&method, names_revision), None),
        })
    }
}

/// Returns the message of a method that is not served, for a request that names its revision or does not.
fn unserved(method: &str, names_revision: bool) -> String {
    match method {
        _ if !names_revision && LATER_METHODS.contains(&method) => format!("{method} {NEEDS_META}"),
        _ if names_revision && EARLIER_METHODS.contains(&method) => {
            format!("{method} is a method of earlier revisions; call server/discover")
        }
        "resources/subscribe" | "resources/unsubscribe" => format!(
            "{method} is not served, because nothing is remembered between two requests; call \
             subscriptions/listen of the revision 2026-07-28"
        ),
        _ => format!("{method:?} is not a method of this server; server/discover describes it"),
    }
}

/// Returns true if the server has a method, for a request that names its revision or does not.
fn is_served(method: &str, names_revision: bool) -> bool {
    let further = match names_revision {
        true => &LATER_METHODS[..],
        false => &EARLIER_METHODS[..],
    };
    METHODS.contains(&method) || further.contains(&method)
}

/// Returns the capabilities of the server.
fn capabilities(has_skills: bool) -> ServerCapabilities {
    let mut resources = ResourcesCapability::default();
    (resources.subscribe, resources.list_changed) = (Some(true), Some(true));
    let mut capabilities = ServerCapabilities::default();
    capabilities.tools = Some(ToolsCapability::default());
    capabilities.prompts = Some(PromptsCapability::default());
    capabilities.resources = Some(resources);
    if has_skills {
        let skills = (SKILLS_EXTENSION_ID.to_owned(), JsonObject::new());
        capabilities.extensions = Some(ExtensionCapabilities::from([skills]));
    }
    capabilities
}

/// Returns true if a client names the extension of skills among its capabilities.
fn names_skills(capabilities: Option<&ClientCapabilities>) -> bool {
    let extensions = capabilities.and_then(|capabilities| capabilities.extensions.as_ref());
    extensions.is_some_and(|extensions| extensions.contains_key(SKILLS_EXTENSION_ID))
}

/// Refuses a cursor, for a list that has one page.
fn only_page(request: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match request.and_then(|request| request.cursor) {
        None => Ok(()),
        Some(_) => Err(ErrorData::invalid_params("this list has one page; leave the cursor out", None)),
    }
}

fn definitions() -> Vec<(&'static Tool, ToolDefinition)> {
    let definition = |tool: &'static Tool| Some((tool, serde_json::from_value(tool.definition()).ok()?));
    TOOLS.iter().filter_map(definition).collect()
}

fn result_of(answer: ToolAnswer, unseen: impl FnOnce() -> Unseen) -> CallToolResult {
    let mut text = answer.text;
    if let Some(hint) = &answer.hint
        && let Some(hint) = unseen().hint(hint)
    {
        text.push('\n');
        text.push_str(&hint);
    }
    let mut content = vec![ContentBlock::text(text)];
    content.extend(answer.links.into_iter().map(|link| {
        let mut resource = Resource::new(link.uri, link.name).with_size(link.size);
        resource.mime_type = link.mime_type;
        ContentBlock::resource_link(resource)
    }));
    let mut result = CallToolResult::success(content);
    result.structured_content = Some(answer.structured);
    result.is_error = Some(answer.is_error);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_a_definition() {
        let names: Vec<&str> = definitions().iter().map(|(tool, _)| tool.name).collect();
        assert_eq!(names, TOOLS.iter().map(|tool| tool.name).collect::<Vec<_>>());
    }

    #[test]
    fn subscriptions_begin_no_later_than_they_were_accepted() {
        let starts = Starts::default();
        assert_eq!(starts.take(), None);
        starts.push(Some(Seq(5)));
        starts.push(Some(Seq(7)));
        assert_eq!((starts.take(), starts.take(), starts.take()), (Some(Seq(5)), Some(Seq(5)), None));
        for number in 0..1000 {
            starts.push(Some(Seq(number)));
        }
        assert_eq!(starts.0.lock().unwrap().len(), Starts::MOST);
    }

    #[test]
    fn skills_are_offered_to_clients_that_name_them() {
        let mut client = ClientCapabilities::default();
        assert!(!names_skills(None) && !names_skills(Some(&client)));
        client.extensions =
            Some(ExtensionCapabilities::from([(SKILLS_EXTENSION_ID.into(), JsonObject::new())]));
        assert!(names_skills(Some(&client)));
        assert!(capabilities(true).supports_skills() && !capabilities(false).supports_skills());
    }
}
