//! Arguments as other tools take them and clap cannot express: `find -name`, `head -20`.

use std::ffi::OsString;

/// Options whose value may look like a count.
const COUNTED: [&str; 4] = ["-n", "-c", "--lines", "--bytes"];
/// Global options that take a value, which is not the verb.
const VALUED: [&str; 11] = [
    "--data",
    "--account",
    "--agent",
    "--overlay",
    "--user",
    "--key",
    "--chat",
    "--class",
    "--session",
    "--skill",
    "--upload-limit",
];

/// The arguments of the program, the first being its name, as clap takes them.
pub(crate) fn translated(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let args: Vec<OsString> = args.into_iter().collect();
    let Some(verb) = verb(&args) else { return args };
    let translate: fn(&str) -> Option<Vec<String>> = match args[verb].to_str() {
        Some("find") => |arg| is_word(arg).then(|| vec![format!("-{arg}")]),
        Some("head" | "tail" | "log") => |arg| {
            let count = arg.strip_prefix('-').filter(|count| !count.is_empty())?;
            count.bytes().all(|byte| byte.is_ascii_digit()).then(|| vec!["-n".to_owned(), count.to_owned()])
        },
        _ => return args,
    };
    let mut translated = Vec::with_capacity(args.len());
    // Up to the verb, and behind `--` or an option that takes a count, all stays as it is.
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

/// Whether an argument is a word with one dash, as `-name`; `-0` and `-10k` are none.
fn is_word(arg: &str) -> bool {
    arg.strip_prefix('-').is_some_and(|word| {
        word.len() > 1 && word.starts_with(|c: char| c.is_ascii_lowercase()) && !word.contains('-')
    })
}

/// Which argument is the verb.
fn verb(args: &[OsString]) -> Option<usize> {
    let mut at = 1;
    loop {
        let arg = args.get(at)?.to_str()?;
        match arg {
            _ if VALUED.contains(&arg) => at += 2,
            _ if arg.starts_with('-') => at += 1,
            _ => return Some(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> String {
        let args = translated(text.split(' ').map(OsString::from));
        args.iter().map(|arg| arg.to_str().expect("UTF-8")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn words_of_find_and_counts_of_head_are_translated() {
        assert_eq!(line("garth find / -name *.md -type f"), "garth find / --name *.md --type f");
        assert_eq!(line("garth --data d find -print0 -0"), "garth --data d find --print0 -0");
        assert_eq!(line("garth find -size -10k -mtime -7 -h"), "garth find --size -10k --mtime -7 -h");
        assert_eq!(line("garth head -20 /a"), "garth head -n 20 /a");
        assert_eq!(line("garth log -5"), "garth log -n 5");
    }

    #[test]
    fn every_option_before_a_verb_that_takes_a_value_is_known() {
        let command = <crate::cli::Cli as clap::CommandFactory>::command();
        let valued = command.get_arguments().filter(|arg| arg.get_action().takes_values());
        let mut valued: Vec<_> = valued.filter_map(|arg| Some(format!("--{}", arg.get_long()?))).collect();
        let mut known = VALUED.map(str::to_owned);
        valued.sort();
        known.sort();
        assert_eq!(valued, known);
    }

    #[test]
    fn nothing_else_is_touched() {
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
