//! Table of options: those of the command line, and the limits that the server declares.

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use garth_engine::compute::{ComputeLimits, MAX_PIECE};
use garth_server::{Limit, Limits, Unit};

use super::kind::{Kind, Value};
use super::operations::operations;
use super::setting::{Apply, Group, Setting};
use super::settings::{LogFormat, Settings};

/// All options, in the order of the reference page.
pub(crate) static TABLE: LazyLock<Vec<Setting>> = LazyLock::new(|| {
    let own = [server(), operations(), log(), sink(), model(), embedder(), storage()].into_iter().flatten();
    let mut all: Vec<Setting> = own.chain(Limits::table().iter().map(limit)).collect();
    // The sort is stable: within its group, each option keeps its place.
    all.sort_by_key(|setting| Group::ALL.iter().position(|group| *group == setting.group));
    all
});

/// Returns the option with a name.
pub(crate) fn find(key: &str) -> Option<&'static Setting> {
    TABLE.iter().find(|setting| setting.key == key)
}

fn own(
    group: Group,
    key: &'static str,
    kind: Kind,
    default: Option<&str>,
    meaning: &'static str,
    apply: fn(&mut Settings, Value),
) -> Setting {
    Setting::new(group, key, kind, default.map(str::to_owned), meaning, Apply::Own(apply))
}

fn limit(limit: &'static Limit) -> Setting {
    let Limit { name, unit, default, min, max, meaning, .. } = *limit;
    let kind = match unit {
        Unit::Count => Kind::Count { min, max },
        Unit::Bytes => Kind::Bytes { min, max },
        Unit::Time => Kind::Time { min, max },
    };
    let group = match name {
        "stop_delay" | "stop_grace" | "min_free_disk" => Group::Server,
        "deliveries" | "sink_timeout" => Group::Sink,
        "model_timeout" | "model_max_answer" | "model_calls" => Group::Model,
        "embedder_timeout" | "embedder_max_answer" | "embedder_cache" | "embedder_room" => Group::Embedder,
        _ if name.starts_with("courier_") || name.starts_with("compactions") => Group::Background,
        _ if name.starts_with("resets") || name == "collect_sessions" || name == "repair_steps" => {
            Group::Background
        }
        _ => Group::Requests,
    };
    let default = Some(kind.show(&Value::Number(default)));
    Setting::new(group, name, kind, default, meaning.trim(), Apply::Limit)
}

fn server() -> Vec<Setting> {
    let own = |key, kind, default, meaning, apply| own(Group::Server, key, kind, default, meaning, apply);
    vec![
        own(
            "listen",
            Kind::Addresses,
            Some("127.0.0.1:8787, [::1]:8787"),
            "Addresses to listen on. Port 0 picks a free one.",
            |settings, value| settings.listen = value.texts(),
        ),
        own(
            "backlog",
            Kind::Count { min: 1, max: 65_535 },
            Some("1024"),
            "Connections that may wait to be accepted, as far as the system allows (`net.core.somaxconn`).",
            |settings, value| settings.backlog = value.number().try_into().unwrap_or(u32::MAX),
        ),
        own(
            "hosts",
            Kind::Hosts,
            None,
            "Names in the header `Host` that the server answers to, without ports; `*` stands for any. The names of \
             loopback (`localhost`, `127.0.0.1`, `[::1]`) are always among them. Without a value, a server that \
             listens on loopback only has no other names, and any other server has any name.",
            |settings, value| settings.hosts = value.texts(),
        ),
        own(
            "origins",
            Kind::Origins,
            None,
            "Origins of pages of other sites that may call the server from a browser, such as \
             `https://app.example.com`; `*` stands for any. Requests with another `Origin` are refused.",
            |settings, value| settings.origins = value.texts(),
        ),
        own(
            "rate_limits",
            Kind::Words(&["auto", "on", "off"]),
            Some("auto"),
            "Applies the limits on calls: `reads_per_minute`, `writes_per_minute`, `searches_per_minute` and \
             `account_calls`. `auto` applies them unless the server listens on loopback only.",
            |settings, value| {
                settings.limit_calls = match value.text().as_str() {
                    "on" => Some(true),
                    "off" => Some(false),
                    _ => None,
                };
            },
        ),
        own(
            "collect_history",
            Kind::Flag,
            Some("false"),
            "Removes messages and events, too, if the `gc.policy` of a session says so.",
            |settings, value| settings.collect_history = value.flag(),
        ),
    ]
}

