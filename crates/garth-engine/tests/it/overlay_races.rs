//! Overlays with several writers: another client changes a layer between two calls of one writer.

use std::sync::Arc;

use garth_engine::model::{At, Op, SetAttrs, Special};
use garth_engine::view::Overlay;
use garth_engine::{ErrorKind, FileSystemExt};
use garth_testkit::fs::interfering::{Call, Interfering};
use garth_testkit::tools::p;

use super::overlay::layers;

#[tokio::test]
async fn concurrent_writers_copy_a_file_up_once() {
    let layers = layers(true).await;
    let tree = layers.tree().await;
    let appends = (0..16).map(|n| {
        let tree = Arc::clone(&tree);
        tokio::spawn(async move {
            loop {
                match tree.append("/d/sub/b", format!("{n}\n")).await {
                    Ok(_) => return,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error:?}"),
                }
            }
        })
    });
    for append in appends.collect::<Vec<_>>() {
        append.await.unwrap();
    }
    let text = tree.read_to_string("/d/sub/b").await.unwrap();
    assert!(text.starts_with('b') && text.lines().count() == 16, "{text}");
}

#[tokio::test]
async fn copy_up_tolerates_concurrent_copy_up() {
    let mut met = 0;
    for skip in 0..30 {
        let layers = layers(true).await;
        let ino = layers.below.stat(&At::Path(p("/d/sub/b"))).await.unwrap().ino;
        let origin = SetAttrs::new().xattr("garth.overlay.origin", ino.0.to_string());
        let other = vec![
            Op::mkdir(p("/tree/d/sub")).with_parents(),
            Op::write(p("/tree/d/sub/b"), "b, other").with_attrs(origin),
            Op::link(p("/tree/d/sub/b"), p(&format!("/nodes/{}", ino.0))).with_parents(),
            Op::mknod(p("/hidden/d/sub/b"), Special::Whiteout).with_parents(),
        ];
        let above = Arc::new(Interfering::new(&layers.above, Call::Stat, skip, other));
        let tree = Overlay::open(Arc::clone(&layers.below), above).await.unwrap();
        tree.append("/d/sub/b", ", own").await.unwrap();
        let text = layers.tree().await.read_to_string("/d/sub/b").await.unwrap();
        assert!(["b, own", "b, other, own"].contains(&text.as_str()), "{skip}: {text}");
        met += usize::from(text.contains("other"));
    }
    assert!(met > 10, "{met}");
}

#[tokio::test]
async fn rename_tolerates_concurrent_directory_removal() {
    let mut met = 0;
    for (call, skip) in (0..60).map(|skip| (Call::Stat, skip)).chain((0..6).map(|skip| (Call::Walk, skip))) {
        let layers = layers(true).await;
        layers.tree().await.remove("/d/sub/b").await.unwrap();
        let other = vec![
            Op::remove_tree(p("/tree/d")),
            Op::remove_tree(p("/hidden/d")),
            Op::mknod(p("/hidden/d"), Special::Whiteout),
        ];
        let above = Arc::new(Interfering::new(&layers.above, call, skip, other));
        let tree = Overlay::open(Arc::clone(&layers.below), above).await.unwrap();
        let moved = tree.rename("/d", "/e").await;
        let tree = layers.tree().await;
        match moved {
            Ok(_) => assert!(tree.exists("/e/a").await.unwrap() && !tree.exists("/e/sub/b").await.unwrap()),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NotFound, "{call:?} {skip}: {error:?}");
                assert!(!tree.exists("/e").await.unwrap());
                met += 1;
            }
        }
        assert!(!tree.exists("/d").await.unwrap());
    }
    assert!(met > 10, "{met}");
}
