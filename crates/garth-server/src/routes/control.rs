//! Call on the control data of the data folder, as its handler sees it. It opens no tree, so that a key of
//! the data folder can make it.

use garth_engine::Home;
use garth_engine::home::{ApiKey, KeyOrigin};

use super::call::Answering;
use super::retry::Retry;
use crate::errors::Refusal;
use crate::fields::Fields;

/// Call of the API on the control data.
pub(super) struct ControlCall<'a> {
    /// Fields of the body. A handler gets its own fields as a type.
    pub(super) fields: Fields<'a>,
    pub(super) key: &'a ApiKey,
    /// Idempotency key of a write, with the hash of the request.
    pub(super) retry: Option<Retry>,
    /// Token of the caller.
    pub(super) token: &'a str,
    pub(super) home: &'a dyn Home,
}

/// Handler of a call on the control data.
pub(super) type ControlHandler = for<'a> fn(&'a ControlCall<'a>) -> Answering<'a>;

impl ControlCall<'_> {
    /// Returns the account that the call is about: that of the key, or for a key of the data folder the one
    /// that the call names. `None`: the data folder.
    ///
    /// # Errors
    /// `FORBIDDEN`, whether the named account exists or not.
    pub(super) fn account<'c>(&'c self, named: Option<&'c str>) -> Result<Option<&'c str>, Refusal> {
        match (self.key.account.as_deref(), named) {
            (None, named) => Ok(named),
            (own, None) => Ok(own),
            (own, named) if own == named => Ok(own),
            (Some(own), _) => Err(Refusal::other_account(own)),
        }
    }

    /// Refuses a key of an account.
    pub(super) fn by_operator(&self) -> Result<(), Refusal> {
        match self.key.account {
            None => Ok(()),
            Some(_) => Err(Refusal::for_operators()),
        }
    }

    /// Returns the origin of a key that the call creates, if the request has an idempotency key.
    pub(super) fn origin(&self) -> Option<KeyOrigin> {
        let retry = self.retry.as_ref()?;
        Some(KeyOrigin::new(self.token, retry.key(), *retry.request_hash()))
    }
}
