//! `garth media` as users run it.

use serde_json::json;

use super::garth::{Garth, string, text, utf8};

/// A picture with one pixel.
const PNG: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, b'I', b'H', b'D', b'R', 0, 0, 0, 1, 0, 0,
    0, 1, 8, 6, 0, 0, 0, 0x1f, 0x15, 0xc4, 0x89, 0, 0, 0, 0x0d, b'I', b'D', b'A', b'T', 0x78, 0x9c, 0x63,
    0xf8, 0xcf, 0xc0, 0xf0, 0x1f, 0, 5, 0, 1, 0xff, 0x89, 0x99, 0x3d, 0x1d, 0, 0, 0, 0, b'I', b'E', b'N',
    b'D', 0xae, 0x42, 0x60, 0x82,
];
const KEY: &str = "agent:default:main";

#[test]
fn media_round_trip_byte_for_byte() {
    let garth = Garth::unmade();
    garth.ok(&["session", "create", "work", "--key", KEY]);
    let file = garth.beside("Cat one.PNG");
    std::fs::write(&file, PNG).unwrap();
    let put = garth.json(&["media", "put", utf8(&file), "--session", "work"]);
    let key = string(&put["r2_key"]);
    assert!(key.starts_with(&format!("media/{KEY}/")) && key.ends_with(".png"), "{key}");
    assert_eq!((&put["mime_type"], &put["size"]), (&json!("image/png"), &json!(PNG.len())));
    assert_eq!(put["metadata"]["originalFilename"], json!("Cat one.PNG"));
    assert_eq!(garth.run(&["media", "get", &key], b"").stdout, PNG);
    let copy = garth.beside("copy.png");
    garth.ok(&["media", "get", &key, utf8(&copy)]);
    assert_eq!(std::fs::read(&copy).unwrap(), PNG);
    garth.fails(4, &["media", "get", &key, utf8(&copy)]);
    let piped =
        ["media", "put", "-", "--key", KEY, "--mime-type", "audio/ogg; codecs=opus", "--name", "hi.ogg"];
    let piped = text(&garth.run(&piped, PNG).stdout).trim().to_owned();
    assert!(piped.ends_with(".ogg"), "{piped}");
    assert_eq!(garth.lines(&["media", "list", "--session", "work"]).len(), 2);
    assert_eq!(garth.lines(&["media", "list", "--key", KEY, "-n", "1"]).len(), 1);
    assert_eq!(garth.ok(&["media", "rm", &piped]), format!("removed  {piped}\n"));
    garth.fails(3, &["media", "rm", &piped]);
    garth.fails(3, &["media", "get", &piped]);
    garth.fails(2, &["media", "get", "media/../x.png"]);
    garth.fails(2, &["media", "put", utf8(&file)]);
    garth.fails(2, &["media", "put", utf8(&file), "--key", "agent:other:main"]);
    garth.fails(2, &["media", "put", utf8(&file), "--key", "a/b"]);
    garth.fails(3, &["media", "put", "/no/such/file", "--key", KEY]);
    garth.fails(3, &["media", "list", "--session", "none"]);
}

#[test]
fn message_images_reach_providers_after_archiving() {
    let garth = Garth::unmade();
    garth.ok(&["session", "create", "work", "--key", KEY]);
    let file = garth.beside("cat.png");
    std::fs::write(&file, PNG).unwrap();
    let put = garth.json(&["media", "put", utf8(&file), "--session", "work"]);
    let key = string(&put["r2_key"]);
    let image = json!({"type": "image", "mime_type": "image/png", "path": key});
    let said = json!({"role": "user", "content": [{"type": "text", "text": "look"}, image]});
    garth.feed(&["session", "append", "work"], &said.to_string());
    let plain = garth.ok(&["context", "pack", "work"]);
    assert!(plain.contains(&key), "{plain}");
    let data = "data:image/png;base64,iVBORw0KGgo";
    assert!(garth.ok(&["context", "pack", "work", "--format", "openai"]).contains(data));
    assert!(garth.ok(&["context", "pack", "work", "--format", "anthropic"]).contains("\"iVBORw0KGgo"));
    garth.ok(&["session", "archive", "work"]);
    assert_eq!(garth.run(&["media", "get", &key], b"").stdout, PNG);
    assert!(garth.ok(&["context", "replay", "work", "--format", "openai"]).contains(data));
    assert_eq!(garth.ok(&["context", "replay", "work"]), plain);
    garth.ok(&["media", "rm", &key]);
    let gone = garth.ok(&["context", "replay", "work", "--format", "openai"]);
    assert!(gone.contains("[Image no longer available]"), "{gone}");
}
