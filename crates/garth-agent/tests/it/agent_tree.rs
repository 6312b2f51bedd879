//! Tree that an agent sees in a chat: its parts, hidden paths, and the places of writes.

use std::sync::Arc;

use futures::TryStreamExt;
use garth_agent::session::{Append, Create, Draft};
use garth_agent::tree::{USER_MEMORY, user_memory, write_free};
use garth_agent::workspace::{PromptOptions, Workspace};
use garth_agent::{Access, Caller, Class, Request, Skill, chat};
use garth_engine::engine::host::{HostFs, Mode};
use garth_engine::engine::memory::MemoryFs;
use garth_engine::fs::Incoming;
use garth_engine::model::{
    At, Author, Batch, ChangesQuery, Commit, CommitId, Confinement, HistoryPage, Moment, Op, Owner,
    Precondition, SearchQuery, SetAttrs, Timestamp, Within,
};
use garth_engine::{AccountStore, Env, ErrorKind, FileSystem, FileSystemExt, TreePath};
use tempfile::TempDir;

use super::homes::{self, Kept};

fn p(path: &str) -> TreePath {
    TreePath::parse(path).unwrap()
}

struct Account {
    store: Arc<dyn AccountStore>,
    folder: TempDir,
    _kept: Kept,
}

impl Account {
    async fn new() -> Self {
        Self::of(homes::account().await)
    }

    fn of((store, kept): (Arc<dyn AccountStore>, Kept)) -> Self {
        Self { store, folder: tempfile::tempdir().unwrap(), _kept: kept }
    }

    async fn put(&self, path: &str, text: &str) {
        let message = format!(
            r#"{{"id":"msg-1","role":"user","created_at":"2026-01-27T09:30:00Z","content":"{text}"}}"#
        );
        let text = if path.ends_with("/messages.jsonl") { message } else { text.to_owned() };
        let write = Op::write(p(path), text).with_parents();
        self.store.commit(write.into()).await.unwrap();
    }

    async fn open(&self, class: &str, session: Option<&str>, skills: Vec<Skill>) -> Arc<dyn FileSystem> {
        // Each audience has a chat of its own.
        let chat = if class == "main" { "one" } else { "other" };
        let request = Request::new("scout").user("ann").chat(chat).class(Class::named(class));
        let request = session.iter().fold(request, |request, session| request.session(*session));
        self.access(&request).await.tree().skills(skills).open().await.unwrap()
    }

    async fn access(&self, request: &Request) -> Access {
        Access::open(&self.store, &Env::system(), Caller::Holder, request).await.unwrap()
    }

    async fn session(&self, request: &Request, name: &str) {
        let access = self.access(request).await;
        access.make().await.unwrap();
        access.sessions().create(&Create::new(name)).await.unwrap();
    }

    async fn main(&self) -> Arc<dyn FileSystem> {
        self.open("main", Some("s1"), Vec::new()).await
    }

    async fn text(&self, path: &str) -> String {
        self.store.read_to_string(path).await.unwrap()
    }

    async fn author(&self) -> Author {
        let changes = self.store.changes(&ChangesQuery::default()).await.unwrap();
        changes.commits.last().unwrap().commit.author.clone()
    }
}

/// Returns the main tree of Ann in the chat `one`.
fn of_ann() -> Request {
    Request::new("scout").user("ann").chat("one").class(Class::Main)
}

async fn walked(fs: &dyn FileSystem) -> Vec<String> {
    fs.walk_all("/").map_ok(|item| item.path.to_string()).try_collect().await.unwrap()
}

async fn refused(fs: &dyn FileSystem, op: Op) -> ErrorKind {
    fs.commit(op.into()).await.unwrap_err().kind()
}

