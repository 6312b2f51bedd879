//! Looks of sessions at an account, by each way.

use std::sync::Arc;

use garth_agent::media::{Hydrator, Media};
use garth_agent::memory::{Level, List as MemoryList, Memories, Prefix, Uri};
use garth_agent::recall::{Key, Recall};
use garth_agent::session::{
    Append, Draft, Export, Format, List, PackOptions, Resolved, Role, Select, Sessions, Source,
    TranscriptFormat,
};
use garth_agent::workspace::{PromptOptions, Workspace};
use garth_agent::{Access, Caller, Class, Request};
use garth_engine::model::{
    At, ByteRange, ChangesQuery, Confinement, HistoryPage, Ino, Moment, Owner, SearchQuery, Seq, Within,
};
use garth_engine::view::Scope;
use garth_engine::{FileSystem, Result, TreePath};
use garth_testkit::proof::{Proven, path};
use serde_json::json;

use super::super::seen::Seen;
use super::{AGENT, Asks, CHILDREN, HELPER, Way, World};

/// Media files that a look opens.
const OPENED: usize = 8;

/// Interfaces of a look: those of an access or, as a leak, those of the holder of the folder.
struct Interfaces<'a> {
    sessions: Sessions<'a>,
    workspace: Workspace<'a>,
    memories: Memories<'a>,
    media: Media<'a>,
}

/// Target of a look.
struct Aim {
    /// Audience of the look.
    of: String,
    /// Name of the session.
    name: String,
    /// Session of any audience: audience, agent, name and id.
    other: [String; 4],
    is_leak: bool,
}

impl World {
    /// Looks by one way at everything that a request reaches, and returns what was seen.
    pub(super) async fn look(&mut self, asks: &Asks, way: Way) -> Proven<Seen> {
        let account = Arc::clone(&self.account);
        let other = match self.sessions.is_empty() {
            true => std::array::from_fn(|_| String::new()),
            false => self.random.pick(&self.sessions),
        };
        let is_leak = self.leak == Some(way) && !other[0].is_empty();
        let request = match is_leak {
            true if other[0].starts_with(':') => Request::new(AGENT),
            true if other[0] == "default" => Request::new(AGENT).class(Class::Main),
            true => Request::new(AGENT).user(&*other[0]).class(Class::Main),
            false => asks.request.clone(),
        };
        let caller = if is_leak { Caller::Holder } else { Caller::ApiKey };
        let mut seen = Seen::default();
        let access = match Access::open(&account, &self.env, caller, &request).await {
            Ok(access) => access,
            Err(error) => {
                seen.told::<()>(Err(error));
                return Ok(seen);
            }
        };
        let of = if is_leak { other[0].clone() } else { asks.audience.clone() };
        let reached = if is_leak {
            Interfaces {
                sessions: Sessions::new(&*account, &of, AGENT)?.env(self.env.clone()),
                workspace: Workspace::new(&*account, AGENT)?.env(self.env.clone()),
                memories: Memories::new(&*account, "own").env(self.env.clone()),
                media: Media::new(&*account).env(self.env.clone()),
            }
        } else {
            Interfaces {
                sessions: access.sessions(),
                workspace: access.workspace(),
                memories: access.memories("own"),
                media: access.media(),
            }
        };
        // Often the name of a session of another audience, which may exist for this one as well.
        let name = match self.random.below(4) {
            0 if !other[2].is_empty() => other[2].clone(),
            n => format!("s{}", n % 3),
        };
        let aim = Aim { of, name, other, is_leak };
        if self.random.one_in(4) {
            self.interfere(asks).await?;
        }
        match way {
            Way::Tree => self.tree(&mut seen, asks, &access).await?,
            Way::Prompt => self.prompts(&mut seen, &reached.workspace, &aim).await?,
            Way::Session => sessions(&mut seen, &reached.sessions, asks, &aim.name).await,
            Way::Pack => self.pack(&mut seen, &reached.sessions, &aim.name).await,
            Way::Media => self.media(&mut seen, &reached.media, &aim).await,
            Way::Archive => archives(&mut seen, &reached.workspace, &aim).await,
            Way::Child => self.children(&mut seen, &access, &reached.sessions, request, &aim).await?,
            Way::Memory => self.memories(&mut seen, &access, &reached.memories, &aim.other[0]).await,
            Way::Source => self.sources(&mut seen, &reached.sessions, &aim).await,
            Way::Export => exports(&mut seen, &reached, &aim).await,
        }
        Ok(seen)
    }

