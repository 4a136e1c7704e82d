//! Fetches against real servers on loopback, most of them hostile.
//!
//! Each refusal has a control: the same path, permitted, brings the document back.

mod addresses;
mod bodies;
mod environment;
mod exchanges;
mod headers;
mod lookups;
mod methods;
mod proxy;
mod rebinding;
mod redirects;
mod support;
mod times;
mod tls;
