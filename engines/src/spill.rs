//! spill
