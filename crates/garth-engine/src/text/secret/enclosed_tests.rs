//! Values that something encloses, private parts of keys, and the detection before these were found.

use garth_testkit::data::random::Random;

use super::tests::body;
use super::*;

/// Texts with values in brackets, tags and expressions, below columns of SQL, behind entities, in other
/// languages, and in arguments of commands.
const ENCLOSED: &[&str] = &[
    "\"token\": [\"Zx9kd82qWmP3\"]",
    "token=(\"Zx9kd82qWmP3\")",
    "token = (\"Zx9kd82qWmP3\", \"b\")",
    "password: (Zx9kd82qW)",
    "\"passwords\": [\"Zx9kd82qW\", \"hunter2xyz\"]",
    "\"apiKeys\": {\"prod\": \"Zx9kd82qWmP3\", \"dev\": \"Yx9kd82qWmP4\"}",
    "\"secrets\": {\"stripe\": {\"live\": \"Zx9kd82qWmP3\"}}",
    "{\"passwords\": {\"root\": \"Zx9kd82qW\"}}",
    "token: [Zx9kd82qWmP3]",
    "password: !!str Zx9kd82qW",
    "password: !!str \"Zx9kd82qW\"",
    "password: ! \"Zx9kd82qW\"",
    "password: &anchor Zx9kd82qW",
    "const token = process.env.TOKEN || \"Zx9kd82qWmP3\"",
    "apiKey: process.env.OPENAI_KEY ?? 'Zx9kd82qWmP3',",
    "password = os.getenv(\"DB_PASSWORD\", \"Zx9kd82qW\")",
    "password = os.environ.get(\"DB_PASSWORD\") or \"Zx9kd82qW\"",
    "token = ENV['TOKEN'] || 'Zx9kd82qWmP3'",
    "token = ENV.fetch(\"TOKEN\", \"Zx9kd82qWmP3\")",
    "password=${DB_PASSWORD:-Zx9kd82qW}",
    "openai.api.key=Zx9kd82qWmP3",
    "my.secret.key: Zx9kd82qWmP3",
    "token%3DZx9kd82qWmP3",
    "https://x.org/cb?u=https%3A%2F%2Fy.org%2F%3Fapi_key%3DZx9kd82qWmP3%26a%3D1",
    "password%3A%20Zx9kd82qW",
    "<input type=\"hidden\" name=\"csrf_token\" value=\"Zx9kd82qWmP3\">",
    "<input value=\"Zx9kd82qWmP3\" name=\"token\">",
    "token=&quot;Zx9kd82qWmP3&quot;",
    "{&quot;password&quot;:&quot;Zx9kd82qW&quot;}",
    "{&amp;quot;password&amp;quot;:&amp;quot;Zx9kd82qW&amp;quot;}",
    "password&#61;Zx9kd82qW",
    "password&#x3D;Zx9kd82qW",
    "p&#97;ssword=Zx9kd82qW",
    "INSERT INTO users (name, password) VALUES ('ann', 'Zx9kd82qW');",
    "INSERT INTO users (id, token, n) VALUES (1, 'Zx9kd82qWmP3', 2), (2, 'Yx9kd82qWmP4', 3);",
    "INSERT INTO `users` (`id`, `api_key`) VALUES\n(1, 'Zx9kd82qWmP3'),\n(2, 'Yx9kd82qWmP4');",
    "UPDATE users SET password = 'Zx9kd82qW' WHERE id = 1;",
    "ｐａｓｓｗｏｒｄ：Zx9kd82qW",
    "ｔｏｋｅｎ＝Zx9kd82qWmP3",
    "ｔｏｋｅｎ＝Ｚｘ９ｋｄ８２ｑＷｍＰ３",
    "pass\u{200b}word: Zx9kd82qW",
    "tok\u{200d}en: Zx9kd82qWmP3",
    "password: Zx9k\u{200b}d82qW",
    "$p = ConvertTo-SecureString \"Zx9kd82qW\" -AsPlainText -Force",
    "ConvertTo-SecureString -String 'Zx9kd82qW' -AsPlainText",
    "la contraseña es Zx9kd82qW",
    "La contraseña de la base de datos es Zx9kd82qW.",
    "das Passwort lautet Zx9kd82qW",
    "Das Passwort für den Server lautet: Zx9kd82qW",
    "Das Passwort ist Zx9kd82qW.",
    "비밀번호는 Zx9kd82qW 입니다",
    "비밀번호: Zx9kd82qW",
    "le mot de passe est Zx9kd82qW",
    "a senha é Zx9kd82qW",
    "пароль — Zx9kd82qW",
    "пароль от базы: Zx9kd82qW",
    "unzip -P Zx9kd82qW a.zip",
    "7z x -pZx9kd82qW a.7z",
    "zip -P Zx9kd82qW a.zip b",
    "az login --service-principal -u app -p Zx9kd82qWmP3 --tenant t",
    "psk=\"Zx9kd82qW\"",
    "psk=Zx9kd82qW",
    "wpa_passphrase=Zx9kd82qW",
    "network={\n  ssid=\"home\"\n  psk=\"Zx9kd82qW\"\n}",
    "token: Some(\"Zx9kd82qWmP3\")",
    "token = String::from(\"Zx9kd82qWmP3\")",
    "password = new Secret(\"Zx9kd82qW\")",
    "token = base64.b64decode(\"Zx9kd82qWmP3\")",
    "tokens = {\"Zx9kd82qWmP3\", \"Yx9kd82qWmP4\"}",
    "password: [\n  \"Zx9kd82qW\"\n]",
    "password={Zx9kd82qW}",
    "token: <Zx9kd82qWmP3>",
    "\"token\": [[\"Zx9kd82qWmP3\"]]",
    "set_password(\"alice\", \"Zx9kd82qW\")",
    "user.setPassword('alice', 'hunter22xyz')",
    "set_password(user, \"Zx9kd82qW\")",
    "set_password(\n    user,\n    \"Zx9kd82qW\"\n)",
    "set_password(\n    \"Zx9kd82qW\",\n)",
    "change_password(user, \"Yx9kd82qWmP4\", \"Zx9kd82qW\");",
    "check_password(\"alice\", \"Zx9kd82qW\", timeout=3)",
    "assert login_with_token(\"alice\", b\"Zx9kd82qWmP3\")",
    "пароль от wifi: Zx9kd82qW",
    "Пароль от github.com: Zx9kd82qW",
];

