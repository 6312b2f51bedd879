//! Values beside a name that says that they are secret: behind its sign, as the value of the same entry, on
//! the next line, behind some words of a sentence, or before "is the password".
//!
//! Each name is judged by itself, by a bounded number of bytes around it.

use std::ops::Range;

use super::assigned::{self, Name, is_code, is_place, is_placeholder, run};
use super::names;
use super::random::{bits, disorder, is_random, pairs};
use super::service_token;
use super::span::{LONGEST, Secret};
use super::words::{is_word, look_at};

/// Bytes of a sentence between a name and its value, or the other way round.
const SENTENCE: usize = 72;
/// Words of such a sentence.
const WORDS: usize = 8;
/// Bytes between a name and a value on another line.
const LINES: usize = 64;
/// Bytes of a list of values, and values, that one name is good for.
const LIST: usize = 1 << 10;
const VALUES: usize = 32;
/// Bytes of a value by which it is judged.
const JUDGED: usize = 256;
/// A value that stands apart from its name has so many bytes at least.
const APART: usize = 12;
/// A random word has so many bytes at least.
const RANDOM: usize = 20;
/// Bytes of a command before an argument.
const COMMAND: usize = 200;
/// Bytes of a name that are kept as the reason for a secret.
const NAME: usize = 64;
/// Keys of an entry whose other key has the name: `name: TOKEN`, `value: …`.
const VALUE_KEYS: [&[u8]; 8] =
    [b"value", b"val", b"data", b"content", b"default", b"secretstring", b"secret_string", b"stringvalue"];

/// Endings of files.
const ENDINGS: [&str; 52] = [
    "png", "jpg", "jpeg", "gif", "webp", "svg", "ico", "pdf", "css", "js", "mjs", "ts", "tsx", "json",
    "jsonl", "yaml", "yml", "toml", "lock", "md", "txt", "html", "htm", "xml", "csv", "parquet", "snappy",
    "zip", "gz", "tar", "bin", "dll", "so", "exe", "rs", "py", "go", "java", "sh", "sql", "db", "log", "pem",
    "key", "crt", "p12", "mp3", "mp4", "woff2", "wasm", "map", "docx",
];

/// Strength of what ties a value to its name.
#[derive(Clone, Copy, PartialEq)]
enum Tie {
    /// A sign between them.
    Sign,
    /// Words or a line break between them.
    Apart,
}

/// Finds the secrets that are named by this word.
pub(super) fn by(text: &[u8], word: &Range<usize>, found: &mut Vec<Secret>) {
    let Some(name) = names::name(text, word) else { return };
    look_at(NAME + 2 * SENTENCE + LINES);
    let name = Named { text, word: word.start.max(word.end.saturating_sub(NAME))..word.end, name };
    if let Some(secret) = name.behind() {
        name.list_from(secret.bytes.end, found);
        found.push(secret);
    } else if let Some(secret) = name.before() {
        found.push(secret);
    }
}

/// Finds the password in an argument that has no name: `curl -u alice:…`, `sshpass -p …`, `mysql -p…`.
pub(super) fn by_command(text: &[u8], word: &Range<usize>, found: &mut Vec<Secret>) {
    let bytes = &text[word.clone()];
    if !(bytes.starts_with(b"-u") || bytes.starts_with(b"-p") || bytes == b"-a") {
        return;
    }
    look_at(COMMAND);
    let line = &text[word.start.saturating_sub(COMMAND)..word.start];
    let line = line.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let has = |program: &str| line.windows(program.len()).any(|part| part == program.as_bytes());
    let next = word.end + run(text, word.end, b" ", 4);
    let place = match bytes {
        b"-u" if has("curl ") => {
            let user = text[next..]
                .iter()
                .take(NAME)
                .take_while(|byte| **byte != b':' && !byte.is_ascii_whitespace());
            let colon = next + user.count();
            (text.get(colon) == Some(&b':')).then_some(colon + 1)
        }
        b"-p" if has("sshpass ") || has("docker login ") || has("podman login ") || has("helm registry ") => {
            Some(next)
        }
        b"-a" if has("redis-cli ") => Some(next),
        [b'-', b'p', _, ..] if has("mysql") || has("mariadb") => Some(word.start + 2),
        _ => None,
    };
    let named = Named { text, word: word.start..word.end.min(word.start + 2), name: Name::Password };
    found.extend(place.and_then(|place| named.value(place, Tie::Sign)));
}

