//! Templates: the files of a new workspace. Existing files stay.

use garth_agent::recall::Recall;
use garth_agent::recall::fence::Key;
use garth_agent::search::SearchRequest;
use garth_agent::workspace::{Init, PromptOptions, Settings, Workspace, Zone};
use garth_agent::{Access, Caller, Class, Request};
use garth_engine::model::{Author, Batch, ChangesQuery, Op};
use garth_engine::{Env, ErrorKind, FileSystem, FileSystemExt, TreePath};

use super::sessions::engines;

const ALL: [&str; 8] = [
    "SOUL.md",
    "IDENTITY.md",
    "USER.md",
    "AGENTS.md",
    "TOOLS.md",
    "HEARTBEAT.md",
    "settings.json",
    "BOOTSTRAP.md",
];

fn workspace(fs: &dyn FileSystem) -> Workspace<'_> {
    Workspace::new(fs, "scout").unwrap()
}

fn names(paths: &[TreePath]) -> Vec<&str> {
    paths.iter().map(|path| path.as_str().strip_prefix("/agents/scout/").unwrap()).collect()
}

async fn write(fs: &dyn FileSystem, name: &str, text: &str) {
    let path = TreePath::parse(&format!("/agents/scout/{name}")).unwrap();
    fs.commit(Batch::new([Op::write(path, text.to_owned()).with_parents()])).await.unwrap();
}

async fn remove(fs: &dyn FileSystem, name: &str) {
    let path = TreePath::parse(&format!("/agents/scout/{name}")).unwrap();
    fs.commit(Batch::new([Op::remove_file(path)])).await.unwrap();
}

async fn read(fs: &dyn FileSystem, name: &str) -> String {
    fs.read_to_string(&format!("/agents/scout/{name}")).await.unwrap()
}

async fn parts(workspace: &Workspace<'_>) -> (bool, Vec<String>) {
    let prompt = workspace.prompt(&PromptOptions::default()).await.unwrap();
    let included = prompt.parts.iter().filter(|part| part.included);
    (prompt.bootstrap, included.map(|part| part.name.to_owned()).collect())
}

#[tokio::test]
async fn init_commits_once_as_its_author() {
    for (fs, _kept) in engines().await {
        let before = fs.head().await.unwrap().seq;
        let zone = Zone::named("Europe/Berlin").unwrap();
        let done = workspace(&*fs).init(&Init::default().time_zone(zone)).await.unwrap();
        assert_eq!((names(&done.made), &done.kept[..]), (ALL.to_vec(), &[][..]));
        let after = fs.head().await.unwrap().seq;
        assert_eq!((after.0, done.seq), (before.0 + 1, Some(after)));
        let changes = fs.changes(&ChangesQuery::default()).await.unwrap();
        let last = &changes.commits.last().unwrap().commit;
        assert_eq!((last.seq, &last.author), (after, &Author::default()));
        let settings = Settings::parse(read(&*fs, "settings.json").await.as_bytes()).unwrap();
        assert_eq!(settings.zone().unwrap().name(), "Europe/Berlin");
        let mut other = Settings::default();
        other.time_zone.clone_from(&settings.time_zone);
        assert_eq!(settings, other, "all else has its default");
    }
}

#[tokio::test]
async fn commissioned_agent_has_workspace_without_memories() {
    for (fs, _kept) in engines().await {
        let workspace = workspace(&*fs);
        workspace.init(&Init::default()).await.unwrap();
        let (bootstrap, included) = parts(&workspace).await;
        assert!(bootstrap && included.iter().any(|name| name == "bootstrap"), "{included:?}");
        remove(&*fs, "BOOTSTRAP.md").await;
        let (bootstrap, included) = parts(&workspace).await;
        assert!(!bootstrap);
        assert_eq!(included, ["base", "soul", "identity", "user", "agents", "tools", "runtime"]);
        for absent in ["MEMORY.md", "memory"] {
            assert!(!fs.exists(&format!("/agents/scout/{absent}")).await.unwrap());
        }
    }
}

#[tokio::test]
async fn repeated_init_changes_nothing() {
    for (fs, _kept) in engines().await {
        let workspace = workspace(&*fs);
        workspace.init(&Init::default()).await.unwrap();
        let before = fs.head().await.unwrap().seq;
        let done = workspace.init(&Init::default()).await.unwrap();
        assert_eq!((&done.made[..], names(&done.kept), done.seq), (&[][..], ALL.to_vec(), None));
        remove(&*fs, "BOOTSTRAP.md").await;
        let done = workspace.init(&Init::default()).await.unwrap();
        assert_eq!((done.made.len(), done.kept.len(), done.seq), (0, 7, None));
        assert_eq!(fs.head().await.unwrap().seq.0, before.0 + 1);
    }
}

