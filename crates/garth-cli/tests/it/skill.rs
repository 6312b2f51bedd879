//! `garth skill` as users run it.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::garth::{Garth, text};

const FRONT: &str = "---\nname: pdf\ndescription: Reads PDF files\nmetadata: {gsv: {requires: {bins: [pdftotext]}}}\n---\nUse pdftotext.\n";

#[test]
fn skill_is_installed_listed_and_overridden() {
    let garth = Garth::unmade();
    let folder = tempfile::tempdir().unwrap();
    let skill = folder.path().join("pdf");
    std::fs::create_dir_all(skill.join("scripts")).unwrap();
    std::fs::write(skill.join("SKILL.md"), FRONT).unwrap();
    std::fs::write(skill.join("scripts/run.sh"), "pdftotext $1\n").unwrap();
    std::fs::set_permissions(skill.join("scripts/run.sh"), PermissionsExt::from_mode(0o755)).unwrap();
    let path = skill.to_str().unwrap();
    assert!(garth.ok(&["skill", "check", path]).contains("no mistakes found in 2 files"));
    let done = garth.json(&["skill", "install", path, "--global"]);
    assert_eq!(
        (&done["path"], &done["written"]),
        (&json!("/skills/pdf"), &json!(["SKILL.md", "scripts/run.sh"]))
    );
    assert_eq!(garth.json(&["skill", "install", path, "--global"])["same"], json!(2));
    assert_eq!(garth.json(&["stat", "/skills/pdf/scripts/run.sh"])["mode"], "0755");
    assert_eq!(garth.lines(&["skill", "list"]).len(), 0);
    let left = garth.ok(&["skill", "list", "--all"]);
    assert!(left.contains("left out") && left.contains("no host is known"), "{left}");
    let host = r#"{"id":"laptop","bins":["pdftotext"]}"#;
    assert_eq!(garth.lines(&["skill", "list", "--host", host])[0]["origin"], json!("global"));
    let shown = garth.ok(&["skill", "show", "pdf", "--host", host]);
    assert!(shown.contains("applies      yes") && shown.contains("Use pdftotext."), "{shown}");
    // The agent's own skill hides the global one.
    std::fs::write(skill.join("SKILL.md"), "My own way.\n").unwrap();
    let refused = garth.fails(3, &["skill", "install", path, "--agent", "scout"]);
    assert!(refused.contains("garth agent create"), "{refused}");
    garth.fails(3, &["ls", "/agents/scout"]);
    garth.ok(&["agent", "create", "scout"]);
    // The prompt of an agent that was not set up has no skills.
    garth.ok(&["rm", "/agents/scout/BOOTSTRAP.md"]);
    garth.ok(&["skill", "install", path, "--agent", "scout"]);
    let own = garth.json(&["skill", "show", "pdf", "--agent", "scout"]);
    assert_eq!((&own["origin"], &own["description"]), (&json!("agent"), &json!("My own way.")));
    let published = garth.ok(&["skill", "publish", "pdf", "--agent", "scout"]);
    assert!(published.contains("ctx://default/agents/scout/skills/pdf  version 1"), "{published}");
    let prompt = garth.ok(&["agent", "prompt", "--agent", "scout"]);
    assert!(prompt.contains("`/agents/scout/skills/pdf/SKILL.md`"), "{prompt}");
}

