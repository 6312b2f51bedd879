//! Spans that are found as secrets, and spans that are not.

use std::path::Path;

use garth_testkit::data::random::Random;
use garth_testkit::data::secrets::{Planted, each};
use proptest::prelude::*;

use super::*;

/// Returns a text in the ways in which people write something down.
fn ways(planted: &Planted) -> Vec<String> {
    let text = planted.text();
    let json = serde_json::to_string(&text).unwrap();
    let twice = serde_json::to_string(&json).unwrap();
    // Nothing of the text is left as it is.
    let every: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
    vec![
        text.clone(),
        format!("Please use {text} from now on.\n"),
        format!("Bitte nimm ab jetzt ({text}) für Ärger.\n"),
        format!("今日から{text}を使う。\n"),
        format!("# Notes\n\n- `{text}`\n- another\n"),
        format!("| name | value |\n|---|---|\n| one | {text} |\n"),
        format!("> {}\n", text.replace('\n', "\n> ")),
        format!("Please use\r\n{}\r\nfrom now on.\r\n", text.replace('\n', "\r\n")),
        format!("{{\"role\": \"user\", \"content\": {json}}}\n"),
        format!("{{\"arguments\": {twice}}}\n"),
        format!("{{\"content\": \"{every}\"}}\n"),
        format!("let x = \"{text}\";\n"),
        format!("export X='{text}'; echo done\n"),
        format!("<b>{text}</b>"),
    ]
}

/// Returns true if a text shows half of a secret in one of the forms that [`ways`] gives it.
fn shown(planted: &Planted, text: &str) -> bool {
    let decoded = crate::text::json::decode(&crate::text::json::decode(text));
    let parts = planted.secret.split('\n').filter(|line| line.len() > 4 && !line.starts_with('-'));
    let mut halves = parts.flat_map(|line| [&line[..line.len() / 2], &line[line.len() / 2..]]);
    halves.any(|half| text.contains(half) || decoded.contains(half))
}

#[test]
fn finds_planted_secrets_of_every_kind() {
    for seed in 0..40 {
        for planted in each(&mut Random::new(seed)) {
            for text in ways(&planted) {
                let masked = masked(&text);
                assert!(!shown(&planted, &masked), "{}: {text}\n{masked}", planted.kind);
                assert!(
                    masked.contains(&format!("[secret: {}]", planted.kind)),
                    "{}: {masked}",
                    planted.kind
                );
            }
        }
    }
}

#[test]
fn masking_keeps_words_around_a_secret() {
    for planted in each(&mut Random::new(7)) {
        let mark = format!("[secret: {}]", planted.kind);
        let (before, behind) = (&planted.before, &planted.behind);
        let text = format!("Here, {}, and there.\r\n", planted.text());
        assert_eq!(masked(&text), format!("Here, {before}{mark}{behind}, and there.\r\n"));
    }
}

/// Collects the files of the repository with certain extensions.
fn files(dir: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name());
        let skipped = ["target", ".git", "data", "corpus", "artifacts"];
        if entry.file_type().unwrap().is_dir() {
            if !skipped.contains(&name.to_str().unwrap()) {
                files(&path, found);
            }
        } else if ["md", "rs", "toml", "lock", "py", "sh", "yml"]
            .iter()
            .any(|ending| path.extension().is_some_and(|own| own == *ending))
        {
            found.push(path);
        }
    }
}

#[test]
fn this_repository_contains_no_secrets() {
    let mut paths = Vec::new();
    let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where the crate is");
    files(&Path::new(&here).join("../.."), &mut paths);
    assert!(paths.len() > 300, "{}", paths.len());
    // These have texts with secrets on purpose.
    let has_examples = [
        "text/secret/tests.rs",
        "text/secret/enclosed_tests.rs",
        "text/secret/forms_tests.rs",
        "text/secret/corpus_tests.rs",
    ];
    paths.retain(|path| !has_examples.iter().any(|end| path.ends_with(end)));
    for path in paths {
        let text = std::fs::read(&path).unwrap();
        let found = find(&text);
        let shown: Vec<_> =
            found.iter().map(|it| (it.kind, String::from_utf8_lossy(&text[it.bytes.clone()]))).collect();
        assert!(found.is_empty(), "{}: {shown:?}", path.display());
    }
}

