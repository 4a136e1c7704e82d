//! Bytes of other clients that the client library reads as UTF-8, ending the process on others: names of headers, and
//! metadata of committed offsets.
//!
//! The one module outside of `jail` with `unsafe`. It only reads, from objects that outlive the reading.

#![expect(unsafe_code, reason = "rdkafka 0.39 panics on these bytes, and has no other way to them")]

use std::{
    ffi::{CStr, c_void},
    ptr, slice,
};

use rdkafka::{
    TopicPartitionList,
    bindings::{rd_kafka_header_get_all, rd_kafka_message_headers},
    message::BorrowedMessage,
    types::RDKafkaRespErr,
};

const NO_ERROR: RDKafkaRespErr = RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR;

/// Headers of a message, in order. A name that is not UTF-8 has replacement characters.
pub(super) fn headers(message: &BorrowedMessage<'_>) -> Vec<(String, Vec<u8>)> {
    let mut list = ptr::null_mut();
    // SAFETY: the pointer of a borrowed message is valid, and the list belongs to the message.
    let found = unsafe { rd_kafka_message_headers(message.ptr(), &raw mut list) };
    let mut headers = Vec::new();
    if found != NO_ERROR {
        return headers;
    }
    loop {
        let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
        let (at, into) = (headers.len(), (&raw mut name, &raw mut value, &raw mut size));
        // SAFETY: the list is valid while its message is borrowed; an index beyond its end is an error.
        let read = unsafe { rd_kafka_header_get_all(list, at, into.0, into.1, into.2) };
        if read != NO_ERROR {
            return headers;
        }
        // SAFETY: names end with a zero byte; the value has `size` bytes. Both belong to the message.
        let (name, value) = unsafe { (CStr::from_ptr(name), bytes(value, size)) };
        headers.push((name.to_string_lossy().into_owned(), value));
    }
}

/// Metadata of each element of a list; empty if it is not UTF-8, since it is not ours then.
pub(super) fn metadata(list: &TopicPartitionList) -> Vec<String> {
    // SAFETY: the list is valid while it is borrowed, and has `cnt` elements.
    let elements = unsafe {
        let list = &*list.ptr();
        let count = usize::try_from(list.cnt).unwrap_or_default();
        if count == 0 { &[] } else { slice::from_raw_parts(list.elems, count) }
    };
    let text = |at: &rdkafka::bindings::rd_kafka_topic_partition_t| {
        // SAFETY: the metadata of an element has so many bytes.
        String::from_utf8(unsafe { bytes(at.metadata, at.metadata_size) }).unwrap_or_default()
    };
    elements.iter().map(text).collect()
}

/// A copy of so many bytes.
///
/// # Safety
/// The pointer is null, or that many bytes can be read from it.
unsafe fn bytes(start: *const c_void, size: usize) -> Vec<u8> {
    if start.is_null() {
        return Vec::new();
    }
    // SAFETY: promised by the caller.
    unsafe { slice::from_raw_parts(start.cast::<u8>(), size) }.to_vec()
}
