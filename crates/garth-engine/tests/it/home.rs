//! Contract of a home, on a data folder.

use std::sync::Arc;

use futures::executor::block_on;
use garth_engine::model::Timestamp;
use garth_engine::rule::sample;
use garth_engine::{DataDir, Env, Home};
use garth_testkit::home_contract::{HomeSubject, check};

#[test]
fn data_folder_keeps_the_contract_of_a_home() {
    let folder = tempfile::tempdir().unwrap();
    let (env, clock) = Env::manual(Timestamp(1_769_472_000_000_000_000));
    let open = || -> Arc<dyn Home> {
        Arc::new(DataDir::open(folder.path(), env.clone(), sample::registry()).unwrap())
    };
    let (one, other) = (open(), open());
    let control = rusqlite::Connection::open(folder.path().join("control.db")).unwrap();
    let begin_deletion = Box::new(move |id: &str| {
        assert_eq!(control.execute("UPDATE account SET deleted = 1 WHERE id = ?1", [id]).unwrap(), 1);
    });
    let advance = Box::new(move |by| clock.advance(by));
    block_on(check(&HomeSubject { one, other, advance, begin_deletion }));
}

#[test]
fn sealing_key_is_of_the_folder_and_in_its_backups() {
    let folder = tempfile::tempdir().unwrap();
    let open =
        |name: &str| DataDir::open(&folder.path().join(name), Env::system(), sample::registry()).unwrap();
    let (one, other) = (open("one"), open("other"));
    assert_ne!(one.sealing_key(), other.sealing_key());
    let home: &dyn Home = &one;
    block_on(home.backup(&folder.path().join("copy"))).unwrap();
    assert_eq!(open("copy").sealing_key(), one.sealing_key());
}