#[test]
fn long_and_unusual_words_are_not_secrets() {
    for text in [
        "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08",
        "0x939121dD13f796C69d0Ac4185787285518081f8D",
        "550e8400-e29b-41d4-a716-446655440000 and 550E8400-E29B-41D4-A716-446655440000",
        "\"integrity\": \"sha512-1ayWK1IpFkGpTiRnjVZlmuSJ4Yh8s6YQnv0s2ZsFJ8oqHp3DZ1R8yVfX7lwqkT9mWbN5cEeGdU4aPzIu0xKQ2A==\"",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ7kq0Zb3sX2uY9vQw4Rr8mTn6Lc5Hd1Pf0GeVaWyB2K alice@example.org",
        "https://example.org/rust-lang/rust/blob/2fd4e1c67a2d28fced849ee1bb76e7391b93eb12/Src/Lib2.rs",
        "/Users/Alice/Documents/Project2024/Chapter-One/Draft_3-Final",
        "WinHttpGetProxyForUrlEx, getUserByIdAndTenant2FromRequestBody, XMLHttpRequestV2Factory",
        "Donaudampfschifffahrtsgesellschaftskapitän",
        "パスワード：設定画面で変更してください。秘密の質問も同じです。",
        "password: required, at least 8 characters",
        "password=$DB_PASSWORD password=${PW} password=<your password> PASSWORD=changeme123",
        "let password = read_password_2(path); token: next_token.clone(), secret = self.secret1.get()",
        "the token is expired, a secret is kept, its password was forgotten",
        "tokens: 4096, max_tokens=4096, token 12345678, \"api_key\": null",
        "http://user:password@host/ and https://example.org:8080/@alice",
        "a file that begins with -----BEGIN PRIVATE KEY----- and ends with -----END PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----\n",
        "-----BEGIN PRIVATE KEY-----\nMIIE...\n-----END PRIVATE KEY-----\n",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx sk-learn-something-long-that-is-a-name",
        "Bearer tokens are sent in the header. Basic authentication is not.",
    ] {
        assert_eq!(masked(text), text);
    }
}