    /// Looks at a complete tree, and makes calls in it.
    async fn tree(&mut self, seen: &mut Seen, asks: &Asks, access: &Access) -> Proven<()> {
        let opened = if self.by_list { self.listed(asks).await } else { access.tree().open().await };
        let fs = match opened {
            Ok(tree) => tree,
            Err(error) => {
                seen.told::<()>(Err(error));
                return Ok(());
            }
        };
        if self.random.one_in(3) {
            self.interfere(asks).await?;
        }
        let head = self.account.head().await?.seq.0;
        let (seq, number) = (Seq(self.random.below(head + 2)), Ino(self.random.below(4 * head + 20)));
        seen.told(fs.search(&SearchQuery::new("canary note").limit(50).context(3)).await);
        seen.told(fs.changes(&ChangesQuery::since(seq)).await);
        seen.told(fs.fetch(&At::Node(number), ByteRange::ALL).await);
        seen.told(fs.history(&At::Node(number), &HistoryPage::default()).await);
        if self.random.one_in(2) {
            seen.files(&*fs).await;
            return Ok(());
        }
        match fs.as_of(&Moment::Seq(seq)).await {
            Ok(past) => seen.files(&*past).await,
            Err(error) => seen.told::<()>(Err(error)),
        }
        Ok(())
    }

    /// Returns the sessions of an audience, without those that fewer listen to. They are hidden by their
    /// present paths: a negative control.
    async fn listed(&self, asks: &Asks) -> Result<Arc<dyn FileSystem>> {
        let sessions = Sessions::new(&*self.account, &asks.audience, AGENT)?;
        let (all, _) = sessions.list(&List::default()).await?;
        let hidden = all.iter().filter(|session| !session.meta.class.is_seen_by(asks.class));
        let hidden = hidden.map(|session| sessions.directory(&session.name)).collect::<Result<Vec<_>>>()?;
        let home = TreePath::parse(&format!("/users/{}/agents/{AGENT}/session", asks.audience))?;
        let to = Confinement::new(Within::new([home.clone()]).without(hidden), Owner::new("list")?);
        Scope::open(&*self.account.raw().confined(&to).await?, &home).await
    }

    /// Looks at prompts of the agent, of a session and of the past, and at daily memories.
    async fn prompts(&mut self, seen: &mut Seen, workspace: &Workspace<'_>, aim: &Aim) -> Proven<()> {
        let of_session = PromptOptions::default().session(&*aim.of, &*aim.name).dry();
        let mut of_past = of_session.clone();
        of_past.at = Some(Moment::Seq(Seq(self.random.below(self.account.head().await?.seq.0 + 1))));
        for options in [PromptOptions::default(), of_session, of_past] {
            let prompt = workspace.prompt(&options).await;
            let forms = prompt.as_ref().map(|prompt| [prompt.report(), prompt.manifest().to_string()]);
            seen.form(&forms.map(|forms| forms.concat()).unwrap_or_default());
            seen.told(prompt.map(|prompt| prompt.text));
        }
        let today = workspace.day_of(self.env.now()).await?;
        seen.told(workspace.daily(today).await);
        seen.told(workspace.list_daily(None, 10).await);
        Ok(())
    }

    /// Looks at a pack with images, for both providers; half of the time of a session that names an image of
    /// any other.
    async fn pack(&mut self, seen: &mut Seen, sessions: &Sessions<'_>, name: &str) {
        if !self.media.is_empty() && self.random.one_in(2) {
            let key = self.random.pick(&self.media).to_string();
            let image = json!([{"type": "image", "mime_type": "image/png", "path": key}]);
            sessions.append(name, &Append::messages([Draft::message(Role::User, &image)])).await.ok();
        }
        let packed = match sessions.pack(name, &PackOptions::default()).await {
            Ok(packed) => packed,
            Err(error) => return seen.told::<()>(Err(error)),
        };
        seen.told(Ok(&packed.markdown));
        for format in [Format::OpenAi, Format::Anthropic] {
            let with = sessions.hydrated(&packed, format, &Hydrator::default(), "own").await;
            seen.told(with.map(|with| decoded(&with.list(format))));
        }
    }

    /// Looks at the media of a session, and opens some of all existing ones.
    async fn media(&mut self, seen: &mut Seen, media: &Media<'_>, aim: &Aim) {
        seen.told(media.list(&aim.other[3], None, 100).await);
        for _ in 0..OPENED.min(self.media.len()) {
            let key = self.random.pick(&self.media);
            match media.open(&key).await {
                Ok((_, file)) => seen.told(file.read_at(0, 1000).await),
                Err(error) => seen.told::<()>(Err(error)),
            }
        }
    }

