//! TCP proxy on 127.0.0.1 in front of a server of a test. It delays each direction, counts trips, and cuts a
//! connection after a number of bytes.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use garth_engine::Env;

/// Direction of bytes through a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From clients to the server.
    ToServer,
    /// From the server to clients.
    ToClient,
}

/// Proxy of one server. Dropping it closes its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

/// Longest piece that is passed on at once, in bytes.
const PIECE: usize = 1 << 16;
/// Pieces of a direction that may wait for their delay. Beyond them, the sender waits, as for a slow network.
const WAITING: usize = 1024;

/// Bytes that were received, and the time at which they are passed on.
type Piece = (Instant, Vec<u8>);

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    env: Env,
    trips: AtomicU64,
    controls: Mutex<Controls>,
}

#[derive(Debug, Default)]
struct Controls {
    delay: Duration,
    /// Direction and number of bytes that still pass before a connection is cut.
    cut: Option<(Direction, usize)>,
    cuts: u64,
    ended: bool,
    connections: Vec<Weak<Connection>>,
}

/// Connection of a client, and the one to the server that belongs to it.
#[derive(Debug)]
struct Connection {
    client: TcpStream,
    server: TcpStream,
    /// True if the client has sent something since it last got something.
    asked: AtomicBool,
}

impl Proxy {
    /// Starts a proxy of a server. It delays and cuts nothing until a test asks for that.
    ///
    /// # Errors
    /// If no port of 127.0.0.1 can be listened on.
    pub fn to(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            server,
            env: Env::system(),
            trips: AtomicU64::new(0),
            controls: Mutex::default(),
        });
        let accepting = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.accept(&listener)
        });
        Ok(Self { address, shared, accepting: Some(accepting) })
    }

    /// Returns the address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Holds the bytes that are received from now on for `each_way`, in both directions: a trip then takes at
    /// least twice as long.
    pub fn delay(&self, each_way: Duration) {
        self.shared.controls().delay = each_way;
    }

    /// Returns the number of trips so far: of answers, to all clients, that came after the client had sent
    /// something. Everything that a client sends before the answer arrives is one trip.
    pub fn trips(&self) -> u64 {
        self.shared.trips.load(Ordering::SeqCst)
    }

    /// Cuts a connection once: passes the next `bytes` bytes of a direction, counted over all connections,
    /// then closes the connection that carried the last of them, or for 0 the one that carries the next byte.
    /// Bytes of the other direction that are under way may still arrive.
    pub fn cut_after(&self, direction: Direction, bytes: usize) {
        self.shared.controls().cut = Some((direction, bytes));
    }

    /// Returns the number of connections that were cut. A cut is counted before the client sees it.
    pub fn cuts(&self) -> u64 {
        self.shared.controls().cuts
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.controls().ended = true;
        // Wakes the thread that waits for connections.
        let woken = TcpStream::connect(self.address).is_ok();
        if let Some(accepting) = self.accepting.take().filter(|_| woken) {
            let _ = accepting.join();
        }
        let connections = std::mem::take(&mut self.shared.controls().connections);
        connections.iter().filter_map(Weak::upgrade).for_each(|connection| connection.close());
    }
}

impl Shared {
    fn controls(&self) -> MutexGuard<'_, Controls> {
        self.controls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming() {
            if self.controls().ended {
                return;
            }
            // Without a server behind it, the connection is closed: the client sees that it is gone.
            let Ok(connection) = client.and_then(|client| self.connect(client)) else { continue };
            for direction in [Direction::ToServer, Direction::ToClient] {
                self.carry(&connection, direction);
            }
        }
    }

    fn connect(&self, client: TcpStream) -> io::Result<Arc<Connection>> {
        let server = TcpStream::connect(self.server)?;
        for stream in [&client, &server] {
            // The kernel would hold small pieces for longer than the delay.
            stream.set_nodelay(true)?;
        }
        let connection = Arc::new(Connection { client, server, asked: AtomicBool::new(false) });
        let mut controls = self.controls();
        controls.connections.retain(|connection| connection.strong_count() > 0);
        controls.connections.push(Arc::downgrade(&connection));
        drop(controls);
        Ok(connection)
    }

    /// Starts the threads of a direction: one receives, one sends after the delay. So delayed pieces do not
    /// delay the receipt of the next ones.
    fn carry(self: &Arc<Self>, connection: &Arc<Connection>, direction: Direction) {
        let (queue, pieces) = sync_channel(WAITING);
        let (shared, from) = (Arc::clone(self), Arc::clone(connection));
        std::thread::spawn(move || shared.receive(&from, direction, &queue));
        let (shared, to) = (Arc::clone(self), Arc::clone(connection));
        std::thread::spawn(move || shared.send(&to, direction, pieces));
    }

    fn receive(&self, connection: &Connection, direction: Direction, queue: &SyncSender<Piece>) {
        let mut from = match direction {
            Direction::ToServer => &connection.client,
            Direction::ToClient => &connection.server,
        };
        let mut bytes = vec![0; PIECE];
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            if direction == Direction::ToServer {
                connection.asked.store(true, Ordering::SeqCst);
            }
            let due = self.env.instant() + self.controls().delay;
            if queue.send((due, bytes[..length].to_vec())).is_err() {
                return;
            }
        }
    }

    fn send(&self, connection: &Connection, direction: Direction, pieces: Receiver<Piece>) {
        let mut to = match direction {
            Direction::ToServer => &connection.server,
            Direction::ToClient => &connection.client,
        };
        for (due, bytes) in pieces {
            self.env.sleep(due.saturating_duration_since(self.env.instant()));
            let (length, is_cut) = self.allowed(direction, bytes.len());
            // Counted before the client can read the answer, so that it finds the trip counted.
            if direction == Direction::ToClient
                && length > 0
                && connection.asked.swap(false, Ordering::SeqCst)
            {
                self.trips.fetch_add(1, Ordering::SeqCst);
            }
            let sent = to.write_all(&bytes[..length]);
            if is_cut || sent.is_err() {
                connection.close();
                return;
            }
        }
        // Only this direction has ended.
        let _ = to.shutdown(Shutdown::Write);
    }

    /// Returns how many of the next `length` bytes pass, and whether the connection is cut after them.
    fn allowed(&self, direction: Direction, length: usize) -> (usize, bool) {
        let mut controls = self.controls();
        let Some((_, left)) = controls.cut.filter(|(of, _)| *of == direction) else {
            return (length, false);
        };
        if length < left {
            controls.cut = Some((direction, left - length));
            return (length, false);
        }
        controls.cut = None;
        controls.cuts += 1;
        (left, true)
    }
}

impl Connection {
    /// Closes both sides, which also ends the threads that wait for them.
    fn close(&self) {
        for stream in [&self.client, &self.server] {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}