/// Finds the secret that begins with this word behind a name in another script.
pub(super) fn by_foreign(text: &[u8], word: &Range<usize>, found: &mut Vec<Secret>) {
    if text[word.start.saturating_sub(12)..word.start].is_ascii() {
        return;
    }
    let before = &text[word.start.saturating_sub(NAME)..word.start];
    let end = |of: &[u8], bytes: &[u8]| of.iter().rev().take_while(|byte| bytes.contains(byte)).count();
    let before = &before[..before.len() - end(before, b"\"'`* ").min(4)];
    let signs = [":", "=", "：", "は", "は、", "是", "为", "есть", "—", " is"];
    let sign = signs.iter().find_map(|sign| before.strip_suffix(sign.as_bytes()));
    let before = sign.unwrap_or(before);
    let before = &before[..before.len() - end(before, b"\"'`* ").min(4)];
    let Some((name, length)) = names::foreign(before) else { return };
    let from = word.start.saturating_sub(NAME);
    let name = Named { text, word: from + before.len() - length..from + before.len(), name };
    found.extend(name.value(word.start, Tie::Sign));
}

struct Named<'a> {
    text: &'a [u8],
    word: Range<usize>,
    name: Name,
}

impl Named<'_> {
    fn behind(&self) -> Option<Secret> {
        if let Some(at) = self.linked() {
            return self.value(at, Tie::Sign);
        }
        match self.after_sign() {
            Some(at) if self.text[at..].first().is_none_or(|byte| b"\r\n|>[({\\".contains(byte)) => {
                self.on_next_line(at).and_then(|at| self.value(at, Tie::Apart))
            }
            Some(at) => self.typed(at).or_else(|| self.sentence()),
            None => self.sentence(),
        }
    }

    /// A value behind a sign, or behind a type and another sign: `let password: &str = "…"`.
    fn typed(&self, at: usize) -> Option<Secret> {
        if let Some(secret) = self.value(at, Tie::Sign) {
            return Some(secret);
        }
        let (start, quote) = begin(self.text, at);
        let rest = &self.text[start..self.text.len().min(start + JUDGED)];
        let length = assigned::length(rest, quote);
        let next = start + length + run(self.text, start + length, b" ", 8);
        if quote.is_some() || self.text.get(next) != Some(&b'=') || self.text.get(next + 1) == Some(&b'=') {
            return None;
        }
        let secret = self.value(next + 1 + run(self.text, next + 1, b" \t", 8), Tie::Sign)?;
        // a number with a type is a constant of a program
        let is_number = self.text[secret.bytes.clone()].iter().all(u8::is_ascii_digit);
        (!is_number).then_some(secret)
    }

    /// Returns the place behind the sign between the name and its value.
    fn after_sign(&self) -> Option<usize> {
        let (text, word) = (self.text, &self.word);
        let closing = run(text, word.end, b"\"'`])*", 4);
        let mut at = word.end + closing;
        if text.get(word.end) == Some(&b'>') && word.start > 0 && text[word.start - 1] == b'<' {
            return Some(word.end + 1);
        }
        let blanks = run(text, at, b" \t", 8);
        at += blanks;
        let rest = &text[at..];
        let signs: [&[u8]; 17] = [
            b":=",
            b"?=",
            b"=>",
            b"->",
            b"==",
            b"=",
            b":",
            "：".as_bytes(),
            "→".as_bytes(),
            b"|",
            b"is: ",
            b"is ",
            b"was ",
            b"- ",
            "– ".as_bytes(),
            "— ".as_bytes(),
            b"are ",
        ];
        let needs_blank = |sign: &[u8]| sign.ends_with(b" ") || sign == b"|";
        match signs.iter().find(|sign| rest.starts_with(sign)) {
            Some(sign) if blanks > 0 || !needs_blank(sign) => at += sign.len(),
            // `pass("…")` may pass anything
            _ if blanks == 0 && word.len() > 4 && rest.first() == Some(&b'(') && is_quote(rest.get(1)) => {
                at += 1;
            }
            _ if closing > 0 && rest.first() == Some(&b',') => {
                let gap = run(text, at + 1, b" \t", 8);
                at += 1 + gap;
                return is_quote(text.get(at)).then_some(at);
            }
            _ if blanks > 0 && (self.is_flag() || self.name == Name::Scheme || self.is_login()) => {}
            _ => return None,
        }
        at += run(text, at, b"*", 2);
        Some(at + run(text, at, b" \t", 8))
    }

    fn is_flag(&self) -> bool {
        self.text[self.word.clone()].starts_with(b"--")
    }

    /// Returns true in `login alice password …`, as `.netrc` has it.
    fn is_login(&self) -> bool {
        let before = &self.text[self.word.start.saturating_sub(SENTENCE)..self.word.start];
        let is_login = |from: usize| before[from..].starts_with(b"login ");
        self.name == Name::Password && (0..before.len()).any(is_login)
    }

    /// Returns the place of the value of an entry whose name this is: `"name": "TOKEN", "value": …`.
    fn linked(&self) -> Option<usize> {
        let text = self.text;
        let mut at = self.word.end + run(text, self.word.end, b"\"'`])", 2);
        at += run(text, at, b",;:{ \t\r\n", 32);
        at += run(text, at, b"\"'`", 1);
        let rest = &text[at..];
        let key = VALUE_KEYS.iter().rev().find(|key| {
            rest.len() > key.len() && rest[..key.len()].eq_ignore_ascii_case(key) && !is_word(rest[key.len()])
        })?;
        at += key.len() + run(text, at + key.len(), b"\"'`", 1);
        at += run(text, at, b" \t", 8);
        let sign = run(text, at, b":=", 2);
        (sign > 0).then(|| at + sign + run(text, at + sign, b" \t", 8))
    }

    /// Returns the place of a value on one of the next lines: behind a fence, the rule of a table, a bullet.
    fn on_next_line(&self, at: usize) -> Option<usize> {
        let window = &self.text[at..self.text.len().min(at + LINES)];
        let opens = run(window, 0, b"|>-+[({\\ \t", 8);
        let mut from = opens;
        if !matches!(window.get(from), Some(b'\r' | b'\n')) {
            return None;
        }
        while let Some(length) = window[from..].iter().position(|byte| *byte == b'\n') {
            let line = window[from..from + length].trim_ascii();
            let is_fence = line.starts_with(b"```");
            if !line.is_empty() && !is_fence && !line.iter().all(|byte| b"|-: +".contains(byte)) {
                break;
            }
            from += length + 1;
        }
        let place = from + run(window, from, b" \t-*>|", 24);
        (place < window.len()).then_some(at + place)
    }

    /// A value behind words of a sentence: `the API key for staging: …`, `use the token …`.
    fn sentence(&self) -> Option<Secret> {
        let from = self.word.end + run(self.text, self.word.end, b"*`)", 2);
        let window = &self.text[from..self.text.len().min(from + SENTENCE)];
        let mut at = 0;
        for _ in 0..WORDS {
            let blanks = run(window, at, b" ,(\"'`*", 4);
            let is_part = |byte: &u8| is_word(*byte) || b"'()#".contains(byte) || *byte >= 0x80;
            let length = window[at + blanks..].iter().take_while(|byte| is_part(byte)).count();
            if blanks == 0 || length == 0 {
                return None;
            }
            let place = from + at + blanks;
            if length >= RANDOM && is_apart(window, at + blanks, length) {
                let (start, _) = begin(self.text, place);
                let secret = self.value(start, Tie::Apart)?;
                let value = &self.text[secret.bytes.clone()];
                return (is_random(value, RANDOM) && !is_account(value)).then_some(secret);
            }
            let word = &window[at + blanks..at + blanks + length];
            let has_letter = word.iter().any(|byte| byte.is_ascii_alphabetic() || *byte >= 0x80);
            if !has_letter || names::is_other_thing(word) || window[at..at + blanks].contains(&b',') {
                return None;
            }
            at += blanks + length;
            let is_verb = word == b"is" || word == b"was" || word == b"to";
            if is_verb
                && window.get(at) == Some(&b' ')
                && let Some(secret) = self.apart(from + at + 1)
            {
                return Some(secret);
            }
            let signs = run(window, at, b"*)`\"' ", 3);
            match window.get(at + signs) {
                Some(b':' | b'=' | b'|') => {
                    let value = from + at + signs + 1;
                    let value = value + run(self.text, value, b"*=> \t", 4);
                    return self.apart(value);
                }
                Some(b'-') if window.get(at + signs + 1) == Some(&b'>') => {
                    let value = from + at + signs + 2;
                    return self.apart(value + run(self.text, value, b" \t", 4));
                }
                _ => {}
            }
        }
        None
    }

    /// A value that stands apart from the name, there or on the next line.
    fn apart(&self, at: usize) -> Option<Secret> {
        match self.text.get(at) {
            Some(b'\r' | b'\n') => self.on_next_line(at).and_then(|at| self.value(at, Tie::Apart)),
            _ => self.value(at, Tie::Apart),
        }
    }

    /// A value before the name: `… is the password`, `use … as the token`.
    fn before(&self) -> Option<Secret> {
        let (text, end) = (self.text, self.word.start);
        let window = &text[end.saturating_sub(SENTENCE)..end];
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b" '-_".contains(byte);
        let words = window.iter().rev().take_while(|byte| is_plain(byte)).count();
        let words = &window[window.len() - words..];
        let mut at = words.len();
        let mut verb = None;
        for part in words.rsplit(|byte| *byte == b' ').take(WORDS) {
            at -= part.len();
            let is_verb = part == b"is" || part == b"as" || part == b"was";
            if is_verb && at > 0 && at + part.len() < words.len() {
                verb = Some(at - 1);
                break;
            }
            at = at.saturating_sub(1);
        }
        // ", the password" and "(our password"
        let opens = [&b"the "[..], b" the ", b"my ", b" my ", b"our ", b" our "]
            .iter()
            .any(|it| words.starts_with(it));
        let punctuation = window[..window.len() - words.len()].last();
        let verb = match verb {
            Some(verb) => end - words.len() + verb,
            None if opens && punctuation == Some(&b',') => end - words.len() - 1,
            None if opens && punctuation == Some(&b'(') => end - words.len() - 1,
            None => return None,
        };
        if words.split(|byte| *byte == b' ').any(names::is_other_thing) {
            return None;
        }
        // "is no token", "as a token of", "is the token's address"
        let follows = &text[self.word.end..text.len().min(self.word.end + 16)];
        let next = follows.strip_prefix(b" ").unwrap_or_default();
        let next = next.split(|byte| !is_word(*byte)).next().unwrap_or_default();
        if names::is_other_thing(next) || follows.starts_with(b"'s") {
            return None;
        }
        let value_end = verb;
        let around = |byte: &&u8| b"\"'`*) ".contains(byte);
        let quotes = text[..value_end].iter().rev().take(3).take_while(around).count();
        let value_end = value_end - quotes;
        let is_end =
            |byte: &u8| byte.is_ascii_whitespace() || b"\"'`<>()[]{}|\\".contains(byte) || *byte >= 0xe0;
        let length = text[..value_end].iter().rev().take(JUDGED + 1).take_while(|byte| !is_end(byte)).count();
        if length > JUDGED {
            return None;
        }
        let bytes = value_end - length..value_end;
        let is_one = self.is_secret(&bytes, None, Tie::Apart);
        is_one.then(|| Secret { basis: bytes.start..self.word.end, bytes, kind: self.kind() })
    }

    /// The other values of a list that begins with one.
    fn list_from(&self, first: usize, found: &mut Vec<Secret>) {
        let mut at = first;
        for _ in 0..VALUES {
            let next = at + run(self.text, at, b"\"'`", 1);
            let comma = run(self.text, next, b",", 1);
            let mut value = next + comma + run(self.text, next + comma, b" \t\r\n", 40);
            let bullet = run(self.text, value, b"-*", 1);
            value += bullet + run(self.text, value + bullet, b" ", 2);
            if comma + bullet == 0 || value > self.word.end + LIST {
                return;
            }
            let Some(secret) = self.value(value, Tie::Apart) else { return };
            at = secret.bytes.end;
            found.push(secret);
        }
    }

    /// The value at a place, if it is secret.
    fn value(&self, at: usize, tie: Tie) -> Option<Secret> {
        let (start, quote) = begin(self.text, at);
        let (text, from) = (self.text, self.word.start);
        look_at(JUDGED);
        if let Some(secret) = service_token::begins_at(text, start, service_token::CURRENT) {
            return Some(Secret { basis: from..secret.bytes.end, ..secret });
        }
        let window = &text[start..text.len().min(start + JUDGED)];
        let judged = start..start + assigned::length(window, quote);
        if !self.is_secret(&judged, quote, tie) {
            return None;
        }
        let mut end = judged.end;
        if judged.len() + 4 >= window.len() {
            // a long one goes on, without a sign behind which another value would begin
            let is_part = |byte: &u8| is_word(*byte) || b".~%".contains(byte);
            let most = &text[end..text.len().min(start + LONGEST)];
            end += most.iter().take_while(|byte| is_part(byte)).count();
            end += run(text, end, b"=", 2);
            look_at(end - judged.end);
        }
        while text.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) {
            end -= 1;
        }
        Some(Secret { bytes: start..end, basis: from..end, kind: self.kind() })
    }

    fn kind(&self) -> &'static str {
        match self.name {
            Name::Password => "password",
            Name::Token => "token",
            Name::Header | Name::Scheme => "authorization",
        }
    }

    fn is_secret(&self, bytes: &Range<usize>, quote: Option<u8>, tie: Tie) -> bool {
        let value = &self.text[bytes.clone()];
        let follows = &self.text[bytes.end..];
        if value.is_empty() || is_public(value) || is_path(value) {
            return false;
        }
        // patterns, calls, and what repeats itself
        if self.name != Name::Password
            && (value.iter().any(|byte| b"()[]{}|\\".contains(byte)) || bits(value) < 2.2)
        {
            return false;
        }
        if tie == Tie::Apart && (value.len() < APART || assigned::is_call(follows)) {
            return false;
        }
        assigned::is_secret(value, self.name, quote, follows) || is_odd(value, self.name, quote, follows)
    }
}

