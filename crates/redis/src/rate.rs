//! Requests of a key, counted by Redis for all servers.
//!
//! Together the servers never exceed the rate and its burst:
//! - While Redis answers, it alone counts.
//! - When it stops, nothing is granted by it any more, and each server has an equal part of the rate,
//!   beginning without a burst.
//! - When it is back it may have forgotten everything, so rates begin used up, and all servers change
//!   over at the same time, by the clock of Redis.
//!
//! One case is outside of this: a server that alone cannot reach a Redis that others use adds its own part.

use std::time::Duration;

use async_trait::async_trait;
use redis::cmd;
use ringfence_access::{Rate, SharedRate, Taken};
use ringfence_types::KeyId;

use crate::{
    Redis,
    link::{Alone, NOTE, SETTLE_TIME, unexpected},
};

#[async_trait]
impl SharedRate for Redis {
    async fn take(&self, key: KeyId, rate: Rate) -> Taken {
        let mut connection = match self.link.shared() {
            Ok(connection) => connection,
            Err(alone) => return alone.into(),
        };
        let each = 1e6 / f64::from(rate.per_second.max(1));
        let room = each * f64::from(rate.burst.max(1));
        let mut command = cmd("EVAL");
        command.arg(include_str!("take.lua")).arg(2);
        command.arg(format!("ringfence:rate:{key}")).arg(NOTE);
        command.arg(format!("{each:.3}")).arg(format!("{room:.3}"));
        command.arg(SETTLE_TIME.as_micros().to_string());
        match command.query_async::<i64>(&mut connection).await {
            Ok(0) => Taken::Yes,
            Ok(wait @ 1..) => Taken::Wait(Duration::from_micros(wait.unsigned_abs())),
            Ok(_) => self.link.fail(&unexpected("rates were removed from Redis")).into(),
            Err(error) => self.link.fail(&error).into(),
        }
    }
}

impl From<Alone> for Taken {
    fn from(Alone { since, servers }: Alone) -> Self {
        Self::Alone { since, servers }
    }
}
