//! Keyed hashes of ids, branch names and addresses.

use std::hash::{BuildHasher, Hash as _, Hasher, RandomState};

use forkline_model::StoreKind;

/// Bytes of a hash: see invariant 1 of the index.
pub(in super::super) const HASH_BYTES: usize = 12;

/// Bytes that come from the second key.
const LOW_BYTES: usize = HASH_BYTES - size_of::<u64>();

/// A keyed hash.
pub(in super::super) type Hash = [u8; HASH_BYTES];

/// The keys of one fork.
#[derive(Debug, Clone)]
pub(in super::super) struct Keys {
    high: RandomState,
    low: RandomState,
}

impl Keys {
    pub(in super::super) fn new() -> Self {
        Self { high: RandomState::new(), low: RandomState::new() }
    }

    /// An entry's id, as itself, as a parent, as a tip, or as the key of a label.
    pub(in super::super) fn entry(&self, id: &str) -> Hash {
        self.hash(0, id, "")
    }

    /// A branch name: tip, configuration and state share it.
    pub(super) fn branch(&self, name: &str) -> Hash {
        self.hash(1, name, "")
    }

    /// Any other address.
    pub(super) fn address(&self, kind: StoreKind, namespace: &str, key: &str) -> Hash {
        let domain = match kind {
            StoreKind::Value => 2,
            StoreKind::List => 3,
        };
        self.hash(domain, namespace, key)
    }

    fn hash(&self, domain: u8, first: &str, second: &str) -> Hash {
        let of = |state: &RandomState| {
            let mut hasher = state.build_hasher();
            hasher.write_u8(domain);
            first.hash(&mut hasher);
            second.hash(&mut hasher);
            hasher.finish().to_be_bytes()
        };
        let mut hash = [0; HASH_BYTES];
        let (high, low) = hash.split_at_mut(size_of::<u64>());
        high.copy_from_slice(&of(&self.high));
        let from = of(&self.low);
        low.copy_from_slice(from.first_chunk::<LOW_BYTES>().expect("shorter than a hash"));
        hash
    }
}
