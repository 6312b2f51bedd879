//! A heartbeat file without content still has none after headings, comments and rules are added, and has some
//! after a word is added.
#![no_main]

use garth_agent::workspace::says_anything;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let says = says_anything(text);
    for nothing in ["", "\n", "\n# A heading\n", "\n---\n", "\r\n* * *\r\n", "\n\u{a0}\n"] {
        assert_eq!(says_anything(&format!("{text}{nothing}")), says, "{nothing:?}");
    }
    if !says {
        assert!(!says_anything(&format!("{text}\n<!-- a\ncomment -->\n")));
        // A byte order mark is one only at the start, and a comment that is open in the first copy could end
        // in the second.
        let alone = !text.starts_with('\u{feff}') && !text.contains("<!--");
        assert!(!alone || !says_anything(&format!("{text}\n{text}")));
        assert!(says_anything(&format!("{text}\nword")));
    }
});
