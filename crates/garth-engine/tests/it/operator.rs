//! Files of all accounts as one read-only tree.

use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt as _;
use futures::executor::block_on;
use garth_engine::engine::memory::MemoryFs;
use garth_engine::fs::resolve::{self, Follow};
use garth_engine::home::{FILES_OWNER, OperatorTree};
use garth_engine::model::{
    At, Batch, Body, ByteRange, Change, ChangesQuery, CommitId, Confinement, FindQuery, HistoryPage, Ino,
    Kind, Moment, NamesPage, Op, Owner, Page, SearchQuery, Seq, SetAttrs, SnapshotsPage, Timestamp, WalkPage,
    Within,
};
use garth_engine::rule::sample;
use garth_engine::view::{Mount, Overlay, Scope};
use garth_engine::{DataDir, Env, Error, ErrorKind, FileSystem, FileSystemExt as _, TreePath};

struct World {
    data: DataDir,
    all: OperatorTree,
    folder: tempfile::TempDir,
}

fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

fn at(text: &str) -> At {
    path(text).into()
}

impl World {
    /// Creates accounts, each with a file of its own words.
    fn new(accounts: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(folder.path(), Env::system(), sample::registry()).unwrap();
        for account in accounts {
            block_on(data.create_account(account)).unwrap();
        }
        let all = OperatorTree::new(Arc::new(data.clone()));
        let world = Self { data, all, folder };
        for account in accounts {
            let note = Op::write(path("/notes/tea.md"), format!("{account} drinks tea\n"));
            world.commit(account, note.with_parents().with_attrs(SetAttrs::new().tags(["kept"])));
        }
        world
    }

    /// Replaces the stored tree of an account by a file, or removes it.
    fn damaged(self, account: &str, database: Option<&[u8]>) -> Self {
        let accounts = self.folder.path().join("accounts");
        let stored = accounts.join(block_on(self.data.control().account(account)).unwrap().folder);
        // Moved, not changed in place: the data folder may still have it open.
        std::fs::rename(&stored, self.folder.path().join(account)).unwrap();
        if let Some(bytes) = database {
            std::fs::create_dir(&stored).unwrap();
            std::fs::write(stored.join("tree.db"), bytes).unwrap();
        }
        let data = DataDir::open(self.folder.path(), Env::system(), sample::registry()).unwrap();
        Self { all: OperatorTree::new(Arc::new(data.clone())), data, ..self }
    }

    fn commit(&self, account: &str, op: Op) {
        let tree = block_on(self.data.account(account)).unwrap();
        block_on(tree.commit(Batch::new([op]))).unwrap();
    }

    fn names(&self, dir: &str, page: &Page) -> (Vec<String>, bool) {
        let listed = block_on(self.all.list(&at(dir), page)).unwrap();
        assert!(listed.items.iter().all(|item| item.entry.is_some() == page.entries));
        (listed.items.iter().map(|item| item.name.as_str().to_owned()).collect(), listed.more)
    }

    fn read(&self, text: &str) -> Result<String, Error> {
        read(&self.all, text)
    }
}

/// Reads a file at a path as a person writes it.
fn read(fs: &dyn FileSystem, text: &str) -> Result<String, Error> {
    let (path, _) = block_on(resolve::stat(fs, text, Follow::Yes))?;
    block_on(fs.read_to_string(&path))
}

