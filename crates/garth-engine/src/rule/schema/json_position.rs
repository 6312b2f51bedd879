//! Position of a value or a schema, for errors.

use std::fmt;

use crate::rule::json::cut;

/// Position of a value or a schema.
#[derive(Clone, Debug, Default)]
pub(super) struct JsonPosition<'a>(pub(super) Vec<Part<'a>>);

#[derive(Clone, Copy, Debug)]
pub(super) enum Part<'a> {
    Key(&'a str),
    Index(usize),
}

impl fmt::Display for JsonPosition<'_> {
    /// Writes a JSON pointer, cut after 200 bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 200;
        let mut text = String::new();
        for part in &self.0 {
            text.push('/');
            match part {
                Part::Index(index) => text.push_str(&index.to_string()),
                Part::Key(key) => {
                    let key = &key[..key.floor_char_boundary(MOST)];
                    text.push_str(&key.replace('~', "~0").replace('/', "~1").replace(char::is_control, "?"));
                }
            }
            if text.len() > MOST {
                break;
            }
        }
        f.write_str(&cut(text, MOST))
    }
}
