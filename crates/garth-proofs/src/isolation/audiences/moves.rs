//! Writes of sessions: messages with images, memories, files, children, and resets; and attacks on files of
//! their trees.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt as _;
use garth_agent::media::NewMedia;
use garth_agent::memory::{Put, Uri};
use garth_agent::session::{Append, ChildChange, Create, Derive, Draft, Role, Spawn};
use garth_agent::workspace::Reset;
use garth_agent::{Access, Caller, Class};
use garth_engine::model::{Batch, Op};
use garth_engine::{Error, Result};
use garth_testkit::data::random::Random;
use garth_testkit::proof::{Proven, path};
use serde_json::json;

use super::{AGENT, Asks, CHILDREN, HELPER, Label, OF_AGENT, World};

/// Paths of a tree that attacks use.
const PLACES: [&str; 11] = [
    "/.agent/MEMORY.md",
    "/.agent/SOUL.md",
    "/.agent/settings.json",
    "/.agent/memory",
    "/.user",
    "/.user/session",
    "/.user/session/s0/meta.json",
    "/.user/session/s1",
    "/notes.md",
    "/.user/notes.md",
    "/a/b.md",
];

impl World {
    /// Records that words of a label may exist from now on, and returns their text.
    fn says(&mut self, audience: &str, class: Class) -> String {
        self.notes(Label::new(audience, class, true))
    }

    /// Does the same for words in files, which all sessions of an audience may see.
    fn keeps(&mut self, audience: &str) -> String {
        self.notes(Label::new(audience, Class::Group, false))
    }

    fn notes(&mut self, label: Label) -> String {
        let canary = label.canary();
        if !self.labels.contains(&label) {
            self.labels.push(label);
        }
        canary
    }

    /// Makes a random move. Returns true if it was not rejected.
    pub(super) async fn moves(&mut self, asks: &Asks) -> Proven<bool> {
        if self.random.one_in(30) {
            self.settings().await?;
        }
        let account = std::sync::Arc::clone(&self.account);
        // Settings may have changed in the meantime.
        let Ok(access) = Self::open(&account, &self.env, asks).await else { return Ok(false) };
        let who = access.identity();
        // The words belong to the audience and class that the access was given.
        let asks = &Asks { audience: who.audience().to_owned(), class: who.class(), ..asks.clone() };
        Ok(self.move_in(asks, &access).await?.is_ok())
    }

    async fn move_in(&mut self, asks: &Asks, access: &Access) -> Proven<Result<()>> {
        let way = self.random.below(17);
        Ok(match way {
            0..=4 => self.speak(asks, access).await?,
            5 | 6 => {
                let of_agent = asks.class == Class::Main;
                let text = match of_agent {
                    true => self.says(OF_AGENT, Class::Main),
                    false => self.keeps(&asks.audience),
                };
                access.workspace().add_daily(None, &text).await.map(drop)
            }
            7 => {
                let text = self.keeps(&asks.audience);
                let uri =
                    format!("ctx://own/users/{}/memories/entities/n{}", asks.audience, self.random.below(3));
                match uri.parse::<Uri>() {
                    Ok(uri) => access
                        .memories("own")
                        .put(&uri, &Put::new(format!("A note: {text}.")))
                        .await
                        .map(drop),
                    Err(error) => Err(error),
                }
            }
            8 | 9 => self.write(asks, access).await?,
            10 | 11 => {
                let name = format!("s{}", self.random.below(3));
                let reset = access.workspace().reset(&asks.audience, &name, &Reset::default()).await;
                reset.map(drop)
            }
            12 => self.spawn(asks, access).await?,
            13 => self.put(asks, access).await?,
            14 => {
                let name = format!("s{}", self.random.below(3));
                access.workspace().remove_session(&asks.audience, &name).await.map(drop)
            }
            // A main session may show what it copies to anybody.
            _ if asks.class == Class::Main => Ok(()),
            _ => self.attack(access).await?,
        })
    }

    /// Removes sessions of the audience of a request, and creates some of the class `main`, as the holder of
    /// the folder may. A look that has begun must not see them.
    pub(super) async fn interfere(&mut self, asks: &Asks) -> Proven<()> {
        let account = std::sync::Arc::clone(&self.account);
        let request = asks.request.clone().class(Class::Main);
        let opened = Access::open(&account, &self.env, Caller::Holder, &request).await;
        // A chat of another audience.
        let Ok(access) = opened else { return Ok(()) };
        if access.make().await.is_err() {
            return Ok(());
        }
        let (audience, class) = (access.identity().audience().to_owned(), access.identity().class());
        // Seldom a name that others use: they cannot take it afterwards.
        let letter = if self.random.one_in(4) { 's' } else { 'm' };
        let name = format!("{letter}{}", self.random.below(3));
        if self.random.one_in(2) {
            access.workspace().remove_session(&audience, &name).await.ok();
        }
        let sessions = access.sessions();
        if sessions.create(&Create::new(&*name)).await.is_ok() {
            let text = self.says(&audience, class);
            sessions.append(&name, &Append::messages([Draft::user(text)])).await?;
            self.interfered += 1;
        }
        Ok(())
    }

