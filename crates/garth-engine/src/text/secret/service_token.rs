//! Tokens of services that begin them with a mark of their own.

use std::ops::Range;

use super::random::disorder;
use super::span::{LONGEST, Secret};
use super::words::{is_word, look_at};

/// Characters of a token after its mark.
#[derive(Clone, Copy)]
enum Of {
    /// `A-Z0-9`.
    Upper,
    /// `a-f0-9`.
    Hex,
    /// `A-Za-z0-9`.
    Alnum,
    /// `A-Za-z0-9_-`.
    Url,
    /// `A-Za-z0-9+/`.
    Base64,
    /// `A-Za-z0-9_-+/%`: base64 as it stands in a cookie.
    Cookie,
    /// `A-Za-z0-9_-` in this number of parts, or more, separated by dots.
    Parts(usize),
    /// `A-Za-z0-9` in no order: after a mark that words of programs begin with as well.
    Random,
    /// Two parts of `A-Za-z0-9` in no order, of which the first has 7 to 10 characters.
    Pair,
}

/// Marks, the characters after them, their minimum number, and the kind of secret, as documented by the
/// services.
const MARKS: &[Mark] = &[
    ("AKIA", Of::Upper, 16, "AWS access key"),
    ("ASIA", Of::Upper, 16, "AWS access key"),
    ("ABIA", Of::Upper, 16, "AWS access key"),
    ("ACCA", Of::Upper, 16, "AWS access key"),
    ("AGE-SECRET-KEY-1", Of::Upper, 58, "age key"),
    ("AIza", Of::Url, 35, "Google API key"),
    ("ATATT3", Of::Url, 40, "Atlassian token"),
    ("EAAA", Of::Url, 60, "Square token"),
    ("GOCSPX-", Of::Url, 28, "Google client secret"),
    ("SG.", Of::Parts(2), 40, "SendGrid key"),
    ("dapi", Of::Hex, 32, "Databricks token"),
    ("dckr_pat_", Of::Url, 20, "Docker token"),
    ("dop_v1_", Of::Hex, 64, "DigitalOcean token"),
    ("eyJ", Of::Parts(3), 33, "JSON Web Token"),
    ("figd_", Of::Url, 30, "Figma token"),
    ("garth_", Of::Parts(2), 81, "garth key"),
    ("ghp_", Of::Alnum, 36, "GitHub token"),
    ("gho_", Of::Alnum, 36, "GitHub token"),
    ("ghu_", Of::Alnum, 36, "GitHub token"),
    ("ghs_", Of::Alnum, 36, "GitHub token"),
    ("ghr_", Of::Alnum, 36, "GitHub token"),
    ("github_pat_", Of::Url, 22, "GitHub token"),
    ("glpat-", Of::Url, 20, "GitLab token"),
    ("gldt-", Of::Url, 20, "GitLab token"),
    ("glrt-", Of::Url, 20, "GitLab token"),
    ("glptt-", Of::Url, 20, "GitLab token"),
    ("glcbt-", Of::Url, 20, "GitLab token"),
    ("gloas-", Of::Url, 20, "GitLab token"),
    ("glsa_", Of::Url, 32, "Grafana token"),
    ("gsk_", Of::Alnum, 40, "Groq key"),
    ("hf_", Of::Alnum, 30, "Hugging Face token"),
    ("hvb.", Of::Url, 24, "Vault token"),
    ("hvs.", Of::Url, 24, "Vault token"),
    ("lin_api_", Of::Alnum, 32, "Linear key"),
    ("npm_", Of::Alnum, 36, "npm token"),
    ("ntn_", Of::Alnum, 40, "Notion token"),
    ("pypi-", Of::Url, 50, "PyPI token"),
    ("r8_", Of::Alnum, 36, "Replicate token"),
    ("rk_live_", Of::Alnum, 16, "Stripe key"),
    ("rk_test_", Of::Alnum, 16, "Stripe key"),
    ("rubygems_", Of::Hex, 48, "RubyGems key"),
    ("shpat_", Of::Alnum, 32, "Shopify token"),
    ("shpca_", Of::Alnum, 32, "Shopify token"),
    ("shppa_", Of::Alnum, 32, "Shopify token"),
    ("shpss_", Of::Alnum, 32, "Shopify secret"),
    ("sk-ant-", Of::Url, 24, "Anthropic key"),
    ("sk-or-v1-", Of::Hex, 40, "OpenRouter key"),
    ("sk-proj-", Of::Url, 24, "OpenAI key"),
    ("sk-svcacct-", Of::Url, 24, "OpenAI key"),
    ("sk-admin-", Of::Url, 24, "OpenAI key"),
    ("sk-", Of::Alnum, 32, "API key"),
    ("sk_live_", Of::Alnum, 16, "Stripe key"),
    ("sk_test_", Of::Alnum, 16, "Stripe key"),
    ("sntrys_", Of::Url, 40, "Sentry token"),
    ("tskey-", Of::Url, 24, "Tailscale key"),
    ("whsec_", Of::Alnum, 24, "Stripe secret"),
    ("xai-", Of::Alnum, 60, "xAI key"),
    ("xapp-", Of::Url, 24, "Slack token"),
    ("xoxa-", Of::Url, 20, "Slack token"),
    ("xoxb-", Of::Url, 20, "Slack token"),
    ("xoxe-", Of::Url, 20, "Slack token"),
    ("xoxe.xoxp-", Of::Url, 20, "Slack token"),
    ("xoxp-", Of::Url, 20, "Slack token"),
    ("xoxr-", Of::Url, 20, "Slack token"),
    ("xoxs-", Of::Url, 20, "Slack token"),
    ("ya29.", Of::Url, 30, "Google access token"),
];

