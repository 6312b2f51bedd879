//! Keys and patterns of the key-value interface over a tree in memory with a few keys.
#![no_main]

use std::sync::LazyLock;

use futures::executor::block_on;
use garth_engine::Env;
use garth_agent::kv::{Kv, PageRequest, Put, Semantics};
use garth_engine::engine::memory::MemoryFs;
use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;

static TREE: LazyLock<MemoryFs> = LazyLock::new(|| {
    let tree = MemoryFs::new(Env::system(), garth_agent::registry());
    let kv = Kv::new(&tree, "a").expect("an agent");
    let value = RawValue::from_string("1".to_owned()).expect("JSON");
    for key in ["/a", "/a/b", "/a/b/c", "/ab/a.b", "/[a]", "/é/*"] {
        block_on(kv.put(&Put::new(key, &value), None)).expect(key);
    }
    tree
});

fuzz_target!(|text: &str| {
    let kv = Kv::new(&*TREE, "a").expect("an agent");
    for semantics in [Semantics::Whole, Semantics::Segment] {
        let _ = block_on(kv.glob(text, semantics, PageRequest::first(10)));
    }
    let _ = block_on(kv.get(text));
    let _ = block_on(kv.list(text, PageRequest::first(10)));
});
