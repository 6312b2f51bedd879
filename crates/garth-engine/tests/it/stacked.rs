//! Contract suite through several views, stacked at random.

/// Runs the contract suite on the stack of each seed.
macro_rules! stacks {
    ($($name:ident: $seed:literal on $engine:ident;)*) => {
        $(
            mod $name {
                use garth_testkit::subject::Subject;
                use garth_testkit::subject::stacked::{View, drawn};

                async fn subject() -> Subject {
                    super::$engine().stacked(&drawn($seed, View::ALL)).await
                }

                garth_testkit::contract_tests!(subject);
            }
        )*
    };
}

use garth_engine::FileSystemExt;
use garth_engine::model::{Ino, Op, Precondition};
use garth_testkit::subject::Subject;
use garth_testkit::subject::stacked::View;
use garth_testkit::tools::p;

fn memory() -> Subject {
    Subject::memory()
}

fn sqlite() -> Subject {
    Subject::sqlite(&std::env::temp_dir())
}

stacks! {
    seed_2: 2 on memory;
    seed_34: 34 on memory;
    seed_18: 18 on sqlite;
    seed_19: 19 on sqlite;
}

#[tokio::test]
async fn nested_overlay_finds_nodes_by_inode() {
    let views = [View::Overlay { one_store: false }, View::Overlay { one_store: true }];
    let subject = memory().stacked(&views).await;
    let fs = &*subject.fs;
    fs.write("/f", "f").await.unwrap();
    let entry = fs.entry("/f").await.unwrap();
    assert_eq!(fs.stat(&entry.ino.into()).await.unwrap(), entry);
    fs.append(entry.ino, "!").await.unwrap();
    assert_eq!(fs.read_to_string("/f").await.unwrap(), "f!");
}

#[tokio::test]
async fn check_of_view_root_returns_root_inode() {
    for view in View::ALL {
        let subject = memory().stacked(&[*view]).await;
        let commit = subject.fs.commit(Op::check(p("/"), Precondition::Exists).into()).await.unwrap();
        assert_eq!(commit.outcomes[0].ino, Ino::ROOT, "{view:?}");
    }
}
