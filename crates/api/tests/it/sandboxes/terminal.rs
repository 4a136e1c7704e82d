//! A terminal over a WebSocket.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Error, Message, client::IntoClientRequest, http::Response},
};

use super::{create, refused};
use crate::support::{Plan, Server, send, within};

type Socket = WebSocketStream<TcpStream>;

async fn start(server: &Server, place: &str, argv: &[&str]) -> String {
    let size = json!({"rows": 24, "columns": 80});
    let body = json!({"argv": argv, "terminal": size, "wait": 0});
    let answer = server.post(&format!("{place}/exec"), &body).await;
    assert_eq!((answer.status, &answer.json()["terminal"]), (202, &json!(true)), "{answer:?}");
    answer.header("location").unwrap().to_owned()
}

async fn attach(server: &Server, path: &str, key: &str) -> Result<Socket, Error> {
    let mut request = format!("ws://{}{path}", server.address).into_client_request().unwrap();
    let value = format!("Bearer {key}").parse().unwrap();
    request.headers_mut().insert("authorization", value);
    let stream = TcpStream::connect(server.address).await.unwrap();
    within("an answer", client_async(request, stream)).await.map(|(socket, _)| socket)
}

async fn open(server: &Server, at: &str, query: &str) -> Socket {
    attach(server, &format!("{at}/terminal{query}"), &server.admin).await.unwrap()
}

/// Reads until the output holds the text; returns all of it.
async fn until(socket: &mut Socket, text: &str) -> String {
    let mut shown = Vec::new();
    within(text, async {
        while !String::from_utf8_lossy(&shown).contains(text) {
            if let Message::Binary(bytes) = socket.next().await.unwrap().unwrap() {
                shown.extend_from_slice(&bytes);
            }
        }
    })
    .await;
    String::from_utf8(shown).unwrap()
}

async fn type_in(socket: &mut Socket, text: &str) {
    socket.send(Message::Binary(text.as_bytes().to_vec().into())).await.unwrap();
}

/// The last text message and the code of the close.
async fn end(socket: &mut Socket) -> (Value, u16) {
    within("the end", async {
        let mut last = Value::Null;
        loop {
            match socket.next().await.unwrap().unwrap() {
                Message::Text(text) => last = serde_json::from_str(&text).unwrap(),
                Message::Close(frame) => return (last, frame.unwrap().code.into()),
                _ => {}
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_terminal_is_typed_into_resized_and_ends_with_its_program() {
    let server = Server::of(Plan::sandboxed()).await;
    let place = create(&server, &json!({})).await;
    let at = start(&server, &place, &["sh"]).await;
    let mut socket = open(&server, &at, "").await;
    type_in(&mut socket, "stty size; echo e-n-d\n").await;
    assert!(until(&mut socket, "\ne-n-d").await.contains("24 80"));
    let resize = json!({"resize": {"rows": 40, "columns": 132}}).to_string();
    socket.send(Message::Text(resize.into())).await.unwrap();
    type_in(&mut socket, "stty size; echo e-n-d-2\n").await;
    assert!(until(&mut socket, "\ne-n-d-2").await.contains("40 132"));
    // The same by a request, and what is typed by one.
    let body = json!({"rows": 50, "columns": 100});
    assert_eq!(server.post(&format!("{at}/resize"), &body).await.status, 204);
    let request = server.request("POST", &format!("{at}/stdin")).body("stty size; exit 5\n");
    let request = request.header("content-type", "application/octet-stream");
    assert_eq!(send(request).await.status, 204);
    until(&mut socket, "50 100").await;
    let (last, code) = end(&mut socket).await;
    assert_eq!((&last["exit"]["exit_code"], code), (&json!(5), 1000));
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_comes_back_goes_on_where_it_was() {
    let server = Server::of(Plan::sandboxed()).await;
    let place = create(&server, &json!({})).await;
    let at = start(&server, &place, &["sh", "-c", "stty -echo; echo one; read x; echo two"]).await;
    let mut socket = open(&server, &at, "").await;
    let first = until(&mut socket, "one\r\n").await;
    drop(socket);
    let mut socket = open(&server, &at, &format!("?offset={}", first.len())).await;
    type_in(&mut socket, "\n").await;
    assert_eq!(until(&mut socket, "two\r\n").await, "two\r\n");
    server.stop().await;
}

#[tokio::test]
async fn what_is_no_terminal_or_no_socket_is_refused() {
    let server = Server::of(Plan::sandboxed()).await;
    let place = create(&server, &json!({})).await;
    let at = start(&server, &place, &["sh"]).await;
    let answer = server.get(&format!("{at}/terminal")).await;
    refused(&answer, 426, "upgrade_required");
    assert_eq!(answer.header("upgrade"), Some("websocket"));
    let plain = server.post(&format!("{place}/exec"), &json!({"argv": ["true"]})).await.json();
    let plain = format!("{place}/exec/{}", plain["id"]);
    let no = attach(&server, &format!("{plain}/terminal"), &server.admin).await;
    assert_eq!(status(no), 409);
    let size = json!({"rows": 1, "columns": 1});
    refused(&server.post(&format!("{plain}/resize"), &size).await, 409, "sandbox_refused");
    let wrong = server.post(&format!("{at}/resize"), &json!({"rows": 0, "columns": 1001})).await;
    assert_eq!(wrong.pointers(), ["/rows", "/columns"]);
    let unknown = attach(&server, &format!("{at}/terminal"), "rf_no").await;
    assert_eq!(status(unknown), 401);
    let stranger = server.key("other", &ringfence_types::Scope::ALL).await;
    assert_eq!(status(attach(&server, &format!("{at}/terminal"), &stranger).await), 404);
    assert_eq!(status(attach(&server, &format!("{at}/terminal?x=1"), &server.admin).await), 400);
    server.stop().await;
}

fn status(attached: Result<Socket, Error>) -> u16 {
    match attached {
        Err(Error::Http(response)) => {
            let response: Response<_> = *response;
            response.status().as_u16()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn unknown_or_too_long_messages_close_the_socket() {
    let server = Server::of(Plan::sandboxed()).await;
    let place = create(&server, &json!({})).await;
    let at = start(&server, &place, &["sh"]).await;
    for text in ["hello", "{}", r#"{"resize": {"rows": 0, "columns": 80}}"#, r#"{"a":1,"a":2}"#] {
        let mut socket = open(&server, &at, "").await;
        socket.send(Message::Text(text.into())).await.unwrap();
        assert_eq!(end(&mut socket).await.1, 1008, "{text}");
    }
    let mut socket = open(&server, &at, "").await;
    let _ = socket.send(Message::Binary(vec![b'x'; 70_000].into())).await;
    within("the end of the connection", async { while let Some(Ok(_)) = socket.next().await {} })
        .await;
    // The program does not notice, and the server's end is the socket's.
    let mut socket = open(&server, &at, "").await;
    type_in(&mut socket, "echo a-live\n").await;
    until(&mut socket, "\na-live").await;
    let stopping = tokio::spawn(server.stop());
    assert_eq!(end(&mut socket).await.1, 1001);
    within("the end of the server", stopping).await.unwrap();
}
