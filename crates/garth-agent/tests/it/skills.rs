//! Skills of a workspace: lists, reads, and the places of changes.

use std::sync::Arc;

use garth_agent::memory::{Level, Memories, Uri};
use garth_agent::workspace::{Host, InstallFile, Origin, PromptOptions, Reason, Workspace};
use garth_agent::{Access, Caller, Request};
use garth_engine::model::{Author, Batch, Kind, Op, SetAttrs};
use garth_engine::{Env, Error, ErrorKind, FileSystem, FileSystemExt, TreePath};
use garth_testkit::fs::counting::Counting;

use super::sessions::{account, engines};

const PDF: &str = "---\nname: pdf\ndescription: Reads PDF files\nmetadata: {gsv: {requires: {bins: [pdftotext]}}}\n---\nUse pdftotext.\n";

async fn write(fs: &dyn FileSystem, path: &str, text: &str) {
    let path = TreePath::parse(path).unwrap();
    fs.commit(Batch::new([Op::write(path, text.to_owned()).with_parents()])).await.unwrap();
}

fn workspace(fs: &dyn FileSystem) -> Workspace<'_> {
    Workspace::new(fs, "coder").unwrap()
}

fn host() -> Host {
    let mut host = Host::new("laptop");
    host.bins = vec!["pdftotext".into()];
    host
}

fn assert_refused(result: Result<impl std::fmt::Debug, Error>, kind: ErrorKind) {
    let error = result.unwrap_err();
    assert!(error.is(kind), "{error}");
}

#[tokio::test]
async fn agent_skills_hide_account_skills() {
    for (fs, _kept) in engines().await {
        write(&*fs, "/skills/pdf/SKILL.md", PDF).await;
        write(&*fs, "/skills/mail/SKILL.md", "Sends mail.").await;
        write(&*fs, "/skills/notes.txt", "no skill").await;
        fs.mkdir_all("/skills/empty").await.unwrap();
        write(&*fs, "/agents/coder/skills/git/SKILL.md", "Commits.").await;
        let names = async |hosts: &[Host]| {
            let listing = workspace(&*fs).skills(hosts).await.unwrap();
            let shown = listing.shown.into_iter().map(|skill| (skill.name, skill.origin)).collect::<Vec<_>>();
            (shown, listing.left_out.into_iter().map(|skill| (skill.name, skill.reason)).collect::<Vec<_>>())
        };
        let of = |name: &str, origin| (name.to_owned(), origin);
        let (shown, left_out) = names(&[]).await;
        assert_eq!(shown, [of("git", Origin::Agent), of("mail", Origin::Global)]);
        assert_eq!(left_out, [("pdf".to_owned(), Reason::Requirements)]);
        assert_eq!(names(&[host()]).await.0.len(), 3);
        write(&*fs, "/agents/coder/skills/pdf/SKILL.md", "My own way.").await;
        let (shown, left_out) = names(&[host()]).await;
        assert_eq!(shown, [of("git", Origin::Agent), of("pdf", Origin::Agent), of("mail", Origin::Global)]);
        assert_eq!(left_out, [("pdf".to_owned(), Reason::Hidden)]);
        let settings = r#"{"skills":{"mail":{"enabled":false}}}"#;
        write(&*fs, "/agents/coder/settings.json", settings).await;
        assert!(names(&[]).await.1.contains(&("mail".to_owned(), Reason::Disabled)));
        let prompt = workspace(&*fs).prompt(&PromptOptions::default()).await.unwrap().text;
        assert!(prompt.contains("- **git**: Commits. (`/agents/coder/skills/git/SKILL.md`)"), "{prompt}");
        assert!(prompt.contains("1 disabled by the settings") && !prompt.contains("Sends mail"), "{prompt}");
    }
}

