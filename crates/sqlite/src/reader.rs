//! Threads that read. Each piece of work sees one moment of the database.

use rusqlite::Connection;

use crate::{Error, job::Job, lanes::Lanes, queue::Queue};

/// Serves the lanes in turn.
pub(crate) fn run(connection: &Connection, lanes: &Lanes<Box<dyn Job>>) {
    while let Some(taken) = lanes.take() {
        // Before the answer: a caller that asks again after it finds its place free.
        read(connection, taken.item, || lanes.finished(taken.lane));
    }
}

/// Serves the look-ups, in their order.
pub(crate) fn run_look_ups(connection: &Connection, queue: &Queue<Box<dyn Job>>) {
    let mut jobs = Vec::with_capacity(1);
    while queue.take(1, &mut jobs) {
        for job in jobs.drain(..) {
            read(connection, job, || {});
        }
    }
}

fn read(connection: &Connection, mut job: Box<dyn Job>, done: impl FnOnce()) {
    if let Err(error) = execute(connection, "BEGIN") {
        done();
        return job.refuse(error);
    }
    job.run(connection);
    // A transaction that only read cannot fail to end in a way that matters to its answer; one
    // that is left open would keep the log from being reused, so it is ended in any case.
    if execute(connection, "COMMIT").is_err() && !connection.is_autocommit() {
        let _ = execute(connection, "ROLLBACK");
    }
    done();
    job.answer();
}

fn execute(connection: &Connection, sql: &str) -> Result<(), Error> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}
