//! The address of a database, as its URL names it.

use std::time::Duration;

use garth_engine::{Error, ErrorKind, Result};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

/// Limit on the time to connect to a host, unless the URL has another one.
const LONGEST_CONNECT: Duration = Duration::from_secs(10);
/// Time without an answer after which the network is probed, so that a lost server is noticed.
const PROBE_AFTER: Duration = Duration::from_secs(30);
/// Time that sent bytes may stay without acknowledgement.
const LONGEST_SILENCE: Duration = Duration::from_secs(20);

/// Parts of the URL of a database that may be shown, and whether it has a part that may not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// URL without user, password and options.
    pub place: String,
    /// True if the URL has a password.
    pub has_password: bool,
}

impl Address {
    /// Parses a URL. Nothing is connected.
    ///
    /// # Errors
    /// `InvalidArgument` for a URL that cannot be parsed; `Unsupported` if it requires TLS. Neither repeats
    /// anything of the URL.
    pub fn of(url: &str) -> Result<Self> {
        let config = config_of(url)?;
        Ok(Self { place: place(&config), has_password: config.get_password().is_some() })
    }
}

/// Parses a URL. Errors repeat nothing of it: it may have a password.
pub(super) fn config_of(url: &str) -> Result<Config> {
    let invalid = |_| {
        Error::invalid(
            "the URL of the database is not valid; write it as postgresql://USER@HOST:PORT/DATABASE",
        )
    };
    let mut config: Config = url.parse().map_err(invalid)?;
    if config.get_ssl_mode() == SslMode::Require {
        let message = "TLS to the database is not supported; connect through a proxy on this machine, and \
            remove `sslmode` from the URL";
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    // After a failover, the first host that answers may be a standby.
    let takes_any = config.get_target_session_attrs() == TargetSessionAttrs::Any;
    if takes_any && config.get_hosts().len() > 1 {
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(LONGEST_CONNECT);
    }
    config.keepalives_idle(PROBE_AFTER).keepalives_interval(PROBE_AFTER / 3).keepalives_retries(3);
    config.tcp_user_timeout(LONGEST_SILENCE);
    if config.get_application_name().is_none() {
        config.application_name("garth");
    }
    Ok(config)
}

/// Returns the URL of a database without user, password and options.
pub(super) fn place(config: &Config) -> String {
    let ports = config.get_ports();
    let hosts = config.get_hosts().iter().enumerate().map(|(at, host)| {
        let host = match host {
            Host::Tcp(name) if name.contains(':') => format!("[{name}]"),
            Host::Tcp(name) => name.clone(),
            Host::Unix(folder) => folder.display().to_string(),
        };
        // One port may be that of all hosts.
        match ports.get(at).or(ports.first()) {
            Some(port) => format!("{host}:{port}"),
            None => host,
        }
    });
    let hosts: Vec<String> = hosts.collect();
    // The name of the role is that of the database by default.
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("postgresql://{}/{database}", hosts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_require_tls_are_refused() {
        let error = config_of("postgresql://garth@localhost/garth?sslmode=require").unwrap_err();
        assert!(error.is(ErrorKind::Unsupported), "{error}");
        config_of("postgresql://garth@localhost/garth?sslmode=prefer").unwrap();
    }

    #[test]
    fn one_of_several_hosts_must_be_the_primary() {
        let attrs = |url: &str| config_of(url).unwrap().get_target_session_attrs();
        assert_eq!(attrs("postgresql://garth@one/garth"), TargetSessionAttrs::Any);
        assert_eq!(attrs("postgresql://garth@one,two/garth"), TargetSessionAttrs::ReadWrite);
    }

    #[test]
    fn error_of_a_url_repeats_nothing_of_it() {
        for url in [
            concat!("postgresql://garth", ":hidden", "@localhost:port/garth"),
            "hidden",
            "postgresql://hidden?hidden=1",
        ] {
            let error = config_of(url).unwrap_err();
            assert!(error.is(ErrorKind::InvalidArgument), "{error}");
            assert!(!format!("{error} {error:?}").contains("hidden"), "{error:?}");
        }
    }

    #[test]
    fn place_has_no_user_and_no_password() {
        for (url, place, has_password) in [
            ("postgresql://garth@db.example.com/trees", "postgresql://db.example.com:5432/trees", false),
            (
                concat!("postgresql://garth", ":hidden", "@[::1]:5433/trees?application_name=x"),
                "postgresql://[::1]:5433/trees",
                true,
            ),
            ("postgresql://localhost/trees?password=hidden", "postgresql://localhost:5432/trees", true),
            ("host=/run/postgresql user=garth password=hidden", "postgresql:///run/postgresql/garth", true),
        ] {
            let address = Address::of(url).unwrap();
            assert_eq!((&*address.place, address.has_password), (place, has_password));
            assert!(!format!("{address:?}").contains("hidden"), "{address:?}");
        }
    }
}
