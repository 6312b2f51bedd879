//! Forms of names and values: other languages, arrays of programs, URLs, sentences, markup, objects without
//! quotes, and calls. Each form comes with harmless texts that look like it.

use garth_testkit::data::random::Random;

use super::tests::body;
use super::*;

const SECRET: &str = "kJ8vQ2xLr9TzPw4n";

fn assert_masked(text: &str) {
    let masked = masked(text);
    let shown = [SECRET, "Casa2024Sol", "Sommerregen99"].into_iter().find(|it| masked.contains(it));
    assert!(shown.is_none() && masked.contains("[secret: "), "{shown:?} in {masked}");
}

fn assert_shown(texts: &[&str]) {
    for text in texts {
        assert_eq!(masked(text), *text);
    }
}

/// Names in other languages, without words that say what they are for.
const NAMES: &[&str] = &[
    "Mot de passe",
    "mdp",
    "Clé API",
    "Clé d'API",
    "Clef API",
    "Clé secrète",
    "Contraseña",
    "Contrasena",
    "Clave",
    "Clave de API",
    "Clave privada",
    "Senha",
    "Palavra-passe",
    "Chave de API",
    "Parola d'accesso",
    "Chiave API",
    "Hasło",
    "Haslo",
    "Klucz API",
    "Passwort",
    "Passwörter",
    "Datenbankpasswort",
    "Kennwort",
    "WLAN-Schlüssel",
    "API-Schlüssel",
    "API-Schluessel",
    "Wachtwoord",
    "API-sleutel",
    "Пароль",
    "Ключ API",
    "Секретный ключ",
    "Токен",
    "パスワード",
    "APIキー",
    "トークン",
    "密码",
    "口令",
    "密钥",
    "비밀번호",
    "암호",
    "토큰",
];

#[test]
fn names_of_any_language_count_in_any_case() {
    for name in NAMES {
        for name in [(*name).to_owned(), name.to_uppercase(), name.to_lowercase()] {
            for sign in [": ", " : ", "\u{a0}: ", "="] {
                assert_masked(&format!("{name}{sign}{SECRET}"));
                assert_masked(&format!("Voilà.\n{name}{sign}{SECRET}\n"));
            }
        }
    }
    for text in [
        "Mot de passe est kJ8vQ2xLr9TzPw4n",
        "MOT DE PASSE EST kJ8vQ2xLr9TzPw4n",
        "la clave del wifi es kJ8vQ2xLr9TzPw4n",
        "La clave del wifi es Casa2024Sol",
        "der WLAN-Schlüssel ist kJ8vQ2xLr9TzPw4n",
        "ПАРОЛЬ ОТ WIFI: Casa2024Sol",
        "mot_de_passe = \"Casa2024Sol\"",
        "MOT_DE_PASSE=Casa2024Sol",
        "wifiClave = \"Casa2024Sol\"",
        "{\"Contrase\u{f1}a\": \"Casa2024Sol\"}",
        "Contrasen\u{303}a: Casa2024Sol",
        "| Utilisateur | Mot de passe |\n|---|---|\n| ann | Casa2024Sol |\n",
    ] {
        assert_masked(text);
    }
    assert_shown(&[
        "Palabra clave: covid19",
        "Enclave: Zone13x",
        "Clave pública: kJ8vQ2xLr9TzPw4n",
        "Schlüssel: A12-Gate",
        "La contraseña es obligatoria y tiene 8 caracteres.",
        "Mot de passe : au moins 8 caractères",
        "MOT DE PASSE OUBLIÉ",
        "Ключ: PROJ-12345",
    ]);
}

#[test]
fn subscripts_belong_to_the_name() {
    for text in [
        "const char password[] = \"kJ8vQ2xLr9TzPw4n\";",
        "char password[32] = \"kJ8vQ2xLr9TzPw4n\";",
        "char pass[] = \"kJ8vQ2xLr9TzPw4n\";",
        "const char WIFI_PASSWORD[] PROGMEM = \"Casa2024Sol\";",
        "String password[2] = {\"kJ8vQ2xLr9TzPw4n\", \"Casa2024Sol\"};",
        "String password[2] = {\n  \"Casa2024Sol\",\n};",
        "char password[]{\"Casa2024Sol\"};",
        "passwords[0][1] = \"Casa2024Sol\"",
        "secrets[\"stripe\"] = \"kJ8vQ2xLr9TzPw4n\"",
        "https://x.org/?tokens[]=kJ8vQ2xLr9TzPw4n",
    ] {
        assert_masked(text);
    }
    assert_shown(&[
        "char password[32];",
        "if (password[0] == 'x') return;",
        "tokens[0] = next_token2();",
        "password[8] = words[n2];",
    ]);
}

