//! Room for more: a budget of bytes per tenant, and free space on the disk.
//!
//! Both are looked at before something new is taken in; what was taken in is always written to its
//! end, so that no call, decision or ledger entry is cut off for want of room. A tenant's budget is a
//! bucket of bytes: what is written is taken out, and it fills up again within an hour. It may be
//! overdrawn by what is under way.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use ringfence_types::{Bytes, TenantId};

/// Why nothing new is taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// The tenant stored too much in the last hour.
    #[error("this tenant had more stored than the {} that it may have stored in an hour", Bytes(*per_hour))]
    Budget {
        /// Bytes per hour.
        per_hour: u64,
        /// When there is some budget again.
        retry_after: Duration,
    },
    /// Little space is left on the disk.
    #[error(
        "the server's disk has {} left and {} are kept in reserve: free some space",
        Bytes(*free),
        Bytes(*reserve)
    )]
    Disk {
        /// Bytes that are free.
        free: u64,
        /// Bytes below which nothing new is taken in.
        reserve: u64,
    },
}

/// Bounds of the stored bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoomLimits {
    /// Bytes that one tenant may have stored per hour, at once or spread; 0 is any number.
    pub tenant_bytes_per_hour: u64,
    /// Bytes of the disk that are kept in reserve; without it 512 MiB or 5 % of the disk, whichever is
    /// smaller.
    pub disk_reserve: Option<u64>,
}

impl Default for RoomLimits {
    fn default() -> Self {
        Self { tenant_bytes_per_hour: 8 << 30, disk_reserve: None }
    }
}

/// The largest reserve that is kept without a setting.
const LARGEST_RESERVE: u64 = 512 << 20;

/// Time for which a look at the disk is good.
const FRESH: Duration = Duration::from_millis(100);

/// Tenants whose budgets are kept; full ones are forgotten first.
const MAX_TENANTS: usize = 10_000;

/// A budget fills up within this time.
const HOUR: f64 = 3_600.0;

/// Room for more.
#[derive(Debug)]
pub struct Room {
    folder: PathBuf,
    limits: Mutex<RoomLimits>,
    budgets: Mutex<HashMap<TenantId, Budget>>,
    disk: Mutex<Option<(Instant, Disk)>>,
    stored: AtomicU64,
    refused: AtomicU64,
}

/// Free and total bytes of a disk.
#[derive(Debug, Clone, Copy)]
struct Disk {
    free: u64,
    total: u64,
}

/// Bytes that are left, or overdrawn, at a moment.
#[derive(Debug, Clone, Copy)]
struct Budget {
    left: f64,
    at: Instant,
}

impl Budget {
    fn now(self, per_hour: f64, now: Instant) -> Self {
        let gained = now.saturating_duration_since(self.at).as_secs_f64() * per_hour / HOUR;
        Self { left: (self.left + gained).min(per_hour), at: now }
    }
}

