//! `remember`, `recall` and `forget`: a first memory in three commands.

use super::garth::Garth;

const COFFEE: &str = "Takes her coffee black.";

#[test]
fn fact_is_remembered_recalled_and_forgotten() {
    let garth = Garth::new();
    let said = garth.ok(&["remember", "--user", "alice", COFFEE]);
    assert!(said.starts_with("remembered  ctx://default/users/alice/memories/notes/takes-her-coffee-black-"));
    assert!(garth.ok(&["recall", "--user", "alice", "how does she take her coffee"]).contains(COFFEE));
    assert!(garth.ok(&["remember", "--user", "alice", COFFEE]).starts_with("unchanged"));
    let forgot = garth.ok(&["forget", "--user", "alice", COFFEE]);
    assert!(
        forgot.starts_with("forgot  ctx://") && forgot.contains("1 version stays in the history"),
        "{forgot}"
    );
    assert!(!garth.ok(&["recall", "--user", "alice", "how does she take her coffee"]).contains(COFFEE));
    garth.fails(3, &["forget", "--user", "alice", COFFEE]);
}

#[test]
fn empty_facts_are_refused_without_an_option_that_does_not_exist() {
    let garth = Garth::unmade();
    for text in ["", " \n"] {
        let said = garth.fails(2, &["remember", text]);
        assert!(said.contains("the text is empty") && !said.contains("allow"), "{said}");
    }
    assert!(!garth.data().exists());
    let said = garth.fails(2, &["memory", "put", "ctx://default/users/ann/memories/preferences/tea", ""]);
    assert!(said.contains("--allow-empty stores it"), "{said}");
}

#[test]
fn facts_of_two_users_stay_apart() {
    let garth = Garth::new();
    garth.ok(&["remember", "--user", "alice", COFFEE]);
    garth.ok(&["remember", "--user", "bob", "Takes his coffee with oat milk."]);
    let bob = garth.ok(&["recall", "--user", "bob", "coffee"]);
    assert!(bob.contains("oat milk") && !bob.contains("black"), "{bob}");
    garth.fails(3, &["forget", "--user", "bob", COFFEE]);
}

#[test]
fn forget_takes_uris_and_short_names() {
    let garth = Garth::new();
    for name in ["preferences/tea", "profile"] {
        garth.ok(&["memory", "put", "--user", "alice", name, "Drinks tea."]);
        assert!(garth.ok(&["forget", "--user", "alice", name]).starts_with("forgot"), "{name}");
    }
    let uri = garth.json(&["remember", "--user", "alice", COFFEE])["uri"].as_str().unwrap().to_owned();
    let left = garth.json(&["forget", &uri]);
    assert_eq!((left["uri"].as_str(), &left["left"]["versions"]), (Some(&*uri), &1.into()));
}

#[test]
fn remember_reads_standard_input_and_tags() {
    let garth = Garth::new();
    garth.feed(&["remember", "--user", "alice", "--tag", "drink"], &format!("{COFFEE}\n"));
    let listed = garth.json(&["memory", "list", "--user", "alice", "--tag", "drink"]);
    assert_eq!(listed["meta"]["category"], "notes", "{listed}");
    let empty = garth.run(&["remember", "--user", "alice"], b" \n");
    assert_eq!(empty.status.code(), Some(2));
}

#[test]
fn agent_shares_what_is_remembered_for_it() {
    let garth = Garth::new();
    garth.ok(&["remember", "--for", "agent", "--agent", "concierge", "Refunds take five days."]);
    let found = garth.ok(&["recall", "--agent", "concierge", "--user", "bob", "how long do refunds take"]);
    assert!(found.contains("five days"), "{found}");
}
