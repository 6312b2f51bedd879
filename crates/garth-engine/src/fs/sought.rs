//! Directories in which a search or a find of a tree looks. A view that is made of several directories of a
//! store asks it once for all of them: the cost of a search depends on how common its words are, wherever
//! they occur.

pub use super::filesystem::{By, SearchTarget};
use crate::model::Within;
use crate::path::TreePath;

impl SearchTarget {
    /// Returns the paths of the store that are to be searched.
    fn reach(&self) -> Within {
        self.store.within.intersect(&Within::new(self.tops.iter().cloned()))
    }

    /// Joins the requests to one store, where one handle reaches all of the directories, and no more in them
    /// than the handles of the others do. Handles with other gates are asked separately.
    pub(crate) fn together(sought: Vec<Self>) -> Vec<Self> {
        let mut left: Vec<(Within, Self)> = sought.into_iter().map(|one| (one.reach(), one)).collect();
        left.retain(|(reach, _)| !reach.is_nothing());
        // The widest first, because it can take over the requests of narrower ones.
        left.sort_by_key(|(_, one)| {
            let within = &one.store.within;
            (!within.contains(&TreePath::root()), usize::MAX - within.tops().len())
        });
        let mut together: Vec<Self> = Vec::new();
        while !left.is_empty() {
            let (_, mut first) = left.remove(0);
            left.retain(|(reach, one)| {
                let can = one.store.id == first.store.id
                    && one.store.gates == first.store.gates
                    && one.tops.iter().all(|top| first.store.within.contains(top))
                    // A handle that reaches more there would find files that the view must not show.
                    && Self { store: first.store.clone(), tops: one.tops.clone() }.reach() == *reach;
                if can {
                    first.tops.extend(one.tops.iter().cloned());
                }
                !can
            });
            together.push(first);
        }
        together
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::engine::memory::MemoryFs;
    use crate::env::Env;
    use crate::fs::FileSystem as _;
    use crate::fs::lower::Store;
    use crate::model::{Gate, Seq};
    use crate::path::Name;
    use crate::rule::sample::STATUS;

    fn paths(texts: &[&str]) -> Vec<TreePath> {
        texts.iter().map(|text| TreePath::parse(text).expect("a path")).collect()
    }

    fn of(fs: &MemoryFs, within: &Within, tops: &[&str]) -> SearchTarget {
        SearchTarget {
            store: Store { within: within.clone(), ..fs.view_base().lowering().home() },
            tops: paths(tops),
        }
    }

    fn tops(sought: Vec<SearchTarget>) -> Vec<Vec<String>> {
        let texts = |one: SearchTarget| one.tops.iter().map(ToString::to_string).collect();
        SearchTarget::together(sought).into_iter().map(texts).collect()
    }

    #[test]
    fn widest_handle_searches_all_directories_of_store() {
        let fs = Arc::new(MemoryFs::new(Env::system(), crate::rule::sample::registry()));
        let wide = Within::new(paths(&["/skills/a", "/skills/b", "/agent"]));
        let narrow = |path| Within::new(paths(&[path]));
        let a = of(&fs, &narrow("/skills/a"), &["/skills/a"]);
        let b = of(&fs, &narrow("/skills/b"), &["/skills/b"]);
        let agent = of(&fs, &wide, &["/agent"]);
        assert_eq!(tops(vec![a, b, agent]), [["/agent", "/skills/a", "/skills/b"]]);
    }

    #[test]
    fn wider_handle_never_searches_for_a_confined_one() {
        let fs = Arc::new(MemoryFs::new(Env::system(), crate::rule::sample::registry()));
        let whole = of(&fs, &Within::everything(), &["/chat"]);
        let part = Within::new(paths(&["/agent"])).without(paths(&["/agent/memory"]));
        let part = of(&fs, &part, &["/agent"]);
        assert_eq!(tops(vec![part, whole]), [["/chat"], ["/agent"]]);
    }

    #[test]
    fn handles_with_other_gates_search_separately() {
        let fs = Arc::new(MemoryFs::new(Env::system(), crate::rule::sample::registry()));
        let within = Within::new(paths(&["/nodes"]));
        let gate = Gate {
            dir: TreePath::parse("/nodes").expect("a path"),
            file: Name::parse(".status").expect("a name"),
            projection: STATUS,
            keys: vec!["ACTIVE".to_owned()],
            since: Seq(0),
        };
        let open = || of(&fs, &within, &["/nodes/a"]);
        let gated = || {
            let one = of(&fs, &within, &["/nodes/b"]);
            SearchTarget { store: Store { gates: vec![gate.clone()], ..one.store }, ..one }
        };
        assert_eq!(tops(vec![open(), gated()]).len(), 2);
        assert_eq!(tops(vec![gated(), open()]).len(), 2);
        assert_eq!(tops(vec![gated(), gated()]).len(), 1);
    }

    #[test]
    fn each_store_is_searched_separately_within_reach() {
        let [one, other] =
            [0, 1].map(|_| Arc::new(MemoryFs::new(Env::system(), crate::rule::sample::registry())));
        let within = Within::new(paths(&["/d"]));
        let sought =
            vec![of(&one, &within, &["/d"]), of(&other, &within, &["/d"]), of(&one, &within, &["/e"])];
        assert_eq!(tops(sought).len(), 2);
    }
}
