//! Paths in prompts and lists of skills are those of the tree that the reader works in. The proof
//! `prompt-paths` checks those of random workspaces.

use garth_agent::workspace::{Init, PathsOf, PromptOptions, Workspace};
use garth_engine::model::Op;
use garth_engine::{ErrorKind, FileSystemExt};

use super::access::{Account, by_key, p, scout};

#[tokio::test]
async fn listed_skill_paths_are_readable() {
    let account = Account::new("{}").await;
    account.put("/skills/mail/SKILL.md", "Mails.").await;
    account.put("/agents/scout/skills/pdf/SKILL.md", "Reads.").await;
    for request in [scout(), by_key("dm:x"), by_key("room:channel:c")] {
        let (access, tree) = (account.access(&request).await, account.tree(&request).await);
        let listing = access.workspace().skills(&[]).await.unwrap();
        assert_eq!(listing.shown.len(), 2);
        for skill in listing.shown {
            let text = tree.read_to_string(&skill.read_path).await.unwrap();
            assert_eq!(text, skill.description, "{}", skill.read_path);
            assert_eq!(
                access.workspace().skill(&skill.directory, &[]).await.unwrap().2.as_str(),
                skill.read_path
            );
        }
        // They are for all agents: no tree of an agent changes them.
        for op in [
            Op::write(p("/ctx/skills/mail/SKILL.md"), "mine"),
            Op::write(p("/ctx/skills/new"), "mine"),
            Op::remove_tree(p("/ctx/skills/mail")),
            Op::rename(p("/ctx/skills/mail"), p("/mail")),
        ] {
            let error = tree.commit(op.clone().into()).await.unwrap_err();
            assert!(!error.is(ErrorKind::NotFound), "{op:?}: {error}");
        }
    }
    assert_eq!(account.text("/skills/mail/SKILL.md").await, "Mails.");
}

#[tokio::test]
async fn prompt_names_paths_of_its_tree() {
    let account = Account::new(r#"{"shared":{}}"#).await;
    Workspace::new(&*account.store, "scout").unwrap().init(&Init::default()).await.unwrap();
    let whole = Workspace::new(&*account.store, "scout").unwrap();
    let of_account = whole.prompt(&PromptOptions::default()).await.unwrap().text;
    assert!(of_account.contains("lasting facts in `/agents/scout/MEMORY.md`"), "{of_account}");
    let access = account.access(&scout()).await;
    let main = access.workspace().prompt(&PromptOptions::default()).await.unwrap().text;
    assert!(main.contains("lasting facts in `/.agent/MEMORY.md`") && !main.contains("/agents/"), "{main}");
    // The manifest is for people who look after the account, so it names paths of the account.
    let parts = access.workspace().prompt(&PromptOptions::default()).await.unwrap().parts;
    let files: Vec<String> = parts.iter().filter_map(|part| Some(part.file.as_ref()?.to_string())).collect();
    assert!(files.iter().any(|file| file == "/agents/scout/SOUL.md"), "{files:?}");
    assert!(files.iter().all(|file| !file.starts_with("/.agent")), "{files:?}");
    let at_root = access.workspace().paths_of(PathsOf::Account);
    assert_eq!(at_root.prompt(&PromptOptions::default()).await.unwrap().text.find("/.agent"), None);
    let prompt_of = async |key: &str| {
        let access = account.access(&by_key(key)).await;
        access.workspace().prompt(&PromptOptions::default()).await.unwrap().text
    };
    let dm = prompt_of("dm:x").await;
    assert!(dm.contains("lasting facts in `/.user/memory/MEMORY.md`"), "{dm}");
    assert!(dm.contains("in `/.user/USER.md`") && !dm.contains("/.agent/MEMORY.md"), "{dm}");
    // If the agent's `USER.md` is shared, the audience has no file of its own.
    account.settings(r#"{"shared":{"USER.md":"read"}}"#).await;
    assert!(!prompt_of("dm:x").await.contains("USER.md"));
    account.settings(r#"{"shared":{"USER.md":"write"}}"#).await;
    assert!(prompt_of("dm:x").await.contains("in `/.agent/USER.md`"));
}

#[tokio::test]
async fn first_run_names_the_bootstrap_file() {
    let account = Account::new("{}").await;
    account.put("/agents/scout/BOOTSTRAP.md", "Ask for a name.").await;
    let (access, tree) = (account.access(&scout()).await, account.tree(&scout()).await);
    let first = access.workspace().prompt(&PromptOptions::default()).await.unwrap();
    assert!(
        first.bootstrap && first.text.contains("delete or rename `/.agent/BOOTSTRAP.md`"),
        "{}",
        first.text
    );
    tree.remove("/.agent/BOOTSTRAP.md").await.unwrap();
    assert!(!access.workspace().prompt(&PromptOptions::default()).await.unwrap().bootstrap);
}