    /// Creates a session and says something in it.
    async fn speak(&mut self, asks: &Asks, access: &Access) -> Proven<Result<()>> {
        let (sessions, name) = (access.sessions(), format!("s{}", self.random.below(3)));
        // The session may exist already, and then it is used.
        let created = sessions.create(&Create::new(&*name)).await;
        let meta = match sessions.get(&name).await {
            Ok(listed) => listed.meta,
            Err(error) => return Ok(Err(created.err().unwrap_or(error))),
        };
        self.sessions.push([asks.audience.clone(), AGENT.to_owned(), name.clone(), meta.id.clone()]);
        let text = self.says(&asks.audience, meta.class.of_requests());
        let image = json!({"type": "image", "mime_type": "image/png", "data": STANDARD.encode(png(&text))});
        let mut content = vec![json!({"type": "text", "text": text})];
        if self.random.one_in(2) {
            content.push(image);
        }
        let said = Draft::message(Role::User, &json!(content));
        let appended = sessions.append(&name, &Append::messages([said])).await;
        // The keys of images are known to those who look for leaks.
        let (stored, _) = access.media().list(&meta.id, None, 100).await?;
        self.media.extend(stored.into_iter().map(|stored| stored.key));
        if self.random.one_in(3) {
            let mut derive = Derive::default();
            derive.summary = Some(format!("Of it: {text}"));
            sessions.derive(&name, &derive).await.ok();
        }
        Ok(appended.map(drop))
    }

    /// Writes a file of the chat, or of the user.
    async fn write(&mut self, asks: &Asks, access: &Access) -> Proven<Result<()>> {
        let tree = match access.tree().open().await {
            Ok(tree) => tree,
            Err(error) => return Ok(Err(error)),
        };
        // A chat of all owners is visible to all of them.
        let places = ["/.user/notes.md", "/.user/memory/MEMORY.md", "/.user/USER.md", "/notes.md"];
        let shared = asks.request.chat.is_some() && asks.class == Class::Main;
        let place = self.random.pick(if shared { &places[..3] } else { &places });
        let text = self.keeps(&asks.audience);
        let op = Op::write(path(place)?, format!("{text}\n")).with_parents();
        Ok(tree.commit(Batch::new([op]).visible()).await.map(drop))
    }

    /// Gives work to a child, says something in it, and sets its result.
    async fn spawn(&mut self, asks: &Asks, access: &Access) -> Proven<Result<()>> {
        let (parent, id) =
            (format!("s{}", self.random.below(3)), format!("c{}", self.random.below(CHILDREN)));
        let sessions = access.sessions();
        let class = match sessions.get(&parent).await {
            Ok(listed) => listed.meta.class.of_requests(),
            Err(error) => return Ok(Err(error)),
        };
        let mut spawn = Spawn::new(&*id, self.says(&asks.audience, class));
        spawn.agent = self.random.one_in(2).then(|| HELPER.to_owned());
        if let Err(error) = sessions.spawn(&parent, &spawn).await {
            return Ok(Err(error));
        }
        let result = ChildChange::done(self.says(&asks.audience, class));
        Ok(sessions.set_child(&parent, &id, &result).await.map(drop))
    }

    /// Puts a media file of a session.
    async fn put(&mut self, asks: &Asks, access: &Access) -> Proven<Result<()>> {
        let name = format!("s{}", self.random.below(3));
        let meta = match access.sessions().get(&name).await {
            Ok(listed) => listed.meta,
            Err(error) => return Ok(Err(error)),
        };
        let text = self.says(&asks.audience, meta.class.of_requests());
        let key = meta.session_key.unwrap_or_else(|| meta.id.clone());
        let body = futures::stream::iter([Ok::<_, Error>(png(&text).into())]).boxed();
        Ok(match access.media().put(&NewMedia::new(key, "image/png").session(meta.id), body).await {
            Ok(stored) => {
                self.media.push(stored.key);
                Ok(())
            }
            Err(error) => Err(error),
        })
    }

    /// Changes files of the tree, to see more.
    async fn attack(&mut self, access: &Access) -> Proven<Result<()>> {
        let tree = match access.tree().open().await {
            Ok(tree) => tree,
            Err(error) => return Ok(Err(error)),
        };
        let place = |random: &mut Random| path(random.pick(&PLACES));
        let (from, to) = (place(&mut self.random)?, place(&mut self.random)?);
        let past = garth_engine::model::Seq(self.random.below(self.account.head().await?.seq.0 + 1));
        let meta =
            json!({"id": "x", "name": "s0", "class": "main", "agent": AGENT, "user": "ann"}).to_string();
        let op = match self.random.below(10) {
            0 => Op::write(path("/.user/session/s0/meta.json")?, meta),
            1 => Op::write(path("/.user/session/s9/meta.json")?, meta).with_parents(),
            2 => Op::rename(from, to),
            3 => Op::copy(from, to).replace(),
            4 => Op::copy_tree(from, to).replace().as_of(past),
            5 => Op::link(from, to),
            6 => Op::symlink(to, "/../../agents/bot/MEMORY.md"),
            7 => Op::exchange(from, to),
            8 => Op::remove_tree(from),
            _ => Op::write(path("/.agent/settings.json")?, r#"{"owner":"*"}"#),
        };
        Ok(tree.commit(Batch::new([op]).visible()).await.map(drop))
    }
}

/// Returns an image that providers accept, with a text in it.
fn png(text: &str) -> Vec<u8> {
    let header = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0";
    [header, text.as_bytes()].concat()
}