/// Returns true if a text, which begins a line, may begin with a value whose name is on a line before.
pub(super) fn may_be_named_before(text: &[u8]) -> bool {
    let window = &text[..text.len().min(2 * LINES)];
    let mut at = run(window, 0, b" \t\r\n-*>|:+`\"',", 2 * LINES);
    // a fence with a language
    if window[..at].ends_with(b"```") {
        at += window[at..].iter().position(|byte| *byte == b'\n').unwrap_or(0);
        at += run(window, at, b" \t\r\n-*>|\"'`", LINES);
    }
    let rest = &window[at..];
    if VALUE_KEYS.iter().any(|key| rest.len() >= key.len() && rest[..key.len()].eq_ignore_ascii_case(key)) {
        return true;
    }
    let is_end = |byte: &u8| byte.is_ascii_whitespace() || b"\"'`,;<>()[]{}|\\".contains(byte);
    let value = &rest[..rest.iter().position(is_end).unwrap_or(rest.len())];
    let is_odd = |byte: &u8| !byte.is_ascii_lowercase();
    // At the end of the window it may go on. One at the end of the text is judged again once it does.
    let is_long = value.len() >= APART || (text.len() > window.len() && value.len() == rest.len());
    is_long && (value.len() >= 16 || value.iter().skip(1).any(is_odd))
}

