//! Owners of API keys, as calls name them.

use super::account::Account;

/// Owner of API keys: the home, or an account.
///
/// A name alone means the account that has it when the call runs. A caller that has judged something earlier,
/// such as the key of a request, names the tree too: an account that was created again under the name is
/// another owner.
///
/// ```
/// # use garth_engine as garth;
/// use garth::home::KeyOwner;
///
/// let (home, named) = (KeyOwner::home(), KeyOwner::named("acme"));
/// assert_eq!((home.account(), named.account(), named.tree()), (None, Some("acme"), None));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyOwner {
    account: Option<String>,
    tree: Option<String>,
}

impl KeyOwner {
    /// Returns the home, which owns the keys of operators.
    pub fn home() -> Self {
        Self::default()
    }

    /// Returns the account that has this id when a call runs.
    pub fn named(account: &str) -> Self {
        Self { account: Some(account.to_owned()), tree: None }
    }

    /// Returns the account of this id whose tree has this name ([`Account::folder`]).
    pub fn of_tree(account: &str, tree: &str) -> Self {
        Self { account: Some(account.to_owned()), tree: Some(tree.to_owned()) }
    }

    /// Returns the id of the account; `None` for the home.
    pub fn account(&self) -> Option<&str> {
        self.account.as_deref()
    }

    /// Returns the name of the tree that the account must have; `None` if any will do.
    pub fn tree(&self) -> Option<&str> {
        self.tree.as_deref()
    }
}

/// Converts the name of an account; `None` is the home.
impl From<Option<&str>> for KeyOwner {
    fn from(account: Option<&str>) -> Self {
        account.map_or_else(Self::home, Self::named)
    }
}

impl From<&Account> for KeyOwner {
    fn from(account: &Account) -> Self {
        Self::of_tree(&account.id, &account.folder)
    }
}
