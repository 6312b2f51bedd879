//! Private PostgreSQL server: a cluster in a temporary folder, which a test starts, stops and restarts.

mod clock;
mod template;

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use garth_engine::Env;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt::set_socket_reuseaddr,
};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub use self::clock::Clock;
use self::template::Template;
use crate::tools::{in_memory, on_disk};

/// Role of the tests, which owns the database and is no superuser.
const ROLE: &str = "garth";
/// Database of the tests.
const DATABASE: &str = "garth";
/// Superuser, who connects through the socket only.
const ADMIN: &str = "garth_admin";
/// Clients that may connect: any through the socket, which is in a folder of the server, and the role of the
/// tests through TCP.
const CLIENTS: &str = "local all all trust\nhost garth garth 127.0.0.1/32 trust\n";

/// Programs of PostgreSQL that a cluster needs.
const PROGRAMS: [&str; 3] = ["initdb", "postgres", "psql"];
/// Folder of Debian with a folder of programs for each version.
const PACKAGES: &str = "/usr/lib/postgresql";
/// Users to run the server as if the test is run by root, the first that exists.
const USERS: [&str; 2] = ["postgres", "nobody"];

/// Limit on the time until a server accepts connections, also after a crash.
const LONGEST_START: Duration = Duration::from_secs(60);
/// Pause between two looks at a starting server.
const PAUSE: Duration = Duration::from_millis(5);

/// PostgreSQL server with a cluster of its own, with the role `garth` and its database `garth`. Dropping it
/// stops the server and removes the cluster.
///
/// The server is in the process group of the test: it ends as well when a runner kills the group of a test
/// that takes too long.
#[derive(Debug)]
pub struct Cluster {
    folder: TempDir,
    programs: PathBuf,
    user: Option<User>,
    port: ReservedPort,
    server: Option<Child>,
}

/// Result of a call, or a sentence that says what failed.
pub type Result<T> = std::result::Result<T, String>;

impl Cluster {
    /// Starts a server on a new cluster in memory, where syncs take no time: for tests of meaning. Commits
    /// survive an immediate stop of the server.
    ///
    /// # Errors
    /// If PostgreSQL is not installed: a sentence that names the missing package. If the server does not
    /// start: the end of its log.
    pub fn in_memory() -> Result<Self> {
        Self::new(&in_memory())
    }

    /// Starts a server on a new cluster on a disk: for tests of durability and speed.
    ///
    /// # Errors
    /// As [`Cluster::in_memory`].
    pub fn on_disk() -> Result<Self> {
        Self::new(&on_disk())
    }

