//! `serve` beside a map: random requests in random pieces, clients that vanish, garbage, and each way to end it.

mod common;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use common::Random;

const SERVE: &str = env!("CARGO_BIN_EXE_serve");

/// A server, and what it says. It goes with this.
struct Server {
    process: Child,
    output: BufReader<ChildStdout>,
    address: String,
}

impl Server {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(SERVE);
        command.args(["--device", "cpu", "--bind", "127.0.0.1:0"]).args(arguments).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let address = line.split_whitespace().nth(2).unwrap_or_default().trim_end_matches(',').to_owned();
        Self { process, output, address }
    }
    fn connect(&self) -> Client {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(100))).unwrap();
        Client { reader: BufReader::new(stream.try_clone().unwrap()), stream }
    }
    fn signal(&self, signal: i32) {
        let status =
            Command::new("kill").arg(format!("-{signal}")).arg(self.process.id().to_string()).status();
        assert!(status.unwrap().success());
    }
    /// Waits for its end: how it ended, and what it said last.
    fn end(mut self) -> (ExitStatus, String) {
        let started = Instant::now();
        let status = loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                break status;
            }
            assert!(started.elapsed() < Duration::from_secs(100), "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut said = String::new();
        self.output.read_to_string(&mut said).unwrap();
        (status, said)
    }
    /// Ends it by a signal: requests that it answered, and of how many connections.
    fn stop(self) -> (u64, u64) {
        self.signal(15);
        let (status, said) = self.end();
        assert!(status.success(), "{status}: {said}");
        let numbers: Vec<u64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        (numbers[0], numbers[1])
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Reply {
    Line(String),
    Error(String),
    Number(i64),
    Text(Option<Vec<u8>>),
    List(Vec<Reply>),
}

fn ok() -> Reply {
    Reply::Line("OK".into())
}

struct Client {
    reader: BufReader<TcpStream>,
    stream: TcpStream,
}

impl Client {
    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }
    fn reply(&mut self) -> Reply {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        let line = line.strip_suffix("\r\n").unwrap_or_else(|| panic!("the connection ended: {line:?}"));
        let (kind, rest) = line.split_at(1);
        match kind {
            "+" => Reply::Line(rest.into()),
            "-" => Reply::Error(rest.into()),
            ":" => Reply::Number(rest.parse().unwrap()),
            "$" if rest == "-1" => Reply::Text(None),
            "$" => {
                let mut text = vec![0; rest.parse::<usize>().unwrap() + 2];
                self.reader.read_exact(&mut text).unwrap();
                assert_eq!(text.split_off(text.len() - 2), b"\r\n");
                Reply::Text(Some(text))
            }
            "*" => Reply::List((0..rest.parse().unwrap()).map(|_| self.reply()).collect()),
            _ => panic!("{line}"),
        }
    }
    fn ask(&mut self, words: &[&[u8]]) -> Reply {
        self.send(&request(words));
        self.reply()
    }
    /// What comes until the server closes the connection.
    fn rest(mut self) -> String {
        let mut rest = String::new();
        // A reset counts as an end: what the client sent may not have been read.
        let _ = self.reader.read_to_string(&mut rest);
        rest
    }
}

fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).bytes());
        bytes.extend_from_slice(word);
        bytes.extend(b"\r\n");
    }
    bytes
}

/// Keys and values as they should be.
#[derive(Default)]
struct Model(HashMap<Vec<u8>, Vec<u8>>);

impl Model {
    /// A random request about the keys of one client, and its reply.
    fn step(&mut self, random: &mut Random, client: u64) -> (Vec<u8>, Reply) {
        let mut key = || format!("{client}:{}", random.below(30)).into_bytes();
        let keys: Vec<_> = (0..3).map(|_| key()).collect();
        let number = format!("n{client}").into_bytes();
        let length = if random.below(40) == 0 { random.below(60_000) } else { random.below(100) };
        let value: Vec<u8> = (0..length).map(|at| (at * 31 + client) as u8).collect();
        let text = |found: Option<&Vec<u8>>| Reply::Text(found.cloned());
        let words: Vec<&[u8]>;
        let reply = match random.below(9) {
            0..=2 => {
                words = vec![b"set", &keys[0], &value];
                self.0.insert(keys[0].clone(), value.clone());
                ok()
            }
            3 | 4 => {
                words = vec![b"GET", &keys[0]];
                text(self.0.get(&keys[0]))
            }
            5 => {
                words = vec![b"MGET", &keys[0], &keys[1], &keys[2]];
                Reply::List(keys.iter().map(|key| text(self.0.get(key))).collect())
            }
            6 => {
                words = vec![b"MSET", &keys[0], b"one", &keys[1], b"two"];
                self.0.insert(keys[0].clone(), b"one".to_vec());
                self.0.insert(keys[1].clone(), b"two".to_vec());
                ok()
            }
            7 => {
                words = vec![b"DEL", &keys[0], &keys[1]];
                let removed = keys[..2].iter().map(|key| i64::from(self.0.remove(key).is_some()));
                Reply::Number(removed.sum())
            }
            _ => {
                words = vec![b"INCR", &number];
                let sum =
                    self.0.get(&number).map_or(0, |text| String::from_utf8_lossy(text).parse().unwrap()) + 1;
                self.0.insert(number.clone(), i64::to_string(&sum).into_bytes());
                Reply::Number(sum)
            }
        };
        (request(&words), reply)
    }
}

