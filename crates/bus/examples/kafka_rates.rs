//! Calls per second from `tool.requests` to `tool.results` on a real broker, beside a loop that only copies
//! messages and beside HTTP; or a soak that watches the memory of the server.
//!
//! `cargo run --release -p ringfence-bus --example kafka_rates -- <ringfence> <jars> rates <seconds per row>`
//! `… -- <ringfence> <jars> soak <minutes>`
#![expect(clippy::print_stdout, reason = "it prints what it measured")]
#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on says so by panicking")]

use std::{
    collections::HashMap,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, ExitCode, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use rdkafka::{
    ClientConfig, Message as _, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    producer::{BaseRecord, DefaultProducerContext, Producer as _, ThreadedProducer},
};
use ringfence_testkit::Kafka;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Requests in flight when the door is loaded, and connections of the HTTP row.
const IN_FLIGHT: usize = 512;
const CONNECTIONS: usize = 64;

/// Partitions of each topic.
const PARTITIONS: i32 = 16;

/// Time limit of any answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Requests per second of the soak, and the time after which memory may not grow.
const SOAK_RATE: f64 = 200.0;
const WARM_UP: Duration = Duration::from_secs(120);

/// Growth of the server after the warm-up that is not a leak: allocators keep some pages.
const MAX_GROWTH: f64 = 1.10;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [ringfence, jars, mode, size] = arguments.as_slice() else {
        panic!("usage: kafka_rates <ringfence> <jars> rates <seconds> | soak <minutes>")
    };
    let kafka = Kafka::start(Path::new(jars)).unwrap();
    let size: u64 = size.parse().unwrap();
    match mode.as_str() {
        "rates" => rates(Path::new(ringfence), &kafka, Duration::from_secs(size)),
        "soak" => soak(Path::new(ringfence), &kafka, Duration::from_secs(60 * size)),
        other => panic!("neither `rates` nor `soak`: {other}"),
    }
}

/// Rate and latencies of one row.
struct Row {
    per_second: f64,
    latencies: Vec<Duration>,
}

impl Row {
    fn new(count: usize, time: Duration, mut latencies: Vec<Duration>) -> Self {
        latencies.sort_unstable();
        Self { per_second: count as f64 / time.as_secs_f64(), latencies }
    }

    fn print(&self, name: &str) {
        let at = |percent: usize| {
            let index = (self.latencies.len() * percent / 100).min(self.latencies.len().max(1) - 1);
            let found = self.latencies.get(index);
            found.map_or_else(|| "-".to_owned(), |t| format!("{:.2} ms", t.as_secs_f64() * 1e3))
        };
        println!("{name:<40} {:>10.0} {:>12} {:>12}", self.per_second, at(50), at(99));
    }
}

fn rates(ringfence: &Path, kafka: &Kafka, time: Duration) -> ExitCode {
    println!("{:<40} {:>10} {:>12} {:>12}", "row", "per second", "p50", "p99");
    let raw = raw(kafka, time);
    raw.print("raw consume-produce loop");
    let server = Server::on_kafka(ringfence, kafka);
    let mut client = Client::new(kafka);
    client.run(64, Duration::from_secs(1), None);
    let one = client.run(1, time, None);
    one.print("tool.requests, one in flight");
    let many = client.run(IN_FLIGHT, time, None);
    many.print(&format!("tool.requests, {IN_FLIGHT} in flight"));
    drop(server);
    let server = Server::embedded(ringfence);
    let http = server.load(time);
    http.print(&format!("HTTP, embedded queue, {CONNECTIONS} connections"));
    println!();
    aim("by one in flight", many.per_second / one.per_second, 5.0);
    aim("by HTTP with the embedded queue", many.per_second / http.per_second, 0.25);
    println!("by the raw loop: {:.3} (no aim)", many.per_second / raw.per_second);
    ExitCode::SUCCESS
}

fn aim(what: &str, found: f64, least: f64) {
    let verdict = if found >= least { "reached" } else { "NOT reached" };
    println!("{what}: {found:.2} (aim: at least {least}) {verdict}");
}