#[tokio::test]
async fn open_creates_the_tree_of_a_chat() {
    let account = Account::new().await;
    let tree = account.main().await;
    assert_eq!(
        walked(&*tree).await,
        [
            "/.agent",
            "/.user",
            "/ctx",
            "/.user/session",
            "/ctx/home",
            "/ctx/skills",
            "/ctx/users",
            "/ctx/home/ann",
            "/ctx/home/ann/agent",
            "/ctx/home/ann/agent/scout",
            "/ctx/users/ann",
            "/ctx/users/ann/memories"
        ]
    );
    let head = account.store.head().await.unwrap().seq;
    account.main().await;
    assert_eq!(account.store.head().await.unwrap().seq, head, "what is there is not made again");
    for (path, at) in [
        ("/notes.md", "/chats/one/notes.md"),
        ("/.agent/f", "/agents/scout/f"),
        ("/.user/f", "/users/ann/agents/scout/f"),
        ("/ctx/users/ann/memories/f", "/users/ann/memories/f"),
        ("/ctx/home/ann/agent/scout/session/f", "/users/ann/agents/scout/session/f"),
        ("/ctx/f", "/chats/one/ctx/f"),
    ] {
        tree.write(path, path).await.unwrap();
        assert_eq!(account.text(at).await, path);
    }
    // A rename from the chat to the user is one commit, and keeps the file's history.
    tree.rename("/notes.md", "/.user/notes.md").await.unwrap();
    let moved = At::Path(p("/users/ann/agents/scout/notes.md"));
    let past = account.store.history(&moved, &HistoryPage::default()).await.unwrap();
    assert_eq!(past.items.len(), 2);
    for point in ["/.agent", "/.user", "/ctx", "/ctx/users/ann/memories"] {
        assert_eq!(refused(&*tree, Op::remove_tree(p(point))).await, ErrorKind::Busy);
        assert_eq!(refused(&*tree, Op::rename(p(point), p("/x"))).await, ErrorKind::Busy);
    }
}

#[tokio::test]
async fn tree_without_directories_is_read_only() {
    let account = Account::new().await;
    let access = account.access(&of_ann()).await;
    let before = account.store.head().await.unwrap().seq;
    let tree = access.tree().create(false).open().await.unwrap();
    assert!(tree.read_dir("/.user").try_collect::<Vec<_>>().await.unwrap().is_empty());
    assert_eq!(refused(&*tree, Op::write(p("/f"), "x")).await, ErrorKind::NotFound);
    assert_eq!(refused(&*tree, Op::remove_tree(p("/"))).await, ErrorKind::NotFound);
    assert_eq!(account.store.head().await.unwrap().seq, before);
}

#[tokio::test]
async fn tree_sets_the_author_of_every_commit() {
    let account = Account::new().await;
    let tree = account.open("group", Some("s1"), Vec::new()).await;
    let said = Author::agent("other").with_user("bob").with_session("s2").with_class("main").with_key("k");
    tree.commit(Batch::new([Op::write(p("/f"), "x")]).author(said)).await.unwrap();
    let is = Author::agent("scout").with_user("ann").with_session("s1").with_class("group").with_key("k");
    let is = is.with_audience(":chat:other");
    assert_eq!(account.author().await, is);
}

