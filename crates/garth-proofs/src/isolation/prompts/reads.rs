//! Reads of the other classes: their prompts, their memory, and every call in their trees.

use garth_agent::session::Format;
use garth_agent::workspace::{Inputs, Prompt, PromptOptions, Workspace};
use garth_engine::FileSystem;
use garth_engine::fs::resolve::{Follow, resolve};
use garth_engine::model::{
    At, ByteRange, ChangesQuery, FindQuery, HistoryPage, Ino, Moment, NamesPage, Page, SearchQuery, Seq,
    VersionId, WalkPage,
};
use garth_testkit::proof::{Broken, Proven, Report, hold};

use super::super::seen::Seen;
use super::{AGENT, LONG_TERM, MAIN, OTHERS, Open, World, audience, author, canary};

impl World {
    fn workspace(&self, class: Option<&str>) -> Proven<Workspace<'_>> {
        let workspace = Workspace::new(&*self.account, AGENT)?.env(self.env.clone());
        Ok(match class {
            Some(class) => workspace.author(author(class)),
            None => workspace,
        })
    }

    /// Checks that the words hidden from others exist.
    pub(super) async fn main_sees_all(&self, report: &mut Report) -> Proven<()> {
        let prompt = match self.workspace(Some(MAIN))?.prompt(&PromptOptions::default()).await {
            Ok(prompt) => prompt,
            // Another session has cut a character of a daily memory in two.
            Err(error) if error.is(garth_engine::ErrorKind::Corrupt) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        hold(prompt.text.contains(LONG_TERM), || "main does not see its long-term memory".to_owned())?;
        report.add("prompts for main with long-term memory", 1);
        Ok(())
    }

    /// Checks a prompt for a class, built in one of several ways.
    pub(super) async fn look_at_prompts(&mut self, class: &'static str, report: &mut Report) -> Proven<()> {
        let head = self.account.head().await?.seq;
        let seq = Seq(self.random.below(head.0) + 1);
        let way = self.random.below(8);
        let asks = match self.open {
            Some(Open::Prompt) => Some(MAIN),
            // The session determines the class if the caller does not.
            _ if way == 3 || way == 5 => self.random.pick(&[None, Some(MAIN), Some(class)]),
            _ => Some(class),
        };
        let day = self.random.below(3) as usize;
        let workspace = self.workspace(asks)?;
        let session = PromptOptions::default().session(audience(class), class);
        let plain = PromptOptions::default();
        let answer = match way {
            0 | 1 => workspace.prompt(&plain).await,
            2 => workspace.prompt(&session).await,
            3 => workspace.prompt(&session.dry()).await,
            4 => workspace.prompt(&plain.at(Moment::Seq(seq)).inputs(Inputs::default())).await,
            // The last recorded prompt, of any time.
            5 => workspace.prompt(&session.at(Moment::Seq(seq))).await,
            6 => {
                let today = workspace.day_of(self.env.now()).await?;
                let day = [today.before(), today, today.after()][day];
                let mut seen = Seen::default();
                seen.told(workspace.daily(day).await);
                return self.clean(class, "its memory", &seen.text);
            }
            _ => {
                let mut seen = Seen::default();
                seen.told(workspace.list_daily(None, 10).await);
                return self.clean(class, "its days", &seen.text);
            }
        };
        match answer {
            Ok(prompt) => {
                report.add("prompts for others", 1);
                report.add("of these with memory of their class", prompt.text.contains(&canary(class)));
                hold(self.open.is_some() || prompt.class == class, || {
                    format!("the prompt for {class} is one of the class {}", prompt.class)
                })?;
                self.clean(class, "its prompt", &forms(&prompt))
            }
            Err(error) => self.clean(class, "an error", &format!("{error} {error:?}")),
        }
    }

    /// Checks a call in the tree of a class.
    pub(super) async fn look_into(
        &mut self,
        class: &'static str,
        at: usize,
        report: &mut Report,
    ) -> Proven<()> {
        let place = At::Path(self.place(class)?);
        let head = self.account.head().await?.seq;
        let seq = Seq(self.random.below(head.0 + 2));
        let number = Ino(self.random.below(4 * head.0 + 20));
        let way = self.random.below(16);
        let fs = &*self.trees[at];
        let then;
        let fs: &dyn FileSystem = if self.random.one_in(3) {
            match fs.as_of(&Moment::Seq(seq)).await {
                Ok(past) => {
                    then = past;
                    &*then
                }
                Err(_) => fs,
            }
        } else {
            fs
        };
        let place = if self.random.one_in(4) { At::Node(number) } else { place };
        let root = At::Path(garth_engine::TreePath::root());
        let mut seen = Seen::default();
        match way {
            0 => seen.told(fs.fetch(&place, ByteRange::ALL).await),
            1 => seen.told(fs.stat(&place).await),
            2 => seen.told(fs.list(&place, &Page::default().with_entries()).await),
            3 => seen.told(fs.walk(&root, &WalkPage::default().with_entries()).await),
            4 => seen.told(fs.history(&place, &HistoryPage::default()).await),
            5 => seen.told(fs.blame(&place, ByteRange::ALL, 100).await),
            6 => seen.told(fs.names(&place, &NamesPage::default()).await),
            7 | 8 => {
                let asked = self.random.pick(&[LONG_TERM.to_owned(), canary(MAIN), canary(OTHERS[1 - at])]);
                seen.told(fs.search(&SearchQuery::new(asked).limit(50).context(3)).await);
            }
            9 => seen.told(fs.find(&FindQuery::metadata_from("garth.of_main", "")).await),
            10 => seen.told(fs.changes(&ChangesQuery::since(seq)).await),
            11 => match fs.open_version(VersionId { seq, ino: number }).await {
                Ok(file) => seen.told(file.read_at(0, 1000).await),
                refused => seen.told(refused),
            },
            12 => {
                seen.told(
                    fs.fetch_many(&[(place, ByteRange::ALL), (At::Node(number), ByteRange::ALL)]).await,
                );
            }
            13 => match fs.open(&place).await {
                Ok(file) => seen.told(file.read_at(0, 1000).await),
                refused => seen.told(refused),
            },
            14 => seen.files(fs).await,
            _ => match &place {
                // Through the links that attacks have created.
                At::Path(path) => match resolve(fs, path.as_str(), Follow::Yes).await {
                    Ok(found) => seen.told(fs.fetch(&At::Path(found), ByteRange::ALL).await),
                    refused => seen.told(refused),
                },
                _ => seen.told(fs.stat(&place).await),
            },
        }
        report.add("calls in trees of others", 1);
        report.add("calls answered", seen.answered > 0);
        let foreign = [LONG_TERM.to_owned(), canary(MAIN), canary(OTHERS[1 - at])];
        let text = seen.text;
        match foreign.iter().find(|canary| text.contains(*canary)) {
            Some(canary) => {
                Err(Broken::because(format!("`{canary}` is seen by {class} in its tree, way {way}: {text}")))
            }
            None => Ok(()),
        }
    }
}

/// Returns a prompt in every form.
fn forms(prompt: &Prompt) -> String {
    let lists = [Format::OpenAi, Format::Anthropic].map(|format| prompt.list(format));
    format!("{}\n{}\n{}\n{}", prompt.report(), prompt.manifest(), lists[0], lists[1])
}
