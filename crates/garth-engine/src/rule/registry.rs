//! The set of rules and projections that every tree of a data folder has, and the content limits that a new
//! one begins with. The layer above the engine registers it when a folder is opened, so that the engine knows
//! no feature of that layer.

use std::sync::Arc;

use super::projection::ContentProjection;
use super::retention::ContentLimit;
use super::{PathPattern, Rule, Rules};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Projection, Within};
use crate::path::TreePath;

/// Rules, projections and search exclusions that every tree has. Clones share one set.
///
/// The set is closed and has a version, which each tree's head row keeps. A tree whose head row names a newer
/// version is read-only: to write without all of its rules and projections would break what relies on them.
/// One of an older version is brought forward when it is opened.
#[derive(Clone, Debug)]
pub struct Registry(Arc<Set>);

#[derive(Clone, Debug)]
struct Set {
    version: u64,
    rules: Rules,
    projections: Vec<ContentProjection>,
    /// Subtrees that the patterns of all projections match paths in.
    places: Within,
    searchable: fn(&TreePath) -> Searchable,
    withheld: fn(&TreePath) -> Option<WithheldLines>,
    naming: fn(&TreePath) -> Naming,
    deciding: Vec<DecidingKey>,
    content_limits: Vec<ContentLimit>,
}

/// Names in the path of a file that say what the file is about: by default its own, without extension, and
/// that of its directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Naming {
    /// Number of names at the beginning of the path that say nothing, such as ids.
    pub fixed: usize,
    /// True if the name of the file says nothing either. The two directories above it name it then.
    pub by_directory: bool,
}

/// Lines of a file that search leaves out while another file has keys for them.
#[derive(Clone, Debug)]
pub struct WithheldLines {
    /// File that has the keys.
    pub file: TreePath,
    /// The projection of the keys.
    pub projection: Projection,
    /// Key that the other file has if it has any.
    pub any: &'static str,
    /// Returns the keys of a line, of which one is enough.
    pub keys: fn(u64) -> [String; 2],
}

/// Key of a file that decides about the files beside it: whether search finds them, or leaves out lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecidingKey {
    /// Name of the file.
    pub name: &'static str,
    /// The projection of the key.
    pub projection: Projection,
    /// The key.
    pub key: &'static str,
}

/// Visibility of a file to search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Searchable {
    /// Found by its text.
    Yes,
    /// Never found.
    No,
    /// Found while another file has a key.
    While {
        /// File that has the key.
        file: TreePath,
        /// The projection of the key.
        projection: Projection,
        /// The key.
        key: &'static str,
        /// True for a layer of a text, such as an abstract: only a search that asks for layers finds it.
        layer: bool,
    },
}

impl Registry {
    /// Returns the empty set, of version 0: no rules, no projections but those of attributes, and search
    /// finds every text.
    pub fn empty() -> Self {
        Self::new(0, Vec::new(), Vec::new(), |_| Searchable::Yes)
    }

    /// Returns a set. Increase `version` with each change of a rule, or of what a projection derives.
    pub fn new(
        version: u64,
        rules: Vec<Rule>,
        projections: Vec<ContentProjection>,
        searchable: fn(&TreePath) -> Searchable,
    ) -> Self {
        let (rules, places) = (Rules::new(rules), places(&projections));
        Self(Arc::new(Set {
            version,
            rules,
            projections,
            places,
            searchable,
            withheld: |_| None,
            naming: |_| Naming::default(),
            deciding: Vec::new(),
            content_limits: Vec::new(),
        }))
    }

    /// Sets the function that returns the lines of a file that search leaves out.
    #[must_use]
    pub fn withholding(self, withheld: fn(&TreePath) -> Option<WithheldLines>) -> Self {
        let set = Arc::unwrap_or_clone(self.0);
        Self(Arc::new(Set { withheld, ..set }))
    }

    /// Sets the function that returns the names in a path that say what the file is about.
    #[must_use]
    pub fn naming_by(self, naming: fn(&TreePath) -> Naming) -> Self {
        let set = Arc::unwrap_or_clone(self.0);
        Self(Arc::new(Set { naming, ..set }))
    }

    /// Sets the keys that an engine reads together with the files that they decide about, if a round trip
    /// matters to it. What a search shows does not depend on them.
    #[must_use]
    pub fn deciding_by(self, deciding: Vec<DecidingKey>) -> Self {
        let set = Arc::unwrap_or_clone(self.0);
        Self(Arc::new(Set { deciding, ..set }))
    }

    /// Sets the content limits that a new tree begins with. They are written into its retention, which
    /// operators change: limits that are set here later reach no existing tree, so the version stays.
    #[must_use]
    pub fn limiting_content(self, content_limits: Vec<ContentLimit>) -> Self {
        let set = Arc::unwrap_or_clone(self.0);
        Self(Arc::new(Set { content_limits, ..set }))
    }

    /// Adds a projection, for tests: the version stays.
    #[must_use]
    pub fn with_projection(self, projection: ContentProjection) -> Self {
        let mut set = Arc::unwrap_or_clone(self.0);
        set.projections.push(projection);
        set.places = places(&set.projections);
        Self(Arc::new(set))
    }

    /// Returns the version of the set.
    pub fn version(&self) -> u64 {
        self.0.version
    }

    /// Returns the rules that every tree has.
    pub fn rules(&self) -> &Rules {
        &self.0.rules
    }

    /// Returns the content limits that a new tree begins with.
    pub fn content_limits(&self) -> &[ContentLimit] {
        &self.0.content_limits
    }

    /// Returns the projections of content.
    pub fn projections(&self) -> &[ContentProjection] {
        &self.0.projections
    }

    /// Returns the subtrees that the patterns of all projections of content match paths in.
    pub fn projected_places(&self) -> &Within {
        &self.0.places
    }

    /// Returns the projection of content with this id; `None` for one of attributes, or an unknown one.
    pub fn projection(&self, projection: Projection) -> Option<&ContentProjection> {
        self.0.projections.iter().find(|one| one.projection() == projection)
    }

    /// Refuses a projection that is neither of attributes nor in the set: an answer could show marks of the
    /// index as keys.
    ///
    /// # Errors
    /// `Unsupported`.
    #[doc(hidden)]
    pub fn check(&self, projection: Projection) -> Result<()> {
        if Projection::OF_ATTRIBUTES.contains(&projection) || self.projection(projection).is_some() {
            return Ok(());
        }
        let message = format!(
            "no projection {} is registered: open the folder with the registry that has it",
            projection.number()
        );
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    /// Returns the visibility of the file at a path to search.
    pub fn searchable(&self, path: &TreePath) -> Searchable {
        (self.0.searchable)(path)
    }

    /// Returns the lines of the file at a path that search leaves out.
    pub fn withheld(&self, path: &TreePath) -> Option<WithheldLines> {
        (self.0.withheld)(path)
    }

    /// Returns the keys that decide about the files beside their own.
    pub fn deciding(&self) -> &[DecidingKey] {
        &self.0.deciding
    }

    /// Returns the names in a path that say what the file is about.
    pub fn naming(&self, path: &TreePath) -> Naming {
        (self.0.naming)(path)
    }
}

fn places(projections: &[ContentProjection]) -> Within {
    Within::new(projections.iter().flat_map(ContentProjection::patterns).map(PathPattern::place))
}
