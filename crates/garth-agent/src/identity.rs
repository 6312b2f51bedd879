//! Identity: the agent, the listeners and the audience of a request. One function, [`Identity::judge`],
//! derives it from a request; it decides on everything that a session reaches.

mod class;
mod judge;
pub(crate) mod places;
mod policy;
mod request;
pub(crate) mod session_key;
mod stored_class;

pub use self::class::Class;
pub use self::judge::Identity;
pub use self::policy::{AccessPolicy, DEFAULT_USER, SETTINGS, Sharing};
pub(crate) use self::policy::{MAX_SETTINGS, check_audience, check_chat, is_reserved, policy_of};
pub use self::request::{Caller, Request};
pub use self::session_key::SessionKey;
pub use self::stored_class::StoredClass;