#[test]
fn accounts_are_directories_below_accounts() {
    let world = World::new(&["acme", "beta"]);
    assert_eq!(world.names("/", &Page::default()), (vec!["accounts".to_owned()], false));
    let accounts = vec!["acme".to_owned(), "beta".to_owned()];
    assert_eq!(world.names("/accounts", &Page::default().with_entries()), (accounts, false));
    assert_eq!(world.names("/accounts/acme", &Page::default()).0, ["notes"]);
    for dir in ["/", "/accounts", "/accounts/acme", "/accounts/acme/notes"] {
        let entry = block_on(world.all.stat(&at(dir))).unwrap();
        assert_eq!(entry.kind, Kind::Directory, "{dir}");
        let names: Vec<TreePath> = block_on(world.all.all_names(path(dir)).try_collect()).unwrap();
        assert_eq!(names, [path(dir)]);
        assert_eq!(block_on(block_on(world.all.hold(&at(dir))).unwrap().stat()).unwrap(), entry);
        assert!(block_on(world.all.read_to_string(dir)).unwrap_err().is(ErrorKind::IsADirectory), "{dir}");
    }
    assert_eq!(world.read("/accounts/beta/notes/tea.md").unwrap(), "beta drinks tea\n");
    for missing in ["/acme", "/account", "/accounts/none", "/accounts/none/f", "/accounts/acme/none"] {
        let error = block_on(world.all.stat(&at(missing))).unwrap_err();
        assert!(error.is(ErrorKind::NotFound), "{missing}: {error}");
        assert!(error.path().is_some_and(|named| path(missing).is_within(named)), "{missing}: {error}");
    }
}

#[test]
fn list_of_accounts_has_pages_and_opens_none() {
    let names: Vec<String> = (0..7).map(|n| format!("account-{n}")).collect();
    let folder = tempfile::tempdir().unwrap();
    let data = DataDir::open(folder.path(), Env::system(), sample::registry()).unwrap();
    for name in names.iter().map(String::as_str).chain(["deleted"]) {
        block_on(data.create_account(name)).unwrap();
    }
    block_on(data.delete_account("deleted")).unwrap();
    drop(data);
    // Trees that are missing cannot be opened, and are listed nonetheless.
    std::fs::rename(folder.path().join("accounts"), folder.path().join("elsewhere")).unwrap();
    let data = DataDir::open(folder.path(), Env::system(), sample::registry()).unwrap();
    let all = OperatorTree::new(Arc::new(data));
    for limit in [1, 3, 7, 100] {
        let (mut found, mut page) = (Vec::new(), Page::default().limit(limit).with_entries());
        loop {
            let listed = block_on(all.list(&at("/accounts"), &page)).unwrap();
            assert!(listed.items.len() <= limit);
            let next = listed.items.last().map(|item| item.name.clone()).filter(|_| listed.more);
            found.extend(listed.items.into_iter().map(|item| item.name.as_str().to_owned()));
            match next {
                Some(next) => page = page.after(next),
                None => break,
            }
        }
        assert_eq!(found, names, "in pages of {limit}");
    }
    assert!(block_on(all.stat(&at("/accounts/account-0"))).unwrap().is_dir());
    let opened = block_on(all.list(&at("/accounts/account-0"), &Page::default()));
    assert!(opened.unwrap_err().is(ErrorKind::Corrupt));
}

#[test]
fn every_write_is_refused() {
    let world = World::new(&["acme"]);
    let head = || block_on(block_on(world.data.account("acme")).unwrap().head()).unwrap().seq;
    let before = head();
    for dir in ["", "/accounts", "/accounts/acme", "/accounts/new"] {
        let error = block_on(world.all.write(format!("{dir}/f").as_str(), "x")).unwrap_err();
        assert!(error.is(ErrorKind::ReadOnly) && error.message().contains("read-only"), "{error}");
    }
    let remove = Batch::new([Op::remove_tree(path("/accounts/acme/notes"))]);
    assert!(block_on(world.all.commit(remove)).unwrap_err().is(ErrorKind::ReadOnly));
    assert!(block_on(world.all.commit(Batch::default())).unwrap_err().is(ErrorKind::ReadOnly));
    assert!(block_on(world.all.stage(&at("/accounts/acme/f"))).unwrap_err().is(ErrorKind::ReadOnly));
    assert!(block_on(world.all.sync()).unwrap_err().is(ErrorKind::ReadOnly));
    for place in ["/", "/accounts", "/accounts/acme", "/accounts/acme/notes"] {
        assert!(!world.all.capabilities(&path(place)).write, "{place}");
    }
    assert_eq!(head(), before);
}

