//! Tests of the list of tools.

use garth_agent::count::count;
use serde_json::{Value, json};

use crate::mcp::tools::TOOLS;

/// Limit on the tokens of the list of tools that clients see by default. It is a part of each request to a
/// model.
const MAX_DEFAULT: usize = 2500;
/// Limit on the tokens of the list of all tools.
const MAX_ALL: usize = 4000;

#[test]
fn list_of_tools_is_short() {
    let tokens = |is_listed: fn(&str) -> bool| {
        let listed = TOOLS.iter().filter(|tool| is_listed(tool.name));
        let tools: Vec<Value> = listed.map(|tool| tool.definition()).collect();
        count(&json!({"tools": tools}).to_string())
    };
    let each: Vec<(&str, usize)> =
        TOOLS.iter().map(|tool| (tool.name, count(&tool.definition().to_string()))).collect();
    let (default, all) = (tokens(|name| name != "memory"), tokens(|_| true));
    assert!(default < MAX_DEFAULT && all < MAX_ALL, "{default}, {all}: {each:?}");
}

#[test]
fn tools_have_a_fixed_order() {
    let names: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
    let due = [
        "ls",
        "read_file",
        "write_file",
        "edit_file",
        "glob",
        "grep",
        "search",
        "delete",
        "move",
        "history",
        "restore",
        "recall",
        "remember",
        "forget",
    ];
    assert_eq!(names[..due.len()], due);
}

#[test]
fn each_tool_is_described_for_models() {
    for tool in TOOLS {
        let definition = tool.definition();
        let text = |name: &str| definition[name].as_str().unwrap();
        assert!(text("description").len() > 40 && text("description").ends_with('.'), "{definition}");
        assert!(!text("title").is_empty(), "{definition}");
        for schema in ["inputSchema", "outputSchema"] {
            assert_eq!(definition[schema]["type"], "object", "{definition}");
            assert!(!definition[schema].to_string().contains("$ref"), "{definition}");
        }
        assert_eq!(definition["annotations"]["openWorldHint"], false, "{definition}");
        assert_eq!(definition["annotations"]["readOnlyHint"], !tool.effect.writes(), "{definition}");
        let writes = tool.scopes.iter().any(|scope| scope.as_str().ends_with(":write"));
        assert_eq!(writes, tool.effect.writes(), "{}", tool.name);
    }
}

#[test]
fn hints_say_what_a_repeat_does() {
    let hints = |name: &str| {
        let tool = TOOLS.iter().find(|tool| tool.name == name).unwrap();
        let hints = tool.definition()["annotations"].clone();
        (hints["destructiveHint"] == json!(true), hints["idempotentHint"] == json!(true))
    };
    assert_eq!(hints("write_file"), (true, true));
    assert_eq!(hints("edit_file"), (true, false));
    assert_eq!(hints("move"), (false, false));
    assert_eq!(hints("restore"), (true, true));
    assert_eq!(hints("remember"), (false, true));
    assert_eq!(hints("forget"), (true, true));
}

#[test]
fn description_of_a_tool_is_complete() {
    let due = json!({
        "name": "delete",
        "title": "Delete",
        "description": "Deletes a file or empty directory. All versions are kept; `restore` brings it back.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "recursive": {"type": "boolean", "description": "Deletes all below a directory, too."},
                "if_version": {"type": "string", "description": "Fails unless this is the current version."},
            },
            "required": ["path"],
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "version": {"type": "string"},
                "restore_at": {"type": "string"},
            },
        },
        "annotations": {
            "readOnlyHint": false, "destructiveHint": true, "idempotentHint": true, "openWorldHint": false,
        },
    });
    let delete = TOOLS.iter().find(|tool| tool.name == "delete").unwrap();
    assert_eq!(delete.definition(), due);
}
