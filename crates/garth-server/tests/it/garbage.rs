//! Random requests from a fixed seed: no answer is a 5xx, and each failure has the error envelope.

use super::harness::{Connection, Server, request};

/// Random number generator (xorshift64*). It has a fixed seed, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let mixed = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(mixed).unwrap() % bound
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most + 1)).map(|_| self.below(256).try_into().unwrap()).collect()
    }
}

const PARTS: [&str; 32] = [
    "/",
    "//",
    "..",
    ".",
    "a",
    "é",
    "🦀",
    "*",
    "**",
    "?",
    "[",
    "{",
    "%",
    "_",
    "\\\\",
    "\\u0000",
    "\\ud800",
    "\\n",
    "sys",
    ".json",
    "/a",
    "/b",
    "/sys",
    "kv",
    "agents",
    "%2e",
    "~",
    "$",
    "'",
    " ",
    "\\u202e",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
];
const VALUES: [&str; 24] = [
    "null",
    "true",
    "0",
    "-1",
    "1.10",
    "1e999",
    "99999999999999999999",
    "\"\"",
    "\"x\"",
    "[]",
    "{}",
    "[[[[1]]]]",
    "{\"a\":1,\"a\":2}",
    "[1,",
    "\"",
    "NaN",
    "0x1",
    "20",
    "\"segment\"",
    "[\"a\"]",
    "[1]",
    "0.5",
    "604800",
    "\"\\ud800\"",
];
const FIELDS: [&str; 14] = [
    "path",
    "value",
    "agent_id",
    "prefix",
    "pattern",
    "limit",
    "query",
    "tags",
    "tags_any",
    "ttl_seconds",
    "importance",
    "searchable",
    "semantics",
    "path_prefix",
];
const CALLS: [&str; 9] = ["put", "get", "delete", "list", "glob", "history", "search", "nothing", ""];

fn text(random: &mut Random) -> String {
    let start = random.pick(&["/", "/", "/", ""]);
    let parts: Vec<&str> = (0..random.below(8)).map(|_| random.pick(&PARTS)).collect();
    format!("\"{start}{}\"", parts.concat())
}

/// Returns the fields of a call, or none if there is no such call.
fn fields_of(call: &str) -> Vec<&'static str> {
    let path = format!("/v1/{call}");
    let call = garth_server::reference::calls().into_iter().find(|known| known.path == path);
    call.map(|call| call.fields.iter().map(|field| field.name).collect()).unwrap_or_default()
}

/// Returns a request that is often valid.
fn tame(random: &mut Random, call: &str) -> Vec<u8> {
    let path =
        format!("/{}/{}", random.pick(&["a", "b", "é", "%", "*"]), random.pick(&["c", "d*", "?", "_"]));
    let known = fields_of(call);
    let known = known.iter().filter(|name| ["path", "pattern", "prefix", "query", "value"].contains(*name));
    let fields = known.map(|name| match *name {
        "value" => format!("\"value\":{}", random.pick(&VALUES)),
        name => format!("\"{name}\":\"{path}\""),
    });
    format!("{{{}}}", fields.collect::<Vec<_>>().join(",")).into_bytes()
}

fn wild(random: &mut Random, call: &str) -> Vec<u8> {
    let (mut fields, known): (Vec<String>, _) = (Vec::new(), fields_of(call));
    for field in ["path", "pattern", "prefix", "query"] {
        if random.below(4) > 0 && known.contains(&field) {
            fields.push(format!("\"{field}\":{}", text(random)));
        }
    }
    for _ in 0..random.below(5) {
        let value = if random.below(2) == 0 { text(random) } else { random.pick(&VALUES).to_owned() };
        let field = match random.below(4) {
            0 => random.pick(&FIELDS),
            _ => known.get(random.below(known.len().max(1))).copied().unwrap_or("path"),
        };
        fields.push(format!("\"{field}\":{value}"));
    }
    let mut body = format!("{{{}}}", fields.join(",")).into_bytes();
    if random.below(6) == 0 {
        let at = random.below(body.len());
        body[at] = random.below(256).try_into().unwrap();
    }
    body
}

#[test]
fn random_requests_never_cause_5xx() {
    let server = Server::start();
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let (mut fine, mut refused, mut wrong_keys) = (0, 0, 0);
    for number in 0..2000 {
        let call = random.pick(&CALLS);
        let body = match random.below(10) {
            0 => random.bytes(300),
            1..=4 => tame(&mut random, call),
            _ => wild(&mut random, call),
        };
        let method = random.pick(&["POST", "POST", "POST", "POST", "POST", "POST", "GET", "PUT", "X"]);
        let mut headers = match random.below(12) {
            0 => String::new(),
            // More of them would be answered later and later.
            1 if wrong_keys < 8 => {
                wrong_keys += 1;
                "authorization: Bearer garth_x.y\r\n".to_owned()
            }
            _ => format!("authorization: Bearer {}\r\n", server.key),
        };
        if random.below(4) == 0 {
            headers.push_str(&format!("idempotency-key: {}\r\n", random.pick(&["a", "b-c", "d e", "", "é"])));
        }
        let mut bytes = request(method, &format!("/v1/{call}"), &headers, &body);
        if random.below(15) == 0 {
            let at = random.below(bytes.len().min(40));
            bytes[at] = random.below(256).try_into().unwrap();
        }
        let mut connection = Connection::open(server.address);
        connection.send(&bytes);
        connection.end();
        let Some(reply) = connection.reply_or_close() else { continue };
        let shown = format!("request {number}: {:?}", String::from_utf8_lossy(&bytes));
        assert!(reply.status < 500, "{shown}: {}", reply.status);
        if reply.status == 200 {
            fine += 1;
        } else {
            assert!(reply.json()["error"]["code"].is_string(), "{shown}");
            reply.envelope();
            refused += 1;
        }
    }
    assert_eq!(fine + refused, 2000, "each is answered, though the client ends its side at once");
    assert!(fine > 200 && refused > 500, "{fine} answered, {refused} refused: the mix proves little");
    assert_eq!(server.request("GET", "/healthz", "", b"").status, 200);
}