#[test]
fn links_stay_in_their_account() {
    let world = World::new(&["acme", "beta"]);
    let link = |name: &str, to: &str| {
        world.commit("acme", Op::symlink(path(&format!("/notes/{name}")), to));
    };
    link("absolute", "/notes/tea.md");
    link("relative", "tea.md");
    link("other", "/accounts/beta/notes/tea.md");
    link("above", "../../beta/notes/tea.md");
    link("far-above", "../../../../accounts/beta/notes/tea.md");
    link("top", "/");
    link("by-top", "top/../../beta/notes/tea.md");
    link("to-link", "/notes/above");
    link("here", ".");
    for name in ["absolute", "relative", "top/notes/tea.md"] {
        assert_eq!(world.read(&format!("/accounts/acme/notes/{name}")).unwrap(), "acme drinks tea\n");
    }
    // A path that a person writes cannot leave the account after a link of it.
    let written = ["top/../beta/notes/tea.md", "top/../accounts/beta/notes/tea.md"];
    let further = ["here/../../../beta/notes/tea.md", "here/top/../notes/top/../../beta/notes/tea.md"];
    for name in ["other", "above", "far-above", "by-top", "to-link"].iter().chain(&written).chain(&further) {
        let error = world.read(&format!("/accounts/acme/notes/{name}")).unwrap_err();
        assert!(error.is(ErrorKind::NotFound), "{name}: {error}");
        assert!(
            error.path().is_some_and(|named| named.is_within(&path("/accounts/acme"))),
            "{name}: {error}"
        );
    }
    // In the account, `..` after a link is the parent of its target, as the account itself sees it.
    world.commit("acme", Op::write(path("/a/b/f"), "of acme").with_parents());
    link("deep", "/a/b");
    for within in ["deep/../b/f", "top/../a/b/f", "deep/../../notes/deep/f"] {
        assert_eq!(world.read(&format!("/accounts/acme/notes/{within}")).unwrap(), "of acme", "{within}");
        let own = block_on(world.data.account("acme")).unwrap();
        assert_eq!(read(&*own, &format!("/notes/{within}")).unwrap(), "of acme", "{within}");
    }
    let own = block_on(world.data.account("acme")).unwrap();
    let (found, _) = block_on(resolve::stat(&*own, "/notes/top/notes/absolute", Follow::Yes)).unwrap();
    assert_eq!(found, path("/notes/tea.md"));
    // Without a link, a path that a person writes may lead from one account to another.
    assert_eq!(world.read("/accounts/acme/../beta/notes/tea.md").unwrap(), "beta drinks tea\n");
}

