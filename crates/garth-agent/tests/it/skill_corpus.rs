//! Published skills: front matter that is not quite YAML, line ends of other systems, namespaces of other
//! programs, links. Each kind is listed as its author meant it, or its error is reported.

use garth_agent::workspace::{Host, Reason, Workspace};
use garth_engine::FileSystemExt;
use garth_engine::model::Op;

use super::access::{Account, p};

/// Expected entry of a skill in a list.
enum Due {
    /// Listed under this name, with this description.
    Shown(&'static str, &'static str),
    /// Listed likewise, with a flaw that contains these words.
    Flawed(&'static str, &'static str, &'static str),
    LeftOut(Reason, &'static str),
}
use Due::{Flawed, LeftOut, Shown};

/// Directory, front matter without its fences, and expected entry on a Linux host with `git`.
const CORPUS: &[(&str, &str, Due)] = &[
    ("plain", "name: plain\ndescription: Does it.", Shown("plain", "Does it.")),
    ("quoted", "name: \"quoted\"\ndescription: 'It''s: quoted'", Shown("quoted", "It's: quoted")),
    ("crlf", "name: crlf\r\ndescription: Does it.\r", Shown("crlf", "Does it.")),
    ("folded", "name: folded\ndescription: >-\n  Use when\n  asked.", Shown("folded", "Use when asked.")),
    ("bom", "name: bom\ndescription: Does it.", Shown("bom", "Does it.")),
    ("list", "name: list\ndescription: Does it.\nallowed-tools:\n- Bash\n- Read", Shown("list", "Does it.")),
    ("truth", "name: yes\ndescription: on", Shown("yes", "on")),
    ("number", "name: 1.0\ndescription: 007", Shown("1.0", "007")),
    (
        "strings",
        "name: strings\ndescription: x\nmetadata:\n  author: me\n  version: \"1.0\"",
        Shown("strings", "x"),
    ),
    ("colon", "name: colon\ndescription: Use when: asked", Flawed("colon", "Use when: asked", "no YAML")),
    (
        "colon-met",
        "name: met\ndescription: Use when: asked\nmetadata: {\"openclaw\": {\"requires\": {\"bins\": [\"git\"]}}}",
        Flawed("met", "Use when: asked", "no YAML"),
    ),
    (
        "colon-unmet",
        "name: unmet\ndescription: Use when: asked\nmetadata: {\"openclaw\": {\"requires\": {\"bins\": [\"jq\"]}}}",
        LeftOut(Reason::Requirements, "lacks bins jq"),
    ),
    (
        "colon-deep",
        "description: x\nmetadata:\n  openclaw:\n    note: a: b\n    requires: {bins: [git]}",
        LeftOut(Reason::Invalid, "not known"),
    ),
    ("json-cut", "description: x\nmetadata: {\"openclaw\": {", LeftOut(Reason::Invalid, "not known")),
    (
        "list-of-one",
        "description: x\nmetadata: [{\"openclaw\": {\"requires\": {\"bins\": [\"jq\"]}}}]",
        LeftOut(Reason::Invalid, "metadata: write a JSON object"),
    ),
    (
        "flow",
        "{name: flow, description: a: b, metadata: {openclaw: {requires: {bins: [jq]}}}}",
        LeftOut(Reason::Invalid, "not known"),
    ),
    (
        "older-too",
        "description: x\nmetadata: {openclaw: {emoji: x}, clawdbot: {requires: {bins: [jq]}}}",
        LeftOut(Reason::Requirements, "lacks bins jq"),
    ),
    (
        "case",
        "description: x\nmetadata: {Clawdbot: {requires: {bins: [jq]}}}",
        LeftOut(Reason::Requirements, "lacks bins jq"),
    ),
    ("capital", "Metadata: {clawdbot: {}}", LeftOut(Reason::Invalid, "Metadata: is not read")),
    ("top", "requires: {bins: [jq]}", LeftOut(Reason::Invalid, "requires: is not read here")),
    ("json-text", "description: x\nmetadata: '{\"openclaw\": {'", LeftOut(Reason::Invalid, "no JSON")),
    ("bracket", "name: bracket\ndescription: [beta] Does it", Flawed("bracket", "[beta] Does it", "no YAML")),
    ("at", "name: at\ndescription: @someone asks", Flawed("at", "@someone asks", "no YAML")),
    (
        "tab",
        "name: tab\ndescription: Does it.\n\tversion: 1",
        Flawed("tab", "Does it. version: 1", "no YAML"),
    ),
    ("twice", "name: twice\nname: other\ndescription: x", Flawed("twice", "x", "no YAML")),
    (
        "moltbot",
        "metadata: {moltbot: {requires: {bins: [jq]}}}",
        LeftOut(Reason::Requirements, "lacks bins jq"),
    ),
    (
        "clawdis",
        "metadata: {clawdis: {requires: {bins: [jq]}}}",
        LeftOut(Reason::Requirements, "lacks bins jq"),
    ),
    (
        "newer",
        "description: x\nmetadata: {clawdis: {requires: {bins: [jq]}}, openclaw: {requires: {bins: [git]}}}",
        Shown("newer", "x"),
    ),
    ("mac", "metadata: {openclaw: {os: [darwin]}}", LeftOut(Reason::Requirements, "lacks os darwin")),
    ("linux", "description: x\nmetadata: {openclaw: {os: [Linux, darwin]}}", Shown("linux", "x")),
    (
        "commas",
        "description: x\nmetadata:\n  {\"clawdbot\": {\"requires\": {\"bins\": [\"git\",],},},}",
        Shown("commas", "x"),
    ),
    ("alias", "name: &n alias\ndescription: *n", LeftOut(Reason::Unreadable, "write the value out")),
    ("unknown", "metadata: {openclaw: {requires: {pip: [x]}}}", LeftOut(Reason::Invalid, "is not known")),
];

#[tokio::test]
async fn published_skills_are_listed_or_report_errors() {
    let account = Account::new("{}").await;
    for (directory, front, _) in CORPUS {
        let mark = if *directory == "bom" { "\u{feff}" } else { "" };
        let text = format!("{mark}---\n{front}\n---\n# How\n\nThe body.\n");
        account.put(&format!("/agents/scout/skills/{directory}/SKILL.md"), &text).await;
    }
    let mut host = Host::new("here");
    (host.os, host.bins) = (Some("linux".to_owned()), vec!["git".to_owned()]);
    let workspace = Workspace::new(&*account.store, "scout").unwrap();
    let listing = workspace.skills(&[host]).await.unwrap();
    assert_eq!(listing.shown.len() + listing.left_out.len(), CORPUS.len());
    for (directory, _, due) in CORPUS {
        let shown = listing.shown.iter().find(|skill| skill.directory == *directory);
        let left_out = listing.left_out.iter().find(|skill| skill.directory == *directory);
        match due {
            Shown(name, description) => {
                let shown = shown.unwrap_or_else(|| panic!("{left_out:?}"));
                assert_eq!((&*shown.name, &*shown.description, shown.flaws.len()), (*name, *description, 0));
            }
            Flawed(name, description, flaw) => {
                let shown = shown.unwrap_or_else(|| panic!("{left_out:?}"));
                assert_eq!((&*shown.name, &*shown.description), (*name, *description));
                assert!(shown.flaws.iter().any(|said| said.contains(flaw)), "{shown:?}");
            }
            LeftOut(reason, detail) => {
                let left_out = left_out.unwrap_or_else(|| panic!("{shown:?}"));
                assert_eq!(left_out.reason, *reason, "{left_out:?}");
                assert!(left_out.detail.contains(detail), "{left_out:?}");
            }
        }
    }
}

#[tokio::test]
async fn linked_skills_are_reported_as_skipped() {
    let account = Account::new("{}").await;
    account.put("/skills/mail/SKILL.md", "Mails.").await;
    let target = "../../../skills/mail";
    for (at, target) in
        [("linked", target), ("gone", "nowhere"), ("file/SKILL.md", "../../../../skills/mail/SKILL.md")]
    {
        let link = Op::symlink(p(&format!("/agents/scout/skills/{at}")), target).with_parents();
        account.store.commit(link.into()).await.unwrap();
    }
    let workspace = Workspace::new(&*account.store, "scout").unwrap();
    let listing = workspace.skills(&[]).await.unwrap();
    let left_out: Vec<_> = listing.left_out.iter().map(|skill| (&*skill.directory, skill.reason)).collect();
    assert_eq!(left_out, [("file", Reason::Linked), ("gone", Reason::Linked), ("linked", Reason::Linked)]);
    assert_eq!(listing.shown.len(), 1);
    for directory in ["linked", "file"] {
        let error = workspace.skill(directory, &[]).await.unwrap_err();
        assert!(error.message().contains("links are not followed"), "{error}");
    }
}

#[tokio::test]
async fn skill_edit_keeps_line_ends() {
    let account = Account::new("{}").await;
    account.put("/skills/cafe/SKILL.md", "# Cafe\u{301}\r\n\r\nFirst.\r\nSecond.\r\n").await;
    let workspace = Workspace::new(&*account.store, "scout").unwrap();
    workspace
        .edit_skill("cafe/SKILL.md", "Caf\u{e9}\n\nFirst.\n", "Caf\u{e9}\n\nOne.\nTwo.\n")
        .await
        .unwrap();
    let text = account.store.read_to_string("/agents/scout/skills/cafe/SKILL.md").await.unwrap();
    assert_eq!(text, "# Caf\u{e9}\r\n\r\nOne.\r\nTwo.\r\nSecond.\r\n");
}