#[tokio::test]
async fn init_keeps_existing_files() {
    for (fs, _kept) in engines().await {
        let workspace = workspace(&*fs);
        write(&*fs, "SOUL.md", "").await;
        write(&*fs, "USER.md/odd", "a directory").await;
        let done = workspace.init(&Init::default()).await.unwrap();
        assert_eq!(names(&done.kept), ["SOUL.md", "USER.md"]);
        assert_eq!(
            (read(&*fs, "SOUL.md").await, read(&*fs, "USER.md/odd").await),
            ("".into(), "a directory".into())
        );
        assert!(names(&done.made).contains(&"BOOTSTRAP.md"));
    }
}

#[tokio::test]
async fn init_skips_ceremony_for_complete_agents() {
    for (fs, _kept) in engines().await {
        for name in ["SOUL.md", "IDENTITY.md", "USER.md"] {
            write(&*fs, name, "mine").await;
        }
        let done = workspace(&*fs).init(&Init::default()).await.unwrap();
        assert_eq!(names(&done.made), ["AGENTS.md", "TOOLS.md", "HEARTBEAT.md", "settings.json"]);
    }
    for (fs, _kept) in engines().await {
        let done = workspace(&*fs).init(&Init::default().without_bootstrap()).await.unwrap();
        assert_eq!(names(&done.made), ALL[..7]);
    }
}

#[tokio::test]
async fn init_rejects_file_as_agents_directory() {
    for (fs, _kept) in engines().await {
        fs.commit(Batch::new([Op::write(TreePath::parse("/agents").unwrap(), "x".to_owned())]))
            .await
            .unwrap();
        let error = workspace(&*fs).init(&Init::default()).await.unwrap_err();
        assert!(error.is(ErrorKind::NotADirectory), "{error}");
        assert!(Workspace::new(&*fs, "../x").is_err());
    }
}

/// Returns the files that search and recall find in the tree of the agent with its owner.
async fn found(access: &Access, tree: &dyn FileSystem, question: &str) -> [Vec<String>; 2] {
    let mut asked = SearchRequest::new(question);
    asked.limit = 30;
    let hits = access.searcher(tree, "default").search(&asked).await.unwrap().hits;
    let searched = hits.iter().map(|found| found.hit.path.to_string()).collect();
    let recaller = access.recaller(tree, "default");
    let answer = recaller.recall(&Recall::new(question), &Key::new([7; 32])).await.unwrap();
    let mut recalled: Vec<String> = answer.items.iter().map(|piece| piece.source.clone()).collect();
    recalled.dedup();
    [searched, recalled]
}

#[tokio::test]
async fn untouched_templates_are_no_evidence() {
    let folder = tempfile::tempdir().unwrap();
    let data = garth::builder().open(&folder.path().join("data")).unwrap();
    data.create_account("default").await.unwrap();
    let account = data.account("default").await.unwrap();
    workspace(&*account).init(&Init::default().owner("ann")).await.unwrap();
    let request = Request::new("scout").user("ann").class(Class::Main);
    let access = Access::open(&account, &Env::system(), Caller::Holder, &request).await.unwrap();
    let tree = access.tree().open().await.unwrap();
    let question = "What is the name of your human, and which tone do they like?";
    assert_eq!(found(&access, &*tree, question).await, [[""; 0]; 2]);
    // The same text elsewhere was written by somebody.
    let text = read(&*account, "USER.md").await;
    tree.write("/USER.md", text.clone()).await.unwrap();
    assert_eq!(found(&access, &*tree, question).await, [["/USER.md"]; 2]);
    tree.remove("/USER.md").await.unwrap();
    write(&*account, "USER.md", &text.replacen("not told yet", "Ann", 1)).await;
    assert_eq!(found(&access, &*tree, question).await, [["/.agent/USER.md"]; 2]);
    write(&*account, "USER.md", &text).await;
    assert_eq!(found(&access, &*tree, question).await, [[""; 0]; 2]);
    // They are read as before.
    let (is_first_run, included) = parts(&workspace(&*account)).await;
    assert!(is_first_run && included.contains(&"user".to_owned()), "{included:?}");
}