impl Room {
    /// Room on the disk of this folder, without a bound for tenants until [`Room::set_limits`].
    pub(crate) fn new(folder: &Path) -> Self {
        let limits = RoomLimits { tenant_bytes_per_hour: 0, disk_reserve: Some(0) };
        Self {
            folder: folder.to_owned(),
            limits: Mutex::new(limits),
            budgets: Mutex::default(),
            disk: Mutex::default(),
            stored: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Keeps to these limits from now on.
    pub fn set_limits(&self, limits: RoomLimits) {
        *lock(&self.limits) = limits;
    }

    /// Whether something new of a tenant may be taken in.
    pub fn admit(&self, tenant: &TenantId) -> Result<(), NoRoom> {
        let limits = *lock(&self.limits);
        let admitted =
            self.check_disk().and_then(|()| self.check_budget(tenant, limits, Instant::now()));
        if admitted.is_err() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        admitted
    }

    /// Counts what was written for a tenant.
    pub(crate) fn charge(&self, tenant: &TenantId, bytes: usize) {
        self.stored.fetch_add(bytes as u64, Ordering::Relaxed);
        let per_hour = lock(&self.limits).tenant_bytes_per_hour;
        if per_hour > 0 {
            self.charge_at(tenant, bytes, per_hour as f64, Instant::now());
        }
    }

    fn charge_at(&self, tenant: &TenantId, bytes: usize, per_hour: f64, now: Instant) {
        let mut budgets = lock(&self.budgets);
        if budgets.len() >= MAX_TENANTS && !budgets.contains_key(tenant) {
            budgets.retain(|_, budget| budget.now(per_hour, now).left < per_hour);
        }
        let full = Budget { left: per_hour, at: now };
        let budget = budgets.entry(tenant.clone()).or_insert(full);
        *budget = budget.now(per_hour, now);
        budget.left -= bytes as f64;
    }

    fn check_budget(
        &self,
        tenant: &TenantId,
        limits: RoomLimits,
        now: Instant,
    ) -> Result<(), NoRoom> {
        let per_hour = limits.tenant_bytes_per_hour;
        let found = lock(&self.budgets).get(tenant).copied();
        let Some(budget) = found.filter(|_| per_hour > 0) else { return Ok(()) };
        let left = budget.now(per_hour as f64, now).left;
        if left > 0.0 {
            return Ok(());
        }
        // A second more, so that a waiting caller finds at least some bytes.
        let retry_after = Duration::from_secs_f64(-left * HOUR / per_hour as f64 + 1.0);
        Err(NoRoom::Budget { per_hour, retry_after })
    }

    /// Whether the disk has more than its reserve. A disk that cannot be looked at counts as one that
    /// has: writing to it tells.
    pub fn check_disk(&self) -> Result<(), NoRoom> {
        let Some(Disk { free, total }) = self.disk() else { return Ok(()) };
        let reserve = lock(&self.limits).disk_reserve;
        let reserve = reserve.unwrap_or_else(|| LARGEST_RESERVE.min(total / 20));
        if free < reserve { Err(NoRoom::Disk { free, reserve }) } else { Ok(()) }
    }

    /// Bytes that are free on the disk, as of some moments ago.
    pub fn free(&self) -> Option<u64> {
        self.disk().map(|disk| disk.free)
    }

    /// Bytes that were written for tenants since the start.
    pub fn stored(&self) -> u64 {
        self.stored.load(Ordering::Relaxed)
    }

    /// Number of refusals since the start.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn disk(&self) -> Option<Disk> {
        let mut seen = lock(&self.disk);
        if let Some((at, disk)) = *seen
            && at.elapsed() < FRESH
        {
            return Some(disk);
        }
        let found = rustix::fs::statvfs(&self.folder).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        let disk = Disk { free: bytes(found.f_bavail), total: bytes(found.f_blocks) };
        *seen = Some((Instant::now(), disk));
        Some(disk)
    }
}

/// Nothing under these locks can panic half-way, so a poisoned one is as good as any.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> TenantId {
        name.parse().unwrap()
    }

    #[test]
    fn a_budget_is_taken_out_overdrawn_once_and_filled_again() {
        let room = Room::new(Path::new("/"));
        let limits = RoomLimits { tenant_bytes_per_hour: 3_600, disk_reserve: Some(0) };
        let (start, one, other) = (Instant::now(), tenant("one"), tenant("other"));
        let check =
            |tenant, secs| room.check_budget(tenant, limits, start + Duration::from_secs(secs));
        assert_eq!(check(&one, 0), Ok(()));
        room.charge_at(&one, 3_599, 3_600.0, start);
        assert_eq!(check(&one, 0), Ok(()), "one byte is left");
        room.charge_at(&one, 101, 3_600.0, start);
        let retry_after = Duration::from_secs(101);
        assert_eq!(check(&one, 0), Err(NoRoom::Budget { per_hour: 3_600, retry_after }));
        assert_eq!(check(&other, 0), Ok(()), "each tenant has its own");
        assert!(check(&one, 99).is_err());
        assert_eq!(check(&one, 101), Ok(()), "a byte per second comes back");
        // It never holds more than an hour's.
        room.charge_at(&one, 3_600, 3_600.0, start + Duration::from_secs(1_000_000));
        assert!(check(&one, 1_000_000).is_err());
    }

    #[test]
    fn a_disk_with_less_than_its_reserve_takes_nothing_new() {
        let room = Room::new(&std::env::temp_dir());
        room.set_limits(RoomLimits { tenant_bytes_per_hour: 0, disk_reserve: Some(u64::MAX) });
        let refused = room.admit(&tenant("one"));
        assert!(matches!(refused, Err(NoRoom::Disk { reserve: u64::MAX, .. })), "{refused:?}");
        room.set_limits(RoomLimits { tenant_bytes_per_hour: 0, disk_reserve: Some(0) });
        assert_eq!((room.admit(&tenant("one")), room.refused()), (Ok(()), 1));
    }
}
