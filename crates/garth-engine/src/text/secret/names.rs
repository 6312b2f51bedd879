//! Names that say that the value next to them is secret.

use std::ops::Range;
use std::sync::LazyLock;

use super::assigned::{self, Name};
use super::foreign_name::{self, WordSet};
use super::judgement::Judgement;

/// Words before `key` in the names of secret keys, besides those of the first judgement.
const KEYS: [&str; 18] = [
    "subscription",
    "functions",
    "function",
    "admin",
    "application",
    "app",
    "client",
    "consumer",
    "webhook",
    "encrypt",
    "cipher",
    "aes",
    "hmac",
    "jwt",
    "bot",
    "psk",
    "recovery",
    "wallet",
];
/// Services whose keys are named after them.
const SERVICES: [&str; 22] = [
    "openai",
    "anthropic",
    "claude",
    "gemini",
    "google",
    "maps",
    "groq",
    "mistral",
    "cohere",
    "stripe",
    "sendgrid",
    "mailgun",
    "twilio",
    "github",
    "datadog",
    "algolia",
    "pinecone",
    "azure",
    "deepgram",
    "elevenlabs",
    "tavily",
    "serper",
];
/// Tokens that give no access: places in a list, parts of a design, means to cancel a call.
const HARMLESS: [&str; 9] = [
    "pagetoken",
    "nexttoken",
    "continuationtoken",
    "synctoken",
    "cancellationtoken",
    "idempotencytoken",
    "designtoken",
    "publickey",
    "publishablekey",
];
/// Names of tokens that lock or repeat a request: a UUID next to one gives no access.
const REQUESTS: [&str; 5] = ["locktoken", "changetoken", "clienttoken", "requesttoken", "retrytoken"];
/// Words in names in capitals that end with `KEY` and are not secret: `PRIMARY_KEY`, `CACHE_KEY`.
const NOT_KEYS: [&str; 11] = [
    "PUBLIC",
    "PUB_",
    "PUBLISHABLE",
    "PRIMARY",
    "FOREIGN",
    "PARTITION",
    "SORT",
    "CACHE",
    "SITE",
    "ROW",
    "OBJECT",
];
/// Words after a name that make it that of something else: the address of a token is not a token.
const OTHER_SUBJECTS: [&str; 78] = [
    "id",
    "ids",
    "url",
    "urls",
    "uri",
    "link",
    "links",
    "address",
    "addresses",
    "hash",
    "hashes",
    "digest",
    "digests",
    "checksum",
    "sha",
    "sha1",
    "sha256",
    "sha512",
    "md5",
    "name",
    "names",
    "path",
    "paths",
    "file",
    "files",
    "commit",
    "commits",
    "docs",
    "doc",
    "document",
    "documents",
    "documentation",
    "page",
    "pages",
    "type",
    "types",
    "fingerprint",
    "version",
    "versions",
    "count",
    "counts",
    "limit",
    "limits",
    "usage",
    "contract",
    "mint",
    "holder",
    "holders",
    "supply",
    "policy",
    "field",
    "column",
    "schema",
    "format",
    "length",
    "size",
    "request",
    "issue",
    "ticket",
    "transaction",
    "tx",
    "block",
    "message",
    "thread",
    "order",
    "build",
    "run",
    "job",
    "channel",
    "see",
    "via",
    "documented",
    "described",
    "explained",
    "image",
    "public",
    "item",
    "stored",
];

/// Names of other things than secrets in other languages: `la clave pública`. Since the fourth judgement.
const FOREIGN_SUBJECTS: [&str; 8] =
    ["pública", "primaria", "foránea", "publique", "primaire", "pubblica", "primária", "öffentlich"];

/// Returns the kind of the name that ends with this word.
pub(super) fn name(text: &[u8], word: &Range<usize>, judgement: Judgement) -> Option<Name> {
    found(text, word, judgement).map(|(name, _)| name)
}

/// Returns the kind of the name that ends with this word, and the place of the name, which may begin before
/// the word.
pub(super) fn found(text: &[u8], word: &Range<usize>, judgement: Judgement) -> Option<(Name, Range<usize>)> {
    if judgement == Judgement::Fourth && !may_be_name(&text[word.clone()]) {
        debug_assert_eq!(own_name(text, word, judgement), None, "`ENDS` is complete");
        return None;
    }
    let own = own_name(text, word, judgement);
    match judgement {
        Judgement::First | Judgement::Second => Some((own?, word.clone())),
        Judgement::Third => Some((own?, word.start..word.end + foreign_name::length_of_end(text, word))),
        Judgement::Fourth => {
            let foreign = foreign_name::in_word(text, word);
            let name = own.or(foreign.as_ref().map(|found| found.name))?;
            let start = foreign.map_or(word.start, |found| found.place.start.min(word.start));
            Some((name, start..word.end))
        }
    }
}

