//! Quotas: limits on the content below a path, its usage, and the decision whether a commit may pass. Pure:
//! engines count, each in its own way.

use std::collections::BTreeMap;

use crate::error::{Advice, Error, ErrorKind, Result};
use crate::model::Within;
use crate::model::quota::{MAX_COUNTED, MAX_QUOTAS, Quota, Usage};
use crate::path::{SYSTEM, TreePath};

/// Usage below a path that a commit would leave, before it is known whether that can be stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// As [`Usage::bytes`].
    pub bytes: i128,
    /// As [`Usage::entries`].
    pub entries: i128,
}

impl From<Usage> for Count {
    fn from(used: Usage) -> Self {
        Self { bytes: used.bytes.into(), entries: used.entries.into() }
    }
}

impl Count {
    /// Returns the usage, if it is one.
    ///
    /// # Errors
    /// `Corrupt` for a negative count: the counters were wrong before.
    pub fn usage(self) -> Result<Usage> {
        let number = |count: i128| {
            u64::try_from(count).map_err(|_| {
                Error::new(ErrorKind::Corrupt, "the usage of a quota is negative")
                    .advising(Advice::Command, "run `garth reindex`")
            })
        };
        Ok(Usage { bytes: number(self.bytes)?, entries: number(self.entries)? })
    }
}

/// Returns the usage that was counted below the path of a new quota.
///
/// # Errors
/// `TooLarge` if it does not fit into the counters.
pub fn counted(path: &TreePath, count: Count) -> Result<Usage> {
    // The counters must fit into the integers of the databases.
    if count.bytes > i128::from(MAX_COUNTED) {
        let message =
            format!("there are more than {MAX_COUNTED} bytes below this path, which no quota counts");
        return Err(Error::at(ErrorKind::TooLarge, path, message));
    }
    count.usage()
}

/// Returns the error of a path whose quota is to be removed, and that has none.
pub fn missing(path: &TreePath) -> Error {
    Error::at(ErrorKind::NotFound, path, "this path has no quota")
}

/// Returns the limit that a commit would exceed if it left `after`; `None` if it may pass. Usage that does
/// not grow may be above its limit: it is older than the limit.
fn exceeded(quota: &Quota, after: Count) -> Option<Exceeded> {
    let part = |what, limit: Option<u64>, used: u64, after: i128| {
        // Without a limit, the largest count that can be stored is the limit.
        let allowed = limit.unwrap_or(MAX_COUNTED);
        // Usage above a limit that was set later must not keep anybody from removing something.
        let exceeds = after > i128::from(used) && after > i128::from(allowed);
        exceeds.then_some(Exceeded { what, used, after, allowed })
    };
    part("bytes", quota.limits.bytes, quota.used.bytes, after.bytes)
        .or_else(|| part("entries", quota.limits.entries, quota.used.entries, after.entries))
}

/// Returns true if a commit that would leave `after` may pass.
pub fn allows(quota: &Quota, after: Count) -> bool {
    exceeded(quota, after).is_none()
}

/// Limit, and the usage that would exceed it.
struct Exceeded {
    what: &'static str,
    used: u64,
    after: i128,
    allowed: u64,
}

/// Returns true if a caller reaches all that a quota of a path counts, so that it may know the usage.
fn is_known(within: &Within, path: &TreePath) -> bool {
    // Garth's own directory is out of reach for everybody, and tells nothing of anybody.
    within.contains(path) && within.exclusions_below(path).all(|hidden| hidden.as_str() == SYSTEM)
}