fn log() -> Vec<Setting> {
    let own = |key, kind, default, meaning, apply| own(Group::Log, key, kind, default, meaning, apply);
    vec![
        own(
            "log",
            Kind::LogFilter,
            Some("info"),
            "Level of the log, `error`, `warn`, `info`, `debug`, `trace` or `off`, or levels of parts of garth, such as \
             `warn,garth_server=debug`.",
            |settings, value| settings.log = value.text(),
        ),
        own(
            "log_format",
            Kind::Words(&["text", "json"]),
            Some("text"),
            "Form of the log: lines of text, or one JSON object a line.",
            |settings, value| {
                settings.log_format = if value.text() == "json" { LogFormat::Json } else { LogFormat::Text };
            },
        ),
        own(
            "access_log",
            Kind::Flag,
            Some("false"),
            "Logs each request, whatever the level: request id, key id, method, path, status, bytes, microseconds.",
            |settings, value| settings.access_log = value.flag(),
        ),
    ]
}

fn sink() -> Vec<Setting> {
    let own = |key, kind, meaning, apply| own(Group::Sink, key, kind, None, meaning, apply);
    vec![
        own(
            "sink",
            Kind::HookUrl,
            "Endpoint, `http://` or `https://`, to which events of memories are delivered. Without one they are not \
             delivered.",
            |settings, value| settings.sink = Some(value.text()),
        ),
        own(
            "sink_secret_file",
            Kind::File,
            "File with the secret that signs the requests to the sink, 16 bytes or more; a final line feed is \
             ignored.",
            |settings, value| settings.sink_secret_file = Some(PathBuf::from(value.text())),
        ),
        own("sink_secret", Kind::Secret, "The secret itself, instead of a file.", |settings, value| {
            settings.sink_secret = Some(value.text());
        }),
    ]
}

fn model() -> Vec<Setting> {
    let own = |key, kind, meaning, apply| own(Group::Model, key, kind, None, meaning, apply);
    vec![
        own(
            "model_endpoint",
            Kind::Url,
            "Base URL of an endpoint that speaks OpenAI's chat completions, such as \
             `http://localhost:11434/v1`.",
            |settings, value| settings.model_endpoint = Some(value.text()),
        ),
        own("model", Kind::Text("NAME"), "Name of the model at the endpoint.", |settings, value| {
            settings.model = Some(value.text());
        }),
        own("model_key_file", Kind::File, "File with the API key of the endpoint.", |settings, value| {
            settings.model_key_file = Some(PathBuf::from(value.text()));
        }),
        own("model_key", Kind::Secret, "The API key itself, instead of a file.", |settings, value| {
            settings.model_key = Some(value.text());
        }),
        own(
            "model_daily_tokens",
            Kind::Tokens,
            "Token limit of each account per day (UTC); beyond it garth works without the model. Without a value \
             there is no limit.",
            |settings, value| settings.model_daily_tokens = Some(value.number()),
        ),
    ]
}

fn embedder() -> Vec<Setting> {
    let own = |key, kind, meaning, apply| own(Group::Embedder, key, kind, None, meaning, apply);
    vec![
        own(
            "embedder_endpoint",
            Kind::Url,
            "Base URL of an endpoint that speaks OpenAI's embeddings API, such as `http://localhost:11434/v1`. It \
             gets questions, and texts that recall may show for them.",
            |settings, value| settings.embedder_endpoint = Some(value.text()),
        ),
        own(
            "embedder",
            Kind::Text("NAME"),
            "Name of the embedding model at the endpoint.",
            |settings, value| settings.embedder = Some(value.text()),
        ),
        own(
            "embedder_key_file",
            Kind::File,
            "File with the API key of the endpoint of the embedding model.",
            |settings, value| settings.embedder_key_file = Some(PathBuf::from(value.text())),
        ),
        own("embedder_key", Kind::Secret, "The API key itself, instead of a file.", |settings, value| {
            settings.embedder_key = Some(value.text());
        }),
        own(
            "embedder_daily_tokens",
            Kind::Tokens,
            "Token limit of each account per day (UTC); beyond it recall works without the embedding model. \
             Without a value there is no limit.",
            |settings, value| settings.embedder_daily_tokens = Some(value.number()),
        ),
    ]
}

