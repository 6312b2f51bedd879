//! Schemas of types whose JSON is a text.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::confinement::Owner;
use super::id::{CommitId, VersionId};
use crate::path::{Name, TreePath};

/// Describes types as strings.
macro_rules! texts {
    ($($type:ty, $name:literal, $description:literal;)*) => {
        $(impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                Cow::Borrowed($name)
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "description": $description})
            }
        })*
    };
}

texts! {
    CommitId, "CommitId", "Id of a commit, 32 hexadecimal digits.";
    Name, "Name", "Name in a directory.";
    Owner, "Owner", "Labels of the view that owns a snapshot.";
    TreePath, "TreePath", "Absolute path.";
    VersionId, "VersionId", "Version, such as `ver_7-3`.";
}
