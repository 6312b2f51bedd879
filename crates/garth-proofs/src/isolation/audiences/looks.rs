//! Looks of sessions at what there is, by each way.

use std::fmt::Debug;

use garth::agent::media::Hydrator;
use garth::agent::node::{Level, List as NodeList, Nodes, Prefix, Uri};
use garth::agent::recall::{Key, Recall};
use garth::agent::session::{
    Append, Draft, Export, Format, List, PackOptions, Role, Select, Sessions, Source, TranscriptFormat,
};
use garth::agent::workspace::{PromptOptions, Workspace};
use garth::agent::{Access, Caller, Class, Request};
use garth_engine::model::{
    At, ByteRange, ChangesQuery, HistoryPage, Ino, Moment, SearchQuery, Seq, WalkPage,
};
use garth_engine::{FileSystem, Result};
use garth_testkit::proof::{Proven, path};
use serde_json::json;

use super::{AGENT, Asks, HELPER, Way, World};

fn told<T: Debug>(answer: Result<T>) -> String {
    match answer {
        Ok(answer) => format!("{answer:?}"),
        Err(error) => format!("{error} {error:?}"),
    }
}

/// Interfaces of a look: those of an access, or, as a leak, those of whoever holds the folder.
struct Interfaces<'a> {
    sessions: Sessions<'a>,
    workspace: Workspace<'a>,
    nodes: Nodes<'a>,
}

impl World {
    /// A look of a request at something; what it saw.
    pub(super) async fn look(&mut self, asks: &Asks, way: Way) -> Proven<String> {
        let account = std::sync::Arc::clone(&self.account);
        let other = match self.sessions.is_empty() {
            true => std::array::from_fn(|_| String::new()),
            false => self.random.pick(&self.sessions),
        };
        let leaks = self.leak == Some(way) && !other[0].is_empty();
        let request = match leaks {
            true if other[0].starts_with(':') => Request::new(AGENT),
            true if other[0] == "default" => Request::new(AGENT).class(Class::Main),
            true => Request::new(AGENT).user(&*other[0]).class(Class::Main),
            false => asks.request.clone(),
        };
        let caller = if leaks { Caller::Holder } else { Caller::ApiKey };
        let access = match Access::open(&account, &self.env, caller, &request).await {
            Ok(access) => access,
            Err(error) => return Ok(told::<()>(Err(error))),
        };
        let of = if leaks { other[0].clone() } else { asks.audience.clone() };
        let interfaces = if leaks {
            Interfaces {
                sessions: Sessions::new(&*account, &of, AGENT, self.env.clone())?,
                workspace: Workspace::new(&*account, AGENT, self.env.clone())?,
                nodes: Nodes::new(&*account, "own", self.env.clone()),
            }
        } else {
            Interfaces {
                sessions: access.sessions(),
                workspace: access.workspace(),
                nodes: access.nodes("own"),
            }
        };
        let Interfaces { sessions, workspace, nodes } = &interfaces;
        let name = match self.random.below(4) {
            0 if !other[2].is_empty() => other[2].clone(),
            n => format!("s{}", n % 3),
        };
        Ok(match way {
            Way::Tree => match access.tree().open().await {
                Ok(tree) => self.tree(&*tree).await?,
                Err(error) => told::<()>(Err(error)),
            },
            Way::Prompt => {
                let of_session = PromptOptions::default().session(&*of, &*name).dry();
                let options = if self.random.one_in(2) { of_session } else { PromptOptions::default() };
                match workspace.prompt(&options).await {
                    Ok(prompt) => format!("{}\n{}\n{}", prompt.text, prompt.report(), prompt.manifest()),
                    Err(error) => told::<()>(Err(error)),
                }
            }
            Way::Session => {
                let lines = told(sessions.lines(&name, &Select::messages(1..=u64::MAX)).await);
                let listed = told(sessions.list(&List::default()).await);
                let current = match asks.request.key.as_ref() {
                    Some(key) => told(sessions.current(key).await),
                    None => String::new(),
                };
                format!("{lines}\n{listed}\n{current}\n{}", told(sessions.get(&name).await))
            }
            Way::Pack => self.pack(sessions, &name).await?,
            Way::Media => {
                let media = if leaks {
                    garth::agent::media::Media::new(&*account, self.env.clone())
                } else {
                    access.media()
                };
                let mut text = told(media.list(&other[3], None, 100).await);
                if !self.media.is_empty() {
                    let key = self.random.pick(&self.media);
                    text += &match media.open(&key).await {
                        Ok((_, file)) => told(file.read_at(0, 1000).await),
                        Err(error) => told::<()>(Err(error)),
                    };
                }
                text
            }
            Way::Archive => {
                let archives = told(workspace.archives(None, 100).await);
                let export = Export::new(TranscriptFormat::Garth);
                format!("{archives}\n{}", told(workspace.transcript(&of, &other[3], &export).await))
            }
            Way::Child if leaks => {
                let lines = told(sessions.lines(&name, &Select::messages(1..=9)).await);
                format!("{lines}\n{}", self.children(&access, request, &of, &name).await)
            }
            Way::Child => self.children(&access, request, &of, &name).await,
            Way::Node => self.node(&access, nodes, &other[0]).await,
            Way::Source => self.source(sessions, &name, &other).await?,
            Way::Export => {
                let export = Export::new(self.random.pick(&[TranscriptFormat::Garth, TranscriptFormat::Pi]));
                let name = if self.random.one_in(2) { name } else { other[3].clone() };
                let live = told(sessions.export(&name, &export).await);
                format!("{live}\n{}", told(workspace.transcript(&of, &name, &export).await))
            }
        })
    }

