//! Arguments in the form of other tools that clap cannot express: `find -name`, `head -20`.

use std::ffi::OsString;

use crate::usage::command_at;

/// Options whose value may look like a count.
const COUNTED: [&str; 4] = ["-n", "-c", "--lines", "--bytes"];
/// Translates the arguments of the program, the first of which is its name, into those that clap accepts.
pub(crate) fn translated(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let args: Vec<OsString> = args.into_iter().collect();
    let Some(verb) = command_at(&args) else { return args };
    let translate: fn(&str) -> Option<Vec<String>> = match args[verb].to_str() {
        Some("find") => |arg| is_word(arg).then(|| vec![format!("-{arg}")]),
        Some("head" | "tail" | "log") => |arg| {
            let count = arg.strip_prefix('-').filter(|count| !count.is_empty())?;
            count.bytes().all(|byte| byte.is_ascii_digit()).then(|| vec!["-n".to_owned(), count.to_owned()])
        },
        Some("write" | "append" | "memory" | "session" | "daily" | "remember") => {
            return with_list_item_last(verb, args);
        }
        _ => return args,
    };
    let mut translated = Vec::with_capacity(args.len());
    // Arguments before the verb, after `--`, or after an option that takes a count are left unchanged.
    let (mut as_is, mut values_only) = (true, false);
    for (at, arg) in args.into_iter().enumerate() {
        let next_as_is = at < verb || COUNTED.iter().any(|option| arg == *option);
        values_only |= at > verb && arg == "--";
        match arg.to_str().filter(|_| !as_is && !values_only).and_then(translate) {
            Some(words) => translated.extend(words.into_iter().map(OsString::from)),
            None => translated.push(arg),
        }
        as_is = next_as_is;
    }
    translated
}

/// Moves a text that begins like an item of a list (`- call Ada`) after a `--`. clap would take it for
/// options, but no option has a space after its dash.
fn with_list_item_last(at: usize, mut args: Vec<OsString>) -> Vec<OsString> {
    let is_item =
        |arg: &OsString| arg.to_str().is_some_and(|arg| arg.starts_with("- ") || arg.starts_with("---\n"));
    let takes_text = match args[at].to_str().unwrap_or_default() {
        "memory" => args.iter().skip(at).any(|arg| arg == "put"),
        "session" => args.iter().skip(at).any(|arg| arg == "append"),
        "daily" => args.iter().skip(at).any(|arg| arg == "add"),
        _ => true,
    };
    let Some(item) = args.iter().position(is_item).filter(|item| takes_text && *item > at) else {
        return args;
    };
    // The text is the value of an option, such as `-m`.
    let is_value = args[item - 1].to_str().is_some_and(|before| before.starts_with('-'));
    if is_value || args.iter().any(|arg| arg == "--") {
        return args;
    }
    let text = args.remove(item);
    args.extend(["--".into(), text]);
    args
}

/// Returns true for a word with one dash, such as `-name`, but not for `-0` and `-10k`.
fn is_word(arg: &str) -> bool {
    arg.strip_prefix('-').is_some_and(|word| {
        word.len() > 1 && word.starts_with(|c: char| c.is_ascii_lowercase()) && !word.contains('-')
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::VALUED;

    fn line(text: &str) -> String {
        let args = translated(text.split(' ').map(OsString::from));
        args.iter().map(|arg| arg.to_str().expect("UTF-8")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn translates_find_words_and_head_counts() {
        assert_eq!(line("garth find / -name *.md -type f"), "garth find / --name *.md --type f");
        assert_eq!(line("garth --data d find -print0 -0"), "garth --data d find --print0 -0");
        assert_eq!(line("garth find -size -10k -mtime -7 -h"), "garth find --size -10k --mtime -7 -h");
        assert_eq!(line("garth head -20 /a"), "garth head -n 20 /a");
        assert_eq!(line("garth log -5"), "garth log -n 5");
    }

    #[test]
    fn list_items_are_moved_behind_a_dash_dash() {
        let args = |of: &[&str]| of.iter().map(OsString::from).collect::<Vec<_>>();
        let moved = translated(args(&["garth", "append", "/todo.md", "- call Ada", "--json"]));
        assert_eq!(moved, args(&["garth", "append", "/todo.md", "--json", "--", "- call Ada"]));
        let message = args(&["garth", "write", "/a", "-m", "- one"]);
        assert_eq!(translated(message.clone()), message);
        let other = args(&["garth", "session", "create", "- one"]);
        assert_eq!(translated(other.clone()), other);
    }

    #[test]
    fn knows_every_global_option_with_value() {
        let command = <crate::cli::Cli as clap::CommandFactory>::command();
        let valued = command.get_arguments().filter(|arg| arg.get_action().takes_values());
        let mut valued: Vec<_> = valued.filter_map(|arg| Some(format!("--{}", arg.get_long()?))).collect();
        let mut known = VALUED.map(str::to_owned);
        valued.sort();
        known.sort();
        assert_eq!(valued, known);
    }

    #[test]
    fn other_arguments_stay_as_they_are() {
        for same in [
            "garth",
            "garth write -name",
            "garth --data find write -20",
            "garth head -- -20",
            "garth tail -n -5",
        ] {
            assert_eq!(line(same), same);
        }
    }
}