#[tokio::test]
async fn directory_without_skill_file_is_reported() {
    for (fs, _kept) in engines().await {
        write(&*fs, "/skills/good/SKILL.md", "Good.").await;
        write(&*fs, "/skills/pdf/SKILL.md", PDF).await;
        // The agent's copy of a part of a skill of the account, and the other way round.
        write(&*fs, "/agents/coder/skills/good/scripts/run.sh", "x").await;
        write(&*fs, "/agents/coder/skills/own/SKILL.md", "Own.").await;
        write(&*fs, "/skills/own/more.md", "x").await;
        for file in [
            "lower/skill.md",
            "title/Skill.md",
            "deep/inner/SKILL.md",
            "other/README.md",
            "wide/x/y/SKILL.md",
        ] {
            write(&*fs, &format!("/agents/coder/skills/{file}"), "Text.").await;
        }
        write(&*fs, "/agents/coder/skills/hidden/.gitkeep", "").await;
        fs.mkdir_all("/agents/coder/skills/empty").await.unwrap();
        write(&*fs, "/agents/coder/skills/pdf/SKILL.md/x.md", "x").await;
        let workspace = workspace(&*fs);
        let listing = workspace.skills(&[host()]).await.unwrap();
        let shown: Vec<_> = listing.shown.iter().map(|skill| (&*skill.directory, skill.origin)).collect();
        assert_eq!(shown, [("own", Origin::Agent), ("good", Origin::Global), ("pdf", Origin::Global)]);
        let left_out: Vec<_> =
            listing.left_out.iter().map(|skill| (&*skill.directory, skill.reason, &*skill.detail)).collect();
        let due = [
            ("deep", "has no SKILL.md, but inner/SKILL.md; move that directory up, to the other skills"),
            ("lower", "has no SKILL.md, but skill.md; rename it to SKILL.md"),
            ("other", "has no SKILL.md"),
            ("pdf", "its SKILL.md is a directory; put a file in its place"),
            ("title", "has no SKILL.md, but Skill.md; rename it to SKILL.md"),
            ("wide", "has no SKILL.md"),
        ];
        assert_eq!(left_out, due.map(|(directory, detail)| (directory, Reason::Missing, detail)));
        let error = workspace.skill("lower", &[]).await.unwrap_err();
        assert!(error.is(ErrorKind::NotFound) && error.message().contains("rename it"), "{error}");
        // A directory hides nothing.
        assert_eq!(workspace.skill("pdf", &[]).await.unwrap().1, Origin::Global);
        let prompt = workspace.prompt(&PromptOptions::default()).await.unwrap().text;
        assert!(prompt.contains("Left out: 1 whose requirements no host meets."), "{prompt}");
    }
}

#[tokio::test]
async fn skill_listing_reads_few_directories() {
    for (fs, _kept) in engines().await {
        let counting = Counting::new(Arc::clone(&fs));
        let mut reads = Vec::new();
        for (healthy, broken) in [(1, 0), (40, 0), (40, 1), (40, 400)] {
            for n in 0..healthy {
                write(&*fs, &format!("/skills/s{n}/SKILL.md"), "Does it.").await;
            }
            for n in 0..broken {
                write(&*fs, &format!("/skills/b{n}/in/more.md"), "x").await;
            }
            counting.reads_since();
            let listing = workspace(&counting).skills(&[]).await.unwrap();
            reads.push(counting.reads_since());
            assert_eq!((listing.shown.len(), listing.left_out.len()), (healthy, broken));
        }
        assert_eq!(reads[0], reads[1], "healthy skills cost no look");
        assert!(reads[2] > reads[1] && reads[3] <= reads[1] + 40, "{reads:?}");
    }
}

