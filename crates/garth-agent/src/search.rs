//! Search of a tree that names what it finds: messages by their session, memories by their URI, values by
//! their key. It finds nothing that garth writes for itself. `docs/specs/search.md` describes the answer.

mod describe;
mod hit;
mod kind;
mod request;
mod searcher;
mod session_hits;

pub use self::hit::{FoundMessage, HitKind, SearchHit, SessionName, hit_json};
pub use self::kind::SearchKind;
pub use self::request::SearchRequest;
pub use self::searcher::{SearchPage, Searcher};
