//! The conveniences of the library do what their documentation says.

use bytes::Bytes;
use futures::TryStreamExt;
use garth::model::{Batch, Ino, Op, Page, Seq};
use garth::{ErrorKind, FileSystem, FileSystemExt, TreePath};
use garth_engine::model::MAX_READ;

#[tokio::test]
async fn read_file_returns_long_files_completely() {
    let folder = tempfile::tempdir().unwrap();
    let data = garth::open(folder.path()).unwrap();
    data.dir().create_account("acme").await.unwrap();
    let fs = data.dir().account("acme").await.unwrap();
    let content: Bytes = (0..MAX_READ + 12_345).map(|n| u8::try_from(n % 251).unwrap()).collect();
    fs.write("/long", content.clone()).await.unwrap();
    assert!(fs.read_file("/long").await.unwrap() == content);
}

#[tokio::test]
async fn reads_by_text_path_and_inode() {
    let fs = garth::in_memory();
    let ino = fs.write("/a", "text").await.unwrap().ino;
    let path = TreePath::parse("/a").unwrap();
    for text in [fs.read_to_string("/a").await, fs.read_to_string(&path).await, fs.read_to_string(ino).await]
    {
        assert_eq!(text.unwrap(), "text");
    }
    let error = fs.read_file("a").await.unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string()),
        (ErrorKind::InvalidArgument, "`a`: a path starts with `/`".into())
    );
}

#[tokio::test]
async fn mkdir_all_of_existing_directory_commits_nothing() {
    let fs = garth::in_memory();
    let made = fs.mkdir_all("/a/b").await.unwrap();
    assert_eq!(fs.mkdir_all("/a/b").await.unwrap(), made);
    assert_eq!(fs.head().await.unwrap().seq, Seq(1));
    fs.write("/file", "").await.unwrap();
    assert!(fs.mkdir_all("/file").await.unwrap_err().is(ErrorKind::AlreadyExists));
}

#[tokio::test]
async fn read_dir_and_walk_all_read_every_page() {
    let fs = garth::in_memory();
    let count = <Page>::default().limit + 1;
    let ops =
        (0..count).map(|n| Op::write(TreePath::parse(&format!("/d/{n:05}")).unwrap(), "").with_parents());
    fs.commit(ops.collect()).await.unwrap();
    let names: Vec<_> = fs.read_dir("/d").try_collect().await.unwrap();
    let paths: Vec<_> = fs.walk_all("/").try_collect().await.unwrap();
    assert_eq!((names.len(), paths.len()), (count, count + 1));
    assert!(paths.iter().all(|item| item.entry.is_some()));
    assert!(fs.read_dir("/none").try_next().await.unwrap_err().is(ErrorKind::NotFound));
}

#[tokio::test]
async fn lookup_of_missing_path_returns_none() {
    let fs = garth::in_memory();
    fs.write("/file", "").await.unwrap();
    assert!(fs.lookup("/none").await.unwrap().is_none());
    assert!(!fs.exists("/file/below").await.unwrap());
    assert!(!fs.exists(Ino(99)).await.unwrap());
    assert!(fs.exists("/file").await.unwrap());
}

#[tokio::test]
async fn commit_rejects_unsupported_option() {
    let fs = garth::in_memory();
    fs.write("/file", "").await.unwrap();
    for misused in [Op::remove(TreePath::root()).create_new().if_exists(), Op::snapshot("s").with_parents()] {
        let before = fs.head().await.unwrap().seq;
        let batch = Batch::new([Op::remove(TreePath::parse("/file").unwrap()), misused]);
        let error = fs.commit(batch).await.unwrap_err();
        assert!(error.is(ErrorKind::InvalidArgument), "{error:?}");
        assert!(error.message().contains("has no option"), "{error:?}");
        assert_eq!(fs.head().await.unwrap().seq, before);
    }
}
