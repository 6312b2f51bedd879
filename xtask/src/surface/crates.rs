//! Documentation of the library and of the crates that it exports from, as JSON.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{cargo, check, target};

/// The library first, then the crates that it exports from.
const CRATES: [&str; 3] = ["garth", "garth_agent", "garth_engine"];

/// Version of the JSON of rustdoc that is understood here. Another one is read as well, and may fail.
const FORMAT: u64 = 57;

/// Set for this program where cargo runs it in the place of rustdoc.
const IS_RUSTDOC: &str = "GARTH_XTASK_IS_RUSTDOC";

/// Runs rustdoc if cargo runs this program in its place, and returns its exit code.
///
/// A stable toolchain writes JSON only if it is told that it may. Build scripts look at that variable, too:
/// set for all of cargo, it would compile every dependency again.
pub(crate) fn as_rustdoc() -> Option<Result<ExitCode>> {
    std::env::var_os(IS_RUSTDOC)?;
    let mut rustdoc = Command::new("rustdoc");
    rustdoc.args(std::env::args_os().skip(1)).env("RUSTC_BOOTSTRAP", "1").env_remove(IS_RUSTDOC);
    let status = rustdoc.status().context("cannot run rustdoc");
    Some(status.map(|status| if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }))
}

/// Documented crates.
pub(super) struct Crates(Vec<Documented>);

struct Documented {
    name: String,
    json: Value,
    /// Ids of its own items by the path of their definition.
    ids: HashMap<Vec<String>, u64>,
}

/// Item of a crate.
#[derive(Clone, Copy)]
pub(super) struct Item<'a> {
    crates: &'a Crates,
    in_crate: usize,
    pub(super) id: u64,
    pub(super) json: &'a Value,
}

impl Crates {
    /// Documents the crates, as a part of the workspace: alone, they would need a build of all dependencies
    /// with other features.
    pub(super) fn documented(root: &Path) -> Result<Self> {
        let mut rustdoc = cargo();
        rustdoc
            .args(["doc", "--quiet", "--workspace", "--all-features", "--no-deps", "--lib"])
            .current_dir(root);
        rustdoc
            .env("RUSTDOC", std::env::current_exe().context("this program has no path")?)
            .env(IS_RUSTDOC, "1");
        rustdoc.env("RUSTDOCFLAGS", "-Zunstable-options --output-format json --cap-lints allow");
        check(&mut rustdoc)?;
        let folder = target(root)?.join("doc");
        let read = |name: &str| {
            let path = folder.join(format!("{name}.json"));
            let json =
                std::fs::read(&path).with_context(|| format!("rustdoc wrote no {}", path.display()))?;
            Documented::read(&json)
        };
        Ok(Self(CRATES.map(read).into_iter().collect::<Result<_>>()?))
    }

    /// Returns the module that the library is.
    pub(super) fn root(&self) -> Option<Item<'_>> {
        self.item(0, self.0.first()?.json["root"].as_u64()?)
    }

    fn item(&self, in_crate: usize, id: u64) -> Option<Item<'_>> {
        let json = self.0.get(in_crate)?.json["index"].get(id.to_string())?;
        Some(Item { crates: self, in_crate, id, json })
    }
}

impl Documented {
    fn read(json: &[u8]) -> Result<Self> {
        let json: Value = serde_json::from_slice(json).context("rustdoc wrote no JSON")?;
        let format = json["format_version"].as_u64().unwrap_or(0);
        ensure!(
            format >= FORMAT,
            "rustdoc writes format {format}; {FORMAT} is the first that is understood here"
        );
        let root = json["root"].to_string();
        let name = json["index"][&root]["name"].as_str().context("a crate without a name")?.to_owned();
        let mut ids = HashMap::new();
        for (id, path) in json["paths"].as_object().into_iter().flatten() {
            let segments = path["path"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let segments: Vec<String> = segments.map(str::to_owned).collect();
            if let (Some(0), Ok(id)) = (path["crate_id"].as_u64(), id.parse()) {
                ids.insert(segments, id);
            }
        }
        Ok(Self { name, json, ids })
    }
}

impl<'a> Item<'a> {
    /// Returns what kind of item it is, and its description.
    pub(super) fn inner(self) -> Option<(&'a str, &'a Value)> {
        self.json["inner"].as_object()?.iter().next().map(|(kind, inner)| (kind.as_str(), inner))
    }

    /// Returns its name.
    pub(super) fn name(self) -> &'a str {
        self.json["name"].as_str().unwrap_or_default()
    }

    /// Returns the number of its crate and its id there, which together identify the item.
    pub(super) fn key(self) -> (usize, u64) {
        (self.in_crate, self.id)
    }

    /// Returns the items of a list of ids.
    pub(super) fn each(self, ids: &'a Value) -> impl Iterator<Item = Item<'a>> {
        let ids = ids.as_array().into_iter().flatten().filter_map(Value::as_u64);
        ids.filter_map(move |id| self.crates.item(self.in_crate, id))
    }

    /// Returns the item that an id means here: one of this crate, or of another one of the library.
    pub(super) fn target(self, id: u64) -> Option<Item<'a>> {
        if let Some(item) = self.crates.item(self.in_crate, id) {
            return Some(item);
        }
        let path = &self.crates.0[self.in_crate].json["paths"][id.to_string()]["path"];
        let path: Vec<String> =
            path.as_array()?.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let of = self.crates.0.iter().position(|documented| Some(&documented.name) == path.first())?;
        self.crates.item(of, *self.crates.0[of].ids.get(&path)?)
    }
}
