//! Server of the tools, resources and prompts that the conformance suite of the Model Context Protocol needs.
//! They are behind the transport of `garth serve`: the same connections, keys, limits and checks of headers.
//! `scripts/mcp-clients` starts it in place of the program:
//!
//! ```sh
//! cargo build -p garth-proofs --example mcp_fixtures
//! target/debug/examples/mcp_fixtures serve --listen 127.0.0.1:0 --json --data FOLDER
//! ```
//!
//! It needs no other argument than the data folder. It prints its address and an API key.
#![allow(clippy::print_stdout, reason = "its caller reads the address and the key")]

use std::future::pending;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use futures::executor::block_on;
use garth_engine::datadir::Scope;
use garth_engine::{DataDir, Env};
use garth_server::{Options, serve_mcp_handler};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorCode, GetPromptRequestParams,
    GetPromptResponse, GetPromptResult, Implementation, JsonObject, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, Prompt, PromptArgument, PromptMessage, PromptsCapability,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource, ResourceContents,
    ResourceTemplate, ResourcesCapability, Role, ServerCapabilities, ServerConfig, SubscriptionFilter, Tool,
    ToolsCapability,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::broadcast;

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// Account of the data folder.
const ACCOUNT: &str = "fixtures";
/// Image of one red pixel, in base64.
const IMAGE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC";
/// Sound of one silent sample, in base64.
const AUDIO: &str = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQIAAAAAAA==";
/// Tools without arguments, with their meanings.
const TOOLS: [(&str, &str); 12] = [
    ("test_simple_text", "Returns a text"),
    ("test_image_content", "Returns an image"),
    ("test_audio_content", "Returns a sound"),
    ("test_embedded_resource", "Returns a resource"),
    ("test_multiple_content_types", "Returns a text, an image and a resource"),
    ("test_error_handling", "Fails"),
    ("test_tool_with_progress", "Reports its progress"),
    ("test_missing_capability", "Needs a client that samples"),
    ("test_streaming_elicitation", "Returns a text, and asks nothing"),
    ("test_logging_tool", "Returns a text, and logs nothing"),
    ("test_trigger_tool_change", "Says that the list of tools has changed"),
    ("test_trigger_prompt_change", "Says that the list of prompts has changed"),
];

/// Tool whose schema the suite compares.
const TOOL_WITH_SCHEMA: &str = r##"{
    "name": "json_schema_2020_12_tool",
    "description": "Tool with JSON Schema 2020-12 features",
    "inputSchema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}}
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"}
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false
    }
}"##;

/// List that has changed.
#[derive(Clone, Copy)]
enum Changed {
    Tools,
    Prompts,
}

/// Handler of all requests.
#[derive(Clone)]
struct Fixtures {
    tools: Arc<Vec<Tool>>,
    changes: broadcast::Sender<Changed>,
    /// Changes for subscriptions that are acknowledged, and do not listen yet.
    starts: Arc<Mutex<Vec<broadcast::Receiver<Changed>>>>,
}

fn main() -> Result<()> {
    let folder = std::env::args().skip_while(|argument| argument != "--data").nth(1);
    let folder = folder.ok_or("usage: mcp_fixtures --data FOLDER")?;
    let home = DataDir::open(Path::new(&folder), Env::system(), garth_agent::registry())?;
    block_on(home.create_account(ACCOUNT))?;
    let (_, key) = block_on(home.control().create_key(ACCOUNT, "suite", &[Scope::Admin]))?;
    let (changes, _) = broadcast::channel(16);
    let fixtures = Fixtures { tools: Arc::new(tools()?), changes, starts: Arc::default() };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        println!("{}", json!({"url": url, "key": key.reveal()}));
        let listeners = vec![listener];
        serve_mcp_handler(Arc::new(home), listeners, Options::default(), fixtures, pending()).await
    })?;
    Ok(())
}

/// Returns the definitions of all tools.
fn tools() -> Result<Vec<Tool>> {
    let mut tools = Vec::new();
    for (name, meaning) in TOOLS {
        let schema = json!({"type": "object"});
        tools.push(json!({"name": name, "description": meaning, "inputSchema": schema}));
    }
    let region = json!({"type": "string", "x-mcp-header": "Region"});
    tools.push(json!({
        "name": "test_header_parameter",
        "description": "Has a parameter that a header repeats",
        "inputSchema": {"type": "object", "properties": {"region": region}, "required": ["region"]},
    }));
    tools.push(serde_json::from_str(TOOL_WITH_SCHEMA)?);
    let tools = tools.into_iter().map(serde_json::from_value::<Tool>);
    Ok(tools.collect::<serde_json::Result<Vec<_>>>()?)
}

