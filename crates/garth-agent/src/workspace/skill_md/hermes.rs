//! Reads requirements as skills of Hermes write them, next to `metadata`: `platforms`, `prerequisites` with
//! `commands` and `env_vars`, and `required_environment_variables`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::requires::Requires;

/// Fields that are read, without the signs between their words.
const FIELDS: [&str; 4] =
    ["platforms", "prerequisites", "requiredenvironmentvariables", "requiredcredentialfiles"];

/// Returns true for the name of a field that has requirements, in letters of any case.
pub(super) fn is_field(key: &str) -> bool {
    FIELDS.contains(&&*joined(key))
}

fn joined(key: &str) -> String {
    key.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Adds the requirements of fields. What is not understood is an invalid requirement.
pub(super) fn read(fields: &BTreeMap<String, Value>, requires: &mut Requires) {
    for (key, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        match &*joined(key) {
            "platforms" => match texts(value, &[]) {
                Some(platforms) => limit_os(requires, platforms),
                None => requires.invalid.push(format!("{key}: write a list of operating systems")),
            },
            "requiredenvironmentvariables" => match texts(value, &["name", "env_var"]) {
                Some(names) => add(&mut requires.env, names),
                None => requires.invalid.push(format!("{key}: write a list of names")),
            },
            "prerequisites" => prerequisites(key, value, requires),
            "requiredcredentialfiles" if !is_empty(value) => {
                requires
                    .invalid
                    .push(format!("{key}: is not known; write what it needs in metadata.garth.requires"));
            }
            _ => {}
        }
    }
}

fn prerequisites(key: &str, value: &Value, requires: &mut Requires) {
    let Value::Object(lists) = value else {
        if !is_empty(value) {
            requires.invalid.push(format!("{key}: write an object with commands and env_vars"));
        }
        return;
    };
    for (name, list) in lists.iter().filter(|(_, list)| !is_empty(list)) {
        let into = match &*joined(name) {
            "commands" => &mut requires.bins,
            "envvars" => &mut requires.env,
            _ => {
                requires.invalid.push(format!("{key}.{name}: is not known; write commands or env_vars"));
                continue;
            }
        };
        match texts(list, &["name"]) {
            Some(names) => add(into, names),
            None => requires.invalid.push(format!("{key}.{name}: write a list of texts")),
        }
    }
}

/// Limits the operating systems to platforms: a skill that names both runs where both hold.
fn limit_os(requires: &mut Requires, platforms: Vec<String>) {
    // Hosts report the names of their kernels, or those of their vendors.
    let names = platforms.into_iter().flat_map(|platform| match &*platform.to_lowercase() {
        "macos" | "darwin" | "mac" => vec!["macos".to_owned(), "darwin".to_owned()],
        "windows" | "win32" => vec!["windows".to_owned(), "win32".to_owned()],
        _ => vec![platform],
    });
    let names: Vec<String> = names.collect();
    if requires.os.is_empty() || names.is_empty() {
        add(&mut requires.os, names);
        return;
    }
    requires.os.retain(|os| names.iter().any(|name| name.eq_ignore_ascii_case(os)));
    if requires.os.is_empty() {
        requires.invalid.push("platforms: has no operating system of metadata".to_owned());
    }
}

fn add(list: &mut Vec<String>, names: Vec<String>) {
    for name in names {
        if !list.contains(&name) {
            list.push(name);
        }
    }
}

/// Returns the texts of a list, or one text; of an object, the text under one of `keys`.
fn texts(value: &Value, keys: &[&str]) -> Option<Vec<String>> {
    let one = |value: &Value| match value {
        Value::String(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
        Value::Object(fields) => {
            keys.iter().find_map(|key| fields.get(*key)?.as_str()).map(|text| text.trim().to_owned())
        }
        _ => None,
    };
    match value {
        Value::Array(items) => items.iter().map(one).collect(),
        Value::String(_) => one(value).map(|text| vec![text]),
        _ => None,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::front_matter::SkillText;
    use crate::workspace::reading::Reading;

    #[test]
    fn requirements_of_hermes_are_read() {
        let front = "platforms: [macos, linux]\nprerequisites:\n  commands: [curl, jq]\n  env_vars: [A]\n\
                     required_environment_variables:\n  - name: B\n    prompt: The key\n  - C\n";
        let text = format!("---\nname: x\ndescription: d\n{front}---\nbody\n");
        let skill = SkillText::parse(&text);
        let requires = &skill.requires;
        assert_eq!(requires.bins, ["curl", "jq"]);
        assert_eq!(
            (requires.env.join(","), requires.os.join(",")),
            ("A,B,C".into(), "macos,darwin,linux".into())
        );
        assert_eq!(skill.all_flaws().count(), 0, "{skill:?}");
        // Prompts of before are rebuilt without them.
        assert!(SkillText::parse_as(&text, Reading::Second).requires.is_none());
    }

    #[test]
    fn other_forms_of_hermes_are_invalid() {
        for front in [
            "platforms: {linux: true}",
            "Platforms: [1]",
            "prerequisites: [curl]",
            "prerequisites: {programs: [curl]}",
            "prerequisites: {commands: {a: b}}",
            "required_environment_variables: [{prompt: x}]",
            "required-credential-files: [a.json]",
            "platforms: [linux]\nmetadata: {garth: {os: [darwin]}}",
            "description: a: b\nplatforms: [linux",
            "description: a: b\nprerequisites: {commands: [curl]}\nprerequisites: {}",
        ] {
            let skill = SkillText::parse(&format!("---\nname: x\n{front}\n---\nbody\n"));
            assert!(!skill.requires.invalid.is_empty(), "{front}: {skill:?}");
        }
        let beside = SkillText::parse("---\ndescription: a: b\nplatforms: [linux]\n---\nbody\n");
        assert_eq!(beside.requires.os, ["linux"]);
        for front in ["platforms:", "prerequisites: {}", "prerequisites: {commands: []}", "platforms: []"] {
            assert!(SkillText::parse(&format!("---\n{front}\n---\nbody\n")).requires.is_none(), "{front}");
        }
    }

    #[test]
    fn every_line_end_ends_a_field() {
        for end in ["\u{85}", "\u{2028}", "\u{2029}", "\r"] {
            let text = ["---", "name: x", "platforms: [nope]", "---", "body"].join(end);
            assert_eq!(SkillText::parse(&text).requires.os, ["nope"], "{end:?}");
            let mixed = format!("---\nname: x{end}platforms: [nope]\n---\nbody\n");
            assert_eq!(SkillText::parse(&mixed).requires.os, ["nope"], "{end:?}");
        }
    }
}