#[tokio::test]
async fn unreadable_skill_reports_the_reason() {
    for (fs, _kept) in engines().await {
        let path = |name: &str| TreePath::parse(&format!("/skills/{name}/SKILL.md")).unwrap();
        let write = async |name: &str, bytes: Vec<u8>| {
            fs.commit(Batch::new([Op::write(path(name), bytes).with_parents()])).await.unwrap();
        };
        write("latin", b"caf\xe9".to_vec()).await;
        write("long", vec![b'x'; (1 << 20) + 1]).await;
        for n in 0..33 {
            write(&format!("m{n:02}"), vec![b'x'; 1 << 20]).await;
        }
        let listing = workspace(&*fs).skills(&[]).await.unwrap();
        let why = |directory: &str| {
            let left_out = listing.left_out.iter().find(|skill| skill.directory == directory).unwrap();
            assert_eq!(left_out.reason, Reason::Unreadable);
            left_out.detail.as_str()
        };
        assert_eq!(why("latin"), "is not UTF-8; store it as UTF-8 text");
        assert_eq!(why("long"), "has more than 1 MiB; shorten it");
        assert!(why("m32").contains("32 MiB together"), "{}", why("m32"));
        for (name, due) in [("latin", "is not UTF-8"), ("long", "more than 1 MiB")] {
            let error = workspace(&*fs).skill(name, &[]).await.unwrap_err();
            assert!(error.message().contains(due), "{error}");
        }
    }
}

#[tokio::test]
async fn ineligible_skill_reports_the_reason() {
    for (fs, _kept) in engines().await {
        write(&*fs, "/skills/pdf/SKILL.md", PDF).await;
        let mut other = Host::new("phone");
        other.os = Some("ios".into());
        let (text, origin, path, why) = workspace(&*fs).skill("pdf", &[other]).await.unwrap();
        assert_eq!(
            (text.description.as_str(), origin, path.as_str()),
            ("Reads PDF files", Origin::Global, "/skills/pdf/SKILL.md")
        );
        assert_eq!(why, Some((Reason::Requirements, "phone lacks bins pdftotext".to_owned())));
        assert_eq!(workspace(&*fs).skill("pdf", &[host()]).await.unwrap().3, None);
        assert_refused(workspace(&*fs).skill("none", &[]).await, ErrorKind::NotFound);
        assert_refused(workspace(&*fs).skill("../x", &[]).await, ErrorKind::InvalidArgument);
    }
}

#[tokio::test]
async fn skill_changes_go_to_the_agents_copy() {
    for (fs, _kept) in engines().await {
        write(&*fs, "/skills/pdf/SKILL.md", PDF).await;
        write(&*fs, "/skills/pdf/scripts/run.sh", "pdftotext $1\n").await;
        let workspace = workspace(&*fs);
        let read = workspace.read_skill("pdf/scripts/run.sh").await.unwrap();
        assert_eq!((read.origin, &read.bytes[..]), (Origin::Global, &b"pdftotext $1\n"[..]));
        let (path, _) = workspace.edit_skill("skills/pdf/scripts/run.sh", "$1", "\"$1\"").await.unwrap();
        assert_eq!(path.as_str(), "/agents/coder/skills/pdf/scripts/run.sh");
        assert_eq!(workspace.read_skill("pdf/scripts/run.sh").await.unwrap().origin, Origin::Agent);
        assert_eq!(fs.read_to_string("/skills/pdf/scripts/run.sh").await.unwrap(), "pdftotext $1\n");
        // The other files are still those of the account.
        assert_eq!(workspace.read_skill("pdf/SKILL.md").await.unwrap().origin, Origin::Global);
        workspace.write_skill("pdf/SKILL.md", "Mine.").await.unwrap();
        assert_eq!(&workspace.read_skill("pdf/SKILL.md").await.unwrap().bytes[..], b"Mine.");
        for bad in ["pdf/../../../x", "../pdf/SKILL.md", "pdf//x", "pdf/./x", "pdf"] {
            assert_refused(workspace.write_skill(bad, "x").await, ErrorKind::InvalidArgument);
            assert_refused(workspace.read_skill(bad).await, ErrorKind::InvalidArgument);
        }
        assert_refused(workspace.read_skill("pdf/none").await, ErrorKind::NotFound);
        assert_refused(workspace.edit_skill("pdf/SKILL.md", "not there", "x").await, ErrorKind::NotFound);
        workspace.write_skill("pdf/SKILL.md", "a a").await.unwrap();
        assert_refused(workspace.edit_skill("pdf/SKILL.md", "a", "x").await, ErrorKind::InvalidArgument);
        assert_refused(workspace.edit_skill("pdf/SKILL.md", "", "x").await, ErrorKind::InvalidArgument);
    }
}

