//! Sessions as JSONL files: format 4 (formats §1), and legacy ones ([`legacy`], formats §2).
//!
//! An open session keeps structure in memory and payloads in its file (`storage`). A fork
//! never does: it reads a fixed prefix of the file twice (`source`), with an index of bounded
//! size in between (`index`), and writes a file of its own (`dest`).

mod commit;
mod dest;
mod file;
mod folder;
mod header;
mod index;
mod layout;
mod legacy;
mod lines;
mod open;
mod packed;
mod repair;
mod repo;
mod salvage;
mod scratch;
mod source;
mod storage;
mod temp;
mod window;

pub use legacy::{Finding, Repair, SalvageReport};
pub use repo::{JsonlRepo, session_at};
pub use salvage::{SALVAGE_TYPE, Salvaged};
