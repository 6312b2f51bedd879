//! Flags of the options, generated from the table.

use std::marker::PhantomData;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueHint};

use super::kind::Kind;
use super::setting::{Group, Setting};
use super::table::TABLE;

/// Name of the flag that names the file.
const CONFIG: &str = "config";

/// Values given as flags.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlagValues {
    values: Vec<(&'static str, String)>,
    /// File to read instead of the one in the data folder.
    pub(crate) config: Option<PathBuf>,
}

impl FlagValues {
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.values.iter().find(|(given, _)| *given == key).map(|(_, value)| value.as_str())
    }

    /// Returns true if no option was given. The file that `--config` names does not count.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn of(values: &[(&str, &str)]) -> Self {
        let value = |(key, text): &(&str, &str)| Some((super::table::find(key)?.key, (*text).to_owned()));
        Self { values: values.iter().filter_map(value).collect(), config: None }
    }
}

/// Groups of options of a verb.
pub(crate) trait Has: Clone + std::fmt::Debug + Send + Sync + 'static {
    const GROUPS: &'static [Group];
}

/// All options.
#[derive(Clone, Debug)]
pub(crate) struct Everything;
/// Options of the sink.
#[derive(Clone, Debug)]
pub(crate) struct OfSink;
/// Options of the language model.
#[derive(Clone, Debug)]
pub(crate) struct OfModel;
/// Options of the embedding service.
#[derive(Clone, Debug)]
pub(crate) struct OfEmbedder;

impl Has for Everything {
    const GROUPS: &'static [Group] = &Group::ALL;
}

impl Has for OfSink {
    const GROUPS: &'static [Group] = &[Group::Sink];
}

impl Has for OfModel {
    const GROUPS: &'static [Group] = &[Group::Model];
}

impl Has for OfEmbedder {
    const GROUPS: &'static [Group] = &[Group::Embedder];
}

/// Flags of `garth serve` and `garth config`.
pub(crate) type ServeFlags = Flags<Everything>;
/// Flags of verbs that deliver events.
pub(crate) type SinkFlags = Flags<OfSink>;
/// Flags of verbs that ask a model.
pub(crate) type ModelFlags = Flags<OfModel>;
/// Flags of verbs that use an embedding service.
pub(crate) type EmbedderFlags = Flags<OfEmbedder>;

/// Flags of groups of options, and `--config`, for clap.
#[derive(Clone, Debug)]
pub(crate) struct Flags<G> {
    pub(crate) given: FlagValues,
    groups: PhantomData<G>,
}

impl<G: Has> Flags<G> {
    fn settings() -> impl Iterator<Item = &'static Setting> {
        TABLE.iter().filter(|setting| G::GROUPS.contains(&setting.group) && !setting.is_secret())
    }
}

impl<G: Has> Args for Flags<G> {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new(CONFIG)
            .long(CONFIG)
            .value_name("FILE")
            .value_hint(ValueHint::FilePath)
            .value_parser(clap::value_parser!(PathBuf))
            .help("File with options [env: GARTH_CONFIG] [default: garth.toml in the data folder]");
        Self::settings().fold(command.arg(config), |command, setting| command.arg(arg(setting)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn arg(setting: &'static Setting) -> Arg {
    let help = setting.meaning.trim_end_matches('.').replace('`', "");
    let default =
        setting.default.as_ref().map_or_else(String::new, |default| format!(" [default: {default}]"));
    let help = format!("{help} [env: {}]{default}", setting.variable);
    let arg =
        Arg::new(setting.key).long(setting.flag.as_str()).value_name(setting.kind.placeholder()).help(help);
    let arg = match setting.kind {
        // Accepts `--access-log` and `--access-log=false`.
        Kind::Flag => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
        kind if kind.is_list() => arg.action(ArgAction::Append),
        Kind::File => arg.value_hint(ValueHint::FilePath),
        _ => arg,
    };
    if setting.group.is_limits() {
        // `--help` describes limits, `-h` does not.
        arg.help_heading(setting.group.heading()).hide_short_help(true)
    } else {
        arg
    }
}

impl<G: Has> FromArgMatches for Flags<G> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let value = |setting: &'static Setting| {
            let texts = matches.get_many::<String>(setting.key)?;
            Some((setting.key, texts.map(String::as_str).collect::<Vec<_>>().join(",")))
        };
        let values = Self::settings().filter_map(value).collect();
        let config = matches.get_one::<PathBuf>(CONFIG).cloned();
        Ok(Self { given: FlagValues { values, config }, groups: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