/// A client that sends its requests one behind the other, cut anywhere, and compares the replies.
fn talk(server: &Server, client: u64, requests: usize) -> Model {
    let (mut random, mut model) = (Random::new(client * 77 + 5), Model::default());
    let (mut bytes, mut replies) = (Vec::new(), Vec::new());
    for _ in 0..requests {
        let (request, reply) = model.step(&mut random, client);
        bytes.extend(request);
        replies.push(reply);
    }
    let mut connection = server.connect();
    let mut stream = connection.stream.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let most = if random.below(2) == 0 { 20 } else { 30_000 };
                let (piece, after) = rest.split_at((1 + random.below(most) as usize).min(rest.len()));
                stream.write_all(piece).unwrap();
                if random.below(20) == 0 {
                    std::thread::sleep(Duration::from_micros(random.below(2_000)));
                }
                rest = after;
            }
        });
        for (at, wanted) in replies.iter().enumerate() {
            let came = connection.reply();
            assert!(came == *wanted, "client {client}, request {at}: {came:?}, not {wanted:?}");
        }
    });
    model
}

const MODES: [&str; 3] = ["enter", "threads", "sqpoll"];

#[test]
fn random_requests_in_random_pieces() {
    let modes = MODES.map(|mode| vec!["--mode", mode]);
    // Warps of many lanes, as on a GPU: side by side, and parting as a seed says.
    let wide = ["--blocks", "2", "--lanes", "32", "--clients", "40", "--buffer", "64"];
    let seeded = ["--seed", "7", "--blocks", "1", "--lanes", "32", "--clients", "40"];
    for arguments in modes.into_iter().chain([wide.to_vec(), seeded.to_vec()]) {
        let server = Server::start(&arguments);
        let models: Vec<Model> = std::thread::scope(|scope| {
            let server = &server;
            let clients: Vec<_> =
                (0..8).map(|client| scope.spawn(move || talk(server, client, 400))).collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        let all: usize = models.iter().map(|model| model.0.len()).sum();
        let mut client = server.connect();
        assert_eq!(client.ask(&[b"DBSIZE"]), Reply::Number(all as i64), "{arguments:?}");
        for (key, value) in models.into_iter().flat_map(|model| model.0) {
            assert_eq!(client.ask(&[b"GET", &key]), Reply::Text(Some(value)));
        }
        assert_eq!(client.ask(&[b"FLUSHALL"]), ok());
        assert_eq!(client.ask(&[b"dbsize"]), Reply::Number(0));
        drop(client);
        assert_eq!(server.stop(), (8 * 400 + 3 + all as u64, 9), "{arguments:?}");
    }
}

#[test]
fn every_command() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let text = |text: &str| Reply::Text(Some(text.into()));
    let error = |text: &str| Reply::Error(text.into());
    for (line, wanted) in [
        ("PING", Reply::Line("PONG".into())),
        ("PING hello", text("hello")),
        ("PING a b", error("ERR wrong number of arguments for 'PING' command")),
        ("SET a 1", ok()),
        ("SET a", error("ERR wrong number of arguments for 'SET' command")),
        ("SET a 1 EX 10", error("ERR syntax error")),
        ("GET a", text("1")),
        ("GET none", Reply::Text(None)),
        ("GET", error("ERR wrong number of arguments for 'GET' command")),
        ("INCR a", Reply::Number(2)),
        ("INCR new", Reply::Number(1)),
        ("SET s x", ok()),
        ("INCR s", error("ERR value is not an integer or out of range")),
        ("SET m 9223372036854775807", ok()),
        ("INCR m", error("ERR increment or decrement would overflow")),
        ("MSET p 1 q 2", ok()),
        ("MSET p 1 q", error("ERR wrong number of arguments for 'MSET' command")),
        ("MGET p none q", Reply::List(vec![text("1"), Reply::Text(None), text("2")])),
        ("EXISTS p p none", Reply::Number(2)),
        ("DEL p p none", Reply::Number(1)),
        ("DBSIZE", Reply::Number(5)),
        ("CONFIG GET save", Reply::List(vec![text("save"), text("")])),
        ("CONFIG GET appendonly", Reply::List(vec![text("appendonly"), text("no")])),
        ("CONFIG GET other", Reply::List(vec![])),
        ("CONFIG SET save x", error("ERR CONFIG has GET and one name")),
        ("COMMAND DOCS", Reply::List(vec![])),
        ("FLUSHALL", ok()),
        ("DBSIZE", Reply::Number(0)),
        ("LPUSH a b", error("ERR unknown command 'LPUSH'")),
    ] {
        // As a line, and as an array; what changes something changes it twice.
        client.send(format!("{line}\r\n").as_bytes());
        assert_eq!(client.reply(), wanted, "{line}");
        let words: Vec<_> = line.split(' ').map(str::as_bytes).collect();
        if !line.starts_with("INCR") && !line.starts_with("DEL") {
            assert_eq!(client.ask(&words), wanted, "{line}");
        }
    }
    // Empty requests have no reply.
    client.send(b"\r\n*0\r\n*-1\r\nPING\r\n");
    assert_eq!(client.reply(), Reply::Line("PONG".into()));
    client.send(b"QUIT\r\nPING\r\n");
    assert_eq!(client.rest(), "+OK\r\n");
    server.stop();
}

#[test]
fn garbage_is_answered_and_ends_the_connection() {
    let server = Server::start(&["--buffer", "16"]);
    for (sent, wanted) in [
        (&b"*1\r\nPING\r\n"[..], "expected '$'"),
        (b"*x\r\n", "invalid multibulk length"),
        (b"*2000000\r\n", "invalid multibulk length"),
        (b"*1\r\n$-5\r\n", "invalid bulk length"),
        (b"*2\r\n$3\r\nGET\r\n$15361\r\n", "invalid bulk length"),
        (b"*1\r\n$4\r\nPINGPONG\r\n", "a string does not end where it says"),
        (&[b'x'; 16 << 10], "a request is longer than this server's buffers"),
    ] {
        let mut client = server.connect();
        assert_eq!(client.ask(&[b"PING"]), Reply::Line("PONG".into()));
        client.send(sent);
        assert_eq!(client.rest(), format!("-ERR Protocol error: {wanted}\r\n"));
    }
    // Bytes of any kind.
    let mut random = Random::new(9);
    for _ in 0..60 {
        let mut client = server.connect();
        let bytes: Vec<u8> = (0..random.below(3_000)).map(|_| random.below(256) as u8).collect();
        let _ = client.stream.write_all(&bytes);
        let _ = client.stream.shutdown(Shutdown::Write);
        client.rest();
    }
    // The largest value there is.
    let mut client = server.connect();
    let value = vec![b'v'; 15 << 10];
    assert_eq!(client.ask(&[b"SET", b"k", &value]), ok());
    assert_eq!(client.ask(&[b"GET", b"k"]), Reply::Text(Some(value.clone())));
    let many = Reply::List(vec![Reply::Text(Some(value)); 40]);
    let words: Vec<&[u8]> = std::iter::once(&b"MGET"[..]).chain([&b"k"[..]; 40]).collect();
    assert_eq!(client.ask(&words), many);
    drop(client);
    server.stop();
}

#[test]
fn clients_that_vanish_leave_their_place() {
    let server = Server::start(&["--blocks", "1", "--lanes", "4", "--width", "4", "--clients", "4"]);
    for round in 0..40 {
        let mut client = server.connect();
        assert_eq!(client.ask(&[b"SET", b"a", b"1"]), ok());
        client.send(b"*2\r\n$3\r\nGET\r\n$1\r\n");
        if round % 2 == 0 {
            // A reset, with a reply on its way.
            client.send(b"a\r\nGET a\r\nGET a\r\n");
        }
    }
    // As many as there are places, and others that wait for one.
    let mut clients: Vec<_> = (0..7).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send(b"GET a\r\n");
    }
    for mut client in clients {
        assert_eq!(client.reply(), Reply::Text(Some(b"1".to_vec())));
    }
    // One that takes no replies keeps nobody.
    let mut deaf = server.connect();
    deaf.stream.set_nonblocking(true).unwrap();
    let value = vec![b'x'; 50_000];
    assert_eq!(server.connect().ask(&[b"SET", b"big", &value]), ok());
    let ask = b"GET big\r\n".repeat(1000);
    for _ in 0..20 {
        let _ = deaf.stream.write(&ask);
    }
    for _ in 0..100 {
        assert_eq!(server.connect().ask(&[b"GET", b"a"]), Reply::Text(Some(b"1".to_vec())));
    }
    drop(deaf);
    server.stop();
}

