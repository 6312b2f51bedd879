//! Contract suite on every engine, and through views.

mod memory {
    use std::sync::Arc;

    use garth_engine::engine::memory::MemoryFs;
    use garth_testkit::subject::Subject;

    async fn subject() -> Subject {
        let (env, clock) = Subject::clock();
        Subject::new(Arc::new(MemoryFs::new(env, garth_engine::rule::sample::registry())), clock)
    }

    garth_testkit::contract_tests!(subject);
}

mod sqlite {
    use garth_testkit::subject::Subject;

    async fn subject() -> Subject {
        Subject::sqlite(&std::env::temp_dir())
    }

    garth_testkit::contract_tests!(subject);
}

/// On a tree with earlier commits, so that sequence numbers and inodes start elsewhere.
mod used {
    use std::sync::Arc;

    use garth_engine::engine::memory::MemoryFs;
    use garth_testkit::subject::Subject;

    async fn subject() -> Subject {
        let (env, clock) = Subject::clock();
        Subject::new(Arc::new(MemoryFs::new(env, garth_engine::rule::sample::registry())), clock).used().await
    }

    garth_testkit::contract_tests!(subject);
}

/// Without the optional abilities: no check relies on more than the capabilities say.
mod limited {
    use std::sync::Arc;

    use garth_engine::engine::memory::MemoryFs;
    use garth_testkit::fs::limited::Limited;
    use garth_testkit::subject::Subject;

    async fn subject() -> Subject {
        let (env, clock) = Subject::clock();
        Subject::new(
            Arc::new(Limited::new(Arc::new(MemoryFs::new(env, garth_engine::rule::sample::registry())))),
            clock,
        )
    }

    garth_testkit::contract_tests!(subject);
}

mod host {
    use garth_testkit::subject::Subject;

    async fn subject() -> Subject {
        Subject::host()
    }

    garth_testkit::contract_tests!(subject);
}

mod scope_of_host {
    use garth_testkit::subject::Subject;

    async fn subject() -> Subject {
        Subject::host().scoped(1).await
    }

    garth_testkit::contract_tests!(subject);
}

mod scope_of_memory {
    use std::sync::Arc;

    use garth_engine::engine::memory::MemoryFs;
    use garth_testkit::subject::Subject;

    async fn subject() -> Subject {
        let (env, clock) = Subject::clock();
        Subject::new(Arc::new(MemoryFs::new(env, garth_engine::rule::sample::registry())), clock)
            .scoped(1)
            .await
    }

    garth_testkit::contract_tests!(subject);
}

mod scope_of_sqlite {
    use garth_testkit::subject::Subject;

    async fn subject() -> Subject {
        Subject::sqlite(&std::env::temp_dir()).scoped(1).await
    }

    garth_testkit::contract_tests!(subject);
}

mod scope_of_a_scope {
    use garth_testkit::subject::Subject;

    async fn subject() -> Subject {
        Subject::sqlite(&std::env::temp_dir()).scoped(2).await
    }

    garth_testkit::contract_tests!(subject);
}

mod mount_of_memory {
    use std::sync::Arc;

    use garth_engine::engine::memory::MemoryFs;
    use garth_testkit::subject::Subject;
    use garth_testkit::subject::mounted::Part;

    async fn subject() -> Subject {
        let (env, clock) = Subject::clock();
        Subject::new(Arc::new(MemoryFs::new(env, garth_engine::rule::sample::registry())), clock)
            .mounted(Part::Root)
            .await
    }

    garth_testkit::contract_tests!(subject);
}

mod mounted_directory {
    use garth_testkit::subject::Subject;
    use garth_testkit::subject::mounted::Part;

    async fn subject() -> Subject {
        Subject::sqlite(&std::env::temp_dir()).mounted(Part::Directory).await
    }

    garth_testkit::contract_tests!(subject);
}

mod mounted_twice {
    use std::sync::Arc;

    use garth_engine::engine::memory::MemoryFs;
    use garth_testkit::subject::Subject;
    use garth_testkit::subject::mounted::Part;

    async fn subject() -> Subject {
        let (env, clock) = Subject::clock();
        Subject::new(Arc::new(MemoryFs::new(env, garth_engine::rule::sample::registry())), clock)
            .mounted(Part::Twice)
            .await
    }

    garth_testkit::contract_tests!(subject);
}

mod overlay_of_one_store {
    use std::sync::Arc;

    use garth_engine::engine::memory::MemoryFs;
    use garth_testkit::subject::Subject;

    async fn subject() -> Subject {
        let (env, clock) = Subject::clock();
        Subject::new(Arc::new(MemoryFs::new(env, garth_engine::rule::sample::registry())), clock)
            .overlaid(true)
            .await
    }

    garth_testkit::contract_tests!(subject);
}

mod overlay_over_another_store {
    use std::sync::Arc;

    use garth_engine::engine::memory::MemoryFs;
    use garth_testkit::subject::Subject;

    async fn subject() -> Subject {
        let (env, clock) = Subject::clock();
        Subject::new(Arc::new(MemoryFs::new(env, garth_engine::rule::sample::registry())), clock)
            .overlaid(false)
            .await
    }

    garth_testkit::contract_tests!(subject);
}
