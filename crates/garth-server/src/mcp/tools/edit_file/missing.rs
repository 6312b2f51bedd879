//! Reasons why a text that is to be replaced is not in a file.

use garth_engine::compute::working;
use garth_engine::model::VersionId;
use garth_engine::{FileSystem, Result, TreePath};

use crate::errors::{Code, Refusal};
use crate::mcp::tools::versions::{MAX_COMPARED, changes_since, text, versions};
use crate::routes::call::Call;

/// Limit on the lines of a text that is sought with other white space: each line of the file is compared with
/// them.
const MAX_SOUGHT: usize = 50;

/// Returns the refusal of an edit whose text is not in the file. It says where the text is with other white
/// space, or what has changed since the file contained it.
pub(super) async fn missing(fs: &dyn FileSystem, call: &Call<'_>, path: &TreePath, old: &str) -> Refusal {
    let text = text(fs, path).await.ok().flatten().unwrap_or_default();
    if let Some(line) = similar(&text, old) {
        let message = format!(
            "old_string is not in {path}, but line {line} and those after it differ from it in white space alone"
        );
        let hint = "copy them from `read_file` without the line numbers";
        return Refusal::new(Code::NotFound, message).hinting(hint);
    }
    match last_with(fs, path, old).await {
        Ok(Some(version)) => {
            let changes = changes_since(fs, call, path, version).await;
            changes.refusal(|text| {
                Refusal::new(Code::Conflict, format!("old_string is no longer in the file: {text}"))
            })
        }
        _ => {
            let advice = "read the file, and copy the text exactly and without the line numbers";
            Refusal::new(Code::NotFound, format!("old_string is not in {path}; {advice}"))
        }
    }
}

/// Returns the number of the line where a text begins, if white space around lines is ignored.
fn similar(text: &str, old: &str) -> Option<usize> {
    let sought: Vec<&str> = old.trim().lines().map(str::trim).take(MAX_SOUGHT + 1).collect();
    if sought.len() > MAX_SOUGHT || sought.iter().all(|line| line.is_empty()) {
        return None;
    }
    working(text.len());
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let at = lines.windows(sought.len()).position(|lines| lines == sought)?;
    Some(at + 1)
}

/// Returns the newest earlier version of a file that contains a text, among the last versions.
async fn last_with(fs: &dyn FileSystem, path: &TreePath, old: &str) -> Result<Option<VersionId>> {
    for version in versions(fs, path).await?.iter().skip(1) {
        let Some(entry) = version.entry.as_deref() else { continue };
        if !entry.is_file() || entry.size > MAX_COMPARED {
            continue;
        }
        let length = usize::try_from(entry.size).unwrap_or(usize::MAX);
        let bytes = fs.open_version(version.id).await?.read_at(0, length).await?;
        if std::str::from_utf8(&bytes).is_ok_and(|text| text.contains(old)) {
            return Ok(Some(version.id));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_with_other_white_space_is_found() {
        let text = "fn a() {\n    one();\n\ttwo();\n}\n";
        assert_eq!(similar(text, "  one();\n  two();\n"), Some(2));
        assert_eq!(similar(text, "two();"), Some(3));
        assert_eq!(similar(text, "three();"), None);
        assert_eq!(similar(text, " \n "), None);
        assert_eq!(similar("", "x"), None);
        assert_eq!(similar("a", "a\nb"), None);
    }
}
