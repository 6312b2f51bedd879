//! Tests of the tools with the keys, trees and engine of a server.

mod listed;
mod memories;
mod reach;
mod reads;
mod searches;
mod undo;
mod writes;

use bytes::Bytes;
use futures::future::BoxFuture;
use garth_engine::home::{NewKey, Scope};
use garth_engine::model::{Batch, Op};
use garth_engine::{FileSystemExt as _, TreePath};
use serde_json::{Value, json};

use super::{TOOLS, Tool};
use crate::errors::Refusal;
use crate::mcp::failure::message_of;
use crate::mcp::hints::Unseen;
use crate::routes::call::Call;
use crate::routes::test_calls::{TestCall, TestServer};

/// Scopes of a key that may call every tool.
const SCOPES: [Scope; 5] =
    [Scope::FilesRead, Scope::FilesWrite, Scope::MemoryRead, Scope::MemoryWrite, Scope::SearchRead];

/// Client of the tools.
struct Client<'a> {
    server: &'a TestServer,
    key: String,
}

/// Answer of a tool.
#[derive(Debug)]
struct Answer {
    text: String,
    structured: Value,
    /// URIs of the links.
    links: Vec<String>,
}

impl<'a> Client<'a> {
    /// Returns a client with a key that may call every tool.
    async fn new(server: &'a TestServer, bind: impl FnOnce(&mut NewKey)) -> Self {
        Self { server, key: server.key(&SCOPES, bind).await }
    }

    /// Returns a client of the account itself.
    async fn free(server: &'a TestServer) -> Self {
        Self::new(server, |_| {}).await
    }

    /// Runs a tool, with the names of an identity among the arguments, as the server adds them.
    async fn run(&self, name: &str, arguments: Value) -> Result<Answer, Refusal> {
        let Tool { scopes, tree, fields, .. } = *tool(name);
        let call = TestCall { path: "/v1/test/{tool}", scopes, tree, fields, run: run_tool };
        let at = format!("/v1/test/{name}");
        let answer = self.server.call(&self.key, (at.as_str(), &call), &arguments).await?;
        let described = tool(name).definition()["outputSchema"]["properties"].clone();
        for field in answer["structured"].as_object().unwrap().keys() {
            assert!(described.get(field).is_some(), "{name} does not describe {field}");
        }
        let links = answer["links"].as_array().unwrap().iter();
        Ok(Answer {
            text: answer["text"].as_str().unwrap().to_owned(),
            links: links.map(|link| link.as_str().unwrap().to_owned()).collect(),
            structured: answer["structured"].clone(),
        })
    }

    /// Runs a tool that succeeds.
    async fn ok(&self, name: &str, arguments: Value) -> Answer {
        let shown = arguments.to_string();
        self.run(name, arguments)
            .await
            .unwrap_or_else(|refusal| panic!("{name} {shown}: {}", refusal.message))
    }

    /// Runs a tool that is refused, and returns the message.
    async fn refused(&self, name: &str, arguments: Value) -> String {
        message_of(&self.run(name, arguments).await.unwrap_err(), &Unseen::default())
    }
}

impl Answer {
    /// Returns a text of the structured answer.
    fn field(&self, name: &str) -> &str {
        self.structured[name].as_str().unwrap_or_else(|| panic!("{name} of {}", self.structured))
    }
}

fn tool(name: &str) -> &'static Tool {
    TOOLS.iter().find(|tool| tool.name == name).unwrap()
}

/// Runs the tool that the path of the call names.
fn run_tool<'a>(call: &'a Call<'a>) -> BoxFuture<'a, Result<Bytes, Refusal>> {
    Box::pin(async move {
        let answer = tool(call.argument("tool")).call(call).await?;
        let links: Vec<&str> = answer.links.iter().map(|link| &*link.uri).collect();
        let text: Vec<String> =
            [Some(answer.text.clone()), answer.hint.clone()].into_iter().flatten().collect();
        let text = text.join("\n");
        let json = json!({"text": text, "structured": answer.structured, "links": links});
        Ok(Bytes::from(json.to_string()))
    })
}

/// Writes a file of the account, with its missing directories.
async fn write(server: &TestServer, path: &str, content: &[u8]) {
    let account = server.account().await;
    let path = TreePath::parse(path).unwrap();
    let body = account.body(&path, content.to_vec()).await.unwrap();
    account.commit(Batch::new([Op::write(&path, body).with_parents()])).await.unwrap();
}
