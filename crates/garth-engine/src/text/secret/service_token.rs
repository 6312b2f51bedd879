//! Tokens of services that begin them with a mark of their own.

use std::ops::Range;

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
}

/// Marks, the characters after them, their minimum number, and the kind of secret, as documented by the
/// services.
const MARKS: &[(&str, Of, usize, &str)] = &[
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

/// Marks that were added after the first judgement.
const MORE: &[(&str, Of, usize, &str)] = &[
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

/// Marks of a judgement, and its limit on the length of a token.
#[derive(Clone, Copy)]
pub(super) struct Marks {
    tables: &'static [&'static [(&'static str, Of, usize, &'static str)]],
    longest: usize,
}

/// Marks of the first judgement.
pub(super) const FIRST: Marks = Marks { tables: &[MARKS], longest: usize::MAX };
/// Marks of the current judgement. Those of [`MORE`] come first: a mark in both has more characters there.
pub(super) const CURRENT: Marks = Marks { tables: &[MORE, MARKS], longest: LONGEST };

/// First two bytes of all marks, one bit each: most words of a text begin with none of them.
static BEGINNINGS: [u64; 1024] = {
    let (mut set, mut table) = ([0; 1024], 0);
    while table < CURRENT.tables.len() {
        let (marks, mut at) = (CURRENT.tables[table], 0);
        while at < marks.len() {
            let mark = marks[at].0.as_bytes();
            let pair = (mark[0] as usize) << 8 | mark[1] as usize;
            set[pair >> 6] |= 1 << (pair & 63);
            at += 1;
        }
        table += 1;
    }
    set
};

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
    // One lookup in a table of bits instead of a comparison with more than a hundred marks.
    let [first, second] = *rest.first_chunk()?;
    let pair = usize::from(u16::from_be_bytes([first, second]));
    if BEGINNINGS[pair >> 6] >> (pair & 63) & 1 == 0 {
        return None;
    }
    let marked = marks.tables.iter().flat_map(|table| table.iter());
    let marked = marked.filter(|(mark, ..)| mark.as_bytes()[0] == first);
    let mut marked = marked.filter(|(mark, ..)| rest.starts_with(mark.as_bytes()));
    marked.find_map(|(mark, of, least, kind)| {
        let body = &rest[mark.len()..];
        // The first bytes decide: otherwise, text full of marks would be read again for each of them.
        let judged = &body[..of.length(&body[..body.len().min(JUDGED)])];
        look_at(judged.len());
        let is_one = judged.len() >= *least && of.fits(judged, mark) && !is_placeholder(judged);
        let most = &body[..body.len().min(marks.longest)];
        is_one.then(|| {
            let mut length = of.length(most);
            if marks.longest == LONGEST {
                // The mark tells of the whole word: a service may have changed the characters after it, such
                // as to the dashes of a UUID.
                length += most[length..].iter().take_while(|byte| Of::Url.has(**byte)).count();
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
            Self::Alnum => byte.is_ascii_alphanumeric(),
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
        let Self::Parts(parts) = self else { return true };
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
