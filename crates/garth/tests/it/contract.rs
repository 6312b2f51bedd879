//! The contract suite on every engine.

mod memory {
    use std::sync::Arc;

    use garth::engine::memory::Memory;
    use garth_testkit::contract::Subject;

    async fn subject() -> Subject {
        let (env, clock) = Subject::clock();
        Subject::new(Arc::new(Memory::new(env)), clock)
    }

    garth_testkit::contract_tests!(subject);
}

mod sqlite {
    use std::sync::Arc;

    use garth::FileSystem;
    use garth::engine::sqlite::SqliteFs;
    use garth_testkit::contract::Subject;

    async fn subject() -> Subject {
        let (env, clock) = Subject::clock();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let fs = SqliteFs::open(&path, env.clone()).unwrap();
        Subject {
            reopen: Some(Box::new(move || {
                let fs = SqliteFs::open(&path, env.clone()).unwrap() as Arc<dyn FileSystem>;
                Box::pin(std::future::ready(fs))
            })),
            keep: Box::new(folder),
            ..Subject::new(fs, clock)
        }
    }

    garth_testkit::contract_tests!(subject);
}
