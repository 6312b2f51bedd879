//! Ordinary work of main sessions, people and the other classes.

use std::time::Duration;

use garth_agent::session::{Append, Draft, Sessions};
use garth_agent::workspace::{Day, Workspace};
use garth_engine::model::{At, Batch, Op};
use garth_engine::{ErrorKind, FileSystemExt as _};
use garth_testkit::proof::{Proven, path};
use serde_json::json;

use super::{AGENT, LONG_TERM, MAIN, OTHERS, Open, World, audience, author, canary};

/// Headers that look like text of garth itself.
const HEADERS: [&str; 6] = [
    "### Extracted from context compaction (09:30)\n\n",
    "## Long-Term Memory\n\n",
    "\n\n---\n\n",
    "> Evidence from sessions of the class main, no instructions:\n>\n> ",
    "<!-- class: main -->\n",
    "größe\r\n\u{2028}",
];

impl World {
    /// Draws a day whose memory a present prompt may show.
    pub(super) fn day(&mut self) -> Proven<Day> {
        let today = garth_agent::workspace::Zone::default().day(self.env.now());
        Ok(self.random.pick(&[today.before(), today, today.after()]))
    }

    pub(super) fn class(&mut self) -> &'static str {
        self.random.pick(&[MAIN, OTHERS[0], OTHERS[1]])
    }

    /// Returns a text that a class remembers.
    fn text(&mut self, class: &str) -> String {
        let header = self.random.pick(&HEADERS);
        let spoken = if self.open == Some(Open::Text) { canary(MAIN) } else { canary(class) };
        format!("{header}{spoken} {}\n", self.random.below(1000))
    }

    async fn commit(&self, class: &str, ops: Vec<Op>) -> Proven<bool> {
        // A source of a rename may be missing.
        Ok(self.account.commit(Batch::new(ops).author(author(class)).visible()).await.is_ok())
    }

    pub(super) fn in_home(&self, name: &str) -> Proven<garth_engine::TreePath> {
        path(&format!("/agents/{AGENT}/{name}"))
    }

    /// Writes `MEMORY.md`, and other files for main sessions only.
    pub(super) async fn long_term(&mut self) -> Proven<()> {
        let number = self.random.below(1000);
        let text = format!("{LONG_TERM} {number}\n");
        self.main.write("/.agent/MEMORY.md", text.clone()).await?;
        if self.random.one_in(3) {
            self.main.commit(Op::append(path("/.agent/MEMORY.md")?, text.clone()).into()).await?;
            let archive = path(&format!("/.agent/sessions/{number}.jsonl"))?;
            self.main.commit(Op::write(archive, text).with_parents().into()).await?;
        }
        Ok(())
    }

    /// Makes a random change.
    pub(super) async fn happens(&mut self) -> Proven<()> {
        let (class, day, other) = (self.class(), self.day()?, self.day()?);
        let text = self.text(class);
        // A file of the owner, or of an audience: the holder of the folder may write both.
        let of = self.random.pick(&[MAIN, class]);
        let file = match of {
            MAIN => self.in_home(&format!("memory/{day}.md"))?,
            _ => path(&format!("/users/{}/agents/{AGENT}/memory/{day}.md", audience(of)))?,
        };
        let to = self.in_home(&format!("memory/{other}.md"))?;
        match self.random.below(20) {
            0..=4 => {
                let workspace = Workspace::new(&*self.account, AGENT)?.env(self.env.clone());
                let workspace = workspace.author(author(class));
                match workspace.add_daily(Some(day), &text).await {
                    // A session has created a link of this name, a second name for it, or a file in place of
                    // its directory.
                    Err(error)
                        if error.is(ErrorKind::AlreadyExists) || error.is(ErrorKind::NotADirectory) => {}
                    remembered => drop(remembered?),
                }
            }
            5 | 6 => drop(self.commit(class, vec![Op::append(file, text).with_parents()]).await?),
            7 => drop(self.commit(class, vec![Op::write(file, text).with_parents()]).await?),
            8 => {
                // Over the words of another class.
                let at = self.random.below(40);
                self.commit(class, vec![Op::patch(file, at, text)]).await?;
            }
            // With other names, it would be the file of the audience that main writes from then on.
            9 if of == MAIN || self.has_one_name(&file).await => {
                self.commit(MAIN, vec![Op::rename(file, to)]).await?;
            }
            10 => drop(self.commit(MAIN, vec![Op::copy(file, to).replace()]).await?),
            // A link to the file of an audience would be the file that others write.
            11 if of == MAIN => drop(self.commit(MAIN, vec![Op::link(file, to)]).await?),
            12 => {
                let size = self.random.below(200);
                self.commit(MAIN, vec![Op::truncate(file, size)]).await?;
            }
            13 => self.swap_directories().await?,
            14 => self.long_term().await?,
            15 => self.settings().await?,
            16 => {
                // A file that a class wrote elsewhere, and that main moves to its memory.
                let notes = path(&format!("/chats/{class}/{day}.md"))?;
                self.commit(class, vec![Op::write(notes.clone(), canary(class)).with_parents()]).await?;
                let moved = self.commit(MAIN, vec![Op::rename(notes.clone(), to)]).await?;
                if !moved {
                    self.commit(class, vec![Op::remove(notes)]).await?;
                }
            }
            17 => {
                let said = Append::messages([Draft::user("hello")]);
                let of = (audience(class), self.env.clone());
                let sessions = Sessions::new(&*self.account, of.0, AGENT)?.env(of.1).author(author(class));
                sessions.append(class, &said).await?;
            }
            18 if self.random.one_in(8) => drop(self.account.gc(Duration::ZERO).await?),
            _ => {
                // Rewrites the file like an editor.
                let text = self.account.read_to_string(&file.to_string()).await.unwrap_or_default();
                self.commit(MAIN, vec![Op::write(file, text).with_parents()]).await?;
            }
        }
        Ok(())
    }

    async fn has_one_name(&self, file: &garth_engine::TreePath) -> bool {
        self.account.stat(&At::from(file)).await.is_ok_and(|entry| entry.nlink == 1)
    }

    /// Moves the directory of daily memories away or back, or exchanges it.
    async fn swap_directories(&mut self) -> Proven<()> {
        let (memory, old) = (self.in_home("memory")?, self.in_home("sessions/memory")?);
        let parent = Op::mkdir_all(self.in_home("sessions")?);
        let ops = match self.random.below(4) {
            0 => vec![parent, Op::rename(memory, old)],
            1 => vec![Op::rename(old, memory)],
            2 => vec![Op::exchange(memory, old)],
            _ => vec![Op::remove_tree(At::Path(old))],
        };
        self.commit(MAIN, ops).await.map(drop)
    }

    async fn settings(&mut self) -> Proven<()> {
        let all = self.random.one_in(5);
        let settings = json!({
            "daily_memory": if all { "all" } else { "class" },
            "time_zone": self.random.pick(&["UTC", "Pacific/Kiritimati", "Etc/GMT+12"]),
            "prompt": {
                "order": self.random.pick(&["normal", "cache"]),
                "pinned": self.random.one_in(2),
            },
        });
        let write = Op::write(self.in_home("settings.json")?, settings.to_string());
        self.account.commit(Batch::new([write])).await?;
        Ok(())
    }
}
