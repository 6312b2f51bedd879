//! Tree to which the cursors of a request belong. An account that is created again under a name has another
//! tree, in which a position of the old one means nothing: a page from there would skip items silently.

use std::borrow::Cow;

use garth_engine::home::{Admitted, OperatorTree};
use garth_engine::{ErrorKind, Home, TreePath};
use serde_json::Value;

use super::identity::named_account;
use super::tree::Tree;
use crate::errors::Refusal;
use crate::fields::Fields;

/// Fields with paths, of calls on files that have pages.
const PATHS: [&str; 5] = ["in", "path", "pattern", "patterns", "within"];

/// Returns the name of the tree that a request reads: that of the account of its key, for an operator that of
/// the account that the request names. Empty if it names none, or one that does not exist.
pub(super) async fn tree_of<'a>(
    home: &dyn Home,
    admitted: &'a Admitted,
    tree: Tree,
    fields: &Fields<'_>,
) -> Result<Cow<'a, str>, Refusal> {
    if admitted.key().account.is_some() {
        return Ok(Cow::Borrowed(admitted.tree()));
    }
    let named = match tree {
        Tree::Files => account_of_paths(fields),
        _ => named_account(tree, fields)?.map(Cow::into_owned),
    };
    let Some(named) = named else { return Ok(Cow::Borrowed("")) };
    match home.account(&named).await {
        // The call itself reports it, with its path.
        Err(error) if error.is(ErrorKind::NotFound) => Ok(Cow::Borrowed("")),
        account => Ok(Cow::Owned(account?.folder)),
    }
}

/// Returns the account that the first path of an operator's request is in.
fn account_of_paths(fields: &Fields<'_>) -> Option<String> {
    let paths = fields.sorted().filter(|(name, _)| PATHS.contains(name));
    let mut texts = paths.flat_map(|(_, json)| match serde_json::from_str(json) {
        Ok(Value::String(path)) => vec![path],
        Ok(Value::Array(paths)) => paths.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    });
    texts.find_map(|text| OperatorTree::account_of(&TreePath::parse(&text).ok()?).map(str::to_owned))
}
