//! `garth repair`: on accounts, on a plain folder, and beside a server.

use std::time::Duration;

use garth::Env;

use super::garth::{Garth, text};
use super::serve::Server;

const COFFEE: &str = "ctx://default/users/alice/memories/preferences/coffee";
const DIR: &str = "/users/alice/memories/preferences/coffee";

/// The abstract of the node.
fn brief(garth: &Garth) -> String {
    garth.ok(&["node", "get", COFFEE, "--layer", "abstract"]).trim_end().to_owned()
}

#[test]
fn accounts_are_repaired_and_what_is_broken_is_told() {
    let garth = Garth::new();
    garth.feed(&["node", "put", COFFEE], "Black.\n");
    garth.feed(&["write", "-p", "/users/bob/memories/profile/content.md"], "Bob.\n");
    garth.feed(&["write", &format!("{DIR}/content.md")], "With milk.\n");
    let report = garth.json(&["repair", "--now", "--dry-run"]);
    assert_eq!((&report["found"]["orphan"], &report["found"]["changed_content"]), (&1.into(), &1.into()));
    assert_eq!(brief(&garth), "Black.", "it only told");
    let shown = garth.ok(&["repair", "--now"]);
    assert!(shown.contains(&format!("changed_content: {COFFEE}")), "{shown}");
    assert!(shown.contains("default: 2 nodes: 2 repaired"), "{shown}");
    assert_eq!(brief(&garth), "With milk.");
    assert_eq!(garth.ok(&["repair", "--now"]), "default: 2 nodes: nothing to repair\n");
    garth.ok(&["rm", &format!("{DIR}/content.md")]);
    let output = garth.run(&["repair", "--now"], b"");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains(&format!("broken: {COFFEE}")), "{}", text(&output.stdout));
    garth.feed(&["write", &format!("{DIR}/content.md")], "With sugar.\n");
    garth.ok(&["repair", "--retry", COFFEE]);
    assert_eq!(brief(&garth), "With sugar.");
}

#[test]
fn a_folder_that_others_wrote_is_repaired_as_it_lies() {
    let garth = Garth::new();
    let folder = garth.beside("export");
    let node = folder.join("accounts/acme/users/ann/memories/events/trip");
    std::fs::create_dir_all(&node).unwrap();
    std::fs::write(node.join("content.md"), "# Trip\n\nTo Rome in May.\n").unwrap();
    let path = folder.to_str().unwrap();
    assert!(garth.ok(&["repair", path]).contains("1 is being written"));
    let report = garth.json(&["repair", "--now", path]);
    assert_eq!((&report["account"], &report["found"]["orphan"]), (&"acme".into(), &1.into()));
    let meta = std::fs::read_to_string(node.join(".meta.json")).unwrap();
    assert!(meta.contains("ctx://acme/users/ann/memories/events/trip") && meta.contains("ACTIVE"), "{meta}");
    assert_eq!(std::fs::read_to_string(node.join(".abstract.md")).unwrap(), "To Rome in May.\n");
    assert!(garth.fails(2, &["repair", node.to_str().unwrap()]).contains("accounts"));
}

#[test]
fn a_server_repairs_what_others_change() {
    let garth = Garth::new();
    let server = Server::start(&garth);
    garth.feed(&["node", "put", COFFEE], "Black.\n");
    garth.feed(&["write", &format!("{DIR}/content.md")], "With milk.\n");
    let (env, changed) = (Env::system(), Env::system().instant());
    while brief(&garth) != "With milk." {
        assert!(changed.elapsed() < Duration::from_secs(30), "nobody repairs it");
        env.sleep(Duration::from_millis(100));
    }
    drop(server);
}