/// Sends requests at a fixed rate and prints the memory of the server every ten seconds.
fn soak(ringfence: &Path, kafka: &Kafka, time: Duration) -> ExitCode {
    let server = Server::on_kafka(ringfence, kafka);
    let mut client = Client::new(kafka);
    let began = Instant::now();
    let (mut after_warm_up, mut last) = (None, 0);
    while began.elapsed() < time {
        let row = client.run(IN_FLIGHT, Duration::from_secs(10), Some(SOAK_RATE));
        last = server.resident();
        let minutes = began.elapsed().as_secs_f64() / 60.0;
        println!("{minutes:>5.1} min {:>6.0} per second {:>8} KiB", row.per_second, last >> 10);
        if began.elapsed() >= WARM_UP.min(time / 5) {
            after_warm_up.get_or_insert(last);
        }
    }
    let growth = last as f64 / after_warm_up.unwrap_or(last).max(1) as f64;
    let is_flat = growth <= MAX_GROWTH;
    let verdict = if is_flat { "flat" } else { "GROWS" };
    println!("memory after the warm-up: x {growth:.3} (at most {MAX_GROWTH}): {verdict}");
    if is_flat { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn config(kafka: &Kafka) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", kafka.address().to_string());
    config
}

fn producer(kafka: &Kafka) -> ThreadedProducer<DefaultProducerContext> {
    config(kafka).set("linger.ms", "1").set("acks", "all").create().unwrap()
}

/// A reader of all partitions of a topic, from an offset on.
fn reader(kafka: &Kafka, topic: &str, from: Offset) -> BaseConsumer {
    let consumer: BaseConsumer = config(kafka)
        .set("group.id", "measurement")
        .set("enable.auto.commit", "false")
        .set("isolation.level", "read_committed")
        .set("fetch.error.backoff.ms", "5")
        .create()
        .unwrap();
    let mut partitions = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        partitions.add_partition_offset(topic, partition, from).unwrap();
    }
    consumer.assign(&partitions).unwrap();
    consumer
}

fn request(number: u64) -> (String, Vec<u8>) {
    let id = format!("{}-{number}", std::process::id());
    let body = json!({
        "event_id": id, "session_id": format!("s-{}", number % 64), "persona_id": null,
        "tool_name": "echo", "args": {"text": "hi"}, "metadata": {"source": "gateway"},
    });
    (id, body.to_string().into_bytes())
}

