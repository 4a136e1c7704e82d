//! New ids for traces and spans.

use std::sync::{
    LazyLock,
    atomic::{AtomicU64, Ordering},
};

use ringfence_types::{SpanId, Spans, TraceId, TraceParent};
use uuid::Uuid;

/// A new trace. It is recorded if there is a receiver of spans.
pub fn new_trace(spans: Option<&dyn Spans>) -> TraceParent {
    let trace = TraceId::from_random(Uuid::new_v4().as_u128());
    TraceParent::begin(trace, new_span(), spans.is_some_and(|spans| spans.samples(trace)))
}

/// A span id: unique in this process and unlikely to occur in any other. It is no secret, so it
/// costs no system call.
pub fn new_span() -> SpanId {
    static NEXT: LazyLock<AtomicU64> =
        LazyLock::new(|| AtomicU64::new(Uuid::new_v4().as_u64_pair().1));
    // SplitMix64: the finaliser is a bijection, so no two of 2^64 are equal.
    let state = NEXT.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    SpanId::from_random(mixed ^ (mixed >> 31))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_and_a_trace_without_a_receiver_is_not_sampled() {
        let names: std::collections::HashSet<_> = (0..10_000).map(|_| new_span()).collect();
        assert_eq!(names.len(), 10_000);
        let (one, other) = (new_trace(None), new_trace(None));
        assert_ne!(one.trace, other.trace);
        assert!(!one.is_sampled());
        assert_eq!(one.to_string().parse(), Ok(one));
    }
}
