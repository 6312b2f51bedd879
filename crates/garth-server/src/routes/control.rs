//! Call on the control data of the data folder, as its handler sees it. It opens no tree, so that a key of
//! the data folder can make it.

use garth_engine::home::{AccountRequest, Admitted, ApiKey, KeyOrigin, KeyOwner};
use garth_engine::{ErrorKind, Home};

use super::call::Answering;
use super::retry::Retry;
use crate::errors::Refusal;
use crate::fields::Fields;

/// Call of the API on the control data.
pub(super) struct ControlCall<'a> {
    /// Fields of the body. A handler gets its own fields as a type.
    pub(super) fields: Fields<'a>,
    pub(super) admitted: &'a Admitted,
    /// Idempotency key of a write, with the hash of the request.
    pub(super) retry: Option<Retry>,
    /// Token of the caller.
    pub(super) token: &'a str,
    pub(super) home: &'a dyn Home,
}

/// Handler of a call on the control data.
pub(super) type ControlHandler = for<'a> fn(&'a ControlCall<'a>) -> Answering<'a>;

impl ControlCall<'_> {
    /// Returns the key of the caller.
    pub(super) fn key(&self) -> &ApiKey {
        self.admitted.key()
    }

    /// Returns the owner of the keys that the call is about: the account of the caller by its tree, so that
    /// another account that has its name by now is out of reach; for a key of the data folder the account
    /// that the call names, or the data folder.
    ///
    /// # Errors
    /// `FORBIDDEN`, whether the named account exists or not.
    pub(super) fn owner(&self, named: Option<&str>) -> Result<KeyOwner, Refusal> {
        match (self.key().account.as_deref(), named) {
            (None, named) => Ok(KeyOwner::from(named)),
            (Some(own), Some(named)) if own != named => Err(Refusal::other_account(own)),
            (Some(_), _) => Ok(self.admitted.owner()),
        }
    }

    /// Refuses a key of an account.
    pub(super) fn by_operator(&self) -> Result<(), Refusal> {
        match self.key().account {
            None => Ok(()),
            Some(_) => Err(Refusal::for_operators()),
        }
    }

    /// Returns the origin of a key that the call creates, if the request has an idempotency key.
    pub(super) fn origin(&self) -> Option<KeyOrigin> {
        let retry = self.retry.as_ref()?;
        Some(KeyOrigin::new(self.token, retry.key(), *retry.request_hash()))
    }

    /// Returns the request as the creation or deletion of an account, if it has an idempotency key.
    pub(super) fn account_request(&self) -> Option<AccountRequest> {
        let retry = self.retry.as_ref()?;
        Some(AccountRequest::new(&*self.key().id, retry.key(), *retry.request_hash()))
    }
}

/// Returns the result of a call that only a valid key can make. The storage judges the key once more, in the
/// transaction of the call.
pub(super) fn by_valid_key<T>(made: garth_engine::Result<T>) -> Result<T, Refusal> {
    match made {
        Err(error) if error.is(ErrorKind::AccessDenied) => Err(Refusal::unauthorized()),
        made => Ok(made?),
    }
}
