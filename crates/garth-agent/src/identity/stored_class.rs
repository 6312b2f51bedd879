//! Class of a session as its `meta.json` names it. It decides who sees the session.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::class::Class;

/// Class of a session as it is stored.
///
/// ```
/// use garth_agent::{Class, StoredClass};
///
/// let stored = StoredClass::from(Class::Dm);
/// assert!(stored.is_seen_by(Class::Dm) && !stored.is_seen_by(Class::Group));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredClass {
    /// Class that this program knows.
    Known(Class),
    /// Any other name, as it was written. It is unknown who listened. A known class in its place would show
    /// the session to others.
    Unknown(String),
}

impl StoredClass {
    /// Returns the class with exactly this name.
    pub(crate) fn named(name: &str) -> Self {
        let known = Class::ALL.into_iter().find(|known| known.as_str() == name);
        known.map_or_else(|| Self::Unknown(name.to_owned()), Self::Known)
    }

    /// Returns the class; `None` if it is unknown.
    pub const fn known(&self) -> Option<Class> {
        match self {
            Self::Known(class) => Some(*class),
            Self::Unknown(_) => None,
        }
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(class) => class.as_str(),
            Self::Unknown(name) => name,
        }
    }

    /// Returns the class of requests in the session. In one of an unknown class it is [`Class::Group`], which
    /// sees least.
    pub fn of_requests(&self) -> Class {
        self.known().unwrap_or(Class::Group)
    }

    /// Returns true if a session of class `own` may see the content. Only `main` sees that of an unknown
    /// class.
    pub fn is_seen_by(&self, own: Class) -> bool {
        match self.known() {
            Some(class) => own.sees(class),
            None => own == Class::Main,
        }
    }

    /// Returns the class with the listeners of another one as well. An unknown class stays as it is.
    pub(crate) fn with_listeners_of(self, other: Class) -> Self {
        match self {
            Self::Known(class) => Self::Known(class.max(other)),
            Self::Unknown(_) => self,
        }
    }

    /// Returns true if all who listen to a session of another class listen to one of this class.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        match (self.known(), other.known()) {
            (Some(own), Some(other)) => own >= other,
            _ => self == other,
        }
    }
}

impl From<Class> for StoredClass {
    fn from(class: Class) -> Self {
        Self::Known(class)
    }
}

impl PartialEq<Class> for StoredClass {
    fn eq(&self, other: &Class) -> bool {
        self.known() == Some(*other)
    }
}

impl fmt::Display for StoredClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for StoredClass {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for StoredClass {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::named(&String::deserialize(deserializer)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_class_is_seen_by_main_alone() {
        for name in ["channel", "Group", "", "group "] {
            let stored = StoredClass::named(name);
            assert_eq!((stored.known(), stored.of_requests(), stored.as_str()), (None, Class::Group, name));
            assert_eq!(Class::ALL.map(|own| stored.is_seen_by(own)), [true, false, false], "{name}");
            assert!(Class::ALL.into_iter().all(|class| stored != class), "{name}");
            assert_eq!(stored.clone().with_listeners_of(Class::Group), stored);
        }
    }

    #[test]
    fn known_class_keeps_its_order() {
        for class in Class::ALL {
            let stored = StoredClass::named(class.as_str());
            assert!(stored == class && stored.of_requests() == class);
            for other in Class::ALL {
                assert_eq!(stored.is_seen_by(other), other.sees(class));
                assert_eq!(stored.includes(&other.into()), class >= other);
                assert_eq!(stored.clone().with_listeners_of(other), class.max(other));
            }
            let unknown = StoredClass::named("channel");
            assert!(!stored.includes(&unknown) && !unknown.includes(&stored) && unknown.includes(&unknown));
        }
    }
}