/// Marks that were added after the second judgement.
const NEWEST: &[Mark] = &[
    ("ATBB", Of::Random, 28, "Bitbucket token"),
    ("api_org_", Of::Alnum, 30, "Hugging Face token"),
    ("cfat_", Of::Random, 40, "Cloudflare token"),
    ("cfut_", Of::Random, 40, "Cloudflare token"),
    // `reftkn:`, a number and a colon, in base64.
    ("cmVmdGtu", Of::Base64, 50, "JFrog token"),
    ("csk-", Of::Random, 40, "Cerebras key"),
    ("dt0c01.", Of::Parts(3), 80, "Dynatrace token"),
    ("dt0s01.", Of::Parts(3), 80, "Dynatrace token"),
    ("dt0s16.", Of::Parts(3), 80, "Dynatrace token"),
    ("e2b_", Of::Hex, 40, "E2B key"),
    ("fc-", Of::Hex, 32, "Firecrawl key"),
    ("napi_", Of::Random, 40, "Neon key"),
    ("phx_", Of::Random, 32, "PostHog key"),
    ("re_", Of::Pair, 28, "Resend key"),
    ("rnd_", Of::Random, 24, "Render key"),
    ("snyk_sat.", Of::Parts(2), 40, "Snyk token"),
    ("snyk_uat.", Of::Parts(2), 40, "Snyk token"),
    ("tgp_v1_", Of::Url, 40, "Together key"),
    ("vcp_", Of::Random, 24, "Vercel token"),
];