/// Returns false for most words that are not names, by their last three letters. Under the fourth judgement.
fn may_be_name(word: &[u8]) -> bool {
    /// Last three letters of the names in [`own_name`].
    const ENDS: [&[u8; 3]; 25] = [
        b"ord", b"swd", b"pwd", b"ase", b"ode", b"ass", b"rds", b"ret", b"ets", b"ken", b"ens", b"ial",
        b"als", b"uth", b"kie", b"ure", b"sig", b"alt", b"pat", b"key", b"eys", b"ion", b"rer", b"psk",
        b"sse",
    ];
    static MAY_BE: LazyLock<Vec<bool>> = LazyLock::new(|| {
        let mut may_be = vec![false; 26 * 26 * 26];
        let own = ENDS.iter().filter_map(|end| foreign_name::last_letters(**end));
        own.chain(foreign_name::ends_of_names()).for_each(|at| may_be[at] = true);
        may_be
    });
    // Signs divide a word into several.
    word.last_chunk::<3>().and_then(|last| foreign_name::last_letters(*last)).is_none_or(|at| MAY_BE[at])
}

/// Returns the kind of a name that is one word, or a key of several words.
fn own_name(text: &[u8], word: &Range<usize>, judgement: Judgement) -> Option<Name> {
    let bytes = &text[word.clone()];
    let ends = |end: &str| ends_with(bytes, end);
    let is = |whole: &str| bytes.eq_ignore_ascii_case(whole.as_bytes());
    if is("pw") {
        return Some(Name::Password);
    }
    let is_third = judgement >= Judgement::Third;
    // Later, names in other languages are compared in `foreign_name` alone.
    let is_old = judgement < Judgement::Fourth;
    // Three letters are enough to distinguish most words from names.
    let name = match bytes.last_chunk()?.map(|byte: u8| byte.to_ascii_lowercase()) {
        [b'o', b'r', b'd'] if ends("password") || (is_old && ends("wachtwoord")) => Name::Password,
        [b's', b'w', b'd'] if ends("passwd") => Name::Password,
        [b'p', b'w', b'd'] | [b'_', b'p', b'w'] => Name::Password,
        [b'a', b's', b'e'] if ends("passphrase") => Name::Password,
        [b'a', b's', b'e'] if ends("secret_key_base") => Name::Token,
        [b'o', b'd', b'e'] if ends("passcode") => Name::Password,
        [b'a', b's', b's'] if is("pass") || ends("_pass") || is("requirepass") => Name::Password,
        [b'o', b'r', b't'] if is_old && (ends("passwort") || ends("kennwort")) => Name::Password,
        [b'r', b'd', b's'] if ends("passwords") => Name::Password,
        [b'n', b'h', b'a'] if is_old && is("senha") => Name::Password,
        [b'r', b'e', b't'] if ends("secret") => Name::Token,
        [b'e', b't', b's'] if ends("secrets") => Name::Token,
        // Of WebDAV: its UUID is no secret.
        [b'k', b'e', b'n'] if is_third && is("opaquelocktoken") => return None,
        [b'k', b'e', b'n'] if ends("token") => Name::Token,
        [b'e', b'n', b's'] if ends("tokens") => Name::Token,
        [b'i', b'a', b'l'] if ends("credential") => Name::Token,
        [b'a', b'l', b's'] if ends("credentials") => Name::Token,
        [b'u', b't', b'h'] if is("masterauth") => Name::Password,
        [b'u', b't', b'h'] if is("auth") || ends("_auth") || ends("basicauth") => Name::Token,
        [b'k', b'i', b'e'] if is("cookie") || is("set-cookie") => Name::Token,
        [b'u', b'r', b'e'] if is("x-amz-signature") => Name::Token,
        [b's', b's', b'e'] if is_old && is("passe") && text[..word.start].ends_with(b"mot de ") => {
            Name::Password
        }
        // Only as the parameter of a URL: signed URLs of Azure have it.
        [b's', b'i', b'g'] if is("sig") && word.start > 0 && b"?&".contains(&text[word.start - 1]) => {
            Name::Token
        }
        // Of the settings of a program: a salt of a file is no secret.
        [b'a', b'l', b't'] if ends("_SALT") && bytes.iter().all(|byte| is_capital(*byte)) => Name::Token,
        [b'p', b'a', b't'] if ends("_pat") => Name::Token,
        [b'k', b'e', b'y'] if is_key(text, word.end, judgement) => Name::Token,
        [b'e', b'y', b's'] if ends("keys") && is_key(text, word.end - 1, judgement) => Name::Token,
        [b'i', b'o', b'n'] if ends("authorization") => Name::Header,
        [b'r', b'e', b'r'] if ends("bearer") => Name::Scheme,
        [b'p', b's', b'k'] if is_third && (is("psk") || ends("_psk") || ends("-psk")) => Name::Password,
        [b'a', b's', b'e'] | [b'h', b'a', b's']
            if is_third && is_old && foreign_name::length_of_end(text, word) > 0 =>
        {
            Name::Password
        }
        _ => return None,
    };
    let is_harmless =
        name == Name::Token && Joined::before(text, word.end, b"_- ").ends_with_one_of(&HARMLESS);
    (!is_harmless).then_some(name)
}

