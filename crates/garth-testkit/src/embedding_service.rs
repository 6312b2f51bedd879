//! An embedding service of this process, behind an HTTP endpoint, that answers as a test says and notes what
//! it was asked.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

/// Request: the bytes as they were sent, and the texts in its body.
pub type Request = (String, Vec<String>);

/// An embedding service that answers until the process ends.
#[derive(Clone, Debug)]
pub struct EmbeddingService {
    url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl EmbeddingService {
    /// Starts a service. `answer` returns the status and the body of the answer to some texts.
    pub fn start(answer: impl Fn(&[String]) -> (u16, String) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let service = Self { url, requests: Arc::default() };
        let (own, answer) = (service.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (own, answer) = (own.clone(), Arc::clone(&answer));
                std::thread::spawn(move || own.serve(stream.expect("a connection"), &*answer));
            }
        });
        service
    }

    /// Returns the base URL of the endpoint.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the number of requests so far.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// Returns the texts of all requests so far.
    pub fn inputs(&self) -> Vec<String> {
        self.lock().iter().flat_map(|(_, texts)| texts.clone()).collect()
    }

    /// Returns all requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Request>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers the request of a connection.
    fn serve(&self, mut stream: TcpStream, answer: &dyn Fn(&[String]) -> (u16, String)) {
        let (mut read, mut piece) = (Vec::new(), [0; 4096]);
        let body = loop {
            let length = stream.read(&mut piece).expect("a request");
            assert!(length > 0, "closed within a request");
            read.extend_from_slice(&piece[..length]);
            let Some(end) = read.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { continue };
            let head = String::from_utf8_lossy(&read[..end]).to_lowercase();
            let due = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let due: usize = due.expect("a length").parse().expect("a number");
            if read.len() - end - 4 >= due {
                break end + 4;
            }
        };
        let json: Value = serde_json::from_slice(&read[body..]).expect("JSON");
        let texts: Vec<String> = serde_json::from_value(json["input"].clone()).expect("texts");
        let request = String::from_utf8(read).expect("UTF-8");
        self.lock().push((request, texts.clone()));
        let (status, body) = answer(&texts);
        let length = body.len();
        let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
        // The client may have given up.
        stream.write_all(format!("{head}{body}").as_bytes()).ok();
    }
}

/// Returns an answer with these vectors, in the reverse order, and with a number of tokens.
pub fn reply(vectors: impl IntoIterator<Item = Vec<f64>>, tokens: u64) -> (u16, String) {
    let item = |(index, embedding): (usize, Vec<f64>)| json!({"index": index, "embedding": embedding});
    let mut data: Vec<Value> = vectors.into_iter().enumerate().map(item).collect();
    data.reverse();
    (200, json!({"data": data, "usage": {"total_tokens": tokens}}).to_string())
}