/// Texts with values apart from their names.
const APART: &[&str] = &[
    "password:\nhunter2xyz",
    "password =\nZx9kd82q",
    "The password is:\n\n```\nhunter2xyz\n```\n",
    "Here is the password for the wifi:\n```text\nhunter2xyz\n```",
    "[\"sshpass\",\"-p\",\"Zx9kd82qW\"]",
    "[\"curl\", \"-u\", \"ann:Zx9kd82qW\", \"https://x.org\"]",
    "[\\n  \"sshpass\",\\n  \"-p\",\\n  \"Zx9kd82qW\",\\n  \"ssh\"\\n]",
    "curl --user ann:Zx9kd82qW https://x.org",
    "curl -uann:Zx9kd82qW https://x.org",
    "curl --user 'ann:Zx9kd82qW' https://x.org",
    "sshpass -pZx9kd82qW ssh a",
    "{\"value\":\"Zx9kd82qW\",\"name\":\"DB_PASSWORD\"}",
    "{\"Value\": \"Zx9kd82qW\", \"Type\": \"x\", \"Key\": \"DB_PASSWORD\"}",
    "<add value=\"Zx9kd82qW\" key=\"DbPassword\"/>",
    "{\"name\":\"DB_PASSWORD\",\"type\":\"plain\",\"value\":\"Zx9kd82qW\"}",
    "DB_PASSWORD\tZx9kd82qW",
    "password\thunter2xyz\n",
    "password = '''Zx9kd82qW'''",
    "password = \"\"\"Zx9kd82qW\"\"\"",
    "password = \"\"\"\nZx9kd82qW\"\"\"",
    "ALTER USER ann WITH PASSWORD 'Zx9kd82qW';",
    "CREATE USER ann IDENTIFIED BY 'Zx9kd82qW';",
    "create user 'ann'@'%' identified with mysql_native_password by 'Zx9kd82qW';",
    "| user | password |\n|---|---|\n| ann | Zx9kd82qW |\n| bob | hunter2xyz |\n",
    "| password | user |\n|---|---|\n| Zx9kd82qW | ann |\n| hunter2xyz | bob |\n",
    "user,password\nann,Zx9kd82qW\nbob,hunter2xyz\n",
    "user\tpassword\nann\tZx9kd82qW\n",
    "password: |\n  Zx9kd82q\n",
    "password: >-\n  hunter2xyz\nnext: 1",
    "pass: Zx9kd82qW",
    "the password \"hunter2xyz\" works",
    "auth=('ann', 'Zx9kd82qW')",
    "\"auth\": \"YW5uOlp4OWtkODJxVw==\"",
    "DB_PASS=hunter2x",
    "Password:\r\n\r\nhunter2xyz\r\n",
    "The wifi password is\n\n    hunter2xyz\n",
    "**Password:**\nhunter2xyz",
    "- password:\n  - hunter2xyz\n",
    "> password:\n> hunter2xyz\n",
    "token:\n8f3k2b1cq9",
    "The API token is:\n~~~\nAbC9xK2mZq\n~~~",
    "DB_PASSWORD   Zx9kd82q",
    "ENV DB_PASSWORD Zx9kd82q",
    "export PGPASSWORD=Zx9kd82q",
    "{'value': 'Zx9kd82q', 'name': 'DB_PASSWORD'}",
    "{value: Zx9kd82q, name: DB_PASSWORD}",
    "{\\\\\"value\\\\\":\\\\\"Zx9kd82qW\\\\\",\\\\\"name\\\\\":\\\\\"DB_PASSWORD\\\\\"}",
    "['mysql', '-uroot', '-pZx9kd82qW']",
    "subprocess.run([\"curl\", \"--user\", \"ann:Zx9kd82qW\"])",
    "curl --user=ann:Zx9kd82qW x",
    "curl -u \"ann:Zx9kd82qW\" x",
    "curl -sSu ann:Zx9kd82qW x",
    "docker login -u ann -p Zx9kd82qW",
    "wget --user ann --password Zx9kd82qW",
    "psql \"postgresql://x password=Zx9kd82qW\"",
    "mysqldump -pZx9kd82qW",
    "SET PASSWORD FOR ann = 'Zx9kd82qW';",
    "SET PASSWORD = PASSWORD('Zx9kd82qW');",
    "CREATE USER ann IDENTIFIED BY Zx9kd82qW;",
    "CREATE LOGIN ann WITH PASSWORD = 'Zx9kd82qW'",
    "| user | Password |\r\n|:---|---:|\r\n| ann | Zx9kd82qW |\r\n",
    "user | password\n--- | ---\nann | Zx9kd82qW\n",
    "|user|pass|\n|-|-|\n|ann|Zx9kd82qW|\n",
    "password: |-\n\n  Zx9kd82q\n",
    "secret = r'''Zx9kd82qW1'''",
    "Contraseña: hunter2xyz",
    "Passwort:\nhunter2xyz",
    "user: ann / pass: hunter2xyz",
    "user=ann pass=hunter2xyz",
    "pwd=Zx9kd82q;",
    "Server=x;Uid=ann;Pwd=Zx9kd82q;",
    "https://x.org/?auth=8f3k2b1cq9zmw4",
    "auth: Zx9kd82qWmP3",
    "\"_auth\": \"YW5uOlp4OWtkODJxVw==\"",
    "//registry/:_auth=YW5uOlp4OWtkODJxVw==",
    "pass=Tr0ub4dor&3",
    "pw: s3cr3tP4ss",
    "GH_PAT=Zx9kd82qW1",
    "export AZURE_DEVOPS_EXT_PAT=Zx9kd82qW1",
    "requirepass Zx9kd82qW\n",
    "CONFIG SET requirepass Zx9kd82qW",
    "masterauth Zx9kd82qW",
    "token「Zx9kd82qW1」",
    "token【Zx9kd82qW1】",
    "パスワード「Zx9kd82qW」",
    "パスワード：『Zx9kd82qW』",
    "https://x.org/?token=%22Zx9kd82qW1%22&a=1",
    "secret=%27Zx9kd82qW1%27",
    "define('AUTH_KEY', 'Zx9k(d82q[+%mw5Jg0}n:Q 1^Qy8TvD[r)Gc>2Lk~z9.eB;uW-h{Xa4]oNf=6Ij')",
    "define( 'NONCE_SALT',  'Zx9k(d82q[+%mw5Jg0}n:Q 1^Qy8TvD[r)Gc>2Lk~z9.eB;uW-h{Xa4]oNf=6Ij' );",
];

