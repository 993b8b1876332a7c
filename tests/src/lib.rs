//! The gate of Forkline: holds engines against the reference model.

pub mod plain_legacy;