    /// The children of a session: the list, a result by its path, and the sessions of the agent who is asked.
    async fn children(&mut self, access: &Access, request: Request, of: &str, name: &str) -> String {
        let children = told(access.sessions().children(name).await);
        let id = format!("c{}", self.random.below(1000));
        let dir = format!("/ctx/home/{of}/agent/{AGENT}/session/{name}/context/child/{id}/result.md");
        let result = match (access.tree().open().await, path(&dir)) {
            (Ok(tree), Ok(dir)) => told(tree.fetch(&At::from(dir), ByteRange::ALL).await),
            (Err(error), _) => told::<()>(Err(error)),
            (_, Err(error)) => error.to_string(),
        };
        // of the other agent, whom the same audience asks
        let mut of_helper = request;
        (of_helper.agent, of_helper.key) = (HELPER.to_owned(), None);
        let listed = match Access::open(&self.account, &self.env, Caller::ApiKey, &of_helper).await {
            Ok(helper) if helper.identity().audience() == of => {
                told(helper.sessions().list(&List::default()).await)
            }
            _ => String::new(),
        };
        format!("{children}\n{result}\n{listed}")
    }

    /// A context node of an audience, the list of all, and what recall finds.
    async fn node(&mut self, access: &Access, nodes: &Nodes<'_>, audience: &str) -> String {
        let uri = format!("ctx://own/users/{audience}/memories/entities/n{}", self.random.below(3));
        let got = match uri.parse::<Uri>() {
            Ok(uri) => told(nodes.get(&uri, Level::Content).await),
            Err(error) => told::<()>(Err(error)),
        };
        let listed = told(nodes.list(&NodeList::new(Prefix::Account)).await);
        let recalled = match access.tree().open().await {
            Ok(tree) => {
                let asked = Recall::new("a note of what was said, canary").budget(2_000);
                told(access.recaller(&*tree, "own").recall(&asked, &Key::new([7; 32])).await)
            }
            Err(error) => told::<()>(Err(error)),
        };
        format!("{got}\n{listed}\n{recalled}")
    }

