//! Contract suite on every engine, and through views.

mod memory {
    use garth_testkit::subject::Subject;

    async fn subject() -> Subject {
        Subject::memory()
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
    use garth_testkit::subject::Subject;

    async fn subject() -> Subject {
        Subject::memory().used().await
    }

    garth_testkit::contract_tests!(subject);
}

/// Without the optional abilities: no check relies on more than the capabilities say.
mod limited {
    use std::sync::Arc;

    use garth_testkit::fs::limited::Limited;
    use garth_testkit::subject::{Store, Subject};

    async fn subject() -> Subject {
        let memory = Subject::memory();
        Subject { fs: Arc::new(Limited::new(memory.fs)), store: Store::Absent, ..memory }
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
    use garth_testkit::subject::Subject;

    async fn subject() -> Subject {
        Subject::memory().scoped(1).await
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
    use garth_testkit::subject::Subject;
    use garth_testkit::subject::mounted::Part;

    async fn subject() -> Subject {
        Subject::memory().mounted(Part::Root).await
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
    use garth_testkit::subject::Subject;
    use garth_testkit::subject::mounted::Part;

    async fn subject() -> Subject {
        Subject::memory().mounted(Part::Twice).await
    }

    garth_testkit::contract_tests!(subject);
}

mod overlay_of_one_store {
    use garth_testkit::subject::Subject;

    async fn subject() -> Subject {
        Subject::memory().overlaid(true).await
    }

    garth_testkit::contract_tests!(subject);
}

mod overlay_over_another_store {
    use garth_testkit::subject::Subject;

    async fn subject() -> Subject {
        Subject::memory().overlaid(false).await
    }

    garth_testkit::contract_tests!(subject);
}