/// Returns true for the name of a token that locks or repeats a request.
pub(super) fn is_of_request(text: &[u8], word: &Range<usize>) -> bool {
    Joined::before(text, word.end, b"_- ").ends_with_one_of(&REQUESTS)
}

/// Returns true for a name of many other things: `auth`, `pass`, `pwd`, and any name as the scope in the
/// first line of a commit, such as `fix(token): `.
pub(super) fn is_weak(text: &[u8], word: &Range<usize>, judgement: Judgement) -> bool {
    let bytes = &text[word.clone()];
    // A name only after `mot de`, which makes it clear.
    if judgement >= Judgement::Fourth && bytes.eq_ignore_ascii_case(b"passe") {
        return false;
    }
    let weak: [&str; 7] = ["auth", "pass", "pwd", "pw", "cwd", "passe", "oldpwd"];
    let is_constant = bytes.iter().all(|byte| is_capital(*byte)) && bytes.contains(&b'_');
    if weak.iter().any(|name| bytes.eq_ignore_ascii_case(name.as_bytes()))
        || (ends_with(bytes, "_auth") && !is_constant)
    {
        return true;
    }
    let [before @ .., b'('] = &text[..word.start] else { return false };
    let follows = &text[word.end..];
    before.last().is_some_and(u8::is_ascii_alphabetic)
        && (follows.starts_with(b"): ") || follows.starts_with(b")!: "))
}

/// Returns true if the name that ends with `key` is that of a secret key.
fn is_key(text: &[u8], end: usize, judgement: Judgement) -> bool {
    // Names of properties have dots: `openai.api.key`.
    let signs: &[u8] = if judgement >= Judgement::Third { b"_- ." } else { b"_- " };
    let before = Joined::before(text, end - "key".len(), signs);
    if [&KEYS[..], &SERVICES, &assigned::KEYS].iter().any(|keys| before.ends_with_one_of(keys)) {
        return true;
    }
    // The name of an environment variable.
    let start = text[..end].iter().rev().take(64).take_while(|byte| is_capital(**byte)).count();
    let name = &text[end - start..end];
    let is_other = |other: &&str| name.windows(other.len()).any(|window| window == other.as_bytes());
    // One letter before `_KEY` says too little.
    name.len() > "X_KEY".len() && name.ends_with(b"_KEY") && !NOT_KEYS.iter().any(is_other)
}

fn is_capital(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_'
}

/// End of a name in small letters, without the signs that join its parts: `API key` as `apikey`.
struct Joined {
    bytes: [u8; 24],
    length: usize,
}

impl Joined {
    fn before(text: &[u8], end: usize, signs: &[u8]) -> Self {
        let mut joined = Self { bytes: [0; 24], length: 0 };
        for byte in text[end.saturating_sub(24)..end].iter().filter(|byte| !signs.contains(byte)) {
            joined.bytes[joined.length] = byte.to_ascii_lowercase();
            joined.length += 1;
        }
        joined
    }

    fn ends_with_one_of(&self, ends: &[&str]) -> bool {
        let bytes = &self.bytes[..self.length];
        // The last letter rules most of them out.
        ends.iter().any(|end| end.as_bytes().last() == bytes.last() && bytes.ends_with(end.as_bytes()))
    }
}

fn ends_with(bytes: &[u8], end: &str) -> bool {
    let from = bytes.len().checked_sub(end.len());
    from.is_some_and(|from| bytes[from..].eq_ignore_ascii_case(end.as_bytes()))
}

/// Returns true for a word after a name that makes it that of something else.
pub(super) fn names_other_thing(word: &[u8], judgement: Judgement) -> bool {
    static FOREIGN: LazyLock<WordSet> = LazyLock::new(|| WordSet::of(&FOREIGN_SUBJECTS));
    is_other_subject(word) || (judgement >= Judgement::Fourth && FOREIGN.contains(word))
}

fn is_other_subject(word: &[u8]) -> bool {
    OTHER_SUBJECTS.iter().any(|other| word.eq_ignore_ascii_case(other.as_bytes()))
}

/// Returns true for the key of an object whose value is something else than a secret, by the last of its
/// words: `rawId`, `page_url`.
pub(super) fn is_key_of_other_thing(key: &[u8]) -> bool {
    const MORE: [&str; 10] =
        ["integrity", "etag", "rev", "ref", "uuid", "created", "updated", "expires", "arn", "pattern"];
    let is_start = |at: usize| b"_-.".contains(&key[at - 1]) || key[at].is_ascii_uppercase();
    let start = (1..key.len()).rev().find(|at| is_start(*at)).unwrap_or(0);
    let last = if key.iter().any(u8::is_ascii_lowercase) { &key[start..] } else { key };
    is_other_subject(last)
        || is_other_subject(key)
        || MORE.iter().any(|other| last.eq_ignore_ascii_case(other.as_bytes()))
}
