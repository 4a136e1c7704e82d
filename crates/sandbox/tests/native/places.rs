//! Limited slots: sandboxes that were prepared ahead are ended for requested ones.

use ringfence_sandbox::{Config, PoolConfig, Request};
use ringfence_types::{Bytes, Limits};
use tokio::task::JoinSet;

use crate::support::{Service, assert_exited, eventually, forked, permit, shell, within};

/// A service with so many slots, all of them taken by idle members.
async fn crowded(places: usize) -> Service {
    let pools = PoolConfig { min_ready: places, imports: Vec::new(), ..PoolConfig::default() };
    let service =
        Service::with(Config { most_sandboxes: places, pools: Some(pools), ..Config::service() });
    assert_exited(&service.run(forked("1")).await, 0);
    eventually("idle members hold every place", || idle(&service) == places).await;
    service
}

fn idle(service: &Service) -> usize {
    service.native.pools().iter().map(|(_, status)| status.ready).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_takes_the_place_of_an_idle_member() {
    let service = crowded(2).await;
    assert_exited(&service.run(shell("true")).await, 0);
    service.close().await;
}

/// No idle member has the shape of this call, so one must be made for it, in the slot of another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_of_another_shape_takes_the_place_of_an_idle_one() {
    let service = crowded(2).await;
    let limits = Limits { disk: Bytes::mib(7), ..Limits::default() };
    assert_exited(&service.run(Request { limits, ..forked("1") }).await, 0);
    service.close().await;
}

/// A zygote is a helper and not a sandbox: with one slot, its child has that slot.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_place_is_enough_for_every_tier() {
    let service = crowded(1).await;
    for _ in 0..3 {
        assert_exited(&service.run(shell("true")).await, 0);
        assert_exited(&service.run(forked("1")).await, 0);
    }
    service.close().await;
}

/// Refills and calls compete for the same slots; every call gets one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_calls_is_served_through_two_places() {
    let service = crowded(2).await;
    let mut calls = JoinSet::new();
    for number in 0..24 {
        let native = service.native.clone();
        let request = if number % 2 == 0 { shell("true") } else { forked("1") };
        calls.spawn(async move { native.run(permit(), request).await?.wait().await });
    }
    while let Some(ended) = within("every call has its turn", calls.join_next()).await {
        assert_exited(&ended.expect("no panic").expect("the sandbox stands"), 0);
    }
    service.close().await;
}