/// Refuses a commit that would exceed some quotas. `counted` is in the order of paths. The first quota of
/// which everything is `within` the caller's reach is named, and none if there is none.
///
/// # Errors
/// `QuotaExceeded`.
pub fn refuse<'a>(within: &Within, counted: impl IntoIterator<Item = (&'a Quota, Count)>) -> Result<()> {
    let mut refused = Ok(());
    for (quota, after) in counted {
        let Some(Exceeded { what, used, after, allowed }) = exceeded(quota, after) else { continue };
        if is_known(within, &quota.path) {
            let more = after - i128::from(used);
            let message = format!(
                "the quota of {allowed} {what} does not allow {more} more: {used} are used; \
                 remove something below it, or have the quota raised"
            );
            return Err(Error::at(ErrorKind::QuotaExceeded, &quota.path, message));
        }
        // The usage of others, and its place, are not the caller's to know.
        let message = "a quota that also counts files out of this caller's reach is exhausted; remove \
                       something, or have it raised";
        // Not returned yet: a quota within reach may follow, which is named instead.
        refused = Err(Error::new(ErrorKind::QuotaExceeded, message));
    }
    refused
}

/// Quotas of a tree.
#[derive(Clone, Debug)]
pub struct Quotas {
    by_key: BTreeMap<String, Quota>,
    /// Their subtrees except the root, which needs no check: every name is below it.
    places: Within,
}

impl Default for Quotas {
    fn default() -> Self {
        Self::new([])
    }
}

impl Quotas {
    /// Returns the set of these quotas.
    pub fn new(quotas: impl IntoIterator<Item = Quota>) -> Self {
        let by_key: BTreeMap<String, Quota> =
            quotas.into_iter().map(|quota| (quota.path.key().to_owned(), quota)).collect();
        let paths = by_key.values().map(|quota| quota.path.clone());
        let places = Within::new(paths.filter(|path| !path.is_root()));
        Self { by_key, places }
    }