#[tokio::test]
async fn skill_install_commits_differences_once() {
    for (fs, _kept) in engines().await {
        let files =
            |text: &'static str| vec![InstallFile::new("SKILL.md", text), InstallFile::new("a/b.txt", "b")];
        let workspace = workspace(&*fs);
        let done = workspace.install_skill("pdf", Origin::Global, &files(PDF)).await.unwrap();
        assert_eq!((done.path.as_str(), done.written.len(), done.same), ("/skills/pdf", 2, 0));
        let again = workspace.install_skill("pdf", Origin::Global, &files(PDF)).await.unwrap();
        assert_eq!((again.seq, again.same), (None, 2));
        let changed =
            workspace.install_skill("pdf", Origin::Global, &files("---\nalways: 7\n---\n")).await.unwrap();
        assert_eq!((changed.written, changed.same, changed.flaws.len()), (vec!["SKILL.md".to_owned()], 1, 2));
        let none = vec![InstallFile::new("readme.md", "x")];
        assert_refused(
            workspace.install_skill("pdf", Origin::Agent, &none).await,
            ErrorKind::InvalidArgument,
        );
        let mut out = files(PDF);
        out.push(InstallFile::new("../../../SOUL.md", "evil"));
        assert_refused(workspace.install_skill("pdf", Origin::Agent, &out).await, ErrorKind::InvalidArgument);
        assert!(!fs.exists("/agents/coder").await.unwrap());
    }
}

#[tokio::test]
async fn programs_of_a_skill_stay_executable() {
    for (fs, _kept) in engines().await {
        let workspace = workspace(&*fs);
        let files = |run: InstallFile| vec![InstallFile::new("SKILL.md", PDF), run];
        let run = |text: &'static str| InstallFile::new("run.sh", text);
        let mode = async |path: &str| fs.entry(path).await.unwrap().mode & 0o111;
        let install = async |run: InstallFile| {
            workspace.install_skill("pdf", Origin::Global, &files(run)).await.unwrap().written
        };
        install(run("one")).await;
        assert_eq!(mode("/skills/pdf/run.sh").await, 0);
        assert_eq!(install(run("one").executable(true)).await, ["run.sh"]);
        assert_eq!(mode("/skills/pdf/run.sh").await, 0o111);
        assert!(install(run("one").executable(true)).await.is_empty());
        // Who says nothing of it leaves it as it is.
        assert_eq!(install(run("one two")).await, ["run.sh"]);
        assert_eq!(mode("/skills/pdf/run.sh").await, 0o111);
        workspace.edit_skill("pdf/run.sh", "one", "three").await.unwrap();
        assert_eq!(mode("/agents/coder/skills/pdf/run.sh").await, 0o111);
        workspace.edit_skill("pdf/run.sh", "three", "four").await.unwrap();
        assert_eq!(mode("/agents/coder/skills/pdf/run.sh").await, 0o111);
        install(run("one two").executable(false)).await;
        assert_eq!(mode("/skills/pdf/run.sh").await, 0);
    }
}