#[tokio::test]
async fn only_main_sessions_see_agent_memory() {
    let account = Account::new().await;
    let hidden = [
        ("/agents/scout/MEMORY.md", "/.agent/MEMORY.md"),
        ("/agents/scout/USER.md", "/.agent/USER.md"),
        ("/agents/scout/plans.md", "/.agent/plans.md"),
        ("/agents/scout/memory/2026-01-01.md", "/.agent/memory/2026-01-01.md"),
        ("/agents/scout/sessions/old.jsonl.gz", "/.agent/sessions/old.jsonl.gz"),
        ("/users/ann/agents/scout/session/s2/messages.jsonl", "/.user/session/s2/messages.jsonl"),
    ];
    account.session(&of_ann(), "s2").await;
    for (at, _) in hidden {
        account.put(at, "a canary").await;
    }
    let dm = Request::new("scout").user("ann").chat("other").class(Class::Dm).session("s1");
    account.session(&dm, "s1").await;
    account.put("/users/ann/agents/scout/session/s1/messages.jsonl", "mine, a canary").await;
    account.put("/agents/scout/SOUL.md", "kind").await;
    account.put("/agents/scout/skills/cook/SKILL.md", "salt").await;
    let tree = account.open("dm", Some("s1"), Vec::new()).await;
    let all = walked(&*tree).await;
    for (at, path) in hidden {
        assert!(!all.iter().any(|found| found == path), "{path}");
        assert!(tree.stat(&At::Path(p(path))).await.unwrap_err().is(ErrorKind::NotFound), "{path}");
        assert!(tree.history(&At::Path(p(path)), &HistoryPage::default()).await.is_err(), "{path}");
        assert_eq!(refused(&*tree, Op::write(p(path), "x")).await, ErrorKind::AccessDenied, "{path}");
        let above = Op::write(p(path), "x").with_parents();
        assert_eq!(refused(&*tree, above).await, ErrorKind::AccessDenied, "{path}");
        let ino = account.store.entry(at).await.unwrap().ino;
        assert!(tree.stat(&At::Node(ino)).await.unwrap_err().is(ErrorKind::NotFound), "{path}");
    }
    let hits = tree.search(&SearchQuery::new("canary")).await.unwrap().hits;
    let found: Vec<_> = hits.iter().map(|hit| hit.path.as_str()).collect();
    assert!(!found.is_empty() && found.iter().all(|path| path.contains("/s1/")), "{found:?}");
    let changes = tree.changes(&ChangesQuery::default()).await.unwrap().commits;
    for path in changes.iter().flat_map(|commit| &commit.changes).flat_map(|change| &change.paths) {
        assert!(!hidden.iter().any(|(_, hidden)| path.as_str() == *hidden), "{path}");
    }
    let own = "/ctx/home/ann/agent/scout/session/s1/messages.jsonl";
    assert!(tree.read_to_string(own).await.unwrap().contains("mine, a canary"));
    assert_eq!(tree.read_to_string("/.agent/SOUL.md").await.unwrap(), "kind");
    assert!(!tree.exists("/ctx/home/ann/agent/scout/session/s2").await.unwrap());
    let past = tree.as_of(&Moment::Seq(account.store.head().await.unwrap().seq)).await.unwrap();
    assert!(!past.exists("/.agent/MEMORY.md").await.unwrap());
    // A session of the class `main` sees all of it.
    let main = account.main().await;
    for (_, path) in hidden {
        assert!(main.exists(path).await.unwrap(), "{path}");
    }
    // Files open to all can be read, but not changed.
    for op in [
        Op::append(p("/.agent/SOUL.md"), "!"),
        Op::set_attrs(p("/.agent/SOUL.md"), SetAttrs::new().mode(0o600)),
        Op::write(p("/.agent/skills/x"), "x"),
        Op::write(p("/.agent/new"), "x"),
        Op::rename(p("/.agent/SOUL.md"), p("/soul.md")),
        Op::remove(p("/.agent/SOUL.md")),
    ] {
        let error = tree.commit(op.clone().into()).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::AccessDenied | ErrorKind::Busy), "{op:?}: {error}");
    }
    let linked = tree.commit(Op::link(p("/.agent/SOUL.md"), p("/soul.md")).into()).await;
    assert!(
        linked.is_err() || refused(&*tree, Op::append(p("/soul.md"), "!")).await == ErrorKind::AccessDenied
    );
    assert_eq!(account.text("/agents/scout/SOUL.md").await, "kind");
}

#[tokio::test]
async fn tree_hides_the_rest_of_the_account() {
    let account = Account::new().await;
    let canaries = [
        "/chats/one-more/f",
        "/chats/o%/f",
        "/agents/scout2/f",
        "/users/ann/agents/scou/f",
        "/users/ann2/memories/f",
        "/users/bob/agents/scout/f",
        "/f",
    ];
    for path in canaries {
        account.put(path, "canary").await;
    }
    account.put("/skills/other/SKILL.md", "of all agents").await;
    let tree = account.main().await;
    // Skills of the account are readable by all of its agents, in one place.
    assert_eq!(tree.read_to_string("/ctx/skills/other/SKILL.md").await.unwrap(), "of all agents");
    assert!(!tree.exists("/skills/other").await.unwrap());
    let skill = account.store.entry("/skills/other/SKILL.md").await.unwrap().ino;
    for at in [At::Node(skill), At::Path(p("/ctx/skills/other/SKILL.md"))] {
        assert_eq!(refused(&*tree, Op::append(at, "!")).await, ErrorKind::AccessDenied);
    }
    let link = Op::symlink(p("/out"), "/../../chats/one-more/f");
    tree.commit(link.into()).await.unwrap();
    for path in ["/../one-more/f", "/out", "/.user/../../../bob/agents/scout/f", "/.garth", "/../.garth"] {
        let resolved =
            garth_engine::fs::resolve::stat(&*tree, path, garth_engine::fs::resolve::Follow::Yes).await;
        assert!(resolved.is_err(), "{path}: {resolved:?}");
    }
    for path in canaries {
        let ino = account.store.entry(path).await.unwrap().ino;
        assert!(tree.stat(&At::Node(ino)).await.is_err(), "{path}");
        assert!(tree.commit(Op::append(At::Node(ino), "!").into()).await.is_err(), "{path}");
    }
    let all = walked(&*tree).await;
    assert!(!all.iter().any(|path| path.contains("one-more") || path.contains("bob")), "{all:?}");
    assert!(tree.search(&SearchQuery::new("canary")).await.unwrap().hits.is_empty());
}

