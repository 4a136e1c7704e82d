//! The accept loop: a bounded number of connections, each with bounds of its own, and an orderly
//! end.
//!
//! Bytes that cannot be read as a request have no path, no key and no trace, and never reach a handler:
//! hyper answers them with 400 or 431 and no body, and closes. A client that takes too long for a
//! header is cut off without an answer. When as many are connected as may be, one that has shown no key
//! makes room (see `connections`): clients that only hold connections lock no other client out. With TLS
//! the same holds from the first byte on: a handshake has the time of a first header, and makes room.

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
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_util::task::TaskTracker;

use crate::{
    Edge, Server,
    connections::{Connection, Unauthenticated},
    server::Authenticated,
    write_timeout::WriteTimeout,
};

/// Accepts connections until `stop`, then lets requests end.
pub(crate) async fn run(
    server: Server,
    listener: TcpListener,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let edge = server.edge.clone();
    edge.0.is_loopback.store(listener.local_addr()?.ip().is_loopback(), Ordering::Relaxed);
    let tasks = TaskTracker::new();
    tasks.spawn(save_uses(edge.clone()));
    let room = Arc::new(Semaphore::new(edge.config().max_connections));
    let door = Arc::new(Semaphore::new(MAX_WAITING));
    let unauthenticated = Arc::<Unauthenticated>::default();
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
                        let slot = unauthenticated.enter();
                        tasks.spawn(connection(server.clone(), stream, room, slot));
                    }
                    (Err(_), Ok(place)) => {
                        if unauthenticated.close_one() {
                            edge.0.metrics.connections_evicted.inc();
                        }
                        let waiting = Waiting {
                            room: room.clone(),
                            unauthenticated: unauthenticated.clone(),
                        };
                        tasks.spawn(wait_for_room(server.clone(), stream, waiting, place));
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
    edge.stopping().cancel();
    for tasks in [&tasks, edge.tasks()] {
        tasks.close();
        tasks.wait().await;
    }
    edge.access().save_uses().await;
    Ok(())
}

async fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    let (stream, _): (_, SocketAddr) = listener.accept().await?;
    // Answers are written whole; waiting for more to send with them only adds latency.
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Connections that wait for room at one time.
const MAX_WAITING: usize = 512;

/// Time that one of these waits for room, and then the time it may take to ask before it is told that
/// there is none. Left to wait for longer, its client would not know why.
const ROOM_TIMEOUT: Duration = Duration::from_secs(1);

/// Room that a connection waits for.
struct Waiting {
    room: Arc<Semaphore>,
    unauthenticated: Arc<Unauthenticated>,
}

async fn wait_for_room(
    server: Server,
    stream: TcpStream,
    waiting: Waiting,
    place: OwnedSemaphorePermit,
) {
    match tokio::time::timeout(ROOM_TIMEOUT, waiting.room.acquire_owned()).await {
        Ok(Ok(room)) => {
            drop(place);
            connection(server, stream, room, waiting.unauthenticated.enter()).await;
        }
        _ => drop(tokio::time::timeout(ROOM_TIMEOUT, turn_away(server, stream)).await),
    }
}

/// Answers one request, whatever it asks, with the news that too many are connected.
async fn turn_away(server: Server, stream: TcpStream) {
    let mut builder = builder(&server.edge);
    builder.keep_alive(false);
    let tls = server.tls.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = server.turn_away(&request);
        async move { Ok::<_, std::convert::Infallible>(answer) }
    });
    // A client that does not listen has missed it.
    match tls {
        None => drop(builder.serve_connection(TokioIo::new(stream), service).await),
        Some(tls) => {
            if let Ok(stream) = tls.acceptor().accept(stream).await {
                let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            }
        }
    }
}

/// One connection, from its first byte to its end.
async fn connection(
    server: Server,
    stream: TcpStream,
    permit: OwnedSemaphorePermit,
    slot: Connection,
) {
    let edge = server.edge.clone();
    let stream = WriteTimeout::new(stream, edge.config().write_timeout);
    edge.0.metrics.connections.inc();
    match server.tls.clone() {
        None => requests(server, stream, slot).await,
        Some(tls) => {
            let secured = tokio::select! {
                secured = tls.acceptor().accept(stream) => secured.ok(),
                () = edge.stopping().cancelled() => None,
                () = slot.closed() => None,
                () = tokio::time::sleep(edge.config().first_header_timeout) => None,
            };
            match secured {
                Some(stream) => requests(server, stream, slot).await,
                None => drop(edge.0.metrics.handshakes_failed.inc()),
            }
        }
    }
    edge.0.metrics.connections.dec();
    drop(permit);
}

/// Requests of one connection, one after another.
async fn requests<S>(server: Server, stream: S, slot: Connection)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (edge, slot) = (server.edge.clone(), Arc::new(slot));
    let (asking, stream) = (slot.clone(), TokioIo::new(stream));
    let service = service_fn(move |request: Request<Incoming>| {
        let (server, asking) = (server.clone(), asking.clone());
        async move {
            asking.request_began();
            let answer = server.handle(request.map(axum::body::Body::new)).await;
            asking.request_ended(answer.extensions().get::<Authenticated>().is_some());
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let connection = builder(&edge).serve_connection(stream, service).with_upgrades();
    let mut connection = pin!(connection);
    let is_stopping = tokio::select! {
        _ = connection.as_mut() => false,
        () = edge.stopping().cancelled() => true,
        () = slot.closed() => false,
        () = first_header_timeout(&edge, &slot) => false,
    };
    if is_stopping {
        connection.as_mut().graceful_shutdown();
        // What is not over by then is cut off.
        let _ = tokio::time::timeout(edge.config().grace, connection).await;
    }
}

/// Ends if no whole header came in time; pending for ever if one did.
async fn first_header_timeout(edge: &Edge, slot: &Connection) {
    tokio::time::sleep(edge.config().first_header_timeout).await;
    if slot.has_sent_header() {
        std::future::pending::<()>().await;
    }
}

fn builder(edge: &Edge) -> http1::Builder {
    let config = edge.config();
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

/// Interval between two savings of the uses of keys.
const SAVE_USES_INTERVAL: Duration = Duration::from_secs(10);

async fn save_uses(edge: Edge) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(SAVE_USES_INTERVAL) => edge.access().save_uses().await,
            () = edge.stopping().cancelled() => return,
        }
    }
}