#[tokio::test]
async fn sessions_cannot_write_settings_or_shared_skills() {
    for (fs, _kept) in engines().await {
        write(&*fs, "/skills/pdf/SKILL.md", PDF).await;
        write(&*fs, "/agents/coder/settings.json", "{}").await;
        write(&*fs, "/agents/coder/x.md", "x").await;
        let main = Author::agent("coder").with_user("ann").with_class("main");
        let path = |text: &str| TreePath::parse(text).unwrap();
        for op in [
            Op::write(path("/agents/coder/settings.json"), r#"{"daily_memory":"all"}"#),
            Op::append(path("/agents/coder/settings.json"), " "),
            Op::remove(path("/agents/coder/settings.json")),
            Op::rename(path("/agents/coder/x.md"), path("/agents/coder/settings.json")),
            Op::rename(path("/agents/coder/settings.json"), path("/agents/coder/y.json")),
            Op::link(path("/agents/coder/x.md"), path("/agents/other/settings.json")).with_parents(),
            Op::set_attrs(path("/agents/coder/settings.json"), SetAttrs::new().tags(["x"])),
            Op::write(path("/agents/new/settings.json"), "{}").with_parents(),
            Op::write(path("/skills/pdf/SKILL.md"), "evil"),
            Op::write(path("/skills/new/SKILL.md"), "evil").with_parents(),
            Op::remove_tree(path("/skills/pdf")),
            Op::remove_tree(path("/skills")),
            Op::rename(path("/skills"), path("/old")),
            Op::mkdir(path("/skills/new")),
        ] {
            let said = format!("{op:?}");
            let refused = fs.commit(Batch::new([op.clone()]).author(main.clone())).await;
            assert!(refused.is_err_and(|error| error.is(ErrorKind::RuleViolation)), "{said}");
        }
        let refused = workspace(&*fs)
            .author(main)
            .install_skill("pdf", Origin::Global, &[InstallFile::new("SKILL.md", "x")])
            .await;
        assert_refused(refused, ErrorKind::RuleViolation);
        assert_eq!(fs.read_to_string("/skills/pdf/SKILL.md").await.unwrap(), PDF);
    }
}

#[tokio::test]
async fn tree_edits_of_skills_stay_with_the_agent() {
    let (account, _kept) = account().await;
    write(&*account, "/skills/pdf/SKILL.md", PDF).await;
    write(&*account, "/agents/coder/settings.json", "{}").await;
    let request = Request::new("coder").chat("trip");
    let access = Access::open(&account, &Env::system(), Caller::ApiKey, &request).await.unwrap();
    let skill = garth_agent::tree::Skill::overriding("pdf").unwrap();
    let tree = access.tree().skills([skill]).open().await.unwrap();
    assert_eq!(tree.read_to_string("/.agent/settings.json").await.unwrap(), "{}");
    assert_refused(tree.write("/.agent/settings.json", "{\"x\":1}").await, ErrorKind::RuleViolation);
    assert_refused(tree.remove("/.agent/settings.json").await, ErrorKind::RuleViolation);
    tree.write("/skills/pdf/SKILL.md", "Mine.").await.unwrap();
    assert_eq!(account.read_to_string("/skills/pdf/SKILL.md").await.unwrap(), PDF);
    assert_eq!(account.read_to_string("/agents/coder/skills/pdf/SKILL.md").await.unwrap(), "Mine.");
}

#[tokio::test]
async fn published_skill_is_a_memory() {
    let (account, _kept) = account().await;
    let workspace = workspace(&*account);
    workspace.write_skill("pdf/SKILL.md", PDF).await.unwrap();
    let written = workspace.publish_skill("default", "pdf").await.unwrap();
    assert_eq!(written.meta.version, 1);
    let link = account.entry("/agents/coder/skills/pdf/content.md").await.unwrap();
    assert_eq!((link.kind, link.target.as_deref()), (Kind::Symlink, Some("SKILL.md")));
    let uri: Uri = "ctx://default/agents/coder/skills/pdf".parse().unwrap();
    let memories = Memories::new(&*account, "default");
    assert_eq!(memories.get(&uri, Level::Content).await.unwrap().text, PDF);
    // It is still a skill.
    assert_eq!(workspace.skills(&[host()]).await.unwrap().shown.len(), 1);
    workspace.edit_skill("pdf/SKILL.md", "pdftotext.", "pdftotext -layout.").await.unwrap();
    assert_eq!(workspace.publish_skill("default", "pdf").await.unwrap().meta.version, 2);
    assert!(memories.get(&uri, Level::Content).await.unwrap().text.contains("-layout"));
    assert_refused(workspace.publish_skill("default", "none").await, ErrorKind::NotFound);
}