#[test]
fn json_in_urls_is_decoded() {
    for text in [
        "https://x.org/?q=%7B%22password%22%3A%22kJ8vQ2xLr9TzPw4n%22%7D",
        "https://x.org/?q=%7b%22password%22%3a%20%22Casa2024Sol%22%7d",
        "%22token%22:%22kJ8vQ2xLr9TzPw4n%22",
        "q=%7B%22a%22%3A+1%2C+%22password%22%3A+%22Casa2024Sol%22%7D&b=1",
        "q=%257B%2522token%2522%253A%2522kJ8vQ2xLr9TzPw4n%2522%257D",
        "q=%7B%22tokens%22%3A%5B%22kJ8vQ2xLr9TzPw4n%22%5D%7D",
    ] {
        assert_masked(text);
    }
    assert_shown(&[
        "https://x.org/?q=%22token%22+rotation",
        "https://x.org/?q=%7B%22page%22%3A%22kJ8vQ2xLr9TzPw4n%22%7D",
        "https://x.org/?q=%7B%22tokenType%22%3A%22Bearer2%22%7D",
    ]);
}

#[test]
fn adverbs_may_precede_the_value() {
    for text in [
        "the password is now kJ8vQ2xLr9TzPw4n",
        "The password is now Casa2024Sol, not the old one.",
        "the password is still kJ8vQ2xLr9TzPw4n",
        "the password will be kJ8vQ2xLr9TzPw4n",
        "The password will now be Casa2024Sol.",
        "password remains kJ8vQ2xLr9TzPw4n",
        "The password has always been Casa2024Sol.",
        "THE PASSWORD IS kJ8vQ2xLr9TzPw4n",
        "das Passwort ist jetzt kJ8vQ2xLr9TzPw4n",
        "Das Passwort bleibt Casa2024Sol",
        "Das Passwort ist ab sofort Casa2024Sol.",
        "Le mot de passe est désormais Casa2024Sol",
        "La contraseña ahora es Casa2024Sol",
        "A senha será Casa2024Sol",
        "Hasło to teraz Casa2024Sol",
        "the token is now kJ8vQ2xLr9TzPw4n",
    ] {
        assert_masked(text);
    }
    assert_shown(&[
        "The password is now required, at least 8 characters.",
        "the token is still valid until 2026-01-27",
        "The password will be reset by Ann2024.",
        "The password must be min8chars",
        "das Passwort ist jetzt sicher",
        "The token will be rotated on 2026-01-27.",
    ]);
}

#[test]
fn markup_may_surround_the_name() {
    for text in [
        "<b>Password</b>: kJ8vQ2xLr9TzPw4n",
        "<b>Password:</b> kJ8vQ2xLr9TzPw4n",
        "<b>Password:</b> <code>Casa2024Sol</code>",
        "<strong>password</strong> is Casa2024Sol",
        "<p><em>Mot de passe</em> : Casa2024Sol</p>",
        "_Password_: kJ8vQ2xLr9TzPw4n",
        "__Password__: Casa2024Sol",
        "_Password:_ Casa2024Sol",
        "[b]Password[/b]: Casa2024Sol",
        "<td>Password</td><td>kJ8vQ2xLr9TzPw4n</td>",
        "<td class=\"k\">Password:</td> <td class=\"v\"><code>Casa2024Sol</code></td>",
        "<tr>\n  <td>Password</td>\n  <td>Casa2024Sol</td>\n</tr>",
        "<dt>Password</dt><dd>Casa2024Sol</dd>",
    ] {
        assert_masked(text);
    }
    assert_shown(&[
        "<td>Password</td><td>required</td>",
        "<th>Password</th><th>Role2024x</th>",
        "token: <b>bold</b>",
        "password: <your password> <b>here</b>",
        "_token_type_: v2.1.0",
    ]);
}

