//! Directories as the memory tool lists them: two levels deep, with sizes for people.

use std::collections::BTreeMap;

use super::tool_path::{ToolPath, shown};
use garth_engine::compute::working;
use garth_engine::error::Result;
use garth_engine::fs::FileSystem;
use garth_engine::model::{At, Kind, WalkItem, WalkPage};
use garth_engine::path::TreePath;

/// Limit on the entries that are listed.
pub const MAX_LISTED: usize = 1_000;
/// Limit on the files and directories that a listing reads, at any depth.
pub const MAX_WALKED: usize = 10_000;
/// Room for the note below a listing that is cut.
const NOTE: usize = 256;
/// Number of items read at once.
const PAGE: usize = 1_000;
/// Levels below the directory that are listed.
const LEVELS: usize = 2;
/// Directory of packages, which is not listed.
const PACKAGES: &str = "node_modules";

/// Sizes by the segments below the directory, so that an entry comes before those below it.
type Sizes = BTreeMap<Vec<String>, u64>;

/// Returns the listing of a directory that exists, in at most `limit` bytes.
///
/// # Errors
/// Errors of the filesystem.
pub(super) async fn listing(fs: &dyn FileSystem, path: &ToolPath, limit: usize) -> Result<String> {
    let (mut sizes, mut walked, mut after, mut more) = (Sizes::from([(Vec::new(), 0)]), 0, None, true);
    while more && walked < MAX_WALKED {
        let page = WalkPage::default().limit(PAGE).after(after.take()).with_entries();
        let page = fs.walk(&At::from(&path.at), &page).await?;
        working(page.items.len());
        walked += page.items.len();
        page.items.iter().for_each(|item| add(&mut sizes, &path.at, item));
        more = page.more && !page.items.is_empty();
        after = page.items.last().map(|item| item.path.clone());
    }
    Ok(text(path, &sizes, more, limit))
}

/// Returns the listing of a directory without entries.
pub(super) fn empty(path: &ToolPath) -> String {
    text(path, &Sizes::from([(Vec::new(), 0)]), false, usize::MAX)
}

/// Adds a file or directory to the sizes. Hidden entries, links and packages are left out, with all below.
fn add(sizes: &mut Sizes, top: &TreePath, item: &WalkItem) {
    let segments: Vec<String> =
        item.path.segments().skip(top.segments().count()).map(str::to_owned).collect();
    let is_left_out = |segment: &String| segment.starts_with('.') || segment == PACKAGES;
    let size = match item.kind {
        Kind::File => item.entry.as_ref().map_or(0, |entry| entry.size),
        Kind::Directory => 0,
        _ => return,
    };
    if segments.iter().any(is_left_out) {
        return;
    }
    // The size of a directory is that of the files below it.
    for depth in 0..=segments.len().min(LEVELS) {
        let above = segments.iter().take(depth).cloned().collect();
        let total = sizes.entry(above).or_insert(0);
        *total = total.saturating_add(size);
    }
}

/// Returns the listing, in at most `limit` bytes. `more` says that there are files that were not read.
fn text(path: &ToolPath, sizes: &Sizes, more: bool, limit: usize) -> String {
    let mut text = format!(
        "Here're the files and directories up to 2 levels deep in {}, excluding hidden items and \
         node_modules:",
        path.text
    );
    let (top, mut listed) = (shown(&path.at), 0);
    for (segments, size) in sizes.iter().take(MAX_LISTED) {
        let below: String = segments.iter().map(|segment| format!("/{}", printable(segment))).collect();
        let line = format!("\n{}\t{top}{below}", for_people(*size));
        if text.len() + line.len() + NOTE > limit {
            break;
        }
        text.push_str(&line);
        listed += 1;
    }
    if sizes.len() > listed || more {
        text.push_str(&format!(
            "\n(The directory is large: {listed} entries are listed, and there are more. Sizes may be too \
             small. View a directory in it to see all of its entries.)"
        ));
    }
    text
}

/// Returns a name without control characters, which would break the lines. The tool creates no such names.
fn printable(name: &str) -> String {
    name.chars()
        .map(|letter| if letter.is_control() { char::REPLACEMENT_CHARACTER } else { letter })
        .collect()
}

/// Returns a size as `5.5K` or `1.2M`, and less than a kibibyte in bytes: `512B`.
fn for_people(bytes: u64) -> String {
    if bytes < 1 << 10 {
        return format!("{bytes}B");
    }
    // In tenths of a unit, so that 1,023.96K is 1.0M.
    let tenths = |unit: u128| (u128::from(bytes) * 10 + unit / 2) / unit;
    let units = [(1_u128 << 10, 'K'), (1 << 20, 'M'), (1 << 30, 'G')];
    let fitting =
        units.into_iter().map(|(unit, letter)| (tenths(unit), letter)).find(|(tenths, _)| *tenths < 10_240);
    let (tenths, letter) = fitting.unwrap_or_else(|| (tenths(1 << 40), 'T'));
    format!("{}.{}{letter}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_for_people() {
        for (bytes, due) in [
            (0, "0B"),
            (1_023, "1023B"),
            (1_024, "1.0K"),
            (5_632, "5.5K"),
            (10_240, "10.0K"),
            (1_048_535, "1.0M"),
            (1_258_291, "1.2M"),
            (5 << 30, "5.0G"),
            (8 << 40, "8.0T"),
        ] {
            assert_eq!(for_people(bytes), due, "{bytes}");
        }
    }
}
