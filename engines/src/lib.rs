//! Under construction.

pub mod scan;
#[doc(hidden)]
pub mod spill;
