//! Checks of the contract suite: how a module lists them, and how they run.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;

use garth_engine::Capabilities;

use crate::subject::Subject;
use crate::tools::can;

/// Environment variable with the name of the one check to run.
pub(super) const ONLY: &str = "GARTH_CHECK";

/// One promise and how to check it.
pub(crate) struct Check {
    /// Name of the function.
    pub(super) name: &'static str,
    /// Returns true for a filesystem with the abilities that the check needs.
    pub(super) needs: fn(Capabilities) -> bool,
    /// Checks the promise. Panics if it does not hold.
    pub(super) check: for<'a> fn(&'a Subject) -> Pin<Box<dyn Future<Output = ()> + 'a>>,
}

/// Lists the checks of a module, each with the abilities that it needs.
macro_rules! checks {
    ($($check:ident $([$($need:ident)+])?)*) => {
        /// Checks of this module.
        pub(super) const CHECKS: &[$crate::contract::suite::Check] = &[
            $($crate::contract::suite::Check {
                name: stringify!($check),
                // A check without needs runs on every filesystem.
                needs: |_can| true $($(&& _can.$need)+)?,
                check: |subject| Box::pin($check(subject)),
            }),*
        ];
    };
}
pub(crate) use checks;

/// Runs checks one after the other, each on a subject and a runtime of its own. A failing check does not stop
/// the others.
pub(super) fn run<'a, S: Future<Output = Subject>>(
    module: &str,
    checks: impl Iterator<Item = &'a Check>,
    make: impl Fn() -> S,
) {
    let (mut ran, mut failed) = (0, Vec::new());
    for check in checks {
        ran += 1;
        let one = || {
            // Tasks that a check leaves behind end with its runtime.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime starts").block_on(async {
                let subject = make().await;
                if (check.needs)(can(&*subject.fs)) {
                    (check.check)(&subject).await;
                }
            });
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(one)) {
            failed.push(format!("{}: {}", check.name, message(&*panic)));
        }
    }
    assert!(
        failed.is_empty(),
        "{} of {ran} checks of `{module}` failed; {ONLY}=NAME runs one alone\n{}",
        failed.len(),
        failed.join("\n")
    );
}

/// Returns the message of a panic.
fn message(panic: &(dyn Any + Send)) -> &str {
    // A panic has a literal or a formatted message.
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn memory() -> Subject {
        Subject::memory()
    }

    async fn holds(_subject: &Subject) {}

    async fn fails(subject: &Subject) {
        let head = subject.fs.head().await.expect("a head").seq.0;
        assert_eq!(head, 7, "the head");
    }

    checks! {
        fails
        holds [write]
        fails [write history]
    }

    #[test]
    fn names_failing_checks_and_runs_the_rest() {
        let broken = catch_unwind(|| run("some", CHECKS.iter(), memory)).unwrap_err();
        let text = message(&*broken);
        assert!(text.starts_with("2 of 3 checks of `some` failed"), "{text}");
        assert_eq!(text.matches("\nfails: assertion").count(), 2, "{text}");
    }
}