#[test]
fn views_keep_links_in_their_account() {
    let world = World::new(&["acme", "beta"]);
    world.commit("acme", Op::symlink(path("/notes/top"), "/"));
    world.commit("acme", Op::symlink(path("/notes/above"), "../../beta"));
    let memory = || Arc::new(MemoryFs::new(Env::system(), sample::registry()));
    let all = || -> Arc<dyn FileSystem> { Arc::new(world.all.clone()) };
    let base = memory();
    let links = [("/into", "/all/accounts/acme/notes/top"), ("/accounts", "all/accounts")];
    let links = links.map(|(name, to)| Op::symlink(path(name), to));
    block_on(base.commit(Batch::new(links))).unwrap();
    let mount = Mount::builder(&*base, &TreePath::root(), Owner::new("tree").unwrap());
    let mount = block_on(mount.mount(path("/all"), all()).open()).unwrap();
    let overlay = block_on(Overlay::open(all(), memory())).unwrap();
    let scope = block_on(Scope::open(&*overlay, &path("/accounts"))).unwrap();
    let places = [(&mount, "/all/accounts"), (&mount, "/accounts"), (&overlay, "/accounts"), (&scope, "")];
    for (fs, top) in places {
        let read = |below: &str| read(&**fs, &format!("{top}/{below}"));
        for inside in ["acme/notes/top/notes/tea.md", "acme/notes/top/../notes/tea.md"] {
            assert_eq!(read(inside).unwrap(), "acme drinks tea\n", "{top}: {inside}");
        }
        for outside in [
            "acme/notes/above/notes/tea.md",
            "acme/notes/top/../beta/notes/tea.md",
            "acme/notes/top/../../accounts/beta/notes/tea.md",
        ] {
            let error = read(outside).unwrap_err();
            assert!(error.is(ErrorKind::NotFound), "{top}: {outside}: {error}");
        }
        // Not by a link of an account.
        assert_eq!(read("acme/../beta/notes/tea.md").unwrap(), "beta drinks tea\n", "{top}");
    }
    assert_eq!(read(&*mount, "/into/notes/tea.md").unwrap(), "acme drinks tea\n");
    assert!(read(&*mount, "/into/../beta/notes/tea.md").unwrap_err().is(ErrorKind::NotFound));
    // A scope inside of an account has no larger limit than its own root.
    let inner = block_on(Scope::open(&*overlay, &path("/accounts/acme/notes"))).unwrap();
    assert!(read(&*inner, "/top/notes/tea.md").unwrap_err().is(ErrorKind::NotFound));
    assert_eq!(read(&*inner, "/top/../tea.md").unwrap(), "acme drinks tea\n");
}

#[test]
fn reads_of_one_account_have_its_paths() {
    let world = World::new(&["acme", "beta"]);
    let all = &world.all;
    let tea = path("/accounts/acme/notes/tea.md");
    let walk = block_on(all.walk(&at("/accounts/acme"), &WalkPage::default().limit(1))).unwrap();
    assert_eq!((walk.items[0].path.as_str(), walk.more), ("/accounts/acme/notes", true));
    let rest = WalkPage::default().after(walk.items[0].path.clone());
    assert_eq!(block_on(all.walk(&at("/accounts/acme"), &rest)).unwrap().items[0].path, tea);
    let found = block_on(all.find(&FindQuery::tag("kept").within(path("/accounts/acme")))).unwrap();
    assert_eq!(found.items.iter().map(|item| &item.path).collect::<Vec<_>>(), [&tea]);
    let query = SearchQuery::new("tea").within_any([path("/accounts/acme")]);
    let hits = block_on(all.search(&query)).unwrap().hits;
    assert_eq!(hits.iter().map(|hit| &hit.path).collect::<Vec<_>>(), [&tea]);
    let mut query = ChangesQuery::since(Seq(0));
    query.within = vec![path("/accounts/acme/notes")];
    let commits = block_on(all.changes(&query)).unwrap().commits;
    let changes = commits.iter().flat_map(|commit| &commit.changes);
    let paths: Vec<&TreePath> = changes.flat_map(|change| &change.paths).collect();
    assert!(paths.contains(&&tea) && paths.iter().all(|found| found.is_within(&path("/accounts/acme"))));
    assert_eq!(block_on(all.history(&At::from(&tea), &HistoryPage::default())).unwrap().items.len(), 1);
    assert_eq!(block_on(all.blame(&At::from(&tea), ByteRange::ALL, 10)).unwrap().runs.len(), 1);
    let names = block_on(all.names(&At::from(&tea), &NamesPage::default())).unwrap();
    assert_eq!(names.items, [tea]);
}