    fn new(base: &Path) -> Result<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let programs = programs(&path, Path::new(PACKAGES))?;
        // Whoever reaches the socket is trusted.
        let private = fs::Permissions::from_mode(0o700);
        let mut builder = tempfile::Builder::new();
        let folder = builder.prefix("garth-postgres.").permissions(private).tempdir_in(base);
        let folder = folder.map_err(|e| format!("no temporary folder: {e}"))?;
        let user = User::of_server()?;
        if let Some(user) = user {
            let owned = chown(folder.path(), Some(user.uid), Some(user.gid));
            owned.map_err(|e| format!("cannot give the folder of the server to another user: {e}"))?;
        }
        let port = ReservedPort::new().map_err(|e| format!("no port for the server: {e}"))?;
        let mut cluster = Self { folder, programs, user, port, server: None };
        cluster.initialize()?;
        cluster.start()?;
        let postgres = cluster.socket_url_of(ADMIN, "postgres");
        cluster.psql(&postgres, &format!("CREATE ROLE {ROLE} LOGIN"))?;
        cluster.psql(&postgres, &format!("CREATE DATABASE {DATABASE} OWNER {ROLE}"))?;
        Ok(cluster)
    }

    /// Returns the address of the server, also while it is stopped.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port.number).into()
    }

    /// Returns the URL of the database through TCP, as role `garth`.
    pub fn tcp_url(&self) -> String {
        self.tcp_url_through(self.address())
    }

    /// Returns the URL of the database through a proxy of [`address`](Self::address).
    pub fn tcp_url_through(&self, proxy: SocketAddr) -> String {
        format!("postgresql://{ROLE}@{proxy}/{DATABASE}")
    }

    /// Returns the URL of the database through a Unix socket, as role `garth`.
    pub fn socket_url(&self) -> String {
        self.socket_url_of(ROLE, DATABASE)
    }

    /// Returns the URL of the database through a Unix socket, as a superuser.
    pub fn admin_url(&self) -> String {
        self.socket_url_of(ADMIN, DATABASE)
    }

    fn socket_url_of(&self, role: &str, database: &str) -> String {
        let (folder, port) = (self.folder.path().display(), self.port.number);
        format!("postgresql:///{database}?user={role}&host={folder}&port={port}")
    }

    /// Runs statements through `psql` and returns their rows: a line for each, `|` between columns.
    ///
    /// # Errors
    /// If there is no connection, or a statement fails: the messages of `psql`.
    pub fn psql(&self, url: &str, sql: &str) -> Result<String> {
        let mut psql = self.command("psql");
        psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"]);
        let output = psql.args(["--dbname", url, "--command", sql]).output();
        let output = succeeded("psql", output)?;
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }

    /// Stops the server at once, as in a crash: its connections end, and the next start recovers. Does
    /// nothing if it is stopped.
    ///
    /// # Errors
    /// If it cannot be signalled.
    pub fn stop_immediately(&mut self) -> Result<()> {
        let Some(mut server) = self.server.take() else { return Ok(()) };
        let signalled = kill_process(Pid::from_child(&server), Signal::QUIT);
        signalled.map_err(|e| format!("cannot stop the server: {e}"))?;
        let env = Env::system();
        while server.try_wait().map_err(|e| format!("cannot wait for the server: {e}"))?.is_none() {
            // A process that the server starts at this moment is left out: it waits for a client to log in,
            // for up to a minute, and the server for it.
            for child in children(server.id()) {
                let _ = kill_process(child, Signal::QUIT);
            }
            env.sleep(PAUSE);
        }
        Ok(())
    }

    /// Stops the server at once and starts it again, under the same addresses. Returns when it accepts
    /// connections.
    ///
    /// # Errors
    /// If it does not start: the end of its log.
    pub fn restart(&mut self) -> Result<()> {
        self.stop_immediately()?;
        self.start()
    }

    fn initialize(&self) -> Result<()> {
        // The cluster is lost after a crash of the machine in any case.
        let arguments = ["--encoding=UTF8", "--locale=C", "--auth=trust", "--no-sync"].map(str::to_owned);
        let arguments = [arguments.as_slice(), &[format!("--username={ADMIN}")]].concat();
        let (template, data) = (Template::of(&self.programs, &arguments), self.folder.path().join("data"));
        if !template.copy_to(&data, self.user.map(|user| (user.uid, user.gid))) {
            let mut initdb = self.server_command("initdb");
            succeeded("initdb", initdb.arg("--pgdata=data").args(&arguments).output())?;
            template.keep(&data);
        }
        let clients = data.join("pg_hba.conf");
        fs::write(&clients, CLIENTS).map_err(|e| format!("cannot write pg_hba.conf: {e}"))
    }

    fn start(&mut self) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.log());
        let log = log.and_then(|log| Ok((log.try_clone()?, log)));
        let (out, errors) = log.map_err(|e| format!("cannot write the log of the server: {e}"))?;
        let mut postgres = self.server_command("postgres");
        postgres.args(["-D", "data", "-p"]).arg(self.port.number.to_string());
        let sockets = self.folder.path().display().to_string();
        for (name, value) in [
            ("listen_addresses", "127.0.0.1"),
            ("unix_socket_directories", sockets.as_str()),
            // Little, because several clusters may run at once.
            ("shared_buffers", "32MB"),
            ("max_connections", "50"),
        ] {
            postgres.args(["-c", &format!("{name}={value}")]);
        }
        let server = postgres.stdout(out).stderr(errors).spawn();
        self.server = Some(server.map_err(|e| format!("postgres: {e}"))?);
        self.wait_until_ready()
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let env = Env::system();
        let started = env.instant();
        while let Some(server) = &mut self.server {
            let (id, ended) = (server.id(), server.try_wait());
            if let Some(status) = ended.map_err(|e| format!("cannot wait for the server: {e}"))? {
                self.server = None;
                return Err(format!("the server ended with {status}: {}", self.end_of_log()));
            }
            if self.is_ready(id) {
                return Ok(());
            }
            if started.elapsed() > LONGEST_START {
                break;
            }
            env.sleep(PAUSE);
        }
        Err(format!("the server was not ready after {LONGEST_START:?}: {}", self.end_of_log()))
    }

    /// Returns true once the server accepts connections. It says so in the 8th line of `postmaster.pid`,
    /// which may be that of an earlier server.
    fn is_ready(&self, id: u32) -> bool {
        let state = fs::read_to_string(self.folder.path().join("data/postmaster.pid")).unwrap_or_default();
        let lines: Vec<_> = state.lines().map(str::trim).collect();
        lines.first() == Some(&id.to_string().as_str()) && lines.get(7) == Some(&"ready")
    }

    /// Returns a program that ignores the variables of the test, which may name another server.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.env_clear().env("LC_ALL", "C").env("TZ", "UTC");
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    fn server_command(&self, program: &str) -> Command {
        let mut command = self.command(program);
        if let Some(user) = self.user {
            command.uid(user.uid).gid(user.gid);
        }
        command
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn end_of_log(&self) -> String {
        let log = fs::read(self.log()).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(2000)..]).into_owned()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.stop_immediately();
    }
}

