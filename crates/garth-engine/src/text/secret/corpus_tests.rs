//! Tests on a corpus of harmless spans and of secrets, made from seeds: which are marked, that they are
//! marked in the same way however the text is cut, and that the cost is in proportion to the text.

use std::collections::BTreeMap;
use std::ops::Range;

use garth_testkit::data::random::Random;
use garth_testkit::data::{credentials, harmless};

use super::words::LOOKED_AT;
use super::*;

/// Returns true if a text shows half of a secret, or half of a line of it.
fn shows(text: &str, secret: &str) -> bool {
    let decoded = crate::text::json::decode(text);
    let lines = secret.split('\n').filter(|line| line.len() > 4 && !line.starts_with('-'));
    let mut halves = lines.flat_map(|line| [&line[..line.len() / 2], &line[line.len() / 2..]]);
    halves.any(|half| text.contains(half) || decoded.contains(half))
}

#[test]
fn harmless_spans_are_not_marked() {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 0..22 {
        for harmless in harmless::each(&mut Random::new(seed)) {
            *counts.entry(harmless.kind).or_default() += 1;
            assert_eq!(masked(&harmless.text), harmless.text, "{}", harmless.kind);
        }
    }
    assert!(counts.values().sum::<usize>() > 5_000 && counts["link"] > 1_000, "{counts:?}");
}

#[test]
fn marks_99_percent_of_secrets_in_each_form() {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut missed = Vec::new();
    for seed in 0..4 {
        let random = &mut Random::new(seed);
        for credential in [credentials::each(random), credentials::keys(random)].concat() {
            for written in credentials::written(&credential) {
                let (all, unmarked) = counts.entry(written.form).or_default();
                *all += 1;
                if shows(&masked(&written.text), &credential.secret) {
                    *unmarked += 1;
                    missed.push(written.text);
                }
            }
        }
    }
    assert!(counts.values().map(|(all, _)| all).sum::<usize>() > 10_000, "{counts:?}");
    assert!(counts.values().all(|(all, unmarked)| unmarked * 100 <= *all), "{counts:?} {missed:#?}");
}

#[test]
fn pieces_in_context_are_marked_like_full_text() {
    for seed in 0..12 {
        let random = &mut Random::new(seed);
        let text = credentials::mixed(random);
        let bytes = text.as_bytes();
        let parts = |found: &[Secret], range: Range<usize>| -> Vec<Range<usize>> {
            within(found, range).map(|(bytes, _)| bytes).collect()
        };
        let whole = find(bytes);
        let mut from = 0;
        while from < bytes.len() {
            let length = random.pick(&[1, 7, 40, 300, 2_000, 9_000]) + random.below(50) as usize;
            let to = text.ceil_char_boundary((from + length).min(bytes.len()));
            let (found, at) = find_around(Judgement::CURRENT, &bytes[..from], &bytes[from..to], &bytes[to..]);
            let inside = parts(&found, at..at + (to - from));
            assert_eq!(inside, parts(&whole, from..to), "seed {seed}: {from}..{to}: {}", &text[from..to]);
            from = to;
        }
    }
}

#[test]
fn lines_that_cannot_continue_are_judged_alone() {
    for seed in 0..40 {
        let text = credentials::mixed(&mut Random::new(seed));
        let found = find(text.as_bytes());
        for (at, _) in text.match_indices('\n') {
            let (before, first) = text.as_bytes().split_at(at + 1);
            let may_open = may_open(&before[before.len().saturating_sub(96)..]);
            if may_continue_secret(first) && (!needs_opening_line(first) || may_open) {
                continue;
            }
            let end =
                first.iter().position(|byte| *byte == b'\n').map_or(text.len(), |length| at + 1 + length);
            // The end of a key makes secrets of the lines before it, even if it comes in a later piece.
            let is_of_both = |it: &&Secret| {
                it.kind != "private key" && it.basis.start <= at && (at + 1..end).contains(&it.bytes.start)
            };
            let secret = found.iter().find(is_of_both);
            assert!(secret.is_none(), "seed {seed}: {secret:?} in {}", &text[at.saturating_sub(200)..end]);
        }
    }
}