#[tokio::test]
async fn agent_skill_layers_over_account_skill() {
    let account = Account::new().await;
    account.put("/skills/cook/SKILL.md", "of the account").await;
    account.put("/skills/cook/steps.md", "one").await;
    account.put("/agents/scout/skills/cook/steps.md", "the agent's").await;
    account.put("/agents/scout/skills/own/SKILL.md", "own").await;
    let skills = || vec![Skill::overriding("cook").unwrap(), Skill::overriding("own").unwrap()];
    let tree = account.open("main", None, skills()).await;
    let text = async |path: &str| tree.read_to_string(path).await.unwrap();
    assert_eq!(text("/skills/cook/SKILL.md").await, "of the account");
    assert_eq!(text("/skills/cook/steps.md").await, "the agent's");
    // Changes are stored in the agent's copy.
    let changes = [
        Op::append(p("/skills/cook/SKILL.md"), ", changed"),
        Op::write(p("/skills/cook/new/tip.md"), "salt").with_parents(),
        Op::append(p("/skills/own/SKILL.md"), "!"),
        Op::write(p("/log.md"), "changed the skill"),
    ];
    let before = account.store.head().await.unwrap().seq.0;
    tree.commit(Batch::new(changes)).await.unwrap();
    assert_eq!(account.store.head().await.unwrap().seq.0, before + 1, "one commit");
    assert_eq!(account.text("/skills/cook/SKILL.md").await, "of the account");
    assert_eq!(account.text("/agents/scout/skills/cook/SKILL.md").await, "of the account, changed");
    assert_eq!(account.text("/agents/scout/skills/cook/new/tip.md").await, "salt");
    assert_eq!(account.text("/agents/scout/skills/own/SKILL.md").await, "own!");
    // Removed files stay hidden, also when the tree is opened again.
    tree.remove("/skills/cook/steps.md").await.unwrap();
    tree.remove("/skills/cook/SKILL.md").await.unwrap();
    let again = account.open("main", None, skills()).await;
    assert!(!again.exists("/skills/cook/SKILL.md").await.unwrap());
    assert!(account.store.exists("/skills/cook/SKILL.md").await.unwrap());
    // The overlay state is hidden.
    assert!(account.store.raw().exists("/.garth/skills/scout/cook").await.unwrap());
    assert!(!account.store.exists("/.garth").await.unwrap());
    for point in ["/skills", "/skills/cook"] {
        assert_eq!(refused(&*tree, Op::remove_tree(p(point))).await, ErrorKind::Busy);
    }
    tree.write("/skills/mine.md", "below").await.unwrap();
    assert_eq!(account.text("/chats/one/skills/mine.md").await, "below");
    let access = account.access(&of_ann()).await;
    let none = access.tree().skills([Skill::overriding("none").unwrap()]).open().await;
    assert!(none.unwrap_err().is(ErrorKind::NotFound));
}

#[tokio::test]
async fn ephemeral_skill_changes_are_discarded() {
    let account = Account::new().await;
    account.put("/skills/cook/SKILL.md", "of the account").await;
    account.put("/agents/scout/skills/cook/steps.md", "the agent's").await;
    let host = account.folder.path().join("host");
    std::fs::create_dir(&host).unwrap();
    std::fs::write(host.join("SKILL.md"), "of the host").unwrap();
    let of_host: Arc<dyn FileSystem> = HostFs::open(&host, Mode::ReadOnly, Env::system()).unwrap();
    let skills = || {
        let scratch: Arc<dyn FileSystem> = Arc::new(MemoryFs::new(Env::system(), garth_agent::registry()));
        let cook = Skill::ephemeral("cook", Arc::clone(&scratch)).unwrap();
        vec![cook, Skill::ephemeral("weave", scratch).unwrap().from(Arc::clone(&of_host))]
    };
    let tree = account.open("main", None, skills()).await;
    for (path, was) in [
        ("/skills/cook/SKILL.md", "of the account"),
        ("/skills/cook/steps.md", "the agent's"),
        ("/skills/weave/SKILL.md", "of the host"),
    ] {
        assert_eq!(tree.read_to_string(path).await.unwrap(), was);
        tree.append(path, ", changed").await.unwrap();
        assert_eq!(tree.read_to_string(path).await.unwrap(), format!("{was}, changed"));
        assert_eq!(account.open("main", None, skills()).await.read_to_string(path).await.unwrap(), was);
    }
    tree.write("/skills/weave/new", "x").await.unwrap();
    assert_eq!(std::fs::read_dir(&host).unwrap().count(), 1);
    // The sandbox is a store of its own.
    let across = Op::rename(p("/skills/weave/new"), p("/new"));
    assert_eq!(refused(&*tree, across).await, ErrorKind::CrossesMounts);
    // Changes of a skill from the host can be stored as well.
    let kept = vec![Skill::overriding("weave").unwrap().from(Arc::clone(&of_host))];
    let tree = account.open("main", None, kept).await;
    tree.append("/skills/weave/SKILL.md", ", kept").await.unwrap();
    assert_eq!(account.text("/agents/scout/skills/weave/SKILL.md").await, "of the host, kept");
}