/// Descriptors of a process, and the kilobytes of memory that it has touched.
fn held(server: &Server) -> (usize, u64) {
    let process = format!("/proc/{}", server.process.id());
    let status = std::fs::read_to_string(format!("{process}/status")).unwrap();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let memory = memory.trim().trim_end_matches(" kB").parse().unwrap();
    (std::fs::read_dir(format!("{process}/fd")).unwrap().count(), memory)
}

#[test]
fn a_thousand_clients_leave_nothing() {
    if gpufs_apps::cli::allow_files(1200) < 1200 {
        println!("SKIP a_thousand_clients_leave_nothing: the process may not have 1200 descriptors");
        return;
    }
    let wide = ["--blocks", "2", "--lanes", "32", "--clients", "200"];
    for (clients, arguments) in [(1000, &["--clients", "1000", "--buffer", "4"][..]), (200, &wide)] {
        let server = Server::start(arguments);
        let mut client = server.connect();
        assert_eq!(client.ask(&[b"PING"]), Reply::Line("PONG".into()));
        drop(client);
        std::thread::sleep(Duration::from_millis(300));
        let (descriptors, _) = held(&server);
        let mut memory = Vec::new();
        for round in 0..3 {
            let mut streams: Vec<TcpStream> =
                (0..clients).map(|_| TcpStream::connect(&server.address).unwrap()).collect();
            for (number, stream) in streams.iter_mut().enumerate() {
                let key = format!("{number}");
                let text =
                    [request(&[b"SET", key.as_bytes(), b"one"]), request(&[b"GET", key.as_bytes()])].concat();
                stream.write_all(&text).unwrap();
                // Some have sent a part of a request, and some more than they read.
                stream.write_all(&text[..number % 20]).unwrap();
            }
            for stream in &mut streams {
                stream.set_read_timeout(Some(Duration::from_secs(100))).unwrap();
                let mut reply = [0; 14];
                stream.read_exact(&mut reply).unwrap();
                assert_eq!(&reply, b"+OK\r\n$3\r\none\r\n".first_chunk::<14>().unwrap());
            }
            assert!(held(&server).0 >= clients, "{:?}", held(&server));
            // One more waits until another goes.
            let mut late = server.connect();
            late.send(b"PING\r\n");
            if round % 2 == 0 {
                streams.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
            }
            drop(streams);
            assert_eq!(late.reply(), Reply::Line("PONG".into()));
            drop(late);
            let started = Instant::now();
            while held(&server).0 > descriptors && started.elapsed() < Duration::from_secs(100) {
                std::thread::sleep(Duration::from_millis(5));
            }
            assert_eq!(
                held(&server).0,
                descriptors,
                "{arguments:?}, round {round}: descriptors are left over"
            );
            memory.push(held(&server).1);
        }
        assert!(memory[2] < memory[0] + 1024, "{arguments:?}: memory grows: {memory:?}");
        server.stop();
    }
}