/// Marks of services, the alphabet after each (hexadecimal, small letters and digits, or all), the number
/// of characters, and the kind.
const TOKENS: &[(&str, char, usize, &str)] = &[
    ("xoxc-", 'a', 40, "Slack token"),
    ("xoxd-", 'a', 40, "Slack token"),
    ("sntryu_", 'h', 64, "Sentry token"),
    ("glft-", 'a', 20, "GitLab token"),
    ("glsoat-", 'a', 20, "GitLab token"),
    ("glimt-", 'a', 25, "GitLab token"),
    ("glagent-", 'a', 50, "GitLab token"),
    ("sb_secret_", 'a', 31, "Supabase key"),
    ("ATCTT3", 'a', 180, "Atlassian token"),
    ("dp.sa.", 'a', 43, "Doppler token"),
    ("dp.scim.", 'a', 43, "Doppler token"),
    ("CCIPRJ_", 'a', 62, "CircleCI token"),
    ("xsmtpsib-", 'h', 64, "Brevo key"),
    ("1//0", 'a', 99, "Google refresh token"),
    ("AQ.", 'a', 50, "Google API key"),
    ("ABSK", 'a', 128, "AWS Bedrock key"),
    ("secret_", 'a', 43, "Notion token"),
    ("pscale_oauth_", 'a', 43, "PlanetScale token"),
    ("whsec_", 'a', 32, "Stripe secret"),
    ("sk-lf-", 'h', 32, "Langfuse key"),
    ("ATBB", 'a', 32, "Bitbucket token"),
    ("cmVmdGtu", 'a', 56, "JFrog token"),
    ("api_org_", 'a', 34, "Hugging Face token"),
    ("vcp_", 'a', 56, "Vercel token"),
    ("phx_", 'a', 43, "PostHog key"),
    ("snyk_uat.1a2b3c4d.", 'a', 60, "Snyk token"),
    ("dt0c01.ABCDEFGHIJKLMNOPQRSTUVWX.", 'a', 64, "Dynatrace token"),
    ("re_aB3dE6gH_", 'a', 24, "Resend key"),
    ("rnd_", 'a', 32, "Render key"),
    ("e2b_", 'h', 40, "E2B key"),
    ("fc-", 'h', 32, "Firecrawl key"),
    ("csk-", 'l', 48, "Cerebras key"),
    ("napi_", 'l', 64, "Neon key"),
    ("tgp_v1_", 'a', 43, "Together key"),
    ("cfut_", 'a', 53, "Cloudflare token"),
    ("glpat-aB3dE6gH9jK2mN5pQ8sT1vW4yZ7b.01.", 'l', 9, "GitLab token"),
];

/// Returns random characters.
pub(super) fn body(random: &mut Random, alphabet: char, count: usize) -> String {
    let all: &[u8] = match alphabet {
        'h' => b"0123456789abcdef",
        'l' => b"abcdefghijklmnopqrstuvwxyz0123456789",
        _ => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
    };
    (0..count).map(|_| all[random.below(all.len() as u64) as usize] as char).collect()
}

