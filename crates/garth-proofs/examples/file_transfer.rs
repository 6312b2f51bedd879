//! Time of one large file up and down over HTTP, beside a bare axum server that keeps files on the same disk:
//! ```sh
//! cargo run --profile dist -p garth-proofs --example file_transfer -- 1024 5
//! ```
//! The arguments are the size in MiB and the number of rounds. The two servers take turns. Both make an
//! upload durable before they answer it. Each upload has content of its own, so that no chunk is stored
//! already. garth keeps every version, so the disk needs room for one file more than there are rounds.
#![allow(clippy::print_stdout, reason = "its purpose is to print figures")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_LENGTH;
use axum::response::Response;
use axum::routing::get;
use futures::StreamExt as _;
use futures::executor::block_on;
use garth_engine::DataDir;
use garth_engine::datadir::Scope;
use garth_server::Options;
use tokio::net::TcpListener;
use tokio::task::block_in_place;

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// Bytes of one piece, of both servers and the client.
const PIECE: usize = 1 << 20;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mib: usize = arguments.next().map_or(Ok(1024), |size| size.parse())?;
    let rounds: usize = arguments.next().map_or(Ok(5), |rounds| rounds.parse())?;
    let folder = tempfile::tempdir()?;
    let home = DataDir::builder(garth_agent::registry()).open(&folder.path().join("data"))?;
    block_on(home.create_account("acme"))?;
    let key = block_on(home.control().create_key("acme", "transfer", &[Scope::Admin]))?.1.reveal().to_owned();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let listen = || runtime.block_on(TcpListener::bind("127.0.0.1:0"));
    let (garth, bare) = (listen()?, listen()?);
    let targets = [
        Target { name: "garth", address: garth.local_addr()?, path: "/v1/fs/file", key: key.clone() },
        Target { name: "axum", address: bare.local_addr()?, path: "/file", key },
    ];
    runtime.spawn(garth_server::serve(
        std::sync::Arc::new(home),
        vec![garth],
        Options::default(),
        std::future::pending(),
    ));
    let file = folder.path().join("file");
    runtime.spawn(async move { axum::serve(bare, router(file)).await });

    let mut times = [[(); 2].map(|()| Vec::new()), [(); 2].map(|()| Vec::new())];
    for round in 0..rounds {
        for (target, times) in targets.iter().zip(&mut times) {
            let seed = (round as u64 + 1) << 32;
            times[0].push(target.upload(seed, mib)?);
            times[1].push(target.download(seed, mib)?);
        }
    }
    println!("{mib} MiB, medians of {rounds} rounds");
    for (way, name) in ["up", "down"].into_iter().enumerate() {
        let [garth, bare] = [0, 1].map(|server: usize| median(&mut times[server][way]));
        let speed = |time: Duration| mib as f64 / time.as_secs_f64();
        println!(
            "{name:>4}: {} {:.0} MiB/s, {} {:.0} MiB/s, ratio {:.2}",
            targets[0].name,
            speed(garth),
            targets[1].name,
            speed(bare),
            bare.as_secs_f64() / garth.as_secs_f64()
        );
    }
    // The tasks of the servers have no end of their own.
    runtime.shutdown_background();
    Ok(())
}

/// Returns the median of the times.
fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Server to be measured.
struct Target {
    name: &'static str,
    address: SocketAddr,
    path: &'static str,
    key: String,
}

impl Target {
    /// Sends a request without its body.
    fn connect(&self, method: &str, length: usize) -> Result<BufReader<TcpStream>> {
        let mut stream = TcpStream::connect(self.address)?;
        let (path, key) = (self.path, &self.key);
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\ncontent-length: {length}\r\n\
             connection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        Ok(BufReader::with_capacity(PIECE, stream))
    }

    /// Uploads the file, and returns the time until the answer.
    fn upload(&self, seed: u64, mib: usize) -> Result<Duration> {
        let begun = Instant::now();
        let mut stream = self.connect("PUT", mib << 20)?;
        let mut piece = vec![7; PIECE];
        for number in 0..mib as u64 {
            stamp(&mut piece, seed + number);
            stream.get_mut().write_all(&piece)?;
        }
        head(&mut stream)?;
        Ok(begun.elapsed())
    }

    /// Downloads the file, compares it, and returns the time until its last byte.
    fn download(&self, seed: u64, mib: usize) -> Result<Duration> {
        let begun = Instant::now();
        let mut stream = self.connect("GET", 0)?;
        head(&mut stream)?;
        let (mut piece, mut due) = (vec![0; PIECE], vec![7; PIECE]);
        for number in 0..mib as u64 {
            stream.read_exact(&mut piece)?;
            stamp(&mut due, seed + number);
            if piece != due {
                return Err(format!("{} returned other bytes in MiB {number}", self.name).into());
            }
        }
        Ok(begun.elapsed())
    }
}

/// Makes a piece one of its own.
fn stamp(piece: &mut [u8], number: u64) {
    // In several places, so that no part of it is stored already.
    for part in piece.chunks_exact_mut(1 << 10) {
        part[..8].copy_from_slice(&number.to_le_bytes());
    }
}

/// Reads the head of an answer.
fn head(stream: &mut BufReader<TcpStream>) -> Result<()> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    if !line.starts_with("HTTP/1.1 20") {
        return Err(format!("refused: {line}").into());
    }
    while line.trim_end() != "" {
        line.clear();
        stream.read_line(&mut line)?;
    }
    Ok(())
}

/// Returns the bare server: one file, which an upload replaces.
fn router(file: PathBuf) -> Router {
    let read = async |State(file): State<PathBuf>| read(&file).map_err(|_| StatusCode::NOT_FOUND);
    let write = async |State(file): State<PathBuf>, body: Body| match write(&file, body).await {
        Ok(()) => StatusCode::CREATED,
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Router::new().route("/file", get(read).put(write)).with_state(file)
}

fn read(file: &Path) -> std::io::Result<Response> {
    let file = File::open(file)?;
    let length = file.metadata()?.len();
    let pieces = futures::stream::try_unfold(file, |mut file| async move {
        let mut piece = Vec::with_capacity(PIECE);
        block_in_place(|| (&mut file).take(PIECE as u64).read_to_end(&mut piece))?;
        Ok::<_, std::io::Error>((!piece.is_empty()).then_some((piece, file)))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    response.headers_mut().insert(CONTENT_LENGTH, length.into());
    Ok(response)
}

async fn write(file: &Path, body: Body) -> std::io::Result<()> {
    let new = file.with_extension("new");
    let mut target = File::create(&new)?;
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(std::io::Error::other)?;
        block_in_place(|| target.write_all(&piece))?;
    }
    block_in_place(|| {
        target.sync_all()?;
        std::fs::rename(&new, file)?;
        File::open(file.parent().unwrap_or(Path::new("/")))?.sync_all()
    })
}
