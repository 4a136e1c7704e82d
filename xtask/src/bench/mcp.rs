//! `bench mcp`: a call over MCP beside the same call over REST, in turns on connections that stay.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::machine::{self, Quiet};
use super::{build, scratch};
use crate::shell;

/// Aim for the difference of the medians.
const AIM: Duration = Duration::from_micros(500);
/// Calls that are not counted.
const WARM_UP: usize = 200;

/// Measures; `--quick` is a short run.
pub(super) fn run(words: &[&str]) -> Result<()> {
    let calls = calls(words)?;
    let built = build::release()?;
    let quiet = Quiet::look();
    println!("\n{}", machine::describe());
    quiet.warning().iter().for_each(|warning| println!("{warning}"));
    let directory = scratch::Directory::create("bench-mcp")?;
    let server = Server::start(&built.ringfence, &directory.path)?;
    let mut ways = [server.connect(rest(&server.key))?, server.connect(mcp(&server.key))?];
    let mut took = [Vec::with_capacity(calls), Vec::with_capacity(calls)];
    for round in 0..WARM_UP + calls {
        for (way, took) in ways.iter_mut().zip(&mut took) {
            let one = way.exchange()?;
            if round >= WARM_UP {
                took.push(one);
            }
        }
    }
    let [rest, mcp] = took.map(Percentiles::of);
    println!("\ncalls of `echo`, one at a time ({calls} each)\n");
    println!("{:<6} {:>10} {:>10} {:>10}", "door", "p50", "p90", "p99");
    for (name, found) in [("REST", &rest), ("MCP", &mcp)] {
        let ms = |time: Duration| format!("{:.3} ms", time.as_secs_f64() * 1e3);
        println!("{name:<6} {:>10} {:>10} {:>10}", ms(found.p50), ms(found.p90), ms(found.p99));
    }
    let over = mcp.p50.saturating_sub(rest.p50);
    let word = if over <= AIM { "met" } else { "MISSED" };
    println!("\nMCP over REST at p50: {:.3} ms (aim 0.5 ms: {word})", over.as_secs_f64() * 1e3);
    Ok(())
}

fn calls(words: &[&str]) -> Result<usize> {
    match words {
        [] => Ok(5_000),
        ["--quick"] => Ok(500),
        other => bail!("`bench mcp` does not know `{}`", other.join(" ")),
    }
}

/// Times below which half, nine tenths and all but a hundredth of the calls stay.
struct Percentiles {
    p50: Duration,
    p90: Duration,
    p99: Duration,
}

impl Percentiles {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort();
        let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
        Self { p50: at(50), p90: at(90), p99: at(99) }
    }
}

fn request(path: &str, key: &str, more: &str, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\n{more}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn rest(key: &str) -> Vec<u8> {
    let body = json!({"tool": "echo", "args": {"text": "x"}});
    request("/v1/calls", key, "accept: application/json\r\n", &body)
}

fn mcp(key: &str) -> Vec<u8> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": "echo", "arguments": {"text": "x"}, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let more = "accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n\
                mcp-method: tools/call\r\nmcp-name: echo\r\n";
    request("/mcp", key, more, &body)
}

/// A server of its own, killed with this value.
struct Server {
    child: Child,
    address: String,
    key: String,
}

impl Server {
    fn start(binary: &Path, directory: &Path) -> Result<Self> {
        let data = directory.join("data");
        let mut command = shell::command(binary);
        command.args(["serve", "--json", "--listen", "127.0.0.1:0", "--data"]).arg(&data);
        let log = fs::File::create(directory.join("log")).context("create the log")?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().context("start the server")?;
        let output = child.stdout.take().context("the server has an output")?;
        let mut banner = String::new();
        BufReader::new(output).read_line(&mut banner).context("read its address")?;
        let banner: Value = serde_json::from_str(&banner).context("the server did not start")?;
        let url = banner["url"].as_str().context("the banner has a URL")?;
        let address = url.trim_start_matches("http://").to_owned();
        let key = fs::read_to_string(data.join("admin.key")).context("read the admin key")?;
        Ok(Self { child, address, key: key.trim().to_owned() })
    }

    fn connect(&self, request: Vec<u8>) -> Result<Way> {
        let stream = TcpStream::connect(&self.address).context("connect")?;
        stream.set_nodelay(true)?;
        Ok(Way { reader: BufReader::new(stream), request })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One request, sent again and again on one connection.
struct Way {
    reader: BufReader<TcpStream>,
    request: Vec<u8>,
}

impl Way {
    fn exchange(&mut self) -> Result<Duration> {
        let began = Instant::now();
        self.reader.get_mut().write_all(&self.request)?;
        let body = self.answer()?;
        let took = began.elapsed();
        if !body.windows(3).any(|part| part == b"\"x\"" || part == b"x\\\"") {
            bail!("not the expected answer: {}", String::from_utf8_lossy(&body));
        }
        Ok(took)
    }

    fn answer(&mut self) -> Result<Vec<u8>> {
        let (mut length, mut is_chunked) = (None, false);
        loop {
            let line = self.line()?;
            let lower = line.to_ascii_lowercase();
            if let Some(text) = lower.strip_prefix("content-length:") {
                length = Some(text.trim().parse::<usize>().context("a length")?);
            }
            is_chunked |= lower.starts_with("transfer-encoding:") && lower.contains("chunked");
            if line.is_empty() {
                break;
            }
        }
        let mut body = Vec::new();
        match (length, is_chunked) {
            (Some(length), _) => {
                body.resize(length, 0);
                self.reader.read_exact(&mut body)?;
            }
            (None, true) => loop {
                let size = usize::from_str_radix(&self.line()?, 16).context("a size")?;
                let start = body.len();
                body.resize(start + size, 0);
                self.reader.read_exact(&mut body[start..])?;
                self.line()?;
                if size == 0 {
                    break;
                }
            },
            (None, false) => bail!("an answer without a length"),
        }
        Ok(body)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            bail!("the server closed the connection");
        }
        Ok(line.trim_end().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_options_are_refused() {
        assert!(calls(&["--slow"]).is_err());
        assert_eq!((calls(&[]).unwrap(), calls(&["--quick"]).unwrap()), (5_000, 500));
    }

    #[test]
    fn percentiles_are_of_the_sorted_times() {
        let times = (0..100).rev().map(Duration::from_millis).collect();
        let found = Percentiles::of(times);
        let ms = [found.p50, found.p90, found.p99].map(|time| time.as_millis());
        assert_eq!(ms, [50, 90, 99]);
    }
}
