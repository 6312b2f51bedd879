//! The examples in the help of each command, run as shown.

use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use super::garth::{Garth, bare, finish, program, text};

/// Returns the subcommands that a help text lists.
fn below(help: &str) -> Vec<String> {
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let list = list.take_while(|line| line.is_empty() || line.starts_with(' '));
    let names = list.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect()
}

/// Adds the examples of a command and of its subcommands.
fn collect(path: &[&str], into: &mut Vec<String>) {
    let help = text(&finish(bare(&[path, &["--help"]].concat()), b"").stdout);
    let examples = help.lines().skip_while(|line| !matches!(*line, "Example:" | "Examples:")).skip(1);
    let examples = examples.take_while(|line| line.starts_with("  ")).map(|line| line.trim().to_owned());
    // They run until they are stopped.
    let is_endless = |line: &String| ["garth serve", "garth watch"].iter().any(|verb| line.contains(verb));
    into.extend(examples.filter(|line| line.contains("garth ") && !is_endless(line)));
    for name in below(&help) {
        collect(&[path, &[&name]].concat(), into);
    }
}

/// Runs the examples of a command in a new data folder. Returns their number and the refused ones.
fn refused(verb: &str) -> (usize, Vec<String>) {
    let garth = Garth::new();
    let (folder, programs) = (garth.beside("here"), garth.beside("bin"));
    for dir in [&folder, &programs] {
        std::fs::create_dir(dir).expect("a folder");
    }
    symlink(program(), programs.join("garth")).expect("a link");
    std::fs::create_dir_all(folder.join(".local/share/bash-completion/completions")).expect("a folder");
    let mut examples = Vec::new();
    collect(&[verb], &mut examples);
    assert!(!examples.is_empty() || ["serve", "watch"].contains(&verb), "{verb}");
    let mut refused = Vec::new();
    for line in &examples {
        if let Some((_, file)) = line.split_once(" < ") {
            let content =
                if file.ends_with(".jsonl") { "{\"role\":\"user\",\"content\":\"Hi\"}\n" } else { "Hi\n" };
            std::fs::write(folder.join(file.trim()), content).expect("a file");
        }
        let mut command = Command::new("sh");
        command
            .args(["-c", line])
            .current_dir(&folder)
            .env_clear()
            .env("GARTH_DATA", garth.data())
            .env("HOME", &folder);
        command.env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = finish(command, b"Hi\n");
        let said = text(&output.stderr);
        // Most examples name things that are missing here, such as a file or an earlier prompt.
        if matches!(output.status.code(), Some(2 | 5) | None) && !said.contains("no prompt was built") {
            refused.push(format!("{line}\n  {said}"));
        }
    }
    (examples.len(), refused)
}

#[test]
fn no_example_is_refused() {
    let help = Garth::unmade().ok(&["--help"]);
    let (_, groups) = help.split_once("All commands:\n").expect("the list of all commands");
    let lines = groups.lines().take_while(|line| !line.is_empty());
    let mut verbs: Vec<&str> = lines.flat_map(|line| line[12..].split_whitespace()).collect();
    verbs.sort_unstable();
    verbs.dedup();
    let run = |verbs: &[&str]| verbs.iter().map(|verb| refused(verb)).collect::<Vec<_>>();
    let ran: Vec<(usize, Vec<String>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = verbs.chunks(16).map(|verbs| scope.spawn(|| run(verbs))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    let examples: usize = ran.iter().map(|(examples, _)| examples).sum();
    assert!(examples > 150, "{examples}");
    let refused: Vec<String> = ran.into_iter().flat_map(|(_, refused)| refused).collect();
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}