/// Returns true for values without digits, or with signs, that nobody takes for words.
fn is_odd(value: &[u8], name: Name, quote: Option<u8>, follows: &[u8]) -> bool {
    if value.contains(&b' ') || is_placeholder(value) || is_place(value) || value.len() < 8 {
        return false;
    }
    if quote.is_none() && is_code(value, follows) {
        return false;
    }
    let has = |is: fn(&u8) -> bool| value.iter().any(is);
    let mixed = has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    match name {
        Name::Password => mixed && has(|byte| b"!@#$%^&~?".contains(byte)),
        _ if value.len() < 16 || has(u8::is_ascii_digit) => false,
        _ if mixed => disorder(value) >= 0.75,
        _ => value.iter().all(u8::is_ascii_alphabetic) && pairs(value) >= 0.35,
    }
}

/// Returns true for what is public by its looks: addresses, digests, public keys, ids of objects.
fn is_public(value: &[u8]) -> bool {
    const BEGINNINGS: [&str; 52] = [
        "sha1-",
        "sha256-",
        "sha384-",
        "sha512-",
        "sha1:",
        "sha256:",
        "sha384:",
        "sha512:",
        "SHA256:",
        "md5:",
        "h1:",
        "blake3",
        "10c0/",
        "ssh-",
        "ecdsa-",
        "AAAAB3NzaC1",
        "AAAAC3NzaC1",
        "AAAAE2VjZHNh",
        "age1",
        "arn:",
        "data:",
        "urn:",
        "spotify:",
        "projects/",
        "price_1",
        "prod_",
        "cus_",
        "sub_1",
        "evt_",
        "acct_",
        "pm_1",
        "txn_",
        "msg_",
        "chatcmpl-",
        "call_",
        "toolu_",
        "req_",
        "asst_",
        "thread_",
        "pk_live_",
        "pk_test_",
        "pk-lf-",
        "bc1",
        "addr1",
        "tok_",
        "card_",
        "file-",
        "org-",
        "proj_",
        "run_",
        "cas_",
        "secrets.",
    ];
    let is_hex = |rest: &[u8]| rest.iter().all(u8::is_ascii_hexdigit);
    let is_address = value.len() == 42 && value.starts_with(b"0x") && is_hex(&value[2..]);
    is_address || BEGINNINGS.iter().any(|beginning| value.starts_with(beginning.as_bytes()))
}

