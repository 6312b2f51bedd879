//! Class of a session: who listens in it. It decides what its tree and its prompt show.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Who listens in a session, from the fewest to the most: a class that compares greater shows less.
///
/// ```
/// use garth::Class;
///
/// assert!(Class::Main < Class::Dm && Class::Dm < Class::Group);
/// assert_eq!(Class::named("channel"), Class::Group, "any other name is that of a group");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The owner of the agent alone.
    Main,
    /// One other person.
    Dm,
    /// Several.
    Group,
}

impl Class {
    /// Returns the class of this name; [`Class::Group`] for any name but `main` and `dm`.
    pub fn named(name: &str) -> Self {
        match name {
            "main" => Self::Main,
            "dm" => Self::Dm,
            _ => Self::Group,
        }
    }

    /// Returns its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Dm => "dm",
            Self::Group => "group",
        }
    }

    /// Returns true if a session of this class may see what one of class `other` holds: at least as many
    /// listen there.
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
