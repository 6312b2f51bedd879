//! Passwords in arguments of commands, which have no name there, and in statements of SQL.

use std::ops::Range;

use super::assigned::{Name, run};
use super::judgement::Judgement;
use super::span::Secret;
use super::value::{NAME, Named, Tie, is_quote};
use super::words::{is_word, look_at};

/// Number of bytes of a command before an argument that are searched.
const COMMAND: usize = 200;

/// Form of the argument of a flag.
#[derive(Clone, Copy, PartialEq)]
enum Argument {
    /// Password.
    Password,
    /// User, colon and password.
    User,
    /// Password without a blank before it.
    Joined,
}

/// Flags, the words of their command, and the form of their argument.
const FLAGS: [(&str, &[&[u8]], Argument); 22] = [
    ("-u", &[b"curl"], Argument::User),
    ("-U", &[b"curl"], Argument::User),
    ("--user", &[b"curl"], Argument::User),
    ("--proxy-user", &[b"curl"], Argument::User),
    ("-a", &[b"http"], Argument::User),
    ("-a", &[b"https"], Argument::User),
    ("-a", &[b"xh"], Argument::User),
    ("-p", &[b"sshpass"], Argument::Password),
    ("-p", &[b"sshpass"], Argument::Joined),
    ("-p", &[b"docker", b"login"], Argument::Password),
    ("-p", &[b"podman", b"login"], Argument::Password),
    ("-p", &[b"oc", b"login"], Argument::Password),
    ("-p", &[b"helm", b"registry"], Argument::Password),
    ("-a", &[b"redis-cli"], Argument::Password),
    ("-p", &[b"mysql"], Argument::Joined),
    ("-p", &[b"mysqldump"], Argument::Joined),
    ("-p", &[b"mysqladmin"], Argument::Joined),
    ("-p", &[b"mariadb"], Argument::Joined),
    ("-p", &[b"mariadb-dump"], Argument::Joined),
    ("-p", &[b"mongosh"], Argument::Password),
    ("-P", &[b"sqlcmd"], Argument::Password),
    ("-w", &[b"ldapsearch"], Argument::Password),
];

/// Flags that were added after the second judgement.
const NEWER_FLAGS: [(&str, &[&[u8]], Argument); 8] = [
    ("-P", &[b"unzip"], Argument::Password),
    ("-P", &[b"zip"], Argument::Password),
    ("-p", &[b"7z"], Argument::Joined),
    ("-p", &[b"7za"], Argument::Joined),
    ("-p", &[b"7zz"], Argument::Joined),
    ("-p", &[b"az"], Argument::Password),
    ("-p", &[b"cf"], Argument::Password),
    ("-p", &[b"nerdctl", b"login"], Argument::Password),
];
/// Commands with other arguments of this form: only values that look drawn at random are passwords.
const WEAK_COMMANDS: [&[u8]; 2] = [b"az", b"cf"];

/// Finds the password in an argument that has no name: `curl -u alice:…`, `["sshpass", "-p", "…"]`.
pub(super) fn find_in_command(
    text: &[u8],
    word: &Range<usize>,
    judgement: Judgement,
    found: &mut Vec<Secret>,
) {
    let bytes = &text[word.clone()];
    // Bullets, dashes and rules.
    if bytes.iter().all(|byte| *byte == b'-') {
        return;
    }
    let fits = |(flag, _, argument): &&(&str, &[&[u8]], Argument)| match argument {
        Argument::Joined => bytes.len() > flag.len() && bytes.starts_with(flag.as_bytes()),
        Argument::User if flag.len() == 2 => bytes.starts_with(flag.as_bytes()) || is_bundle(bytes, flag),
        _ => bytes == flag.as_bytes(),
    };
    let newer: &[_] = if judgement >= Judgement::Third { &NEWER_FLAGS } else { &[] };
    let flags = || FLAGS.iter().chain(newer).filter(fits);
    let argument = |flag: &(&str, &[&[u8]], Argument)| argument(text, word, judgement, flag);
    // The argument first: most words have none, and searching the command costs more.
    if !flags().any(|flag| argument(flag).is_some()) {
        return;
    }
    look_at(COMMAND);
    // In a list, each argument may have a line of its own.
    let before = &text[word.start.saturating_sub(COMMAND)..word.start];
    let end_of_line = before.iter().rposition(|byte| *byte == b'\n').filter(|_| !is_listed(text, word));
    let command = end_of_line.map_or(before, |at| &before[at + 1..]);
    let of_command = |words: &[&[u8]]| flags().find(|flag| words.ends_with(flag.1));
    if let Some(flag) = with_words(command, of_command) {
        found.extend(argument(flag));
    }
}

