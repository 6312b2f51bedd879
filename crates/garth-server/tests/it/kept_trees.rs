//! Trees that stay open between the calls of an identity, when the storage of their account fails.

use garth_engine::runtime::failpoint::Failure;
use serde_json::json;

use super::harness::Server;

#[test]
fn failed_account_opens_again_while_trees_are_kept() {
    let server = Server::start();
    let key = server.bound_key(&json!({"agent": "scout", "user": "ann"}));
    let get = || server.post_as(&key, "get", r#"{"path":"/a"}"#).status;
    let put = || server.post("put", r#"{"path":"/a","value":1}"#).status;
    assert_eq!(get(), 200);
    server.home.failpoints().arm("before-commit", Failure::Sync, 0);
    assert_eq!(put(), 500);
    // An account is opened again only once nobody holds it.
    assert_eq!([put(), get()], [200, 200]);
}