/// Marks that were added after the first judgement.
const MORE: &[Mark] = &[
    ("1//0", Of::Url, 40, "Google refresh token"),
    ("ABSK", Of::Base64, 60, "AWS Bedrock key"),
    ("AKCp", Of::Alnum, 60, "JFrog key"),
    ("AQ.", Of::Url, 40, "Google API key"),
    ("ATCTT3", Of::Url, 40, "Atlassian token"),
    ("CFPAT-", Of::Url, 40, "Contentful token"),
    ("CCIPAT_", Of::Url, 40, "CircleCI token"),
    ("CCIPRJ_", Of::Url, 40, "CircleCI token"),
    ("HRKU-", Of::Url, 32, "Heroku key"),
    ("LS0tLS1CRUdJTiBFQyBQUklWQVRF", Of::Base64, 60, "private key"),
    ("LS0tLS1CRUdJTiBPUEVOU1NIIFBSSVZBVEUg", Of::Base64, 60, "private key"),
    ("LS0tLS1CRUdJTiBQUklWQVRFIEtFWS", Of::Base64, 60, "private key"),
    ("LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVk", Of::Base64, 60, "private key"),
    ("NRAK-", Of::Upper, 27, "New Relic key"),
    ("PMAK-", Of::Url, 50, "Postman key"),
    ("bkua_", Of::Hex, 40, "Buildkite token"),
    ("dckr_oat_", Of::Url, 20, "Docker token"),
    ("doo_v1_", Of::Hex, 64, "DigitalOcean token"),
    ("dor_v1_", Of::Hex, 64, "DigitalOcean token"),
    ("dp.ct.", Of::Alnum, 40, "Doppler token"),
    ("dp.pt.", Of::Alnum, 40, "Doppler token"),
    ("dp.sa.", Of::Alnum, 40, "Doppler token"),
    ("dp.scim.", Of::Alnum, 40, "Doppler token"),
    ("dp.st.", Of::Parts(1), 40, "Doppler token"),
    ("fm2_", Of::Base64, 60, "Fly token"),
    ("fo1_", Of::Url, 40, "Fly token"),
    ("glagent-", Of::Url, 20, "GitLab token"),
    ("glc_", Of::Base64, 60, "Grafana token"),
    ("glft-", Of::Url, 20, "GitLab token"),
    ("glimt-", Of::Url, 20, "GitLab token"),
    ("glsoat-", Of::Url, 20, "GitLab token"),
    ("key-", Of::Hex, 32, "Mailgun key"),
    ("lin_oauth_", Of::Alnum, 32, "Linear key"),
    ("lsv2_pt_", Of::Url, 40, "LangSmith key"),
    ("lsv2_sk_", Of::Url, 40, "LangSmith key"),
    ("nfp_", Of::Alnum, 36, "Netlify token"),
    ("nvapi-", Of::Url, 60, "NVIDIA key"),
    ("ops_eyJ", Of::Url, 100, "1Password token"),
    ("pcsk_", Of::Url, 50, "Pinecone key"),
    ("pnu_", Of::Alnum, 36, "Prefect key"),
    ("pplx-", Of::Alnum, 40, "Perplexity key"),
    ("pscale_oauth_", Of::Url, 32, "PlanetScale token"),
    ("pscale_pw_", Of::Url, 32, "PlanetScale password"),
    ("pscale_tkn_", Of::Url, 32, "PlanetScale token"),
    ("pul-", Of::Hex, 40, "Pulumi token"),
    ("rdme_", Of::Alnum, 70, "ReadMe key"),
    ("sb_secret_", Of::Url, 24, "Supabase key"),
    ("sbp_", Of::Hex, 40, "Supabase token"),
    ("secret_", Of::Alnum, 43, "Notion token"),
    ("sgp_", Of::Url, 40, "Sourcegraph token"),
    ("sk-lf-", Of::Hex, 8, "Langfuse key"),
    ("sk_", Of::Hex, 48, "ElevenLabs key"),
    ("sntryu_", Of::Hex, 64, "Sentry token"),
    ("sq0atp-", Of::Url, 22, "Square token"),
    ("sq0csp-", Of::Url, 43, "Square secret"),
    ("tfp_", Of::Url, 40, "Typeform token"),
    ("tvly-", Of::Url, 24, "Tavily key"),
    ("whsec_", Of::Base64, 24, "Stripe secret"),
    ("xkeysib-", Of::Url, 64, "Brevo key"),
    ("xoxc-", Of::Url, 20, "Slack token"),
    ("xoxd-", Of::Cookie, 20, "Slack token"),
    ("xsmtpsib-", Of::Url, 64, "Brevo key"),
];

/// Mark, the characters after it, their minimum number, and the kind of secret.
type Mark = (&'static str, Of, usize, &'static str);

/// All marks, the newest first: a mark in several tables has more characters in the later judgement.
const ALL: [&[Mark]; 3] = [NEWEST, MORE, MARKS];
const COUNT: usize = NEWEST.len() + MORE.len() + MARKS.len();

/// Marks of a judgement, and its limit on the length of a token.
#[derive(Clone, Copy)]
pub(super) struct Marks {
    /// Number of the first mark that counts.
    from: usize,
    longest: usize,
    /// True if tokens with parts after a dot are taken as a whole, and ids of documentation are left out.
    whole: bool,
}