/// Sentences with words between the name of a password and its value, which does not look random.
const LINKED: &[&str] = &[
    "La contraseña del wifi es Casa2024Sol",
    "La contraseña del wifi: Casa2024Sol",
    "La contraseña wifi es Casa2024Sol, como siempre.",
    "A senha do wifi é Casa2024Sol",
    "Le mot de passe du wifi est Casa2024Sol.",
    "Le mot de passe pour la maison est Casa2024Sol",
    "Das Passwort für das WLAN ist Casa2024Sol",
    "Das Kennwort vom Router lautet: Casa2024Sol",
    "Het wachtwoord van de wifi is Casa2024Sol",
    "Hasło do wifi to Casa2024Sol",
    "Hasło do sieci: Casa2024Sol",
    "Пароль от почты: Casa2024Sol",
    "The password for the wifi is Casa2024Sol.",
];

#[test]
fn marks_passwords_after_words_and_a_verb() {
    for text in LINKED {
        // The end of the sentence may belong to the password.
        let expected = text.replace("Casa2024Sol", "[secret: password]");
        assert_eq!(masked(text).trim_end_matches('.'), expected.trim_end_matches('.'));
    }
    for text in [
        "The password manager is Casa2024Sol",
        "The password for the wifi is argon2id",
        "La contraseña del wifi tiene Casa2024Sol",
        "Пароль сброшен: Casa2024Sol",
    ] {
        assert_eq!(masked(text), text);
    }
}