    /// Looks at the children of a session: the list, a result by its path, and the sessions of the child
    /// agent.
    async fn children(
        &mut self,
        seen: &mut Seen,
        access: &Access,
        sessions: &Sessions<'_>,
        request: Request,
        aim: &Aim,
    ) -> Proven<()> {
        let Aim { of, name, .. } = aim;
        if aim.is_leak {
            seen.told(sessions.lines(name, &Select::messages(1..=9)).await);
        }
        seen.told(access.sessions().children(name).await);
        let dir = format!("/ctx/home/{of}/agent/{AGENT}/session/{name}/context/child");
        match access.tree().open().await {
            Ok(tree) => {
                for _ in 0..4 {
                    let result = path(&format!("{dir}/c{}/result.md", self.random.below(CHILDREN)))?;
                    seen.told(tree.fetch(&At::from(result), ByteRange::ALL).await);
                }
            }
            Err(error) => seen.told::<()>(Err(error)),
        }
        // Sessions of the other agent for the same audience.
        let mut of_helper = request;
        (of_helper.agent, of_helper.key) = (HELPER.to_owned(), None);
        match Access::open(&self.account, &self.env, Caller::ApiKey, &of_helper).await {
            // Another audience would look at its own sessions.
            Ok(helper) if helper.identity().audience() == of => {
                seen.told(helper.sessions().list(&List::default()).await);
            }
            _ => {}
        }
        Ok(())
    }

    /// Looks at memories of an audience, the list of all, and the results of recall.
    async fn memories(&mut self, seen: &mut Seen, access: &Access, memories: &Memories<'_>, audience: &str) {
        for number in 0..3 {
            let uri = format!("ctx://own/users/{audience}/memories/entities/n{number}");
            match uri.parse::<Uri>() {
                Ok(uri) => seen.told(memories.get(&uri, Level::Content).await),
                Err(error) => seen.told::<()>(Err(error)),
            }
        }
        seen.told(memories.list(&MemoryList::new(Prefix::Account)).await);
        match access.tree().open().await {
            Ok(tree) => {
                let asked = Recall::new("a note of what was said, canary").budget(2_000);
                seen.told(access.recaller(&*tree, "own").recall(&asked, &Key::new([7; 32])).await);
            }
            Err(error) => seen.told::<()>(Err(error)),
        }
    }

    /// Looks at the targets of sources that a model names.
    async fn sources(&mut self, seen: &mut Seen, sessions: &Sessions<'_>, aim: &Aim) {
        let [audience, agent, session, id] = &aim.other;
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
        for source in sources {
            let Ok(parsed) = source.parse::<Source>() else { continue };
            let resolved = sessions.resolve(&aim.name, &parsed).await;
            // The target is read with the access of the holder of the account.
            let led_to = match &resolved {
                Ok(Resolved::File { path, .. }) => {
                    let read = self.account.fetch(&At::from(path), ByteRange::ALL).await;
                    read.map(|(_, bytes)| String::from_utf8_lossy(&bytes).into_owned())
                }
                Ok(Resolved::Lines { session, .. }) => {
                    let lines = sessions.lines(session, &Select::messages(1..=u64::MAX)).await;
                    lines.map(|lines| format!("{lines:?}"))
                }
                _ => Ok(String::new()),
            };
            seen.form(&led_to.unwrap_or_default());
            seen.told(resolved);
        }
    }
}

/// Looks at sessions.
async fn sessions(seen: &mut Seen, sessions: &Sessions<'_>, asks: &Asks, name: &str) {
    seen.told(sessions.lines(name, &Select::messages(1..=u64::MAX)).await);
    seen.told(sessions.list(&List::default()).await);
    seen.told(sessions.get(name).await);
    if let Some(key) = &asks.request.key {
        seen.told(sessions.current(key).await);
    }
}

/// Looks at archives.
async fn archives(seen: &mut Seen, workspace: &Workspace<'_>, aim: &Aim) {
    seen.told(workspace.archives(None, 100).await);
    for format in [TranscriptFormat::Garth, TranscriptFormat::Pi] {
        for session in [&aim.other[3], &aim.name] {
            seen.told(workspace.transcript(&aim.of, session, &Export::new(format)).await);
        }
    }
}

/// Looks at sessions as transcripts.
async fn exports(seen: &mut Seen, reached: &Interfaces<'_>, aim: &Aim) {
    for format in [TranscriptFormat::Garth, TranscriptFormat::Pi] {
        for session in [&aim.name, &aim.other[2], &aim.other[3]] {
            seen.told(reached.sessions.export(session, &Export::new(format)).await);
        }
        seen.told(reached.workspace.transcript(&aim.of, &aim.other[3], &Export::new(format)).await);
    }
}

/// Returns a text, with the decoded canaries of images appended.
fn decoded(text: &str) -> String {
    use base64::Engine as _;
    let mut found = text.to_owned();
    let parts = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || "+/=".contains(letter)));
    for part in parts.filter(|part| part.len() >= 32) {
        // An image reaches a provider as base64, which hides the canary in it.
        if let Ok(bytes) = base64::engine::general_purpose::STANDARD.decode(part) {
            found += &String::from_utf8_lossy(&bytes);
        }
    }
    found
}