#[tokio::test]
async fn batch_across_the_tree_is_idempotent() {
    let account = Account::new().await;
    account.put("/skills/cook/SKILL.md", "one").await;
    let skills = || vec![Skill::overriding("cook").unwrap()];
    let ops = [
        Op::append(p("/skills/cook/SKILL.md"), " two"),
        Op::write(p("/.user/f"), "x"),
        Op::write(p("/.agent/f"), "x"),
    ];
    let batch = Batch::new(ops).id(CommitId(9));
    let done = async |tree: &dyn FileSystem| -> Commit { tree.commit(batch.clone()).await.unwrap() };
    let first = done(&*account.open("main", None, skills()).await).await;
    let again = done(&*account.open("main", None, skills()).await).await;
    assert_eq!((again.seq, again.replayed, again.outcomes), (first.seq, true, first.outcomes));
    assert_eq!(account.text("/agents/scout/skills/cook/SKILL.md").await, "one two");
}

#[tokio::test]
async fn deleting_a_chat_deletes_its_files() {
    let account = Account::new().await;
    let tree = account.main().await;
    tree.write("/f", "x").await.unwrap();
    tree.mkdir_all("/d/e").await.unwrap();
    let before = account.store.head().await.unwrap().seq;
    let commit = chat::delete(&*account.store, "one", Author::agent("scout")).await.unwrap();
    assert_eq!(commit.seq.0, before.0 + 1);
    assert!(!account.store.exists("/chats/one").await.unwrap());
    assert!(account.store.as_of(&Moment::Seq(before)).await.unwrap().exists("/chats/one/f").await.unwrap());
    assert!(tree.exists("/.user").await.unwrap() && !tree.exists("/f").await.unwrap());
    for (chat, kind) in [("one", ErrorKind::NotFound), ("..", ErrorKind::InvalidArgument)] {
        let error = chat::delete(&*account.store, chat, Author::default()).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{chat}");
    }
}

#[tokio::test]
async fn missing_user_memory_has_a_template() {
    let account = Account::new().await;
    let tree = account.main().await;
    assert!(tree.stat(&At::Path(p(USER_MEMORY))).await.unwrap_err().is(ErrorKind::NotFound));
    let template = user_memory(&*tree).await.unwrap();
    assert!(template.synthetic && !template.content.is_empty());
    assert!(!tree.exists(USER_MEMORY).await.unwrap());
    account.put("/users/ann/agents/scout/memory/MEMORY.md", "coffee").await;
    let found = user_memory(&*tree).await.unwrap();
    assert_eq!((found.content.as_str(), found.synthetic), ("coffee", false));
}

#[tokio::test]
async fn uploads_are_bounded_and_get_free_names() {
    let account = Account::new().await;
    let access = account.access(&of_ann()).await;
    let tree = access.tree().largest_upload(1 << 20).open().await.unwrap();
    let most = vec![0; 1 << 20];
    tree.write("/most", most.clone()).await.unwrap();
    assert_eq!(refused(&*tree, Op::append(p("/most"), vec![0; (1 << 20) + 1])).await, ErrorKind::TooLarge);
    let mut upload = tree.stage(&At::Path(p("/.user/f"))).await.unwrap();
    upload.write(most.into()).await.unwrap();
    assert!(upload.write("x".into()).await.unwrap_err().is(ErrorKind::TooLarge));
    // A service asks before it receives content: the limit is one on the content, not on the file.
    let added = Incoming { length: 1, size: (1 << 20) + 1, growth: 1, room: u64::MAX, ..Incoming::default() };
    tree.admit(&At::Path(p("/most")), &added).await.unwrap();
    let longer = Incoming { length: (1 << 20) + 1, ..added };
    assert!(tree.admit(&At::Path(p("/most")), &longer).await.unwrap_err().is(ErrorKind::TooLarge));
    let to = Confinement::new(Within::everything(), Owner::new("view").unwrap());
    let view = tree.confined(&to).await.unwrap();
    assert_eq!(refused(&*view, Op::write(p("/f"), vec![0; (1 << 20) + 1])).await, ErrorKind::TooLarge);

    let name = async |path: &str| {
        let write = |path: &TreePath| Batch::new([Op::write(path, "x").create_new()]);
        write_free(&*tree, &p(path), write).await.unwrap().0.to_string()
    };
    let long = format!("/{}.md", "é".repeat(126));
    for (path, got) in [
        ("/notes.md", ["/notes.md", "/notes (2).md", "/notes (3).md"]),
        ("/.env", ["/.env", "/.env (2)", "/.env (3)"]),
        ("/plain", ["/plain", "/plain (2)", "/plain (3)"]),
        ("/a.tar.gz", ["/a.tar.gz", "/a.tar (2).gz", "/a.tar (3).gz"]),
    ] {
        for got in got {
            assert_eq!(name(path).await, got);
        }
    }
    assert_eq!(name(&long).await, long);
    assert_eq!(name(&long).await, format!("/{} (2).md", "é".repeat(124)));
    for number in 4..40 {
        assert_eq!(name("/notes.md").await, format!("/notes ({number}).md"));
    }
}

