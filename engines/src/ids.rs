//! Clock and id generator, both injectable (contract §1: UUIDv7, `next(timestamp?)`).

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use forkline_model::{Millis, SessionId};
use uuid::Builder;

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Now, Unix ms.
    fn now(&self) -> Millis;
}

/// Gives out ids that are unique and, within one generator, ascending for ascending times.
pub trait IdSource: Send + Sync {
    /// The next id, as text. `timestamp` is the time it carries; now unless given.
    fn next(&self, timestamp: Option<Millis>) -> String;
}

/// The system's clock. Before 1970 it says 0.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Millis {
        let ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        u64::try_from(ms).ok().and_then(|ms| Millis::new(ms).ok()).unwrap_or(Millis::EPOCH)
    }
}

/// UUIDv7 with a counter in front of the random bits: ids that carry one millisecond ascend in
/// the order they were asked for, whatever was asked for in between, and 48 random bits keep
/// them apart from all others.
#[derive(Debug, Default)]
pub struct UuidSource {
    // Not begun anew with each millisecond: the records of a legacy file step back in time.
    asked: AtomicU32,
}

impl UuidSource {
    /// A generator of its own.
    pub fn new() -> Self {
        Self::default()
    }

    /// An id that carries `ms`: 48 bits of time, 26 bits of counter, 48 random bits.
    fn at(&self, ms: u64) -> String {
        let counter = self.asked.fetch_add(1, Ordering::Relaxed);
        let [.., r0, r1, r2, r3, r4, r5] = uuid::Uuid::now_v7().into_bytes();
        // 12 bits go beside the version, 14 beside the two bits of the variant.
        let [_, _, v0, v1] = (counter >> 14 & 0xfff).to_be_bytes();
        let [_, _, w0, w1] = (counter & 0x3fff).to_be_bytes();
        let random = [v0, v1, w0, w1, r0, r1, r2, r3, r4, r5];
        Builder::from_unix_timestamp_millis(ms, &random).into_uuid().to_string()
    }
}

impl IdSource for UuidSource {
    fn next(&self, timestamp: Option<Millis>) -> String {
        self.at(timestamp.unwrap_or_else(|| SystemClock.now()).get())
    }
}

/// The next id as a session id.
pub(crate) fn next_session(ids: &dyn IdSource) -> crate::Result<SessionId> {
    Ok(SessionId::new(ids.next(None))?)
}

#[cfg(test)]
mod tests {
    use forkline_model::Millis;

    use super::{IdSource, UuidSource};

    #[test]
    fn ids_of_one_millisecond_ascend_and_carry_it() {
        let source = UuidSource::new();
        let ms = Millis::new(1_700_000_000_000).unwrap();
        let ids: Vec<String> = (0..40_000).map(|_| source.next(Some(ms))).collect();
        assert!(ids.is_sorted_by(|left, right| left < right));
        assert!(ids.iter().all(|id| id.starts_with("018bcfe5-6800-7")));
        // Also when other times are asked for in between.
        let earlier = Millis::new(1_600_000_000_000).unwrap();
        let between = source.next(Some(earlier));
        let later = source.next(Some(ms));
        assert!(ids.last().is_some_and(|last| *last < later) && between < later);
    }
}