#[test]
fn marks_tokens_of_each_listed_service() {
    let mut random = Random::new(3);
    for (mark, alphabet, count, kind) in TOKENS {
        let token = format!("{mark}{}", body(&mut random, *alphabet, *count));
        let text = format!("Use {token}, please.");
        assert_eq!(masked(&text), format!("Use [secret: {kind}], please."), "{token}");
    }
    let licence = format!("{}NRAL", body(&mut random, 'h', 36));
    assert_eq!(masked(&format!("Use {licence}.")), "Use [secret: New Relic key].");
}

#[test]
fn a_known_mark_masks_its_whole_word() {
    for (token, kind) in [
        ("sk-lf-9b1c7e2d-1a2b-4c3d-8e4f-5a6b7c8d9e0f", "Langfuse key"),
        ("key-9b1c7e2d1a2b4c3d8e4f5a6b7c8d9e0f-AB12_x", "Mailgun key"),
        ("ghp_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6-kL9", "GitHub token"),
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw+9/aB3", "Stripe secret"),
        ("whsec_Mf+Q9r8/KYqrTwjUPD8ILPZIo2LaLaSw", "Stripe secret"),
        ("xoxd-aB3dE6gH9j%2BK2mN5pQ8sT1vW4yZ7b%2FC0e%3D", "Slack token"),
    ] {
        assert_eq!(masked(&format!("Use {token}, please.")), format!("Use [secret: {kind}], please."));
    }
}

#[test]
fn marks_values_apart_from_their_names() {
    for text in APART {
        let masked = masked(text);
        let half = [
            "Zx9k", "d82q", "hunt", "2xyz", "YW5uOl", "odJx", "AbC9", "8f3k2", "cq9", "Tr0u", "or&3", "s3cr",
            "4P",
        ];
        let shown = half.into_iter().find(|it| masked.contains(it));
        assert!(shown.is_none() && masked.contains("[secret: "), "{shown:?} in {masked}");
    }
}