#[tokio::test]
async fn account_keeps_its_own_system_name() {
    let folder = tempfile::tempdir().unwrap();
    let open = async || garth::builder().open(&folder.path().join("data")).unwrap();
    let data = open().await;
    data.create_account("default").await.unwrap();
    let account = data.account("default").await.unwrap();
    assert_eq!(refused(&*account, Op::mkdir(p("/.garth"))).await, ErrorKind::AccessDenied);
    // As an older version allowed.
    account.raw().write("/.garth", "mine").await.unwrap();
    drop((account, data));
    let account = open().await.account("default").await.unwrap();
    assert_eq!(account.read_to_string("/.garth").await.unwrap(), "mine");
    account.commit(Op::write(p("/skills/cook/SKILL.md"), "x").with_parents().into()).await.unwrap();
    let access = Access::open(&account, &Env::system(), Caller::Holder, &of_ann()).await.unwrap();
    let tree = access.tree().skills([Skill::overriding("cook").unwrap()]).open().await;
    let error = tree.unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::AlreadyExists, Some(&p("/.garth"))));
    access.tree().open().await.unwrap();
    drop(access);
    account.rename("/.garth", "/mine").await.unwrap();
    drop(account);
    let account = open().await.account("default").await.unwrap();
    assert_eq!(refused(&*account, Op::mkdir(p("/.garth"))).await, ErrorKind::AccessDenied);
    assert_eq!(account.read_to_string("/mine").await.unwrap(), "mine");
}

