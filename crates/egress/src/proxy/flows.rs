//! Flows of one proxy, summed up for the receipt.
//!
//! Exchanges that are equal in host, port, method and verdict are one flow, so the number of flows
//! is bounded however many requests a program sends. Byte counts are current while a flow lasts.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use ringfence_types::Flow;

/// Number of different flows; further ones are summed up under the host `*`.
const MAX_FLOWS: usize = 64;

/// Flows of one proxy, in order of their first exchange. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct FlowLog {
    flows: Arc<Mutex<Vec<Arc<Entry>>>>,
}

/// One flow and its counters.
#[derive(Debug)]
pub(super) struct Entry {
    flow: Flow,
    requests: AtomicU64,
    /// Bytes of the program to the server.
    pub(super) up: AtomicU64,
    /// Bytes of the server to the program.
    pub(super) down: AtomicU64,
}

impl FlowLog {
    /// Counts one exchange. Peer and status are those of the first.
    pub(super) fn count(&self, flow: Flow) -> Arc<Entry> {
        let mut flows = self.lock();
        let is_full = flows.len() >= MAX_FLOWS;
        let found = flows.iter().find(|entry| is_same(&entry.flow, &flow));
        let entry = match found {
            Some(entry) => entry.clone(),
            None => {
                let flow = match is_full {
                    true => Flow { host: "*".to_owned(), ..Flow::default() },
                    false => flow,
                };
                let same = flows.iter().find(|entry| is_same(&entry.flow, &flow)).cloned();
                same.unwrap_or_else(|| {
                    let entry = Arc::new(Entry {
                        flow,
                        requests: AtomicU64::new(0),
                        up: AtomicU64::new(0),
                        down: AtomicU64::new(0),
                    });
                    flows.push(entry.clone());
                    entry
                })
            }
        };
        entry.requests.fetch_add(1, Ordering::Relaxed);
        entry
    }

    /// All flows so far.
    pub fn flows(&self) -> Vec<Flow> {
        self.lock().iter().map(|entry| entry.read()).collect()
    }

    /// Flows since the last call of this function. One that lasts is counted on from zero.
    pub fn take(&self) -> Vec<Flow> {
        let mut flows = self.lock();
        let taken = flows.iter().map(|entry| entry.take()).collect();
        // Entries that are still counted by a connection stay.
        flows.retain(|entry| Arc::strong_count(entry) > 1);
        taken
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Entry>>> {
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn read(&self) -> Flow {
        self.with(|counter| counter.load(Ordering::Relaxed))
    }

    fn take(&self) -> Flow {
        self.with(|counter| counter.swap(0, Ordering::Relaxed))
    }

    fn with(&self, read: impl Fn(&AtomicU64) -> u64) -> Flow {
        Flow {
            requests: Some(read(&self.requests)),
            bytes: Some(read(&self.down)),
            bytes_up: Some(read(&self.up)),
            ..self.flow.clone()
        }
    }
}

fn is_same(one: &Flow, other: &Flow) -> bool {
    (&one.host, one.port, &one.method, &one.verdict, &one.secrets)
        == (&other.host, other.port, &other.method, &other.verdict, &other.secrets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(host: &str) -> Flow {
        Flow { host: host.to_owned(), port: Some(443), ..Flow::default() }
    }

    #[test]
    fn equal_exchanges_are_one_flow_and_their_number_is_bounded() {
        let log = FlowLog::default();
        for _ in 0..3 {
            log.count(flow("a.example")).up.fetch_add(5, Ordering::Relaxed);
        }
        for number in 0..200 {
            log.count(flow(&format!("{number}.example")));
        }
        let flows = log.flows();
        assert_eq!(flows.len(), MAX_FLOWS + 1);
        assert_eq!((flows[0].requests, flows[0].bytes_up), (Some(3), Some(15)));
        let rest = flows.last().unwrap();
        assert_eq!((rest.host.as_str(), rest.requests), ("*", Some(200 + 1 - 64)));
    }

    #[test]
    fn what_was_taken_is_not_told_twice() {
        let log = FlowLog::default();
        let lasting = log.count(flow("a.example"));
        lasting.down.fetch_add(1, Ordering::Relaxed);
        drop(log.count(flow("b.example")));
        assert_eq!(log.take().len(), 2);
        lasting.down.fetch_add(7, Ordering::Relaxed);
        let next = log.take();
        assert_eq!((next.len(), next[0].bytes), (1, Some(7)));
    }
}
