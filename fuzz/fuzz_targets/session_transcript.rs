//! An imported transcript exports in every format, and importing an export adds no message.
#![no_main]

use futures::executor::block_on;
use garth_engine::Env;
use garth_agent::session::{Create, Document, Export, Import, Sessions, TranscriptFormat};
use garth_engine::engine::memory::MemoryFs;
use libfuzzer_sys::fuzz_target;

/// Returns a complete session as a transcript.
async fn exported(sessions: &Sessions<'_>, format: TranscriptFormat) -> String {
    let (mut document, mut text) = (Document::new(format), String::new());
    let mut next = Some(1);
    while let Some(line) = next {
        let page = sessions.export("s", &Export::new(format).lines(line..=u64::MAX)).await.expect("a page");
        text.push_str(&document.page(&page.items));
        next = page.next;
    }
    text + &document.end()
}

fuzz_target!(|text: &str| {
    let (name, text) = text.split_once('\n').unwrap_or((text, ""));
    let Ok(own) = name.parse::<TranscriptFormat>() else { return };
    let tree = MemoryFs::new(Env::system(), garth_agent::registry());
    let sessions = Sessions::new(&tree, "u", "a").expect("ids");
    block_on(async {
        sessions.create(&Create::new("s")).await.expect("a session");
        if sessions.import("s", &Import::new(own, text)).await.is_err() {
            // The valid messages must still import.
            let some = Import::new(own, text).skip_bad();
            if own == TranscriptFormat::Markdown || sessions.import("s", &some).await.is_err() {
                return;
            }
        }
        for format in ["garth", "pi", "openai", "anthropic", "markdown"] {
            let format = format.parse().expect("a format");
            let written = exported(&sessions, format).await;
            let again = Import::new(format, &written).whole();
            // What is written is what is there.
            let again = sessions.import("s", &again).await.map(|done| (done.new, done.system_changed));
            assert!(matches!(again, Ok((0, false))), "{format}: {again:?}\n{written}");
        }
    });
});
