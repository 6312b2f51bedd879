//! Prompts of an older garth are replayed byte for byte, even though this version has other texts and reads
//! other fields. `tests/data/prompts-1` holds a data folder in which such prompts were built, their texts
//! (`prompts.json`), and the script that created both (`make`).

use garth_agent::workspace::PromptOptions;
use garth_agent::{Access, Caller, Request};
use garth_engine::model::{Moment, Timestamp};
use garth_engine::{Env, FileSystemExt};
use serde_json::json;

use super::migration::{data_of, told_of};

/// Returns a request of the script.
fn request(session: &str) -> Request {
    let request = Request::new("scout").session(session);
    match session {
        "dm" => request.user("bob"),
        "group" => request.key("agent:scout:slack:channel:C1".parse().unwrap()),
        _ => request.user("ann"),
    }
}

#[tokio::test]
async fn older_prompts_replay_byte_for_byte() {
    let folder = data_of("prompts-1");
    let data = garth::builder().open(folder.path()).unwrap();
    let account = data.account("default").await.unwrap();
    let now = Moment::Time(Timestamp(i64::MAX));
    let told = told_of("prompts-1", "prompts.json");
    for told in told.as_array().unwrap() {
        let session = told["session"].as_str().unwrap();
        let access = Access::open(&account, &Env::system(), Caller::Holder, &request(session)).await.unwrap();
        let options = PromptOptions::default().session(access.identity().audience(), session);
        let again = access.workspace().prompt(&options.clone().at(now.clone())).await.unwrap();
        assert_eq!(json!(again.text), told["text"], "{session}");
        assert!(again.replayed.is_some_and(|of| of.same), "{session}");
        // A new prompt names the paths of the tree, and the next replay is of that one.
        let new = access.workspace().prompt(&options).await.unwrap();
        assert!(json!(new.text) != told["text"] && new.text.contains("`/.agent`"), "{}", new.text);
        let again = access.workspace().prompt(&options.at(now.clone())).await.unwrap();
        assert_eq!(again.text, new.text, "{session}");
    }
}

#[tokio::test]
async fn new_prompts_use_current_skill_parsing() {
    let folder = data_of("prompts-1");
    let data = garth::builder().open(folder.path()).unwrap();
    let account = data.account("default").await.unwrap();
    account.remove("/agents/scout/BOOTSTRAP.md").await.unwrap();
    let access = Access::open(&account, &Env::system(), Caller::Holder, &request("normal")).await.unwrap();
    let text = access.workspace().prompt(&PromptOptions::default()).await.unwrap().text;
    for listed in ["**yes**: 1.0", "**0x10**: 1.0", "**pdf**: Reads PDF", "**mail**: Mails"] {
        assert!(text.contains(listed), "{listed}: {text}");
    }
    assert!(!text.contains("## Heartbeats"), "{text}");
    assert!(
        text.contains("Left out: 3 whose requirements no host meets, 1 that is a link or no file."),
        "{text}"
    );
}
