//! `SKILL.md`: every text parses, and its body is a part of it.

#![no_main]

use garth_agent::workspace::SkillText;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let skill = SkillText::parse(text);
    let plain = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    let plain = plain.replace(['\r', '\u{85}', '\u{2028}', '\u{2029}'], "\n");
    assert!(plain.ends_with(&skill.body));
    assert!(skill.description.len() <= plain.len().max(1) * 4);
});
