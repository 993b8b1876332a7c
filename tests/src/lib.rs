//! The gate of Forkline: holds engines against the reference model.

pub mod driver;
pub mod gate;
pub mod selftest;