#[test]
fn calls_across_accounts_are_refused() {
    let world = World::new(&["acme", "beta"]);
    let all = &world.all;
    let both = || [path("/accounts/acme"), path("/accounts/beta")];
    let refused = |error: Error| {
        assert!(error.is(ErrorKind::Unsupported), "{error}");
        let message = error.message();
        let hints = ["one account", "name a", "key of the account"];
        assert!(hints.iter().any(|hint| message.contains(hint)), "{error}");
    };
    refused(block_on(all.search(&SearchQuery::new("tea"))).unwrap_err());
    refused(block_on(all.search(&SearchQuery::new("tea").within_any(both()))).unwrap_err());
    refused(block_on(all.search(&SearchQuery::new("tea").within_any([path("/accounts")]))).unwrap_err());
    refused(block_on(all.find(&FindQuery::tag("kept"))).unwrap_err());
    refused(block_on(all.find(&FindQuery::tag("kept").within_any(both()))).unwrap_err());
    refused(block_on(all.changes(&ChangesQuery::since(Seq(0)))).unwrap_err());
    refused(block_on(all.head()).unwrap_err());
    refused(block_on(all.wait(Seq(0))).unwrap_err());
    refused(block_on(all.snapshots(&SnapshotsPage::default())).unwrap_err());
    refused(block_on(all.as_of(&Moment::Snapshot("s".to_owned()))).unwrap_err());
    for dir in ["/", "/accounts"] {
        refused(block_on(all.walk(&at(dir), &WalkPage::default())).unwrap_err());
    }
    for dir in ["/", "/accounts", "/accounts/acme"] {
        refused(block_on(all.history(&at(dir), &HistoryPage::default())).unwrap_err());
    }
    // `None` would mean: commit it again.
    refused(block_on(all.committed(CommitId(1))).unwrap_err());
    refused(block_on(all.recorded("key")).unwrap_err());
    refused(block_on(all.stat(&At::Node(Ino(2)))).unwrap_err());
    assert!(block_on(all.stat(&At::Node(Ino::ROOT))).unwrap().is_dir());
}

#[test]
fn several_files_are_answered_account_by_account() {
    let world = World::new(&["acme", "beta"]);
    let of = |account: &str| (at(&format!("/accounts/{account}/notes/tea.md")), ByteRange::ALL);
    let fetch = |items: &[(At, ByteRange)]| block_on(world.all.fetch_many(items)).unwrap().items;
    let items = [of("acme"), of("acme"), of("beta"), of("acme")];
    let first = fetch(&items);
    assert_eq!(first.len(), 2);
    assert_eq!(first[1].as_ref().unwrap().1, "acme drinks tea\n");
    assert_eq!(fetch(&items[2..])[0].as_ref().unwrap().1, "beta drinks tea\n");
    for (wrong, kind) in [
        ("/accounts/none/f", ErrorKind::NotFound),
        ("/none", ErrorKind::NotFound),
        ("/accounts", ErrorKind::IsADirectory),
        ("/accounts/acme", ErrorKind::IsADirectory),
    ] {
        let answered = fetch(&[(at(wrong), ByteRange::ALL), of("beta")]);
        let error = answered[0].as_ref().unwrap_err();
        assert!(error.is(kind), "{wrong}: {error}");
        assert!(error.path().is_some_and(|named| path(wrong).is_within(named)), "{wrong}: {error}");
    }
    assert!(fetch(&[]).is_empty());
}

#[test]
fn only_files_of_one_account_have_a_common_state() {
    let world = World::new(&["acme", "beta"]);
    world.commit("acme", Op::write(path("/notes/milk.md"), "white"));
    let of = |account: &str| (at(&format!("/accounts/{account}/notes/tea.md")), ByteRange::ALL);
    let state = |items: &[(At, ByteRange)]| block_on(world.all.fetch_many(items)).unwrap().seq;
    let wrong = (at("/none"), ByteRange::ALL);
    let head = block_on(block_on(world.data.account("acme")).unwrap().head()).unwrap().seq;
    assert_eq!(state(&[of("acme"), of("acme")]), Some(head));
    assert_eq!(state(&[wrong.clone(), of("acme")]), Some(head), "the error is one in any state");
    // The other account has no such commit.
    assert_eq!(state(&[of("acme"), of("beta")]), None);
    for stateless in [vec![wrong], vec![of("none"), of("none")], Vec::new()] {
        assert_eq!(state(&stateless), None, "{stateless:?}");
    }
}

