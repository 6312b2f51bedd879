//! The schema of `settings.json`. A rule judges it in the commit: prompts, resets and compaction read the
//! file, and a mistake in it would stop them all.

use crate::identity::AccessPolicy;

/// Refuses settings of the right shape that say what cannot be of whom the agent serves: prompts and sessions
/// would stop.
///
/// # Errors
/// The flaw, in words.
pub fn check(text: &[u8]) -> Result<(), String> {
    AccessPolicy::parse(text).map(drop).map_err(|error| error.message().to_owned())
}

/// Longest time of `reset.minutes`: ten years.
pub const MAX_MINUTES: u64 = 5_256_000;

/// Most tokens that a setting counts: more than any context window has.
pub const MAX_TOKENS: u64 = 10_000_000;

/// The schema, as JSON. It allows what the settings of a workspace can be read from.
pub const SCHEMA: &str = r##"{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "The settings of an agent",
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "time_zone": {"type": ["string", "null"], "format": "time-zone"},
    "prompt": {
      "type": "object",
      "additionalProperties": false,
      "properties": {
        "base": {"type": ["string", "null"]},
        "order": {"enum": ["normal", "cache"]},
        "pinned": {"type": "boolean"}
      }
    },
    "daily_memory": {"enum": ["class", "all"]},
    "skills": {"type": "object", "additionalProperties": {"$ref": "#/$defs/skill"}},
    "compaction": {
      "type": "object",
      "additionalProperties": false,
      "properties": {"reserve": {"$ref": "#/$defs/tokens"}, "keep": {"$ref": "#/$defs/tokens"}}
    },
    "reset": {
      "type": "object",
      "additionalProperties": false,
      "properties": {
        "policy": {"enum": ["manual", "daily", "idle"]},
        "hour": {"type": "integer", "minimum": 0, "maximum": 23},
        "minutes": {"type": "integer", "minimum": 1, "maximum": 5256000},
        "media": {"enum": ["keep", "delete"]}
      }
    },
    "owner": {"type": ["string", "null"], "minLength": 1, "maxLength": 255},
    "main_keys": {"type": ["array", "null"], "items": {"type": "string"}},
    "identities": {"type": "object", "maxProperties": 10000, "additionalProperties": {"type": "string"}},
    "shared": {"type": "object", "maxProperties": 10000, "additionalProperties": {"enum": ["read", "write"]}}
  },
  "$defs": {
    "tokens": {"type": "integer", "minimum": 0, "maximum": 10000000},
    "names": {"type": ["array", "null"], "items": {"type": "string"}},
    "skill": {
      "type": "object",
      "additionalProperties": false,
      "properties": {
        "enabled": {"type": ["boolean", "null"]},
        "always": {"type": ["boolean", "null"]},
        "requires": {
          "type": ["object", "null"],
          "additionalProperties": false,
          "properties": {
            "bins": {"$ref": "#/$defs/names"},
            "anyBins": {"$ref": "#/$defs/names"},
            "env": {"$ref": "#/$defs/names"},
            "config": {"$ref": "#/$defs/names"},
            "os": {"$ref": "#/$defs/names"},
            "hostRoles": {"$ref": "#/$defs/names"},
            "capabilities": {"$ref": "#/$defs/names"},
            "anyCapabilities": {"$ref": "#/$defs/names"}
          }
        }
      }
    }
  }
}"##;
