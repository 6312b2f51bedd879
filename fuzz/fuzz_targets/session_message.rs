//! Lines of messages are accepted or rejected, and accepted ones convert to valid JSON for either provider.
#![no_main]

use std::collections::BTreeMap;

use garth_agent::session::{Format, Message, provider_list};
use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;

fuzz_target!(|text: &str| {
    let messages: Vec<_> = text.lines().filter_map(|line| Message::parse(line).ok()).collect();
    for message in &messages {
        assert!(message.calls().count() <= message.content.len() && message.text().len() <= text.len());
    }
    for format in [Format::OpenAi, Format::Anthropic] {
        let list = provider_list(format, "", &messages, &[text.to_owned()]);
        let fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&list).expect("an object");
        let turns = fields.get("messages").expect("messages").get();
        serde_json::from_str::<Vec<BTreeMap<String, Box<RawValue>>>>(turns).expect("an array of objects");
    }
});