/// Values of weak names, and of words after a name.
const HARMLESS: &[&str] = &[
    "max_tokens: 128_000u64,",
    "max_token: 128_000u64",
    "let token = 128_000_u32;",
    "private_key: PKCS7PrivateKeyTypes",
    "private_key: PKCS7PrivateKeyTypes,",
    "password: Base64EncodedStringV2,",
    "Lock-Token: <opaquelocktoken:550e8400-e29b-41d4-a716-446655440000>",
    "Lock-Token: opaquelocktoken:550e8400-e29b-41d4-a716-446655440000",
    "If: (<opaquelocktoken:e71d4fae-5dec-22d6-fea5-00a0c91e6be4>)",
    "AKIAIOSFODNN7EXAMPLE",
    "aws_access_key_id = AKIAIOSFODNN7EXAMPLE",
    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "AKIAI44QH8DHBEXAMPLE",
    "aws_secret_access_key = je7MtGbClwBF/2Zp9Utk/h3yCo8nvbEXAMPLEKEY",
    "ASIAIOSFODNN7EXAMPLE",
    "--change-token 550e8400-e29b-41d4-a716-446655440000",
    "--client-token 550e8400-e29b-41d4-a716-446655440000",
    "\"ClientToken\": \"550e8400-e29b-41d4-a716-446655440000\"",
    "ClientToken=550e8400-e29b-41d4-a716-446655440000",
    "\"LockToken\": \"550e8400-e29b-41d4-a716-446655440000\"",
    "--lock-token 550e8400-e29b-41d4-a716-446655440000",
    "--client-request-token 550e8400-e29b-41d4-a716-446655440000",
    "\"ClientRequestToken\": \"550e8400-e29b-41d4-a716-446655440000\"",
    "AWS::IAM::AccessKey 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "\"AWS::IAM::AccessKey\": \"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b\"",
    "AWS::IAM::AccessKey: 9f86d081884c7d659a2feaa0c55ad015",
    "max_tokens = -1_540i32",
    "const TOKEN: u32 = 0x1A3F_5678;",
    "tokens = [0x1A3F_5678, 0x1A3F_5679]",
    "token: [A-Za-z0-9-]{20}",
    "'tokens': {'root': [('nx_uint16_t', 'sfixed32')]}",
    "\"secrets\": {\"id\": \"550e8400-e29b-41d4-a716-446655440000\", \"rawHash\": \"aB3dE6gH9jK2mN5pQ8sT1vW4\"}",
    "auth => { return env::GnuIlp32 }",
    "values(\"OPENSSL_NO_PSK\", \"OPENSSL_NO_DEPRECATED_3_0\")",
    "re_export_generated_handlers_of_module_v2 rnd_generateRandomNumberForTheSeed2 fc-cache-files-of-the-build-12",
    "La contraseña es obligatoria y tiene 8 caracteres.",
    "비밀번호는 8자 이상이어야 합니다.",
    "INSERT INTO t (name, password_hash) VALUES ('ann', 'scrypt16384x8x1');",
    "{\"a\": {\"d\": \"short\"}, \"kty\": \"EC\"}",
    "arn:aws:secretsmanager:us-east-1:123456789012:secret:mydb-Ab12Cd",
    "{\"SecretArn\": \"arn:aws:secretsmanager:us-east-1:123456789012:secret:mydb-Ab12Cd\"}",
    "secret = \"arn:aws-us-gov:secretsmanager:us-gov-west-1:123456789012:secret:prod/mydb-Ab12Cd\"",
    "tokens: input=1234567, output=9876543",
    "tokens: prompt:1234567",
    "define('AUTH_KEY', 'put your unique phrase here, of 64 signs and digits 0 to 9 (A-Z)')",
    "token: '^[A-Za-z0-9_-]{20,40}[.][A-Za-z0-9_-]{20,40}[.][A-Za-z0-9_-]{20,}$'",
    "password_salt: 9f86d081884c7d65",
    "token expires: 2026-01-27T09:30:00Z",
    "secret rotated: 2026-01-27T09:30:00.123+02:00",
    "token: 2026-01-27T09:30:00Z",
    "password: 2026-01-27T09:30:00Z",
    "api_key = 20260127T093000Z",
    "INFO auth: trace_id=4bf92f3577b34da6a3ce929d0e0e4736",
    "auth: req-8f3a2b1c",
    "auth: PROJ-12345",
    "auth: task-1234-fix",
    "auth: v2.1.0-rc3",
    "auth: HMAC-SHA256",
    "auth: x86_64-linux",
    "auth: gpt-4o-2024-08-06",
    "auth: 550e8400-e29b-41d4-a716-446655440000",
    "feat(auth): a1b2c3d4e5f6",
    "fix(token): a1b2c3d4e5f6",
    "token fix: 2fd4e1c67a2d28fced849ee1bb76e7391b93eb12",
    "token: #A1B2C3D4",
    "Password: cfg.Db2.Password,",
    "pwd: C:/Users/Ann2",
    "ski pass: Zone1-3",
    "pass: Zone13-North",
    "token refresh: PROJ-12345",
    "token budget: 128k-2026",
    "password reset: req-8f3a2b1c",
    "secret santa: 2026-12-24",
    "auth: OAuth2Provider",
    "auth: 4bf92f3577b34da6",
    "token: v2.1.0-rc3",
    "\"password-prompt\": \"^1.1.2-beta3\"",
    "auth service: x86_64-linux-gnu",
    "auth: sha256:2fd4e1c67a2d28fced849ee1bb76e7391b93eb12",
    "auth: user@host1.example.org",
    "pass: 3of4tests",
    "auth: Bearer-RS256",
    "password: user.pass2,",
    "token=opts.Token1,",
    "secret = aws.StringValue2,",
    "| user | tokens | issue |\n|---|---|---|\n| ann | 4096 | PROJ-12345 |\n",
    "The password policy:\n\n- min8chars\n",
    "{\"name\":\"token_count\",\"value\":\"abc12345\"}",
    "password:\n  type1: x\n",
    "token:\n  v2.1.0-rc3\n",
    "tests pass: 12of14-ok",
    "auth: node20-alpine3.18",
    "auth: arn:aws:iam::123456789012:role/Admin2",
    "auth: 10.0.0.1:8080",
    "auth: user123@example.com",
    "secret key id: PROJ-12345",
    "pwd: /home/ann2",
    "auth: ./src/Auth2.rs",
    "auth: src/Auth2/handler",
    "auth: next-auth@5.0.0-beta.25",
    "auth: error E0382",
    "auth: OK-200",
    "auth: JIRA-1 done",
    "auth: request_id: 8f3a2b1c",
    "auth: sess_8f3a2b1c9d0e",
    "auth: rust-1.84.0",
    "auth: commit 2fd4e1c",
    "auth: HTTP/2",
    "auth: 2026-W04-2",
    "auth=ES256K",
    "auth: oauth2.googleapis.com",
    "auth: AES-256-GCM",
    "auth: sha2-512",
    "auth: Argon2id",
    "auth: TLSv1.3",
    "auth: LDAPv3",
    "auth: RFC6749",
    "auth: k8s-prod-1",
    "auth: claude-3-5-sonnet-20241022",
    "auth: 3.14.159",
    "auth: ip-10-0-0-12.ec2.internal",
    "auth: a1b2c3d",
    "token: PROJ-12345",
    "token: 1.2.3-rc1",
    "token: 0xFF8800AA",
    "secret: 2026-01-27",
    "password changed: 2026-01-27",
    "password changed at: 2026-01-27T09:30:00Z",
    "token (refresh): 2026-01-27T09:30:00Z",
    "last token refresh = 2026-01-27 09:30:00",
    "tokens used: 12345abc",
    "token count: 4k-tokens",
    "chore(token): bump to v1.2.3-rc1",
    "fix(secret): 2fd4e1c67a2d28fced849ee1bb76e7391b93eb12",
    "feat(api-key)!: a1b2c3d4e5f6",
    "2fd4e1c token fix: 2fd4e1c67a2d28fced849ee1bb76e7391b93eb12",
    "pwd: ~/src2/App",
    "pwd = D:\\Work2\\App1",
    "OLDPWD=/home/ann2",
    "password = settings.DB2_PASSWORD",
    "password: config.get('db2')",
    "password: process.env.DB2_PASS",
    "secret: secrets.DB2_PASSWORD",
    "pass: 12/14ok",
    "pass: test_login2",
    "first pass: O2-level",
    "boarding pass: A12-Gate",
    "boarding pass: LH1234/27JAN",
    "pass: step2of3",
    "pass 2: 14ms",
    "bus pass: Q3/2026",
    "password generator: v2.1.0",
    "password strength: zxcvbn4.4.2",
    "the token was issued 2026-01-27T09:30:00Z",
    "The password policy is: min8chars1upper",
    "import { token2 } from './auth2.js'",
    "const token = await getToken2()",
    "let pwd = cfg2.pwd;",
    "if password == \"abc\" { x1() }",
    "token, secret2, foo",
    "user,token,count\nann,oauth2,12\n",
    "| flag | token |\n|---|---|\n| -p | next_token2 |\n",
    "auth:\n  oauth2:\n    x: 1\n",
    "auth:\n  - oauth2-proxy\n",
    "secrets:\n  - db_password2\n",
    "password:\n  minLength: 8\n",
    "password:\n  type: string2\n",
    "Token kinds:\n\n- oauth2-proxy\n",
];