    /// All of a tree, or one call in it.
    async fn tree(&mut self, fs: &dyn FileSystem) -> Proven<String> {
        let head = self.account.head().await?.seq.0;
        let (seq, number) = (Seq(self.random.below(head + 2)), Ino(self.random.below(4 * head + 20)));
        Ok(match self.random.below(8) {
            0 => told(fs.search(&SearchQuery::new("canary note").limit(50).context(3)).await),
            1 => told(fs.changes(&ChangesQuery::since(seq)).await),
            2 => told(fs.fetch(&At::Node(number), ByteRange::ALL).await),
            3 => told(fs.history(&At::Node(number), &HistoryPage::default()).await),
            4 => match fs.as_of(&Moment::Seq(seq)).await {
                Ok(past) => everything(&*past).await,
                Err(error) => told::<()>(Err(error)),
            },
            _ => everything(fs).await,
        })
    }

    /// A pack with images, for a provider; perhaps of a session that names one of any session.
    async fn pack(&mut self, sessions: &Sessions<'_>, name: &str) -> Proven<String> {
        if !self.media.is_empty() && self.random.one_in(2) {
            let key = self.random.pick(&self.media).to_string();
            let image = json!([{"type": "image", "mime_type": "image/png", "path": key}]);
            sessions.append(name, &Append::messages([Draft::message(Role::User, &image)])).await.ok();
        }
        let packed = match sessions.pack(name, &PackOptions::default()).await {
            Ok(packed) => packed,
            Err(error) => return Ok(told::<()>(Err(error))),
        };
        Ok(match sessions.hydrated(&packed, &Hydrator::default(), "own").await {
            Ok(with) => {
                [Format::OpenAi, Format::Anthropic].map(|format| decoded(&with.list(format))).concat()
            }
            Err(error) => told::<()>(Err(error)),
        })
    }

    /// What a source that a model names leads to.
    async fn source(&mut self, sessions: &Sessions<'_>, name: &str, other: &[String; 4]) -> Proven<String> {
        let [audience, agent, session, id] = other;
        let of = format!("/users/{audience}/agents/{agent}");
        let sources = [
            format!("{of}/session/{session}/messages.jsonl"),
            format!("{of}/notes.md"),
            format!("{of}/memory/MEMORY.md"),
            format!("/agents/{AGENT}/sessions/{id}.jsonl.gz"),
            format!("/agents/{AGENT}/MEMORY.md"),
            format!("/chats/{audience}/notes.md"),
            format!("/ctx/home/{audience}/agent/{agent}/session/{session}/messages.jsonl"),
            "/.user/notes.md".to_owned(),
            "/notes.md".to_owned(),
            format!("{session}#messages:1"),
        ];
        let source = self.random.pick(&sources);
        let Ok(parsed) = source.parse::<Source>() else { return Ok(String::new()) };
        let resolved = match sessions.resolve(name, &parsed).await {
            Ok(resolved) => resolved,
            Err(error) => return Ok(told::<()>(Err(error))),
        };
        // what it leads to is read as whoever holds the account reads it
        let text = match &resolved {
            garth::agent::session::Resolved::File { path, .. } => {
                told(self.account.fetch(&At::from(path), ByteRange::ALL).await)
            }
            garth::agent::session::Resolved::Lines { session, .. } => {
                told(sessions.lines(session, &Select::messages(1..=u64::MAX)).await)
            }
            _ => String::new(),
        };
        Ok(format!("{source} {resolved:?} {text}"))
    }
}

/// A text, with the canaries of images in it.
fn decoded(text: &str) -> String {
    use base64::Engine as _;
    let mut found = text.to_owned();
    let parts = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || "+/=".contains(letter)));
    for part in parts.filter(|part| part.len() >= 32) {
        if let Ok(bytes) = base64::engine::general_purpose::STANDARD.decode(part) {
            found += &String::from_utf8_lossy(&bytes);
        }
    }
    found
}

/// All files of a tree.
async fn everything(fs: &dyn FileSystem) -> String {
    let root = At::Path(garth_engine::TreePath::root());
    let walk = match fs.walk(&root, &WalkPage::default()).await {
        Ok(walk) => walk,
        // it was not there yet
        refused => return told(refused),
    };
    let mut text = String::new();
    for item in walk.items {
        if let Ok((_, bytes)) = fs.fetch(&At::Path(item.path.clone()), ByteRange::ALL).await {
            text += &format!("{}: {}\n", item.path, String::from_utf8_lossy(&bytes));
        }
    }
    text
}