#[test]
fn shows_harmless_arguments_of_calls() {
    for text in [
        "set_password(\"alice\", \"sunshine\")",
        "check_password(\"alice\", \"user2024\")",
        "set_token(\"scope\", \"v2.1.0-rc3\")",
        "get_password(\"db\", \"user-12\", \"2026-01-27\")",
        "set_password(\"alice\", config.get(\"db2pass\"))",
        "reset_token(\"a\", \"b\"); other(\"c\", \"Zx9kd82qWmP3\")",
    ] {
        assert_eq!(masked(text), text);
    }
}

#[test]
fn marks_values_however_they_are_enclosed() {
    for text in ENCLOSED {
        let masked = masked(text);
        let half = ["Zx9k", "WmP3", "Yx9k", "WmP4", "hunt", "2xyz", "82qW", "Ｚｘ", "Ｐ３"];
        let shown = half.into_iter().find(|it| masked.contains(it));
        assert!(shown.is_none() && masked.contains("[secret: "), "{shown:?} in {masked}");
    }
}

#[test]
fn earlier_detection_masks_as_before() {
    let second = |text| Judgement::Second.during(|| masked(text).into_owned());
    // Found later.
    for text in [
        "token: [Zx9kd82qWmP3]",
        "\"apiKeys\": {\"prod\": \"Zx9kd82qWmP3\"}",
        "token%3DZx9kd82qWmP3",
        "token=&quot;Zx9kd82qWmP3&quot;",
        "INSERT INTO users (name, password) VALUES ('ann', 'Zx9kd82qW');",
        "das Passwort lautet Zx9kd82qW ",
        "unzip -P Zx9kd82qW a.zip",
        "psk=Zx9kd82qW",
    ] {
        assert_eq!(second(text), text);
        assert_ne!(masked(text), text);
    }
    let third = |text| Judgement::Third.during(|| masked(text).into_owned());
    for text in [
        "set_password(\"alice\", \"Zx9kd82qW\")",
        "La contraseña del wifi es Casa2024Sol",
        "Le mot de passe du wifi est Casa2024Sol",
        "{\n\"k\": \"Zx9kd82qWmP3Yx9kd82qWmP4\",\n\"kty\": \"oct\"\n}",
        "CONTRASEÑA: Zx9kd82qW",
        "Mot de passe : Zx9kd82qW",
        "char password[] = \"Zx9kd82qW\";",
        "%22token%22:%22Zx9kd82qWmP3%22",
        "the password is now Zx9kd82qW",
        "<b>Password</b>: Zx9kd82qW",
        "{kty:\"oct\",k:\"Zx9kd82qWmP3Yx9kd82qWmP4\"}",
    ] {
        assert_eq!(third(text), text);
        assert_ne!(masked(text), text);
    }
    let one_line = "{\"kty\":\"oct\",\"k\":\"Zx9kd82qWmP3Yx9kd82qWmP4\"}";
    assert_eq!(third(one_line), "{\"kty\":\"oct\",\"k\":\"[secret: private key]\"}");
    assert_eq!(third("token: o200k_base"), "token: [secret: token]");
    assert_eq!(third("token: bytes=0-1023"), "token: [secret: token]");
    // Shown later.
    for (text, before) in [
        ("max_tokens: 128_000u64", "max_tokens: [secret: token]"),
        ("Use AKIAIOSFODNN7EXAMPLE.", "Use [secret: AWS access key]."),
        ("ClientToken=550e8400-e29b-41d4-a716-446655440000", "ClientToken=[secret: token]"),
    ] {
        assert_eq!(second(text), before);
        assert_eq!(masked(text), text);
    }
}

