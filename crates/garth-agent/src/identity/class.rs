//! Class of a session: the kind of its listeners. It decides which parts the tree and the prompt contain.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Kind of listeners of a session, from the fewest to the most. A greater class sees less.
///
/// ```
/// use garth::Class;
///
/// assert!(Class::Main < Class::Dm && Class::Dm < Class::Group);
/// assert_eq!(Class::named("channel"), Class::Group, "any other name is that of a group");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Only the owner of the agent.
    Main,
    /// One other person.
    Dm,
    /// Several people.
    Group,
}

impl Class {
    /// All classes.
    pub(crate) const ALL: [Self; 3] = [Self::Main, Self::Dm, Self::Group];

    /// Returns the class of this name; [`Class::Group`] for any name but `main` and `dm`.
    pub fn named(name: &str) -> Self {
        // An unknown or misspelt name must not reveal more: it counts as the class that sees least.
        match name {
            "main" => Self::Main,
            "dm" => Self::Dm,
            _ => Self::Group,
        }
    }

    /// Returns the name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Dm => "dm",
            Self::Group => "group",
        }
    }

    /// Returns true if a session of this class may see the content of one of class `other`, which at least as
    /// many people have heard.
    pub fn sees(self, other: Self) -> bool {
        self <= other
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Class {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Class {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::named(&String::deserialize(deserializer)?))
    }
}