/// Copies messages from one topic to another: what any consumer and producer on this broker can do.
fn raw(kafka: &Kafka, time: Duration) -> Row {
    for topic in ["raw.in", "raw.out"] {
        create(kafka, topic);
    }
    let (producer, consumer) = (producer(kafka), reader(kafka, "raw.in", Offset::Beginning));
    let payload = request(0).1;
    let send = |topic: &str, key: &str, payload: &[u8]| {
        while producer.send(BaseRecord::to(topic).key(key).payload(payload)).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    // Ahead of the reader all the time, by the window of the other rows.
    let (mut sent, mut copied) = (0_usize, 0_usize);
    let began = Instant::now();
    while began.elapsed() < time || copied < sent {
        while began.elapsed() < time && sent < copied + IN_FLIGHT {
            send("raw.in", &(sent % 64).to_string(), &payload);
            sent += 1;
        }
        while let Some(message) = consumer.poll(Duration::from_millis(1)) {
            let message = message.unwrap();
            send("raw.out", "k", message.payload().unwrap());
            copied += 1;
            if copied + IN_FLIGHT / 2 < sent {
                break;
            }
        }
    }
    producer.flush(ANSWER_TIMEOUT).unwrap();
    Row::new(copied, began.elapsed(), Vec::new())
}

/// Makes a topic. The server makes its own.
fn create(kafka: &Kafka, topic: &str) {
    use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
    let admin: AdminClient<_> = config(kafka).create().unwrap();
    let topic = NewTopic::new(topic, PARTITIONS, TopicReplication::Fixed(1));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let options = AdminOptions::new().operation_timeout(Some(ANSWER_TIMEOUT));
    runtime.block_on(admin.create_topics([&topic], &options)).unwrap();
}

/// A client of the door: sends requests and matches results by `request_id`.
struct Client {
    producer: ThreadedProducer<DefaultProducerContext>,
    results: BaseConsumer,
    next: u64,
}

impl Client {
    fn new(kafka: &Kafka) -> Self {
        let results = reader(kafka, "tool.results", Offset::Beginning);
        Self { producer: producer(kafka), results, next: 0 }
    }

    /// Keeps so many requests in flight, at most so many per second.
    fn run(&mut self, in_flight: usize, time: Duration, rate: Option<f64>) -> Row {
        let mut waiting: HashMap<String, Instant> = HashMap::new();
        let (mut latencies, mut sent) = (Vec::new(), 0_u64);
        let began = Instant::now();
        let mut heard = Instant::now();
        while began.elapsed() < time || !waiting.is_empty() {
            let is_due = |sent: u64| {
                rate.is_none_or(|rate| (sent as f64) < began.elapsed().as_secs_f64() * rate)
            };
            while began.elapsed() < time && waiting.len() < in_flight && is_due(sent) {
                let (id, body) = request(self.next);
                let key = format!("s-{}", self.next % 64);
                let record = BaseRecord::to("tool.requests").key(&key).payload(&body);
                assert!(self.producer.send(record).is_ok(), "the queue of the producer is full");
                waiting.insert(id, Instant::now());
                (self.next, sent) = (self.next + 1, sent + 1);
            }
            // What has arrived; then the next requests.
            let mut patience = Duration::from_millis(1);
            while let Some(message) = self.results.poll(patience) {
                let message = message.unwrap();
                let result: Value = serde_json::from_slice(message.payload().unwrap()).unwrap();
                let id = result["metadata"]["request_id"].as_str().unwrap();
                if let Some(at) = waiting.remove(id) {
                    assert_eq!(result["status"], "success", "{result}");
                    latencies.push(at.elapsed());
                }
                (patience, heard) = (Duration::ZERO, Instant::now());
            }
            assert!(heard.elapsed() < ANSWER_TIMEOUT, "{} requests have no result", waiting.len());
        }
        Row::new(latencies.len(), began.elapsed(), latencies)
    }
}

/// A running server, ended when dropped.
struct Server {
    child: Child,
    url: String,
    key: String,
    _directory: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn embedded(ringfence: &Path) -> Self {
        Self::start(ringfence, tempfile::tempdir().unwrap(), &[])
    }

    /// A server whose door has a key of its own.
    fn on_kafka(ringfence: &Path, kafka: &Kafka) -> Self {
        let bus = ("RINGFENCE_BUS", kafka.url());
        let first =
            Self::start(ringfence, tempfile::tempdir().unwrap(), std::slice::from_ref(&bus));
        let made = first.ask("POST", "/v1/keys", &json!({"label": "door", "scopes": ["call"]}));
        let key = made["key_id"].as_str().unwrap().to_owned();
        let directory = first.stop();
        Self::start(ringfence, directory, &[bus, ("RINGFENCE_INTAKE_KEY", key)])
    }

    #[expect(clippy::disallowed_methods, reason = "a measurement starts what it measures")]
    fn start(ringfence: &Path, directory: TempDir, variables: &[(&str, String)]) -> Self {
        let data = directory.path().join("data");
        let mut command = Command::new(ringfence);
        command.args(["serve", "--json", "--listen", "127.0.0.1:0", "--data"]).arg(&data);
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        // The rate limit of a key is not measured here.
        command.env("RINGFENCE_API_RATE_PER_SECOND", "0");
        command.envs(variables.iter().map(|(name, value)| (*name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let banner: Value = serde_json::from_str(&line).unwrap();
        let url = banner["url"].as_str().unwrap().trim_start_matches("http://").to_owned();
        let key = fs::read_to_string(data.join("admin.key")).unwrap().trim().to_owned();
        Self { child, url, key, _directory: directory }
    }

    /// Ends it and gives back its data.
    #[expect(clippy::disallowed_methods, reason = "a measurement ends what it started")]
    fn stop(mut self) -> TempDir {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").arg(id).status().unwrap().success());
        self.child.wait().unwrap();
        std::mem::replace(&mut self._directory, tempfile::tempdir().unwrap())
    }

    fn resident(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap();
        text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut line = Line::open(self);
        let answer = line.ask(&line.request(method, path, body));
        serde_json::from_slice(&answer).unwrap()
    }

    /// Closed loop of HTTP calls.
    fn load(&self, time: Duration) -> Row {
        let body = json!({"tool": "echo", "args": {"text": "hi"}});
        let began = Instant::now();
        let count = AtomicU64::new(0);
        let latencies: Vec<Duration> = std::thread::scope(|scope| {
            let loops: Vec<_> = (0..CONNECTIONS)
                .map(|_| {
                    scope.spawn(|| {
                        let mut line = Line::open(self);
                        let request = line.request("POST", "/v1/calls", &body);
                        let mut times = Vec::new();
                        while began.elapsed() < time {
                            let at = Instant::now();
                            line.ask(&request);
                            times.push(at.elapsed());
                            count.fetch_add(1, Ordering::Relaxed);
                        }
                        times
                    })
                })
                .collect();
            loops.into_iter().flat_map(|one| one.join().unwrap()).collect()
        });
        Row::new(latencies.len(), began.elapsed(), latencies)
    }
}

/// A connection that is kept.
struct Line {
    stream: BufReader<TcpStream>,
    host: String,
    key: String,
}

impl Line {
    fn open(server: &Server) -> Self {
        let stream = TcpStream::connect(&server.url).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
        let (host, key) = (server.url.clone(), server.key.clone());
        Self { stream: BufReader::new(stream), host, key }
    }

    fn request(&self, method: &str, path: &str, body: &Value) -> Vec<u8> {
        let (host, key, body) = (&self.host, &self.key, body.to_string());
        let length = body.len();
        format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {key}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }

    /// Body of a successful answer.
    fn ask(&mut self, request: &[u8]) -> Vec<u8> {
        self.stream.get_mut().write_all(request).unwrap();
        let (mut status, mut length) = (String::new(), 0);
        self.stream.read_line(&mut status).unwrap();
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).unwrap();
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(text) = line.strip_prefix("content-length:") {
                length = text.trim().parse().unwrap();
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).unwrap();
        let is_success = status.split(' ').nth(1).is_some_and(|code| code.starts_with('2'));
        assert!(is_success, "{status}{}", String::from_utf8_lossy(&body));
        body
    }
}
