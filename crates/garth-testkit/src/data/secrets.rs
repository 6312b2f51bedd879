//! Fake secrets to plant in texts. They are generated from a seed, so that no file of this repository
//! contains one.

use crate::data::random::Random;

const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const HEX: &str = "0123456789abcdef";
const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const URL: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Text with a secret.
#[derive(Clone, Debug)]
pub struct Planted {
    /// Text before the secret, which identifies it if its form does not.
    pub before: String,
    /// Secret.
    pub secret: String,
    /// Text after the secret.
    pub behind: String,
    /// Name that garth gives to the kind of secret.
    pub kind: &'static str,
}

impl Planted {
    /// Returns the complete text.
    pub fn text(&self) -> String {
        format!("{}{}{}", self.before, self.secret, self.behind)
    }

    /// Returns the complete text with spaces in place of the secret.
    pub fn blank(&self) -> String {
        format!("{}{}{}", self.before, " ".repeat(self.secret.len()), self.behind)
    }
}

/// Returns random characters of an alphabet. A digit, a small and a capital letter come first if the alphabet
/// has them.
fn some(random: &mut Random, alphabet: &str, count: usize) -> String {
    let first = ["2", "a", "Q"].into_iter().filter(|c| alphabet.contains(*c)).collect::<String>();
    let rest = (first.len()..count).map(|_| {
        let at = random.below(alphabet.len() as u64) as usize;
        &alphabet[at..=at]
    });
    first + &rest.collect::<String>()
}

/// Returns one secret of each kind.
pub fn each(random: &mut Random) -> Vec<Planted> {
    let r = random;
    let mut all = Vec::new();
    let mut add = |before: &str, secret: String, behind: &str, kind| {
        all.push(Planted { before: before.to_owned(), secret, behind: behind.to_owned(), kind });
    };
    add("", format!("AKIA{}", some(r, UPPER, 16)), "", "AWS access key");
    for mark in ["ghp_", "gho_", "ghs_"] {
        add("", mark.to_owned() + &some(r, ALNUM, 36), "", "GitHub token");
    }
    add("", format!("github_pat_{}", some(r, ALNUM, 60)), "", "GitHub token");
    add("", format!("glpat-{}", some(r, ALNUM, 20)), "", "GitLab token");
    let number = |r: &mut Random| (0..11).map(|_| r.below(10).to_string()).collect::<String>();
    let slack = format!("xoxb-{}-{}-{}", number(r), number(r), some(r, ALNUM, 24));
    add("", slack, "", "Slack token");
    add("", format!("sk_live_{}", some(r, ALNUM, 24)), "", "Stripe key");
    add("", format!("AIza{}", some(r, URL, 34) + "x"), "", "Google API key");
    add("", format!("sk-proj-{}", some(r, URL, 63) + "x"), "", "OpenAI key");
    add("", format!("sk-ant-api03-{}", some(r, URL, 80) + "x"), "", "Anthropic key");
    add("", format!("npm_{}", some(r, ALNUM, 36)), "", "npm token");
    add("", format!("pypi-AgEIcHlwaS5vcmc{}", some(r, URL, 79) + "x"), "", "PyPI token");
    let parts = [some(r, ALNUM, 33), some(r, ALNUM, 40), some(r, ALNUM, 43)];
    add("", format!("eyJ{}.eyJ{}.{}", parts[0], parts[1], parts[2]), "", "JSON Web Token");
    add("", format!("garth_{}.{}", some(r, HEX, 16), some(r, HEX, 64)), "", "garth key");
    add("the token for staging is ", some(r, BASE64, 63) + "z", "", "token");
    add("password=", format!("{}!{}", some(r, ALNUM, 7), some(r, ALNUM, 4)), "", "password");
    add("DB_PASSWORD: ", some(r, ALNUM, 12), "", "password");
    add("api_key: ", some(r, HEX, 32), "", "token");
    add("client_secret = ", some(r, ALNUM, 22), "", "token");
    add("Authorization: Bearer ", some(r, ALNUM, 22), "", "authorization");
    add("postgres://alice:", some(r, ALNUM, 14), "@db.example.org/main", "password in a URL");
    let lines: String = (0..6).map(|_| some(r, BASE64, 64) + "\n").collect();
    let key =
        format!("-----BEGIN PRIVATE KEY-----\n{lines}{}==\n-----END PRIVATE KEY-----", some(r, BASE64, 22));
    add("", key, "", "private key");
    all
}