fn storage() -> Vec<Setting> {
    let own =
        |key, kind, default, meaning, apply| own(Group::Storage, key, kind, Some(default), meaning, apply);
    let threads = Kind::Count { min: 1, max: 256 };
    let mut storage = vec![
        own(
            "open_trees",
            Kind::Count { min: 1, max: 1_000_000 },
            "1000",
            "Unused accounts that stay open.",
            |settings, value| settings.storage.open_trees = value.size(),
        ),
        own(
            "idle_connections",
            Kind::Count { min: 1, max: 100_000 },
            "256",
            "Unused connections to databases that stay open, as far as the limit of open files allows.",
            |settings, value| settings.storage.idle_connections = value.size(),
        ),
        own(
            "writer_threads",
            threads,
            "8",
            "Threads that write: commits, checkpoints and steps of maintenance.",
            |settings, value| settings.storage.writer_threads = value.size(),
        ),
        own(
            "reader_threads",
            threads,
            "8",
            "Threads for searches and other long reads. One account uses two of them at most.",
            |settings, value| settings.storage.reader_threads = value.size(),
        ),
        own(
            "read_time",
            Kind::Time { min: 100, max: 86_400_000 },
            "10s",
            "Time limit of a long read, including the wait for its turn.",
            |settings, value| settings.storage.read_time = Duration::from_millis(value.number()),
        ),
        own(
            "collecting",
            Kind::Flag,
            "true",
            "Collects open accounts in the background, as `garth gc` does: what is expired, unused, or past \
             the retention of its account.",
            |settings, value| settings.storage.collecting = value.flag(),
        ),
        own(
            "compute_threads",
            threads,
            "8",
            "Threads that compute packs, prompts, recall and transcripts. One account uses two of them at most.",
            |settings, value| settings.storage.compute_threads = value.size(),
        ),
    ];
    storage.extend(computing());
    storage.push(own(
        "postgres_connections",
        Kind::Count { min: 1, max: 10_000 },
        "16",
        "Connections to the database of `--postgres`. Those of all servers must be fewer than its \
         `max_connections`.",
        |settings, value| settings.storage.postgres_connections = value.size(),
    ));
    storage
}

fn computing() -> [Setting; 2] {
    let ComputeLimits { queued, steps, .. } = ComputeLimits::default();
    let own = |key, min: u64, max: u64, default: u64, meaning, apply| {
        let kind = Kind::Bytes { min, max };
        own(Group::Storage, key, kind, Some(&kind.show(&Value::Number(default))), meaning, apply)
    };
    [
        own(
            "compute_queue",
            2 * MAX_PIECE as u64,
            64 << 30,
            queued as u64,
            "Total input of the work that is computed or waits for it. One account uses half of it at most.",
            |settings, value| settings.storage.compute_queue = value.size(),
        ),
        own(
            "compute_steps",
            64 << 20,
            1 << 40,
            steps,
            "Text that one call may read while it computes; beyond it the call fails.",
            |settings, value| settings.storage.compute_steps = value.number(),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declares_each_option_once() {
        for (at, setting) in TABLE.iter().enumerate() {
            let key = setting.key;
            assert!(TABLE[..at].iter().all(|other| other.key != key), "{key}");
            assert!(key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{key}");
            assert!(setting.meaning.ends_with('.') && !setting.meaning.contains(['\n', '|']), "{key}");
        }
    }

    #[test]
    fn defaults_are_within_their_bounds() {
        for setting in &*TABLE {
            let Some(default) = &setting.default else { continue };
            let value = setting.kind.parse(default).unwrap();
            assert_eq!(setting.kind.show(&value), *default, "{}", setting.key);
        }
    }

    #[test]
    fn defaults_of_storage_are_those_of_the_engine() {
        let default = |key: &str| find(key).unwrap().default.clone().unwrap();
        let engine = format!("{:?}", crate::data_folder::builder());
        for key in
            ["open_trees", "idle_connections", "writer_threads", "reader_threads", "read_time", "collecting"]
        {
            assert!(engine.contains(&format!("{key}: {}", default(key))), "{key}: {engine}");
        }
        assert_eq!(default("compute_threads"), ComputeLimits::default().threads.to_string());
    }
}