#[test]
fn skill_paths_belong_to_the_selected_tree() {
    let garth = Garth::new();
    garth.write("/skills/mail/SKILL.md", "Mails.\n");
    garth.write("/agents/scout/skills/pdf/SKILL.md", "Reads.\n");
    let ways: [&[&str]; 4] = [
        &["--agent", "scout"],
        &["--agent", "scout", "--user", "default"],
        &["--agent", "scout", "--user", "bob"],
        &["--agent", "scout", "--key", "agent:scout:slack:channel:C1"],
    ];
    for who in ways {
        let with = |args: &[&'static str]| [args, who].concat();
        for skill in garth.lines(&with(&["skill", "list"])) {
            let path = skill["read_path"].as_str().unwrap();
            let text = garth.ok(&[&["cat", path], who].concat());
            assert_eq!(text.trim(), skill["description"].as_str().unwrap(), "{who:?} {path}");
            let shown = garth.json(&[&["skill", "show", skill["directory"].as_str().unwrap()], who].concat());
            assert_eq!(shown["path"], skill["read_path"]);
            assert!(garth.ok(&with(&["agent", "prompt"])).contains(&format!("`{path}`")), "{who:?} {path}");
        }
    }
}

#[test]
fn list_shows_texts_on_one_line() {
    let garth = Garth::new();
    let folder = garth.beside("long");
    std::fs::create_dir(&folder).unwrap();
    let front = "name: long\ndescription: |\n  Use when\n  asked: often\nalways: maybe";
    std::fs::write(folder.join("SKILL.md"), format!("---\n{front}\n---\nFirst.\nSecond.\n")).unwrap();
    let installed = garth.run(&["skill", "install", folder.to_str().unwrap()], b"");
    assert_eq!(installed.status.code(), Some(1));
    for shown in [text(&installed.stdout), garth.ok(&["skill", "list"]), garth.ok(&["skill", "show", "long"])]
    {
        assert!(!shown.contains("\\n"), "{shown}");
    }
    assert!(garth.ok(&["skill", "show", "long"]).contains("description  Use when asked: often\n"));
    let list = garth.ok(&["skill", "list"]);
    assert!(list.contains("Use when asked: often  (wrong: always: write true or false)"), "{list}");
}

#[test]
fn skill_check_reports_mistakes() {
    let garth = Garth::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let none = garth.run(&["skill", "check", path], b"");
    assert!(
        none.status.code() == Some(2) && text(&none.stderr).contains("no SKILL.md"),
        "{}",
        text(&none.stderr)
    );
    std::fs::write(
        folder.path().join("SKILL.md"),
        "---\nalways: maybe\nmetadata: {gsv: {requires: {bins: x}}}\n---\n",
    )
    .unwrap();
    let wrong = garth.run(&["skill", "check", path], b"");
    assert_eq!(wrong.status.code(), Some(1));
    assert!(
        text(&wrong.stdout).contains("always") && text(&wrong.stdout).contains("requires.bins"),
        "{}",
        text(&wrong.stdout)
    );
    std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link")).unwrap();
    let link = garth.run(&["skill", "install", path, "--as", "x"], b"");
    assert!(link.status.code() == Some(2) && text(&link.stderr).contains("link"), "{}", text(&link.stderr));
    garth.fails(3, &["skill", "show", "none"]);
    garth.fails(2, &["skill", "show", "../x"]);
}

#[test]
fn skill_check_reports_ignored_requirements() {
    let garth = Garth::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let nope = "{openclaw: {requires: {bins: [nope]}}}";
    for said in [
        format!("---\nname: x\ndescription: d\nmetadata: [{nope}]\n---\nb"),
        format!("---\n{{name: x, description: a: b, metadata: {nope}}}\n---\nb"),
        format!("---\nname: x\ndescription: d\nMetadata: {nope}\n---\nb"),
        "---\nname: x\ndescription: d\nrequires: {bins: [nope]}\n---\nb".to_owned(),
        format!("# X\n\n---\nname: x\ndescription: d\nmetadata: {nope}\n---\nb"),
    ] {
        std::fs::write(folder.path().join("SKILL.md"), &said).unwrap();
        let wrong = garth.run(&["skill", "check", path], b"");
        assert_eq!(wrong.status.code(), Some(1), "{said}");
        assert!(text(&wrong.stdout).contains("wrong  "), "{said}");
    }
    // Valid frontmatter.
    for said in [
        format!("\n--- \nname: x\ndescription: d\nmetadata: {nope}\n...\nb"),
        "---\nname: x\ndescription: d\nmetadata: {OpenClaw: {}, clawdbot: {requires: {bins: [nope]}}}\n---\nb"
            .to_owned(),
    ] {
        std::fs::write(folder.path().join("SKILL.md"), &said).unwrap();
        assert!(garth.ok(&["skill", "check", path]).contains("no mistakes found"), "{said}");
        assert_eq!(garth.json(&["skill", "check", path])["requires"]["bins"], json!(["nope"]));
    }
    std::fs::rename(folder.path().join("SKILL.md"), folder.path().join("skill.md")).unwrap();
    let none = garth.run(&["skill", "check", path], b"");
    assert!(text(&none.stderr).contains("rename skill.md"), "{}", text(&none.stderr));
}

#[test]
fn broken_skill_exits_with_1() {
    let garth = Garth::new();
    let (good, bad) = (garth.beside("good"), garth.beside("bad"));
    for (folder, front) in [(&good, "name: good\ndescription: Does it"), (&bad, "name: bad\nalways: maybe")] {
        std::fs::create_dir(folder).unwrap();
        std::fs::write(folder.join("SKILL.md"), format!("---\n{front}\n---\nFirst.\nSecond.\n")).unwrap();
    }
    garth.ok(&["skill", "install", good.to_str().unwrap()]);
    let output = garth.run(&["skill", "install", bad.to_str().unwrap()], b"");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stdout).unwrap().contains("\nwrong  "));
    assert!(garth.ok(&["skill", "show", "good"]).ends_with("First.\nSecond.\n"));
    garth.ok(&["skill", "rm", "bad"]);
    garth.fails(3, &["skill", "rm", "bad"]);
}

#[test]
fn only_writing_commands_accept_a_new_agent() {
    let garth = Garth::new();
    assert!(garth.fails(3, &["agent", "prompt", "--agent", "typo"]).contains("no such agent"));
    garth.fails(3, &["skill", "list", "--agent", "typo"]);
    for way in ["--raw", "--override-rules"] {
        assert!(
            garth.fails(3, &["agent", "prompt", "--agent", "typo", way]).contains("no such agent"),
            "{way}"
        );
    }
    garth.fails(3, &["skill", "rm", "pdf", "--agent", "typo"]);
    garth.ok(&["daily", "add", "Ann likes tea.", "--agent", "new"]);
    garth.ok(&["skill", "list", "--agent", "new"]);
}