#[test]
fn shows_values_of_weak_names_and_of_other_words() {
    for text in HARMLESS {
        assert_eq!(masked(text), *text);
    }
}

#[test]
fn finds_incomplete_private_keys() {
    let planted = each(&mut Random::new(3)).pop().unwrap();
    let lines: Vec<&str> = planted.secret.lines().collect();
    for cut in 2..lines.len() {
        for part in [lines[..cut].join("\n"), lines[cut - 1..].join("\n")] {
            let masked = masked(&part).into_owned();
            assert!(lines[1..lines.len() - 1].iter().all(|line| !masked.contains(line)), "{cut}: {masked}");
        }
    }
}

#[test]
fn masks_secrets_across_piece_borders() {
    for planted in each(&mut Random::new(11)) {
        let text = format!("one {} two", planted.text());
        let from = text.find(&planted.secret).unwrap();
        for cut in from + 1..from + planted.secret.len() {
            let (before, behind) = text.as_bytes().split_at(cut);
            let front = masked_in_context(b"", before, behind);
            let back = masked_in_context(before, behind, b"");
            let both = [&front[..], b"|", &back[..]].concat();
            assert!(!shown(&planted, &String::from_utf8(both).unwrap()), "{cut} of {text}");
        }
    }
}

/// Texts of pieces that are secrets, or nearly, or become one together.
fn text() -> impl Strategy<Value = String> {
    let planted: Vec<String> =
        (0..3).flat_map(|seed| each(&mut Random::new(seed))).map(|it| it.text()).collect();
    let piece = prop_oneof![
        proptest::sample::select(planted),
        prop_oneof!["[ -~]{0,12}", "\\PC{0,8}", "[a-zA-Z0-9+/]{0,40}"],
        proptest::sample::select(vec![
            "password",
            "=",
            ": ",
            "\"",
            "\\n",
            "\\u00e9",
            "\n",
            "\r\n",
            " ",
            "@",
            "://",
            "-----BEGIN PRIVATE KEY-----\n",
            "-----END PRIVATE KEY-----",
            "ü",
            "語",
            "token",
            "Bearer ",
            "&a=",
            "eyJ",
            ".",
            "\t",
            "|",
            "| user | password |\n",
            "|---|---|\n",
            "user,token\n",
            ",",
            "```\n",
            "'''",
            "{\"value\":",
            "\"name\":",
            "}",
            "Zx9kd82qW",
            "sshpass ",
            "\"-p\"",
            "IDENTIFIED BY ",
            "auth",
            "2026-01-27",
            "\\\\\\\"",
            "[",
            "{\"a\": \"",
            "&quot;",
            "%3D",
            "ｔｏｋｅｎ",
            "\u{200b}",
            "(token) VALUES ('",
            "Private-Lines: 1\n",
            "{\"kty\":\"EC\",\"d\":\"",
            "비밀번호는 ",
        ])
        .prop_map(str::to_owned),
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn spans_are_ordered_disjoint_and_on_character_boundaries(text in text()) {
        let found = find(text.as_bytes());
        let mut done = 0;
        for secret in &found {
            prop_assert!(done <= secret.bytes.start && secret.bytes.start < secret.bytes.end);
            prop_assert!(text.get(secret.bytes.clone()).is_some(), "{secret:?} of {text}");
            prop_assert!(secret.basis.start <= secret.bytes.start && secret.bytes.end <= secret.basis.end);
            done = secret.bytes.end;
        }
        prop_assert_eq!(masked(&text).matches("[secret: ").count(), found.len() + text.matches("[secret: ").count());
    }

    #[test]
    fn accepts_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in any::<prop::sample::Index>()) {
        find(&bytes);
        let cut = cut.index(bytes.len() + 1);
        masked_in_context(&bytes[..cut], &bytes[cut..], b"password=");
    }

    #[test]
    fn appended_text_makes_no_earlier_line_secret(text in text(), more in text()) {
        let before = format!("{text}\n");
        let whole = format!("{before}{more}");
        // A token may run into a key, which continues.
        let is_line = |secret: &&Secret| !whole[secret.bytes.clone()].contains("PRIVATE KEY");
        let alone = find(before.as_bytes());
        for secret in find(whole.as_bytes()).iter().filter(is_line) {
            let known = |own: &Secret| own.bytes.start <= secret.bytes.start && own.bytes.end >= secret.bytes.end;
            prop_assert!(secret.bytes.start >= before.len() || alone.iter().any(known), "{secret:?} of {before:?}");
        }
    }
}
