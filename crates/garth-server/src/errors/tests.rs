//! Compares errors with the tables of the specifications, and checks what clients see of them. This file is
//! not packaged, as the specifications are not.

use garth_agent::models::ServiceError;

use super::*;

#[test]
fn specification_lists_all_error_codes_with_statuses() {
    let specification = include_str!("../../../../docs/specs/kv-api.md");
    let (_, table) = specification.split_once("| status | code | when |").unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let listed: Vec<String> = rows.map(|row| row.splitn(4, '|').take(3).collect()).collect();
    let known = Code::ALL.map(|code| {
        let (name, status) = code.parts();
        format!(" {}  `{name}` ", status.as_u16())
    });
    assert_eq!(listed, known);
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
    }
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