    /// Returns true if there are no quotas.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Returns all quotas, in the order of their paths.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Quota> {
        self.by_key.values()
    }

    /// Checks that the tree may have one more quota.
    ///
    /// # Errors
    /// `TooLarge` if it has [`MAX_QUOTAS`].
    pub fn check_room(&self) -> Result<()> {
        if self.by_key.len() < MAX_QUOTAS {
            return Ok(());
        }
        let message = format!("a tree has at most {MAX_QUOTAS} quotas; remove one first");
        Err(Error::new(ErrorKind::TooLarge, message))
    }

    /// Returns the quota of the path with this key.
    pub fn get(&self, key: &str) -> Option<&Quota> {
        self.by_key.get(key)
    }

    /// Returns the subtrees of the quotas, without the root.
    pub fn places(&self) -> &Within {
        &self.places
    }

    /// Returns the keys of the quotas that count the names in a directory, the nearest first. The directory
    /// is given by its key.
    pub fn over<'a>(&'a self, dir: &'a str) -> impl Iterator<Item = &'a str> {
        let up = std::iter::successors(Some(dir), |dir| dir.rsplit_once('/').map(|(above, _)| above));
        up.filter_map(|dir| self.by_key.get_key_value(dir)).map(|(key, _)| key.as_str())
    }

    /// Returns the keys of the quotas of paths below a directory, which is given by its key.
    pub fn below(&self, dir: &str) -> impl Iterator<Item = &str> {
        // Up to `0`, the byte after `/`.
        self.by_key.range(format!("{dir}/")..format!("{dir}0")).map(|(key, _)| key.as_str())
    }

    /// Sets the usage that a commit has left, by the keys of quotas.
    pub fn use_up(&mut self, changed: &BTreeMap<String, Usage>) {
        for (key, used) in changed {
            if let Some(quota) = self.by_key.get_mut(key) {
                quota.used = *used;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::quota::Limits;

    fn path(path: &str) -> TreePath {
        TreePath::parse(path).unwrap()
    }

    fn quota(at: &str, limits: Limits, used: Usage) -> Quota {
        Quota { path: path(at), limits, used }
    }

    fn count(bytes: i128, entries: i128) -> Count {
        Count { bytes, entries }
    }

    #[test]
    fn quota_refuses_growth_but_not_shrinking() {
        let used = Usage { bytes: 120, entries: 3 };
        let quota = quota("/a", Limits::default().bytes(100).entries(3), used);
        for fits in [count(120, 3), count(119, 3), count(0, 0), count(101, 2)] {
            assert!(allows(&quota, fits), "{fits:?}");
        }
        for more in [count(121, 3), count(121, 0), count(0, 4)] {
            assert!(!allows(&quota, more), "{more:?}");
        }
    }

    #[test]
    fn unlimited_usage_is_counted_up_to_max() {
        let most = i128::from(MAX_COUNTED);
        let quota = quota("/", Limits::default().entries(5), Usage::default());
        assert!(allows(&quota, count(most, 5)));
        assert!(!allows(&quota, count(most + 1, 5)));
        Limits::default().bytes(MAX_COUNTED).check().unwrap();
        for wrong in
            [Limits::default(), Limits::default().bytes(u64::MAX), Limits::default().entries(1 << 63)]
        {
            assert!(wrong.check().unwrap_err().is(ErrorKind::InvalidArgument), "{wrong:?}");
        }
        assert!(count(-1, 0).usage().unwrap_err().is(ErrorKind::Corrupt));
    }

    #[test]
    fn quota_error_names_first_path_within_reach() {
        let limits = Limits::default().bytes(10);
        let quotas = ["/", "/a", "/a/b"].map(|at| quota(at, limits, Usage { bytes: 7, entries: 1 }));
        let refusal =
            |within: &Within| refuse(within, quotas.iter().map(|quota| (quota, count(11, 1)))).unwrap_err();
        let error = refusal(&Within::new([path("/a")]));
        assert_eq!((error.kind(), error.path()), (ErrorKind::QuotaExceeded, Some(&path("/a"))));
        for number in ["10 bytes", "4 more", "7 are used"] {
            assert!(error.message().contains(number), "{error}");
        }
        let error = refusal(&Within::new([path("/z")]));
        assert_eq!((error.kind(), error.path()), (ErrorKind::QuotaExceeded, None));
        // Numbers would reveal the usage of others.
        assert!(!error.message().contains(|letter: char| letter.is_ascii_digit()), "{error}");
    }

    #[test]
    fn quota_over_hidden_paths_is_not_named() {
        let limits = Limits::default().bytes(10);
        let quotas = ["/", "/a", "/a/b"].map(|at| quota(at, limits, Usage { bytes: 7, entries: 1 }));
        let named = |within: &Within| {
            let error = refuse(within, quotas.iter().map(|quota| (quota, count(11, 1)))).unwrap_err();
            let has_numbers = error.message().contains(|letter: char| letter.is_ascii_digit());
            assert_eq!(has_numbers, error.path().is_some(), "{error}");
            error.path().map(|path| path.as_str().to_owned())
        };
        let all = Within::everything();
        for (hidden, first) in [
            ("/z", Some("/a")),
            ("/a/z", Some("/a/b")),
            ("/a/b/z", None),
            ("/a/b", None),
            ("/a", None),
            // Hidden from everybody.
            (SYSTEM, Some("/")),
        ] {
            assert_eq!(named(&all.without([path(hidden)])).as_deref(), first, "{hidden}");
        }
        // An island is known, the parts around it are not.
        let island = all.without([path("/a")]).with([path("/a/b")]);
        assert_eq!(named(&island).as_deref(), Some("/a/b"));
    }

    #[test]
    fn directory_counts_towards_quotas_at_and_above_it() {
        let quotas = ["/", "/a", "/a/b", "/a-"].map(|at| quota(at, Limits::default(), Usage::default()));
        let quotas = Quotas::new(quotas);
        let over = |dir: &str| quotas.over(dir).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(over(""), [""]);
        assert_eq!(over("/a"), ["/a", ""]);
        assert_eq!(over("/a/b/c"), ["/a/b", "/a", ""]);
        assert_eq!(over("/a-/b"), ["/a-", ""]);
        assert_eq!(over("/ab"), [""]);
        let below = |dir: &str| quotas.below(dir).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(below(""), ["/a", "/a-", "/a/b"]);
        assert_eq!(below("/a"), ["/a/b"]);
        assert!(below("/a/b").is_empty() && below("/ab").is_empty());
    }
}
