//! Compares errors with the tables of the specifications, and checks what clients see of them. This file is
//! not packaged, as the specifications are not.

use std::collections::BTreeSet;

use garth_agent::models::ServiceError;

use super::*;

#[test]
fn table_has_each_code_once_in_order_of_statuses() {
    let names: BTreeSet<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(names.len(), Code::ALL.len());
    assert!(Code::ALL.is_sorted_by_key(|code| code.row().status));
    for code in Code::ALL {
        let row = code.row();
        let texts = [row.meaning, row.advice];
        assert!(texts.iter().all(|text| text.ends_with('.') && !text.contains(['|', '\n'])), "{code:?}");
    }
}

#[test]
fn table_has_the_kinds_of_each_code() {
    let mut used = BTreeSet::new();
    for kind in ErrorKind::ALL {
        let refusal = Refusal::from(Error::new(*kind, ""));
        let row = refusal.code.row();
        assert!(row.kind == refusal.kind || row.further_kinds.contains(&refusal.kind), "{kind}");
        used.insert((refusal.code.as_str(), refusal.kind.as_str()));
    }
    // Each further kind is one that some error has.
    for row in Code::ALL.iter().map(|code| code.row()) {
        let unused = row.further_kinds.iter().find(|kind| !used.contains(&(row.name, kind.as_str())));
        assert_eq!(unused, None, "{}", row.name);
    }
}

#[test]
fn envelope_has_kind_and_path() {
    let path = TreePath::parse("/notes/a.md").unwrap();
    let error = |kind| Refusal::from(Error::at(kind, &path, "it is there; name another"));
    let body =
        |refusal: &Refusal| serde_json::from_slice::<serde_json::Value>(&refusal.body("req_1")).unwrap();
    let hidden = body(&error(ErrorKind::IsADirectory));
    let mut expected = serde_json::json!({
        "code": "PATH_CONFLICT", "kind": "is_a_directory", "message": "it is there; name another",
        "request_id": "req_1",
    });
    assert_eq!(hidden, serde_json::json!({ "error": expected }));
    let named = error(ErrorKind::IsADirectory).naming_path();
    (expected["path"], expected["message"]) =
        ("/notes/a.md".into(), "/notes/a.md: it is there; name another".into());
    assert_eq!(body(&named), serde_json::json!({ "error": expected }));
    // The kind would say what is at the path.
    let blind = body(&named.without_content("files:read"));
    assert_eq!(
        (&blind["error"]["kind"], blind["error"].get("path")),
        (&serde_json::json!("already_exists"), None)
    );
    assert_eq!(body(&error(ErrorKind::Io).naming_path())["error"].get("path"), None);
}

#[test]
fn tree_specification_lists_http_errors() {
    let specification = include_str!("../../../../docs/specs/tree.md");
    let (_, table) = specification.split_once("| kind | errno | HTTP | exit | when |").unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    let listed: Vec<String> = cells.map(|row| format!("{} {}", row[1], row[3])).collect();
    let known = ErrorKind::ALL.iter().map(|kind| {
        let refusal = Refusal::from(Error::new(*kind, ""));
        format!("`{kind}` {} `{}`", refusal.status.as_u16(), refusal.code.as_str())
    });
    assert_eq!(listed, known.collect::<Vec<_>>());
}

#[test]
fn clients_learn_why_a_model_did_not_answer() {
    for reason in [
        NoAnswer::UsedUp,
        NoAnswer::Service(ServiceError::TimedOut),
        NoAnswer::Service(ServiceError::Unreachable),
        NoAnswer::Service(ServiceError::Refused(401)),
        NoAnswer::Service(ServiceError::Invalid("something else than text")),
    ] {
        let refusal = Refusal::from(Error::from(reason));
        assert_eq!((refusal.code, &refusal.message), (Code::Unavailable, &reason.to_string()));
        assert!(refusal.message.contains("language model") && refusal.has_cause(), "{}", refusal.message);
    }
}

#[test]
fn clients_see_no_details_of_failed_storage() {
    for kind in [ErrorKind::Unavailable, ErrorKind::Poisoned, ErrorKind::Io, ErrorKind::Format] {
        let cause = std::io::Error::other("/srv/data");
        let refusal = Refusal::from(Error::new(kind, "the language model at /srv/data").with_source(cause));
        assert!(!refusal.message.contains("/srv") && refusal.has_cause(), "{}", refusal.message);
        let can_repeat = refusal.message.contains("try again");
        assert_eq!(can_repeat, refusal.code == Code::Unavailable, "{}", refusal.message);
        let says_when = refusal.into_response().headers().contains_key("retry-after");
        assert_eq!(says_when, kind == ErrorKind::Unavailable, "{kind}");
    }
}