#[test]
fn bytes_examined_are_linear_in_the_text() {
    let looked_at = |text: &str| {
        LOOKED_AT.with(|sum| sum.set(0));
        find(text.as_bytes());
        LOOKED_AT.with(std::cell::Cell::get)
    };
    let random = &mut Random::new(1);
    let mut pieces: Vec<String> = REPEATED_TEXTS.map(str::to_owned).to_vec();
    pieces.push(credentials::mixed(random));
    pieces.extend(harmless::each(random).into_iter().map(|it| it.text));
    let credentials = [credentials::each(random), credentials::keys(random)].concat();
    pieces.extend(credentials.iter().flat_map(credentials::written).step_by(5).map(|it| it.text));
    for piece in pieces {
        let times = (16 << 10) / piece.len() + 1;
        let (once, twice) = (looked_at(&piece.repeat(times)), looked_at(&piece.repeat(2 * times)));
        assert!(twice <= 2 * once + once / 50 + 4 * CONTEXT, "{once}, {twice}: {piece}");
        // Each name is searched around by itself, and most text has few.
        assert!(once <= 256 * piece.len() * times, "{once} for {}: {piece}", piece.len() * times);
    }
}

/// Texts that a judgement would read again and again if it looked too far around.
const REPEATED_TEXTS: [&str; 87] = [
    "\"d\":\"aB3dE6gH9jK2mN5pQ8sT1v \"",
    "LS0tLS1CRUdJTiBQUklWQVRFIEtFWQ==",
    "LS0tLS1CRUdJTiBQUklWQVRFIEtFWQ==\n",
    "LS0tLS1CRUdJTiBQUklWQVRFIEtFWQ== ",
    "a",
    "aB3",
    "-----BEGIN PRIVATE KEY-----\n",
    "-----BEGIN PRIVATE KEY-----\nAAAAAAAAAAAAAAAAAAAAAAAA\n",
    "AAAA\n-----END PRIVATE KEY-----\n",
    "-----BEGIN PRIVATE KEY-----",
    "-----",
    "password=",
    "password=\"",
    "password=a1b2c3d4",
    "password ",
    "token, ",
    "token\n",
    "token:\n",
    "tokens: [\n",
    "the token is ",
    " is the token",
    "http://a:",
    "http://a:b@",
    "//",
    "tskey-",
    "eyJ.",
    "sk-ant-",
    "ghp_",
    "/aB3",
    "\\n",
    "\\u0041",
    "token: &str = ",
    "Bearer ",
    "\"name\": \"TOKEN\", \"value\": ",
    "token=",
    "password:",
    "auth=",
    "token,\n",
    "password,user\na1b2c3d4,ann\n",
    "| password |\n",
    "| a | token |\n|---|---|\n",
    "password\t",
    "{\"name\":\"token\",",
    "{\"value\":\"a1b2c3d4\",\"name\":\"token\",",
    "\"-p\",",
    "curl -u a:",
    "IDENTIFIED BY ",
    "auth=('a','",
    "password='''",
    "\\\\\\\"",
    "\\",
    "token: [",
    "token: {",
    "token: {\"a\": ",
    "secrets: [{(",
    "token = a || ",
    "!!str ",
    "token: !!str ",
    "(token) VALUES (",
    "(token) VALUES ('a1b2c3d4'),",
    "&amp;",
    "&quot;",
    "%25",
    "%3D",
    "ｔ",
    "\u{200b}",
    "Private-Lines: 1\n",
    "{\"kty\":\"\",\"d\":\"aB3dE6gH9jK2mN5pQ8sT1vW4\",",
    "비밀번호는 ",
    "contraseña ",
    "set_password('a', ",
    "password(",
    "token('a',\n'",
    "{\"d\":\"aB3dE6gH9jK2mN5pQ8sT1vW4\",",
    "{\"d\":\"aB3dE6gH9jK2mN5pQ8sT1vW4\"},",
    "\"oth\":[{\"r\":\"aB3dE6gH9jK2mN5pQ8sT1vW4\",",
    "\"d\":\"aB3dE6gH9jK2mN5pQ8sT1vW4\",[]",
    "\"d\":\"aB3dE6gH9jK2mN5pQ8sT1vW4\",\"k\":\"aB3dE6gH9jK2mN5pQ8sT1vW4\",\n",
    "{d:\"aB3dE6gH9jK2mN5pQ8sT1vW4\",",
    "d:\"aB3dE6gH9jK2mN5pQ8sT1vW4\",",
    "d: aB3dE6gH9jK2mN5pQ8sT1vW4\n",
    "  - d: aB3dE6gH9jK2mN5pQ8sT1vW4\n",
    "\"d\":\"aB3dE6gH9jK2mN5pQ8sT1vW4\",/* ",
    "<td>token</td>",
    "password[]",
    "%22token%22:",
    "mot de passe est maintenant ",
];
