//! Too much output, and input that is not read.

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

use ringfence_types::Bytes;

use crate::{
    AttackContext, Case, Criterion, Finding, Group,
    finding::{broken, escaped, held},
};

const FLOOD: u64 = 48 << 20;
const SMALL_FLOOD: u64 = 2 << 20;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(Group::Resources, "R10", "a flood of output is cut and counted", flood)
            .judged(Criterion::Flood(FLOOD)),
        Case::new(
            Group::Resources,
            "R15",
            "input that is never read blocks no other process",
            |context| unread(context, false),
        )
        .fed(Bytes::mib(64)),
        Case::new(
            Group::Resources,
            "R15.closed",
            "input that is closed early harms no other process",
            |g| unread(g, true),
        )
        .fed(Bytes::mib(64)),
    ]
}

fn flood(context: &AttackContext) -> Finding {
    let chunk = b"y\n".repeat(32 << 10);
    let amount = context.pick(FLOOD, SMALL_FLOOD);
    // Far longer than needed on an emulated machine, and well within the wall limit.
    let deadline = Instant::now() + Duration::from_secs(40);
    let mut out = io::stdout().lock();
    for _ in 0..amount / chunk.len() as u64 {
        if Instant::now() > deadline {
            return broken("the reader is too slow");
        }
        if let Err(error) = out.write_all(&chunk) {
            return broken(error.to_string());
        }
    }
    escaped(format!("{amount} bytes were written"))
}

/// Ends without reading; the end of the run is the proof. The control shows that a plain writer
/// blocks on such a reader.
fn unread(context: &AttackContext, close: bool) -> Finding {
    if context.is_outside() {
        return stall();
    }
    if close {
        ringfence_jail::attack::close_input();
    }
    std::thread::sleep(Duration::from_millis(200));
    held("it ended, and so did its feeder")
}

fn stall() -> Finding {
    let (reader, mut writer) = match io::pipe() {
        Ok(ends) => ends,
        Err(error) => return broken(error.to_string()),
    };
    let nonblocking = rustix::fs::fcntl_getfl(&writer)
        .and_then(|flags| rustix::fs::fcntl_setfl(&writer, flags | rustix::fs::OFlags::NONBLOCK));
    if let Err(error) = nonblocking {
        return broken(error.to_string());
    }
    let chunk = [0; 4096];
    let mut taken = 0;
    loop {
        match writer.write(&chunk) {
            Ok(more) => taken += more,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return broken(error.to_string()),
        }
    }
    drop(reader);
    escaped(format!("a writer stalls after {taken} bytes"))
}