#[test]
fn clients_see_advice_of_the_library_in_their_words() {
    let path = TreePath::parse("/a").unwrap();
    for kind in ErrorKind::ALL {
        for advice in Advice::ALL {
            let error = Error::at(*kind, &path, "is wrong").advising(*advice, "see `--force`");
            let words = match advice {
                Advice::Command | Advice::OtherCaller | Advice::StoredBytes | Advice::Recall => {
                    "see `--force`"
                }
                Advice::UploadLimit => {
                    "send parts of at most that size to `POST /v1/uploads`, and join them with `POST /v1/batch`"
                }
                Advice::LowerLayer => "leave \"overlay\" out to read the past of the account",
            };
            let refusal = Refusal::from(error.clone());
            let body: serde_json::Value = serde_json::from_slice(&refusal.body("req_1")).unwrap();
            assert_eq!(body["error"]["message"], *refusal.text());
            // Messages of failed storage are replaced as a whole.
            match refusal.message.contains("is wrong") {
                true => assert_eq!(refusal.text(), format!("{}; {words}", refusal.message), "{kind}"),
                false => assert_eq!(refusal.text(), refusal.message, "{kind}"),
            }
            // Values have the same errors, with other codes.
            let refusal = Refusal::from(KvError::from(error));
            let is_kept = refusal.message.contains("is wrong");
            assert_eq!(refusal.text().ends_with(words), is_kept, "{kind}: {}", refusal.text());
        }
    }
}

#[test]
fn refusals_without_content_have_no_advice() {
    let error = Error::new(ErrorKind::Conflict, "is `x`").advising(Advice::Command, "write `x`");
    let blind = Refusal::from(error).hinting("write `x`").without_content("files:read");
    assert!(blind.advice().is_none() && blind.hints().next().is_none() && !blind.text().contains('x'));
}

#[test]
fn refusals_without_content_tell_a_full_account_from_a_quota() {
    let blind = |error: Error| Refusal::from(error).without_content("files:read").text().into_owned();
    let full = Error::new(ErrorKind::QuotaExceeded, "the account has no room")
        .advising(Advice::StoredBytes, "remove something");
    assert_eq!(blind(full), "the account has no room; remove something");
    let quota = Error::at(ErrorKind::QuotaExceeded, &TreePath::parse("/a").unwrap(), "9 bytes are used");
    assert!(blind(quota).starts_with("a quota refuses this write; details require"));
}

#[test]
fn unsupported_requests_are_no_failures_of_the_server() {
    let message = "name paths of one account";
    let refusal = Refusal::from(Error::new(ErrorKind::Unsupported, message));
    assert_eq!((refusal.code, &*refusal.message, refusal.has_cause()), (Code::Unsupported, message, false));
}

#[test]
fn only_slow_bodies_time_out_for_their_clients() {
    let limit = Duration::from_secs(30);
    let slow = Refusal::from(SlowBody::error(limit));
    assert_eq!((slow.code, slow.message), (Code::RequestTimeout, Refusal::slow_body(limit).message));
    // A read that the storage has interrupted.
    let interrupted = Refusal::from(Error::new(ErrorKind::TimedOut, "the read took too long"));
    assert_eq!(interrupted.code, Code::Unavailable);
}

#[test]
fn messages_are_cut_in_the_middle() {
    for letter in ["k", "\u{e9}", "\u{1f980}"] {
        for pad in ["", "x", "xx", "xxx"] {
            let long = format!("{pad}{}", letter.repeat(1 << 20));
            let refusal = Refusal::validation(format!("\"{long}\" is wrong; send another"));
            let steps = [
                refusal.clone(),
                refusal.clone().about(&long),
                refusal.clone().advising(&long),
                refusal.about("\"items[7]\""),
            ];
            for cut in &steps {
                let length = cut.message.len();
                assert!(length <= MAX_MESSAGE && length + 8 > MAX_MESSAGE, "{length}");
                assert!(cut.message.contains(LEFT_OUT), "{}", cut.message);
            }
            assert!(steps[0].message.starts_with(&format!("\"{pad}{letter}")), "{}", steps[0].message);
            assert!(steps[0].message.ends_with("\" is wrong; send another"), "{}", steps[0].message);
            assert!(steps[3].message.starts_with("\"items[7]\": "), "{}", steps[3].message);
        }
    }
    let most = "k".repeat(MAX_MESSAGE);
    assert_eq!(Refusal::validation(&*most).message, most);
}