#[tokio::test]
async fn search_finds_visible_skill_files_once() {
    let account = Account::new().await;
    for n in 0..60 {
        account.put(&format!("/skills/s{n}/a.md"), &format!("quokka {n}")).await;
        account.put(&format!("/skills/s{n}/b.md"), &format!("numbat {n}")).await;
    }
    let skills = (0..50).map(|n| Skill::overriding(&format!("s{n}")).unwrap()).collect();
    let tree = account.open("main", None, skills).await;
    tree.write("/quokka.md", "quokka of the chat").await.unwrap();
    tree.write("/skills/s1/a.md", "changed: no longer that animal").await.unwrap();
    tree.append("/skills/s2/a.md", " and more of the quokka").await.unwrap();
    tree.remove("/skills/s3/a.md").await.unwrap();
    tree.rename("/skills/s4/a.md", "/skills/s4/c.md").await.unwrap();
    let search = async |query: SearchQuery| tree.search(&query).await.unwrap();
    let found = search(SearchQuery::new("quokka").limit(100)).await;
    let mut paths: Vec<String> = found.hits.iter().map(|hit| hit.path.to_string()).collect();
    paths.sort();
    // The account's skills are found where all of them are, enabled or not, because nobody changes them
    // there.
    let mut shown: Vec<String> = (0..60).map(|n| format!("/ctx/skills/s{n}/a.md")).collect();
    shown.extend(["/.agent/skills/s2/a.md", "/.agent/skills/s4/c.md", "/quokka.md"].map(str::to_owned));
    shown.sort();
    assert_eq!(paths, shown);
    assert!(!found.more);
    for hit in &found.hits {
        assert_eq!(tree.stat(&At::Path(hit.path.clone())).await.unwrap().ino, hit.ino, "{}", hit.path);
    }
    let of_skill = search(SearchQuery::new("quokka").within(p("/skills/s2"))).await;
    assert_eq!(of_skill.hits.iter().map(|hit| hit.path.to_string()).collect::<Vec<_>>(), ["/skills/s2/a.md"]);
    assert!(search(SearchQuery::new("quokka").within(p("/skills/s1"))).await.hits.is_empty());
    let few = search(SearchQuery::new("quokka").limit(5)).await;
    assert_eq!((few.hits.len(), few.more), (5, true));
    let error = tree.search(&SearchQuery::new("quokka").limit(0)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn moved_skill_files_are_not_found_by_inode() {
    let account = Account::new().await;
    account.put("/skills/a/guide.md", "guide").await;
    let skill = || vec![Skill::overriding("a").unwrap()];
    let ann = account.open("main", None, skill()).await;
    let number = ann.entry("/skills/a/guide.md").await.unwrap().ino;
    ann.append("/skills/a/guide.md", "!").await.unwrap();
    ann.rename("/skills/a/guide.md", "/diary.md").await.unwrap();
    ann.write("/diary.md", "canary").await.unwrap();
    assert_eq!(ann.entry("/diary.md").await.unwrap().nlink, 1);
    // Changes of the account's file by others.
    account.store.rename("/skills/a/guide.md", "/skills/a/manual.md").await.unwrap();
    let two = Request::new("scout").user("bob").chat("two").class(Class::Main);
    let access = account.access(&two).await;
    let bob = access.tree().skills(skill()).open().await.unwrap();
    for at in [At::Path(p("/skills/a/manual.md")), At::Node(number)] {
        assert_eq!(bob.read_file(at.clone()).await.unwrap(), "guide", "{at:?}");
        let opened = bob.open(&at).await.unwrap();
        assert_eq!(opened.read_at(0, 100).await.unwrap(), "guide", "{at:?}");
    }
    bob.append("/skills/a/manual.md", " of bob").await.unwrap();
    assert_eq!(ann.read_to_string("/diary.md").await.unwrap(), "canary");
    assert_eq!(bob.read_to_string("/skills/a/manual.md").await.unwrap(), "guide of bob");
    // The chat can be deleted.
    chat::delete(&*account.store, "one", Author::default()).await.unwrap();
    let raw = account.store.raw();
    for item in raw.walk_all("/").map_ok(|item| item.path.to_string()).try_collect::<Vec<_>>().await.unwrap()
    {
        let text = raw.read_to_string(item.as_str()).await.unwrap_or_default();
        assert!(!text.contains("canary"), "{item}");
    }
}

#[tokio::test]
async fn file_moved_between_skills_changes_owner() {
    let account = Account::new().await;
    account.put("/skills/a/f.md", "a").await;
    account.put("/skills/b/g.md", "b").await;
    let skills = ["a", "b"].map(|id| Skill::overriding(id).unwrap()).to_vec();
    let tree = account.open("main", None, skills).await;
    tree.append("/skills/a/f.md", "1").await.unwrap();
    let version = tree.rename("/skills/a/f.md", "/skills/b/f.md").await.unwrap();
    let entry = tree.entry("/skills/b/f.md").await.unwrap();
    let again = tree.stat(&At::Node(entry.ino)).await.unwrap();
    assert_eq!((again.version, version, again.size), (entry.version, entry.version, 2));
    let batch = Batch::from(Op::append(p("/skills/b/f.md"), "2"));
    let batch = batch.require(p("/skills/b/f.md"), Precondition::Version(entry.version));
    tree.commit(batch).await.unwrap();
    assert_eq!(tree.read_to_string("/skills/b/f.md").await.unwrap(), "a12");
}

#[tokio::test]
async fn removing_the_copy_restores_account_skill() {
    let account = Account::new().await;
    account.put("/skills/a/SKILL.md", "of the account").await;
    account.put("/skills/a/ref.md", "reference").await;
    let tree = account.open("main", None, vec![Skill::overriding("a").unwrap()]).await;
    tree.write("/skills/a/SKILL.md", "of the agent").await.unwrap();
    tree.remove("/skills/a/ref.md").await.unwrap();
    tree.commit(Op::remove_tree(p("/.agent/skills/a")).into()).await.unwrap();
    assert_eq!(tree.read_to_string("/skills/a/SKILL.md").await.unwrap(), "of the account");
    assert!(!tree.exists("/skills/a/ref.md").await.unwrap(), "what was taken away stays away");
    tree.append("/skills/a/SKILL.md", ", changed again").await.unwrap();
    assert_eq!(account.text("/agents/scout/skills/a/SKILL.md").await, "of the account, changed again");
}

#[tokio::test]
async fn expired_skill_copy_hides_the_original() {
    let (env, clock) = Env::manual(Timestamp(1_000_000_000));
    let account = Account::of(homes::account_on(env, &clock).await);
    for name in ["set", "made", "written"] {
        account.put(&format!("/skills/a/{name}"), "of the account").await;
    }
    let tree = account.open("main", None, vec![Skill::overriding("a").unwrap()]).await;
    let soon = SetAttrs::new().expires_at(Timestamp(2_000_000_000));
    tree.append("/skills/a/set", ", changed").await.unwrap();
    tree.commit(Op::set_attrs(p("/skills/a/set"), soon.clone()).into()).await.unwrap();
    tree.commit(Op::set_attrs(p("/skills/a/made"), soon.clone()).into()).await.unwrap();
    tree.commit(Op::write(p("/skills/a/written"), "new").with_attrs(soon).into()).await.unwrap();
    assert_eq!(names(&*tree, "/skills/a").await, ["made", "set", "written"]);
    clock.set(Timestamp(2_000_000_000));
    assert_eq!(names(&*tree, "/skills/a").await, Vec::<String>::new());
}

async fn names(fs: &dyn FileSystem, dir: &str) -> Vec<String> {
    fs.read_dir(dir).map_ok(|item| item.name.to_string()).try_collect().await.unwrap()
}

#[tokio::test]
async fn reused_host_inode_is_a_new_file() {
    let account = Account::new().await;
    let folder = account.folder.path().join("skill");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("SKILL.md"), "of the host").unwrap();
    let host = || -> Arc<dyn FileSystem> { HostFs::open(&folder, Mode::ReadOnly, Env::system()).unwrap() };
    let skill = || vec![Skill::overriding("h").unwrap().from(host())];
    let tree = account.open("main", None, skill()).await;
    tree.write("/skills/h/SKILL.md", "of the agent").await.unwrap();
    // A hard link has the inode of the copied file, as a later file may have.
    std::fs::hard_link(folder.join("SKILL.md"), folder.join("kept")).unwrap();
    std::fs::remove_file(folder.join("SKILL.md")).unwrap();
    std::fs::rename(folder.join("kept"), folder.join("new.md")).unwrap();
    std::fs::write(folder.join("new.md"), "new file").unwrap();
    let tree = account.open("main", None, skill()).await;
    assert_eq!(tree.read_to_string("/skills/h/new.md").await.unwrap(), "new file");
    let open = tree.open(&At::Path(p("/skills/h/new.md"))).await.unwrap();
    assert_eq!(open.read_at(0, 100).await.unwrap(), "new file");
    tree.append("/skills/h/new.md", ", changed").await.unwrap();
    assert_eq!(open.read_at(0, 100).await.unwrap(), "new file, changed");
    assert_eq!(tree.read_to_string("/skills/h/new.md").await.unwrap(), "new file, changed");
    assert_eq!(tree.read_to_string("/skills/h/SKILL.md").await.unwrap(), "of the agent");
}

#[tokio::test]
async fn tree_files_cannot_change_the_session_class() {
    let account = Account::new().await;
    let request = Request::new("scout").user("ann").chat("other").class(Class::Group).session("s1");
    account.session(&request, "s1").await;
    account.put("/agents/scout/MEMORY.md", "a secret of main").await;
    let tree = account.open("group", Some("s1"), Vec::new()).await;
    let own = "/ctx/home/:chat:other/agent/scout/session/s1";
    tree.write(&format!("{own}/todo.md"), "mine").await.unwrap();
    let meta = "/users/:chat:other/agents/scout/session/s1/meta.json";
    let forged = account.text(meta).await.replace("\"group\"", "\"main\"");
    assert!(forged.contains("\"main\""));
    for dir in [own, "/.user/session/s1"] {
        assert!(tree.exists(&format!("{dir}/meta.json")).await.unwrap());
        let refused = tree.write(&format!("{dir}/meta.json"), forged.clone()).await.unwrap_err();
        assert!(refused.is(ErrorKind::RuleViolation), "{refused}");
        tree.write("/forged.json", forged.clone()).await.unwrap();
        assert!(tree.rename("/forged.json", &format!("{dir}/meta.json")).await.is_err());
        assert!(tree.rename(dir, "/away").await.is_err() && tree.remove_tree(dir).await.is_err());
    }
    let workspace = Workspace::new(&*account.store, "scout").unwrap();
    let prompt = workspace.prompt(&PromptOptions::default().session(":chat:other", "s1")).await.unwrap();
    assert!(prompt.class == "group" && !prompt.text.contains("a secret of main"));
    // The session itself continues.
    let access = account.access(&request).await;
    access.sessions().append("s1", &Append::messages([Draft::user("hello")])).await.unwrap();
    assert_eq!(access.sessions().get("s1").await.unwrap().meta.class, Class::Group);
}
