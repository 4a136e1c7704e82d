//! The accept loop: a bounded number of connections, each with bounds of its own, and an orderly
//! end.
//!
//! What cannot be read as a request has no path, no key and no trace, and never reaches a handler:
//! hyper answers it with 400 or 431 and no body, and closes. A client that takes too long for a
//! header is cut off without an answer. When as many are connected as may be, one that has shown no key
//! makes room (see `connections`): clients that only hold connections lock no other client out.

use std::{
    io,
    net::SocketAddr,
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_util::task::TaskTracker;

use crate::{
    connections::{Stranger, Strangers},
    edge::{Authenticated, Edge},
    shared::Shared,
    stall::Stalling,
};

/// Accepts connections until `stop`, then lets requests end.
pub(crate) async fn run(
    edge: Edge,
    listener: TcpListener,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let shared = edge.shared.clone();
    shared.is_loopback.store(listener.local_addr()?.ip().is_loopback(), Ordering::Relaxed);
    let tasks = TaskTracker::new();
    tasks.spawn(tell_uses(shared.clone()));
    let room = Arc::new(Semaphore::new(shared.config.max_connections));
    let door = Arc::new(Semaphore::new(AT_THE_DOOR));
    let strangers = Arc::<Strangers>::default();
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener) => accepted,
            () = &mut stop => break,
        };
        match accepted {
            // One that does not even fit at the door is closed without a word.
            Ok(stream) => {
                match (room.clone().try_acquire_owned(), door.clone().try_acquire_owned()) {
                    (Ok(room), _) => {
                        let stranger = strangers.enter();
                        tasks.spawn(connection(edge.clone(), stream, room, stranger));
                    }
                    (Err(_), Ok(place)) => {
                        if strangers.close_one() {
                            shared.metrics.connections_evicted.inc();
                        }
                        let waiting = Waiting { room: room.clone(), strangers: strangers.clone() };
                        tasks.spawn(wait_for_room(edge.clone(), stream, waiting, place));
                    }
                    (Err(_), Err(_)) => {}
                }
            }
            Err(error) => {
                // Out of descriptors, most likely: closing connections is what helps.
                tracing::warn!(error = &error as &dyn std::error::Error, "cannot accept");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    shared.stopping.cancel();
    for tasks in [&tasks, &shared.tasks] {
        tasks.close();
        tasks.wait().await;
    }
    tell(&shared).await;
    Ok(())
}

async fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    let (stream, _): (_, SocketAddr) = listener.accept().await?;
    // Answers are written whole; waiting for more to send with them only adds latency.
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Connections that wait for room at one time.
const AT_THE_DOOR: usize = 512;

/// How long one of these waits for room, and then how long it may take to ask before it is told
/// that there is none. Left to wait for longer, its client would not know why.
const WAITING: Duration = Duration::from_secs(1);

/// What a connection waits for.
struct Waiting {
    room: Arc<Semaphore>,
    strangers: Arc<Strangers>,
}

async fn wait_for_room(
    edge: Edge,
    stream: TcpStream,
    waiting: Waiting,
    place: OwnedSemaphorePermit,
) {
    match tokio::time::timeout(WAITING, waiting.room.acquire_owned()).await {
        Ok(Ok(room)) => {
            drop(place);
            connection(edge, stream, room, waiting.strangers.enter()).await;
        }
        _ => drop(tokio::time::timeout(WAITING, turn_away(edge, stream)).await),
    }
}

/// Answers one request, whatever it asks, with the news that too many are connected.
async fn turn_away(edge: Edge, stream: TcpStream) {
    let mut builder = builder(&edge.shared);
    builder.keep_alive(false);
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = edge.turn_away(&request);
        async move { Ok::<_, std::convert::Infallible>(answer) }
    });
    // Whoever does not listen has missed it.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

/// One connection, from its first byte to its end.
async fn connection(
    edge: Edge,
    stream: TcpStream,
    permit: OwnedSemaphorePermit,
    stranger: Stranger,
) {
    let (shared, stranger) = (edge.shared.clone(), Arc::new(stranger));
    let asking = stranger.clone();
    let stream = TokioIo::new(Stalling::new(stream, shared.config.write_timeout));
    let service = service_fn(move |request: Request<Incoming>| {
        let (edge, asking) = (edge.clone(), asking.clone());
        async move {
            asking.asks();
            let answer = edge.handle(request.map(axum::body::Body::new)).await;
            asking.was_answered(answer.extensions().get::<Authenticated>().is_some());
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let connection = builder(&shared).serve_connection(stream, service).with_upgrades();
    let mut connection = pin!(connection);
    shared.metrics.connections.inc();
    let is_stopping = tokio::select! {
        _ = connection.as_mut() => false,
        () = shared.stopping.cancelled() => true,
        () = stranger.closed() => false,
        () = first_header_timeout(&shared, &stranger) => false,
    };
    if is_stopping {
        connection.as_mut().graceful_shutdown();
        // What is not over by then is cut off.
        let _ = tokio::time::timeout(shared.config.grace, connection).await;
    }
    shared.metrics.connections.dec();
    drop(permit);
}

/// Ends if no whole header came in time; pending for ever if one did.
async fn first_header_timeout(shared: &Shared, stranger: &Stranger) {
    tokio::time::sleep(shared.config.first_header_timeout).await;
    if stranger.has_asked() {
        std::future::pending::<()>().await;
    }
}

fn builder(shared: &Shared) -> http1::Builder {
    let config = &shared.config;
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(config.header_timeout)
        .max_headers(config.max_headers)
        .max_header_size(config.max_header_bytes)
        .max_buf_size((config.max_header_bytes * 2).max(16 << 10))
        .half_close(false)
        .keep_alive(true);
    builder
}

/// How often the store is told which keys were used.
const TELLING: Duration = Duration::from_secs(10);

async fn tell_uses(shared: Arc<Shared>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(TELLING) => tell(&shared).await,
            () = shared.stopping.cancelled() => return,
        }
    }
}

/// A use that is not told is lost: it is a hint for people, not a record.
async fn tell(shared: &Shared) {
    let used = shared.keys.used();
    if used.is_empty() {
        return;
    }
    if let Err(error) = shared.engine.store().touch_keys(used).await {
        let error: &dyn std::error::Error = &error;
        tracing::warn!(error, "cannot note when keys were last used");
    }
}