/// Returns the content of a tool's answer.
fn content_of(tool: &str) -> Vec<ContentBlock> {
    let image = || ContentBlock::image(IMAGE, "image/png");
    match tool {
        "test_image_content" => vec![image()],
        "test_audio_content" => vec![ContentBlock::audio(AUDIO, "audio/wav")],
        "test_embedded_resource" => {
            let resource = ResourceContents::text("An embedded resource.", "test://embedded-resource");
            vec![ContentBlock::resource(resource.with_mime_type("text/plain"))]
        }
        "test_multiple_content_types" => {
            let resource = ResourceContents::text(r#"{"test":"data"}"#, "test://mixed-content-resource");
            let resource = ContentBlock::resource(resource.with_mime_type("application/json"));
            vec![ContentBlock::text("Several types:"), image(), resource]
        }
        _ => vec![ContentBlock::text("This is a simple text response for testing.")],
    }
}

/// Returns the contents of a resource.
fn contents_of(uri: &str) -> Option<ResourceContents> {
    Some(match uri {
        "test://static-text" => {
            let text = "This is the content of the static text resource.";
            ResourceContents::text(text, uri).with_mime_type("text/plain")
        }
        "test://static-binary" => ResourceContents::blob(IMAGE, uri).with_mime_type("image/png"),
        _ => {
            let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
            let text = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            ResourceContents::text(text.to_string(), uri).with_mime_type("application/json")
        }
    })
}

/// Returns the content of the message of a prompt.
fn prompt_of(name: &str, arguments: &JsonObject) -> Option<ContentBlock> {
    let argument = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
    Some(match name {
        "test_simple_prompt" => ContentBlock::text("This is a simple prompt for testing."),
        "test_prompt_with_arguments" => {
            let (first, second) = (argument("arg1"), argument("arg2"));
            ContentBlock::text(format!("Prompt with arguments: arg1='{first}', arg2='{second}'"))
        }
        "test_prompt_with_embedded_resource" => {
            let resource = ResourceContents::text("An embedded resource.", argument("resourceUri"));
            ContentBlock::resource(resource.with_mime_type("text/plain"))
        }
        "test_prompt_with_image" => ContentBlock::image(IMAGE, "image/png"),
        _ => return None,
    })
}

/// Reports the progress of a call, if its client asks for it.
async fn report_progress(context: &RequestContext<RoleServer>) -> Result<(), ErrorData> {
    let Some(token) = context.meta.get_progress_token() else { return Ok(()) };
    for progress in [0.0, 50.0, 100.0] {
        let report = ProgressNotificationParam::new(token.clone(), progress).with_total(100.0);
        let sent = context.peer.notify_progress(report).await;
        sent.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    }
    Ok(())
}

impl Fixtures {
    fn change(&self, changed: Changed) {
        // Nobody may listen.
        let _ = self.changes.send(changed);
    }
}

impl ServerHandler for Fixtures {
    fn get_info(&self) -> ServerConfig {
        let (mut tools, mut prompts) = (ToolsCapability::default(), PromptsCapability::default());
        (tools.list_changed, prompts.list_changed) = (Some(true), Some(true));
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = Some(tools);
        capabilities.prompts = Some(prompts);
        capabilities.resources = Some(ResourcesCapability::default());
        // The library answers without values.
        capabilities.completions = Some(JsonObject::new());
        ServerConfig::new(capabilities).with_server_info(Implementation::new("fixtures", "1"))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name: &str = &request.name;
        let has = |name: &str| self.tools.iter().any(|tool| tool.name == name);
        match name {
            "test_error_handling" => {
                let text = "This tool intentionally returns an error for testing";
                return Ok(CallToolResult::error(vec![ContentBlock::text(text)]).into());
            }
            "test_missing_capability" => {
                let required = json!({"requiredCapabilities": {"sampling": {}}});
                let code = ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY;
                return Err(ErrorData::new(code, "this tool needs sampling", Some(required)));
            }
            "test_tool_with_progress" => report_progress(&context).await?,
            "test_trigger_tool_change" => self.change(Changed::Tools),
            "test_trigger_prompt_change" => self.change(Changed::Prompts),
            _ if has(name) => {}
            _ => return Err(ErrorData::invalid_params("there is no such tool", None)),
        }
        Ok(CallToolResult::success(content_of(name)).into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let text = Resource::new("test://static-text", "Text").with_description("A text");
        let image = Resource::new("test://static-binary", "Image").with_description("A pixel");
        let resources = vec![text.with_mime_type("text/plain"), image.with_mime_type("image/png")];
        Ok(ListResourcesResult::with_all_items(resources))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let template = ResourceTemplate::new("test://template/{id}/data", "Template");
        let templates = vec![template.with_mime_type("application/json")];
        Ok(ListResourceTemplatesResult::with_all_items(templates))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let found = contents_of(&request.uri).ok_or_else(|| {
            ErrorData::resource_not_found("there is no such resource", Some(json!({"uri": request.uri})))
        })?;
        Ok(ReadResourceResult::new(vec![found]).into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let argument = |name: &str| PromptArgument::new(name).with_description("A text").with_required(true);
        let arguments = vec![argument("arg1"), argument("arg2")];
        let resource = vec![argument("resourceUri")];
        let prompts = vec![
            Prompt::new("test_simple_prompt", Some("A text"), None),
            Prompt::new("test_prompt_with_arguments", Some("A text with arguments"), Some(arguments)),
            Prompt::new("test_prompt_with_embedded_resource", Some("A resource"), Some(resource)),
            Prompt::new("test_prompt_with_image", Some("An image"), None),
        ];
        Ok(ListPromptsResult::with_all_items(prompts))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let content = prompt_of(&request.name, &request.arguments.unwrap_or_default());
        let content = content.ok_or_else(|| ErrorData::invalid_params("there is no such prompt", None))?;
        Ok(GetPromptResult::new(vec![PromptMessage::new(Role::User, content)]).into())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        // Before the acknowledgment, after which the client must not miss a change.
        let mut starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        starts.push(self.changes.subscribe());
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let start = self.starts.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut changes = start.unwrap_or_else(|| self.changes.subscribe());
        let (accepted, sink) = (context.accepted(), context.sink());
        loop {
            let changed = tokio::select! {
                () = context.cancelled() => return Ok(()),
                changed = changes.recv() => changed,
            };
            let sent = match changed {
                Ok(Changed::Tools) if accepted.tools_list_changed == Some(true) => {
                    sink.notify_tool_list_changed().await
                }
                Ok(Changed::Prompts) if accepted.prompts_list_changed == Some(true) => {
                    sink.notify_prompt_list_changed().await
                }
                Ok(_) => Ok(()),
                Err(_) => return Ok(()),
            };
            if sent.is_err() {
                return Ok(());
            }
        }
    }
}
