//! Images of lists: judged by their content, within the limits of each provider.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::media::{gif_of, png_of};

/// Returns the lists for a message of the user of one image, each as its content.
fn of_image(mime_type: &str, bytes: &[u8]) -> [String; 2] {
    of_images(&[json!({"type": "image", "mime_type": mime_type, "data": STANDARD.encode(bytes)})])
}

/// Returns the lists for messages of the user of one image each.
fn of_images(images: &[Value]) -> [String; 2] {
    let said: Vec<_> = images.iter().map(|image| message("user", json!([image]))).collect();
    lists("", &said, &[]).map(|list| list["messages"].to_string())
}

fn png(width: u32, height: u32) -> Value {
    json!({"type": "image", "mime_type": "image/png", "data": STANDARD.encode(png_of(width, height))})
}

/// Returns the number of images in each list.
fn counts(lists: &[String; 2]) -> [usize; 2] {
    [lists[0].matches("image_url\":{").count(), lists[1].matches("\"type\":\"image\"").count()]
}

#[test]
fn image_type_follows_its_content() {
    let jpeg = b"\xff\xd8\xff\xc0\0\x0b\x08\0\x01\0\x01\x01";
    for (declared, bytes, due) in [
        ("image/jpeg", &png_of(1, 1)[..], "image/png"),
        ("image/jpg", jpeg, "image/jpeg"),
        ("IMAGE/PNG", jpeg, "image/jpeg"),
        ("application/octet-stream", jpeg, "image/jpeg"),
        ("", &gif_of(1, 1, 1), "image/gif"),
    ] {
        let [openai, anthropic] = of_image(declared, bytes);
        assert!(openai.contains(&format!("data:{due};base64,")), "{openai}");
        assert!(anthropic.contains(&format!(r#""media_type":"{due}""#)), "{anthropic}");
    }
    for list in of_image("image/png", b"<html></html>") {
        assert!(list.contains("[image: image/png, 13 bytes, is no PNG, JPEG, GIF or WebP image]"), "{list}");
    }
    let url = format!("data:image/jpg;base64,{PNG}");
    for list in of_images(&[json!({"type": "image", "mime_type": "image/*", "url": url})]) {
        assert!(list.contains("image/png") && list.contains(PNG), "{list}");
    }
}

#[test]
fn oversized_image_is_replaced_by_its_reason() {
    let mut large = png_of(1, 1);
    large.resize(3_932_161, 7);
    let [openai, anthropic] = of_image("image/png", &large);
    assert!(openai.contains("image_url"));
    assert!(anthropic.contains("has more than 5242880 bytes in base64]"), "{anthropic}");
    large.truncate(3_932_160);
    assert_eq!(counts(&of_image("image/png", &large)), [1, 1], "up to the last byte");
    for (side, due) in [(8000, [1, 1]), (8001, [1, 0])] {
        let lists = of_image("image/png", &png_of(side, 2));
        assert_eq!(counts(&lists), due);
    }
    let [_, anthropic] = of_image("image/png", &png_of(9000, 2));
    let why = "[image: image/png, 9000x2 pixels, 29 bytes, has a side of more than 8000 pixels]";
    assert!(anthropic.contains(why), "{anthropic}");
    let moving = of_image("image/gif", &gif_of(4, 4, 2));
    assert_eq!(counts(&moving), [0, 1]);
    assert!(moving[0].contains("[image: image/gif, 4x4 pixels, ") && moving[0].contains("is animated]"));
}

#[test]
fn list_prefers_the_newest_images() {
    // As many as a request may have, and no more.
    let lists = of_images(&vec![png(1, 1); 502]);
    assert_eq!(counts(&lists), [500, 100]);
    for (list, most) in lists.iter().zip([500, 100]) {
        assert_eq!(list.matches(&format!("{most} newer images are the most of a list]")).count(), 502 - most);
        assert!(list.find("newer images are") < list.find("base64"), "the oldest are named");
    }
    // One with a long side among the newest keeps a list to twenty.
    let mut images = vec![png(1, 1); 30];
    images[29] = png(2001, 1);
    assert_eq!(counts(&of_images(&images)), [30, 20]);
    // Among the older ones it is left out itself.
    let mut images = vec![png(2000, 1); 30];
    images[3] = png(2001, 1);
    let lists = of_images(&images);
    assert_eq!(counts(&lists), [30, 29]);
    assert!(lists[1].contains("2001x1 pixels, 29 bytes, a list of more than 20 images has none"));
    // The size of one elsewhere is not known.
    images[29] = json!({"type": "image", "mime_type": "image/*", "url": "https://example.org/a.png"});
    assert_eq!(counts(&of_images(&images)), [30, 20]);
}

#[test]
fn replaced_images_take_no_room() {
    let result = |images: Vec<Value>, error: bool| {
        let block = json!({"type": "tool_result", "call_id": "c", "error": error, "content": images});
        message("tool", json!([block]))
    };
    for error in [false, true] {
        let newer = result(vec![png(1, 1); 600], error);
        let said = [message("user", json!([png(1, 1)])), message("assistant", json!([call("c")])), newer];
        let lists = lists("", &said, &[]).map(|list| list["messages"].to_string());
        assert_eq!(counts(&lists), if error { [1, 1] } else { [1, 100] });
    }
}
