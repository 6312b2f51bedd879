//! Contract suite: every promise of [`garth_engine::FileSystem`] as a check of any implementation.
//! [`contract_tests!`](crate::contract_tests) makes a test of each module, which runs its checks one by one.
//!
//! A check runs on filesystems that have the abilities that it needs (named after it in the `checks!` of its
//! module); [`capabilities`] checks that an implementation rejects the others.

pub mod attributes;
pub mod blaming;
pub mod capabilities;
pub mod changes;
pub mod commits;
pub mod confining;
pub mod content;
pub mod copies;
pub mod excluding;
pub mod expiry;
pub mod finding;
pub mod handles;
pub mod lookup;
pub mod making;
pub mod pages;
pub mod past;
pub mod ranges;
pub mod removing;
pub mod renaming;
pub mod resolving;
pub mod restoring;
pub mod retries;
pub mod searching;
pub(crate) mod suite;

use std::future::Future;

use self::suite::Check;
use crate::subject::Subject;

/// Modules of the suite and their checks.
const GROUPS: &[(&str, &[Check])] = &[
    ("attributes", attributes::CHECKS),
    ("blaming", blaming::CHECKS),
    ("capabilities", capabilities::CHECKS),
    ("changes", changes::CHECKS),
    ("commits", commits::CHECKS),
    ("confining", confining::CHECKS),
    ("content", content::CHECKS),
    ("copies", copies::CHECKS),
    ("excluding", excluding::CHECKS),
    ("expiry", expiry::CHECKS),
    ("finding", finding::CHECKS),
    ("handles", handles::CHECKS),
    ("lookup", lookup::CHECKS),
    ("making", making::CHECKS),
    ("pages", pages::CHECKS),
    ("past", past::CHECKS),
    ("ranges", ranges::CHECKS),
    ("removing", removing::CHECKS),
    ("renaming", renaming::CHECKS),
    ("resolving", resolving::CHECKS),
    ("restoring", restoring::CHECKS),
    ("retries", retries::CHECKS),
    ("searching", searching::CHECKS),
];

/// Puts the checks of a module to subjects of this kind, each to a fresh one. For
/// [`contract_tests!`](crate::contract_tests).
///
/// # Panics
/// If checks fail, with the name and the message of each; if the suite has no such module.
pub fn run<S: Future<Output = Subject>>(module: &str, make: impl Fn() -> S) {
    let (_, checks) = GROUPS.iter().find(|(name, _)| *name == module).expect("a module of the suite");
    let only = std::env::var(suite::ONLY).ok();
    if let Some(only) = only.as_deref() {
        let known = GROUPS.iter().flat_map(|(_, checks)| checks.iter()).any(|check| check.name == only);
        assert!(known, "{} is `{only}`, but the suite has no such check", suite::ONLY);
    }
    let chosen = checks.iter().filter(|check| only.as_deref().is_none_or(|only| check.name == only));
    suite::run(module, chosen, make);
}

/// Makes a `#[test]` of each module of the suite. Takes the name of an `async fn() -> Subject`; invoke it in
/// a module named after the implementation, so that this name shows in the output.
///
/// After `on`, it takes the name of a function that starts what the subjects of a test share, such as a
/// database server; the `async fn` gets a reference to it.
#[macro_export]
macro_rules! contract_tests {
    ($make:ident $(on $start:ident)?) => {
        $crate::contract_tests! { @modules $make ($($start)?):
            attributes blaming capabilities changes commits confining
            content copies excluding expiry finding handles
            lookup making pages past ranges removing
            renaming resolving restoring retries searching
        }
    };
    (@modules $make:ident $start:tt: $($module:ident)+) => {
        $(
            #[test]
            fn $module() {
                $crate::contract_tests! { @run $module $make $start }
            }
        )+
    };
    (@run $module:ident $make:ident ()) => {
        $crate::contract::run(stringify!($module), $make);
    };
    (@run $module:ident $make:ident ($start:ident)) => {
        let shared = $start();
        $crate::contract::run(stringify!($module), || $make(&shared));
    };
}

#[cfg(test)]
mod tests {
    use super::GROUPS;

    /// A check that [`GROUPS`] or the macro leaves out would never run. Within a module the compiler sees to
    /// it: a check that `checks!` does not name is dead code.
    #[test]
    fn every_contract_module_becomes_a_test() {
        let text = include_str!("contract.rs");
        let modules: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("pub mod ")).collect();
        let groups: Vec<String> = GROUPS.iter().map(|(name, _)| format!("{name};")).collect();
        assert_eq!(modules, groups);
        let in_macro = text.split("@modules $make ($($start)?):").nth(1).unwrap().split('}').next().unwrap();
        let in_macro: Vec<&str> = in_macro.split_whitespace().collect();
        assert_eq!(in_macro, GROUPS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        // A lower bound, so that a slip in the macro does not drop checks unnoticed.
        assert!(GROUPS.iter().map(|(_, checks)| checks.len()).sum::<usize>() >= 250);
    }
}
