//! Open-loop generator: requests are due at a constant rate, regardless of earlier ones.
//!
//! Latency counts from the moment a request was due, not from when it was sent. A service that
//! stalls is thus charged for everything that had to wait meanwhile, which a closed loop hides
//! because it stops asking ("coordinated omission"). `wrk` cannot do this.

mod pace;
mod wire;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use tokio::{
    sync::{Mutex as Turn, mpsc::UnboundedReceiver},
    task::JoinSet,
};

use self::wire::{Reply, Wire};
use super::{findings::Offered, target::Target};

/// Time after the last due request in which an answer still counts.
const GRACE: Duration = Duration::from_secs(30);

/// Rate and connections of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offer {
    /// Requests due per second.
    pub(crate) rate: f64,
    pub(crate) span: Duration,
    pub(crate) connections: usize,
    /// Time after which a request without a free connection is not sent; `None` sends all.
    pub(crate) send_timeout: Option<Duration>,
}

/// Sends requests and waits for the last answer.
pub(crate) fn offer(target: &Target, offer: Offer) -> Result<Offered> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(target, offer))
}

/// State shared by the connections.
#[derive(Debug)]
struct Shared {
    target: Target,
    offer: Offer,
    began: Instant,
    /// Moments at which requests are due. A free connection takes the next.
    due: Turn<UnboundedReceiver<Instant>>,
    tally: Mutex<Offered>,
}

async fn run(target: &Target, offer: Offer) -> Result<Offered> {
    let mut wires = Vec::new();
    for _ in 0..offer.connections {
        wires.push(Wire::open(target.address).await.context("connect")?);
    }
    let began = Instant::now();
    let due = Turn::new(pace::start(began, offer.rate, offer.span));
    let tally = Offered { rate: offer.rate, connections: offer.connections, ..Offered::default() };
    let tally = Mutex::new(tally);
    let shared = Arc::new(Shared { target: target.clone(), offer, began, due, tally });
    let mut connections = JoinSet::new();
    wires.into_iter().for_each(|wire| {
        connections.spawn(keep_asking(wire, Arc::clone(&shared)));
    });
    let ended = tokio::time::timeout(offer.span + GRACE, connections.join_all()).await;
    let mut found = shared.tally.lock().unwrap_or_else(PoisonError::into_inner).clone();
    found.secs = began.elapsed().as_secs_f64();
    if ended.is_err() {
        // Requests that are neither answered nor refused by now are lost.
        let told = found.early_us.len() + found.late_us.len() + found.refused_us.len();
        let count = pace::count(offer.rate, offer.span);
        found.lost = count.saturating_sub(told as u64 + found.wrong + found.unsent);
    }
    Ok(found)
}

async fn keep_asking(mut wire: Wire, shared: Arc<Shared>) {
    let request = shared.target.request();
    while let Some(due) = next(&shared).await {
        if shared.offer.send_timeout.is_some_and(|send_timeout| due.elapsed() > send_timeout) {
            shared.note(|tally| tally.unsent += 1);
            continue;
        }
        let reply = wire.ask(&request, &shared.target.mark).await;
        let took = due.elapsed().as_micros() as u64;
        let is_lost = reply.is_err();
        shared.note(|tally| shared.count(tally, reply, due, took));
        if is_lost {
            match Wire::open(shared.target.address).await {
                Ok(fresh) => wire = fresh,
                Err(_) => return,
            }
        }
    }
}

async fn next(shared: &Shared) -> Option<Instant> {
    shared.due.lock().await.recv().await
}

impl Shared {
    fn note(&self, change: impl FnOnce(&mut Offered)) {
        change(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn count(&self, tally: &mut Offered, reply: Result<Reply>, due: Instant, took: u64) {
        let is_early = due.duration_since(self.began) < self.offer.span / 2;
        match reply {
            Ok(Reply::Right) if is_early => tally.early_us.push(took),
            Ok(Reply::Right) => tally.late_us.push(took),
            Ok(Reply::Refused) => tally.refused_us.push(took),
            Ok(Reply::Wrong) => tally.wrong += 1,
            Err(_) => tally.lost += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    fn target(address: SocketAddr) -> Target {
        let (path, body) = ("/".to_owned(), "{}".to_owned());
        Target { address, path, key: None, body, mark: "\"ok\"".to_owned() }
    }

    /// Server that answers each connection's requests with these in turn, then closes the connection.
    async fn answers(listener: TcpListener, replies: &'static [&'static str]) {
        loop {
            let (mut stream, _) = listener.accept().await.expect("accept");
            let mut buffer = [0; 4096];
            for (status, body) in replies.iter().filter_map(|reply| reply.split_once(' ')) {
                let Ok(1..) = stream.read(&mut buffer).await else { break };
                let length = body.len();
                let text = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{body}");
                stream.write_all(text.as_bytes()).await.expect("answer");
            }
        }
    }

    #[tokio::test]
    async fn every_request_that_was_due_is_accounted_for_once() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
        let address = listener.local_addr().expect("address");
        let replies = &["200 {\"ok\":1}", "429 {}", "200 {\"other\":1}", "500 {}"];
        let mut service = JoinSet::new();
        service.spawn(answers(listener, replies));
        // The fifth request finds its connection closed; a new one serves the rest.
        let span = Duration::from_millis(90);
        let offer = Offer { rate: 100.0, span, connections: 1, send_timeout: None };
        let found = run(&target(address), offer).await.expect("a run");
        let right = found.early_us.len() + found.late_us.len();
        let counts = [right as u64, found.refused_us.len() as u64, found.wrong, found.lost];
        assert_eq!(counts, [2, 2, 4, 1]);
        assert_eq!(found.unsent, 0);
    }

    #[tokio::test]
    async fn waiting_for_a_connection_counts_and_expired_requests_are_reported() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
        let address = listener.local_addr().expect("address");
        let mut service = JoinSet::new();
        service.spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("accept");
            let mut buffer = [0; 4096];
            let _ = stream.read(&mut buffer).await;
            // One stall, which delays everything that is due meanwhile.
            tokio::time::sleep(Duration::from_millis(100)).await;
            loop {
                let text = "HTTP/1.1 200 X\r\nContent-Length: 8\r\n\r\n{\"ok\":1}";
                stream.write_all(text.as_bytes()).await.expect("answer");
                let Ok(1..) = stream.read(&mut buffer).await else { return };
            }
        });
        let span = Duration::from_millis(100);
        let patient = Offer { rate: 100.0, span, connections: 1, send_timeout: None };
        let found = run(&target(address), patient).await.expect("a run");
        let late = found.early_us.iter().filter(|took| **took > 40_000).count();
        assert_eq!((late, found.unsent), (5, 0), "{found:?}");
    }
}
