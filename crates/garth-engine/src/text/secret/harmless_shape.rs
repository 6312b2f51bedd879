//! Shapes of values that are not secret although they have letters and digits: times, versions, colours,
//! paths, ranges, names in programs, digests and ids. Also recognises values that look random.

use super::assigned::Name;
use super::random::{disorder, is_hex, pairs};

/// Extensions of file names.
const ENDINGS: [&str; 52] = [
    "png", "jpg", "jpeg", "gif", "webp", "svg", "ico", "pdf", "css", "js", "mjs", "ts", "tsx", "json",
    "jsonl", "yaml", "yml", "toml", "lock", "md", "txt", "html", "htm", "xml", "csv", "parquet", "snappy",
    "zip", "gz", "tar", "bin", "dll", "so", "exe", "rs", "py", "go", "java", "sh", "sql", "db", "log", "pem",
    "key", "crt", "p12", "mp3", "mp4", "woff2", "wasm", "map", "docx",
];

/// Limit on the letters of a word with a number behind it.
const NUMBERED: usize = 12;
/// Limits of an identifier: its bytes, and the bytes of its parts that are not words.
const IDENTIFIER: usize = 24;
const OTHERS: usize = 6;

/// Returns true for values that are public by their looks: addresses, digests, public keys, ids of objects.
pub(super) fn is_public(value: &[u8]) -> bool {
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

/// Returns true for an address of a Solana account: tokens there are identified by one.
pub(super) fn is_account(value: &[u8]) -> bool {
    // The alphabet of base58, which leaves out characters that look alike.
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() && !b"0OIl".contains(byte);
    (43..=44).contains(&value.len()) && value.iter().all(is_digit)
}

/// Returns true for a path with a word in it, and for the name of a file.
pub(super) fn is_path(value: &[u8]) -> bool {
    let has_drive = value[0].is_ascii_alphabetic() && matches!(value.get(1..3), Some(b":\\" | b":/"));
    if value.starts_with(b"..") || has_drive {
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

/// Returns true for a date, and for a time that begins with one, as RFC 3339 and ISO 8601 write them.
pub(super) fn is_dated(value: &[u8]) -> bool {
    let digits = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
    let rest = match value {
        [y1, y2, y3, y4, a @ (b'-' | b'/' | b'.'), m1, m2, b, d1, d2, rest @ ..]
            if a == b && digits(&[*y1, *y2, *y3, *y4, *m1, *m2, *d1, *d2]) =>
        {
            rest
        }
        // Without signs in between: `20260127T093000Z`.
        [day @ .., _] if day.len() >= 8 && digits(&day[..8]) && b"Tt".contains(&value[8]) => &value[8..],
        _ => return false,
    };
    rest.iter().all(|byte| byte.is_ascii_digit() || b"Tt_:.,+-Zz".contains(byte))
}

/// Returns true for the version of something: `2.1.0`, `v2.1.0-rc3`, `^1.4.0-beta.2`.
pub(super) fn is_version(value: &[u8]) -> bool {
    let start = value.iter().take(2).take_while(|byte| b"vV^~=".contains(byte)).count();
    let core = value[start..].iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    let (core, rest) = value[start..].split_at(core);
    let parts = core.split(|byte| *byte == b'.');
    let is_core = (3..=4).contains(&parts.clone().count())
        && parts.into_iter().all(|part| (1..=4).contains(&part.len()));
    let is_label = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-+_".contains(byte);
    is_core
        && rest.first().is_none_or(|byte| byte.is_ascii_lowercase() || b"-+".contains(byte))
        && rest.iter().all(is_label)
}

/// Returns true for a number of a program with a type or with separators: `128_000u64`.
pub(super) fn is_typed_number(value: &[u8]) -> bool {
    const TYPES: [&str; 14] = [
        "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "f32", "f64",
    ];
    if let Some(number) = value.strip_prefix(b"0x") {
        return number.contains(&b'_') && number.iter().all(|it| it.is_ascii_hexdigit() || *it == b'_');
    }
    let value = value.strip_prefix(b"-").unwrap_or(value);
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'_').count();
    let (number, rest) = value.split_at(digits);
    let separated = number.windows(2).any(|it| it[0] == b'_') && rest.is_empty();
    number.first().is_some_and(u8::is_ascii_digit)
        && (separated || TYPES.iter().any(|name| rest == name.as_bytes()))
}

/// Returns true for the value of the header `Range` of HTTP: `bytes=0-1023`.
pub(super) fn is_byte_range(value: &[u8]) -> bool {
    let Some(ranges) = value.strip_prefix(b"bytes=") else { return false };
    ranges.contains(&b'-') && ranges.iter().all(|byte| byte.is_ascii_digit() || b"-,".contains(byte))
}

/// Returns true for the name of a constant: words in capitals, and some digits: `NO_DEPRECATED_3_0`.
pub(super) fn is_constant_name(value: &[u8]) -> bool {
    let parts = value.split(|byte| *byte == b'_');
    let words = parts.filter(|part| part.len() > 1 && part.iter().all(u8::is_ascii_uppercase));
    let in_words: usize = words.clone().map(|word| word.len() + 1).sum();
    value.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_')
        && words.count() >= 2
        && in_words * 3 >= value.len() * 2
}

/// Returns true for the name of a type: words with capitals, and some digits between them, such as
/// `PKCS7PrivateKeyTypes`.
pub(super) fn is_type_name(value: &[u8]) -> bool {
    if !value[0].is_ascii_uppercase() || !value.iter().all(u8::is_ascii_alphanumeric) {
        return false;
    }
    let (mut in_words, mut words, mut odd) = (0, 0, 0.0);
    let mut at = 0;
    while at < value.len() {
        let capital = usize::from(value[at].is_ascii_uppercase());
        let small = value[at + capital..].iter().take_while(|byte| byte.is_ascii_lowercase()).count();
        let word = &value[at..at + capital + small];
        if capital == 1 && small >= 2 {
            in_words += word.len();
            words += 1;
            odd += pairs(word) * (word.len() - 1) as f64;
        }
        at += (capital + small).max(1);
    }
    // Random characters seldom make words of which most of the value consists, least of all such words.
    words >= 2 && in_words * 3 >= value.len() * 2 && odd < 0.25 * in_words as f64
}

/// Returns true for words with a number behind them: `HttpOnly2`, `Thursday2024`. Generated tokens have
/// digits between their letters.
pub(super) fn is_numbered_word(value: &[u8]) -> bool {
    let digits = value.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let letters = &value[..value.len() - digits];
    let is_small = |byte: &u8| byte.is_ascii_lowercase();
    // A capital begins a word of at least three letters.
    (1..=4).contains(&digits)
        && (3..=NUMBERED).contains(&letters.len())
        && letters.iter().all(u8::is_ascii_alphabetic)
        && letters.windows(3).all(|it| it.iter().filter(|byte| is_small(byte)).count() >= 2)
        && letters[letters.len() - 2..].iter().all(is_small)
}

/// Returns true for the name of a model or a setting: words and short numbers with signs between them, such
/// as `o200k_base` and `gpt-4o-mini`.
pub(super) fn is_identifier(value: &[u8]) -> bool {
    let is_small = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(byte);
    if value.len() > IDENTIFIER || !value.iter().all(is_small) {
        return false;
    }
    let parts = || value.split(|byte| b"_-".contains(byte));
    let is_word =
        |part: &[u8]| part.len() >= 4 && part.iter().all(u8::is_ascii_lowercase) && pairs(part) < 0.34;
    let others: usize = parts().filter(|part| !is_word(part)).map(<[u8]>::len).sum();
    parts().any(is_word) && others <= OTHERS
}

/// Returns true for a UUID: hexadecimal digits in groups of 8, 4, 4, 4 and 12.
pub(super) fn is_uuid(value: &[u8]) -> bool {
    let groups = value.split(|byte| *byte == b'-').map(<[u8]>::len);
    is_hex(value) && groups.eq([8, 4, 4, 4, 12])
}

/// Returns true for values that are no generated token: a colour, a number, the name of an issue, and
/// a pair of a name and its value, which is judged by that name.
pub(super) fn is_not_a_token(value: &[u8]) -> bool {
    let hex = |rest: &[u8]| rest.iter().all(u8::is_ascii_hexdigit);
    if let Some(colour) = value.strip_prefix(b"#") {
        return matches!(colour.len(), 3 | 4 | 6 | 8) && hex(colour);
    }
    if let Some(number) = value.strip_prefix(b"0x") {
        return number.len() <= 8 && hex(number);
    }
    let letters = value.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    let is_issue = (2..=10).contains(&letters)
        && value.len() > letters + 1
        && value.len() <= letters + 7
        && value[letters] == b'-'
        && value[letters + 1..].iter().all(u8::is_ascii_digit);
    // A count, as in `tokens: input=1234567`.
    let name = value.iter().take_while(|byte| byte.is_ascii_lowercase() || b"_-".contains(byte)).count();
    let is_count = name > 0
        && value.len() > name + 1
        && b"=:".contains(&value[name])
        && value[name + 1..].iter().all(u8::is_ascii_digit);
    let ends = [&b"_id="[..], b"_id:", b"_ref="];
    is_issue
        || is_count
        || ends.iter().any(|end| value.windows(end.len()).take(32).any(|it| it.eq_ignore_ascii_case(end)))
}

/// Returns true for a name of a program with dots or arrows between its parts: `cfg.Db2.Password`.
pub(super) fn is_field(value: &[u8]) -> bool {
    if value.windows(2).any(|pair| pair == b"->") {
        return true;
    }
    let is_plain = |part: &[u8]| {
        let letters = part.iter().take_while(|byte| byte.is_ascii_alphabetic() || **byte == b'_').count();
        let (name, rest) = part.split_at(letters);
        letters > 0
            && rest.len() <= 3
            && rest.iter().all(|byte| byte.is_ascii_digit())
            && (letters < 4 || pairs(name) < 0.45)
    };
    value.contains(&b'.') && value.split(|byte| *byte == b'.').all(is_plain)
}

/// Returns true for values that look drawn at random: letters and digits of several kinds in no order.
/// False for digests, and for values that begin with a word and a sign, as names, versions and ids do.
pub(super) fn looks_random(value: &[u8], name: Name) -> bool {
    // In a pair with a colon, the second part decides.
    if let Some(sign) = value.iter().take(32).position(|byte| *byte == b':') {
        return sign > 0 && value.len() > sign + 1 && looks_random(&value[sign + 1..], name);
    }
    let has = |is: fn(&u8) -> bool| value.iter().any(is);
    if is_hex(value) || is_not_a_token(value) || starts_with_word(value) || !has(u8::is_ascii_digit) {
        return false;
    }
    let classes = [u8::is_ascii_lowercase, u8::is_ascii_uppercase, u8::is_ascii_punctuation];
    let classes = classes.into_iter().filter(|is| has(*is)).count();
    // Of one kind of letters, short values are too often words with a number.
    let least = if classes >= 2 || name == Name::Password { 8 } else { APART };
    classes >= 1 && value.len() >= least && disorder(value) >= 0.5
}

/// Returns true for a long value of all kinds of signs in no order, as `define('AUTH_KEY', '…')` of WordPress
/// has it. It may contain blanks and brackets.
pub(super) fn is_salt(value: &[u8]) -> bool {
    let has = |is: fn(&u8) -> bool| value.iter().any(is);
    let all = [u8::is_ascii_lowercase, u8::is_ascii_uppercase, u8::is_ascii_digit, u8::is_ascii_punctuation];
    // Patterns have few different characters for their length.
    let different = (b' '..=b'~').filter(|byte| value.contains(byte)).count();
    value.len() >= 48
        && value.is_ascii()
        && all.into_iter().all(has)
        && different >= 32
        && !value.windows(2).any(|pair| pair == b"  ")
        && disorder(value) >= 0.7
}

/// Minimum length of a value of small letters and digits alone.
const APART: usize = 12;

/// Returns true for a word, or a letter with a number, before a sign: `req-8f3a`, `x86_64`, `Zone1-3`.
fn starts_with_word(value: &[u8]) -> bool {
    let letters = value.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let digits = value[letters..].iter().take(5).take_while(|byte| byte.is_ascii_digit()).count();
    let ends = value.get(letters + digits).is_some_and(|byte| b"-_.=#@/".contains(byte));
    let word = &value[..letters];
    let is_word = match letters {
        0 => false,
        1 => digits > 0,
        _ => {
            let small = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_lowercase);
            small(&word[1..]) || word.iter().all(u8::is_ascii_uppercase)
        }
    };
    ends && is_word
}
