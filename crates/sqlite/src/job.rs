//! A piece of work on its way to a database thread and its answer on the way back.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::Error;

/// Work whose types the threads need not know.
pub(crate) trait Job: Send {
    /// Does the work, keeps its result, and says whether it succeeded. May be called again after
    /// a rollback; only the last result counts.
    fn run(&mut self, connection: &Connection) -> bool;

    /// Hands out the kept result. Called after the commit.
    fn answer(self: Box<Self>);

    /// Answers with a failure that was none of the work's own.
    fn refuse(self: Box<Self>, error: Error);
}

pub(crate) struct Task<W, N, T, E> {
    pub(crate) work: W,
    pub(crate) then: N,
    result: Option<Result<T, E>>,
    reply: oneshot::Sender<Result<T, E>>,
}

impl<W, N, T, E> Task<W, N, T, E> {
    pub(crate) fn new(work: W, then: N) -> (Self, Answer<T, E>) {
        let (reply, receiver) = oneshot::channel();
        (Self { work, then, result: None, reply }, Answer(Inner::Waiting(receiver)))
    }
}

impl<W, N, T, E> Job for Task<W, N, T, E>
where
    W: FnMut(&Connection) -> Result<T, E> + Send,
    N: FnOnce(&T) + Send,
    T: Send,
    E: From<Error> + Send,
{
    fn run(&mut self, connection: &Connection) -> bool {
        self.result.insert((self.work)(connection)).is_ok()
    }

    fn answer(self: Box<Self>) {
        let Some(result) = self.result else { return };
        if let Ok(value) = &result {
            (self.then)(value);
        }
        // No caller waits if it went away; the work is done all the same.
        let _ = self.reply.send(result);
    }

    fn refuse(self: Box<Self>, error: Error) {
        let _ = self.reply.send(Err(error.into()));
    }
}

/// The answer to work that is queued. Dropping it does not take the work back.
pub struct Answer<T, E>(Inner<T, E>);

enum Inner<T, E> {
    Waiting(oneshot::Receiver<Result<T, E>>),
    Refused(Option<Error>),
}

impl<T, E> Answer<T, E> {
    pub(crate) fn refused(error: Error) -> Self {
        Answer(Inner::Refused(Some(error)))
    }
}

impl<T, E: From<Error>> Future for Answer<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Inner::Refused(error) => Poll::Ready(Err(error.take().unwrap_or(Error::Closed).into())),
            // The thread went away without an answer: it panicked, or was closed.
            Inner::Waiting(receiver) => Pin::new(receiver)
                .poll(context)
                .map(|answer| answer.unwrap_or_else(|_| Err(Error::Closed.into()))),
        }
    }
}

impl<T, E> fmt::Debug for Answer<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let refused = matches!(self.0, Inner::Refused(_));
        f.debug_struct("Answer").field("refused", &refused).finish()
    }
}
