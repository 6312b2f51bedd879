//! Contract suite on the Postgres engine. The checks of a module share a server, and each has an account.

mod account {
    use std::sync::Arc;

    use garth_proofs::postgres::Database;
    use garth_testkit::subject::Subject;

    fn start() -> Arc<Database> {
        Database::start().unwrap()
    }

    async fn subject(database: &Arc<Database>) -> Subject {
        database.subject().await
    }

    garth_testkit::contract_tests!(subject on start);
}

mod scope {
    use std::sync::Arc;

    use garth_proofs::postgres::Database;
    use garth_testkit::subject::Subject;

    fn start() -> Arc<Database> {
        Database::start().unwrap()
    }

    async fn subject(database: &Arc<Database>) -> Subject {
        database.subject().await.scoped(1).await
    }

    garth_testkit::contract_tests!(subject on start);
}
