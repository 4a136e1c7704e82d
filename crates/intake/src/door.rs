//! Requests, one after the other of each partition: read, identified, accepted, answered.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use ringfence_bus::{Bus, Delivery, Error, Member};
use ringfence_engine::{By, Engine, Refused};
use ringfence_types::error_chain;
use tokio_util::sync::CancellationToken;

use crate::{
    Config, Metrics, REQUESTS, RESULTS, envelope,
    identity::{self, Unidentified},
    refusal::{self, Refusal, Status},
    request::ToolRequest,
};

/// Delay of a request that could not be accepted now.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Everything that a request passes through.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) config: Config,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) engine: Engine,
    pub(crate) metrics: Metrics,
}

/// Answer to a delivery.
#[derive(Debug)]
enum Verdict {
    /// Its call is on record, or it was answered.
    Done(&'static str),
    /// It cannot be read.
    Dead(String),
    /// Not now.
    Later(Duration),
}

impl Door {
    /// Serves one membership, until the door is closed or the bus fails.
    pub(crate) async fn serve(
        &self,
        mut member: Box<dyn Member>,
        stopping: &CancellationToken,
    ) -> Result<(), Error> {
        let mut accepting = FuturesUnordered::new();
        loop {
            let has_room = accepting.len() < self.config.accepting && !stopping.is_cancelled();
            tokio::select! {
                next = member.next(), if has_room => {
                    let delivery = next?;
                    accepting.push(async move {
                        let verdict = self.accept(&delivery).await;
                        (delivery, verdict)
                    });
                }
                Some((delivery, verdict)) = accepting.next() => {
                    self.settle(&mut member, &delivery, verdict).await?;
                }
                () = stopping.cancelled(), if has_room => {}
                else => return Ok(()),
            }
        }
    }

    async fn settle(
        &self,
        member: &mut Box<dyn Member>,
        delivery: &Delivery,
        verdict: Verdict,
    ) -> Result<(), Error> {
        let settled = match verdict {
            Verdict::Done(result) => {
                self.metrics.count(result);
                member.commit(delivery).await
            }
            Verdict::Dead(cause) => {
                self.metrics.count("dead");
                tracing::debug!(cause, "a message is no request");
                member.dead_letter(delivery, &cause).await
            }
            Verdict::Later(delay) => {
                self.metrics.count("postponed");
                member.postpone(delivery, delay).await
            }
        };
        match settled {
            // Another member has it by now; it finds the call that was made.
            Err(Error::NotHeld) => Ok(()),
            settled => settled,
        }
    }

    async fn accept(&self, delivery: &Delivery) -> Verdict {
        let read = envelope::open(&delivery.message).and_then(|opened| ToolRequest::read(&opened));
        let request = match read {
            Ok(request) => request,
            Err(cause) => return Verdict::Dead(cause),
        };
        match self.call(&request).await {
            Ok(verdict) => verdict,
            Err(refusal) => self.answer(&request, &refusal).await,
        }
    }

    async fn call(&self, request: &ToolRequest) -> Result<Verdict, Refusal> {
        let (access, now) = (self.engine.access(), self.engine.clock().now());
        let who = match identity::principal(&self.config, access, request, now).await {
            Ok(who) => who,
            Err(Unidentified::Store(error)) => return Ok(later(&error, RETRY_DELAY)),
            Err(error) => return Err(Refusal::new(Status::Blocked, error.to_string())),
        };
        let call = request.call(&self.engine).map_err(|invalid| Refusal {
            problems: invalid.0,
            ..Refusal::new(Status::Error, format!("Unknown tool '{}'", request.tool_name))
        })?;
        let by = By::Bus { topic: REQUESTS.to_owned(), event_id: request.event_id.clone() };
        match self.engine.call_by(&who, call, by).await {
            Ok(ticket) if ticket.is_replayed() => Ok(Verdict::Done("repeated")),
            Ok(_) => Ok(Verdict::Done("accepted")),
            Err(Refused::StillRunning(_) | Refused::Erased(_)) => Ok(Verdict::Done("repeated")),
            Err(refused @ Refused::KeyReused(_)) => Ok(Verdict::Dead(format!(
                "event_id `{}` was used for another request: {refused}",
                request.event_id
            ))),
            Err(Refused::Busy { retry_after }) => Ok(Verdict::Later(retry_after)),
            Err(refused) => {
                let refusal = Refusal::of(&refused, &request.tool_name);
                refusal.map_or_else(|| Ok(later(&refused, RETRY_DELAY)), Err)
            }
        }
    }

    /// Publishes the result of a request that was refused.
    async fn answer(&self, request: &ToolRequest, refusal: &Refusal) -> Verdict {
        self.engine.count_refusal(&request.tool_name, "intake_refused");
        let source = self.engine.event_source();
        let result = refusal::result(request, refusal, &source, self.engine.clock().now());
        let result = match result {
            Ok(result) => result,
            Err(cause) => return Verdict::Dead(cause),
        };
        let is_read = match self.bus.is_read(RESULTS).await {
            Ok(is_read) => is_read,
            Err(error) => return later(&error, RETRY_DELAY),
        };
        let published = match is_read {
            true => self.bus.publish(vec![result]).await,
            false => Ok(()),
        };
        match published {
            Ok(()) => Verdict::Done("refused"),
            // What cannot be answered was too large to begin with.
            Err(error @ Error::TooLarge { .. }) => Verdict::Dead(error.to_string()),
            Err(error) => later(&error, RETRY_DELAY),
        }
    }
}

fn later(error: &dyn std::error::Error, delay: Duration) -> Verdict {
    tracing::warn!(error = error_chain(error), "a request waits");
    Verdict::Later(delay)
}