/// Marks of the first judgement.
pub(super) const FIRST: Marks = Marks { from: NEWEST.len() + MORE.len(), longest: usize::MAX, whole: false };
/// Marks of the second judgement.
pub(super) const SECOND: Marks = Marks { from: NEWEST.len(), longest: LONGEST, whole: false };
/// Marks of the current judgement.
pub(super) const CURRENT: Marks = Marks { from: 0, longest: LONGEST, whole: true };

/// Returns the mark of a number.
const fn mark(number: usize) -> &'static Mark {
    let (mut table, mut at) = (0, number);
    while at >= ALL[table].len() {
        at -= ALL[table].len();
        table += 1;
    }
    &ALL[table][at]
}

/// First two bytes of all marks, one bit each: most words of a text begin with none of them.
static BEGINNINGS: [u64; 1024] = {
    let (mut set, mut number) = ([0; 1024], 0);
    while number < COUNT {
        let mark = mark(number).0.as_bytes();
        let pair = (mark[0] as usize) << 8 | mark[1] as usize;
        set[pair >> 6] |= 1 << (pair & 63);
        number += 1;
    }
    set
};

/// Set of marks, one bit each.
type Set = [u64; COUNT.div_ceil(64)];

/// Marks by their first byte, and by their second one: few marks have both of a text.
static BY_BYTE: [[Set; 128]; 2] = {
    let (mut sets, mut number) = ([[[0; COUNT.div_ceil(64)]; 128]; 2], 0);
    while number < COUNT {
        let mark = mark(number).0.as_bytes();
        sets[0][mark[0] as usize][number >> 6] |= 1 << (number & 63);
        sets[1][mark[1] as usize][number >> 6] |= 1 << (number & 63);
        number += 1;
    }
    sets
};

/// Returns the marks from a number on that begin with these bytes, in order.
fn marks_with(first: u8, second: u8, from: usize) -> impl Iterator<Item = &'static Mark> {
    let [ones, others] = [&BY_BYTE[0][usize::from(first & 127)], &BY_BYTE[1][usize::from(second & 127)]];
    let both = ones.iter().zip(others).map(|(one, other)| one & other);
    let numbers = both.enumerate().flat_map(|(word, mut bits)| {
        std::iter::from_fn(move || {
            let bit = bits.trailing_zeros() as usize;
            // Clears the lowest bit; ends without one.
            bits &= bits.checked_sub(1)?;
            Some(word * 64 + bit)
        })
    });
    numbers.filter(move |number| *number >= from).map(mark)
}

/// Length of the shortest token, mark included.
pub(super) const SHORTEST: usize = 20;

/// Number of bytes by which a token is judged. Of a longer token with claims, each part is a random word.
const JUDGED: usize = 768;

/// Returns the first token in a word. It may continue after the word, at a dot.
pub(super) fn in_word(text: &[u8], word: &Range<usize>, marks: Marks) -> Option<Secret> {
    // A short word may be the mark of a token that goes on after a dot, or a percent sign: `SG.`, `hvs.`.
    let goes_on = matches!(text[word.end..], [b'.' | b'%', next, ..] if is_word(next));
    if word.len() < SHORTEST && !goes_on {
        return None;
    }
    // Parts of a token with dots are not tokens themselves.
    let is_part = marks.longest == LONGEST
        && word.start > 1
        && text[word.start - 1] == b'.'
        && is_word(text[word.start - 2]);
    let begins = |at: &usize| match *at == word.start {
        true => !is_part,
        false => !text[at - 1].is_ascii_alphanumeric(),
    };
    word.clone().filter(begins).find_map(|at| token_at(text, at, marks))
}