#[test]
fn requests_that_came_at_once_are_answered_in_order() {
    let wide = ["--blocks", "1", "--lanes", "32", "--buffer", "16"];
    for arguments in [&wide[..], &["--seed", "3", "--blocks", "1", "--lanes", "32", "--clients", "40"]] {
        let server = Server::start(arguments);
        let mut client = server.connect();
        let long = vec![b'l'; 2_000];
        let mut sent = Vec::new();
        let mut wanted = Vec::new();
        for round in 0..30_i64 {
            let text = format!("{round}").into_bytes();
            for (words, reply) in [
                // For one key one after the other, and for others between them.
                (vec![&b"SET"[..], b"a", b"first"], ok()),
                (vec![b"SET", b"a", &text], ok()),
                (vec![b"set", b"b", b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n"], ok()),
                (vec![b"GET", b"a"], Reply::Text(Some(text.clone()))),
                (vec![b"INCR", b"n"], Reply::Number(2 * round + 1)),
                (vec![b"INCR", b"n"], Reply::Number(2 * round + 2)),
                (vec![b"GET", b"none"], Reply::Text(None)),
                // Longer than a lane's room.
                (vec![b"SET", b"long", &long], ok()),
                (vec![b"GET", b"long"], Reply::Text(Some(long.clone()))),
                (vec![b"SET", b"a", b"last"], ok()),
                (
                    vec![b"MGET", b"a", b"n"],
                    Reply::List(vec![
                        Reply::Text(Some(b"last".to_vec())),
                        Reply::Text(Some(format!("{}", 2 * round + 2).into_bytes())),
                    ]),
                ),
                (
                    vec![b"GET", b"a", b"b"],
                    Reply::Error("ERR wrong number of arguments for 'GET' command".into()),
                ),
            ] {
                sent.extend(request(&words));
                wanted.push(reply);
            }
        }
        let mut stream = client.stream.try_clone().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || stream.write_all(&sent).unwrap());
            for (at, wanted) in wanted.iter().enumerate() {
                assert_eq!(client.reply(), *wanted, "{arguments:?}, {at}");
            }
        });
        drop(client);
        assert_eq!(server.stop(), (30 * 12, 1));
    }
}

