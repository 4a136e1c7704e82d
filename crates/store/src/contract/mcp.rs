//! MCP servers whose tools are offered.

use std::{collections::BTreeMap, sync::Arc};

use ringfence_types::{
    HttpServer, KeyId, McpServer, ServerName, ServerSpec, ServerTransport, Timestamp,
};
use uuid::Uuid;

use super::samples::{AT, tenant};
use crate::Store;

fn name() -> ServerName {
    let text = Uuid::now_v7().simple().to_string();
    format!("s{}", &text[text.len() - 20..]).parse().expect("a name")
}

fn server(name: ServerName, url: &str) -> McpServer {
    let transport =
        ServerTransport::Http(HttpServer { url: url.to_owned(), headers: BTreeMap::new() });
    McpServer {
        name,
        spec: ServerSpec { transport, safety_flags: None, timeout_secs: Some(5) },
        tenant: tenant(),
        key: KeyId(Uuid::now_v7()),
        added_at: Timestamp::from_micros(AT),
    }
}

/// A server reads back whole until it is removed; the first of a name stays.
pub async fn an_mcp_server_reads_back_whole_until_it_is_removed(store: &Arc<dyn Store>) {
    let (one, other) = (server(name(), "https://a.example"), server(name(), "https://b.example"));
    let mine = async || {
        let all = store.mcp_servers().await.expect("an answer");
        let names = [&one.name, &other.name];
        all.into_iter().filter(|server| names.contains(&&server.name)).collect::<Vec<_>>()
    };
    assert!(store.add_mcp_server(one.clone()).await.expect("it is kept"));
    assert!(store.add_mcp_server(other.clone()).await.expect("it is kept"));
    let second = server(one.name.clone(), "https://c.example");
    assert!(!store.add_mcp_server(second).await.expect("an answer"));
    let mut all = vec![one.clone(), other.clone()];
    all.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(mine().await, all);
    assert!(store.remove_mcp_server(&one.name).await.expect("an answer"));
    assert!(!store.remove_mcp_server(&one.name).await.expect("an answer"));
    assert_eq!(mine().await, std::slice::from_ref(&other));
}