#[test]
fn broken_account_is_named_and_hides_no_other() {
    let world = World::new(&["acme", "beta", "gamma", "omega", "zeta"]);
    let world = world.damaged("beta", None).damaged("gamma", Some(b"")).damaged("omega", Some(&[7; 8192]));
    let (all, broken) = (&world.all, ["beta", "gamma", "omega"]);
    for account in broken {
        let (top, file) = (format!("/accounts/{account}"), format!("/accounts/{account}/notes/tea.md"));
        let search = SearchQuery::new("tea").within_any([path(&top)]);
        let find = FindQuery::tag("kept").within_any([path(&top)]);
        for error in [
            block_on(all.list(&at(&top), &Page::default())).unwrap_err(),
            block_on(all.walk(&at(&top), &WalkPage::default())).unwrap_err(),
            block_on(all.stat(&at(&file))).unwrap_err(),
            block_on(all.fetch(&at(&file), ByteRange::ALL)).unwrap_err(),
            block_on(all.search(&search)).unwrap_err(),
            block_on(all.find(&find)).unwrap_err(),
            block_on(OperatorTree::of_account(Arc::new(world.data.clone()), account).head()).unwrap_err(),
        ] {
            assert!(error.is_of_storage() && error.path() == Some(&path(&top)), "{account}: {error:?}");
        }
        // As in the list, which opens none.
        assert!(block_on(all.stat(&at(&top))).unwrap().is_dir());
    }
    let accounts = ["acme", "beta", "beta", "gamma", "omega", "zeta"];
    let items = accounts.map(|account| (at(&format!("/accounts/{account}/notes/tea.md")), ByteRange::ALL));
    let mut answers = Vec::new();
    while answers.len() < items.len() {
        let more = block_on(all.fetch_many(&items[answers.len()..])).unwrap();
        assert!(!more.items.is_empty(), "the caller gets past each account");
        answers.extend(more.items);
    }
    for (account, answer) in accounts.iter().zip(answers) {
        match answer {
            Ok((_, bytes)) => assert_eq!(bytes, format!("{account} drinks tea\n")),
            Err(error) => assert!(broken.contains(account) && error.is_of_storage(), "{account}: {error}"),
        }
    }
}

