//! Sessions in this process: the contract over maps.

/// Sessions that live as long as this value.
pub struct MemoryRepo;
