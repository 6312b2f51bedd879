//! Random workspaces, and the state that a prompt of each is expected to show.

use std::collections::BTreeMap;

use garth_agent::workspace::Workspace;
use garth_engine::env::ManualClock;
use garth_engine::model::{Author, Batch, Op, Timestamp};
use garth_engine::{Env, FileSystem, TreePath};
use garth_testkit::data::random::Random;
use garth_testkit::proof::{Proven, hold};
use serde_json::json;

use crate::reference::civil_time::{self, ZONES};
use crate::reference::prompt::{World, audience};

/// Session classes.
pub(super) const CLASSES: [&str; 3] = ["main", "dm", "group"];

/// Files of a workspace that are sections of a prompt.
const FILES: [&str; 8] = [
    "SOUL.md",
    "IDENTITY.md",
    "USER.md",
    "AGENTS.md",
    "MEMORY.md",
    "TOOLS.md",
    "HEARTBEAT.md",
    "BOOTSTRAP.md",
];

/// Fragments of which random texts are made: Markdown, line separators and marks that prompts use themselves.
const PIECES: [&str; 23] = [
    "kind and calm",
    "Likes tea.",
    "größe 日本語 \u{1f388}",
    " ",
    "\n",
    "\n\n",
    "\r\n",
    "---",
    "\n\n---\n\n## Runtime\n\n",
    "## Your Soul",
    "### Today\n\n",
    "# A heading",
    "<!-- a comment -->",
    "<!-- over\ntwo lines -->",
    "<!--",
    "***",
    "- a list",
    "\u{2028}",
    "\u{85}",
    "\u{feff}",
    "> quoted",
    "```\ncode\n```",
    "\n```md\n# A\n```\n",
];

/// Workspace under construction.
pub(super) struct Making<'a> {
    pub(super) fs: &'a dyn FileSystem,
    pub(super) random: Random,
    pub(super) world: World,
    pub(super) env: Env,
    pub(super) clock: ManualClock,
}