/// Returns the token that begins at `at`.
pub(super) fn token_at(text: &[u8], at: usize, marks: Marks) -> Option<Secret> {
    let rest = &text[at..];
    // Lookups in tables of bits instead of a comparison with more than a hundred marks.
    let [first, second] = *rest.first_chunk()?;
    let pair = usize::from(u16::from_be_bytes([first, second]));
    if BEGINNINGS[pair >> 6] >> (pair & 63) & 1 == 0 {
        return None;
    }
    let marked = marks_with(first, second, marks.from);
    let mut marked = marked.filter(|(mark, ..)| rest.starts_with(mark.as_bytes()));
    marked.find_map(|(mark, of, least, kind)| {
        let body = &rest[mark.len()..];
        // The first bytes decide: otherwise, text full of marks would be read again for each of them.
        let judged = &body[..of.length(&body[..body.len().min(JUDGED)])];
        look_at(judged.len());
        let is_one = judged.len() >= *least
            && of.fits(judged, mark)
            && !is_placeholder(judged)
            && !(marks.whole && is_of_documentation(judged));
        let most = &body[..body.len().min(marks.longest)];
        is_one.then(|| {
            let mut length = of.length(most);
            if marks.longest == LONGEST {
                // The mark tells of the whole word: a service may have changed the characters after it, such
                // as to the dashes of a UUID.
                length += most[length..].iter().take_while(|byte| Of::Url.has(**byte)).count();
            }
            if marks.whole && *kind == "GitLab token" {
                length += routed(&most[length..]);
            }
            let length = mark.len() + length;
            look_at(length);
            Secret::new(at..at + length, kind)
        })
    })
}

impl Of {
    fn has(self, byte: u8) -> bool {
        match self {
            Self::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Hex => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            Self::Alnum | Self::Random => byte.is_ascii_alphanumeric(),
            Self::Pair => byte.is_ascii_alphanumeric() || byte == b'_',
            Self::Url => byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'),
            Self::Base64 => byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'),
            Self::Cookie => Self::Url.has(byte) || matches!(byte, b'+' | b'/' | b'%'),
            Self::Parts(_) => Self::Url.has(byte) || byte == b'.',
        }
    }

    fn length(self, body: &[u8]) -> usize {
        let length = body.iter().position(|byte| !self.has(*byte)).unwrap_or(body.len());
        // Without the end of a sentence.
        body[..length].iter().rposition(|byte| *byte != b'.').map_or(0, |last| last + 1)
    }

    fn fits(self, body: &[u8], mark: &str) -> bool {
        let parts = match self {
            Self::Parts(parts) => parts,
            Self::Random => return is_mixed(body),
            Self::Pair => {
                let first = body.iter().position(|byte| *byte == b'_').unwrap_or(0);
                let rest = body.get(first + 1..).unwrap_or_default();
                return (7..=10).contains(&first) && !rest.contains(&b'_') && is_mixed(rest);
            }
            _ => return true,
        };
        // The mark may contain the first dot.
        let here = mark.bytes().filter(|byte| *byte == b'.').count();
        let dots = here + body.iter().filter(|byte| **byte == b'.').count();
        dots + 1 >= parts
    }
}

/// Returns true for a placeholder, in text about tokens: it has neither digits nor letters of both cases.
fn is_placeholder(body: &[u8]) -> bool {
    let has = |is: fn(&u8) -> bool| body.iter().any(is);
    let both_cases = has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    !(both_cases || has(u8::is_ascii_digit))
}

/// Returns true for characters in no order, of two kinds or more.
fn is_mixed(body: &[u8]) -> bool {
    body.iter().filter(|byte| byte.is_ascii_digit()).count() >= 2 && disorder(body) >= 0.4
}

/// Returns true for an id that documentation of services has as an example: `AKIAIOSFODNN7EXAMPLE`.
fn is_of_documentation(body: &[u8]) -> bool {
    body.ends_with(b"EXAMPLE") || body.ends_with(b"EXAMPLEKEY") || body.ends_with(b"EXAMPLETOKEN")
}

/// Returns the length of the end of a GitLab token that names its cell: `.01.` and 9 characters.
fn routed(rest: &[u8]) -> usize {
    let part = |from: usize| {
        let rest = rest.get(from..).unwrap_or_default();
        rest.iter().take(16).take_while(|byte| byte.is_ascii_alphanumeric()).count()
    };
    let (version, sum) = (part(1), part(4));
    let is_one = rest.first() == Some(&b'.') && version == 2 && rest.get(3) == Some(&b'.');
    if is_one && (7..=12).contains(&sum) { 4 + sum } else { 0 }
}
