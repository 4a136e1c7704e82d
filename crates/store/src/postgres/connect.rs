//! One connection, with statements that are prepared once.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use tokio::task::JoinHandle;
use tokio_postgres::{Client, Row, Statement, types::ToSql};

use super::PostgresUrl;
use crate::Error;

/// Failure of the database or of the line to it.
pub(super) type DbError = tokio_postgres::Error;

/// Parameters of a statement.
pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// One connection. It ends when dropped.
#[derive(Debug)]
pub(super) struct Link {
    client: Client,
    prepared: Mutex<HashMap<String, Statement>>,
    /// Moves bytes between the client and the line.
    driver: JoinHandle<()>,
}

impl Link {
    pub(super) async fn open(url: &PostgresUrl) -> Result<Self, Error> {
        let connected = url.config().connect(url.tls()?).await;
        let (client, connection) = connected.map_err(Error::backend("connect to the database"))?;
        let driver = tokio::spawn(async move {
            // Who uses the client gets the error.
            let _ = connection.await;
        });
        Ok(Self::new(client, driver))
    }

    pub(super) fn new(client: Client, driver: JoinHandle<()>) -> Self {
        Self { client, prepared: Mutex::default(), driver }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Statement of this text, prepared at its first use.
    pub(super) async fn prepare(&self, sql: &str) -> Result<Statement, DbError> {
        let known = self.prepared.lock().unwrap_or_else(PoisonError::into_inner).get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.client.prepare(sql).await?;
        let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        prepared.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Rows of a statement. If it is prepared, it is sent when this is first polled, so that several can be
    /// on their way at once.
    pub(super) async fn query(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, DbError> {
        let statement = self.prepare(sql).await?;
        self.client.query(&statement, params).await
    }

    /// Only row of a statement.
    pub(super) async fn one(&self, sql: &str, params: Params<'_>) -> Result<Row, DbError> {
        let statement = self.prepare(sql).await?;
        self.client.query_one(&statement, params).await
    }

    /// First row of a statement.
    pub(super) async fn first(
        &self,
        sql: &str,
        params: Params<'_>,
    ) -> Result<Option<Row>, DbError> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }

    pub(super) async fn execute(&self, sql: &str, params: Params<'_>) -> Result<u64, DbError> {
        let statement = self.prepare(sql).await?;
        self.client.execute(&statement, params).await
    }

    /// Text without parameters and answers.
    pub(super) async fn batch(&self, sql: &str) -> Result<(), DbError> {
        self.client.batch_execute(sql).await
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
