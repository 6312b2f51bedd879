//! Fields and patterns of the calls that set rules and the retention.

use serde_json::json;

use super::admin_calls::{call, post};
use super::harness::Server;

#[test]
fn keep_seconds_may_have_a_zero_fraction() {
    let server = Server::start();
    let set = json!({"content": [{"pattern": "/a", "keep_seconds": 600.0}]});
    assert_eq!(call(&server, "retention/set", &set)["content"][0]["keep_seconds"], 600);
    let set = json!({"content": [{"pattern": "/a", "keep_seconds": 600.5}]});
    let message = post(&server, "retention/set", &set).refused(400, "VALIDATION_ERROR");
    assert!(message.contains("\"keep_seconds\", an integer"), "{message}");
}

#[test]
fn patterns_with_control_characters_are_refused() {
    let server = Server::start();
    let long = format!("/{}", "a".repeat(8000));
    for (pattern, shown) in [
        ("/a\0b", "/a\\u{0}b: has control"),
        ("/a\nb/**", "/a\\u{a}b/**: has control"),
        ("/a\u{202e}b", "/a\\u{202e}b: has control"),
        (long.as_str(), "aaa…: is not a pattern"),
    ] {
        let class = json!({"content": [{"pattern": pattern, "keep_seconds": 1}]});
        let rule = json!({"pattern": pattern, "constraint": "append-only"});
        for (name, body) in [("retention/set", class), ("rules/set", rule)] {
            let message = post(&server, name, &body).refused(400, "VALIDATION_ERROR");
            assert!(message.contains(shown) && message.len() < 300, "{name}: {message}");
        }
    }
}