#[test]
fn backup_passes_accounts_that_cannot_be_read() {
    let world = World::new(&["acme", "beta", "gamma", "zeta"]);
    let world = world.damaged("beta", None).damaged("gamma", Some(&[7; 8192]));
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy");
    let copied = block_on(world.data.backup(&copy)).unwrap();
    let copies = copied.iter().map(|(account, backup)| (account.as_str(), backup.is_ok()));
    let expected = [("acme", true), ("beta", false), ("gamma", false), ("zeta", true)];
    assert_eq!(copies.collect::<Vec<_>>(), expected);
    assert!(copied.iter().filter_map(|(_, backup)| backup.as_ref().err()).all(Error::is_of_storage));
    let copied = DataDir::open(&copy, Env::system(), sample::registry()).unwrap();
    let all = OperatorTree::new(Arc::new(copied));
    for (account, is_sound) in expected {
        let note = read(&all, &format!("/accounts/{account}/notes/tea.md"));
        match is_sound {
            true => assert_eq!(note.unwrap(), format!("{account} drinks tea\n")),
            false => assert!(note.unwrap_err().is(ErrorKind::Corrupt), "{account}"),
        }
    }
    // An account that lacks a pack is damaged, too.
    let world = World::new(&["acme", "beta"]);
    let account = block_on(world.data.account("beta")).unwrap();
    let mut upload = block_on(account.stage(&at("/large"))).unwrap();
    block_on(upload.write(Bytes::from(vec![7; 3 << 20]))).unwrap();
    let body = Body::Staged(block_on(upload.finish()).unwrap());
    world.commit("beta", Op::write(path("/large"), body));
    let stored = block_on(world.data.control().account("beta")).unwrap().folder;
    let packs = world.folder.path().join("accounts").join(stored).join("packs");
    for pack in std::fs::read_dir(packs).unwrap() {
        std::fs::remove_file(pack.unwrap().path()).unwrap();
    }
    let copied = block_on(world.data.backup(&folder.path().join("packs"))).unwrap();
    assert!(copied[0].1.is_ok() && copied[1].1.as_ref().unwrap_err().is(ErrorKind::Corrupt), "{copied:?}");
    // A copy without any tree is no backup.
    let world = World::new(&["acme"]).damaged("acme", None);
    let copy = folder.path().join("empty");
    let error = block_on(world.data.backup(&copy)).unwrap_err();
    assert!(error.is(ErrorKind::Corrupt) && error.message().starts_with("account acme: the"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "{}", copy.display());
}

#[test]
fn search_patterns_match_paths_of_all_accounts() {
    let world = World::new(&["acme", "beta"]);
    world.commit("acme", Op::write(path("/deep/er/tea.md"), "more tea\n").with_parents());
    let (tea, deep) = ("/accounts/acme/notes/tea.md", "/accounts/acme/deep/er/tea.md");
    let found = |query: SearchQuery| {
        let hits = block_on(world.all.search(&query)).unwrap().hits;
        let mut paths: Vec<String> = hits.iter().map(|hit| hit.path.to_string()).collect();
        paths.sort();
        paths
    };
    let search = || SearchQuery::new("tea");
    // Without `within`, the pattern names the account.
    assert_eq!(found(search().pattern("/accounts/acme/notes/*.md")), [tea]);
    assert_eq!(found(search().pattern("/accounts/acme/**")), [deep, tea]);
    let both = search().pattern("/accounts/acme/deep/**").pattern("/accounts/acme/n*/*");
    assert_eq!(found(both), [deep, tea]);
    for (pattern, paths) in [
        ("/**/*.md", &[deep, tea][..]),
        ("/accounts/*/notes/*", &[tea]),
        ("/accounts/{acme,none}/**/er/*", &[deep]),
        ("/accounts/beta/**", &[]),
        ("/notes/*.md", &[]),
    ] {
        let within = search().within_any([path("/accounts/acme")]).pattern(pattern);
        assert_eq!(found(within), paths, "{pattern}");
    }
    let error = block_on(world.all.search(&search().pattern("/accounts/*/notes/*"))).unwrap_err();
    assert!(error.is(ErrorKind::Unsupported) && error.message().contains("one account"), "{error}");
    let malformed = search().within_any([path("/accounts/acme")]).pattern("a//b");
    assert!(block_on(world.all.search(&malformed)).unwrap_err().is(ErrorKind::InvalidArgument));
}

#[test]
fn account_is_shown_as_its_file_calls_show_it() {
    let world = World::new(&["acme"]);
    let account = block_on(world.data.account("acme")).unwrap();
    let of = |owner: &str| {
        let to = Confinement::new(Within::everything(), Owner::new(owner).unwrap());
        block_on(account.confined(&to)).unwrap()
    };
    let (files, agent) = (of(FILES_OWNER), of("agent"));
    let snapshot = |fs: &dyn FileSystem, name: &str| {
        block_on(fs.commit(Batch::new([Op::snapshot(name)]))).unwrap();
    };
    snapshot(&*files, "of-files");
    snapshot(&*agent, "of-agent");
    snapshot(&*account, "of-account");
    let changes = |fs: &dyn FileSystem, within: &str| {
        let mut query = ChangesQuery::since(Seq(0));
        query.within = vec![path(within)];
        let commits = block_on(fs.changes(&query)).unwrap().commits.into_iter();
        let kinds = |changes: Vec<Change>| changes.into_iter().map(|change| change.kind).collect::<Vec<_>>();
        commits.map(|commit| (commit.commit, kinds(commit.changes))).collect::<Vec<_>>()
    };
    let shown = changes(&world.all, "/accounts/acme");
    assert_eq!(shown, changes(&*files, "/"));
    let text = format!("{shown:?}");
    assert!(
        text.contains("of-files") && !text.contains("of-agent") && !text.contains("of-account"),
        "{text}"
    );
    // As for a key of the account, a moment is also a snapshot of the account itself.
    let one = OperatorTree::of_account(Arc::new(world.data.clone()), "acme");
    let named = |name: &str| block_on(one.as_of(&Moment::Snapshot(name.to_owned())));
    for name in ["of-files", "of-account"] {
        assert_eq!(named(name).unwrap().path_text("/accounts/acme/notes/tea.md"), "acme drinks tea\n");
    }
    assert!(named("of-agent").unwrap_err().is(ErrorKind::NotFound));
}

#[test]
fn past_is_that_of_each_account() {
    let folder = tempfile::tempdir().unwrap();
    let (env, clock) = Env::manual(Timestamp(1_769_472_000_000_000_000));
    let data = DataDir::open(folder.path(), env, sample::registry()).unwrap();
    for account in ["acme", "beta"] {
        block_on(data.create_account(account)).unwrap();
        block_on(block_on(data.account(account)).unwrap().write("/f", "old")).unwrap();
    }
    let then = Timestamp(1_769_472_000_000_000_000).plus_seconds(10);
    clock.advance(std::time::Duration::from_secs(60));
    for account in ["acme", "beta"] {
        block_on(block_on(data.account(account)).unwrap().write("/f", "new")).unwrap();
    }
    let all = OperatorTree::new(Arc::new(data.clone()));
    let past = block_on(all.as_of(&Moment::Time(then))).unwrap();
    for account in ["acme", "beta"] {
        let file = path(&format!("/accounts/{account}/f"));
        assert_eq!(block_on(past.read_to_string(&file)).unwrap(), "old");
        assert_eq!(block_on(all.read_to_string(&file)).unwrap(), "new");
    }
    let one = OperatorTree::of_account(Arc::new(data), "acme");
    let head = block_on(one.head()).unwrap();
    assert_eq!(block_on(one.as_of(&head.seq.into())).unwrap().path_text("/accounts/acme/f"), "new");
    assert!(block_on(one.as_of(&Moment::Seq(Seq(head.seq.0 + 1)))).unwrap_err().is(ErrorKind::NotFound));
    assert!(block_on(one.as_of(&Moment::Snapshot("none".to_owned()))).unwrap_err().is(ErrorKind::NotFound));
    assert!(block_on(one.stat(&at("/accounts/beta/f"))).unwrap_err().is(ErrorKind::NotFound));
    let late = block_on(all.as_of(&Moment::Seq(Seq(99)))).unwrap();
    let top = at("/accounts/acme");
    for error in [
        block_on(late.stat(&top)).unwrap_err(),
        block_on(late.names(&top, &NamesPage::default())).unwrap_err(),
        block_on(late.list(&top, &Page::default())).unwrap_err(),
        block_on(late.hold(&top)).unwrap_err(),
    ] {
        assert!(error.is(ErrorKind::NotFound) && error.path() == Some(&path("/accounts/acme")), "{error}");
    }
    assert!(block_on(past.stat(&top)).unwrap().is_dir());
    assert!(!block_on(one.changes(&ChangesQuery::since(Seq(0)))).unwrap().commits.is_empty());
    let listed = block_on(one.list(&at("/accounts"), &Page::default())).unwrap();
    assert_eq!(listed.items.iter().map(|item| item.name.as_str()).collect::<Vec<_>>(), ["acme"]);
}

/// Reads a file of a tree that is only known as a trait object.
trait PathText {
    fn path_text(&self, path: &str) -> String;
}

impl PathText for Arc<dyn FileSystem> {
    fn path_text(&self, path: &str) -> String {
        block_on(self.read_to_string(path)).unwrap()
    }
}
