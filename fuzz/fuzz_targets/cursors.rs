//! A forged cursor is rejected or starts a page: no list panics or returns more than it has.
#![no_main]

use std::cell::OnceCell;

use futures::executor::block_on;
use garth_engine::Env;
use garth_agent::kv::{Kv, PageRequest, Put, Search, Semantics};
use garth_agent::media::Media;
use garth_agent::node::{List as NodeList, Nodes, Prefix};
use garth_agent::session::{Create, List, Sessions};
use garth_agent::workspace::Workspace;
use garth_engine::engine::memory::MemoryFs;
use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;

const ITEMS: usize = 3;

thread_local! {
    static ACCOUNT: OnceCell<MemoryFs> = const { OnceCell::new() };
}

fn account() -> MemoryFs {
    let fs = MemoryFs::new(Env::system(), garth_agent::registry());
    block_on(async {
        let sessions = Sessions::new(&fs, "ann", "coder").unwrap();
        let kv = Kv::new(&fs, "coder").unwrap();
        for n in 0..ITEMS {
            sessions.create(&Create::new(format!("s{n}"))).await.unwrap();
            let value = RawValue::from_string(format!(r#"{{"text":"needle {n}"}}"#)).unwrap();
            kv.put(&Put::new(&format!("/d/k{n}"), &value), None).await.unwrap();
        }
    });
    fs
}

fuzz_target!(|cursor: &str| {
    ACCOUNT.with(|known| {
        let fs = known.get_or_init(account);
        block_on(async {
            let kv = Kv::new(fs, "coder").unwrap();
            let page = || PageRequest { limit: 2, cursor: Some(cursor) };
            let _ = kv.list("/d", page()).await.map(|found| assert!(found.items.len() <= 2));
            let _ = kv.glob("/d/*", Semantics::Whole, page()).await;
            let _ = kv.history("/d/k1", page()).await;
            let _ = kv.search(&Search { query: "needle", path_prefix: None, tags_any: Vec::new() }, page()).await;
            let sessions = Sessions::new(fs, "ann", "coder").unwrap();
            let mut list = List::default();
            (list.limit, list.after) = (2, Some(cursor.to_owned()));
            let _ = sessions.list(&list).await.map(|(found, _)| assert!(found.len() <= ITEMS));
            let nodes = Nodes::new(fs, "default", Env::system());
            let mut list = NodeList::new(Prefix::Account);
            (list.limit, list.after) = (2, Some(cursor.to_owned()));
            let _ = nodes.list(&list).await;
            let _ = Media::new(fs).list("s", Some(cursor), 2).await;
            let workspace = Workspace::new(fs, "coder").unwrap();
            let _ = workspace.archives(Some(cursor), 2).await;
        });
    });
});
