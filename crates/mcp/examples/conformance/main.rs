//! The product with the fixtures of the protocol's conformance suite, on loopback.
//!
//! The suite calls tools, prompts and resources of fixed names and sends no key. So the fixtures stand
//! around the product's own handler, behind its own router, and a key is added to each request before it
//! gets there. Nothing of this is in the product. Prints the address of the endpoint, and serves until
//! standard input ends.
#![expect(clippy::print_stdout, reason = "its address is what its caller reads")]

mod fixtures;

use anyhow::{Context, Result};
use axum::{Router, extract::Request, middleware, middleware::Next};
use http::{HeaderValue, header};
use ringfence_edge::{Edge, EdgeConfig, Server};
use ringfence_mcp::{Handler, Mcp, McpConfig};
use ringfence_testkit::{Plane, PlaneConfig};
use ringfence_types::Scope;
use tokio::{io::AsyncReadExt, net::TcpListener};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let plane = Plane::start(PlaneConfig::default()).await?;
    let key = plane.key("conformance", &[Scope::Call]).await?;
    let edge = Edge::new(plane.engine.clone(), EdgeConfig::default());
    let config = McpConfig::default();
    let handler = Handler::new(edge.clone(), config.clone());
    let fixtures = fixtures::Fixtures::new(handler);
    let mcp = Mcp::with_handler(edge.clone(), config, fixtures);
    let product = Server::new(edge, &[&mcp]).router();
    let key = HeaderValue::try_from(format!("Bearer {key}")).context("a key is printable")?;
    let with_key = move |mut request: Request, next: Next| {
        request.headers_mut().insert(header::AUTHORIZATION, key.clone());
        next.run(request)
    };
    let app = Router::new().fallback_service(product).layer(middleware::from_fn(with_key));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    let ended = async {
        let mut rest = Vec::new();
        let _ = tokio::io::stdin().read_to_end(&mut rest).await;
    };
    tokio::select! {
        served = async { axum::serve(listener, app).await } => served?,
        () = ended => {}
    }
    // Reading standard input leaves a thread behind; the plane has ended.
    drop(plane);
    Ok(())
}