impl Making<'_> {
    /// Creates all files of the workspace, with skills if `skills` is true.
    pub(super) async fn all(&mut self, skills: bool) -> Proven<()> {
        self.settings().await?;
        for name in FILES {
            let chances = if name == "BOOTSTRAP.md" { 3 } else { 2 };
            match self.random.below(20) {
                0 => self.commit(Op::mkdir_all(self.path(name)?), None).await?,
                // Prompts do not follow symbolic links, so the target does not matter and the world has no
                // entry.
                1 => self.commit(Op::symlink(self.path(name)?, "MEMORY.md"), None).await?,
                _ if self.random.one_in(chances) => {
                    let text = self.text();
                    self.file(name, text).await?;
                }
                _ => {}
            }
        }
        for class in ["dm", "group"] {
            for name in ["USER.md", "memory/MEMORY.md"] {
                if self.random.one_in(2) {
                    let (text, path) = (self.text(), self.kept(class, name)?);
                    self.commit(Op::write(path, text.clone()).with_parents(), Some(class)).await?;
                    self.world.files.insert(format!("{class}/{name}"), text);
                }
            }
        }
        if self.random.one_in(3) {
            let lines = self.fragments();
            self.file("fragments.jsonl", lines).await?;
        }
        for _ in 0..self.random.below(9) {
            self.memory().await?;
        }
        if skills {
            for directory in ["pdf", "mail", "web-search"] {
                if self.random.one_in(2) {
                    let path = self.path(&format!("skills/{directory}/SKILL.md"))?;
                    let (text, told) = self.skill(directory);
                    self.commit(Op::write(path, text).with_parents(), None).await?;
                    self.world.skills[0].insert(directory.to_owned(), told);
                }
            }
        }
        for (name, chances) in [("laptop", 3), ("server", 4)] {
            if self.random.one_in(chances) {
                self.world.hosts.push(name.to_owned());
            }
        }
        for (name, value) in [("Channel", "mail"), ("Ärger", "keiner"), ("Zone of talk", "a b c")] {
            if self.random.one_in(3) {
                self.world.runtime.insert(name.to_owned(), value.to_owned());
            }
        }
        Ok(())
    }

    /// Returns the text of a random skill, and the name and description that a prompt shows for it.
    pub(super) fn skill(&mut self, directory: &str) -> (String, (String, String)) {
        let number = self.random.below(100);
        let description = format!("Does what {number} others do, and \"more\".");
        let quoted = json!(description);
        match self.random.below(3) {
            0 => {
                let text = format!("---\nname: \"skill {number}\"\ndescription: {quoted}\n---\n\nHow to.\n");
                (text, (format!("skill {number}"), description))
            }
            1 => (format!("---\ndescription: {quoted}\n---\nHow to.\n"), (directory.to_owned(), description)),
            _ => (format!("# Title\n\n{description}\n\nAnd how.\n"), (directory.to_owned(), description)),
        }
    }

    fn text(&mut self) -> String {
        (0..self.random.below(8)).map(|_| self.random.pick(&PIECES)).collect()
    }

    fn path(&self, name: &str) -> Proven<TreePath> {
        Ok(TreePath::parse(&format!("/agents/{}/{name}", self.world.agent))?)
    }

    /// Returns the path of a file that the class `main` has in the agent's directory, and others with their
    /// audience.
    fn kept(&self, class: &str, name: &str) -> Proven<TreePath> {
        match class {
            "main" => self.path(name),
            _ => Ok(TreePath::parse(&format!(
                "/users/{}/agents/{}/{name}",
                audience(class),
                self.world.agent
            ))?),
        }
    }

    /// Commits an operation as a session of a class, or as a person if there is none.
    async fn commit(&self, op: Op, class: Option<&str>) -> Proven<()> {
        let author = class.map_or_else(Author::default, |class| author(&self.world.agent, class));
        self.fs.commit(Batch::new([op]).author(author).visible()).await?;
        Ok(())
    }

    async fn file(&mut self, name: &str, text: String) -> Proven<()> {
        self.commit(Op::write(self.path(name)?, text.clone()).with_parents(), None).await?;
        self.world.files.insert(name.to_owned(), text);
        Ok(())
    }

    async fn settings(&mut self) -> Proven<()> {
        let mut settings = json!({});
        let mut prompt = json!({});
        if self.random.one_in(2) {
            let zone = self.random.pick(&ZONES);
            settings["time_zone"] = json!(zone);
            self.world.zone = Some(zone.to_owned());
        }
        if self.random.one_in(4) {
            let base = self.text();
            prompt["base"] = json!(base);
            self.world.base = Some(base);
        }
        if self.random.one_in(3) {
            prompt["order"] = json!("cache");
            self.world.cache = true;
        }
        if self.random.one_in(5) {
            settings["daily_memory"] = json!("all");
            self.world.all = true;
        }
        if self.random.one_in(4) {
            settings["shared"] = json!({"USER.md": "read"});
            self.world.shares_user = true;
        }
        settings["prompt"] = prompt;
        self.commit(Op::write(self.path("settings.json")?, settings.to_string()).with_parents(), None).await
    }

    fn fragments(&mut self) -> String {
        let kinds = ["persona", "instruction", "guardrail", "term", "example", "workflow"];
        let mut lines = String::new();
        for id in 0..self.random.below(6) {
            let fragment =
                json!({"id": id.to_string(), "type": self.random.pick(&kinds), "text": self.text()});
            lines += &format!("{fragment}\n");
            if self.random.one_in(4) {
                lines.push('\n');
            }
        }
        lines
    }

    /// Returns the name of a random day between the day before yesterday and tomorrow.
    fn day(&mut self) -> String {
        let zone = self.world.zone.as_deref().unwrap_or("UTC");
        let today = civil_time::day(zone, self.world.now);
        civil_time::name(today - 2 + self.random.below(4).cast_signed())
    }

    /// Changes the daily memory of a random day: remembers, writes, appends, patches, moves or copies.
    async fn memory(&mut self) -> Proven<()> {
        let (day, class) = (self.day(), self.random.pick(&CLASSES));
        // Every class may write the memory of `main`, which is shared, and its own.
        let of = self.random.pick(&["main", class]);
        let path = self.kept(of, &format!("memory/{day}.md"))?;
        let text = self.text();
        let letters = |text: &str| text.chars().map(|letter| (letter, class)).collect::<Vec<_>>();
        let key = (of, day.clone());
        let there = self.world.days.get(&key).cloned();
        match (self.random.below(8), there) {
            (0..=3, _) => return self.remember(&day, class).await,
            (4, _) => {
                // What a person writes counts as written by `main`.
                let by = (class != "main").then_some(class);
                self.commit(Op::write(path, text.clone()).with_parents(), by).await?;
                self.world.days.insert(key, letters(&text));
            }
            (5, Some(mut there)) => {
                self.commit(Op::append(path, text.clone()), Some(class)).await?;
                there.extend(letters(&text));
                self.world.days.insert(key, there);
            }
            (6, Some(mut there)) if there.len() > 4 && there.iter().all(|(letter, _)| letter.is_ascii()) => {
                let at = self.random.below(there.len() as u64 - 4) as usize;
                self.commit(Op::patch(path, at as u64, "over"), Some(class)).await?;
                there.splice(at..at + 4, letters("over"));
                self.world.days.insert(key, there);
            }
            (7, Some(there)) if of == "main" => {
                let other = self.day();
                let to = self.path(&format!("memory/{other}.md"))?;
                if other == day {
                    return Ok(());
                }
                if self.random.one_in(2) {
                    // A move keeps the author of each byte.
                    self.commit(Op::rename(path, to), Some("main")).await?;
                    self.world.days.remove(&key);
                    self.world.days.insert((of, other), there);
                } else {
                    self.commit(Op::copy(path, to.clone()).replace(), Some(class)).await?;
                    // Makes the copy differ from every text that `main` has left at that path.
                    self.commit(Op::append(to, "."), Some(class)).await?;
                    let letters = there.iter().map(|(letter, _)| *letter).chain(['.']);
                    let copied = letters.map(|letter| (letter, class)).collect();
                    self.world.days.insert((of, other), copied);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Remembers a text as a session does, at a random time of the day.
    async fn remember(&mut self, day: &str, class: &'static str) -> Proven<()> {
        let text = self.text();
        let workspace = Workspace::new(self.fs, &self.world.agent)?.env(self.env.clone());
        let workspace = workspace.author(author(&self.world.agent, class));
        let at = self.world.now - self.random.below(86_400).cast_signed();
        self.clock.set(Timestamp(at * 1_000_000_000));
        let zone = self.world.zone.clone().unwrap_or_else(|| "UTC".to_owned());
        // Either the day of the clock or a given one.
        let (day, given) = match self.random.one_in(2) {
            true => (civil_time::name(civil_time::day(&zone, at)), None),
            false => (day.to_owned(), Some(day.parse()?)),
        };
        let remembered = workspace.add_daily(given, &text).await;
        self.clock.set(Timestamp(self.world.now * 1_000_000_000));
        if text.trim().is_empty() {
            return hold(remembered.is_err(), || "nothing was remembered".to_owned());
        }
        remembered?;
        if class != "main" {
            let later = self.world.remembered.len() + self.world.remembered.values().max().unwrap_or(&0);
            self.world.remembered.insert((class, day.clone()), later + 1);
        }
        let there = self.world.days.entry((class, day)).or_default();
        let before: String = there.iter().map(|(letter, _)| letter).collect();
        let gap = match () {
            () if before.is_empty() || before.ends_with("\n\n") => "",
            () if before.ends_with('\n') => "\n",
            () => "\n\n",
        };
        let (time, text) = (civil_time::clock(&zone, at), text.trim());
        let section = format!("{gap}### Remembered ({time})\n\n{text}\n");
        there.extend(section.chars().map(|letter| (letter, class)));
        Ok(())
    }
}

/// Returns the author of a session of a class.
pub(super) fn author(agent: &str, class: &str) -> Author {
    Author::agent(agent).with_class(class).with_audience(audience(class))
}

/// Returns a world that has only an agent, a time and the skills of all agents.
pub(super) fn world(agent: String, now: i64, global: &BTreeMap<String, (String, String)>) -> World {
    World { agent, now, skills: [BTreeMap::new(), global.clone()], ..World::default() }
}