#[test]
fn costs_nothing_while_nobody_speaks() {
    let server = Server::start(&[]);
    let mut clients: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.ask(&[b"PING"]), Reply::Line("PONG".into()));
    }
    // Naps grow with the silence.
    std::thread::sleep(Duration::from_secs(1));
    let before = used_ms(&server);
    std::thread::sleep(Duration::from_secs(3));
    let used = used_ms(&server) - before;
    assert!(used <= 120, "{used} ms of processor time in 3 s");
    for client in &mut clients {
        assert_eq!(client.ask(&[b"PING"]), Reply::Line("PONG".into()));
    }
    drop(clients);
    server.stop();
}

/// Processor time of a server so far, in milliseconds.
fn used_ms(server: &Server) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.process.id())).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    // In hundredths of a second, as Linux has it on every machine of today.
    fields.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap() * 10).sum()
}

#[test]
fn a_full_table_says_so() {
    let server = Server::start(&["--memory", "2", "--buffer", "16"]);
    let mut client = server.connect();
    let value = vec![b'v'; 4_000];
    let mut count = 0;
    let full = loop {
        match client.ask(&[b"SET", format!("key:{count}").as_bytes(), &value]) {
            Reply::Error(error) => break error,
            reply => assert_eq!(reply, ok()),
        }
        count += 1;
        assert!(count < 600);
    };
    assert!(full.starts_with("OOM ") && count > 100, "{full} after {count}");
    assert_eq!(client.ask(&[b"DBSIZE"]), Reply::Number(count));
    assert_eq!(client.ask(&[b"GET", b"key:0"]), Reply::Text(Some(value)));
    assert_eq!(client.ask(&[b"FLUSHALL"]), ok());
    assert_eq!(client.ask(&[b"SET", b"a", b"b"]), ok());
    drop(client);
    server.stop();
}

#[test]
fn each_way_to_end_it() {
    for mode in MODES {
        // Replies to what had come go out first, though nobody takes them at once.
        let server = Server::start(&["--mode", mode]);
        let mut silent = server.connect();
        assert_eq!(silent.ask(&[b"PING"]), Reply::Line("PONG".into()));
        let mut client = server.connect();
        assert_eq!(client.ask(&[b"PING"]), Reply::Line("PONG".into()));
        client.send(b"SHUTDOWN\r\n");
        assert_eq!(client.rest(), "");
        assert_eq!(silent.rest(), "");
        let (status, said) = server.end();
        assert!(status.success() && said.contains("requests of 2 connections"), "{mode}: {said}");
        // Idle for a while, so that all wait.
        let server = Server::start(&["--mode", mode]);
        let idle = server.connect();
        std::thread::sleep(Duration::from_millis(300));
        server.signal(2);
        let (status, said) = server.end();
        assert!(status.success() && said == "0 requests of 1 connections\n", "{mode}: {said}");
        drop(idle);
    }
}

#[test]
fn says_what_is_wrong() {
    for (arguments, wanted) in [
        (&["--bind", "nowhere"][..], "serve: --bind nowhere: no address; say 127.0.0.1:6379\n"),
        (&["--buffer", "2"], "serve: --buffer 2: from 4 to 1048576 KiB\n"),
        (&["--clients", "0"], "serve: --clients 0: from 1 to 16384\n"),
        (
            &["--memory", "1", "--buffer", "64"],
            "serve: --memory 1: from 2 to 1048576 MiB with such a --buffer\n",
        ),
    ] {
        let output = Command::new(SERVE).args(arguments).env("GPUFS_QUIET", "1").output().unwrap();
        assert_eq!((common::errors(&output).as_str(), output.status.code()), (wanted, Some(1)));
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = Command::new(SERVE).args(["--bind", &address]).env("GPUFS_QUIET", "1").output().unwrap();
    assert_eq!(common::errors(&output), format!("serve: --bind {address}: Address already in use\n"));
}