/// Returns true for the address of an account of Solana, as its tokens are called by.
fn is_account(value: &[u8]) -> bool {
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() && !b"0OIl".contains(byte);
    (43..=44).contains(&value.len()) && value.iter().all(is_digit)
}

/// Returns true for a path, of which a part is a word, and for the name of a file.
fn is_path(value: &[u8]) -> bool {
    if value.starts_with(b"..") || value.get(1..3) == Some(b":\\") {
        return true;
    }
    if let Some(dot) = value.iter().rposition(|byte| *byte == b'.')
        && ENDINGS.iter().any(|ending| value[dot + 1..].eq_ignore_ascii_case(ending.as_bytes()))
    {
        return true;
    }
    let is_word = |part: &[u8]| {
        part.len() >= 4
            && part.iter().all(|byte| byte.is_ascii_lowercase() || b"-_".contains(byte))
            && pairs(part) < 0.34
    };
    value.contains(&b'/') && value.split(|byte| *byte == b'/').any(is_word)
}

fn is_quote(byte: Option<&u8>) -> bool {
    byte.is_some_and(|byte| b"\"'`".contains(byte))
}

/// Returns true if a word of a sentence ends where nothing goes on with it, as a path or a host would.
fn is_apart(window: &[u8], at: usize, length: usize) -> bool {
    let follows = &window[at + length..];
    match follows {
        [b'.', next, ..] => !is_word(*next),
        [b'@' | b':' | b'/' | b'=' | b'&' | b'?', ..] => false,
        _ => true,
    }
}

/// Where a value begins behind its quote and scheme, and the quote.
fn begin(text: &[u8], at: usize) -> (usize, Option<u8>) {
    let opened = ["“", "‘", "「", "『"].iter().any(|it| text[at..].starts_with(it.as_bytes()));
    let at = at + if opened { "“".len() } else { 0 };
    let prefix =
        usize::from(text.get(at).is_some_and(|it| b"bBrRfFuU$@".contains(it)) && is_quote(text.get(at + 1)));
    let (start, quote) = assigned::begin(text, at + prefix);
    let schemes: [&[u8]; 4] = [b"bot ", b"ssws ", b"apikey ", b"base64:"];
    let rest = &text[start..];
    let scheme = schemes
        .iter()
        .find(|scheme| rest.len() > scheme.len() && rest[..scheme.len()].eq_ignore_ascii_case(scheme));
    (start + scheme.map_or(0, |scheme| scheme.len()), quote)
}