/// Returns the processes that a process has started and that have not ended.
fn children(process: u32) -> Vec<Pid> {
    let listed = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    listed.split_whitespace().filter_map(|id| Pid::from_raw(id.parse().ok()?)).collect()
}

/// Returns the output of a program that has succeeded.
fn succeeded(program: &str, output: io::Result<Output>) -> Result<Output> {
    let output = output.map_err(|e| format!("{program}: {e}"))?;
    if output.status.success() {
        return Ok(output);
    }
    Err(format!("{program} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr)))
}

/// Returns the folder with the programs of PostgreSQL: first as in `PATH`, then the newest version of the
/// packages.
fn programs(path: &OsStr, packages: &Path) -> Result<PathBuf> {
    // A link of one program leads to the folder of all.
    let linked = std::env::split_paths(path).filter_map(|folder| {
        let initdb = folder.join("initdb").canonicalize().ok()?;
        initdb.parent().map(Path::to_owned)
    });
    let versions = fs::read_dir(packages).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut versions: Vec<PathBuf> = versions.collect();
    versions.sort_by_key(|version| {
        let number = version.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
        Reverse(number)
    });
    let packaged = versions.into_iter().map(|version| version.join("bin"));
    let has_all = |folder: &PathBuf| PROGRAMS.iter().all(|program| folder.join(program).is_file());
    linked.chain(packaged).find(has_all).ok_or_else(|| {
        "PostgreSQL is not installed: install the Debian package `postgresql` (apt-get install postgresql)"
            .to_owned()
    })
}

/// User that a server is run as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct User {
    uid: u32,
    gid: u32,
}

impl User {
    /// Returns the user for a test that is run by root, as whom PostgreSQL does not run. `None` for others.
    fn of_server() -> Result<Option<Self>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let users = fs::read_to_string("/etc/passwd").map_err(|e| format!("no users: {e}"))?;
        match USERS.iter().find_map(|name| Self::named(name, &users)) {
            Some(user) => Ok(Some(user)),
            None => {
                Err(format!("PostgreSQL does not run as root, and no user is named {}", USERS.join(" or ")))
            }
        }
    }

    /// Returns the user of this name in the text of `/etc/passwd`.
    fn named(name: &str, users: &str) -> Option<Self> {
        users.lines().find_map(|line| {
            let fields: Vec<_> = line.split(':').collect();
            match fields.as_slice() {
                [of, _, uid, gid, ..] if *of == name => {
                    Some(Self { uid: uid.parse().ok()?, gid: gid.parse().ok()? })
                }
                _ => None,
            }
        })
    }
}

/// Port of 127.0.0.1 that no other process gets, also while the server is stopped.
#[derive(Debug)]
struct ReservedPort {
    number: u16,
    /// Bound to the port, and never listening.
    _socket: OwnedFd,
}

impl ReservedPort {
    fn new() -> io::Result<Self> {
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // The server sets the option as well. Linux binds sockets that have it to one port while at most one
        // of them listens, and chooses a port for neither a client nor port 0 that is bound.
        set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
        let number = SocketAddrV4::try_from(getsockname(&socket)?)?.port();
        Ok(Self { number, _socket: socket })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn install(folder: &Path) {
        fs::create_dir_all(folder).unwrap();
        for program in PROGRAMS {
            fs::write(folder.join(program), "").unwrap();
        }
    }

    #[test]
    fn missing_server_names_its_package() {
        let folder = tempfile::tempdir().unwrap();
        let error = programs(folder.path().as_os_str(), &folder.path().join("none")).unwrap_err();
        assert!(error.contains("install the Debian package `postgresql`"), "{error}");
    }

    #[test]
    fn newest_package_is_used_unless_path_has_one() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let packages = base.join("packages");
        install(&packages.join("9/bin"));
        install(&packages.join("15/bin"));
        // Without a server, as when only its clients are installed.
        fs::create_dir_all(packages.join("17/bin")).unwrap();
        let path = base.join("path");
        fs::create_dir(&path).unwrap();
        assert_eq!(programs(path.as_os_str(), &packages), Ok(packages.join("15/bin")));
        symlink(packages.join("9/bin/initdb"), path.join("initdb")).unwrap();
        assert_eq!(programs(path.as_os_str(), &packages), Ok(packages.join("9/bin")));
    }

    #[test]
    fn user_is_found_by_its_complete_name() {
        let users =
            "root:x:0:0:root:/root:/bin/sh\npostgres2:x:7:8::/:/bin/sh\npostgres:x:101:104::/:/bin/sh\n";
        assert_eq!(User::named("postgres", users), Some(User { uid: 101, gid: 104 }));
        assert_eq!(User::named("nobody", users), None);
    }
}