#[test]
fn marks_private_parts_of_keys() {
    let random = &mut Random::new(9);
    let mut part = |count| body(random, 'a', count);
    let (public, private) = (part(64), part(64));
    let putty = format!(
        "PuTTY-User-Key-File-3: ssh-ed25519\r\nEncryption: none\r\nPublic-Lines: 1\r\n{public}\r\n\
         Private-Lines: 1\r\n{private}\r\nPrivate-MAC: 9f86d081884c7d65\r\n"
    );
    let line = format!("{{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"{public}\",\"d\":\"{private}\"}}");
    let lines = format!("{{\n  \"kty\": \"RSA\",\n  \"n\": \"{public}\",\n  \"d\": \"{private}\"\n}}\n");
    for text in [putty, line, lines] {
        assert_eq!(masked(&text), text.replace(&private, "[secret: private key]"));
    }
    let other = format!("{{\"a\": 1, \"d\": \"{private}\"}}");
    assert_eq!(masked(&other), other);
}

/// Returns members of a key, each with its value. Those with a private value come with `true`.
fn members(random: &mut Random) -> Vec<(&'static str, String, bool)> {
    let mut part = |count| body(random, 'a', count);
    let others = format!("[{{\"r\": \"{}\", \"d\": \"{}\"}}]", part(171), part(171));
    let mut all = vec![
        ("kid", "\"key-1\"".to_owned(), false),
        ("key_ops", "[\"sign\", {\"a\": 1}]".to_owned(), false),
        ("n", format!("\"{}\"", part(342)), false),
        ("oth", others, true),
    ];
    all.extend(["d", "p", "q", "dp", "dq", "qi", "k"].map(|name| (name, format!("\"{}\"", part(342)), true)));
    all
}

#[test]
fn marks_private_members_in_any_order() {
    let random = &mut Random::new(17);
    for (between, sign) in [("\n  ", ": "), ("", ":"), ("\r\n\t", " : "), (" ", ":\n  ")] {
        let all = members(random);
        for place in 0..=all.len() {
            let mut lines: Vec<String> =
                all.iter().map(|(name, value, _)| format!("\"{name}\"{sign}{value}")).collect();
            lines.insert(place, format!("\"kty\"{sign}\"RSA\""));
            let text = format!("{{{between}{}\n}}\n", lines.join(&format!(",{between}")));
            for shape in [text.clone(), format!("> {text}"), text.replace('"', "'")] {
                let shown = masked(&shape);
                for value in all.iter().flat_map(|(_, value, is_private)| {
                    let parts = value.split('"').filter(|part| part.len() > 100);
                    parts.map(move |part| (part, *is_private))
                }) {
                    assert_eq!(shown.contains(&value.0[..20]), !value.1, "{} in {shown}", value.0);
                }
            }
            // A piece is marked like the complete text.
            let whole = find(text.as_bytes());
            for cut in (1..text.len()).step_by(97) {
                let (before, behind) = text.as_bytes().split_at(cut);
                let piece = &behind[..behind.len().min(60)];
                let rest = &behind[piece.len()..];
                let (found, at) = find_around(Judgement::CURRENT, before, piece, rest);
                let parts = |found: &[Secret], range| -> Vec<_> {
                    within(found, range).map(|(bytes, _)| bytes).collect()
                };
                let inside = parts(&found, at..at + piece.len());
                assert_eq!(inside, parts(&whole, cut..cut + piece.len()), "{cut} of {text}");
            }
        }
    }
}

#[test]
fn members_of_other_objects_are_shown() {
    let value = body(&mut Random::new(18), 'a', 43);
    for text in [
        format!("[{{\"d\": \"{value}\"}}, {{\"kty\": \"EC\"}}]"),
        format!("{{\n  \"kty\": \"EC\",\n  \"x\": \"{value}\",\n  \"y\": \"{value}\"\n}}"),
        format!("{{\"d\": \"{value}\", \"jwk\": {{\"kty\": \"EC\"}}}}"),
        format!("{{\n  \"k\": \"{value}\",\n  \"v\": 1\n}}\n\"kty\": \"EC\""),
    ] {
        assert_eq!(masked(&text), text);
    }
}
