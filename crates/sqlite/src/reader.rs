//! A thread that reads. Each piece of work sees one moment of the database.

use std::sync::Arc;

use rusqlite::Connection;

use crate::{Error, job::Job, queue::Queue};

pub(crate) fn run(connection: &Connection, queue: &Arc<Queue<Box<dyn Job>>>) {
    let mut jobs = Vec::with_capacity(1);
    while queue.take(1, &mut jobs) {
        for job in jobs.drain(..) {
            read(connection, job);
        }
    }
}

fn read(connection: &Connection, mut job: Box<dyn Job>) {
    if let Err(error) = execute(connection, "BEGIN") {
        return job.refuse(error);
    }
    job.run(connection);
    // A transaction that only read cannot fail to end in a way that matters to its answer; one
    // that is left open would keep the log from being reused, so it is ended in any case.
    if execute(connection, "COMMIT").is_err() && !connection.is_autocommit() {
        let _ = execute(connection, "ROLLBACK");
    }
    job.answer();
}

fn execute(connection: &Connection, sql: &str) -> Result<(), Error> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}
