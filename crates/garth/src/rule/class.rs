//! Classes of paths, compared segment by segment.

use std::fmt;

use crate::path::TreePath;

/// A class of paths as `agents/*/kv/**`: `*` stands for one segment, `**` at the end for one and more, any
/// other segment for itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Class(Vec<&'static str>);

/// What a class has in a directory and below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Below<'a> {
    /// What is left of the pattern, counted from the directory; not empty.
    rest: &'a [&'static str],
}

impl Class {
    /// A class that this crate names itself.
    pub(super) fn built_in(pattern: &'static str) -> Self {
        Self(pattern.split('/').collect())
    }

    /// The directory that all of its paths are below.
    pub(super) fn place(&self) -> TreePath {
        let named = self.0.iter().take_while(|segment| !matches!(**segment, "*" | "**"));
        named.fold(TreePath::root(), |dir, name| TreePath::from_row(dir.key(), name))
    }

    /// Whether it has a path.
    pub(super) fn has(&self, path: &TreePath) -> bool {
        let mut here = Below { rest: &self.0 };
        let mut segments = path.segments().peekable();
        while let Some(name) = segments.next() {
            if segments.peek().is_none() {
                return here.ends_with(name);
            }
            let Some(below) = here.into(name) else { return false };
            here = below;
        }
        false
    }

    /// What it has in a directory and below; `None` for nothing.
    pub(super) fn below(&self, dir: &TreePath) -> Option<Below<'_>> {
        let all = Below { rest: &self.0 };
        dir.segments().try_fold(all, Below::into)
    }
}

impl<'a> Below<'a> {
    /// What there is in a directory that has this name.
    pub(super) fn into(self, name: &str) -> Option<Self> {
        let (first, rest) = self.rest.split_first()?;
        match *first {
            "**" => Some(self),
            _ if rest.is_empty() => None,
            "*" => Some(Self { rest }),
            own => (own == name).then_some(Self { rest }),
        }
    }

    /// Whether a path with this name, here, is of the class.
    fn ends_with(self, name: &str) -> bool {
        match self.rest {
            [last] => matches!(*last, "*" | "**") || *last == name,
            _ => false,
        }
    }

    /// The only name that there can be here, if there is only one.
    pub(super) fn only(self) -> Option<&'static str> {
        self.rest.first().copied().filter(|first| !matches!(*first, "*" | "**"))
    }
}

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("/"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::parse(text).unwrap()
    }

    #[test]
    fn a_class_has_paths_by_segment() {
        let class = Class::built_in("agents/*/kv/**");
        for inside in ["/agents/a/kv/x", "/agents/*/kv/x/y/z", "/agents/a/kv/kv"] {
            assert!(class.has(&path(inside)), "{inside}");
        }
        for outside in
            ["/", "/agents", "/agents/a/kv", "/agents/a/kvx/y", "/agents/a/b/kv/x", "/x/agents/a/kv/x"]
        {
            assert!(!class.has(&path(outside)), "{outside}");
        }
        let one = Class::built_in("a/*");
        assert!(one.has(&path("/a/b")) && !one.has(&path("/a")) && !one.has(&path("/a/b/c")));
    }

    #[test]
    fn what_is_left_of_a_class_is_the_same_in_like_directories() {
        let class = Class::built_in("agents/*/kv/**");
        let below = |dir| class.below(&path(dir));
        assert_eq!(below("/agents/a"), below("/agents/b"));
        assert_eq!(below("/agents/a/kv"), below("/agents/b/kv/c/d"));
        assert_ne!(below("/agents"), below("/agents/a"));
        assert_eq!((below("/x"), below("/agents/a/b")), (None, None));
        assert_eq!(below("/").and_then(Below::only), Some("agents"));
        assert_eq!(below("/agents").and_then(Below::only), None);
        assert_eq!(class.place(), path("/agents"));
        assert_eq!(below("/agents/a").and_then(Below::only), Some("kv"));
    }
}
