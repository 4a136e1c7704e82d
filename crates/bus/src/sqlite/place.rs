//! Where a message lies.

/// Bits of a place that are the offset: a thousand messages per second for 34 years. The rest is
/// the slot, of which there are eight million.
const OFFSET_BITS: u32 = 40;

/// One partition of one topic.
pub(super) type Slot = i64;

/// The place of an offset.
pub(super) const fn place(slot: Slot, offset: i64) -> i64 {
    slot << OFFSET_BITS | offset
}

/// The place behind the last one of a slot.
pub(super) const fn end(slot: Slot) -> i64 {
    place(slot + 1, 0)
}

/// The offset of a place.
pub(super) const fn offset(place: i64) -> i64 {
    place & ((1 << OFFSET_BITS) - 1)
}

/// Partition of a key among so many. FNV-1a: what matters is that it is the same for
/// ever, because messages of one key that lay in two partitions would have no order.
pub(super) fn partition(key: &[u8], partitions: usize) -> usize {
    let hash = key.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // The low bits of FNV are weak for short keys; the high ones are folded in.
    ((hash ^ (hash >> 32)) % partitions.max(1) as u64) as usize
}