/// Returns true for letters of several flags of which the last takes the argument: `-sSu`.
fn is_bundle(word: &[u8], flag: &str) -> bool {
    word.len() <= 6 && word[1..].iter().all(u8::is_ascii_alphabetic) && word.last() == flag.as_bytes().last()
}

/// Returns true for a word in quotes, as the arguments of a list are.
fn is_listed(text: &[u8], word: &Range<usize>) -> bool {
    word.start > 0 && is_quote(text.get(word.start - 1)) && is_quote(text.get(word.end))
}

/// Returns the password in the argument of a flag.
fn argument(
    text: &[u8],
    word: &Range<usize>,
    judgement: Judgement,
    (flag, command, of): &(&str, &[&[u8]], Argument),
) -> Option<Secret> {
    let weak = command.iter().all(|word| WEAK_COMMANDS.contains(word));
    let is_bundled = is_bundle(&text[word.clone()], flag);
    let is_joined = *of == Argument::Joined || (word.len() > flag.len() && !is_bundled);
    let mut place = if is_joined { word.start + flag.len() } else { word.end };
    if !is_joined {
        place += run(text, place, b"\"'", 1);
        let blanks: &[u8] = if is_listed(text, word) { b", \t\r\n" } else { b" =" };
        place += run(text, place, blanks, 40);
    }
    if *of == Argument::User {
        let user = text[place..].iter().take(NAME);
        place += user.take_while(|byte| **byte != b':' && !byte.is_ascii_whitespace()).count();
        if text.get(place) != Some(&b':') {
            return None;
        }
        place += 1;
    }
    let name = word.start..word.start + flag.len();
    let named = Named { text, word: name, name: Name::Password, weak, judgement };
    named.value(place, Tie::Sign)
}

/// Calls `fits` with the words of a command, two at a time, and returns its first result.
fn with_words<T>(command: &[u8], fits: impl Fn(&[&[u8]]) -> Option<T>) -> Option<T> {
    let words = command.split(|byte| !is_word(*byte)).filter(|word| !word.is_empty());
    let mut names = words.map(|word| word.rsplit(|byte| *byte == b'/').next().unwrap_or_default());
    let mut before = names.next()?;
    if let Some(first) = fits(&[before]) {
        return Some(first);
    }
    names.find_map(|name| fits(&[std::mem::replace(&mut before, name), name]))
}

/// Finds the password of a statement of SQL: `IDENTIFIED BY '…'`.
pub(super) fn find_in_statement(
    text: &[u8],
    word: &Range<usize>,
    judgement: Judgement,
    found: &mut Vec<Secret>,
) {
    let bytes = &text[word.clone()];
    if !bytes.eq_ignore_ascii_case(b"identified") {
        return;
    }
    look_at(COMMAND);
    let before = &text[word.start.saturating_sub(COMMAND)..word.start];
    let is_begin = |words: &[&[u8]]| {
        let last = words.last()?;
        let begins = [&b"user"[..], b"grant"].iter().any(|word| last.eq_ignore_ascii_case(word));
        begins.then_some(())
    };
    let is_statement = with_words(before, is_begin).is_some();
    let window = &text[word.end..text.len().min(word.end + NAME)];
    let by = window.windows(4).position(|it| it.eq_ignore_ascii_case(b" by "));
    let Some(by) = by.filter(|by| !window[..*by].contains(&b';')) else { return };
    let mut place = word.end + by + b" by".len();
    place += run(text, place, b" ", 4);
    // Without quotes, only in capitals: otherwise a sentence could have these words.
    if !is_statement || !(is_quote(text.get(place)) || bytes == b"IDENTIFIED") {
        return;
    }
    let named = Named { text, word: word.clone(), name: Name::Password, weak: false, judgement };
    found.extend(named.value(place, Tie::Sign));
}

/// Finds the password of a call in PowerShell: `ConvertTo-SecureString "…"`.
pub(super) fn find_in_shell_call(
    text: &[u8],
    word: &Range<usize>,
    judgement: Judgement,
    found: &mut Vec<Secret>,
) {
    if !text[word.clone()].eq_ignore_ascii_case(b"convertto-securestring") {
        return;
    }
    let mut place = word.end + run(text, word.end, b" (", 4);
    let flag = b"-string ";
    if text[place..].get(..flag.len()).is_some_and(|it| it.eq_ignore_ascii_case(flag)) {
        place += flag.len();
        place += run(text, place, b" ", 4);
    }
    let named = Named { text, word: word.clone(), name: Name::Password, weak: false, judgement };
    found.extend(named.value(place, Tie::Sign).filter(|_| is_quote(text.get(place))));
}