#[test]
fn keys_are_private_however_members_are_written() {
    let value = body(&mut Random::new(21), 'a', 43);
    for text in [
        "{ \"kty\" : \"EC\" ,\r\n \"d\"\r\n:\r\n\"V\" }",
        "{kty:\"OKP\",d:\"V\"}",
        "{ d: 'V', kty: 'OKP' }",
        "const key = {\n  kty: \"OKP\",\n  crv: \"Ed25519\",\n  d: \"V\",\n};\n",
        "{kty: OKP, d: V}",
        "kty: OKP\ncrv: Ed25519\nd: V\n",
        "jwk:\n  d: V\n  key_ops:\n    - sign\n  kty: OKP\n",
        "keys:\n- kid: a\n  kty: OKP\n  d: V\n",
        "keys:\r\n  - d: V\r\n    kty: OKP\r\n",
        "{\"d\":\"V\",/* c */\"kty\":\"EC\"}",
        "{\"kty\":\"EC\",/* } */\"d\"/* c */:/* c */\"V\"}",
        "{\"d\":\"V\", // it's {\n\"kty\":\"EC\"}",
        "{\"kty\":\"EC\",\"d\":[\"V\"]}",
        "q=%7B%22kty%22%3A%22EC%22%2C%22d%22%3A%22V%22%7D",
    ] {
        let expected = text.replace('V', "[secret: private key]");
        assert_eq!(masked(&text.replace('V', &value)), expected);
    }
    for text in [
        "{alg: \"RS256\", k: \"V\"}",
        "{kty:\"OKP\",crv:\"Ed25519\",x:\"V\"}",
        "[{d:\"V\"},{kty:\"OKP\"}]",
        "kty: OKP\n\nd: V\n",
        "jwk:\n  kty: OKP\nd: V\n",
        "- kty: OKP\n- d: V\n",
    ] {
        let text = text.replace('V', &value);
        assert_eq!(masked(&text), text);
    }
    assert_shown(&["{kty: kty, d: privateKeyOfTheOldKeyStore}"]);
}

#[test]
fn distant_members_without_quotes_decide_alike() {
    let random = &mut Random::new(22);
    let (number, value) = (body(random, 'a', 3_000), body(random, 'a', 43));
    for text in [
        format!("{{kty:\"RSA\",n:\"{number}\",d:\"{value}\"}}\n"),
        format!("d: {value}\nn: {number}\nkty: RSA\n"),
        format!("{{\"d\"\r\n:\r\n[\"{value}\"],\"n\":\"{number}\",\"kty\":\"RSA\"}}\n"),
    ] {
        let whole = find(text.as_bytes());
        assert!(!masked(&text).contains(&value), "{text}");
        for cut in (1..text.len()).step_by(41) {
            let (before, behind) = text.as_bytes().split_at(cut);
            let (piece, rest) = behind.split_at(behind.len().min(30));
            let (found, at) = find_around(Judgement::CURRENT, before, piece, rest);
            let parts = |found: &[Secret], range| -> Vec<_> {
                within(found, range).map(|(bytes, _)| bytes).collect()
            };
            let inside = parts(&found, at..at + piece.len());
            assert_eq!(inside, parts(&whole, cut..cut + piece.len()), "{cut} of {text}");
        }
    }
}

#[test]
fn arguments_may_follow_the_secret() {
    for text in [
        "set_password(\"ann\", \"Sommerregen99\", True)",
        "setPassword(\"ann\", \"Sommerregen99\", {force: true})",
        "setPassword(user, 'Sommerregen99', { reason: 'new' });",
        "change_password(user, \"Sommerregen99\", force=True)",
        "set_password(\n    \"ann\",\n    \"Sommerregen99\",\n    True,\n)",
        "set_password(user,\n    \"Sommerregen99\",\n    now())",
    ] {
        assert_masked(text);
    }
    let both = "set_password(\"ann\", \"users2024\", \"Sommerregen99\", 3)";
    assert_eq!(masked(both), both.replace("Sommerregen99", "[secret: password]"));
    assert_shown(&[
        "get_password(\"ann\", \"Sommerregen99\", True)",
        "set_password(\"ann\", \"prefix2024\" + name, True)",
        "set_password(\"ann\", hash(\"Sommerregen99\"), True)",
        "set_password(\n    \"users2024\",\n    password,\n)",
        "set_token(\"scope\", \"v2.1.0-rc3\", True)",
    ]);
}

#[test]
fn words_with_numbers_are_no_tokens() {
    assert_shown(&[
        "token: o200k_base",
        "token: cl100k_base",
        "session cookie: httponly2",
        "Cookie: HttpOnly2",
        "secret santa is Thursday2024",
        "The secret meeting was Friday2025.",
    ]);
    for text in ["token: 8f3k2b1cq9", "the secret is kJ8vQ2xLr9TzPw4n", "cookie: a1b2c3d4e5_base"] {
        assert_ne!(masked(text), text);
    }
}

#[test]
fn ranges_of_bytes_are_no_tokens() {
    assert_shown(&[
        "curl -H \"Authorization: Bearer $GARTH_KEY\" -H 'Range: bytes=0-1023' localhost:8787/v1/fs/a",
        "curl -H \"Authorization: Bearer $GARTH_KEY\" -H \"Range: bytes=0-1023\" localhost:8787/v1/fs/a",
        "curl -H \"Authorization: Bearer TOKEN\" -H \"Range: bytes=0-499,1000-1499\"",
        "the token: bytes=1048576-",
        "Authorization: bytes=-1048576",
    ]);
    for text in ["token: bytes=0-1023kJ8vQ2xLr9TzPw4n", "token: bytes=kJ8vQ2xLr9TzPw4n"] {
        assert_masked(text);
    }
}
